//! The mean of each pooling window of quantized values.
//!
//! `quantized_mean` builds the operator from the windows over the input and from the treatment of padding.

use udo_api::{DType, Error, Node, Param, TensorDesc, Value};

use crate::Def;
use crate::family::quantized::{QuantizedMean, quantized_mean, sliding};
use crate::family::window::Window;

pub(crate) const DEF: Def = quantized_mean::<QLinearAveragePool>();

struct QLinearAveragePool;

impl QuantizedMean for QLinearAveragePool {
    const NAME: &'static str = "QLinearAveragePool";
    const PARAMS: &'static [Param] = &[
        Param::tensor("kernel_shape", DType::I64),
        Param::text("auto_pad").default(Value::text("NOTSET")),
        Param::scalar("ceil_mode", DType::I64).default(Value::int(0)),
        Param::scalar("count_include_pad", DType::I64).default(Value::int(0)),
        Param::tensor("dilations", DType::I64).optional(),
        Param::tensor("pads", DType::I64).optional(),
        Param::tensor("strides", DType::I64).optional(),
    ];

    fn window(node: &Node<'_>, x: &TensorDesc) -> Result<Window, Error> {
        sliding(node, x)
    }

    fn counts_padding(node: &Node<'_>) -> Result<bool, Error> {
        node.flag("count_include_pad")
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn padding_is_counted_if_requested() {
        for (count, expected) in [(0, [10i8, 25, 40]), (1, [5, 25, 20])] {
            let run = bench("com.microsoft:QLinearAveragePool");
            let run = run.input(tensor(&[1, 1, 4], &[10i8, 20, 30, 40]));
            let run = run.input(tensor(&[], &[0.5f32])).absent().input(tensor(&[], &[0.5f32]));
            let run = run.absent().ints("kernel_shape", &[2]).ints("strides", &[2]);
            let y = run.ints("pads", &[1, 1]).int("count_include_pad", count).one();
            assert_eq!(y.values::<i8>(), expected);
        }
    }
}
