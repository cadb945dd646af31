//! What a bench has kernels do to their first output before they store it.

use udo_api::{Activation, DType, Encoding, EpilogueOp, EpilogueStep, Layout, TensorDesc};
use udo_host::PlacedNode;

use crate::bench::{Bench, Input, Step};
use crate::tensor::Tensor;

/// Leaves the node its first `count` steps, and its first output as it is after them.
pub(crate) fn take_steps(placed: &mut PlacedNode<'_>, count: usize, outputs: &mut [TensorDesc]) {
    placed.epilogue.truncate(count);
    if let (Some(last), Some(output)) = (placed.epilogue.last(), outputs.first_mut()) {
        *output = *last.output();
    }
    placed.outputs = outputs.to_vec();
}

impl Bench {
    /// With a constant vector that kernels add along `axis` of the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_bias(self, axis: usize, tensor: Tensor) -> Self {
        self.then(Step::Bias { axis, tensor })
    }

    /// With a tensor that kernels add to the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_residual(self, tensor: Tensor) -> Self {
        self.then(Step::Residual(tensor))
    }

    /// With a function that kernels apply to the first output, as the next step of the epilogue.
    #[must_use]
    pub fn then_activation(self, activation: Activation) -> Self {
        self.then(Step::Activation(activation))
    }

    /// With quantized values that kernels store in the place of the numbers of the first output, as the last step of the epilogue.
    #[must_use]
    pub fn then_quantize(self, dtype: DType, scale: f32, zero_point: i32) -> Self {
        self.then(Step::Quantize(dtype, Encoding { scale, zero_point }))
    }

    fn then(mut self, step: Step) -> Self {
        self.epilogue.push(step);
        self
    }

    /// The steps, whose inputs go behind all that the operator has.
    pub(crate) fn place_epilogue(
        &self,
        inputs: &mut Vec<Option<Input>>,
        outputs: &[TensorDesc],
        layout: Layout,
    ) -> Vec<EpilogueStep> {
        if let (Some(op), false) = (&self.op, self.epilogue.is_empty()) {
            inputs.resize_with(inputs.len().max(op.schema().inputs().len()), || None);
        }
        let mut output = outputs.first().copied().unwrap_or(TensorDesc::ABSENT);
        let place = |step: &Step| {
            let input = inputs.len();
            let op = match step {
                Step::Bias { axis, tensor } => {
                    inputs.push(Some(Input { tensor: tensor.clone(), is_constant: true }));
                    EpilogueOp::Bias { input, axis: layout.axis(*axis).unwrap_or(*axis) }
                }
                Step::Residual(tensor) => {
                    let tensor = match layout {
                        Layout::Nhwc => tensor.permuted(Layout::NHWC_AXES),
                        Layout::AsGiven | Layout::Nchw => tensor.clone(),
                    };
                    inputs.push(Some(Input { tensor, is_constant: false }));
                    EpilogueOp::Residual { input }
                }
                Step::Activation(activation) => EpilogueOp::Activation(*activation),
                Step::Quantize(dtype, encoding) => {
                    output = output.with_dtype(*dtype).with_encoding(*encoding);
                    EpilogueOp::Quantize
                }
            };
            EpilogueStep::new(op, output)
        };
        self.epilogue.iter().map(place).collect()
    }

    /// How many inputs the first `count` steps have.
    pub(crate) fn epilogue_inputs(&self, count: usize) -> usize {
        let steps = self.epilogue.iter().take(count);
        steps.filter(|step| matches!(step, Step::Bias { .. } | Step::Residual(_))).count()
    }
}
