//! The commands by themselves: what all have in common, and those for packages that are there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
mod command_line;
mod commands;
mod demo;
mod ops;
mod trust;
mod view;
