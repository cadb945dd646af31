//! Layer norm over the last axis, in two passes: the mean, then the deviations from it.

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::reduce::sum_of;

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias` of every row of `x: [rows, scale.len()]`.
///
/// `bias` is as long as `scale`, or empty for none. The variance is that of the whole row, divided
/// by its length, and corrected for the rounding of the mean (Chan, Golub and `LeVeque` 1983).
pub fn layer_norm(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f32, y: &mut [f32]) {
    layer_norm_on(isa(), x, scale, bias, epsilon, y);
}

pub(super) fn layer_norm_on(
    isa: Isa,
    x: &[f32],
    scale: &[f32],
    bias: &[f32],
    epsilon: f32,
    y: &mut [f32],
) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    let fits = bias.is_empty() || bias.len() == scale.len();
    debug_assert!(fits, "a bias for each column");
    if !scale.is_empty() && fits {
        on(isa, LayerNorm { x, scale, bias, epsilon, y });
    }
}

/// `scale` is not empty, and `bias` is empty or as long.
struct LayerNorm<'a> {
    x: &'a [f32],
    scale: &'a [f32],
    bias: &'a [f32],
    epsilon: f32,
    y: &'a mut [f32],
}

impl Task for LayerNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, scale, bias, epsilon, y } = self;
        let cols = scale.len();
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
            let mean = sum_of(simd, x) / cols as f32;
            let (rest, squares) = deviations(simd, x, mean);
            let rest = rest / cols as f32;
            let variance = (squares / cols as f32 - rest * rest).max(0.0);
            let factor = simd.splat(1.0 / (variance + epsilon).sqrt());
            let (mean, rest) = (simd.splat(mean), simd.splat(rest));
            let mut i = 0;
            while i < cols {
                let count = S::LANES.min(cols - i);
                // SAFETY: `count` elements from `i` on lie within the row.
                let a = unsafe { head(simd, x.as_ptr().add(i), count) };
                // SAFETY: as above, as the row is as long as `scale`.
                let k = unsafe { head(simd, scale.as_ptr().add(i), count) };
                let a = simd.mul(simd.sub(simd.sub(a, mean), rest), factor);
                let a = if bias.is_empty() {
                    simd.mul(a, k)
                } else {
                    // SAFETY: as above, as `bias` is as long as `scale`.
                    simd.fma(a, k, unsafe { head(simd, bias.as_ptr().add(i), count) })
                };
                if count == S::LANES {
                    // SAFETY: as above, as `y` has rows as long.
                    unsafe { simd.store(y.as_mut_ptr().add(i), a) }
                } else {
                    // SAFETY: as above.
                    unsafe { simd.store_head(y.as_mut_ptr().add(i), count, a) }
                }
                i += S::LANES;
            }
        }
    }
}

/// Loads `count` elements, zeros behind them.
///
/// # Safety
/// `count` elements are readable.
#[inline(always)]
unsafe fn head<S: Simd>(simd: S, from: *const f32, count: usize) -> S::F {
    if count == S::LANES {
        // SAFETY: the caller's promise.
        unsafe { simd.load(from) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { simd.load_head(from, count, simd.splat(0.0)) }
    }
}

/// The sums of the deviations from `mean`, and of their squares.
#[inline(always)]
fn deviations<S: Simd>(simd: S, row: &[f32], mean: f32) -> (f32, f32) {
    let (zero, mean) = (simd.splat(0.0), simd.splat(mean));
    let (mut sums, mut squares) = ([zero; 4], [zero; 4]);
    let (at, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on lie within the row.
            let d = simd.sub(unsafe { simd.load(at.add(i + k * S::LANES)) }, mean);
            sums[k] = simd.add(sums[k], d);
            squares[k] = simd.fma(d, d, squares[k]);
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on lie within the row.
        let d = simd.sub(unsafe { simd.load_head(at.add(i), count, mean) }, mean);
        sums[0] = simd.add(sums[0], d);
        squares[0] = simd.fma(d, d, squares[0]);
        i += S::LANES;
    }
    let total = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
    let square = simd.add(simd.add(squares[0], squares[1]), simd.add(squares[2], squares[3]));
    (simd.sum(total), simd.sum(square))
}
