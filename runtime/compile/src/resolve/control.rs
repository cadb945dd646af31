//! Nodes that say what runs when: their subgraphs become part of the graph around them.
//!
//! The nodes of a subgraph stand among those of the outer graph, between a node that opens it and one that ends it. So
//! types, passes, placement and plan see one list of nodes in which producers come before consumers, and a captured value
//! is the outer one itself. Operators say by facts what they do with their graphs.

mod body;
mod branches;
mod trips;
mod unrolled;

use udo_api::{Bool, Facts, OpDef, Param, ParamKind};

pub(super) use body::{Ends, inline};
pub(super) use unrolled::{bind_rest, is_rest};

use super::{Binding, BoundNode, Params, ResolveError, TypedGraph, Want, Wanted};
use crate::compiler::Compiler;
use crate::resolve::control::branches::bind_branches;
use crate::resolve::control::trips::bind_loop;
use crate::resolve::control::trips::bind_scan;
use udo_engine::operators::OpEntry;
use udo_graph::graph::{Attr, Graph, Node, ValueId};
use udo_graph::memory::Tensor;

/// What a node does that says what runs when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The nodes up to [`Control::Else`] run where its input is true.
    If,
    /// What its inputs are, the first branch gives; the nodes from here to [`Control::EndIf`] run where the input of
    /// [`Control::If`] is not true.
    Else,
    /// What its inputs are, the second branch gives. Its outputs are what the branch gives that ran.
    EndIf,
    /// A run fails here where its input is not `taken`: the branch for that does not fit. The other one is among the nodes
    /// behind it, in the place of the node.
    Check {
        /// What the truth has to be.
        taken: bool,
        /// The branch that a run would take otherwise, and why it does not fit.
        reason: Box<str>,
    },
    /// The nodes up to [`Control::EndLoop`] run once per trip. Its inputs are how many trips there are at most and whether
    /// there is any, both optional, then states, then what is sliced; its outputs the number of the trip, then the states,
    /// then slices.
    Loop {
        /// How each input behind the states is sliced.
        slices: Vec<Along>,
    },
    /// Its inputs are whether there is another trip, which is optional, the states for that, then what the trip gives; its
    /// outputs the states after the last trip, then what all trips gave.
    EndLoop {
        /// How what the trips give lies in each output behind the states.
        stacks: Vec<Along>,
    },
}

impl Control {
    /// Whether nodes behind it are deeper in subgraphs than it is.
    pub(crate) fn opens(&self) -> bool {
        matches!(self, Self::If | Self::Loop { .. })
    }

    /// Whether it ends what the last one of the same depth opened.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Self::EndIf | Self::EndLoop { .. })
    }

    /// Whether it ends what comes before it in a subgraph's node, and begins another part of it.
    pub(crate) fn parts(&self) -> bool {
        matches!(self, Self::Else)
    }

    /// What it does, in a word or two.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::If => "branches",
            Self::Else => "second branch",
            Self::EndIf => "end of branches",
            Self::Check { .. } => "only branch that fits",
            Self::Loop { .. } => "trips",
            Self::EndLoop { .. } => "end of a trip",
        }
    }
}

/// The slices of a tensor along an axis, in the order of trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Along {
    /// The axis.
    pub axis: usize,
    /// Whether the first trip has the last slice.
    pub is_reversed: bool,
}

/// What the host does with the graphs of an operator.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Branches,
    Loop,
    Scan,
}

impl Form {
    /// That of a built-in operator, if it has graphs.
    pub(super) fn of(op: &OpDef) -> Option<Self> {
        let facts = op.schema().known_facts();
        [(Facts::BRANCHES, Self::Branches), (Facts::LOOP, Self::Loop), (Facts::SCAN, Self::Scan)]
            .into_iter()
            .find_map(|(fact, form)| facts.has(fact).then_some(form))
    }
}

