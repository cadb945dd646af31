//! Finished graphs: checked as a whole and converted to the form that models are compiled from.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::lower::Values;
use super::{Error, ErrorCode, GraphBuilder, Result, Slot, TensorId, at, invalid, state};
use udo_engine::device::Extent;
use udo_graph::graph::{DimSpec, Graph, GraphError, TensorType, ValueId};

/// An immutable graph. Any number of models can be compiled from [`FinishedGraph::graph`].
#[derive(Clone, Debug)]
pub struct FinishedGraph {
    built: GraphBuilder,
    graph: Graph,
}

/// An error of [`GraphBuilder::finish`], with the builder.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// The builder, which can be corrected.
    pub builder: Box<GraphBuilder>,
    /// The error.
    pub error: Error,
}

impl From<Unfinished> for Error {
    fn from(unfinished: Unfinished) -> Self {
        unfinished.error
    }
}

impl FinishedGraph {
    pub(super) fn build(built: GraphBuilder) -> std::result::Result<Self, Unfinished> {
        match checked_graph(&built) {
            Ok(graph) => Ok(Self { built, graph }),
            Err(error) => Err(Unfinished { builder: Box::new(built), error }),
        }
    }

    /// Returns the graph to compile. Nodes are named after their operations.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the ranges of dimensions, by their names in [`FinishedGraph::graph`].
    pub fn ranges(&self) -> BTreeMap<String, RangeInclusive<usize>> {
        let inputs = self.built.io.iter().flat_map(|io| &io.inputs);
        let inputs = inputs.filter_map(|&id| self.built.slot(id).ok());
        let ranges = inputs.flat_map(|tensor| {
            tensor.spec.extents().enumerate().filter_map(|(axis, extent)| match extent {
                Extent::Range { min, max } => Some((range_name(tensor, axis), min..=max)),
                Extent::Fixed(_) | Extent::Open => None,
            })
        });
        ranges.collect()
    }

    /// Returns the names of the operations in the order in which they were added: operator and index.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        self.built.operations.iter().map(|placed| placed.call.name.as_str())
    }

    /// Returns the index of the operation that a node of this name belongs to.
    pub fn operation_of(&self, node: &str) -> Option<usize> {
        let is_part = |suffix: &str| suffix.is_empty() || suffix.starts_with(['/', '.']);
        self.operations().position(|name| node.strip_prefix(name).is_some_and(is_part))
    }

    /// Returns a graph of a single operation, whose inputs have the declared types and shapes of its tensors.
    ///
    /// # Errors
    /// The operation does not exist.
    pub fn alone(&self, operation: usize) -> Result<Graph> {
        let built = &self.built;
        let count = built.operations.len();
        let placed = built.operations.get(operation).ok_or_else(|| {
            invalid(format!("there is no operation {operation}, expected one of {count}"))
        })?;
        let is_read = |id: &&TensorId| built.slot(**id).is_ok_and(|slot| slot.data.is_none());
        let mut inputs: Vec<TensorId> = Vec::new();
        for &id in placed.call.inputs.iter().flatten().filter(is_read) {
            if !inputs.contains(&id) {
                inputs.push(id);
            }
        }
        let outputs: Vec<_> = placed.call.outputs.iter().flatten().copied().collect();
        subgraph(built, &inputs, &outputs, operation..operation.saturating_add(1))
    }
}

/// Converts the whole graph, after checking it.
fn checked_graph(built: &GraphBuilder) -> Result<Graph> {
    let missing = |what: &str| state(format!("graph {:?} has no {what} yet", built.name));
    if built.tensors.is_empty() {
        return Err(missing("tensors"));
    }
    if built.operations.is_empty() {
        return Err(missing("operations"));
    }
    let io = built.io.as_ref().ok_or_else(|| missing("inputs and outputs"))?;
    for placed in &built.operations {
        for (port, id) in placed.call.inputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            check_written(built, id, &format!("{}: input {port}", placed.call.name))?;
        }
    }
    for (index, &id) in io.outputs.iter().enumerate() {
        check_written(built, id, &format!("output {index}"))?;
    }
    let mut graph = subgraph(built, &io.inputs, &io.outputs, 0..built.operations.len())?;
    graph.sort().map_err(|error| graph_error(&error))?;
    graph.verify().map_err(|error| graph_error(&error))?;
    Ok(graph)
}

/// Refuses a tensor that nothing writes.
fn check_written(built: &GraphBuilder, id: TensorId, place: &str) -> Result<()> {
    let tensor = built.slot(id)?;
    let is_input = built.io.as_ref().is_some_and(|io| io.inputs.contains(&id));
    if tensor.data.is_some() || tensor.writer.is_some() || is_input {
        return Ok(());
    }
    let tensor = tensor.place(id);
    Err(invalid(format!(
        "{place} is {tensor}, which nothing makes, expected a constant, an input or what an operation makes"
    )))
}

fn graph_error(error: &GraphError) -> Error {
    let code = match error {
        GraphError::Cycle { .. } => ErrorCode::InvalidArgument,
        _ => ErrorCode::Internal,
    };
    Error::new(code, error.to_string())
}

/// Returns the graph of a range of operations, with these inputs and outputs.
fn subgraph(
    built: &GraphBuilder,
    inputs: &[TensorId],
    outputs: &[TensorId],
    operations: Range<usize>,
) -> Result<Graph> {
    let mut graph = Graph::new(&built.name);
    let mut values = Values::new(built.tensors.len());
    for &id in inputs {
        let tensor = built.slot(id)?;
        let dims = (0..).zip(tensor.spec.extents()).map(|(axis, extent)| dim(tensor, axis, extent));
        values.set(id, graph.add_input(&tensor.name, tensor.spec.dtype(), dims));
    }
    let operations = built.operations.get(operations).unwrap_or_default();
    for id in operations
        .iter()
        .flat_map(|placed| placed.call.inputs.iter().chain(&placed.call.outputs))
        .flatten()
    {
        if values.has(*id) {
            continue;
        }
        let tensor = built.slot(*id)?;
        values.set(
            *id,
            match &tensor.data {
                Some(data) => graph.add_constant(&tensor.name, data.clone()),
                None => computed(&mut graph, tensor),
            },
        );
    }
    for placed in operations {
        placed
            .lower(&mut graph, &built.tensors, &values)
            .map_err(|error| at(&placed.call.name, &error))?;
    }
    graph.outputs = outputs.iter().filter_map(|&id| values.get(id)).collect();
    Ok(graph)
}

/// Adds a computed value with the type that the tensor declares.
fn computed(graph: &mut Graph, tensor: &Slot) -> ValueId {
    let id = graph.add_value(&tensor.name);
    let dims = tensor.spec.extents().map(|extent| match extent {
        Extent::Fixed(n) => DimSpec::Fixed(n),
        Extent::Range { .. } | Extent::Open => DimSpec::Unknown,
    });
    let declared = TensorType { dtype: tensor.spec.dtype(), dims: dims.collect() };
    if let Some(value) = graph.values.last_mut() {
        value.declared = Some(declared);
    }
    id
}

fn dim(tensor: &Slot, axis: usize, extent: Extent) -> DimSpec {
    match extent {
        Extent::Fixed(n) => DimSpec::Fixed(n),
        Extent::Range { .. } => DimSpec::Named(range_name(tensor, axis)),
        Extent::Open => DimSpec::Unknown,
    }
}

/// Returns the name of a dimension with a range. It is unique because names of tensors are.
fn range_name(tensor: &Slot, axis: usize) -> String {
    format!("{}.{axis}", tensor.name)
}
