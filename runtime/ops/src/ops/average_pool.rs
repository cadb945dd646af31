//! The mean of each pooling window.
//!
//! `pool` builds the operator. For each window, `fold` sums up the taps, the elements inside of the image, and
//! `finish` divides by their number. `PoolImage` is the faster kernel for images with channels last.

use std::ops::Range;

use udo_api::{Core, DType, Error, FinalizeCx, KernelDef, Param, TypeSet, Value, types};
use udo_simd::pooling::{Divisor, Image, average_pool};

use crate::Def;
use crate::family::pooling::{
    FoldWindow, Images, Pool, PoolGpu, PoolImage, gpu, pixels, pool, windows,
};
use crate::family::window::{Taps, Window};
use crate::number::Real;

pub(crate) const DEF: Def = pool::<AveragePool>();

/// Which elements of a window its sum is divided by: those inside of the image, or padding as well.
struct AveragePool(Divisor);

impl Pool for AveragePool {
    const NAME: &'static str = "AveragePool";
    const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16);
    const PARAMS: &'static [Param] =
        &[Param::scalar("count_include_pad", DType::I64).default(Value::int(0))];
    const KERNELS: &'static [KernelDef] = &[
        pixels::<Self, f32>(),
        windows::<Self, f32>(Core::CPU),
        windows::<Self, f64>(Core::CPU),
        gpu::<Self>(),
    ];
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().sum::<f64>() / x.len() as f64;

    fn read(cx: &FinalizeCx<'_>, window: &Window) -> Result<Self, Error> {
        let counts_padding = cx.flag("count_include_pad")?;
        Ok(Self(if counts_padding { Divisor::Padded(window.end_pads) } else { Divisor::Inside }))
    }
}

impl PoolImage<f32> for AveragePool {
    fn pool(
        &self,
        images: &Images,
        x: Image<'_, f32>,
        rows: Range<usize>,
        y: &mut [f32],
        y_stride: usize,
    ) {
        average_pool(&images.window, images.channels, x, self.0, rows, y, y_stride);
    }
}

impl<T: Real> FoldWindow<T> for AveragePool {
    const START: T = T::ZERO;

    fn fold(&self, sum: T, x: T) -> T {
        sum.add(x)
    }

    fn finish(&self, window: &Window, sum: T, taps: [Taps; 3], y_index: [usize; 3]) -> T {
        let count: usize = match self.0 {
            Divisor::Inside => taps.iter().map(|taps| taps.len).product(),
            Divisor::Padded(_) => {
                (0..3).map(|axis| window.padded_taps(axis, y_index[axis])).product()
            }
        };
        sum.div(T::from_f64(count.max(1) as f64))
    }
}

impl PoolGpu for AveragePool {
    const OPENCL: [&'static str; 3] = ["0.0f", "y + x", "y / count"];

    fn counts_padding(&self) -> bool {
        matches!(self.0, Divisor::Padded(_))
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::on_gpu_too;
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn padding_is_counted_if_requested_but_positions_past_it_are_not() {
        let x = tensor(&[1, 1, 4], &[1f32, 2.0, 3.0, 4.0]);
        for (count, expected) in [(0, [1.0, 2.5, 4.0]), (1, [0.5, 2.5, 4.0 / 2.0])] {
            let run = bench("AveragePool").input(x.clone()).ints("kernel_shape", &[2]);
            let run = run.ints("strides", &[2]).ints("pads", &[1, 1]);
            let y = on_gpu_too(&run.int("count_include_pad", count), 1e-6);
            assert_near(&y.values::<f32>(), &expected, 1e-6);
        }
        let run = bench("AveragePool").input(x).ints("kernel_shape", &[3]).ints("strides", &[3]);
        let run = run.int("ceil_mode", 1).int("count_include_pad", 1).ints("pads", &[1, 0]);
        let y = on_gpu_too(&run, 1e-6);
        assert_near(&y.values::<f32>(), &[1.0, 3.5], 1e-6);
    }
}
