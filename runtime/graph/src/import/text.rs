//! Graphs in their printed text format, which bug reports and tests use.

use super::{ImportError, ImportOptions, ModelBytes};
use crate::graph::{Graph, ParseError};

/// Whether bytes begin like a printed graph.
pub(super) fn sniff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"graph ")
}

/// Parses a printed graph and verifies it. The graph keeps the name in its text.
///
/// # Errors
/// Fails if the bytes are not UTF-8, a line cannot be parsed, or the graph is invalid.
pub(super) fn import(
    bytes: &ModelBytes,
    name: &str,
    _: &ImportOptions,
) -> Result<Graph, ImportError> {
    let text = std::str::from_utf8(bytes.as_ref()).map_err(|error| ImportError::WrongBytes {
        name: format!("{name:?}"),
        expected: "a graph in UTF-8",
        reason: error.to_string(),
    })?;
    Graph::parse(text).map_err(|error| match error {
        ParseError::Line { line, found, expected } => {
            let place = format!("{name:?}, line {line}");
            ImportError::Malformed { place, found: format!("{found:?}"), expected }
        }
        ParseError::Graph(error) => error.into(),
    })
}
