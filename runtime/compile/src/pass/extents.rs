//! Infers the symbolic extents of a graph's values, and the elements of integer tensors that nodes compute from
//! extents, such as the shape for a `Reshape`. The rules of operators are in `patterns::extents`.

use std::collections::HashMap;

use udo_api::{Dim, TensorDesc};

use super::extent::Extent;
use crate::compiler::Compiler;
use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{DimSpec, Source, ValueId};
use udo_graph::memory::Tensor;

/// The largest number of tracked elements of a tensor, enough for a shape.
const MAX_INTS: usize = 16;

/// The symbolic extents and integers of all values; empty if no extent is bounded.
#[derive(Debug, Default)]
pub struct Extents {
    values: Vec<Known>,
    /// The upper bound of each unknown.
    upper_bounds: Vec<usize>,
}

/// The extents and integers of a value.
#[derive(Clone, Debug, Default)]
struct Known {
    dims: Vec<Extent>,
    /// Its elements, if it is a small integer tensor computed from extents.
    ints: Option<Vec<Extent>>,
}

/// The result of a rule for a node's first output. A `None` extent is a new unknown, unless the output's shape
/// determines it.
#[derive(Debug, Default)]
pub(super) struct Inferred {
    pub(super) dims: Vec<Option<Extent>>,
    pub(super) ints: Option<Vec<Extent>>,
}

/// Computes the extents and integers of a node's output from those of its inputs, as far as they are known.
pub(super) type Rule = fn(&NodeExtents<'_>) -> Option<Inferred>;

/// A node whose inputs are known.
#[derive(Debug)]
pub(super) struct NodeExtents<'a> {
    pub(super) graph: &'a TypedGraph,
    pub(super) bound: &'a BoundNode,
    extents: &'a Extents,
}

impl Extents {
    /// Infers the extents of a graph. `rule` describes the built-in operators.
    pub(super) fn infer(graph: &TypedGraph, compiler: &Compiler<'_>, rule: Rule) -> Self {
        if graph.values.iter().all(|value| value.desc.full_shape().is_fixed()) {
            return Self::default();
        }
        let mut extents =
            Self { values: vec![Known::default(); graph.values.len()], upper_bounds: Vec::new() };
        let mut named: HashMap<&str, Extent> = HashMap::new();
        for (index, value) in graph.values.iter().enumerate() {
            let specs = match &value.value.source {
                Source::Input(declared) => declared.dims.as_slice(),
                Source::Constant(_) | Source::Computed | Source::Outer => continue,
            };
            // A named dimension is one unknown in all inputs.
            let shape = value.desc.full_shape();
            let dims = shape.iter().zip(specs).map(|(dim, spec)| match spec {
                DimSpec::Named(name) if dim.exact().is_none() => {
                    Some(named.entry(name).or_insert_with(|| extents.unknown(dim)).clone())
                }
                DimSpec::Named(_) | DimSpec::Fixed(_) | DimSpec::Unknown => None,
            });
            let inferred = Inferred { dims: dims.collect(), ints: None };
            extents.set(ValueId::new(index), &value.desc, inferred);
        }
        for (index, value) in graph.values.iter().enumerate() {
            let id = ValueId::new(index);
            if let Some(tensor) = graph.known(Some(id)) {
                extents.set(id, &value.desc, Inferred { dims: Vec::new(), ints: ints(tensor) });
            }
        }
        for bound in graph.nodes.iter().filter(|bound| !bound.is_folded) {
            let is_known = bound.control.is_none() && compiler.operators.is_builtin(bound.package);
            let node = NodeExtents { graph, bound, extents: &extents };
            let mut inferred = is_known.then(|| rule(&node)).flatten();
            for &output in bound.node.outputs.iter().flatten() {
                extents.set(output, &graph.desc(Some(output)), inferred.take().unwrap_or_default());
            }
        }
        extents
    }

    /// Adds an unknown that is bounded like `dim`.
    fn unknown(&mut self, dim: Dim) -> Extent {
        self.upper_bounds.push(dim.bound());
        Extent::unknown(self.upper_bounds.len() - 1)
    }

    /// Sets the extents and integers of a value. Extents that are neither inferred nor fixed become new unknowns.
    fn set(&mut self, value: ValueId, desc: &TensorDesc, inferred: Inferred) {
        let mut dims = inferred.dims.into_iter();
        let mut dim = |dim: Dim| {
            let inferred = dims.next().flatten();
            let exact = dim.exact().and_then(|extent| i64::try_from(extent).ok());
            exact.map(Extent::constant).or(inferred).unwrap_or_else(|| self.unknown(dim))
        };
        let dims = desc.full_shape().iter().map(&mut dim).collect();
        let ints = inferred.ints.filter(|ints| ints.len() == desc.len() && ints.len() <= MAX_INTS);
        if let Some(slot) = self.values.get_mut(value.index()) {
            *slot = Known { dims, ints };
        }
    }

    /// Returns the extents of a value.
    pub(super) fn dims(&self, graph: &TypedGraph, value: Option<ValueId>) -> Option<Vec<Extent>> {
        let desc = graph.desc(value);
        let fixed = |dim: Dim| Some(Extent::constant(i64::try_from(dim.exact()?).ok()?));
        let known = self.values.get(value?.index()).filter(|known| known.dims.len() == desc.rank());
        known
            .map(|known| known.dims.clone())
            .or_else(|| desc.full_shape().iter().map(fixed).collect())
    }

    /// Returns whether the value is an integer tensor that is computed from extents.
    pub(super) fn are_ints(&self, value: ValueId) -> bool {
        self.values.get(value.index()).is_some_and(|known| known.ints.is_some())
    }
}

/// Returns the elements of a small integer tensor.
fn ints(tensor: &Tensor) -> Option<Vec<Extent>> {
    if tensor.desc().len() > MAX_INTS {
        return None;
    }
    let wide = tensor.get::<i64>().map(|ints| ints.iter().copied().map(Extent::constant).collect());
    wide.or_else(|| {
        Some(tensor.get::<i32>()?.iter().map(|&int| Extent::constant(int.into())).collect())
    })
}

impl NodeExtents<'_> {
    pub(super) fn op(&self) -> (&'static str, &'static str) {
        let schema = self.bound.op.schema();
        (schema.domain(), schema.name())
    }

    pub(super) fn desc(&self, port: usize) -> TensorDesc {
        self.graph.desc(self.bound.node.input(port))
    }

    /// Returns the extents of an input.
    pub(super) fn dims(&self, port: usize) -> Option<&[Extent]> {
        let known = self.extents.values.get(self.bound.node.input(port)?.index())?;
        (known.dims.len() == self.desc(port).rank()).then_some(known.dims.as_slice())
    }

    /// Returns the integers of an input.
    pub(super) fn ints(&self, port: usize) -> Option<&[Extent]> {
        self.extents.values.get(self.bound.node.input(port)?.index())?.ints.as_deref()
    }

    /// Returns the integers of an input if they are the same in every run.
    pub(super) fn numbers(&self, port: usize) -> Option<Vec<i64>> {
        self.ints(port)?.iter().map(Extent::number).collect()
    }

    pub(super) fn is_at_most(&self, a: &Extent, b: &Extent) -> bool {
        a.is_at_most(b, &self.extents.upper_bounds)
    }
}
