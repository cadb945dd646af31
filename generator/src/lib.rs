//! Turns a UDO config into an operator package.
//!
//! Generation has three steps; the first two have no side effects. [`read()`] turns config files into a
//! checked [`config::Config`], or returns every fault of every file. [`plan()`] turns a package into
//! the files of its folder. [`write()`] puts the files on disk. It does not overwrite edits of the package's
//! author, and does not write outside the folder.
#![forbid(unsafe_code)]

mod check;
mod code;
pub mod config;
pub mod diagnostic;
mod draft;
mod grammar;
mod json;
pub mod names;
#[cfg(test)]
mod page;
mod paths;
mod pattern;
mod plan;
mod read;
mod reference;
mod report;
mod schema;
mod source;
mod spelling;
mod stamp;
mod templates;
mod view;
mod write;
mod xml;

pub use crate::{
    config::Config,
    diagnostic::{ConfigError, Diagnostic, Kind, Position, Severity},
    paths::{ExpandError, expand},
    pattern::{Pattern, VARIABLES},
    plan::{
        File, Inherited, Moved, Note, Options, Owner, Sdk, There, Tree, TreeError, plan,
        toml_string,
    },
    read::read,
    reference::program as reference,
    schema::schema,
    source::{DecodeError, Mode, Source, decode},
    stamp::Stamp,
    templates::{RenderError, Templates, TemplatesError, TemplatesOwner},
    view::OPENCL_SUPPORT,
    write::{
        Begun, Change, Drift, ExistingFolder, Origin, Report, Update, Waiting, WriteError,
        apply_all, read_origin, recover, survey, there, write,
    },
};
