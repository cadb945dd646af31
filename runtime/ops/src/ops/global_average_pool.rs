//! The mean of each channel over all spatial positions.
//!
//! `global_pool` builds the operator: `F32` and `F64` reduce the contiguous elements of a channel, `pixels` all
//! channels of an image with channels last, `quantized` a channel of quantized elements, and `Reduced` gives the GPU
//! kernel.

use udo_api::{Encoding, QuantizedType};
use udo_simd::pooling::{Image, global_average};
use udo_simd::rows;

use crate::Def;
use crate::family::pooling::{GlobalPool, global_pool};
use crate::number::Real;

pub(crate) const DEF: Def = global_pool::<GlobalAveragePool>();

struct GlobalAveragePool;

impl GlobalPool for GlobalAveragePool {
    const NAME: &'static str = "GlobalAveragePool";
    type Reduced = super::reduce_mean::ReduceMean;
    const F32: fn(&[f32]) -> f32 = |x| rows::sum(x) / x.len() as f32;
    const F64: fn(&[f64]) -> f64 = mean;

    fn pixels(x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
        global_average(x, pixels, y);
    }

    fn quantized<T: QuantizedType>(x: &[T], encoding: Encoding) -> f32 {
        let sum: i64 = x.iter().map(|&x| i64::from(x.to_i32())).sum();
        (sum as f32 / x.len() as f32 - encoding.zero_point as f32) * encoding.scale
    }
}

fn mean<T: Real>(x: &[T]) -> T {
    x.iter().fold(T::ZERO, |sum, &x| sum.add(x)).div(T::from_f64(x.len() as f64))
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near_constant, bench, tensor};

    #[test]
    fn means_of_many_elements_keep_precision() {
        let len = 1 << 20;
        let x: Vec<f32> = (0..2 * len).map(|i| if i < len { 0.1 } else { 1000.7 }).collect();
        let y = bench("GlobalAveragePool").input(tensor(&[1, 2, len], &x)).one().values::<f32>();
        let why = "all elements of a channel are equal, so its mean divided by one of them is 1";
        assert_near_constant(&[y[0] / x[0], y[1] / x[len]], &[1.0; 2], 4e-6, why);
    }
}
