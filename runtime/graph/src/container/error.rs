//! Why a model file cannot be read or written.

use std::fmt::Display;
use std::path::PathBuf;

use super::VERSION;
use crate::error::{Error, ErrorCode, ErrorContext, quoted};
use crate::graph::{GraphError, subgraph_place};

/// Why a model file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// A file cannot be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The bytes are not a safetensors file.
    #[error("it is not a safetensors file, or only part of one: {reason}")]
    WrongBytes {
        /// What stopped the reader.
        reason: String,
    },
    /// A safetensors file without a graph.
    #[error("it has tensors and no graph: metadata \"format\" is {found}, wanted \"udo\"")]
    NoModel {
        /// What the metadata say of the format.
        found: String,
    },
    /// The file is of a later version of the format.
    #[error("it is of format {found}, wanted {VERSION} at most: a newer udo wrote it")]
    Version {
        /// The version of the file.
        found: String,
    },
    /// Bytes are not those that were written.
    #[error("{place} is damaged: its checksum is {found}, wanted {wanted}")]
    Damaged {
        /// What the bytes are.
        place: String,
        /// Their checksum.
        found: String,
        /// The one in the file.
        wanted: String,
    },
    /// The file breaks the format's rules.
    #[error("{place}: {found}, wanted {wanted}")]
    Malformed {
        /// Where in the model.
        place: String,
        /// What is there.
        found: String,
        /// What should be.
        wanted: String,
    },
    /// The graph cannot run.
    #[error("{place}: {reason}")]
    Graph {
        /// The graph.
        place: String,
        /// Why.
        reason: GraphError,
    },
    /// The file has no such network.
    #[error("there is no network {found:?}, wanted one of {}", quoted(.known))]
    NoSuchNetwork {
        /// The name asked for.
        found: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The file has several networks.
    #[error("it has several networks, wanted the name of one of {}", quoted(.known))]
    SeveralNetworks {
        /// Their names.
        known: Vec<String>,
    },
    /// The network has no such stage.
    #[error("network {network:?} has no stage {found}, wanted one of 0 to {last}")]
    NoSuchStage {
        /// The network.
        network: String,
        /// The stage asked for.
        found: usize,
        /// Its last stage.
        last: usize,
    },
    /// The network has several stages, and nothing says which.
    #[error("network {network:?} has several stages, wanted shapes of one of {}", .known.join("; "))]
    SeveralStages {
        /// The network.
        network: String,
        /// The shapes of its stages.
        known: Vec<String>,
    },
    /// No stage of the network takes the shapes of the inputs.
    #[error("no stage of network {network:?} takes {found}, wanted one of {}", .known.join("; "))]
    NoStage {
        /// The network.
        network: String,
        /// The shapes.
        found: String,
        /// The shapes of its stages.
        known: Vec<String>,
    },
    /// Two files cannot be one.
    #[error("{place}: {found}, wanted {wanted}")]
    Conflict {
        /// What they both have.
        place: String,
        /// How they disagree.
        found: String,
        /// What could be combined.
        wanted: String,
    },
}

impl From<ContainerError> for Error {
    fn from(error: ContainerError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl ContainerError {
    /// What kind of refusal it is.
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

    /// What is found in a place is not what is wanted there.
    pub fn malformed(place: impl Display, found: impl Display, wanted: impl Display) -> Self {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        Self::Malformed { place: place.to_string(), found, wanted }
    }

    /// The same, said of a subgraph of the node called `node`.
    pub(super) fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        match self {
            Self::Malformed { place, found, wanted } => {
                let place = format!("{}: {place}", subgraph_place(node, attribute, index));
                Self::Malformed { place, found, wanted }
            }
            other => other,
        }
    }

    /// What the user can do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NoModel { .. } => {
                Some("`udo convert MODEL.onnx -o MODEL.udm` makes a model file")
            }
            Self::WrongBytes { .. } | Self::Damaged { .. } => {
                Some("copy the file again, or make it anew with `udo convert`")
            }
            Self::Version { .. } => Some("use that udo, or convert the model again with this one"),
            Self::NoSuchNetwork { .. } | Self::SeveralNetworks { .. } => {
                Some("choose one with --network NAME; `udo model info` lists them")
            }
            Self::SeveralStages { .. } => Some(
                "give the input itself, its shape with --shape, or the stage's number with --stage",
            ),
            Self::NoSuchStage { .. } | Self::NoStage { .. } => {
                Some("`udo model info` lists the stages; `udo convert --input-shape` makes others")
            }
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Malformed { .. }
            | Self::Graph { .. }
            | Self::Conflict { .. } => None,
        }
    }
}
