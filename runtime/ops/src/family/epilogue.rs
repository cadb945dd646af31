//! Steps of consumer nodes that f32 kernels apply to their sums before storing them.

use udo_api::{EpilogueOp, EpilogueStep, ExecError, Inputs, Status};
use udo_simd::gemm_f32::{self, Activation};

use super::results::QuantizedAs;

/// The steps that a kernel supports: a bias, then a residual, then an activation, then quantization.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    /// The output axis of a bias, if supported.
    pub(crate) bias: Option<usize>,
    pub(crate) residual: bool,
    pub(crate) quantized: bool,
}

/// The steps that a kernel takes over, and their inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fused {
    pub(crate) bias: Option<usize>,
    pub(crate) residual: Option<usize>,
    pub(crate) activation: Activation,
    /// Encoding of a quantized output.
    pub(crate) quantized: Option<QuantizedAs>,
}

impl Takes {
    /// Returns how many leading steps are supported, and the fused steps.
    pub(crate) fn leading(self, steps: &[EpilogueStep]) -> (usize, Fused) {
        let mut fused = Fused::default();
        let mut count = 0;
        for (at, step) in steps.iter().enumerate() {
            let is_open = fused.activation == Activation::None;
            let may_add = is_open && fused.residual.is_none();
            match step.op() {
                Some(EpilogueOp::Bias { input, axis })
                    if may_add && fused.bias.is_none() && self.bias == Some(axis) =>
                {
                    fused.bias = Some(input);
                }
                Some(EpilogueOp::Residual { input }) if may_add && self.residual => {
                    fused.residual = Some(input);
                }
                Some(EpilogueOp::Activation(activation)) if is_open => {
                    fused.activation = in_f32(activation);
                }
                Some(EpilogueOp::Quantize) if self.quantized => {
                    fused.quantized = QuantizedAs::first_quantization(&steps[at..]);
                    return (count + usize::from(fused.quantized.is_some()), fused);
                }
                _ => break,
            }
            count += 1;
        }
        (count, fused)
    }
}

impl Fused {
    /// Checks in a run that the residual has the output's shape.
    pub(crate) fn check(&self, inputs: &Inputs<'_>, shape: &[usize]) -> Result<(), ExecError> {
        match self.residual {
            Some(port) if inputs.shape(port)? != shape => Err(ExecError::new(Status::BAD_VALUE)),
            Some(_) | None => Ok(()),
        }
    }

    /// Converts to the primitives' epilogue, with a residual row stride of `row`.
    pub(crate) fn epilogue<'a>(
        &self,
        inputs: &Inputs<'a>,
        row: usize,
    ) -> Result<gemm_f32::Epilogue<'a>, ExecError> {
        let get = |input: Option<usize>| input.map(|at| inputs.get::<f32>(at)).transpose();
        let residual = get(self.residual)?.map(|data| (data, row));
        Ok(gemm_f32::Epilogue { bias: get(self.bias)?, residual, activation: self.activation })
    }
}

fn in_f32(activation: udo_api::Activation) -> Activation {
    match activation {
        udo_api::Activation::Relu => Activation::Relu,
        udo_api::Activation::Clip(low, high) => Activation::Clamp(low as f32, high as f32),
        udo_api::Activation::Silu => Activation::Silu,
        udo_api::Activation::Gelu => Activation::Gelu,
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Activation as Function, DType, Encoding, Shape, TensorDesc};

    use super::*;

    #[test]
    fn only_leading_steps_in_the_supported_order_are_fused() {
        let bias = EpilogueOp::Bias { input: 3, axis: 1 };
        let residual = EpilogueOp::Residual { input: 2 };
        let relu = EpilogueOp::Activation(Function::Relu);
        let quantized = EpilogueOp::Quantize;
        let all = Takes { bias: Some(1), residual: true, quantized: true };
        let none = Takes { bias: None, residual: false, quantized: false };
        let encoding = Encoding { scale: 0.5, zero_point: 3 };
        let output = TensorDesc::new(DType::U8, Shape::SCALAR).with_encoding(encoding);
        let cases: [(Takes, &[EpilogueOp], usize); 11] = [
            (all, &[bias, residual, relu], 3),
            (all, &[bias, bias], 1),
            (all, &[residual, bias], 1),
            (all, &[relu, residual], 1),
            (all, &[relu, relu], 1),
            (all, &[EpilogueOp::Bias { input: 3, axis: 2 }, relu], 0),
            (none, &[relu, bias], 1),
            (none, &[residual, relu], 0),
            (all, &[bias, residual, relu, quantized], 4),
            (all, &[quantized, relu], 1),
            (none, &[relu, quantized], 1),
        ];
        for (takes, ops, expected) in cases {
            let steps: Vec<_> = ops.iter().map(|&op| EpilogueStep::new(op, output)).collect();
            let (count, fused) = takes.leading(&steps);
            assert_eq!(count, expected, "{ops:?}");
            let has = |op| ops[..count].contains(&op);
            assert_eq!(fused.bias, has(bias).then_some(3), "{ops:?}");
            assert_eq!(fused.residual, has(residual).then_some(2), "{ops:?}");
            assert_eq!(fused.activation == Activation::Relu, has(relu), "{ops:?}");
            assert_eq!(
                fused.quantized,
                has(quantized).then_some(QuantizedAs { dtype: DType::U8, encoding })
            );
        }
    }
}
