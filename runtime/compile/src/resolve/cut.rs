//! Cuts a graph in two: nodes that need elements computed by a run before they can be resolved (for example the shape
//! for a `Reshape`), and all their consumers, form a second part. It is resolved during the run, once those elements
//! are known, as if they were constants.

use std::collections::{BTreeSet, VecDeque};

use udo_api::Dim;

use super::sequence::{self, Sequences};
use super::tensor_layout::NhwcValues;
use super::{Binding, ResolveError, TypedGraph};
use udo_graph::graph::{
    CutGraph, DimSpec, Graph, Node, NodeReads, Source, TensorType, Value, ValueId,
};

/// A part of a model that is compiled at once: the whole model, or the nodes that can only be resolved during a run.
#[derive(Clone, Debug)]
pub struct Part {
    /// The nodes. The inputs are the model's, or values of the previous part that may have any elements.
    pub graph: Graph,
    /// Further values of the previous part. Their elements must be known before this part is resolved.
    pub wanted: Vec<ValueId>,
    /// Constants that may have other elements in the next plan.
    pub open: Vec<ValueId>,
}

impl Part {
    /// Returns a part that is a whole graph.
    pub fn whole(graph: Graph) -> Self {
        Self { graph, wanted: Vec::new(), open: Vec::new() }
    }
}

/// A node that depends on elements or extents that are not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The node.
    pub node: String,
    /// Its operator type.
    pub op: String,
    /// The dependency, and its reason.
    pub reason: String,
    pub(super) dependency: Dependency,
    /// The values that it depends on.
    pub(super) values: Vec<ValueId>,
    /// Whether each iteration of a loop computes them anew, so that a cut before the loop does not help.
    pub(super) is_in_loop: bool,
}

impl Want {
    pub(super) fn new(
        node: String,
        op: String,
        reason: String,
        (dependency, values): (Dependency, Vec<ValueId>),
    ) -> Self {
        Self { node, op, reason, dependency, values, is_in_loop: false }
    }
}

/// The property of a value that a node depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// The elements.
    Elements,
    /// The extents, which are bounded.
    Extents,
}

impl From<Want> for ResolveError {
    /// Returns the error for a dependency that no earlier part can provide.
    fn from(Want { node, op, reason, .. }: Want) -> Self {
        Self::unfit(node, op, reason)
    }
}

/// How far a graph was bound.
pub(super) struct Mark {
    nodes: usize,
    values: usize,
    notices: usize,
    depth: usize,
    outside_loop: Option<usize>,
    layouts: NhwcValues,
    sequences: usize,
}

impl Mark {
    /// Returns whether a value existed at this mark.
    pub(super) fn has(&self, value: ValueId) -> bool {
        value.index() < self.values
    }
}

impl Binding<'_> {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            nodes: self.graph.nodes.len(),
            values: self.graph.values.len(),
            notices: self.notices.len(),
            depth: self.depth,
            outside_loop: self.outside_loop,
            layouts: self.layouts.clone(),
            sequences: self.sequences.len(),
        }
    }

    /// Removes everything that was added since `mark`.
    pub(super) fn return_to(&mut self, mark: Mark) {
        self.graph.nodes.truncate(mark.nodes);
        self.graph.values.truncate(mark.values);
        self.notices.truncate(mark.notices);
        self.sequences.truncate(mark.sequences);
        self.pending.clear();
        (self.depth, self.outside_loop, self.layouts) =
            (mark.depth, mark.outside_loop, mark.layouts);
    }

    /// Returns the dependency as an error; marks it if each iteration of the enclosing loop computes the elements anew.
    pub(super) fn refused_in_loop(&self, want: Want) -> ResolveError {
        let is_computed_in_loop =
            |value: &ValueId| self.outside_loop.is_some_and(|count| value.index() >= count);
        if want.is_in_loop || !want.values.iter().any(is_computed_in_loop) {
            return ResolveError::Wants(want);
        }
        let reason = format!("{}, and each iteration computes it anew", want.reason);
        ResolveError::Wants(Want { reason, is_in_loop: true, ..want })
    }

    /// Returns the values that existed at `mark` from which `values` are computed. Nodes that upgrades insert compute
    /// them from the node's own inputs.
    fn sources_of(&self, Want { values, dependency, .. }: &Want, mark: &Mark) -> BTreeSet<ValueId> {
        let mut sources: BTreeSet<ValueId> = values.iter().copied().collect();
        let since = self.graph.nodes.get(mark.nodes..).unwrap_or_default();
        for bound in since.iter().rev() {
            if bound.node.outputs.iter().flatten().any(|output| sources.contains(output)) {
                sources.extend(bound.node.reads().map(|(_, value)| value));
            }
        }
        sources.retain(|&value| mark.has(value) && self.graph.lacks(value, *dependency));
        sources
    }
}

