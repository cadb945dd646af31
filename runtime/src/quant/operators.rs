//! What quantization means for operators, by their names and by what their schemas say.

use std::ptr;

use udo_api::{Core, DType, Facts, Port, Side};

use super::range::{Bits, Range};
use udo_compile::resolve::{BoundNode, TypedGraph};
use udo_engine::operators::Operators;
use udo_graph::graph::{Attr, Node, ValueId};

/// How an operator takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// Sums of products of its first operand and of weights, which may be constants, and a bias.
    Product {
        /// The axis of the results among those of the weights.
        axis: ResultAxis,
        /// The input that is its bias.
        bias: Option<usize>,
    },
    /// Each operand and each result has an encoding of its own.
    Own,
    /// The same of numbers alone: it is computed by a kernel of fixed-point cores, and its constants are numbers.
    Kernel,
    /// Each operand and each result is stored as the port says that it is one of, constants too: an operator of a package.
    Ports,
    /// As [`Form::Own`], and the result lies in a range that no data change.
    Fixed(Range),
    /// Its first output has the encoding of its first input, as it only moves or chooses numbers.
    Moves,
    /// It makes each number of one of its first operand.
    Function,
    /// It is a part of what another node computes.
    Within,
    /// It is computed in numbers.
    Float,
}

/// Who wants values to be stored; of several, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoredFor {
    /// An operator that computes with integers, in as many bits as it takes.
    Integers,
    /// Fixed-point cores alone, which then compute with the numbers that are stored, or an operator on integers of 16 bits.
    Numbers,
}

impl StoredFor {
    /// In how many bits, where operators on integers take so many.
    pub(super) const fn bits(self, of_integers: Bits) -> Bits {
        match self {
            Self::Integers => of_integers,
            Self::Numbers => Bits::Sixteen,
        }
    }
}

/// Which axis of a product's weights its results lie along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultAxis {
    /// The first.
    First,
    /// The second.
    Second,
    /// The last, or the first of those that an attribute transposes.
    Columns,
    /// The last of two; weights of more axes have one encoding.
    Last,
}

/// The range of a hyperbolic tangent.
const TANH: Range = Range { min: -1.0, max: 1.0 };

/// Operators whose form does not follow from what schemas say.
const FORMS: &[(&str, Form)] = &[
    ("Add", Form::Own),
    ("AveragePool", Form::Own),
    ("BatchNormalization", Form::Kernel),
    ("Concat", Form::Own),
    ("Conv", Form::Product { axis: ResultAxis::First, bias: Some(2) }),
    ("ConvTranspose", Form::Product { axis: ResultAxis::Second, bias: Some(2) }),
    ("Dropout", Form::Moves),
    ("Expand", Form::Moves),
    ("Gather", Form::Moves),
    ("Gemm", Form::Product { axis: ResultAxis::Columns, bias: Some(2) }),
    ("GlobalAveragePool", Form::Own),
    ("Identity", Form::Moves),
    ("InstanceNormalization", Form::Kernel),
    ("LRN", Form::Kernel),
    ("LSTM", Form::Kernel),
    ("MatMul", Form::Product { axis: ResultAxis::Last, bias: None }),
    ("Max", Form::Kernel),
    ("Min", Form::Kernel),
    ("Mul", Form::Own),
    (PAD, Form::Moves),
    ("ReduceMean", Form::Own),
    ("Sigmoid", Form::Fixed(Range::UNIT)),
    ("Softmax", Form::Fixed(Range::UNIT)),
    ("Split", Form::Moves),
    ("Sum", Form::Own),
    ("Tanh", Form::Fixed(TANH)),
    ("Tile", Form::Moves),
];

/// What puts numbers around others.
pub(super) const PAD: &str = "Pad";

/// Operators on numbers that, with what cuts their results off, are one on quantized values (pass `quantized`), so that nothing is
/// stored between.
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

