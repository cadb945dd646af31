//! The largest element of each window.

use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Value, Workspace, input, output_like, types,
};
use udo_simd::pooling::{max_pool, max_pool_codes};

use crate::Def;
use crate::number::Number;
use crate::pool::{self, Images};
use crate::sides::Sides;
use crate::window::Window;

pub(crate) const DEF: Def = Def::of::<MaxPool>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Pixels>("MaxPool", Core::CPU)
        .types(&[input(0, types::F32.or(types::U8)), output_like(0, 0)])
        .flags(Sides::BOTH.flags()),
    KernelDef::new::<Maxima>("MaxPool", Core::CPU)
        .types(&[input(0, types::F32.or(types::F64).or(CODES)), output_like(0, 0)]),
    // The order of codes is that of the numbers behind them.
    KernelDef::new::<Maxima>("MaxPool", Core::DSP_V68).types(&[input(0, CODES), output_like(0, 0)]),
];

const CODES: udo_api::TypeSet = types::U8.or(types::I8);
const TYPES: udo_api::TypeSet = types::F32.or(types::F64).or(types::F16).or(CODES);

struct MaxPool;

impl Op for MaxPool {
    const SCHEMA: OpSchema = OpSchema::new(
        "MaxPool",
        &[Port::required("X", TYPES)],
        &[Port::required("Y", TYPES), Port::optional("Indices", types::I64)],
        &[
            Param::tensor("kernel_shape", DType::I64),
            Param::text("auto_pad").default(Value::text("NOTSET")),
            Param::scalar("ceil_mode", DType::I64).default(Value::int(0)),
            Param::tensor("dilations", DType::I64).optional(),
            Param::tensor("pads", DType::I64).optional(),
            Param::scalar("storage_order", DType::I64).default(Value::int(0)),
            Param::tensor("strides", DType::I64).optional(),
        ],
    )
    .facts(Facts::SAME_ENCODING.or(Facts::LAYOUT_SENSITIVE));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        pool::infer(cx)?;
        if cx.output_count() < 2 {
            return Ok(());
        }
        let x = cx.input(0)?;
        let channels = x.full_shape().dim(1).unwrap_or(udo_api::Dim::Fixed(1));
        let shape = pool::window(cx, &x)?.output_shape(&x, channels)?;
        cx.set_output(1, udo_api::TensorDesc::new(DType::I64, shape))
    }
}

