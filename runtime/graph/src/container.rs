//! Model files, `.udm`: networks with their weights, each with one or more stages for different input shapes.
//!
//! A model file is a safetensors file. Its tensors are the weights, aligned so that they can be memory-mapped. Graphs are JSON
//! in its metadata and refer to tensors by name, so equal tensors are stored once. `docs/model-format.md` describes every key.
//!
//! This module knows the syntax of files, not the meaning of operators. Files are not trusted: the reader checks every value
//! before it uses it.
#![deny(clippy::as_conversions)]

pub mod checksum;
mod combine;
mod error;
mod prepared;
mod read;
pub mod safetensors;
mod schema;
mod stage;
mod write;

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::graph::{Graph, Node, NodeReads};
use crate::memory::{ModelBytes, Tensor};

pub use error::ContainerError;
pub use prepared::COMPILED;
pub use read::Container;
pub use stage::{BoundStage, Extent, StageChoice, ready};

use schema::SourceJson;

/// The version of the format that is written. Older versions can be read.
pub(crate) const VERSION: u32 = 1;

/// The name of the format in the metadata.
const FORMAT: &str = "udo";

/// Whether bytes begin like a model file.
pub fn sniff(bytes: &[u8]) -> bool {
    safetensors::sniff(bytes)
}

/// The content of a model file.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The networks. Their names are unique.
    pub networks: Vec<Network>,
    /// Additional data.
    pub sections: Vec<Section>,
}

/// A named network.
#[derive(Clone, Debug)]
pub struct Network<G = StoredGraph> {
    /// Its name.
    pub name: String,
    /// The stages: the network for different input shapes. At least one.
    pub stages: Vec<Stage<G>>,
}

/// A network for certain input shapes.
#[derive(Clone, Debug)]
pub struct Stage<G = StoredGraph> {
    /// The shapes of inputs, by name. Inputs that are not listed have the shape that the graph declares.
    pub shapes: BTreeMap<String, Vec<Extent>>,
    /// The origin of the stage.
    pub source: Provenance,
    /// The graph.
    pub graph: G,
}

/// The origin of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the file that was converted.
    pub file: String,
    /// The SHA-256 digest of that file, in hexadecimal digits.
    pub sha256: String,
    /// The program that converted it, and its version.
    pub tool: String,
    /// The flags of the conversion.
    pub flags: Vec<String>,
}

impl Provenance {
    /// Records that `tool` converted a file with these bytes.
    pub fn new(file: &str, bytes: &ModelBytes, tool: &str, flags: Vec<String>) -> Self {
        let mut sha256 = String::new();
        for byte in Sha256::digest(bytes.as_ref()) {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { file: file.to_owned(), sha256, tool: tool.to_owned(), flags }
    }

    fn to_json(&self) -> SourceJson {
        let Self { file, sha256, tool, flags } = self.clone();
        SourceJson { file, sha256, tool, flags }
    }

    fn from_json(json: &SourceJson) -> Self {
        let SourceJson { file, sha256, tool, flags } = json.clone();
        Self { file, sha256, tool, flags }
    }
}

/// A graph and the permanent ids of its nodes. Ids do not change when nodes are moved.
#[derive(Clone, Debug)]
pub struct StoredGraph {
    /// The graph.
    pub graph: Graph,
    /// The id of each node. A node's id precedes those of the nodes in its subgraphs.
    pub ids: Vec<u32>,
}

impl StoredGraph {
    /// Numbers the nodes of a graph that is stored for the first time.
    pub fn new(graph: Graph) -> Self {
        let ids = (0..).take(count_nodes(&graph)).collect();
        Self { graph, ids }
    }
}

/// Counts the nodes of a graph and its subgraphs.
fn count_nodes(graph: &Graph) -> usize {
    let subgraphs = graph.nodes.iter().flat_map(Node::subgraphs);
    graph.nodes.len() + subgraphs.map(|subgraph| count_nodes(subgraph.graph)).sum::<usize>()
}

/// Additional data of a model file, such as precompiled programs. Readers that do not know a section ignore it.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// The network that it belongs to; `None`: all networks.
    pub network: Option<String>,
    /// The data, a tensor of rank 1 and type u8.
    pub bytes: Tensor,
}

/// The keys of the metadata.
mod key {
    use std::collections::BTreeMap;

    use udo_api::DType;

    use super::checksum;

    pub(super) const FORMAT: &str = "format";
    pub(super) const VERSION: &str = "udo.version";
    pub(super) const GRAPHS: &str = "udo.graphs";
    pub(super) const NETWORKS: &str = "udo.networks";
    pub(super) const SECTIONS: &str = "udo.sections";
    pub(super) const TENSORS: &str = "udo.tensors";
    pub(super) const CHECKSUM: &str = "udo.checksum";

    /// Computes the checksum of all metadata except the checksum itself, in the order of their keys.
    pub(super) fn sum<'a>(metadata: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
        let metadata: BTreeMap<_, _> = metadata.filter(|(key, _)| *key != CHECKSUM).collect();
        let add_entry = |sum, (key, text): (&str, &str)| {
            checksum::sum(checksum::sum(sum, key.as_bytes()), text.as_bytes())
        };
        metadata.into_iter().fold(0, add_entry)
    }

    /// Computes the checksum of a tensor's element type and elements.
    pub(super) fn sum_tensor(dtype: DType, bytes: &[u8]) -> u64 {
        checksum::sum(checksum::sum(0, dtype.name().as_bytes()), bytes)
    }
}

#[cfg(test)]
mod tests;
