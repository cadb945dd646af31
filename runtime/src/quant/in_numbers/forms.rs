//! What operators on quantized values are in numbers.

use crate::quant::operators::{
    DEQUANTIZE, FINDS_LARGEST, FINDS_LEAST, LARGEST_OF_ALL, LEAST_OF_ALL, QUANTIZE, TRANSPOSED,
    moves_elements,
};
use udo_graph::graph::Node;

/// What becomes of a node where values are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// It stores numbers: they stay what they are, cut off where the stored values end.
    Quantize,
    /// It makes numbers of what is stored: these are there.
    Dequantize,
    /// An operator on numbers.
    Numbers(&'static Numbers),
    /// It moves or chooses values, of this many of its first inputs.
    Moves(Moved),
    /// It says where the first or the largest number is, which is where that was among the values.
    Finds,
}

/// Which inputs are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    First,
    All,
}

/// An operator on numbers in the place of one on values.
#[derive(Debug)]
pub(super) struct Numbers {
    op: &'static str,
    domain: &'static str,
    /// The operator on numbers, and its operator set.
    pub(super) is: &'static str,
    opset: u32,
    pub(super) ports: Ports,
}

/// Where an operator has its operands; a scale and a zero point are behind each.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ports {
    /// Operands at these inputs, others that are as they are, the scale and the zero point of the result, and a bias in steps
    /// of the sums of the first two operands.
    At { plain: &'static [usize], operands: &'static [usize], result: usize, bias: Option<usize> },
    /// The scale and the zero point of the result, then all operands.
    Joined,
}

const MICROSOFT: &str = "com.microsoft";

/// The domain of our own.
const UDO: &str = "udo";

const fn of(op: &'static str, is: (&'static str, u32), operands: &'static [usize]) -> Numbers {
    let result = 3 * operands.len();
    let ports = Ports::At { plain: &[], operands, result, bias: None };
    Numbers { op, domain: MICROSOFT, is: is.0, opset: is.1, ports }
}

const NUMBERS: &[Numbers] = &[
    Numbers {
        domain: "",
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConv", ("Conv", 11), &[0, 3])
    },
    Numbers {
        domain: UDO,
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 6, bias: Some(8) },
        ..of("QLinearConvTranspose", ("ConvTranspose", 11), &[0, 3])
    },
    Numbers { domain: "", ..of("QLinearMatMul", ("MatMul", 13), &[0, 3]) },
    Numbers {
        ports: Ports::At { plain: &[], operands: &[0, 3], result: 7, bias: Some(6) },
        ..of("QGemm", ("Gemm", 13), &[0, 3])
    },
    of("QLinearAdd", ("Add", 14), &[0, 3]),
    of("QLinearMul", ("Mul", 14), &[0, 3]),
    of("QLinearAveragePool", ("AveragePool", 11), &[0]),
    of("QLinearGlobalAveragePool", ("GlobalAveragePool", 1), &[0]),
    of("QLinearLeakyRelu", ("LeakyRelu", 16), &[0]),
    of("QLinearReduceMean", ("ReduceMean", 13), &[0]),
    of("QLinearSigmoid", ("Sigmoid", 13), &[0]),
    of("QLinearSoftmax", ("Softmax", 13), &[0]),
    Numbers {
        ports: Ports::At { plain: &[0], operands: &[1, 4], result: 7, bias: None },
        ..of("QLinearWhere", ("Where", 16), &[1, 4])
    },
    Numbers { ports: Ports::Joined, ..of("QLinearConcat", ("Concat", 13), &[]) },
];

/// Operators of ONNX on quantized values that choose from their first input.
const CHOOSES_FROM_ONE: &[&str] = &["MaxPool", "ReduceMax", "ReduceMin"];

/// Operators of ONNX whose results are values of all their inputs.
const OF_ALL: &[&str] = &["Concat", LARGEST_OF_ALL, LEAST_OF_ALL];

/// An attribute that has channels last, which operators on numbers do not.
const CHANNELS_LAST: &str = "channels_last";

/// The operator set by which `QLinearSoftmax` says what it means.
const OPSET: &str = "opset";

impl Form {
    /// That of a node; nothing where it is computed as it is.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let op = node.op.as_str();
        let named = |names: &[&str]| node.domain.is_empty() && names.contains(&op);
        let is_own = node.domain.is_empty() || node.domain == MICROSOFT;
        if node.op == QUANTIZE && is_own {
            return Some(Self::Quantize);
        }
        if node.op == DEQUANTIZE && is_own {
            return Some(Self::Dequantize);
        }
        let is_of_first = named(CHOOSES_FROM_ONE) || node.domain.is_empty() && moves_elements(op);
        if is_of_first && node.outputs.iter().flatten().count() <= outputs_of(node) {
            return Some(Self::Moves(Moved::First));
        }
        if named(OF_ALL) {
            return Some(Self::Moves(Moved::All));
        }
        if named(&[FINDS_LARGEST, FINDS_LEAST]) {
            return Some(Self::Finds);
        }
        let is_last = node.int_attr(CHANNELS_LAST).is_some_and(|last| last != 0);
        let of = |row: &&Numbers| row.op == node.op && row.domain == node.domain;
        NUMBERS.iter().find(of).filter(|_| !is_last).map(Self::Numbers)
    }

    /// Whether it says something of quantized values.
    pub(super) fn speaks(self) -> bool {
        matches!(self, Self::Quantize | Self::Dequantize | Self::Numbers(_))
    }
}

/// How many outputs a node that moves values may have: the second of a pooling are positions.
fn outputs_of(node: &Node) -> usize {
    if node.op == "Split" { usize::MAX } else { 1 }
}

impl Numbers {
    /// The node on numbers, without its tensors.
    pub(super) fn node(&self, of: &Node) -> Node {
        let mut node = Node { name: of.name.clone(), ..Node::new(self.is, self.opset, &[], &[]) };
        if let Some(opset) = of.int_attr(OPSET) {
            node.opset = u32::try_from(opset).unwrap_or(self.opset);
        }
        let own = of.attrs.iter().filter(|(name, _)| name != CHANNELS_LAST && name != OPSET);
        node.attrs = own.cloned().collect();
        node
    }

    /// The axis of a constant operand's scales, where it has several.
    pub(super) fn axis(&self, of: &Node, rank: usize) -> usize {
        match self.is {
            "ConvTranspose" => 1,
            "MatMul" => rank.saturating_sub(1),
            "Gemm" => usize::from(of.int_attr(TRANSPOSED) != Some(1)),
            _ => 0,
        }
    }

    /// What sums of products are multiplied by besides.
    pub(super) fn factor(&self, of: &Node) -> f64 {
        let alpha = of.float_attr("alpha").filter(|_| self.is == "Gemm");
        alpha.unwrap_or(1.0)
    }
}
