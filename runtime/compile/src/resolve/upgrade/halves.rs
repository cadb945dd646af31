//! Halves that are computed in f32, from the first node that no kernel takes as it is to the last, and rounded where somebody
//! else reads them.
//!
//! A node whose operator has a kernel for halves, and that reads none that were computed, stays as it is: rows of a table that
//! a model stores in halves are gathered as such. Almost every other one reads and makes f32. Each half that it makes is
//! rounded by a node behind it, for readers that want that; those that are computed in f32 as well read what it was rounded
//! from.

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

/// Adds a node as one of f32 if it is one of halves that are better computed so, and says whether it is.
pub(in crate::resolve) fn widen(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    bound: &BoundNode,
    outputs: &[TensorDesc],
) -> Result<bool, ResolveError> {
    let halves = graph.halves(&bound.node);
    if halves.is_empty() || !compiler.operators.is_builtin(bound.package) {
        return Ok(false);
    }
    let reads_wide = halves.iter().any(|&port| graph.wide_for(&bound.node, port).is_some());
    if !reads_wide && takes_halves(compiler, graph, bound, outputs) {
        return Ok(false);
    }
    let mark = (graph.nodes.len(), graph.values.len());
    let mut wide = bound.node.clone();
    for port in halves {
        let value = widened(compiler, graph, &bound.node, port)?;
        if let Some(input) = wide.inputs.get_mut(port) {
            *input = Some(value);
        }
    }
    let entry = OpEntry { package: bound.package, def: bound.op };
    let made = bound_node(compiler, graph, wide, entry).ok();
    let made = made.filter(|(_, found)| outputs.iter().zip(found).all(is_widened));
    let Some((wide, found)) = made else {
        graph.nodes.truncate(mark.0);
        graph.values.truncate(mark.1);
        return Ok(false);
    };
    add_wide(compiler, graph, wide, found, outputs)?;
    Ok(true)
}

/// Whether the first kernel of the CPU that takes the node's halves as such or in f32 takes them as such.
fn takes_halves(
    compiler: &Compiler<'_>,
    graph: &TypedGraph,
    bound: &BoundNode,
    outputs: &[TensorDesc],
) -> bool {
    let inputs: Vec<TensorDesc> =
        bound.node.inputs.iter().map(|&value| graph.desc(value)).collect();
    let schema = bound.op.schema();
    let takes = |kernel: &KernelDef, side: Side, descs: &[TensorDesc], of: Form| {
        let dtype = |port: usize| inputs.get(port).and_then(|desc| of(desc).dtype());
        let mut halves = descs.iter().enumerate().filter(|(_, desc)| is_half(desc));
        halves.all(|(port, desc)| {
            of(desc).is_in(port_types(schema, kernel, Core::CPU, (side, port), dtype))
        })
    };
    let takes_as = |kernel: &KernelDef, of: Form| {
        takes(kernel, Side::Input, &inputs, of) && takes(kernel, Side::Output, outputs, of)
    };
    let kernels = kernels_of(compiler.operators, bound, Core::CPU);
    let as_it_is = kernels.iter().position(|entry| takes_as(entry.def, |desc| *desc));
    let as_f32 = kernels.iter().position(|entry| takes_as(entry.def, in_f32));
    as_it_is.is_some_and(|own| as_f32.is_none_or(|wide| own <= wide))
}

/// An input of halves in f32: what it was rounded from, or else what a conversion makes of it.
fn widened(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &Node,
    port: usize,
) -> Result<ValueId, ResolveError> {
    if let Some(value) = graph.wide_for(node, port) {
        return Ok(value);
    }
    let from = node.input(port).unwrap_or(ValueId::at(0));
    let name = format!("{}.wide.{port}", node.name);
    let value = graph.add_value(&name);
    convert(compiler, graph, (name, from), value, DType::F32)?;
    Ok(value)
}

/// Adds a node whose outputs of f32 are halves in the model, and the nodes that round them.
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
    for (index, (slot, (found, wanted))) in slots {
        let (Some(half), Some(dtype)) = (*slot, wanted.dtype()) else { continue };
        if found.dtype() != wanted.dtype() {
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

/// Adds a node that converts a value to another type as it is: one to f32 does not read what was rounded.
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
        || ResolveError::MissingOps { all: vec![MissingOp::of(&node, compiler.operators)] };
    let entry = builtin_for(compiler.operators, &node).ok_or_else(missing)?;
    let (bound, outputs) = bound_node(compiler, graph, node, entry)?;
    add_bound(compiler, graph, bound, outputs)
}

impl TypedGraph {
    /// The inputs of a node that are halves.
    fn halves(&self, node: &Node) -> Vec<usize> {
        let inputs = node.inputs.iter().enumerate();
        inputs.filter(|&(_, &value)| is_half(&self.desc(value))).map(|(port, _)| port).collect()
    }

    /// Notes of a conversion that the model itself has what it rounds.
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

    /// Whether the second operand is known to be 2.
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

    /// What an input of halves was rounded from, if the node may read that in its place. A conversion may where it makes
    /// wider numbers of what the model does not say is rounded.
    fn wide_for(&self, node: &Node, port: usize) -> Option<ValueId> {
        let wide = self.values.get(node.input(port)?.index())?.wide?;
        let may = match node.op.as_str() {
            "Cast" => !wide.is_stated && is_to(node, DType::F32),
            // A scale is the number that the model says: a step of it more or less is many of what is divided by it.
            "QuantizeLinear" | "RoundTo" => port == 0 && !wide.is_stated,
            "BitCast" | "CastLike" | "DequantizeLinear" => false,
            op if JUMPS.contains(&op) => false,
            // Of a number that is next to nothing a root is a number or none.
            "Pow" => port == 1 || self.is_square(node),
            _ => true,
        };
        may.then_some(wide.value)
    }
}

/// Operators whose results jump where a number is a little less or more: they read what the model says, so that a number that
/// is whole when rounded counts as such.
const JUMPS: &[&str] = &[
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

/// Whether a conversion is one to this type.
fn is_to(node: &Node, dtype: DType) -> bool {
    matches!(node.attr("to"), Some(Attr::Int(to)) if *to == i64::from(dtype.onnx()))
}

/// What is asked of a kernel in the place of halves.
type Form = fn(&TensorDesc) -> TensorDesc;

fn in_f32(desc: &TensorDesc) -> TensorDesc {
    if is_half(desc) { desc.with_dtype(DType::F32) } else { *desc }
}

fn is_half(desc: &TensorDesc) -> bool {
    matches!(desc.dtype(), Some(DType::F16 | DType::Bf16))
}

/// Whether an output is what it is in the model, but for halves that are f32.
fn is_widened((narrow, found): (&TensorDesc, &TensorDesc)) -> bool {
    found == narrow || *found == in_f32(narrow)
}
