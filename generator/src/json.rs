//! The JSON front end: parses config files into drafts, the unchecked form of packages.
//!
//! It checks field names and JSON types. `check` later checks how values depend on each other.

mod document;
mod fields;
mod literal;
mod syntax;

use serde_json::value::RawValue;

use crate::{
    draft::{FileId, Package},
    report::Report,
};
use document::{Node, Reader};

/// Reads the packages of one file; faults go to the report.
pub(crate) fn read(text: &str, file: FileId, report: &mut Report<'_>) -> Vec<Package> {
    let Some(text) = syntax::repair(text, file, report) else { return Vec::new() };
    // `repair` returns only valid JSON.
    let Ok(root) = serde_json::from_str::<&RawValue>(&text) else { return Vec::new() };
    let mut reader = Reader { text: &text, file, report };
    fields::packages(&mut reader, &Node { raw: root, path: "$".to_owned() })
}
