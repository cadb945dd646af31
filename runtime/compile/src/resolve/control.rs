//! Binds control-flow nodes (`If`, `Loop`, `Scan`) by inlining their subgraphs.
//!
//! The nodes of a subgraph are placed among those of the outer graph, between a node that opens the subgraph and one
//! that ends it. Type inference, passes, placement and planning then see one list of nodes in topological order, and a
//! captured value is the outer value itself. Operators declare by facts how they use their graphs.

mod body;
mod branches;
mod iterations;
mod unrolled;

use udo_api::{Bool, Facts, OpDef, Param, ParamKind};

pub(super) use body::{BodyPorts, inline};
pub(super) use unrolled::{bind_rest, is_rest};

use super::{Binding, BoundNode, Dependency, Params, ResolveError, TypedGraph, Want};
use crate::compiler::Compiler;
use crate::resolve::control::branches::bind_branches;
use crate::resolve::control::iterations::bind_loop;
use crate::resolve::control::iterations::bind_scan;
use udo_engine::operators::OpEntry;
use udo_graph::graph::{Attr, Graph, Node, ValueId};
use udo_graph::memory::Tensor;

/// The role of a control-flow node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The nodes up to [`Control::Else`] run if its input is true.
    If,
    /// Its inputs are the results of the first branch. The nodes up to [`Control::EndIf`] run if the input of
    /// [`Control::If`] is false.
    Else,
    /// Its inputs are the results of the second branch. Its outputs are the results of the branch that ran.
    EndIf,
    /// The run fails here if its input is not `taken`, because the branch for that case does not fit. The nodes of the
    /// other branch follow, in place of the node.
    Check {
        /// The required condition.
        taken: bool,
        /// The branch that cannot run, and why it does not fit.
        reason: Box<str>,
    },
    /// The nodes up to [`Control::EndLoop`] run once per iteration. Its inputs are the maximum number of iterations and
    /// the initial condition, both optional, then the initial states, then the sliced inputs. Its outputs are the
    /// iteration number, then the states, then the slices.
    Loop {
        /// How each input after the states is sliced.
        slices: Vec<Along>,
    },
    /// Its inputs are the condition for another iteration, which is optional, the next states, then the values to
    /// stack. Its outputs are the final states, then the stacked values.
    EndLoop {
        /// How the values of the iterations are stacked in each output after the states.
        stacks: Vec<Along>,
    },
}

impl Control {
    /// Returns whether the nodes after it are nested one level deeper.
    pub(crate) fn opens(&self) -> bool {
        matches!(self, Self::If | Self::Loop { .. })
    }

    /// Returns whether it closes the innermost open node.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Self::EndIf | Self::EndLoop { .. })
    }

    /// Returns whether it ends one part of a control-flow node and begins another.
    pub(crate) fn parts(&self) -> bool {
        matches!(self, Self::Else)
    }

    /// Returns a short description.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::If => "branches",
            Self::Else => "second branch",
            Self::EndIf => "end of branches",
            Self::Check { .. } => "only branch that fits",
            Self::Loop { .. } => "iterations",
            Self::EndLoop { .. } => "end of an iteration",
        }
    }
}

/// The slices of a tensor along an axis, in iteration order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// The axis.
    pub axis: usize,
    /// Whether the first iteration has the last slice.
    pub is_reversed: bool,
}

/// How the runtime runs the graphs of an operator.
#[derive(Clone, Copy)]
pub(super) enum SubgraphKind {
    /// One of two graphs runs.
    Branches,
    /// A graph runs repeatedly, up to a limit or while a condition is true.
    Loop,
    /// A graph runs once for each slice of its inputs.
    Scan,
}

impl SubgraphKind {
    /// Returns the kind of a built-in operator that has graphs.
    pub(super) fn from_op(op: &OpDef) -> Option<Self> {
        let facts = op.schema().known_facts();
        [(Facts::BRANCHES, Self::Branches), (Facts::LOOP, Self::Loop), (Facts::SCAN, Self::Scan)]
            .into_iter()
            .find_map(|(fact, kind)| facts.has(fact).then_some(kind))
    }
}

/// A control-flow node that is being bound; its graphs are taken out of its attributes.
#[derive(Clone)]
struct Parent {
    node: Node,
    entry: OpEntry,
    params: Params,
    /// Its graphs, with the names of their attributes.
    graphs: Vec<(String, Graph)>,
}

