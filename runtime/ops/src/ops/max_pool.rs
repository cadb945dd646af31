//! The maximum of each pooling window. NaN counts as larger than any value.
//!
//! `pool` builds the operator. For each window, `fold` accumulates the taps, the elements inside of the image.
//! `PoolImage` is the faster kernel for images with channels last. `write_more` writes the optional output of indices.

use std::ops::Range;

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, Inputs, KernelDef, Outputs, Param, Port, TypeSet,
    Value, types,
};
use udo_simd::pooling::{Image, max_pool, max_pool_u8};

use crate::Def;
use crate::family::pooling::{
    FoldWindow, Images, Pool, PoolGpu, PoolImage, each_window, fold_places, gpu, pixels, pool,
    windows,
};
use crate::family::window::Window;
use crate::number::Number;

pub(crate) const DEF: Def = pool::<MaxPool>();

struct MaxPool {
    /// How indices count, or `None` if the node has no index output.
    indices: Option<Order>,
}

/// The order in which an index counts the elements of a plane (`storage_order`).
#[derive(Clone, Copy)]
enum Order {
    LastAxisFastest,
    FirstAxisFastest,
}

impl Pool for MaxPool {
    const NAME: &'static str = "MaxPool";
    const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16).or(types::U8).or(types::I8);
    const MORE_OUTPUTS: &'static [Port] = &[Port::optional("Indices", types::I64)];
    const PARAMS: &'static [Param] =
        &[Param::scalar("storage_order", DType::I64).default(Value::int(0))];
    const KERNELS: &'static [KernelDef] = &[
        pixels::<Self, f32>(),
        pixels::<Self, u8>(),
        windows::<Self, f32>(Core::CPU),
        windows::<Self, f64>(Core::CPU),
        windows::<Self, u8>(Core::CPU),
        windows::<Self, i8>(Core::CPU),
        gpu::<Self>(),
        // Dequantization is monotonic, so quantized values compare as integers.
        windows::<Self, u8>(Core::DSP_V68),
        windows::<Self, i8>(Core::DSP_V68),
    ];
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);

    fn read(cx: &FinalizeCx<'_>, _: &Window) -> Result<Self, Error> {
        let order = if cx.flag("storage_order")? {
            Order::FirstAxisFastest
        } else {
            Order::LastAxisFastest
        };
        Ok(Self { indices: cx.has_output(1).then_some(order) })
    }
}

impl PoolImage<f32> for MaxPool {
    fn pool(
        &self,
        images: &Images,
        x: Image<'_, f32>,
        rows: Range<usize>,
        y: &mut [f32],
        y_stride: usize,
    ) {
        max_pool(&images.window, images.channels, x, rows, y, y_stride);
    }
}

impl PoolImage<u8> for MaxPool {
    fn pool(
        &self,
        images: &Images,
        x: Image<'_, u8>,
        rows: Range<usize>,
        y: &mut [u8],
        y_stride: usize,
    ) {
        max_pool_u8(&images.window, images.channels, x, rows, y, y_stride);
    }
}

impl<T: Number> FoldWindow<T> for MaxPool {
    const START: T = T::LOWEST;

    fn fold(&self, max: T, x: T) -> T {
        larger(max, x)
    }

    fn write_more(
        &self,
        window: &Window,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
    ) -> Result<(), ExecError> {
        let Some(order) = self.indices else { return Ok(()) };
        write_indices(window, order, inputs.get::<T>(0)?, outputs.take(1)?);
        Ok(())
    }
}

