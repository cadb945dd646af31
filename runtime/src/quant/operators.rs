//! How operators are quantized, by name and by their schemas.

use std::ptr;

use udo_api::{Core, DType, Facts, Port, Side};

use super::range::{Bits, Range};
use udo_compile::resolve::{BoundNode, TypedGraph};
use udo_engine::operators::Operators;
use udo_graph::graph::{Attr, Node, ValueId};

/// How an operator is quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QuantKind {
    /// A product of its first operand and weights, which may be constants, with an optional bias.
    Product {
        /// The axis of the weights along which results are.
        axis: ResultAxis,
        /// The input that is its bias.
        bias: Option<usize>,
    },
    /// Each operand and each result has its own encoding.
    Own,
    /// Like [`QuantKind::Own`] without integers: a float kernel of fixed-point cores computes it, and its constants stay
    /// float.
    Kernel,
    /// An operator of a package: each tensor, including constants, is stored as its port states.
    Ports,
    /// Like [`QuantKind::Own`]; the result has a range that does not depend on data.
    Fixed(Range),
    /// The first output has the encoding of the first input, because the operator only moves or selects elements.
    Moves,
    /// An elementwise function of its first operand.
    Function,
    /// A step of what another node computes.
    Within,
    /// Computed in floating point.
    Float,
}

/// The consumers that need a value quantized. The first applicable variant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoredFor {
    /// An operator that computes with integers, with the number of bits that it supports.
    Integers,
    /// Only fixed-point cores, whose float kernels read quantized values, or an operator on 16-bit integers.
    Numbers,
}

impl StoredFor {
    /// Returns the number of bits, given the number for integer operators.
    pub(super) const fn bits(self, of_integers: Bits) -> Bits {
        match self {
            Self::Integers => of_integers,
            Self::Numbers => Bits::Sixteen,
        }
    }
}

/// The axis of a product's weights along which its results are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultAxis {
    /// The first.
    First,
    /// The second.
    Second,
    /// The last axis, or the first if an attribute transposes the weights.
    Columns,
    /// The last of two axes; weights with more axes have one encoding.
    Last,
}

/// The range of a hyperbolic tangent.
const TANH: Range = Range { min: -1.0, max: 1.0 };

/// Operators whose form does not follow from their schemas.
const FORMS: &[(&str, QuantKind)] = &[
    ("Add", QuantKind::Own),
    ("AveragePool", QuantKind::Own),
    ("BatchNormalization", QuantKind::Kernel),
    ("Concat", QuantKind::Own),
    ("Conv", QuantKind::Product { axis: ResultAxis::First, bias: Some(2) }),
    ("ConvTranspose", QuantKind::Product { axis: ResultAxis::Second, bias: Some(2) }),
    ("Dropout", QuantKind::Moves),
    ("Expand", QuantKind::Moves),
    ("Gather", QuantKind::Moves),
    ("Gemm", QuantKind::Product { axis: ResultAxis::Columns, bias: Some(2) }),
    ("GlobalAveragePool", QuantKind::Own),
    ("Identity", QuantKind::Moves),
    ("InstanceNormalization", QuantKind::Kernel),
    ("LRN", QuantKind::Kernel),
    ("LSTM", QuantKind::Kernel),
    ("MatMul", QuantKind::Product { axis: ResultAxis::Last, bias: None }),
    ("Max", QuantKind::Kernel),
    ("Min", QuantKind::Kernel),
    ("Mul", QuantKind::Own),
    (PAD, QuantKind::Moves),
    ("ReduceMean", QuantKind::Own),
    ("Sigmoid", QuantKind::Fixed(Range::UNIT)),
    ("Softmax", QuantKind::Fixed(Range::UNIT)),
    ("Split", QuantKind::Moves),
    ("Sum", QuantKind::Own),
    ("Tanh", QuantKind::Fixed(TANH)),
    ("Tile", QuantKind::Moves),
];

/// The operator that pads.
pub(super) const PAD: &str = "Pad";

