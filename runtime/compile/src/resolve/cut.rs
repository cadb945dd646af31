//! Cuts a graph in two: nodes that depend on elements computed by a run, and all their consumers, form a second graph.
//! It is resolved once those elements are known, as if they were constants.

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
    pub(super) what: Dependency,
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
        (what, values): (Dependency, Vec<ValueId>),
    ) -> Self {
        Self { node, op, reason, what, values, is_in_loop: false }
    }
}

/// The property of a value that a node depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
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
        let is_made_there =
            |value: &ValueId| self.outside_loop.is_some_and(|at| value.index() >= at);
        if want.is_in_loop || !want.values.iter().any(is_made_there) {
            return ResolveError::Wants(want);
        }
        let reason = format!("{}, and each iteration computes it anew", want.reason);
        ResolveError::Wants(Want { reason, is_in_loop: true, ..want })
    }

    /// Returns the values that existed at `mark` from which `values` are computed. Nodes that upgrades insert compute
    /// them from the node's own inputs.
    fn made_of(&self, Want { values, what, .. }: &Want, mark: &Mark) -> BTreeSet<ValueId> {
        let (mut wanted, what): (BTreeSet<ValueId>, _) = (values.iter().copied().collect(), *what);
        let since = self.graph.nodes.get(mark.nodes..).unwrap_or_default();
        for bound in since.iter().rev() {
            if bound.node.outputs.iter().flatten().any(|made| wanted.contains(made)) {
                wanted.extend(bound.node.reads().map(|(_, value)| value));
            }
        }
        wanted.retain(|&value| mark.has(value) && self.graph.lacks(value, what));
        wanted
    }
}

impl TypedGraph {
    fn lacks(&self, value: ValueId, what: Dependency) -> bool {
        match what {
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
        let (name, op, what) = (node.name.clone(), node.op.clone(), Dependency::Extents);
        Some(ResolveError::Wants(Want::new(name, op, reason, (what, values))))
    }
}

/// The nodes that are still to be bound, and those after the cut.
pub(super) struct Cut {
    left: VecDeque<Node>,
    nodes: Vec<Node>,
    made: BTreeSet<ValueId>,
    wanted: BTreeSet<ValueId>,
}

impl Cut {
    pub(super) fn new(nodes: Vec<Node>) -> Self {
        let (made, wanted) = (BTreeSet::new(), BTreeSet::new());
        Self { left: nodes.into(), nodes: Vec::new(), made, wanted }
    }

    /// Returns the next node that reads nothing from after the cut.
    pub(super) fn next(&mut self, sequences: &Sequences) -> Option<Node> {
        while let Some(node) = self.left.pop_front() {
            let is_made = |value: ValueId| self.made.contains(&value);
            let reads_made = node.reads().any(|(_, value)| is_made(value))
                || sequences.tensors_read(&node).any(is_made);
            if !reads_made {
                return Some(node);
            }
            self.add(node);
        }
        None
    }

    /// Inserts nodes to be bound next.
    pub(super) fn prepend(&mut self, nodes: Vec<Node>) {
        for node in nodes.into_iter().rev() {
            self.left.push_front(node);
        }
    }

    fn add(&mut self, node: Node) {
        self.made.extend(node.outputs.iter().flatten());
        self.nodes.push(node);
    }

    /// Removes what was added for a node since `mark`, and moves the node after the cut.
    pub(super) fn defer(
        &mut self,
        binding: &mut Binding<'_>,
        (node, mark): (Node, Mark),
        want: Want,
    ) -> Result<(), ResolveError> {
        let wanted = binding.made_of(&want, &mark);
        if wanted.is_empty() || want.is_in_loop {
            return Err(want.into());
        }
        binding.return_to(mark);
        let names: Vec<_> = wanted.iter().map(|&value| binding.graph.name_of(value)).collect();
        let names = names.join("\", \"");
        let Want { node: name, op, reason, what, .. } = want;
        let what = match what {
            Dependency::Elements => {
                self.wanted.extend(wanted);
                "elements"
            }
            // Every value that crosses the cut has the extents of the run.
            Dependency::Extents => "extents",
        };
        binding.notices.push(format!(
            "node {name:?} ({op}) and its consumers are planned in the run, for the {what} of \"{names}\": {reason}"
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
        let Self { mut nodes, made, wanted, .. } = self;
        if nodes.is_empty() {
            return Ok(None);
        }
        // A sequence crosses the cut as its tensors, and is rebuilt after it.
        let reads: BTreeSet<_> =
            nodes.iter().flat_map(Node::reads).map(|(_, value)| value).collect();
        let crossing = reads.into_iter().filter(|value| !made.contains(value));
        let crossing = crossing.filter_map(|value| Some((value, sequences.items(value)?)));
        let rebuilt: Vec<_> =
            crossing.map(|(value, items)| sequence::rebuilt(graph, value, items)).collect();
        let made: BTreeSet<_> =
            made.into_iter().chain(rebuilt.iter().filter_map(|node| node.output(0))).collect();
        nodes.splice(..0, rebuilt);
        let values = graph.values.iter().map(|value| value.value.clone());
        let values = values.map(|value| match value.source {
            Source::Input(_) => Value { source: Source::Computed, ..value },
            Source::Constant(_) | Source::Computed | Source::Outer => value,
        });
        let values = values.collect();
        let (before, outputs) = graph.outputs.iter().partition(|output| !made.contains(output));
        graph.outputs = before;
        // The second part may read an input after an output has been written.
        graph.in_place.clear();
        let reads = nodes.iter().flat_map(Node::reads).map(|(_, value)| value);
        let read: BTreeSet<_> = reads.filter(|value| !made.contains(value)).collect();
        let mut behind = Graph::new(&graph.name);
        (behind.nodes, behind.values, behind.outputs) = (nodes, values, outputs);
        let mut behind = Part::whole(behind);
        for value in read {
            behind.give(graph, value, wanted.contains(&value))?;
        }
        behind.graph.sort().map_err(|why| ResolveError::Broken(why.to_string()))?;
        behind.forget_unused();
        Ok(Some(behind))
    }
}

impl Part {
    /// Drops unused values, so that the parts of a long loop do not keep each other's values.
    fn forget_unused(&mut self) {
        let kept = self.graph.forget_unused(&self.wanted);
        for id in self.wanted.iter_mut().chain(&mut self.open) {
            *id = kept.get(id).copied().unwrap_or(*id);
        }
    }

    /// Makes a value of the previous part available to this one.
    fn give(
        &mut self,
        graph: &mut TypedGraph,
        id: ValueId,
        is_wanted: bool,
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
        value.source = Source::Input(carried(graph, id, value)?);
        let given = if is_wanted { &mut self.wanted } else { &mut self.graph.inputs };
        given.push(id);
        Ok(())
    }
}

/// Returns the type of a value for the second part. Extents that a run or the model's inputs determine are open.
fn carried(graph: &TypedGraph, id: ValueId, value: &Value) -> Result<TensorType, ResolveError> {
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
