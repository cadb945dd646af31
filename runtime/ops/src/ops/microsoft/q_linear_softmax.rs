//! Softmax of quantized values along an axis.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, QuantizedType, Value, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::partition::row_grain;
use crate::family::quantized::{EncodingPorts, VALUES, fixed_point};

pub(crate) const DEF: Def = Def::new::<QLinearSoftmax>(KERNELS);

const KERNELS: &[KernelDef] =
    &fixed_point(KernelDef::new::<QuantizedSoftmax>("QLinearSoftmax", Core::CPU).ports(&[
        input(0, VALUES),
        input_like(2, 0),
        input_like(4, 0),
        output_like(0, 0),
    ]));

const X: EncodingPorts = EncodingPorts { scale: 1, zero: 2 };
const Y: EncodingPorts = EncodingPorts { scale: 3, zero: 4 };

/// The ONNX opset from which Softmax normalizes along one axis instead of over that axis and all after it.
const ONE_AXIS: i64 = 13;

struct QLinearSoftmax;

impl Op for QLinearSoftmax {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearSoftmax",
        &[
            Port::required("X", VALUES),
            Port::required("X_scale", types::F32),
            Port::optional("x_zero_point", VALUES),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", VALUES),
        ],
        &[Port::required("Y", VALUES)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(-1)),
            Param::scalar("opset", DType::I64),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        lanes(cx)?;
        infer_like_input(cx)
    }
}

/// Returns the lanes to normalize.
fn lanes(node: &Node<'_>) -> Result<AxisSplit, Error> {
    let x = node.input(0)?;
    let split = AxisSplit::at(x.shape(), node.axis("axis", x.rank())?);
    if node.int("opset")? < ONE_AXIS {
        return Ok(AxisSplit { len: split.len * split.inner, inner: 1, ..split });
    }
    Ok(split)
}

/// The kernel.
struct QuantizedSoftmax {
    lanes: AxisSplit,
    run: fn(AxisSplit, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for QuantizedSoftmax {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        X.check(cx, dtype)?;
        Y.check(cx, dtype)?;
        let run = of_type!(dtype, [U8 = u8, I8 = i8], T => execute::<T>)?;
        Ok(Self { lanes: lanes(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.lanes, io)
    }
}

fn execute<T: QuantizedType + Ord>(lanes: AxisSplit, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
    let (x_encoding, y_encoding) = (X.read::<T>(&inputs)?, Y.read::<T>(&inputs)?);
    // `exp(x - max)` for each distance of a quantized value below the maximum.
    let exponentials: [f32; 256] =
        std::array::from_fn(|distance| (-(distance as f32) * x_encoding.scale).exp());
    let AxisSplit { len, inner, .. } = lanes;
    let block = len * inner;
    let grain = row_grain(block);
    parallel.chunks_mut(y, grain, |chunk, y| {
        let blocks = x[chunk * grain..].chunks_exact(block.max(1));
        for (x, y) in blocks.zip(y.chunks_exact_mut(block.max(1))) {
            for first in 0..inner {
                let lane = || x[first..].iter().step_by(inner);
                let Some(max) = lane().max() else { continue };
                let exponential = |x: &T| exponentials[(max.to_i32() - x.to_i32()) as usize & 255];
                let sum: f32 = lane().map(exponential).sum();
                for (x, y) in lane().zip(y[first..].iter_mut().step_by(inner)) {
                    *y = y_encoding.quantize(exponential(x) / sum);
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use udo_api::Encoding;

    use crate::testing::{bench, tensor};

    #[test]
    fn softmax_covers_one_axis_or_all_later_axes() {
        let x: Vec<i8> = (0..24).map(|i| (i * 37 % 100) as i8 - 50).collect();
        let y_encoding = Encoding { scale: 1.0 / 256.0, zero_point: -128 };
        // From opset 13 on, a lane of axis 1 has 3 elements with stride 4; before, it has all 12 of a batch.
        for (opset, stride) in [(13, 4), (11, 1)] {
            let run =
                bench("com.microsoft:QLinearSoftmax").threads(2).input(tensor(&[2, 3, 4], &x));
            let run = run.input(tensor(&[], &[0.05f32])).input(tensor(&[], &[3i8]));
            let run = run.input(tensor(&[], &[y_encoding.scale])).input(tensor(&[], &[-128i8]));
            let y = run.int("axis", 1).int("opset", opset).one().values::<i8>();
            for (index, y) in y.into_iter().enumerate() {
                let block = index / 12 * 12;
                let lane = |i: &usize| stride == 1 || i % 4 == index % 4;
                let exponential = |i: usize| (f64::from(x[i]) * 0.05).exp();
                let sum: f64 = (block..block + 12).filter(lane).map(exponential).sum();
                let expected: i8 = y_encoding.quantize((exponential(index) / sum) as f32);
                assert!(
                    (i32::from(y) - i32::from(expected)).abs() <= 1,
                    "{y} for {expected} at {index}"
                );
            }
        }
    }
}
