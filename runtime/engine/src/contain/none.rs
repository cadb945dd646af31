//! Contained packages where the system has no memory that processes share as Linux has it: there are none, and who asks is told.

#[path = "options.rs"]
mod options;

use std::io;
use std::path::Path;

use crate::package::{OpenError, Tables};
pub use options::Containment;

/// No worker is ever made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Worker {}

/// Serves nobody.
///
/// # Errors
/// Always.
pub fn serve(_: u32) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

pub(crate) fn worker(path: &Path, _: &str, of: &Containment) -> Result<&'static Worker, OpenError> {
    of.program(path)?;
    let reason = "this system has no containment, which needs Linux".to_owned();
    Err(OpenError::Contained { path: path.to_owned(), reason })
}

pub(crate) fn open(worker: &'static Worker, _: &Path, _: &str) -> Result<Tables, OpenError> {
    match *worker {}
}
