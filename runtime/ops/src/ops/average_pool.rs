//! The mean of each window.

use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Value, Workspace, input, output_like, types,
};
use udo_simd::pooling::{Divisor, average_pool};

use crate::Def;
use crate::number::Real;
use crate::pool::{self, Images};
use crate::sides::Sides;
use crate::window::{Taps, Window};

pub(crate) const DEF: Def = Def::of::<AveragePool>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Pixels>("AveragePool", Core::CPU)
        .types(&[input(0, types::F32), output_like(0, 0)])
        .flags(Sides::BOTH.flags()),
    KernelDef::new::<Means>("AveragePool", Core::CPU)
        .types(&[input(0, types::F32.or(types::F64)), output_like(0, 0)]),
];

const TYPES: udo_api::TypeSet = types::F32.or(types::F64).or(types::F16);

struct AveragePool;

impl Op for AveragePool {
    const SCHEMA: OpSchema = OpSchema::new(
        "AveragePool",
        &[Port::required("X", TYPES)],
        &[Port::required("Y", TYPES)],
        &[
            Param::tensor("kernel_shape", DType::I64),
            Param::text("auto_pad").default(Value::text("NOTSET")),
            Param::scalar("ceil_mode", DType::I64).default(Value::int(0)),
            Param::scalar("count_include_pad", DType::I64).default(Value::int(0)),
            Param::tensor("dilations", DType::I64).optional(),
            Param::tensor("pads", DType::I64).optional(),
            Param::tensor("strides", DType::I64).optional(),
        ],
    )
    .facts(Facts::SAME_ENCODING.or(Facts::LAYOUT_SENSITIVE));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        pool::infer(cx)
    }
}

/// Means of images whose channels are last.
struct Pixels {
    images: Images,
    divisor: Divisor,
}

impl Kernel for Pixels {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let images = Images::read(cx)?;
        let padded = cx.flag("count_include_pad")?;
        let divisor = if padded { Divisor::Padded(images.behind) } else { Divisor::Inside };
        Ok(Self { images, divisor })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Self { images, divisor } = self;
        images.run(parallel, inputs.get(0)?, outputs.take(0)?, |x, rows, y| {
            let channels = images.channels;
            average_pool(&images.window, channels, x, *divisor, rows, y, channels);
        })
    }
}

/// Elements that the mean of a window counts.
type Count = fn(&Window, [Taps; 3], [usize; 3]) -> usize;

struct Means {
    window: Window,
    count: Count,
    line: Workspace,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Means {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let window = pool::window(cx, &x)?;
        let count: Count = if cx.flag("count_include_pad")? {
            |window, _, at| (0..3).map(|axis| window.padded_taps(axis, at[axis])).product()
        } else {
            |_, taps, _| taps.iter().map(|t| t.len).product()
        };
        let cols = window.input[2];
        let (line, run) = of_type!(
            x.dtype(),
            [F32 = f32, F64 = f64],
            T => (Workspace::of::<T>(cols), execute::<T> as fn(&Self, Io<'_>) -> Result<(), ExecError>)
        )?;
        Ok(Self { window, count, line, run })
    }

    fn workspace(&self) -> Workspace {
        self.line
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Real>(kernel: &Means, mut io: Io<'_>) -> Result<(), ExecError> {
    let x = io.inputs.get::<T>(0)?;
    let y = io.outputs.take::<T>(0)?;
    let window = &kernel.window;
    let line = io.scratch.take::<T>(window.input[2])?;
    pool::fold_windows(window, x, y, line, T::ZERO, T::add, |sum, taps, at| {
        sum.div(T::of((kernel.count)(window, taps, at).max(1) as f64))
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn windows_take_their_mean() {
        // kernel, stride, pads, ceil, with padding, output extent of an input of 5
        let cases = [
            (2, 1, [0, 0], 0, 0, 4),
            (3, 2, [1, 1], 0, 0, 3),
            (3, 2, [1, 1], 0, 1, 3),
            (2, 2, [0, 0], 1, 0, 3),
            (2, 2, [0, 0], 1, 1, 3),
        ];
        let x = noise(25);
        for (kernel, stride, [pad, end], ceil, with_pad, out) in cases {
            let y = bench("AveragePool")
                .input(tensor(&[1, 1, 5, 5], &x))
                .ints("kernel_shape", &[kernel; 2])
                .ints("strides", &[stride; 2])
                .ints("pads", &[pad, pad, end, end])
                .int("ceil_mode", ceil)
                .int("count_include_pad", with_pad)
                .one();
            assert_eq!(y.dims(), [1, 1, out, out]);
            let mut wanted = Vec::new();
            for (oy, ox) in (0..out as i64).flat_map(|y| (0..out as i64).map(move |x| (y, x))) {
                let (mut sum, mut count) = (0.0, 0);
                for (r, s) in (0..kernel).flat_map(|r| (0..kernel).map(move |s| (r, s))) {
                    let (row, col) = (oy * stride - pad + r, ox * stride - pad + s);
                    let inside = (0..5).contains(&row) && (0..5).contains(&col);
                    let padded = row < 5 + end && col < 5 + end;
                    sum += if inside { f64::from(x[(row * 5 + col) as usize]) } else { 0.0 };
                    count += i32::from(inside || (with_pad == 1 && padded));
                }
                wanted.push(sum / f64::from(count));
            }
            assert_near(&y.values::<f32>(), &wanted, 1e-6);
        }
    }
}