/// Functions that go where quantizing cuts off the same, behind what makes their operand.
const CUTS: &[&str] = &["Clip", "Relu"];

/// Functions of which a factor above 0 may be taken out.
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

/// Whether a node and one that cuts its results off may be one operator on quantized values.
pub(super) fn is_fused_with_cut(node: &Node) -> bool {
    node.domain.is_empty() && FUSED_WITH_CUTS.contains(&node.op.as_str())
}

/// Whether a node gives a factor above 0 of its operand on.
pub(super) fn is_homogeneous(node: &Node) -> bool {
    node.domain.is_empty() && HOMOGENEOUS.contains(&node.op.as_str())
}

/// Whether a node is a convolution, whose weights are by channels of results, then of the operand.
pub(super) fn is_convolution(node: &Node) -> bool {
    node.domain.is_empty() && node.op == "Conv"
}

/// Operators of ONNX that move elements of their first input, and have no other inputs but integers.
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

/// Whether an operator of ONNX moves elements of its first input, floats and quantized values alike.
pub(super) fn moves_elements(op: &str) -> bool {
    MOVES.contains(&op)
}

/// Operators that choose the largest element, and those that choose the least: of one input, and of all.
pub(super) const LARGEST_OF_ONE: &[&str] = &["GlobalMaxPool", "MaxPool", "ReduceMax"];
pub(super) const LEAST_OF_ONE: &[&str] = &["ReduceMin"];
pub(super) const LARGEST_OF_ALL: &str = "Max";
pub(super) const LEAST_OF_ALL: &str = "Min";

/// Operators that find where the largest element is, or the least.
pub(super) const FINDS_LARGEST: &str = "ArgMax";
pub(super) const FINDS_LEAST: &str = "ArgMin";

/// Whether a value holds floats of single precision.
pub(super) fn is_float(typed: &TypedGraph, id: Option<ValueId>) -> bool {
    typed.desc(id).dtype() == Some(DType::F32)
}

/// What says that a node has its weights transposed, whose results then lie along the first axis.
pub(super) const TRANSPOSED: &str = "transB";

/// What says of a convolution into how many groups its channels fall.
pub(super) const GROUPS: &str = "group";

/// The operator that stores numbers.
pub(super) const QUANTIZE: &str = "QuantizeLinear";

/// The operator that makes numbers of what is stored.
pub(super) const DEQUANTIZE: &str = "DequantizeLinear";

impl Form {
    /// How a node takes part, where the typed graph has it as `bound`.
    pub(super) fn of(
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
            // A number that a run says may lie anywhere.
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

    /// How a node of a package's operator takes part, as its types on the DSP say.
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

/// Whether a node puts a number around others that is not known before a run.
fn pads_with_any(node: &Node, typed: &TypedGraph) -> bool {
    let is_constant = match node.attr("mode") {
        Some(Attr::Text(mode)) => mode == "constant",
        _ => true,
    };
    is_constant && node.input(2).is_some() && typed.known(node.input(2)).is_none()
}

/// For whom a node of a package's operator wants a tensor of numbers stored on `core`.
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

/// The same of its port: nothing where the core has numbers there.
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

/// Whether there are kernels for fixed-point numbers.
fn has_fixed_point(bound: &BoundNode, operators: &Operators, core: Core) -> bool {
    let kernels = operators.kernels_for(bound.package, core).unwrap_or_default();
    kernels.iter().any(|entry| ptr::eq(entry.op, bound.op))
}

/// Whether all that a node reads besides one operand is single numbers that are known.
pub(super) fn is_function(node: &Node, typed: &TypedGraph) -> bool {
    let known = |id: &&ValueId| typed.known(Some(**id));
    let inputs = node.inputs.iter().flatten();
    let open = inputs.clone().filter(|id| known(id).is_none()).count();
    let mut constants = inputs.filter_map(|id| known(&id));
    open == 1 && constants.all(|tensor| tensor.desc().len() == 1)
}