impl PoolGpu for MaxPool {
    const OPENCL: [&'static str; 3] = ["-INFINITY", "x > y || isnan(x) ? x : y", "y"];
}

/// Returns the larger value; the first of two that are equal or both NaN.
#[inline]
pub(super) fn larger<T: Number>(max: T, x: T) -> T {
    if is_larger(x, max) { x } else { max }
}

/// Whether `x` replaces the maximum so far. NaN replaces any value, and is never replaced.
#[inline]
pub(super) fn is_larger<T: Number>(x: T, max: T) -> bool {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    x > max || (is_nan(x) && !is_nan(max))
}

/// Writes the index of the first maximum of each window, counted over the whole of `x`.
fn write_indices<T: Number>(window: &Window, order: Order, x: &[T], indices: &mut [i64]) {
    if window.input_len() == 0 {
        return indices.fill(0);
    }
    each_window(window, x, indices, |plane, taps, _| {
        let first_index = fold_places(window, taps, None, |first, index| first.or(Some(index)));
        let start = (T::LOWEST, first_index.unwrap_or(0));
        let (_, max_index) = fold_places(window, taps, start, |(max, max_index), index| {
            if is_larger(plane[index], max) { (plane[index], index) } else { (max, max_index) }
        });
        max_index as i64
    });
    let [depth, rows, cols] = window.input.map(|extent| extent as i64);
    let planes = indices.chunks_exact_mut(window.output_len().max(1));
    for (plane, indices) in planes.enumerate() {
        for index in indices {
            let index_in_plane = match order {
                Order::LastAxisFastest => *index,
                Order::FirstAxisFastest => {
                    let (layer, row, col) =
                        (*index / (rows * cols), *index / cols % rows, *index % cols);
                    layer + depth * (row + rows * col)
                }
            };
            *index = (plane * window.input_len()) as i64 + index_in_plane;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn nan_is_the_largest_value() {
        let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
        let x = [1.0, nan, 2.0, 3.0, low, low, nan, nan, 5.0, 4.0];
        let run = bench("MaxPool").input(tensor(&[1, 1, 1, 10], &x)).ints("kernel_shape", &[1, 2]);
        let run = run.ints("strides", &[1, 2]);
        let expected = [nan, 3.0, low, nan, 5.0];
        let is_expected = |actual: Vec<f32>| {
            actual.iter().zip(expected).all(|(y, expected)| {
                y.total_cmp(&expected).is_eq() || y.is_nan() && expected.is_nan()
            })
        };
        assert!(is_expected(run.clone().one().values()));
        let outputs = run.outputs(2).all();
        assert!(is_expected(outputs[0].values()));
        assert_eq!(outputs[1].values::<i64>(), [1, 3, 4, 6, 8]);
    }

    #[test]
    fn windows_inside_the_padding_give_the_lowest_value() {
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
    fn quantized_values_pool_on_cpu_and_dsp() {
        for core in [Core::CPU, Core::DSP_V68] {
            let run = bench("MaxPool").on(core).input(tensor(&[1, 1, 4], &[3u8, 9, 2, 200]));
            let y = run.ints("kernel_shape", &[2]).ints("strides", &[2]).one();
            assert_eq!(y.values::<u8>(), [9, 200]);
        }
    }

    #[test]
    fn indices_locate_the_maxima() {
        #[rustfmt::skip]
        let x = [
            1f32, 9.0, 2.0,
            8.0, 9.0, 7.0,

            f32::NEG_INFINITY, f32::NEG_INFINITY, 5.0,
            f32::NEG_INFINITY, f32::NEG_INFINITY, 6.0,
        ];
        for (order, expected) in [(0, [1, 1, 6, 11]), (1, [2, 2, 6, 11])] {
            let outputs = bench("MaxPool")
                .input(tensor(&[1, 2, 2, 3], &x))
                .ints("kernel_shape", &[2, 2])
                .int("storage_order", order)
                .outputs(2)
                .all();
            assert_eq!(outputs[0].values::<f32>(), [9.0, 9.0, f32::NEG_INFINITY, 6.0]);
            assert_eq!(
                (outputs[1].dims(), outputs[1].values::<i64>()),
                (vec![1, 2, 1, 2], expected.to_vec())
            );
        }
    }
}
