//! The maximum of each channel over all spatial positions. NaN counts as larger than any value.
//!
//! `global_pool` builds the operator: `F32` and `F64` reduce the contiguous elements of a channel, `pixels` all
//! channels of an image with channels last, `quantized` a channel of quantized elements, and `Reduced` gives the GPU
//! kernel.

use udo_api::{Encoding, QuantizedType};
use udo_simd::pooling::Image;

use super::max_pool::larger;
use crate::Def;
use crate::family::pooling::{GlobalPool, global_pool};
use crate::number::Number;

pub(crate) const DEF: Def = global_pool::<GlobalMaxPool>();

struct GlobalMaxPool;

impl GlobalPool for GlobalMaxPool {
    const NAME: &'static str = "GlobalMaxPool";
    type Reduced = super::reduce_max::ReduceMax;
    const F32: fn(&[f32]) -> f32 = max;
    const F64: fn(&[f64]) -> f64 = max;

    fn pixels(x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
        y.fill(f32::LOWEST);
        for x in x.data.chunks(x.stride).take(pixels) {
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = larger(*y, x));
        }
    }

    fn quantized<T: QuantizedType>(x: &[T], encoding: Encoding) -> f32 {
        // Dequantization is monotonic, so quantized values compare as integers.
        let max = x.iter().map(|x| x.to_i32()).max().unwrap_or(encoding.zero_point);
        encoding.dequantize(max)
    }
}

fn max<T: Number>(x: &[T]) -> T {
    x.iter().copied().fold(T::LOWEST, larger)
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn nan_is_the_largest_value() {
        let x = [1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, -2.0];
        let y = bench("GlobalMaxPool").input(tensor(&[1, 2, 1, 3], &x)).one().values::<f32>();
        assert!(y[0].is_nan() && y[1].to_bits() == (-1f32).to_bits(), "{y:?}");
    }
}
