//! The epilogue of a bench: operations on the first output before it is stored.

use udo_api::{Activation, DType, Encoding, EpilogueOp, EpilogueStep, Layout, TensorDesc};
use udo_host::PlacedNode;

use crate::tensor::Tensor;

/// A step of an epilogue, with its tensor.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bias { axis: usize, tensor: Tensor },
    Residual(Tensor),
    Activation(Activation),
    Quantize(DType, Encoding),
}

/// Iterates over the steps with a tensor, which is an input of the node.
pub(crate) fn operands(steps: &[Step]) -> impl Iterator<Item = &Step> {
    steps.iter().filter(|step| matches!(step, Step::Bias { .. } | Step::Residual(_)))
}

/// Converts the steps for packages. Their tensors are the inputs of the node from `first` on; `output` is the first
/// output before the epilogue, in this layout.
pub(crate) fn placed(
    steps: &[Step],
    first: usize,
    output: Option<TensorDesc>,
    layout: Layout,
) -> Vec<EpilogueStep> {
    let mut output = output.unwrap_or(TensorDesc::ABSENT);
    let mut inputs = first..;
    let mut next_input = || inputs.next().unwrap_or(usize::MAX);
    let convert = |step: &Step| {
        let op = match step {
            Step::Bias { axis, .. } => {
                EpilogueOp::Bias { input: next_input(), axis: layout.axis(*axis).unwrap_or(*axis) }
            }
            Step::Residual(_) => EpilogueOp::Residual { input: next_input() },
            Step::Activation(activation) => EpilogueOp::Activation(*activation),
            Step::Quantize(dtype, encoding) => {
                output = output.with_dtype(*dtype).with_encoding(*encoding);
                EpilogueOp::Quantize
            }
        };
        EpilogueStep::new(op, output)
    };
    steps.iter().map(convert).collect()
}

/// Keeps the first `count` steps of the node, and updates its first output.
pub(crate) fn take(placed: &mut PlacedNode<'_>, count: usize, outputs: &mut [TensorDesc]) {
    placed.epilogue.truncate(count);
    if let (Some(last), Some(output)) = (placed.epilogue.last(), outputs.first_mut()) {
        *output = *last.output();
    }
    placed.outputs = outputs.to_vec();
}
