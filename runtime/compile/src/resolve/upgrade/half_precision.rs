//! Computes chains of half-precision nodes (f16 and bf16) in f32, and rounds values where other nodes read them. This
//! saves the conversions between nodes, whose kernels compute in f32 anyway. A value is wide if its f32 value before
//! rounding is known.
//!
//! A node stays in half precision if its operator has a kernel for it and none of its inputs was computed in f32; rows
//! of an f16 table are gathered as f16, for example. Almost every other node reads and writes f32. A `Cast` rounds each
//! half-precision output for consumers that need it; consumers that are computed in f32 read the f32 value instead.

use udo_api::{Bf16, Core, DType, F16, KernelDef, Side, TensorDesc};

use super::edit::{new_node, with_int};
use crate::compiler::Compiler;
use crate::resolve::add_bound;
use crate::resolve::bound_node;
use crate::resolve::builtin_for;
use crate::resolve::kernels::kernels_of;
use crate::resolve::{BoundNode, MissingOp, ResolveError, TypedGraph, Wide, port_types};
use udo_engine::operators::OpEntry;
use udo_graph::graph::{Attr, Node, ValueId};
use udo_graph::memory::Tensor;

/// Adds a half-precision node as an f32 node if that is better; returns whether it did.
pub(in crate::resolve) fn widen(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    bound: &BoundNode,
    outputs: &[TensorDesc],
) -> Result<bool, ResolveError> {
    let half_ports = graph.half_inputs(&bound.node);
    if half_ports.is_empty() || !compiler.operators.is_builtin(bound.package) {
        return Ok(false);
    }
    let reads_wide = half_ports.iter().any(|&port| graph.wide_for(&bound.node, port).is_some());
    if !reads_wide && takes_halves(compiler, graph, bound, outputs) {
        return Ok(false);
    }
    let (nodes, values) = (graph.nodes.len(), graph.values.len());
    let mut wide = bound.node.clone();
    for port in half_ports {
        let value = widened(compiler, graph, &bound.node, port)?;
        if let Some(input) = wide.inputs.get_mut(port) {
            *input = Some(value);
        }
    }
    let entry = OpEntry { package: bound.package, def: bound.op };
    let wide = bound_node(compiler, graph, wide, entry).ok();
    let wide = wide.filter(|(_, wide_outputs)| outputs.iter().zip(wide_outputs).all(is_widened));
    let Some((wide, wide_outputs)) = wide else {
        graph.nodes.truncate(nodes);
        graph.values.truncate(values);
        return Ok(false);
    };
    add_wide(compiler, graph, wide, wide_outputs, outputs)?;
    Ok(true)
}

/// Returns whether the first matching CPU kernel takes half precision itself, rather than f32.
fn takes_halves(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    bound: &BoundNode,
    outputs: &[TensorDesc],
) -> bool {
    let inputs: Vec<TensorDesc> =
        bound.node.inputs.iter().map(|&value| graph.desc(value)).collect();
    let schema = bound.op.schema();
    let accepts = |kernel: &KernelDef, side: Side, descs: &[TensorDesc], map: DescMap| {
        let dtype = |port: usize| inputs.get(port).and_then(|desc| map(desc).dtype());
        let mut halves = descs.iter().enumerate().filter(|(_, desc)| is_half(desc));
        halves.all(|(port, desc)| {
            map(desc).is_in(port_types(schema, kernel, Core::CPU, (side, port), dtype))
        })
    };
    let accepts_all = |kernel: &KernelDef, map: DescMap| {
        accepts(kernel, Side::Input, &inputs, map) && accepts(kernel, Side::Output, outputs, map)
    };
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let unchanged = kernels.iter().position(|entry| accepts_all(entry.def, |desc| *desc));
    let as_f32 = kernels.iter().position(|entry| accepts_all(entry.def, in_f32));
    unchanged.is_some_and(|half| as_f32.is_none_or(|wide| half <= wide))
}

/// Returns a half-precision input in f32: the value that it was rounded from, or a conversion of it.
fn widened(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &Node,
    port: usize,
) -> Result<ValueId, ResolveError> {
    if let Some(value) = graph.wide_for(node, port) {
        return Ok(value);
    }
    let from = node.input(port).unwrap_or(ValueId::new(0));
    let name = format!("{}.wide.{port}", node.name);
    let value = graph.add_value(&name);
    convert(compiler, graph, (name, from), value, DType::F32)?;
    Ok(value)
}

/// Adds a node that computes half-precision outputs in f32, and the nodes that round them.
fn add_wide(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    mut bound: BoundNode,
    outputs: Vec<TensorDesc>,
    narrow: &[TensorDesc],
) -> Result<(), ResolveError> {
    let name = bound.node.name.clone();
    let mut rounded = Vec::new();
    let slots = bound.node.outputs.iter_mut().zip(outputs.iter().zip(narrow)).enumerate();
    for (index, (slot, (desc, narrow))) in slots {
        let (Some(half), Some(dtype)) = (*slot, narrow.dtype()) else { continue };
        if desc.dtype() != narrow.dtype() {
            let value = graph.add_value(&format!("{name}.unrounded.{index}"));
            *slot = Some(value);
            rounded.push((index, value, half, dtype));
        }
    }
    add_bound(compiler, graph, bound, outputs)?;
    for (index, value, half, dtype) in rounded {
        convert(compiler, graph, (format!("{name}.rounded.{index}"), value), half, dtype)?;
        graph.set_wide(half, Wide { value, is_stated: false });
    }
    Ok(())
}

