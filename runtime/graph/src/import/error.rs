//! Why a file gave no graph.

use std::fmt::{Arguments, Display};
use std::io;
use std::path::PathBuf;

use super::formats;
use crate::container::ContainerError;
use crate::error::{Coded, Error, ErrorCode, ErrorContext};
use crate::graph::{GraphError, subgraph_place};

/// Why a file gave no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Neither a file's name nor its bytes say what it is.
    #[error("{name:?} is of no known format, wanted one of {}", formats())]
    UnknownFormat {
        /// What the bytes are called.
        name: String,
    },
    /// The bytes are not what they should be.
    #[error("{name} is not {wanted}, or only part of one: {reason}")]
    WrongBytes {
        /// What the bytes are called.
        name: String,
        /// What they should be.
        wanted: &'static str,
        /// What stopped the reader.
        reason: String,
    },
    /// The file breaks its format's rules.
    #[error("{place}: {found}, wanted {wanted}")]
    Malformed {
        /// Where in the model.
        place: String,
        /// What is there.
        found: String,
        /// What should be.
        wanted: String,
    },
    /// The file is good, but has something in it that this runtime does not do.
    #[error("{place}: {found} is not supported, wanted {wanted}")]
    Unsupported {
        /// Where in the model.
        place: String,
        /// What is there.
        found: String,
        /// What could be.
        wanted: String,
    },
    /// A model file cannot be read.
    #[error("{name:?}: {reason}")]
    Container {
        /// What the bytes are called.
        name: String,
        /// Why.
        reason: ContainerError,
    },
    /// The nodes do not make a graph that can run.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl ImportError {
    pub(super) fn malformed(
        place: Arguments<'_>,
        found: impl Display,
        wanted: impl Display,
    ) -> Self {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        Self::Malformed { place: place.to_string(), found, wanted }
    }

    pub(super) fn unsupported(
        place: Arguments<'_>,
        found: impl Display,
        wanted: impl Display,
    ) -> Self {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        Self::Unsupported { place: place.to_string(), found, wanted }
    }

    /// The same, said of a subgraph of the node called `node`.
    pub(super) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        let within = |place| format!("{}: {place}", subgraph_place(node, attribute, index));
        match self {
            Self::WrongBytes { name, wanted, reason } => {
                Self::WrongBytes { name: within(name), wanted, reason }
            }
            Self::Malformed { place, found, wanted } => {
                Self::Malformed { place: within(place), found, wanted }
            }
            Self::Unsupported { place, found, wanted } => {
                Self::Unsupported { place: within(place), found, wanted }
            }
            Self::Graph(error) => Self::Graph(error.inside(node, attribute, index)),
            // They name the file.
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
