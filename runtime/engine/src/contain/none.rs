//! Containment on other systems than Linux: not supported.

#[path = "options.rs"]
mod options;

use std::io;
use std::path::Path;

use crate::package::{OpenError, Tables};
pub use options::Containment;

/// A worker cannot exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Worker {}

/// Fails: not supported on this system.
///
/// # Errors
/// Always fails.
pub fn serve(_: u32) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

pub(crate) fn worker(path: &Path, _: &str, of: &Containment) -> Result<&'static Worker, OpenError> {
    of.program(path)?;
    let reason = "containment is not supported on this system; it requires Linux".to_owned();
    Err(OpenError::Contained { path: path.to_owned(), reason })
}

pub(crate) fn open(worker: &'static Worker, _: &Path, _: &str) -> Result<Tables, OpenError> {
    match *worker {}
}