impl TypedGraph {
    /// Returns whether a property of a value is unknown.
    fn lacks(&self, value: ValueId, dependency: Dependency) -> bool {
        match dependency {
            Dependency::Elements => self.known(Some(value)).is_none(),
            Dependency::Extents => !self.desc(Some(value)).full_shape().is_fixed(),
        }
    }

    /// Returns a dependency on the extents of the node's inputs; `None` if they are known.
    pub(super) fn want_extents(&self, node: &Node, reason: String) -> Option<ResolveError> {
        let inputs = node.inputs.iter().flatten().copied();
        let values: Vec<_> =
            inputs.filter(|&value| self.lacks(value, Dependency::Extents)).collect();
        if values.is_empty() {
            return None;
        }
        let (name, op) = (node.name.clone(), node.op.clone());
        let want = Want::new(name, op, reason, (Dependency::Extents, values));
        Some(ResolveError::Wants(want))
    }
}

/// The nodes that are still to be bound, and those after the cut.
pub(super) struct Cut {
    /// The nodes that are still to be bound.
    remaining: VecDeque<Node>,
    /// The nodes after the cut.
    nodes: Vec<Node>,
    /// The values that these nodes compute.
    computed: BTreeSet<ValueId>,
    /// The values whose elements must be known to resolve these nodes.
    needed: BTreeSet<ValueId>,
}

impl Cut {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        let (computed, needed) = (BTreeSet::new(), BTreeSet::new());
        Self { remaining: nodes.into(), nodes: Vec::new(), computed, needed }
    }

    /// Returns the next node that reads nothing from after the cut.
    pub(super) fn next(&mut self, sequences: &Sequences) -> Option<Node> {
        while let Some(node) = self.remaining.pop_front() {
            let is_after_cut = |value: ValueId| self.computed.contains(&value);
            let depends_on_cut = node.reads().any(|(_, value)| is_after_cut(value))
                || sequences.tensors_read(&node).any(is_after_cut);
            if !depends_on_cut {
                return Some(node);
            }
            self.add(node);
        }
        None
    }

    /// Inserts nodes to be bound next.
    pub(super) fn prepend(&mut self, nodes: Vec<Node>) {
        for node in nodes.into_iter().rev() {
            self.remaining.push_front(node);
        }
    }

    /// Adds a node after the cut.
    fn add(&mut self, node: Node) {
        self.computed.extend(node.outputs.iter().flatten());
        self.nodes.push(node);
    }

    /// Removes what was added for a node since `mark`, and moves the node after the cut.
    pub(super) fn defer(
        &mut self,
        binding: &mut Binding<'_>,
        (node, mark): (Node, Mark),
        want: Want,
    ) -> Result<(), ResolveError> {
        let sources = binding.sources_of(&want, &mark);
        if sources.is_empty() || want.is_in_loop {
            return Err(want.into());
        }
        binding.return_to(mark);
        let names: Vec<_> = sources.iter().map(|&value| binding.graph.name_of(value)).collect();
        let names = names.join("\", \"");
        let Want { node: name, op, reason, dependency, .. } = want;
        let property = match dependency {
            Dependency::Elements => {
                self.needed.extend(sources);
                "elements"
            }
            // Every value that crosses the cut has the extents of the run.
            Dependency::Extents => "extents",
        };
        binding.notices.push(format!(
            "node {name:?} ({op}) and its consumers are planned in the run, for the {property} of \"{names}\": {reason}"
        ));
        self.add(node);
        Ok(())
    }

    /// Returns the part after the cut, if there is one. Adds the values that it reads to the outputs of `graph`.
    pub(super) fn finish(
        self,
        graph: &mut TypedGraph,
        sequences: &Sequences,
    ) -> Result<Option<Part>, ResolveError> {
        let Self { mut nodes, computed, needed, .. } = self;
        if nodes.is_empty() {
            return Ok(None);
        }
        // A sequence crosses the cut as its tensors, and is rebuilt after it.
        let reads: BTreeSet<_> =
            nodes.iter().flat_map(Node::reads).map(|(_, value)| value).collect();
        let crossing = reads.into_iter().filter(|value| !computed.contains(value));
        let crossing = crossing.filter_map(|value| Some((value, sequences.items(value)?)));
        let rebuilt: Vec<_> =
            crossing.map(|(value, items)| sequence::rebuilt(graph, value, items)).collect();
        let computed: BTreeSet<_> =
            computed.into_iter().chain(rebuilt.iter().filter_map(|node| node.output(0))).collect();
        nodes.splice(..0, rebuilt);
        let values = graph.values.iter().map(|value| value.value.clone());
        let values = values.map(|value| match value.source {
            Source::Input(_) => Value { source: Source::Computed, ..value },
            Source::Constant(_) | Source::Computed | Source::Outer => value,
        });
        let values = values.collect();
        let (first_outputs, outputs) =
            graph.outputs.iter().partition(|output| !computed.contains(output));
        graph.outputs = first_outputs;
        // The second part may read an input after an output has been written.
        graph.in_place.clear();
        let reads = nodes.iter().flat_map(Node::reads).map(|(_, value)| value);
        let read: BTreeSet<_> = reads.filter(|value| !computed.contains(value)).collect();
        let mut second = Graph::new(&graph.name);
        (second.nodes, second.values, second.outputs) = (nodes, values, outputs);
        let mut second = Part::whole(second);
        for value in read {
            second.import(graph, value, needed.contains(&value))?;
        }
        second.graph.sort().map_err(|why| ResolveError::Broken(why.to_string()))?;
        second.forget_unused();
        Ok(Some(second))
    }
}

