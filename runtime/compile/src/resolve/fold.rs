//! Constant folding: computes pure nodes whose inputs are known while the model is compiled. For operators that only
//! read the extents of an input, known extents are enough.
//!
//! A result above [`SMALL_BYTES`] is kept only if it is smaller than the node's inputs, or if all its consumers pack it
//! and release it afterwards.

use std::collections::BTreeSet;
use std::ptr;

use udo_api::guard::OWN_GUARD;
use udo_api::{Core, Dim, Facts, Port, TensorDesc};
use udo_host::{ConstantId, Once, PlacedNode, finalize, once};

use super::{BoundNode, ParamSetting, TypedGraph};
use crate::compiler::Compiler;
use crate::resolve::kernels::{call, host, kernels_of};
use udo_engine::cache::Cache;
use udo_engine::exit_guard;
use udo_engine::operators::KernelEntry;
use udo_graph::graph::{Graph, Links, NodeId, NodeReads, PerValue, Read, ValueId};
use udo_graph::memory::{Tensor, TensorStorage};

/// The largest result that is folded unconditionally, in bytes.
const SMALL_BYTES: usize = 1 << 20;

/// Computes the node that was added last if it can be folded. A node whose kernel fails is left for the run, which
/// reports the failure.
pub(super) fn fold(compiler: &Compiler<'_>, graph: &mut TypedGraph) {
    let Some(bound) = graph.nodes.last().filter(|bound| graph.is_foldable(bound)) else {
        return;
    };
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let mut fits = kernels.iter().filter(|entry| graph.fits(bound, entry.def, Core::CPU));
    let is_open = graph.follows_open(bound);
    let key = || graph.made_of(bound).filter(|_| !is_open);
    let results = graph.view_of(bound).map(|view| vec![Some(view)]);
    let results = results.or_else(|| {
        let mut compute = || fits.find_map(|entry| compute(compiler, graph, bound, entry));
        let mut compute = || cached(compiler, graph, bound, &mut compute).ok_or(());
        compiler.constants.derived(key, &mut compute).ok()
    });
    let Some(results) = results else { return };
    let outputs = bound.node.outputs.clone();
    for (value, tensor) in outputs.into_iter().zip(results) {
        let slot = value.and_then(|value| graph.values.get_mut(value.index()));
        if let (Some(value), Some(tensor)) = (slot, tensor) {
            value.desc = value.desc.with_extents(tensor.desc().full_shape());
            (value.folded, value.is_open) = (Some(tensor), is_open);
        }
    }
    if let Some(bound) = graph.nodes.last_mut() {
        bound.is_folded = true;
    }
}

/// Returns the result of `compute`, or the cached result if the node is one of a built-in operator with a single
/// output.
fn cached(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    bound: &BoundNode,
    compute: &mut dyn FnMut() -> Option<Vec<Option<Tensor>>>,
) -> Option<Vec<Option<Tensor>>> {
    let [Some(output)] = bound.node.outputs[..] else { return compute() };
    if !compiler.operators.is_builtin(bound.package) {
        return compute();
    }
    let key = |cache: &Cache| graph.stable_of(bound, cache);
    let compute = || compute()?.pop().flatten();
    Some(vec![Some(compiler.constants.derive(&graph.desc(Some(output)), key, compute)?)])
}

/// Leaves large results to the run unless all consumers pack them.
pub(super) fn unfold(compiler: &Compiler<'_>, graph: &mut TypedGraph) {
    let is_large = |bound: &BoundNode| bound.is_folded && !graph.is_small(bound);
    if !graph.nodes.iter().any(is_large) {
        return;
    }
    let readers = graph.consumers();
    for id in (0..graph.nodes.len()).rev().map(NodeId::new) {
        let Ok(bound) = graph.node(id) else { continue };
        if bound.is_folded && !graph.is_small(bound) && !is_released(compiler, graph, id, &readers)
        {
            let result = graph.node(id).ok().and_then(|bound| graph.known(bound.node.output(0)));
            if let (Some(cache), Some(result)) = (compiler.constants.cache(), result) {
                cache.discard(result);
            }
            graph.unfold(id);
        }
    }
}

