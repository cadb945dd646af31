//! Rewrites of a typed graph, a row each, in the order in which they run. Operators are named only under `patterns`.

mod candidate;
mod patterns;

use crate::graph::{GraphError, NodeId};
use crate::registry::Registry;
use crate::resolve::TypedGraph;

pub use candidate::{Candidate, Fusion, Host};
use candidate::{Uses, apply};
use patterns::{batch_norm, epilogue, qdq};

/// One rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// What to call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    /// How.
    pub rewrite: Rewrite,
}

/// How a pass goes about it.
#[derive(Clone, Copy, Debug)]
pub enum Rewrite {
    /// It looks at the whole graph.
    Graph(fn(&mut TypedGraph)),
    /// It is asked of each node whether an earlier one can do its work.
    Fusion(fn(&Candidate<'_>) -> Option<Fusion>),
}

/// All passes, in order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "encodings",
        does: "propagates the encodings that quantize and dequantize nodes state to the values around them",
        rewrite: Rewrite::Graph(qdq::propagate),
    },
    Pass {
        name: "batch_norm",
        does: "folds normalizations by constants into the weights of the convolution before",
        rewrite: Rewrite::Fusion(batch_norm::fold),
    },
    Pass {
        name: "epilogue",
        does: "offers biases, residuals and activations to the kernel of the node before, to do before it stores",
        rewrite: Rewrite::Fusion(epilogue::attach),
    },
];

/// A pass that left a graph that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pass {pass} broke the graph")]
pub struct PassError {
    /// The pass.
    pub pass: &'static str,
    /// What is wrong.
    #[source]
    pub source: GraphError,
}

/// Runs all passes; debug builds verify the graph after each.
///
/// # Errors
/// A pass broke the graph, which is a fault of this library.
pub fn run(graph: &mut TypedGraph, registry: &Registry) -> Result<(), PassError> {
    for pass in PASSES {
        match pass.rewrite {
            Rewrite::Graph(rewrite) => rewrite(graph),
            Rewrite::Fusion(fusion) => fuse(graph, registry, fusion),
        }
        if cfg!(debug_assertions) {
            graph.verify().map_err(|source| PassError { pass: pass.name, source })?;
        }
    }
    Ok(())
}

/// Fuses every node for which `fusion` finds another to do its work.
fn fuse(graph: &mut TypedGraph, registry: &Registry, fusion: fn(&Candidate<'_>) -> Option<Fusion>) {
    let mut uses = Uses::of(graph);
    for id in (0..graph.nodes.len()).map(NodeId::at) {
        let found = Candidate::at(graph, registry, &uses, id).and_then(|node| fusion(&node));
        if let Some(found) = found {
            apply(graph, &mut uses, id, found);
        }
    }
}
