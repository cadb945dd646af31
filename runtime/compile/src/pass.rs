//! Graph passes: rewrites of a resolved graph before placement, for example fusions. [`PASSES`] lists them in the order
//! in which they run. Only `patterns` knows operators by name.

mod candidate;
mod common_subexpressions;
mod dead_code;
mod elide;
mod extent;
mod extents;
mod patterns;
mod replace;
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
    activations, attention, epilogue, identity, layer_norm, layouts, pad_fusion, qdq, quantized,
    rms_norm, scale_folding,
};
pub use replace::{Operand, Replacement};
use uses::Uses;

/// A graph pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// An earlier name that [`PassOptions::skip`] and `--skip-pass` still accept.
    pub alias: Option<&'static str>,
    /// A one-line description.
    pub does: &'static str,
    /// The rewrite.
    pub rewrite: Rewrite,
}

/// The kind of a pass, with its function.
#[derive(Clone, Copy, Debug)]
pub enum Rewrite {
    /// Rewrites the whole graph and returns the number of changes.
    Graph(fn(&mut TypedGraph) -> usize),
    /// Replaces a node, together with nodes upstream of it, by one node. Called for each node, last node first.
    Pattern(fn(&Candidate<'_>) -> Option<Replacement>),
    /// Like [`Rewrite::Pattern`], and states why it leaves a node that it applies to unchanged.
    Groups(fn(&Candidate<'_>) -> Match),
    /// Returns how a node treats channels-last operands, for operators whose facts do not say it.
    Layout(fn(&Candidate<'_>) -> Option<LayoutRule>),
    /// Returns the earlier value that a node's output equals.
    Elision(fn(&Candidate<'_>) -> Option<ValueId>),
    /// Moves a node's work into another node.
    Fusion(fn(&Candidate<'_>) -> Option<Fusion>),
}

/// The pass that determines how fixed-point cores may store values.
const ENCODINGS: &str = "encodings";

/// All passes, in order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "identity-elimination",
        alias: Some("same"),
        does: "removes nodes that return an earlier value unchanged",
        rewrite: Rewrite::Elision(identity::find),
    },
    Pass {
        name: "dead-code-elimination",
        alias: Some("unread"),
        does: "removes nodes whose outputs nothing reads",
        rewrite: Rewrite::Graph(dead_code::remove),
    },
    Pass {
        name: "common-subexpressions",
        alias: Some("common"),
        does: "merges nodes that compute the same value",
        rewrite: Rewrite::Graph(common_subexpressions::merge),
    },
    Pass {
        name: "layer_norm",
        alias: None,
        does: "fuses the steps of a layer normalization into LayerNormalization",
        rewrite: Rewrite::Pattern(layer_norm::find),
    },
    Pass {
        name: "rms_norm",
        alias: None,
        does: "fuses the steps of a root-mean-square normalization into RMSNormalization",
        rewrite: Rewrite::Pattern(rms_norm::find),
    },
    Pass {
        name: "attention",
        alias: None,
        does: "fuses the steps of scaled dot-product attention into Attention",
        rewrite: Rewrite::Pattern(attention::find),
    },
    Pass {
        name: "activations",
        alias: None,
        does: "fuses the steps of GELU, SiLU, HardSwish and Mish into one node",
        rewrite: Rewrite::Pattern(activations::find),
    },
    Pass {
        name: "pad-fusion",
        alias: Some("pads"),
        does: "moves Pad nodes into the padding of convolutions and poolings",
        rewrite: Rewrite::Pattern(pad_fusion::find),
    },
    Pass {
        name: "quantized",
        alias: None,
        does: "replaces float operators between DequantizeLinear and QuantizeLinear by quantized ones",
        rewrite: Rewrite::Groups(quantized::find),
    },
    Pass {
        name: ENCODINGS,
        alias: None,
        does: "propagates the encodings that QuantizeLinear and DequantizeLinear nodes state",
        rewrite: Rewrite::Graph(qdq::propagate),
    },
    Pass {
        name: "range-propagation",
        alias: Some("ranges"),
        does: "derives encodings of other values from the ranges of their operands, for fixed-point cores",
        rewrite: Rewrite::Graph(qdq::derive),
    },
    Pass {
        name: "scale-folding",
        alias: Some("scales"),
        does: "folds constant scales, biases and normalizations into the weights of neighboring products",
        rewrite: Rewrite::Fusion(scale_folding::fold),
    },
    Pass {
        name: "layouts",
        alias: None,
        does: "adds channels-last layout rules to quantizing and transposing nodes",
        rewrite: Rewrite::Layout(layouts::find),
    },
    Pass {
        name: "epilogue",
        alias: None,
        does: "fuses biases, residuals, activations and quantization into the kernel that computes their operand",
        rewrite: Rewrite::Fusion(epilogue::attach),
    },
];

/// A pass that left an invalid graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pass {pass} left an invalid graph")]
pub struct PassError {
    /// The pass.
    pub pass: &'static str,
    /// The defect.
    #[source]
    pub source: GraphError,
}

impl Pass {
    /// Returns whether the options skip this pass, by its name or its alias.
    fn is_skipped(&self, options: &PassOptions) -> bool {
        options.skip.contains(self.name)
            || self.alias.is_some_and(|alias| options.skip.contains(alias))
    }
}

impl PassOptions {
    /// Returns options with which no pass runs: every node is a step of its own.
    pub fn none() -> Self {
        Self { skip: PASSES.iter().map(|pass| pass.name.to_owned()).collect() }
    }
}

/// Returns options with only the pass that propagates encodings, which leaves all nodes as they are.
pub fn encodings_only() -> PassOptions {
    let mut options = PassOptions::none();
    options.skip.remove(ENCODINGS);
    options
}

/// The effect of a pass on a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassResult {
    /// The pass.
    pub pass: &'static str,
    /// The number of nodes or values that it changed.
    pub count: usize,
    /// The nodes that it applies to and left unchanged, with the reasons, if the pass states them.
    pub left: Vec<Unfused>,
}

/// A node that a pass applies to and left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfused {
    /// The node's name.
    pub node: String,
    /// The reason.
    pub why: String,
}

/// The result of a pass for one node.
#[derive(Debug)]
pub enum Match {
    /// The pass does not apply to this node.
    Nothing,
    /// The node stays, for this reason.
    Stays(String),
    /// The node is replaced.
    Instead(Replacement),
}

/// The cores that nodes are meant to run on.
#[derive(Clone, Copy, Debug)]
pub struct TargetCores<'a> {
    /// The preferred core.
    pub preferred: Core,
    /// The cores that nodes are pinned to, indexed by pin.
    pub pinned: &'a [Core],
}

impl From<Core> for TargetCores<'_> {
    fn from(preferred: Core) -> Self {
        Self { preferred, pinned: &[] }
    }
}

impl TargetCores<'_> {
    fn core_of(self, bound: &BoundNode) -> Core {
        let pinned = bound.node.pin.and_then(|pin| self.pinned.get(usize::from(pin)));
        pinned.copied().unwrap_or(self.preferred)
    }
}

/// Runs the passes for a model that is meant for these cores. Debug builds verify the graph after each pass.
///
/// # Errors
/// A pass left an invalid graph, which is a bug in this library.
pub fn run<'a>(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    options: &PassOptions,
    cores: impl Into<TargetCores<'a>>,
) -> Result<Vec<PassResult>, PassError> {
    let cores = cores.into();
    let mut results = Vec::new();
    for pass in PASSES.iter().filter(|pass| !pass.is_skipped(options)) {
        let mut left = Vec::new();
        let count = match pass.rewrite {
            Rewrite::Graph(rewrite) => rewrite(graph),
            Rewrite::Pattern(pattern) => {
                let find =
                    |node: &Candidate<'_>| pattern(node).map_or(Match::Nothing, Match::Instead);
                replace_all(graph, compiler, cores, (&find, &mut Vec::new()))
            }
            Rewrite::Groups(find) => replace_all(graph, compiler, cores, (&find, &mut left)),
            Rewrite::Layout(find) => set_layouts(graph, compiler, find),
            Rewrite::Elision(find) => elide::elide(graph, compiler, find),
            Rewrite::Fusion(fusion) => fuse(graph, compiler, fusion),
        };
        results.push(PassResult { pass: pass.name, count, left });
        if cfg!(debug_assertions) {
            graph.verify().map_err(|source| PassError { pass: pass.name, source })?;
        }
    }
    Ok(results)
}

/// Returns the producers and consumers of each value, and the extents that are equal in every run.
fn uses(graph: &TypedGraph, compiler: &Compiler<'_>) -> Uses {
    Uses::new(graph, Extents::infer(graph, compiler, patterns::extents::rule))
}

/// Sets the layout rule of every node for which `find` returns one; returns their number.
fn set_layouts(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    find: fn(&Candidate<'_>) -> Option<LayoutRule>,
) -> usize {
    let uses = uses(graph, compiler);
    let rule = |id| Candidate::at(graph, compiler, &uses, id).and_then(|node| find(&node));
    let rules: Vec<_> = graph.node_ids().map(rule).collect();
    for (bound, layout) in graph.nodes.iter_mut().zip(&rules) {
        bound.layout = *layout;
    }
    rules.iter().flatten().count()
}

/// Fuses every node for which `fusion` finds a target; returns their number.
fn fuse(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    fusion: fn(&Candidate<'_>) -> Option<Fusion>,
) -> usize {
    let (mut count, mut removed) = (0, BTreeSet::new());
    let mut uses = uses(graph, compiler);
    for id in (0..graph.nodes.len()).map(NodeId::new) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let target = Candidate::at(graph, compiler, &uses, id).and_then(|node| fusion(&node));
            let Some(target) = target else { continue };
            // The later node now reads the candidate's input. That value's producer has become its neighbor, and may
            // fold into it as well.
            next = match target {
                Fusion::Constants { into, input, .. } if into > id => uses.producer(input),
                Fusion::Constants { .. } | Fusion::Epilogue { .. } => None,
            };
            candidate::apply(graph, compiler, &mut uses, (id, &mut removed), target);
            count += 1;
        }
    }
    replace::remove(graph, &removed);
    count
}

/// Finds the replacement of a node.
type Find<'a> = dyn Fn(&Candidate<'_>) -> Match + 'a;

/// Replaces every node for which `find` finds a replacement; returns their number. Appends nodes that stay to `left`.
fn replace_all(
    graph: &mut TypedGraph,
    compiler: &Compiler<'_>,
    cores: TargetCores<'_>,
    (find, left): (&Find<'_>, &mut Vec<Unfused>),
) -> usize {
    let (mut count, mut removed) = (0, BTreeSet::new());
    let mut uses = uses(graph, compiler);
    for id in (0..graph.nodes.len()).rev().map(NodeId::new) {
        if removed.contains(&id) {
            continue;
        }
        let Some(node) = Candidate::at(graph, compiler, &uses, id) else { continue };
        let name = |graph: &TypedGraph| {
            graph.node(id).map_or_else(|_| String::new(), |bound| bound.node.name.clone())
        };
        match find(&node) {
            Match::Nothing => {}
            Match::Stays(why) => left.push(Unfused { node: name(graph), why }),
            Match::Instead(replacement) => {
                let op = replacement.op;
                let target = (id, &mut removed);
                let core = graph.node(id).map_or(cores.preferred, |bound| cores.core_of(bound));
                if replace::apply(graph, &mut uses, compiler, core, target, replacement) {
                    count += 1;
                } else {
                    let why = format!(
                        "{core} has no kernel for {op} with these tensors, or other nodes read the values in between"
                    );
                    left.push(Unfused { node: name(graph), why });
                }
            }
        }
    }
    replace::remove(graph, &removed);
    count
}