/// A node that runs subgraphs, while it is bound.
#[derive(Clone)]
struct Parent {
    node: Node,
    entry: OpEntry,
    params: Params,
    /// Its graphs, and the names of their attributes.
    graphs: Vec<(String, Graph)>,
}

impl Parent {
    fn new(mut node: Node, entry: OpEntry, binding: &Binding<'_>) -> Result<Self, ResolveError> {
        let params = Params::of(&node, entry.def.schema()).map_err(|why| refusal(&node, why))?;
        let is_sequence = |value: &ValueId| binding.sequences.items(*value).is_some();
        // The schema has no sequences: iterations and branches check what they get.
        if !node.inputs.iter().flatten().any(is_sequence) {
            let checked = binding.graph.check_ports(&node, entry.def);
            checked.map_err(|why| refusal(&node, why.to_string()))?;
        }
        let schema = entry.def.schema().params().iter();
        let names = schema.filter(|param| param.kind() == Some(ParamKind::Graph));
        let mut graphs = Vec::new();
        for name in names.map(Param::attribute_name) {
            let at = node.attrs.iter().position(|(attr, _)| attr == name);
            if let Some((name, Attr::Graph(graph))) = at.map(|at| node.attrs.swap_remove(at)) {
                graphs.push((name, *graph));
            }
        }
        Ok(Self { node, entry, params, graphs })
    }

    /// Takes the first of the graphs that are left.
    fn next_graph(&mut self) -> Result<(String, Graph), ResolveError> {
        if self.graphs.is_empty() {
            return Err(self.refuse("its operator runs a graph that it does not have".to_owned()));
        }
        Ok(self.graphs.remove(0))
    }

    fn refuse(&self, reason: String) -> ResolveError {
        refusal(&self.node, reason)
    }

    /// Refuses the node until the elements of `values` are known.
    fn want(&self, reason: String, values: Vec<ValueId>) -> ResolveError {
        let (node, op) = (self.node.name.clone(), self.node.op.clone());
        ResolveError::Wants(Want::new(node, op, reason, (Wanted::Elements, values)))
    }

    /// Refuses one plan for all iterations.
    fn want_per_iteration(&self, reason: String) -> ResolveError {
        let (node, op) = (self.node.name.clone(), self.node.op.clone());
        let want = Want::new(node, op, reason, (Wanted::Elements, Vec::new()));
        ResolveError::Wants(Want { is_in_loop: true, ..want })
    }

    /// A node in its place that does `control`.
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

/// The truth in a tensor of one element.
fn truth(tensor: &Tensor) -> Option<bool> {
    match tensor.get::<Bool>()? {
        [truth] => Some(truth.get()),
        _ => None,
    }
}

impl TypedGraph {
    /// Refuses an input of several elements, or of as many as a run says.
    fn check_single(&self, parent: &Parent, port: usize) -> Result<(), ResolveError> {
        let Some(value) = parent.node.input(port) else { return Ok(()) };
        let desc = self.desc(Some(value));
        if desc.len() == 1 && desc.full_shape().is_fixed() {
            return Ok(());
        }
        let name = parent.entry.def.schema().input(port).map_or("?", udo_api::Port::name);
        Err(parent.refuse(format!("input {name:?} is {desc}, wanted one element")))
    }

    pub(in crate::resolve) fn name_of(&self, value: ValueId) -> &str {
        self.values.get(value.index()).map_or("", |value| value.value.name.as_str())
    }
}

/// Adds a node of a built-in operator that runs subgraphs, and what is in them.
pub(super) fn bind_control(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    node: Node,
    entry: OpEntry,
    form: Form,
) -> Result<(), ResolveError> {
    let parent = Parent::new(node, entry, binding)?;
    match form {
        Form::Branches => bind_branches(compiler, binding, parent),
        Form::Loop => bind_loop(compiler, binding, &parent),
        Form::Scan => bind_scan(compiler, binding, parent),
    }
}