/// Float operators that the pass `quantized` fuses with a following clip, so that nothing is quantized in between.
const FUSED_WITH_CUTS: &[&str] = &[
    "Add",
    "AveragePool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Gemm",
    "GlobalAveragePool",
    "MatMul",
    "Mul",
    "Sum",
];

/// Functions that are unnecessary if quantizing the result saturates at the same bounds.
const CUTS: &[&str] = &["Clip", "Relu"];

/// Positively homogeneous functions: f(s x) = s f(x) for s > 0.
const HOMOGENEOUS: &[&str] = &["LeakyRelu", "PRelu", "Relu"];

/// Attributes that are single numbers.
pub(super) trait NumberAttrs {
    /// The integer attribute called `name`.
    fn int_attr(&self, name: &str) -> Option<i64>;

    /// The float attribute called `name`.
    fn float_attr(&self, name: &str) -> Option<f64>;
}

impl NumberAttrs for Node {
    fn int_attr(&self, name: &str) -> Option<i64> {
        match self.attr(name)? {
            Attr::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn float_attr(&self, name: &str) -> Option<f64> {
        match self.attr(name)? {
            Attr::Float(value) => Some(*value),
            _ => None,
        }
    }
}

/// Whether a node cuts numbers off, so that nothing need be stored before it.
pub(super) fn cuts(node: &Node) -> bool {
    node.domain.is_empty() && CUTS.contains(&node.op.as_str())
}

/// Returns whether a node can be fused with a clip of its result into one quantized operator.
pub(super) fn is_fused_with_cut(node: &Node) -> bool {
    node.domain.is_empty() && FUSED_WITH_CUTS.contains(&node.op.as_str())
}

/// Returns whether a node is positively homogeneous.
pub(super) fn is_homogeneous(node: &Node) -> bool {
    node.domain.is_empty() && HOMOGENEOUS.contains(&node.op.as_str())
}

/// Returns whether a node is a convolution, whose weights have output channels first, then input channels.
pub(super) fn is_convolution(node: &Node) -> bool {
    node.domain.is_empty() && node.op == "Conv"
}

/// ONNX operators that move elements of their first input and otherwise only have integer inputs.
const MOVES: &[&str] = &[
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Returns whether an ONNX operator moves elements of its first input, float or quantized.
pub(super) fn moves_elements(op: &str) -> bool {
    MOVES.contains(&op)
}

/// Operators that select the largest element and the smallest one: of one input, and of all.
pub(super) const LARGEST_OF_ONE: &[&str] = &["GlobalMaxPool", "MaxPool", "ReduceMax"];
pub(super) const LEAST_OF_ONE: &[&str] = &["ReduceMin"];
pub(super) const LARGEST_OF_ALL: &str = "Max";
pub(super) const LEAST_OF_ALL: &str = "Min";

/// Operators that return the position of the largest element and of the smallest one.
pub(super) const FINDS_LARGEST: &str = "ArgMax";
pub(super) const FINDS_LEAST: &str = "ArgMin";

/// Returns whether a value is f32.
pub(super) fn is_float(typed: &TypedGraph, id: Option<ValueId>) -> bool {
    typed.desc(id).dtype() == Some(DType::F32)
}

/// The attribute for transposed weights, with results along the first axis.
pub(super) const TRANSPOSED: &str = "transB";

/// The attribute with a convolution's number of groups.
pub(super) const GROUPS: &str = "group";

/// The operator that quantizes.
pub(super) const QUANTIZE: &str = "QuantizeLinear";

/// The operator that dequantizes.
pub(super) const DEQUANTIZE: &str = "DequantizeLinear";

impl QuantKind {
    /// Returns how a node is quantized; `bound` is the node in the resolved graph.
    pub(super) fn from_node(
        node: &Node,
        bound: &BoundNode,
        typed: &TypedGraph,
        (operators, core): (&Operators, Core),
    ) -> Self {
        if !node.outputs.iter().any(|id| is_float(typed, *id)) || bound.control.is_some() {
            return Self::Float;
        }
        if !operators.is_builtin(bound.package) {
            return Self::of_package(bound, operators, core);
        }
        if node.op != bound.node.op || node.domain != bound.node.domain {
            return Self::Float;
        }
        let facts = bound.op.schema().known_facts();
        let named = FORMS.iter().find(|(op, _)| node.domain.is_empty() && *op == node.op);
        let is_elementwise = facts.has(Facts::ELEMENTWISE);
        match named {
            Some((_, Self::Moves)) if typed.known(node.input(0)).is_some() => Self::Kernel,
            // A pad value that a run computes may be outside the range.
            Some((op, Self::Moves)) if *op == PAD && pads_with_any(node, typed) => Self::Kernel,
            Some((_, Self::Own | Self::Kernel)) if is_elementwise && is_function(node, typed) => {
                Self::Function
            }
            Some((_, form)) => *form,
            None if bound.keeps_encoding() && typed.known(node.input(0)).is_some() => Self::Kernel,
            None if bound.keeps_encoding() => Self::Moves,
            None if is_elementwise && is_function(node, typed) => Self::Function,
            None if !has_fixed_point(bound, operators, core) => Self::Float,
            None if is_elementwise => Self::Own,
            None => Self::Kernel,
        }
    }

    /// Returns how a node of a package's operator is quantized, by its port types on the DSP.
    fn of_package(bound: &BoundNode, operators: &Operators, core: Core) -> Self {
        let schema = bound.op.schema();
        let ports = || schema.inputs().iter().chain(schema.outputs()).filter(|port| is_real(port));
        let is_stored = |port: &Port| stored_at(port, core).is_some();
        let is_taken = |port: &Port| is_stored(port) || port.types_on(core).has(DType::F32);
        let is_fixed = ports().any(is_stored) && ports().all(is_taken);
        if !is_fixed || !has_fixed_point(bound, operators, core) {
            return Self::Float;
        }
        if bound.keeps_encoding() { Self::Moves } else { Self::Ports }
    }
}

/// Returns whether a node pads with a value that is not known before a run.
fn pads_with_any(node: &Node, typed: &TypedGraph) -> bool {
    let is_constant = match node.attr("mode") {
        Some(Attr::Text(mode)) => mode == "constant",
        _ => true,
    };
    is_constant && node.input(2).is_some() && typed.known(node.input(2)).is_none()
}

/// Returns the consumers for which a float tensor of a package's node is quantized on `core`.
pub(super) fn stored_for(
    bound: &BoundNode,
    core: Core,
    (side, index): (Side, usize),
) -> Option<StoredFor> {
    let schema = bound.op.schema();
    let port = match side {
        Side::Input => schema.input(index),
        Side::Output => schema.output(index),
    };
    port.filter(|port| is_real(port)).and_then(|port| stored_at(port, core))
}

/// Does the same for a port: `None` if the core has float there.
fn stored_at(port: &Port, core: Core) -> Option<StoredFor> {
    match port.types_on(core) {
        types if types.has(DType::U8) => Some(StoredFor::Integers),
        types if types.has(DType::U16) && !types.has(DType::F32) => Some(StoredFor::Numbers),
        _ => None,
    }
}

fn is_real(port: &Port) -> bool {
    port.types().has(DType::F32)
}

/// Returns whether there are fixed-point kernels.
fn has_fixed_point(bound: &BoundNode, operators: &Operators, core: Core) -> bool {
    let kernels = operators.kernels_for(bound.package, core).unwrap_or_default();
    kernels.iter().any(|entry| ptr::eq(entry.op, bound.op))
}

/// Returns whether all inputs but one are known scalars.
pub(super) fn is_function(node: &Node, typed: &TypedGraph) -> bool {
    let known = |id: &&ValueId| typed.known(Some(**id));
    let inputs = node.inputs.iter().flatten();
    let open = inputs.clone().filter(|id| known(id).is_none()).count();
    let mut constants = inputs.filter_map(|id| known(&id));
    open == 1 && constants.all(|tensor| tensor.desc().len() == 1)
}
