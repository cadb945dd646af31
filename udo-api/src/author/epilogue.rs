//! Fused operations on a kernel's first output before it is stored.

use crate::abi::EpilogueStep;
use crate::tensor::TensorDesc;

/// The operation of one epilogue step on each element of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EpilogueOp {
    /// Adds a vector: input `input` has one element for each position along `axis` of the output.
    Bias {
        /// The input's index, after those of the operator.
        input: usize,
        /// The axis of the output in the kernel's layout.
        axis: usize,
    },
    /// Adds input `input`, which has the output's shape.
    Residual {
        /// The input's index, after those of the operator.
        input: usize,
    },
    /// Applies a function.
    Activation(Activation),
    /// Stores the output quantized, as [`Encoding::quantize`](crate::Encoding::quantize) does, with the type and
    /// encoding of the step's output. It is the last step.
    Quantize,
}

/// A function that an epilogue applies to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `min(max(x, low), high)` of the two values; NaN stays NaN.
    Clip(f64, f64),
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 (1 + erf(x / sqrt 2))`.
    Gelu,
}

// The codes of operations (`kind`) and of activations (`function`) in the ABI.
const BIAS: u32 = 1;
const RESIDUAL: u32 = 2;
const ACTIVATION: u32 = 3;
const QUANTIZE: u32 = 4;

const RELU: u32 = 1;
const CLIP: u32 = 2;
const SILU: u32 = 3;
const GELU: u32 = 4;

impl EpilogueStep {
    /// Creates the step of `op`, after which the node's first output is described by `output`.
    pub fn new(op: EpilogueOp, output: TensorDesc) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let none = Self {
            kind: 0,
            input: 0,
            axis: 0,
            function: 0,
            numbers: [0.0; 2],
            output,
            reserved: [0; 5],
        };
        match op {
            EpilogueOp::Bias { input, axis } => {
                Self { kind: BIAS, input: count(input), axis: count(axis), ..none }
            }
            EpilogueOp::Residual { input } => Self { kind: RESIDUAL, input: count(input), ..none },
            EpilogueOp::Activation(activation) => {
                let (function, numbers) = match activation {
                    Activation::Relu => (RELU, [0.0; 2]),
                    Activation::Clip(low, high) => (CLIP, [low, high]),
                    Activation::Silu => (SILU, [0.0; 2]),
                    Activation::Gelu => (GELU, [0.0; 2]),
                };
                Self { kind: ACTIVATION, function, numbers, ..none }
            }
            EpilogueOp::Quantize => Self { kind: QUANTIZE, ..none },
        }
    }

    /// Returns the operation; `None` for one that this version does not know, which a kernel cannot accept.
    pub fn op(&self) -> Option<EpilogueOp> {
        let [low, high] = self.numbers;
        let (input, axis) = (self.input as usize, self.axis as usize);
        match (self.kind, self.function) {
            (BIAS, _) => Some(EpilogueOp::Bias { input, axis }),
            (RESIDUAL, _) => Some(EpilogueOp::Residual { input }),
            (ACTIVATION, RELU) => Some(EpilogueOp::Activation(Activation::Relu)),
            (ACTIVATION, CLIP) => Some(EpilogueOp::Activation(Activation::Clip(low, high))),
            (ACTIVATION, SILU) => Some(EpilogueOp::Activation(Activation::Silu)),
            (ACTIVATION, GELU) => Some(EpilogueOp::Activation(Activation::Gelu)),
            (QUANTIZE, _) if self.output.encoding().is_some() => Some(EpilogueOp::Quantize),
            _ => None,
        }
    }

    /// Returns the description of the node's first output after the step.
    pub fn output(&self) -> &TensorDesc {
        &self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::encoding::Encoding;
    use crate::shape::Shape;

    #[test]
    fn steps_are_read_back_as_written() {
        let ops = [
            EpilogueOp::Bias { input: 3, axis: 1 },
            EpilogueOp::Residual { input: 2 },
            EpilogueOp::Activation(Activation::Relu),
            EpilogueOp::Activation(Activation::Clip(-1.5, f64::INFINITY)),
            EpilogueOp::Activation(Activation::Silu),
            EpilogueOp::Activation(Activation::Gelu),
        ];
        for op in ops {
            assert_eq!(EpilogueStep::new(op, TensorDesc::ABSENT).op(), Some(op));
        }
        let known = EpilogueStep::new(ops[5], TensorDesc::ABSENT);
        assert_eq!(EpilogueStep { function: GELU + 1, ..known }.op(), None);
        assert_eq!(EpilogueStep { kind: QUANTIZE + 1, ..known }.op(), None);
    }

    #[test]
    fn a_quantize_step_needs_an_encoding() {
        let plain = TensorDesc::new(DType::U8, Shape::new(&[2]).unwrap());
        let encoded = plain.with_encoding(Encoding { scale: 0.5, zero_point: 3 });
        assert_eq!(EpilogueStep::new(EpilogueOp::Quantize, plain).op(), None);
        let step = EpilogueStep::new(EpilogueOp::Quantize, encoded);
        assert_eq!((step.op(), step.output()), (Some(EpilogueOp::Quantize), &encoded));
    }
}