/// Maxima of images whose channels are last.
struct Pixels {
    images: Images,
    run: fn(&Images, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Pixels {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        if cx.has_output(1) {
            return Err(Error::new("indices count channel by channel"));
        }
        let run: fn(&Images, Io<'_>) -> _ = match cx.input(0)?.dtype() {
            Some(DType::U8) => |images, io| {
                let Io { inputs, mut outputs, parallel, .. } = io;
                let (x, y) = (inputs.get(0)?, outputs.take(0)?);
                images.run(parallel, x, y, |x, rows, y| {
                    max_pool_codes(&images.window, images.channels, x, rows, y, images.channels);
                })
            },
            _ => |images, io| {
                let Io { inputs, mut outputs, parallel, .. } = io;
                let (x, y) = (inputs.get(0)?, outputs.take(0)?);
                images.run(parallel, x, y, |x, rows, y| {
                    max_pool(&images.window, images.channels, x, rows, y, images.channels);
                })
            },
        };
        Ok(Self { images: Images::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.images, io)
    }
}

/// How an index counts the elements of a plane.
#[derive(Clone, Copy)]
enum Order {
    LastAxisFastest,
    FirstAxisFastest,
}

struct Maxima {
    window: Window,
    /// Nothing where nobody wants the indices.
    indices: Option<Order>,
    line: Workspace,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Maxima {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let order = if cx.flag("storage_order")? {
            Order::FirstAxisFastest
        } else {
            Order::LastAxisFastest
        };
        let indices = cx.has_output(1).then_some(order);
        let window = pool::window(cx, &x)?;
        let cols = window.input[2];
        let (line, run) = of_type!(
            x.dtype(),
            [F32 = f32, F64 = f64, U8 = u8, I8 = i8],
            T => (Workspace::of::<T>(cols), execute::<T> as fn(&Self, Io<'_>) -> Result<(), ExecError>)
        )?;
        Ok(Self { window, indices, line, run })
    }

    fn workspace(&self) -> Workspace {
        self.line
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Number>(kernel: &Maxima, mut io: Io<'_>) -> Result<(), ExecError> {
    let window = &kernel.window;
    let x = io.inputs.get::<T>(0)?;
    let y = io.outputs.take::<T>(0)?;
    let line = io.scratch.take::<T>(window.input[2])?;
    let larger = |max: T, v: T| if is_larger(v, max) { v } else { max };
    pool::fold_windows(window, x, y, line, T::LOWEST, larger, |max, _, _| max);
    if let Some(order) = kernel.indices {
        write_indices(window, order, x, io.outputs.take::<i64>(1)?);
    }
    Ok(())
}

/// Whether an element takes the place of the largest so far: a NaN does, and gives it to nobody.
fn is_larger<T: Number>(v: T, max: T) -> bool {
    let is_nan = |v: T| v.partial_cmp(&v).is_none();
    v > max || (is_nan(v) && !is_nan(max))
}

/// Where each window has its first largest element, counted over all of `x`.
fn write_indices<T: Number>(window: &Window, order: Order, x: &[T], indices: &mut [i64]) {
    if window.input_len() == 0 {
        return indices.fill(0);
    }
    pool::each_window(window, x, indices, |plane, taps, _| {
        let first = pool::fold_places(window, taps, None, |first, at| first.or(Some(at)));
        let start = (T::LOWEST, first.unwrap_or(0));
        let (_, place) = pool::fold_places(window, taps, start, |(max, place), at| {
            if is_larger(plane[at], max) { (plane[at], at) } else { (max, place) }
        });
        place as i64
    });
    let [depth, rows, cols] = window.input.map(|extent| extent as i64);
    let planes = indices.chunks_exact_mut(window.output_len().max(1));
    for (plane, indices) in planes.enumerate() {
        for index in indices {
            let place = match order {
                Order::LastAxisFastest => *index,
                Order::FirstAxisFastest => {
                    let (z, row, col) =
                        (*index / (rows * cols), *index / cols % rows, *index % cols);
                    z + depth * (row + rows * col)
                }
            };
            *index = (plane * window.input_len()) as i64 + place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, noise, tensor};

    #[test]
    fn a_nan_is_larger_than_anything() {
        let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
        let x = [1.0, nan, 2.0, 3.0, low, low, nan, nan, 5.0, 4.0];
        let run = bench("MaxPool").input(tensor(&[1, 1, 1, 10], &x)).ints("kernel_shape", &[1, 2]);
        let run = run.ints("strides", &[1, 2]);
        let wanted = [nan, 3.0, low, nan, 5.0];
        let alike = |found: Vec<f32>| {
            found
                .iter()
                .zip(wanted)
                .all(|(a, b)| a.total_cmp(&b).is_eq() || a.is_nan() && b.is_nan())
        };
        assert!(alike(run.clone().one().values()));
        let both = run.outputs(2).all();
        assert!(alike(both[0].values()));
        assert_eq!(both[1].values::<i64>(), [1, 3, 4, 6, 8]);
    }

    #[test]
    fn windows_take_their_largest_element() {
        // kernel, stride, pad, end pad, dilation, ceil, output extent of an input of 5
        let cases = [
            (2, 1, 0, 0, 1, 0, 4),
            (3, 2, 1, 1, 1, 0, 3),
            (2, 2, 0, 0, 1, 1, 3),
            (2, 1, 0, 0, 2, 0, 3),
            (2, 2, 1, 0, 1, 1, 3),
        ];
        let x = noise(2 * 5 * 5);
        for (kernel, stride, pad, end, dilation, ceil, out) in cases {
            let y = bench("MaxPool")
                .input(tensor(&[1, 2, 5, 5], &x))
                .ints("kernel_shape", &[kernel; 2])
                .ints("strides", &[stride; 2])
                .ints("pads", &[pad, pad, end, end])
                .ints("dilations", &[dilation; 2])
                .int("ceil_mode", ceil)
                .one();
            assert_eq!(y.dims(), [1, 2, out, out]);
            for (i, found) in y.values::<f32>().into_iter().enumerate() {
                let (c, at) = (i / (out * out), [i / out % out, i % out]);
                let mut wanted = f32::NEG_INFINITY;
                for (r, s) in (0..kernel).flat_map(|r| (0..kernel).map(move |s| (r, s))) {
                    let row = at[0] as i64 * stride - pad + r * dilation;
                    let col = at[1] as i64 * stride - pad + s * dilation;
                    if (0..5).contains(&row) && (0..5).contains(&col) {
                        wanted = wanted.max(x[c * 25 + (row * 5 + col) as usize]);
                    }
                }
                assert_eq!(found.to_bits(), wanted.to_bits(), "kernel {kernel} at {i}");
            }
        }
    }

    #[test]
    fn windows_in_the_padding_are_empty() {
        for order in [0, 1] {
            let outputs = bench("MaxPool")
                .input(tensor::<f32>(&[1, 1, 0, 2], &[]))
                .ints("kernel_shape", &[1, 2])
                .ints("pads", &[1, 0, 0, 0])
                .int("storage_order", order)
                .outputs(2)
                .all();
            assert_eq!(outputs[0].values::<f32>(), [f32::NEG_INFINITY]);
            assert_eq!(outputs[1].values::<i64>(), [0]);
        }
    }

    #[test]
    fn codes_pool_on_cpu_and_dsp() {
        for core in [Core::CPU, Core::DSP_V68] {
            let run = bench("MaxPool").on(core).input(tensor(&[1, 1, 4], &[3u8, 9, 2, 200]));
            let y = run.ints("kernel_shape", &[2]).ints("strides", &[2]).one();
            assert_eq!(y.values::<u8>(), [9, 200]);
        }
    }

    #[test]
    fn indices_say_where_the_maxima_are() {
        #[rustfmt::skip]
        let x = [
            1f32, 9.0, 2.0,
            8.0, 9.0, 7.0,

            f32::NEG_INFINITY, f32::NEG_INFINITY, 5.0,
            f32::NEG_INFINITY, f32::NEG_INFINITY, 6.0,
        ];
        for (order, wanted) in [(0, [1, 1, 6, 11]), (1, [2, 2, 6, 11])] {
            let outputs = bench("MaxPool")
                .input(tensor(&[1, 2, 2, 3], &x))
                .ints("kernel_shape", &[2, 2])
                .int("storage_order", order)
                .outputs(2)
                .all();
            assert_eq!(outputs[0].values::<f32>(), [9.0, 9.0, f32::NEG_INFINITY, 6.0]);
            assert_eq!(
                (outputs[1].dims(), outputs[1].values::<i64>()),
                (vec![1, 2, 1, 2], wanted.to_vec())
            );
        }
    }
}