/// Returns whether the result of a folded node is released once the model is planned.
fn is_released(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    id: NodeId,
    readers: &PerValue<Vec<(NodeId, Read)>>,
) -> bool {
    let Ok(bound) = graph.node(id) else { return false };
    bound.node.outputs.iter().flatten().all(|&value| {
        let readers = readers.get(value).map_or(&[][..], Vec::as_slice);
        let mut readers =
            readers.iter().filter_map(|&(id, read)| Some((graph.node(id).ok()?, read)));
        !graph.outputs.contains(&value)
            && readers.all(|(reader, read)| match read {
                _ if reader.is_folded => true,
                Read::Input(port) => {
                    let schema = reader.op.schema();
                    let is_constant = schema.input(port).is_some_and(Port::wants_constant);
                    is_constant || is_packed(compiler, graph, reader, port)
                }
                Read::Capture => false,
            })
    })
}

/// Returns whether the CPU kernel for a node packs an input and does not read the original afterwards.
fn is_packed(compiler: &Compiler<'_>, graph: &TypedGraph, bound: &BoundNode, port: usize) -> bool {
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let mut fits = kernels.iter().filter(|entry| graph.fits(bound, entry.def, Core::CPU));
    let kernel = fits.find_map(|entry| {
        let call = call(compiler.operators, bound, "finalize");
        exit_guard::with_record(&call, || finalize(entry.def, &graph.placed(bound), host()).ok())
    });
    kernel.is_some_and(|kernel| !kernel.reads(port))
}

/// Runs a kernel on a node whose inputs are known.
fn compute(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    bound: &BoundNode,
    entry: &KernelEntry,
) -> Option<Vec<Option<Tensor>>> {
    let id = |tensor: Option<&Tensor>| tensor.map_or(u64::MAX, Tensor::id);
    let tensors = bound.node.inputs.iter().map(|&value| graph.known(value));
    let mut placed = graph.placed(bound);
    placed.node.constants = tensors.clone().map(|tensor| tensor.map(Tensor::bytes)).collect();
    let node = Once {
        placed,
        is_shape_only: is_shape_only(bound),
        ids: tensors.map(|tensor| ConstantId { tensor: id(tensor), format: 0 }).collect(),
        machine: host(),
        guard: entry.guard.unwrap_or(OWN_GUARD),
    };
    let call = call(compiler.operators, bound, "execute");
    let results =
        exit_guard::with_record(&call, || once(entry.def, &node, compiler.constants.packs()));
    let tensor = |result: Option<_>| {
        let Some((desc, buffer)): Option<(TensorDesc, _)> = result else { return Some(None) };
        Tensor::from_buffer(desc.dtype()?, desc.full_shape(), buffer).ok().map(Some)
    };
    results.ok()?.into_iter().map(tensor).collect()
}

/// Returns whether a node reads only the extents of its inputs.
fn is_shape_only(bound: &BoundNode) -> bool {
    bound.op.schema().known_facts().has(Facts::SHAPE_ONLY)
}

impl TypedGraph {
    /// Returns whether a node always has the same result, and that result can be computed now.
    fn is_foldable(&self, bound: &BoundNode) -> bool {
        let is_pure = bound.op.schema().known_facts().has(Facts::PURE);
        let has_outputs = bound.node.outputs.iter().any(Option::is_some);
        let is_shape_only = is_shape_only(bound);
        let is_known = bound.node.reads().all(|(_, value)| {
            let is_sized = is_shape_only && self.desc(Some(value)).full_shape().is_fixed();
            is_sized || self.known(Some(value)).is_some()
        });
        let mut outputs = bound.node.outputs.iter().map(|&value| self.desc(value));
        // The size of a bounded output is known only after the call.
        let is_fixed = outputs.all(|desc| desc.full_shape().is_fixed());
        is_pure && has_outputs && is_known && (is_fixed || self.is_small(bound))
    }

