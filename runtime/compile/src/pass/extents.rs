//! Infers symbolic extents of a graph's values, and of integer tensors that nodes compute from extents.

use std::collections::HashMap;

use udo_api::{Dim, TensorDesc};

use super::extent::Extent;
use crate::compiler::Compiler;
use crate::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{DimSpec, Source, ValueId};
use udo_graph::memory::Tensor;

/// The most elements of a tensor that are tracked, enough for a shape.
const MOST_INTS: usize = 16;

/// The symbolic extents and integers of all values; empty if no extent is bounded.
#[derive(Debug, Default)]
pub struct Extents {
    values: Vec<Known>,
    /// The upper bound of each unknown.
    most: Vec<usize>,
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
        let mut all = Self { values: vec![Known::default(); graph.values.len()], most: Vec::new() };
        let mut named: HashMap<&str, Extent> = HashMap::new();
        for (at, value) in graph.values.iter().enumerate() {
            let specs = match &value.value.source {
                Source::Input(of) => of.dims.as_slice(),
                Source::Constant(_) | Source::Computed | Source::Outer => continue,
            };
            // A named dimension is one unknown in all inputs.
            let shape = value.desc.full_shape();
            let dims = shape.iter().zip(specs).map(|(dim, spec)| match spec {
                DimSpec::Named(name) if dim.exact().is_none() => {
                    Some(named.entry(name).or_insert_with(|| all.free(dim)).clone())
                }
                DimSpec::Named(_) | DimSpec::Fixed(_) | DimSpec::Unknown => None,
            });
            let said = Inferred { dims: dims.collect(), ints: None };
            all.set(ValueId::new(at), &value.desc, said);
        }
        for (at, value) in graph.values.iter().enumerate() {
            let id = ValueId::new(at);
            if let Some(tensor) = graph.known(Some(id)) {
                all.set(id, &value.desc, Inferred { dims: Vec::new(), ints: ints(tensor) });
            }
        }
        for bound in graph.nodes.iter().filter(|bound| !bound.is_folded) {
            let is_known = bound.control.is_none() && compiler.operators.is_builtin(bound.package);
            let at = NodeExtents { graph, bound, extents: &all };
            let mut said = is_known.then(|| rule(&at)).flatten();
            for &output in bound.node.outputs.iter().flatten() {
                all.set(output, &graph.desc(Some(output)), said.take().unwrap_or_default());
            }
        }
        all
    }

    fn free(&mut self, dim: Dim) -> Extent {
        self.most.push(dim.bound());
        Extent::free(self.most.len() - 1)
    }

    fn set(&mut self, value: ValueId, desc: &TensorDesc, said: Inferred) {
        let mut dims = said.dims.into_iter();
        let mut dim = |dim: Dim| {
            let said = dims.next().flatten();
            let exact = dim.exact().and_then(|extent| i64::try_from(extent).ok());
            exact.map(Extent::constant).or(said).unwrap_or_else(|| self.free(dim))
        };
        let dims = desc.full_shape().iter().map(&mut dim).collect();
        let ints = said.ints.filter(|ints| ints.len() == desc.len() && ints.len() <= MOST_INTS);
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

    /// Returns whether the value is integers that are computed from extents.
    pub(super) fn are_ints(&self, value: ValueId) -> bool {
        self.values.get(value.index()).is_some_and(|known| known.ints.is_some())
    }
}

/// Returns the elements of a small integer tensor.
fn ints(tensor: &Tensor) -> Option<Vec<Extent>> {
    if tensor.desc().len() > MOST_INTS {
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
        a.is_at_most(b, &self.extents.most)
    }
}
