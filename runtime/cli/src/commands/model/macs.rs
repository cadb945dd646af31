//! How many multiplications and additions an operator's definition takes, whatever algorithm computes it.

use udo_api::TensorDesc;
use udo_runtime::compile::Surveyed;

/// Where a definition has its sums.
enum Sums {
    /// For each result, one over the weights of a channel; the input with the weights.
    Convolution(usize),
    /// For each element of the first input, one over the weights of a channel.
    Transposed(usize),
    /// For each result, one over the last axis of the first input.
    Product,
    /// For each result, one over the first axis of the second input, or its last where that is transposed.
    Linear,
    /// For each step of each sequence, the weights of the input and those of the state.
    Recurrent,
}

const OPS: [(&str, Sums); 14] = [
    ("Conv", Sums::Convolution(1)),
    ("FusedConv", Sums::Convolution(1)),
    ("ConvInteger", Sums::Convolution(1)),
    ("QLinearConv", Sums::Convolution(3)),
    ("ConvTranspose", Sums::Transposed(1)),
    ("QLinearConvTranspose", Sums::Transposed(3)),
    ("MatMul", Sums::Product),
    ("MatMulInteger", Sums::Product),
    ("QLinearMatMul", Sums::Product),
    ("QLinearMatMulAdd", Sums::Product),
    ("Gemm", Sums::Linear),
    ("LSTM", Sums::Recurrent),
    ("GRU", Sums::Recurrent),
    ("RNN", Sums::Recurrent),
];

/// Returns the number of multiply-accumulates of a node; `None` if its operator is not in [`OPS`] or a type is not known.
pub(super) fn macs(node: &Surveyed) -> Option<u64> {
    let (_, sums) = OPS.iter().find(|(op, _)| *op == node.op)?;
    let input = |at: usize| node.inputs.get(at).filter(|desc| desc.dtype().is_some());
    let output = node.outputs.first().map(|(_, desc)| desc)?;
    let channel = |weights: &TensorDesc| {
        let count = weights.shape().first().copied().filter(|&count| count > 0)?;
        Some(weights.len() / count)
    };
    let (results, each) = match sums {
        Sums::Convolution(at) => (output.len(), channel(input(*at)?)?),
        Sums::Transposed(at) => (input(0)?.len(), channel(input(*at)?)?),
        Sums::Product => (output.len(), input(0)?.shape().last().copied()?),
        Sums::Linear => {
            let last = output.shape().last().copied().filter(|&last| last > 0)?;
            (output.len(), input(1)?.len() / last)
        }
        Sums::Recurrent => {
            let [steps, batch, ..] = *input(0)?.shape() else { return None };
            (steps.checked_mul(batch)?, input(1)?.len().checked_add(input(2)?.len())?)
        }
    };
    u64::try_from(results).ok()?.checked_mul(u64::try_from(each).ok()?)
}

#[cfg(test)]
mod tests {
    use udo_api::{DType, Shape};

    use super::*;

    fn desc(dims: &[usize]) -> TensorDesc {
        TensorDesc::new(DType::F32, Shape::new(dims).unwrap())
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let of = |op: &str, inputs: &[&[usize]], output: &[usize]| {
            let inputs = inputs.iter().map(|dims| desc(dims)).collect();
            let outputs = vec![("y".to_owned(), desc(output))];
            let (name, package, cores) = (String::new(), String::new(), Vec::new());
            macs(&Surveyed { name, op: op.to_owned(), package, inputs, outputs, cores })
        };
        // 2 groups of 3 channels, 5 x 5 taps.
        assert_eq!(of("Conv", &[&[1, 6, 9, 9], &[8, 3, 5, 5]], &[1, 8, 5, 5]), Some(200 * 75));
        assert_eq!(of("ConvTranspose", &[&[1, 4, 3, 3], &[4, 2, 2, 2]], &[1, 2, 6, 6]), Some(288));
        assert_eq!(of("MatMul", &[&[2, 3, 4], &[4, 5]], &[2, 3, 5]), Some(120));
        assert_eq!(of("Gemm", &[&[3, 4], &[5, 4]], &[3, 5]), Some(60));
        let lstm: [&[usize]; 3] = [&[7, 2, 3], &[1, 16, 3], &[1, 16, 4]];
        assert_eq!(of("LSTM", &lstm, &[7, 1, 2, 4]), Some(14 * 112));
        assert_eq!(of("Relu", &[&[3]], &[3]), None);
        assert_eq!(of("Gemm", &[&[3, 4]], &[3, 0]), None);
    }
}
