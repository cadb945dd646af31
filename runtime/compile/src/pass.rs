//! Rewrites of a typed graph, a row each, in the order in which they run. Operators are named only under `patterns`.

mod candidate;
mod common;
mod elide;
mod extent;
mod extents;
mod patterns;
mod replace;
mod unread;
mod uses;

use std::collections::BTreeSet;

use udo_api::Core;

use crate::compiler::Compiler;
pub use crate::options::PassOptions;
use crate::resolve::{BoundNode, LayoutRule, TypedGraph};
use udo_graph::graph::{GraphError, NodeId, ValueId};

pub use candidate::{Candidate, Fusion, Host};
pub use extent::Extent;
pub use extents::Extents;
use patterns::{
    activations, attention, epilogue, layer_norm, layouts, pads, qdq, quantized, rms_norm, same,
    scales,
};
pub use replace::{Operand, Replacement};
use uses::Uses;

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
    /// It looks at the whole graph, and says how often it found something.
    Graph(fn(&mut TypedGraph) -> usize),
    /// It is asked of each node, the last one first, whether another does what it does by way of nodes before it.
    Pattern(fn(&Candidate<'_>) -> Option<Replacement>),
    /// The same, and it says why nodes that it is about stay.
    Groups(fn(&Candidate<'_>) -> Found),
    /// It is asked of each node what that makes of operands whose channels lie last, if its operator does not say.
    Layout(fn(&Candidate<'_>) -> Option<LayoutRule>),
    /// It is asked of each node which value its output is.
    Elision(fn(&Candidate<'_>) -> Option<ValueId>),
    /// It is asked of each node whether another one can do its work.
    Fusion(fn(&Candidate<'_>) -> Option<Fusion>),
}

/// The pass that says how fixed-point cores may store values.
const ENCODINGS: &str = "encodings";

/// All passes, in order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "same",
        does: "takes out nodes whose output is an earlier value",
        rewrite: Rewrite::Elision(same::find),
    },
    Pass {
        name: "unread",
        does: "takes out nodes that make nothing which anybody reads",
        rewrite: Rewrite::Graph(unread::remove),
    },
    Pass {
        name: "common",
        does: "computes once what several nodes compute of the same values",
        rewrite: Rewrite::Graph(common::merge),
    },
    Pass {
        name: "layer_norm",
        does: "puts one node in the place of those that normalize rows step by step",
        rewrite: Rewrite::Pattern(layer_norm::find),
    },
    Pass {
        name: "rms_norm",
        does: "puts one node in the place of those that divide rows by the root of their mean square",
        rewrite: Rewrite::Pattern(rms_norm::find),
    },
    Pass {
        name: "attention",
        does: "puts one node in the place of those that compute attention step by step",
        rewrite: Rewrite::Pattern(attention::find),
    },
    Pass {
        name: "activations",
        does: "puts one node in the place of those that compute GELU, SiLU, HardSwish or Mish",
        rewrite: Rewrite::Pattern(activations::find),
    },
    Pass {
        name: "pads",
        does: "has convolutions and poolings pad by themselves",
        rewrite: Rewrite::Pattern(pads::find),
    },
    Pass {
        name: "quantized",
        does: "puts operators on quantized values in the place of those on numbers between dequantize and quantize nodes",
        rewrite: Rewrite::Groups(quantized::find),
    },
    Pass {
        name: ENCODINGS,
        does: "propagates the encodings that quantize and dequantize nodes state to the values around them",
        rewrite: Rewrite::Graph(qdq::propagate),
    },
    Pass {
        name: "ranges",
        does: "says how fixed-point cores may store values that no quantize node speaks of, by the ranges of what they are made of",
        rewrite: Rewrite::Graph(qdq::derive),
    },
    Pass {
        name: "scales",
        does: "folds normalizations, scales and biases by constants into the weights of the product before or behind",
        rewrite: Rewrite::Fusion(scales::fold),
    },
    Pass {
        name: "layouts",
        does: "says of nodes that quantize or transpose what they make of operands whose channels lie last",
        rewrite: Rewrite::Layout(layouts::find),
    },
    Pass {
        name: "epilogue",
        does: "offers biases, residuals, activations and quantization to the kernels of the nodes before, to do before they store",
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

impl PassOptions {
    /// No pass runs, so every node is a step of its own.
    pub fn none() -> Self {
        Self { skip: PASSES.iter().map(|pass| pass.name.to_owned()).collect() }
    }
}

/// Returns options with one pass only: the one that derives encodings for fixed-point cores and leaves the nodes as they are.
pub fn encodings_only() -> PassOptions {
    let mut options = PassOptions::none();
    options.skip.remove(ENCODINGS);
    options
}

/// What a pass did to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The pass.
    pub pass: &'static str,
    /// How many nodes or values it changed.
    pub count: usize,
    /// The nodes that it is about and left, and why, where it says so.
    pub left: Vec<Stayed>,
}

/// A node that a pass is about and left as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stayed {
    /// The node's name.
    pub node: String,
    /// Why.
    pub why: String,
}

/// What a pass finds at a node that it may be about.
#[derive(Debug)]
pub enum Found {
    /// It is not about this node.
    Nothing,
    /// The node stays, and why.
    Stays(String),
    /// Another node does what it does.
    Instead(Replacement),
}

/// The cores that nodes are to run on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The one that is preferred.
    pub preferred: Core,
    /// Those that nodes are pinned to, by the numbers of pins.
    pub pinned: &'a [Core],
}

impl From<Core> for Wanted<'_> {
    fn from(preferred: Core) -> Self {
        Self { preferred, pinned: &[] }
    }
}

impl Wanted<'_> {
    fn of(self, bound: &BoundNode) -> Core {
        let pinned = bound.node.pin.and_then(|pin| self.pinned.get(usize::from(pin)));
        pinned.copied().unwrap_or(self.preferred)
    }
}

/// Runs the passes for a model that is to run on these cores; debug builds verify the graph after each.
///
/// # Errors
/// A pass broke the graph, which is a fault of this library.
pub fn run<'a>(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    options: &PassOptions,
    cores: impl Into<Wanted<'a>>,
) -> Result<Vec<Fired>, PassError> {
    let cores = cores.into();
    let mut fired = Vec::new();
    for pass in PASSES.iter().filter(|pass| !options.skip.contains(pass.name)) {
        let mut left = Vec::new();
        let count = match pass.rewrite {
            Rewrite::Graph(rewrite) => rewrite(graph),
            Rewrite::Pattern(pattern) => {
                let find =
                    |node: &Candidate<'_>| pattern(node).map_or(Found::Nothing, Found::Instead);
                replace_all(graph, compiler, cores, (&find, &mut Vec::new()))
            }
            Rewrite::Groups(find) => replace_all(graph, compiler, cores, (&find, &mut left)),
            Rewrite::Layout(find) => set_layouts(graph, compiler, find),
            Rewrite::Elision(find) => elide::elide(graph, compiler, find),
            Rewrite::Fusion(fusion) => fuse(graph, compiler, fusion),
        };
        fired.push(Fired { pass: pass.name, count, left });
        if cfg!(debug_assertions) {
            graph.verify().map_err(|source| PassError { pass: pass.name, source })?;
        }
    }
    Ok(fired)
}

/// Who makes and reads what, and which extents are equal.
fn uses(graph: &TypedGraph, compiler: &Compiler<'_>) -> Uses {
    Uses::of(graph, Extents::of(graph, compiler, patterns::extents::rule))
}

/// Says of every node for which `find` does what it makes of operands whose channels lie last, and counts them.
fn set_layouts(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    find: fn(&Candidate<'_>) -> Option<LayoutRule>,
) -> usize {
    let uses = uses(graph, compiler);
    let of = |id| Candidate::at(graph, compiler, &uses, id).and_then(|node| find(&node));
    let found: Vec<_> = graph.node_ids().map(of).collect();
    for (bound, layout) in graph.nodes.iter_mut().zip(&found) {
        bound.layout = *layout;
    }
    found.iter().flatten().count()
}

/// Fuses every node for which `fusion` finds another to do its work, and counts them.
fn fuse(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    fusion: fn(&Candidate<'_>) -> Option<Fusion>,
) -> usize {
    let (mut count, mut gone) = (0, BTreeSet::new());
    let mut uses = uses(graph, compiler);
    for id in (0..graph.nodes.len()).map(NodeId::at) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let found = Candidate::at(graph, compiler, &uses, id).and_then(|node| fusion(&node));
            let Some(found) = found else { continue };
            // What a later node reads now may be what it can do the work of as well.
            next = match found {
                Fusion::Constants { into, of, .. } if into > id => uses.producer(of),
                Fusion::Constants { .. } | Fusion::Epilogue { .. } => None,
            };
            candidate::apply(graph, compiler, &mut uses, (id, &mut gone), found);
            count += 1;
        }
    }
    replace::remove(graph, &gone);
    count
}

/// What is found at a node.
type Find<'a> = dyn Fn(&Candidate<'_>) -> Found + 'a;

/// Puts a node in the place of every one for which `find` finds another, and counts them; `left` gets those that stay.
fn replace_all(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    cores: Wanted<'_>,
    (find, left): (&Find<'_>, &mut Vec<Stayed>),
) -> usize {
    let (mut count, mut gone) = (0, BTreeSet::new());
    let mut uses = uses(graph, compiler);
    for id in (0..graph.nodes.len()).rev().map(NodeId::at) {
        if gone.contains(&id) {
            continue;
        }
        let Some(node) = Candidate::at(graph, compiler, &uses, id) else { continue };
        let name = |graph: &TypedGraph| {
            graph.node(id).map_or_else(|_| String::new(), |bound| bound.node.name.clone())
        };
        match find(&node) {
            Found::Nothing => {}
            Found::Stays(why) => left.push(Stayed { node: name(graph), why }),
            Found::Instead(found) => {
                let op = found.op;
                let at = (id, &mut gone);
                let core = graph.node(id).map_or(cores.preferred, |bound| cores.of(bound));
                if replace::apply(graph, &mut uses, compiler, core, at, found) {
                    count += 1;
                } else {
                    let why = format!(
                        "{core} has no kernel that takes {op} there, or others read what lies between"
                    );
                    left.push(Stayed { node: name(graph), why });
                }
            }
        }
    }
    replace::remove(graph, &gone);
    count
}
