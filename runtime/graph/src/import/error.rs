//! Errors of imports.

use std::fmt::{Arguments, Display};
use std::io;
use std::path::PathBuf;

use super::formats;
use crate::container::ContainerError;
use crate::error::{Coded, Error, ErrorCode, ErrorContext};
use crate::graph::{GraphError, subgraph_place};

/// The reason why a model could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Neither the name of the file nor its bytes identify a known format.
    #[error("{name:?} has an unknown format, expected one of {}", formats())]
    UnknownFormat {
        /// The name of the bytes.
        name: String,
    },
    /// The bytes cannot be decoded.
    #[error("{name} is not {expected}, or is truncated: {reason}")]
    WrongBytes {
        /// The name of the bytes.
        name: String,
        /// The expected format.
        expected: &'static str,
        /// The decoder's message.
        reason: String,
    },
    /// The model violates the rules of its format.
    #[error("{place}: {found}, expected {expected}")]
    Malformed {
        /// Where in the model.
        place: String,
        /// The part that is wrong.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The model is valid, but uses something that is not supported.
    #[error("{place}: {found} is not supported, expected {expected}")]
    Unsupported {
        /// Where in the model.
        place: String,
        /// The unsupported part.
        found: String,
        /// The supported alternatives.
        expected: String,
    },
    /// A model file cannot be read.
    #[error("{name:?}: {reason}")]
    Container {
        /// The name of the bytes.
        name: String,
        /// The cause.
        reason: ContainerError,
    },
    /// The graph is invalid.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        Self::from_source(error.code(), &error)
    }
}

impl ImportError {
    pub(super) fn malformed(
        place: Arguments<'_>,
        found: impl Display,
        expected: impl Display,
    ) -> Self {
        let (found, expected) = (found.to_string(), expected.to_string());
        Self::Malformed { place: place.to_string(), found, expected }
    }

    pub(super) fn unsupported(
        place: Arguments<'_>,
        found: impl Display,
        expected: impl Display,
    ) -> Self {
        let (found, expected) = (found.to_string(), expected.to_string());
        Self::Unsupported { place: place.to_string(), found, expected }
    }

    /// Returns the same error located in a subgraph of the node called `node`.
    pub(super) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        let within = |place| format!("{}: {place}", subgraph_place(node, attribute, index));
        match self {
            Self::WrongBytes { name, expected, reason } => {
                Self::WrongBytes { name: within(name), expected, reason }
            }
            Self::Malformed { place, found, expected } => {
                Self::Malformed { place: within(place), found, expected }
            }
            Self::Unsupported { place, found, expected } => {
                Self::Unsupported { place: within(place), found, expected }
            }
            Self::Graph(error) => Self::Graph(error.inside(node, attribute, index)),
            // These errors name the file.
            Self::Read { .. } | Self::UnknownFormat { .. } | Self::Container { .. } => self,
        }
    }
}

impl Coded for ImportError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::OutOfMemory => {
                ErrorCode::OutOfMemory
            }
            Self::Read { .. } => ErrorCode::InvalidPath,
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::UnknownFormat { .. }
            | Self::WrongBytes { .. }
            | Self::Malformed { .. }
            | Self::Container { .. }
            | Self::Graph(_) => ErrorCode::InvalidFile,
        }
    }
}