/// Adds a `Cast` of value `from` to value `to`. It reads `from` itself, even if `from` was rounded from a wide value.
fn convert(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    (name, from): (String, ValueId),
    to: ValueId,
    dtype: DType,
) -> Result<(), ResolveError> {
    let node = with_int(new_node("Cast", &[from]), "to", dtype.onnx().into());
    let node = Node { name, outputs: vec![Some(to)], ..node };
    let missing =
        || ResolveError::MissingOps { all: vec![MissingOp::new(&node, compiler.operators)] };
    let entry = builtin_for(compiler.operators, &node).ok_or_else(missing)?;
    let (bound, outputs) = bound_node(compiler, graph, node, entry)?;
    add_bound(compiler, graph, bound, outputs)
}

impl TypedGraph {
    /// Returns the inputs of a node that are f16 or bf16.
    fn half_inputs(&self, node: &Node) -> Vec<usize> {
        let inputs = node.inputs.iter().enumerate();
        inputs.filter(|&(_, &value)| is_half(&self.desc(value))).map(|(port, _)| port).collect()
    }

    /// Records that a `Cast` of the model rounds its input.
    pub(in crate::resolve) fn note_rounding(&mut self, bound: &BoundNode) {
        let Node { op, .. } = &bound.node;
        let (from, to) = (bound.node.input(0), bound.node.output(0));
        let rounds =
            op == "Cast" && self.desc(from).dtype() == Some(DType::F32) && is_half(&self.desc(to));
        if let (Some(value), Some(half), true) = (from, to, rounds) {
            self.set_wide(half, Wide { value, is_stated: true });
        }
    }

    fn set_wide(&mut self, half: ValueId, wide: Wide) {
        if let Some(value) = self.values.get_mut(half.index()) {
            value.wide = Some(wide);
        }
    }

    /// Returns whether a `Pow` node has the constant exponent 2.
    fn is_square(&self, node: &Node) -> bool {
        let is_two = |number: f32| number.to_bits() == 2f32.to_bits();
        let squares = |tensor: &Tensor| match tensor.get::<F16>() {
            Some(numbers) => numbers.iter().all(|number| is_two(number.to_f32())),
            None => tensor
                .get::<Bf16>()
                .is_some_and(|numbers| numbers.iter().all(|number| is_two(number.to_f32()))),
        };
        self.known(node.input(1)).is_some_and(squares)
    }

    /// Returns the f32 value that a half-precision input was rounded from, if the node may read it instead. A `Cast`
    /// may do so if it widens a value that no node of the model rounds explicitly.
    fn wide_for(&self, node: &Node, port: usize) -> Option<ValueId> {
        let wide = self.values.get(node.input(port)?.index())?.wide?;
        let may_read_wide = match node.op.as_str() {
            "Cast" => !wide.is_stated && is_to(node, DType::F32),
            // A scale must be the rounded one: a small change of it moves a quotient by many steps.
            "QuantizeLinear" | "RoundTo" => port == 0 && !wide.is_stated,
            "BitCast" | "CastLike" | "DequantizeLinear" => false,
            op if DISCONTINUOUS.contains(&op) => false,
            // A tiny change of the base decides whether its root is NaN.
            "Pow" => port == 1 || self.is_square(node),
            _ => true,
        };
        may_read_wide.then_some(wide.value)
    }
}

/// Discontinuous operators. They read the rounded values that the model states, so that a number that becomes
/// an integer by rounding counts as one.
const DISCONTINUOUS: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "Ceil",
    "Equal",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "Hardmax",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Mod",
    "NonZero",
    "OneHot",
    "Round",
    "Sign",
    "TopK",
    "Unique",
];

/// Returns whether a `Cast` converts to this type.
fn is_to(node: &Node, dtype: DType) -> bool {
    matches!(node.attr("to"), Some(Attr::Int(to)) if *to == i64::from(dtype.onnx()))
}

/// Maps the description of a tensor to the one that a kernel is asked to accept.
type DescMap = fn(&TensorDesc) -> TensorDesc;

fn in_f32(desc: &TensorDesc) -> TensorDesc {
    if is_half(desc) { desc.with_dtype(DType::F32) } else { *desc }
}

fn is_half(desc: &TensorDesc) -> bool {
    matches!(desc.dtype(), Some(DType::F16 | DType::Bf16))
}

/// Returns whether an output equals the model's, except that half precision may be f32.
fn is_widened((narrow, desc): (&TensorDesc, &TensorDesc)) -> bool {
    desc == narrow || *desc == in_f32(narrow)
}