impl Parent {
    fn new(mut node: Node, entry: OpEntry, binding: &Binding<'_>) -> Result<Self, ResolveError> {
        let params =
            Params::from_node(&node, entry.def.schema()).map_err(|why| refusal(&node, why))?;
        let is_sequence = |value: &ValueId| binding.sequences.items(*value).is_some();
        // The schema does not describe sequences: iterations and branches check their own inputs.
        if !node.inputs.iter().flatten().any(is_sequence) {
            let checked = binding.graph.check_ports(&node, entry.def);
            checked.map_err(|why| refusal(&node, why.to_string()))?;
        }
        let schema = entry.def.schema().params().iter();
        let names = schema.filter(|param| param.kind() == Some(ParamKind::Graph));
        let mut graphs = Vec::new();
        for name in names.map(Param::attribute_name) {
            let index = node.attrs.iter().position(|(attr, _)| attr == name);
            if let Some((name, Attr::Graph(graph))) =
                index.map(|index| node.attrs.swap_remove(index))
            {
                graphs.push((name, *graph));
            }
        }
        Ok(Self { node, entry, params, graphs })
    }

    /// Takes the first remaining graph.
    fn next_graph(&mut self) -> Result<(String, Graph), ResolveError> {
        if self.graphs.is_empty() {
            return Err(self.refuse("its operator runs a graph that it does not have".to_owned()));
        }
        Ok(self.graphs.remove(0))
    }

    fn refuse(&self, reason: String) -> ResolveError {
        refusal(&self.node, reason)
    }

    /// Defers the node until the elements of `values` are known.
    fn want(&self, reason: String, values: Vec<ValueId>) -> ResolveError {
        let (node, op) = (self.node.name.clone(), self.node.op.clone());
        ResolveError::Wants(Want::new(node, op, reason, (Dependency::Elements, values)))
    }

    /// Reports that the iterations cannot share one plan.
    fn want_per_iteration(&self, reason: String) -> ResolveError {
        let (node, op) = (self.node.name.clone(), self.node.op.clone());
        let want = Want::new(node, op, reason, (Dependency::Elements, Vec::new()));
        ResolveError::Wants(Want { is_in_loop: true, ..want })
    }

    /// Returns a control node that stands for this node.
    fn part(
        &self,
        control: Control,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<Option<ValueId>>,
    ) -> BoundNode {
        let OpEntry { package, def: op } = self.entry;
        BoundNode {
            node: Node { inputs, outputs, attrs: Vec::new(), ..self.node.clone() },
            package,
            op,
            params: Params::default(),
            epilogue: Vec::new(),
            layout: None,
            is_alias: false,
            is_folded: false,
            control: Some(control),
        }
    }
}

fn refusal(node: &Node, reason: String) -> ResolveError {
    ResolveError::unfit(node.name.clone(), node.op.clone(), reason)
}

/// Returns the boolean in a tensor of one element.
fn as_bool(tensor: &Tensor) -> Option<bool> {
    match tensor.get::<Bool>()? {
        [bool] => Some(bool.get()),
        _ => None,
    }
}

impl TypedGraph {
    /// Refuses an input that does not have exactly one element, known before the run.
    fn check_single(&self, parent: &Parent, port: usize) -> Result<(), ResolveError> {
        let Some(value) = parent.node.input(port) else { return Ok(()) };
        let desc = self.desc(Some(value));
        if desc.len() == 1 && desc.full_shape().is_fixed() {
            return Ok(());
        }
        let name = parent.entry.def.schema().input(port).map_or("?", udo_api::Port::name);
        Err(parent.refuse(format!("input {name:?} is {desc}, expected one element")))
    }

    pub(in crate::resolve) fn name_of(&self, value: ValueId) -> &str {
        self.values.get(value.index()).map_or("", |value| value.value.name.as_str())
    }
}

/// Binds a node of a built-in operator that runs subgraphs, and the nodes in them.
pub(super) fn bind_control(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    node: Node,
    entry: OpEntry,
    kind: SubgraphKind,
) -> Result<(), ResolveError> {
    let parent = Parent::new(node, entry, binding)?;
    match kind {
        SubgraphKind::Branches => bind_branches(compiler, binding, parent),
        SubgraphKind::Loop => bind_loop(compiler, binding, &parent),
        SubgraphKind::Scan => bind_scan(compiler, binding, parent),
    }
}
