//! Concatenates quantized tensors along an axis, requantized to one scale and zero point.

use udo_api::{
    Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema,
    Param, Port, QuantizedType, Shape, TensorDesc, bytes_of, bytes_of_mut, output, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::tabulate;
use crate::family::partition::row_grain;
use crate::family::quantized::{EncodingPorts, VALUES, fixed_point};

pub(crate) const DEF: Def = Def::new::<QLinearConcat>(KERNELS);

const KERNELS: &[KernelDef] =
    &fixed_point(KernelDef::new::<Parts>("QLinearConcat", Core::CPU).ports(&[output(0, VALUES)]));

const Y: EncodingPorts = EncodingPorts { scale: 0, zero: 1 };
/// Index of the first input triple: values, scale and zero point.
const FIRST: usize = 2;

struct QLinearConcat;

impl Op for QLinearConcat {
    const SCHEMA: OpSchema = OpSchema::new(
        "QLinearConcat",
        &[
            Port::required("Y_scale", types::F32),
            Port::required("Y_zero_point", VALUES),
            Port::required("inputs", VALUES.or(types::F32)).repeated(),
        ],
        &[Port::required("Y", VALUES)],
        &[Param::scalar("axis", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (first, zero) = (cx.input(FIRST)?, cx.input(1)?);
        let axis = cx.axis("axis", first.rank())?;
        let mut dims: Vec<Dim> = first.full_shape().iter().collect();
        dims[axis] = Dim::Fixed(0);
        for port in (FIRST..cx.input_count()).step_by(3) {
            let part = cx.input(port)?;
            let is_equal =
                |index: usize| index == axis || part.shape().get(index) == first.shape().get(index);
            let fits = part.rank() == first.rank() && (0..first.rank()).all(is_equal);
            let is_triple = port + 2 < cx.input_count() && part.dtype() == zero.dtype();
            if !(fits && is_triple) {
                return Err(Error::new(format!(
                    "input {port} is {part}, expected values as {zero} that join {first} along axis {axis}, and behind them a scale and a zero point"
                )));
            }
            dims[axis] = Dim::Fixed(dims[axis].bound().saturating_add(part.shape()[axis]));
        }
        let shape = Shape::from_dims(&dims)?;
        cx.set_output(0, zero.dtype().map_or(zero, |t| TensorDesc::new(t, shape)))
    }
}

/// The kernel, which maps the bits of each element through a table of 256 requantized values.
struct Parts {
    /// Elements of each input that are adjacent in the output: the product of its extents from the axis on.
    run_lens: Vec<usize>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Parts {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let y = cx.output(0)?;
        Y.check(cx, y.dtype())?;
        let axis = cx.axis("axis", y.rank())?;
        let mut run_lens = Vec::new();
        for port in (FIRST..cx.input_count()).step_by(3) {
            EncodingPorts { scale: port + 1, zero: port + 2 }.check(cx, y.dtype())?;
            let split = AxisSplit::at(cx.input(port)?.shape(), axis);
            run_lens.push(split.len * split.inner);
        }
        let run = of_type!(y.dtype(), [U8 = u8, I8 = i8], T => execute::<T>)?;
        Ok(Self { run_lens, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: QuantizedType>(parts: &Parts, io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let y_encoding = Y.read::<T>(&inputs)?;
    let y = outputs.take::<T>(0)?;
    let row_len: usize = parts.run_lens.iter().sum();
    let grain = row_grain(row_len);
    parallel.chunks_mut(y, grain, |chunk, y| {
        let first_row = chunk * grain / row_len.max(1);
        let mut start = 0;
        for (index, &run_len) in parts.run_lens.iter().enumerate() {
            let port = FIRST + 3 * index;
            let encoding_ports = EncodingPorts { scale: port + 1, zero: port + 2 };
            let x_encoding = encoding_ports.read::<T>(&inputs)?;
            let table = tabulate(|x: T| y_encoding.quantize::<T>(x_encoding.dequantize(x)));
            let x = &inputs.get::<T>(port)?[first_row * run_len..];
            for (x, y) in x.chunks_exact(run_len.max(1)).zip(y.chunks_exact_mut(row_len)) {
                rows::lookup(bytes_of(x), &table, bytes_of_mut(&mut y[start..start + run_len]));
            }
            start += run_len;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn inputs_are_requantized_to_the_output_scale() {
        let scale = |scale: f32| tensor(&[], &[scale]);
        let run = || {
            let run = bench("com.microsoft:QLinearConcat").threads(2).input(scale(0.5));
            let run = run.input(tensor(&[], &[10u8])).input(tensor(&[2, 2], &[1u8, 2, 3, 4]));
            run.input(scale(1.0)).input(tensor(&[], &[0u8]))
        };
        let y = run().input(tensor(&[2, 1], &[7u8, 200])).input(scale(0.25));
        let y = y.input(tensor(&[], &[3u8])).int("axis", 1).one();
        assert_eq!((y.dims(), y.values::<u8>()), (vec![2, 3], vec![12, 14, 12, 16, 18, 108]));
        let error = run().input(tensor(&[3, 1], &[7u8; 3])).input(scale(0.25));
        let error = error.input(tensor(&[], &[3u8])).int("axis", 1).error();
        assert_eq!(
            error,
            "input 5 is u8[3,1], expected values as u8[] that join u8[2,2] along axis 1, and behind them a scale and a zero point"
        );
    }
}
