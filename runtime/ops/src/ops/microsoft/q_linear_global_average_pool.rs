//! The mean of each channel of quantized values.
//!
//! `quantized_mean` builds the operator from the windows over the input and from the treatment of padding.

use udo_api::{Error, Node, Param, TensorDesc};

use crate::Def;
use crate::family::quantized::{QuantizedMean, quantized_mean, whole};
use crate::family::window::Window;

pub(crate) const DEF: Def = quantized_mean::<QLinearGlobalAveragePool>();

struct QLinearGlobalAveragePool;

impl QuantizedMean for QLinearGlobalAveragePool {
    const NAME: &'static str = "QLinearGlobalAveragePool";
    const PARAMS: &'static [Param] = &[];

    fn window(_: &Node<'_>, x: &TensorDesc) -> Result<Window, Error> {
        whole(x)
    }

    fn counts_padding(_: &Node<'_>) -> Result<bool, Error> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn means_are_quantized_in_either_layout() {
        let x = [10u8, 20, 100, 30, 200, 50];
        for (dims, channels_last, expected) in
            [([1, 2, 3], 0, [21 + 5, 46 + 5]), ([1, 3, 2], 1, [51 + 5, 16 + 5])]
        {
            let run = bench("com.microsoft:QLinearGlobalAveragePool").threads(2);
            let run = run.input(tensor(&dims, &x)).input(tensor(&[], &[0.5f32]));
            let run = run.input(tensor(&[], &[1u8])).input(tensor(&[], &[1f32]));
            let y = run.input(tensor(&[], &[5u8])).int("channels_last", channels_last).one();
            let shape = if channels_last == 1 { vec![1, 1, 2] } else { vec![1, 2, 1] };
            assert_eq!((y.dims(), y.values::<u8>()), (shape, expected.to_vec()));
        }
    }
}