impl Part {
    /// Drops unused values, so that the parts of a long loop do not keep each other's values.
    fn forget_unused(&mut self) {
        let new_ids = self.graph.forget_unused(&self.wanted);
        for id in self.wanted.iter_mut().chain(&mut self.open) {
            *id = new_ids.get(id).copied().unwrap_or(*id);
        }
    }

    /// Makes a value of the previous part available to this one.
    fn import(
        &mut self,
        graph: &mut TypedGraph,
        id: ValueId,
        is_needed: bool,
    ) -> Result<(), ResolveError> {
        let Some(value) = self.graph.values.get_mut(id.index()) else { return Ok(()) };
        if let Some(tensor) = graph.known(Some(id)) {
            value.source = Source::Constant(tensor.clone());
            self.open.extend(graph.is_open(Some(id)).then_some(id));
            return Ok(());
        }
        if !graph.inputs.contains(&id) && !graph.outputs.contains(&id) {
            graph.outputs.push(id);
        }
        value.source = Source::Input(type_after_cut(graph, id, value)?);
        let ids = if is_needed { &mut self.wanted } else { &mut self.graph.inputs };
        ids.push(id);
        Ok(())
    }
}

/// Returns the type of a value for the second part. Extents that a run or the model's inputs determine are open.
fn type_after_cut(
    graph: &TypedGraph,
    id: ValueId,
    value: &Value,
) -> Result<TensorType, ResolveError> {
    let desc = graph.desc(Some(id));
    let Some(dtype) = desc.dtype().filter(|_| desc.encodings().is_none()) else {
        let name = &value.name;
        return Err(ResolveError::Broken(format!(
            "{name:?} is {desc} and read after nodes that are planned in the run, expected a type without encodings"
        )));
    };
    let dim = |dim: Dim| match dim {
        Dim::Fixed(extent) => DimSpec::Fixed(extent),
        Dim::Open(_) | Dim::UpTo(_) => DimSpec::Unknown,
    };
    Ok(TensorType { dtype, dims: desc.full_shape().iter().map(dim).collect() })
}
