//! ONNX files in, graphs out.
//!
//! Knows what files say, not what operators mean: which operators, attributes and shapes are
//! good is for the registry to judge.
#![deny(clippy::as_conversions)]

mod attribute;
mod graph;
mod model;
pub mod proto;
mod tensor;
mod types;

use std::fmt::{Arguments, Display};
use std::path::{Path, PathBuf};

pub use tensor::{code_of, dtype_of, tensor_pb, tensor_to_pb, to_proto};

use crate::graph::{Graph, GraphError, subgraph_place};

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Extents for dimensions that the model only names.
    pub dims: Vec<(String, usize)>,
    /// The folder where elements that the model keeps in other files lie; nothing refuses them.
    pub folder: Option<PathBuf>,
}

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
        source: std::io::Error,
    },
    /// The bytes are not the message that they should be.
    #[error("{name} is not an ONNX {wanted}, or only part of one: {reason}")]
    NotOnnx {
        /// What the bytes are called.
        name: String,
        /// The message wanted.
        wanted: &'static str,
        /// What stopped the reader.
        reason: String,
    },
    /// The file breaks ONNX's rules.
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
    /// An extent was given for a dimension that the model does not have.
    #[error("no input has a dimension called {name:?}, wanted one of {known:?}")]
    NoSuchDim {
        /// The name given.
        name: String,
        /// The names in the model, in its order.
        known: Vec<String>,
    },
    /// The nodes do not make a graph that can run.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl ImportError {
    fn malformed(place: Arguments<'_>, found: impl Display, wanted: impl Display) -> Self {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        Self::Malformed { place: place.to_string(), found, wanted }
    }

    fn unsupported(place: Arguments<'_>, found: impl Display, wanted: impl Display) -> Self {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        Self::Unsupported { place: place.to_string(), found, wanted }
    }

    /// The same, said of a subgraph of the node called `node`.
    fn inside(self, node: &str, attribute: &str, index: Option<usize>) -> Self {
        let within = |place| format!("{}: {place}", subgraph_place(node, attribute, index));
        match self {
            Self::NotOnnx { name, wanted, reason } => {
                Self::NotOnnx { name: within(name), wanted, reason }
            }
            Self::Malformed { place, found, wanted } => {
                Self::Malformed { place: within(place), found, wanted }
            }
            Self::Unsupported { place, found, wanted } => {
                Self::Unsupported { place: within(place), found, wanted }
            }
            Self::Graph(error) => Self::Graph(error.inside(node, attribute, index)),
            // They name the file, and what the user said.
            Self::Read { .. } | Self::NoSuchDim { .. } => self,
        }
    }
}

/// The graph in the bytes of an ONNX file; `name` is what to call it in messages.
///
/// `Constant` nodes become constants, as do inputs that the model has elements for. Optional
/// inputs and outputs left out at a node's end are dropped. Subgraphs capture what they read of outer
/// graphs; a name that a subgraph has for a value of its own means that one in all of it.
///
/// # Errors
/// Bytes that are no model, a model that breaks ONNX's rules, or one with something in it that
/// the graph cannot say: functions, sequences, sparse tensors, texts, narrow floats.
pub fn onnx(bytes: &[u8], name: &str, options: &ImportOptions) -> Result<Graph, ImportError> {
    model::graph(bytes, name, options)
}

/// The graph in an ONNX file, which is called after the file.
///
/// # Errors
/// A file that cannot be read, and as for [`onnx`].
pub fn onnx_file(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let mut options = options.clone();
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    options.folder.get_or_insert_with(|| parent.unwrap_or(Path::new(".")).to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    onnx(&bytes, &name, &options)
}

#[cfg(test)]
mod tests;
