//! Epilogues: steps of consumer nodes, such as a bias or an activation, that an f32 kernel applies to its sums before
//! it stores them.

use udo_api::{EpilogueOp, EpilogueStep, ExecError, Inputs, Status};
use udo_simd::gemm_f32::{self, Activation};

use super::results::QuantizedAs;

/// The steps that a kernel supports: a bias, then a residual, then an activation, then quantization.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    /// The output axis of a bias, if supported.
    pub(crate) bias: Option<usize>,
    /// Whether it adds a tensor of the output's shape.
    pub(crate) residual: bool,
    /// Whether it stores a quantized output.
    pub(crate) quantized: bool,
}

/// The steps that a kernel takes over, and their inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fused {
    /// The input with the bias.
    pub(crate) bias: Option<usize>,
    /// The input with the residual.
    pub(crate) residual: Option<usize>,
    pub(crate) activation: Activation,
    /// Encoding of a quantized output.
    pub(crate) quantized: Option<QuantizedAs>,
}

impl Takes {
    /// Returns how many of the first steps the kernel fuses, and these steps. Fusion ends at the first unsupported
    /// step.
    pub(crate) fn leading(self, steps: &[EpilogueStep]) -> (usize, Fused) {
        let mut fused = Fused::default();
        let mut count = 0;
        for (index, step) in steps.iter().enumerate() {
            let before_activation = fused.activation == Activation::None;
            let before_residual = before_activation && fused.residual.is_none();
            match step.op() {
                Some(EpilogueOp::Bias { input, axis })
                    if before_residual && fused.bias.is_none() && self.bias == Some(axis) =>
                {
                    fused.bias = Some(input);
                }
                Some(EpilogueOp::Residual { input }) if before_residual && self.residual => {
                    fused.residual = Some(input);
                }
                Some(EpilogueOp::Activation(activation)) if before_activation => {
                    fused.activation = to_f32_activation(activation);
                }
                Some(EpilogueOp::Quantize) if self.quantized => {
                    fused.quantized = QuantizedAs::first_quantization(&steps[index..]);
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

fn to_f32_activation(activation: udo_api::Activation) -> Activation {
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
