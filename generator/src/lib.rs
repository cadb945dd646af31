//! Turns a UDO config into an operator package: config in, files out.
//!
//! [`read()`] is the first half: config files in, a checked [`config::Config`] or every fault of every
//! file out. Nothing here touches the disk, the network or the environment.
#![forbid(unsafe_code)]

mod check;
pub mod config;
pub mod diagnostic;
mod draft;
mod json;
pub mod names;
mod read;
mod report;
mod spelling;

pub use crate::{
    config::Config,
    diagnostic::{ConfigError, Diagnostic, Kind, Position, Severity},
    read::{Mode, Source, read},
};
