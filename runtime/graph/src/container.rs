//! Model files, `.udm`: networks with their weights, each for one set of input shapes or several.
//!
//! Such a file is a safetensors file. Weights are its tensors, aligned and mapped; graphs are JSON in its metadata, and name the
//! tensors that they hold, so that what is equal stands there once. `docs/model-format.md` has every key.
//!
//! Knows what a file says, not what operators mean. Bytes are not trusted: what a reader is told is checked before it is used.
#![deny(clippy::as_conversions)]

pub mod checksum;
mod combine;
mod error;
mod form;
mod prepared;
mod read;
pub mod safetensors;
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

use form::SourceForm;

/// The version of the format that is written; older ones are read.
pub(crate) const VERSION: u32 = 1;

/// What the metadata call the format.
const FORMAT: &str = "udo";

/// Whether bytes start as a model file does.
pub fn sniff(bytes: &[u8]) -> bool {
    safetensors::sniff(bytes)
}

/// All that a model file holds.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The networks, whose names differ.
    pub networks: Vec<Network>,
    /// Bytes that go with them.
    pub sections: Vec<Section>,
}

/// A network: what a caller names.
#[derive(Clone, Debug)]
pub struct Network<G = StoredGraph> {
    /// Its name.
    pub name: String,
    /// What it is for different shapes of its inputs, at least one.
    pub stages: Vec<Stage<G>>,
}

/// A network for one set of input shapes.
#[derive(Clone, Debug)]
pub struct Stage<G = StoredGraph> {
    /// The shapes of inputs, by name; of others the graph says what is known.
    pub shapes: BTreeMap<String, Vec<Extent>>,
    /// What it was made of.
    pub source: Provenance,
    /// The graph.
    pub graph: G,
}

/// Where a stage comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the file that was converted.
    pub file: String,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The program that converted it, and its version.
    pub tool: String,
    /// The flags that it was given.
    pub flags: Vec<String>,
}

impl Provenance {
    /// What says that `tool` made a stage of a file with these bytes.
    pub fn new(file: &str, bytes: &ModelBytes, tool: &str, flags: Vec<String>) -> Self {
        let mut sha256 = String::new();
        for byte in Sha256::digest(bytes.as_ref()) {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { file: file.to_owned(), sha256, tool: tool.to_owned(), flags }
    }

    fn form(&self) -> SourceForm {
        let Self { file, sha256, tool, flags } = self.clone();
        SourceForm { file, sha256, tool, flags }
    }

    fn of(form: &SourceForm) -> Self {
        let SourceForm { file, sha256, tool, flags } = form.clone();
        Self { file, sha256, tool, flags }
    }
}

/// A graph whose nodes have ids that stay, whatever becomes of their places.
#[derive(Clone, Debug)]
pub struct StoredGraph {
    /// The graph.
    pub graph: Graph,
    /// The id of each node: those of a node's subgraphs come behind its own.
    pub ids: Vec<u32>,
}

impl StoredGraph {
    /// A graph that is stored for the first time.
    pub fn new(graph: Graph) -> Self {
        let ids = (0..).take(nodes(&graph)).collect();
        Self { graph, ids }
    }
}

/// How many nodes there are, those of subgraphs included.
fn nodes(graph: &Graph) -> usize {
    let inner = graph.nodes.iter().flat_map(Node::subgraphs);
    graph.nodes.len() + inner.map(|of| nodes(of.graph)).sum::<usize>()
}

/// Bytes that go with networks, and that only who asks for them by name knows.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name.
    pub name: String,
    /// The network that it belongs to; none where it belongs to all.
    pub network: Option<String>,
    /// The bytes, a tensor of one dimension.
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

    /// The checksum of all texts but itself, in the order of their keys.
    pub(super) fn sum<'a>(metadata: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
        let metadata: BTreeMap<_, _> = metadata.filter(|(key, _)| *key != CHECKSUM).collect();
        let of = |sum, (key, text): (&str, &str)| {
            checksum::sum(checksum::sum(sum, key.as_bytes()), text.as_bytes())
        };
        metadata.into_iter().fold(0, of)
    }

    /// The checksum of the elements of a tensor.
    pub(super) fn sum_of(dtype: DType, bytes: &[u8]) -> u64 {
        checksum::sum(checksum::sum(0, dtype.name().as_bytes()), bytes)
    }
}

#[cfg(test)]
mod tests;