    /// Returns a key of everything besides the constants' elements that determines a node's result; `None` if the key
    /// would be too long.
    pub(crate) fn made_of(&self, bound: &BoundNode) -> Option<String> {
        let settings = bound.params.settings();
        let is_long = |setting: &ParamSetting| matches!(setting, ParamSetting::Tensor(_));
        if settings.iter().any(|(_, setting)| is_long(setting)) {
            return None;
        }
        let input = |&value: &Option<ValueId>| match self.known(value) {
            Some(tensor) => format!("{} {:?}", tensor.id(), tensor.dims()),
            None if is_shape_only(bound) => self.desc(value).to_string(),
            None => String::new(),
        };
        let inputs: Vec<String> = bound.node.inputs.iter().map(input).collect();
        let op = ptr::from_ref(bound.op);
        Some(format!(
            "{op:?} {} {inputs:?} {settings:?} {:?}",
            bound.node.opset,
            bound.node.outputs.len()
        ))
    }

    /// Returns a key like [`TypedGraph::made_of`] that is the same in all processes.
    fn stable_of(&self, bound: &BoundNode, cache: &Cache) -> Option<String> {
        let (settings, schema) = (bound.params.settings(), bound.op.schema());
        let is_long = |setting: &ParamSetting| matches!(setting, ParamSetting::Tensor(_));
        if settings.iter().any(|(_, setting)| is_long(setting)) {
            return None;
        }
        let input = |&value: &Option<ValueId>| match self.known(value) {
            Some(tensor) => format!("{:x} {}", cache.constant_id(tensor), self.desc(value)),
            None => self.desc(value).to_string(),
        };
        let inputs: Vec<String> = bound.node.inputs.iter().map(input).collect();
        let (domain, op, opset) = (schema.domain(), schema.name(), bound.node.opset);
        let output = self.desc(bound.node.output(0));
        Some(format!("folded {domain:?} {op} {opset} {inputs:?} {settings:?} {output}"))
    }

    /// Returns whether the result of a folded node may differ in the next plan.
    fn follows_open(&self, bound: &BoundNode) -> bool {
        let is_open = |dim: Dim| matches!(dim, Dim::Open(_));
        bound.node.reads().any(|(_, value)| {
            let extents = self.desc(Some(value)).full_shape();
            self.is_open(Some(value)) || is_shape_only(bound) && extents.iter().any(is_open)
        })
    }

    /// Returns whether a node's result is small, smaller than its inputs, or a view of a constant.
    fn is_small(&self, bound: &BoundNode) -> bool {
        let bytes = |values: &[Option<ValueId>]| {
            let distinct: BTreeSet<_> = values.iter().copied().collect();
            distinct
                .into_iter()
                .fold(0usize, |sum, v| sum.saturating_add(self.desc(v).size_bytes()))
        };
        let result_bytes = bytes(&bound.node.outputs);
        match bound.op.schema().known_facts().has(Facts::VIEW) {
            _ if result_bytes <= SMALL_BYTES => true,
            true => bound.node.input(0).is_some_and(|x| self.constant(x).is_some()),
            false => result_bytes < bytes(&bound.node.inputs),
        }
    }

    /// Returns the result of a node that only reshapes its input.
    fn view_of(&self, bound: &BoundNode) -> Option<Tensor> {
        let [Some(_)] = bound.node.outputs[..] else { return None };
        let desc = self.desc(bound.node.output(0));
        let x = self.known(bound.node.input(0))?;
        let is_view = bound.op.schema().known_facts().has(Facts::VIEW);
        let is_alike = Some(x.dtype()) == desc.dtype() && desc.full_shape().is_fixed();
        if is_view && is_alike { x.reshaped(desc.full_shape()).ok() } else { None }
    }

    /// Returns the node as a CPU kernel sees it.
    pub(super) fn placed<'a>(&'a self, bound: &'a BoundNode) -> PlacedNode<'a> {
        let outputs: Vec<_> = bound.node.outputs.iter().map(|&value| self.desc(value)).collect();
        PlacedNode::new(self.view(&bound.node, &bound.params), Core::CPU, &outputs)
    }

    /// Makes a folded node an ordinary one again.
    fn unfold(&mut self, id: NodeId) {
        let Graph { nodes, values, .. } = &mut **self;
        let Some(bound) = nodes.get_mut(id.index()) else { return };
        bound.is_folded = false;
        for value in bound.node.outputs.iter().flatten() {
            if let Some(value) = values.get_mut(value.index()) {
                value.folded = None;
            }
        }
    }
}
