//! Errors of model files.

use std::fmt::Display;
use std::path::PathBuf;

use super::VERSION;
use crate::error::{Error, ErrorCode, ErrorContext, quoted};
use crate::graph::{GraphError, subgraph_place};

/// The reason why a model file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The bytes are not a safetensors file.
    #[error("it is not a safetensors file, or is truncated: {reason}")]
    WrongBytes {
        /// The parser's message.
        reason: String,
    },
    /// A safetensors file without a graph.
    #[error("it has tensors and no graph: metadata \"format\" is {found}, expected \"udo\"")]
    NoModel {
        /// The value of `format` in the metadata.
        found: String,
    },
    /// The file was written in a later version of the format.
    #[error("it has format version {found}, expected at most {VERSION}: a newer udo wrote it")]
    Version {
        /// The version of the file.
        found: String,
    },
    /// A checksum does not match.
    #[error("{place} is damaged: its checksum is {found}, expected {expected}")]
    Damaged {
        /// The damaged part.
        place: String,
        /// The checksum of the bytes.
        found: String,
        /// The checksum recorded in the file.
        expected: String,
    },
    /// The file violates the rules of its format.
    #[error("{place}: {found}, expected {expected}")]
    Malformed {
        /// The wrong part.
        place: String,
        /// The value found.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The graph is invalid.
    #[error("{place}: {reason}")]
    Graph {
        /// The graph.
        place: String,
        /// The cause.
        reason: GraphError,
    },
    /// The file has no such network.
    #[error("network {found:?} not found, expected one of {}", quoted(.known))]
    NoSuchNetwork {
        /// The requested name.
        found: String,
        /// The names of the file's networks.
        known: Vec<String>,
    },
    /// The file has several networks, and no name was given.
    #[error("the file has several networks, expected the name of one of {}", quoted(.known))]
    SeveralNetworks {
        /// Their names.
        known: Vec<String>,
    },
    /// The network has no stage of this number. A stage is the network for one set of input shapes.
    #[error("network {network:?} has no stage {found}, expected 0 to {last}")]
    NoSuchStage {
        /// The network.
        network: String,
        /// The requested stage.
        found: usize,
        /// The index of its last stage.
        last: usize,
    },
    /// The network has several stages, and the given shapes do not select one.
    #[error("network {network:?} has several stages, expected the shapes of one of {}", .known.join("; "))]
    SeveralStages {
        /// The network.
        network: String,
        /// The shapes of its stages.
        known: Vec<String>,
    },
    /// No stage of the network fits the shapes of the inputs.
    #[error("no stage of network {network:?} fits {found}, expected one of {}", .known.join("; "))]
    NoStage {
        /// The network.
        network: String,
        /// The given shapes.
        found: String,
        /// The shapes of its stages.
        known: Vec<String>,
    },
    /// Two model files cannot be combined into one.
    #[error("{place}: {found}, expected {expected}")]
    Conflict {
        /// The conflicting part.
        place: String,
        /// The part in the second file.
        found: String,
        /// The condition for combining.
        expected: String,
    },
}

impl From<ContainerError> for Error {
    fn from(error: ContainerError) -> Self {
        Self::from_error(error.code(), &error)
    }
}

impl ContainerError {
    /// Returns the code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Read { .. } | Self::Write { .. } => ErrorCode::InvalidPath,
            Self::NoSuchNetwork { .. }
            | Self::SeveralNetworks { .. }
            | Self::NoSuchStage { .. } => ErrorCode::InvalidArgument,
            Self::SeveralStages { .. } | Self::NoStage { .. } => ErrorCode::ShapeMismatch,
            Self::WrongBytes { .. }
            | Self::NoModel { .. }
            | Self::Version { .. }
            | Self::Damaged { .. }
            | Self::Malformed { .. }
            | Self::Graph { .. }
            | Self::Conflict { .. } => ErrorCode::InvalidFile,
        }
    }

    /// Creates an error about a part of the file: where, what was found, and what was expected.
    pub fn malformed(place: impl Display, found: impl Display, expected: impl Display) -> Self {
        let (found, expected) = (found.to_string(), expected.to_string());
        Self::Malformed { place: place.to_string(), found, expected }
    }

    /// Prefixes the place of [`ContainerError::Malformed`] with the subgraph in `attribute` of the node called `node`, and
    /// its `index` if the attribute is a list. Returns other errors unchanged.
    pub(super) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        match self {
            Self::Malformed { place, found, expected } => {
                let place = format!("{}: {place}", subgraph_place(node, attribute, index));
                Self::Malformed { place, found, expected }
            }
            other => other,
        }
    }

    /// Returns the suggested next step.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NoModel { .. } => {
                Some("`udo convert MODEL.onnx -o MODEL.udm` creates a model file")
            }
            Self::WrongBytes { .. } | Self::Damaged { .. } => {
                Some("copy the file again, or convert the model again with `udo convert`")
            }
            Self::Version { .. } => {
                Some("use the newer udo, or convert the model again with this one")
            }
            Self::NoSuchNetwork { .. } | Self::SeveralNetworks { .. } => {
                Some("choose one with --network NAME; `udo model info` lists them")
            }
            Self::SeveralStages { .. } => {
                Some("give the input, its shape with --shape, or the stage's number with --stage")
            }
            Self::NoSuchStage { .. } | Self::NoStage { .. } => {
                Some("`udo model info` lists the stages; `udo convert --input-shape` adds others")
            }
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Malformed { .. }
            | Self::Graph { .. }
            | Self::Conflict { .. } => None,
        }
    }
}
