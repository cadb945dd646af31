//! Graphs in the form in which they print, as bug reports and tests hold them.

use super::{ImportError, ImportOptions, ModelBytes};
use crate::graph::{Graph, ParseError};

/// Whether bytes start as a printed graph does.
pub(super) fn sniff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"graph ")
}

/// The graph in such a text, verified; it keeps the name that the text says.
///
/// # Errors
/// Bytes that are no text, a line that cannot be read, or a graph that cannot run.
pub(super) fn import(
    bytes: &ModelBytes,
    name: &str,
    _: &ImportOptions,
) -> Result<Graph, ImportError> {
    let text = std::str::from_utf8(bytes.as_ref()).map_err(|error| ImportError::WrongBytes {
        name: format!("{name:?}"),
        wanted: "a graph in UTF-8",
        reason: error.to_string(),
    })?;
    Graph::parse(text).map_err(|error| match error {
        ParseError::Line { line, found, wanted } => {
            let place = format!("{name:?}, line {line}");
            ImportError::Malformed { place, found: format!("{found:?}"), wanted }
        }
        ParseError::Graph(error) => error.into(),
    })
}
