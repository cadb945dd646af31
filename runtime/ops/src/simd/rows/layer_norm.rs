//! Layer norm over the last axis, in two passes: the mean, then the deviations from it.

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::reduce::sum_of;

/// Columns up to which four rows go together: they share `scale` and `bias`, their sums take fewer
/// steps, and they stay in the first cache.
const SHARED: usize = 2048;

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
        let len = x.len().min(y.len()) / scale.len() * scale.len();
        let (x, y) = (&x[..len], &mut y[..len]);
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
        let part = 1.0 / cols as f32;
        let (mut xs, mut ys) = (x, y);
        if cols <= SHARED {
            let (mut fours, mut to) = (xs.chunks_exact(4 * cols), ys.chunks_exact_mut(4 * cols));
            for (x, y) in fours.by_ref().zip(to.by_ref()) {
                let (mut rows, mut affine) = ([x; 4], [Affine::default(); 4]);
                let mut r = 0;
                while r < 4 {
                    rows[r] = &x[r * cols..][..cols];
                    r += 1;
                }
                let mut means = sums(simd, rows);
                for mean in &mut means {
                    *mean *= part;
                }
                let (rests, squares) = deviations_of(simd, rows, means);
                r = 0;
                while r < 4 {
                    affine[r] = Affine::new(means[r], rests[r], squares[r], part, epsilon);
                    r += 1;
                }
                normalize(simd, rows, affine, scale, bias, y);
            }
            (xs, ys) = (fours.remainder(), to.into_remainder());
        }
        for (x, y) in xs.chunks_exact(cols).zip(ys.chunks_exact_mut(cols)) {
            let mean = sum_of(simd, x) * part;
            let (rest, square) = deviations(simd, x, mean);
            let affine = Affine::new(mean, rest, square, part, epsilon);
            normalize(simd, [x], [affine], scale, bias, y);
        }
    }
}

/// What makes `(x - mean) * factor - shift` of a row's elements.
#[derive(Clone, Copy, Debug, Default)]
struct Affine {
    mean: f32,
    factor: f32,
    shift: f32,
}

impl Affine {
    /// Of the sums of deviations from the rounded `mean` and of their squares; `part` is one divided
    /// by how many there are.
    #[inline(always)]
    fn new(mean: f32, rest: f32, squares: f32, part: f32, epsilon: f32) -> Self {
        let rest = rest * part;
        let variance = (squares * part - rest * rest).max(0.0);
        let factor = 1.0 / (variance + epsilon).sqrt();
        Self { mean, factor, shift: rest * factor }
    }
}

/// Writes `R` rows that follow each other; all have `scale.len()` elements.
#[inline(always)]
fn normalize<S: Simd, const R: usize>(
    simd: S,
    rows: [&[f32]; R],
    affine: [Affine; R],
    scale: &[f32],
    bias: &[f32],
    y: &mut [f32],
) {
    let cols = scale.len();
    let to = y.as_mut_ptr();
    let zero = simd.splat(0.0);
    let (mut means, mut factors, mut shifts) = ([zero; R], [zero; R], [zero; R]);
    let mut r = 0;
    while r < R {
        means[r] = simd.splat(affine[r].mean);
        factors[r] = simd.splat(affine[r].factor);
        shifts[r] = simd.splat(-affine[r].shift);
        r += 1;
    }
    let mut i = 0;
    while i < cols {
        let count = S::LANES.min(cols - i);
        // SAFETY: `count` elements from `i` on lie within `scale`.
        let k = unsafe { head(simd, scale.as_ptr().add(i), count) };
        let b = if bias.is_empty() {
            zero
        } else {
            // SAFETY: as above, as `bias` is as long as `scale`.
            unsafe { head(simd, bias.as_ptr().add(i), count) }
        };
        // All are read before any is written: with rows of whole pages, a write to one of them
        // would hold up the read of the next.
        let mut values = [zero; R];
        r = 0;
        while r < R {
            // SAFETY: as above, as the row is as long as `scale`.
            let a = simd.sub(unsafe { head(simd, rows[r].as_ptr().add(i), count) }, means[r]);
            let a = simd.fma(a, factors[r], shifts[r]);
            values[r] = if bias.is_empty() { simd.mul(a, k) } else { simd.fma(a, k, b) };
            r += 1;
        }
        r = 0;
        while r < R {
            if count == S::LANES {
                // SAFETY: as above, as `y` has `R` rows as long.
                unsafe { simd.store(to.add(r * cols + i), values[r]) }
            } else {
                // SAFETY: as above.
                unsafe { simd.store_head(to.add(r * cols + i), count, values[r]) }
            }
            r += 1;
        }
        i += S::LANES;
    }
}

/// The sums of four rows of one length.
#[inline(always)]
fn sums<S: Simd>(simd: S, rows: [&[f32]; 4]) -> [f32; 4] {
    let mut sums = [simd.splat(0.0); 4];
    let cols = rows[0].len();
    let mut i = 0;
    while i < cols {
        let count = S::LANES.min(cols - i);
        let mut r = 0;
        while r < 4 {
            // SAFETY: `count` elements from `i` on lie within each row.
            sums[r] = simd.add(sums[r], unsafe { head(simd, rows[r].as_ptr().add(i), count) });
            r += 1;
        }
        i += S::LANES;
    }
    simd.sum4(sums)
}

/// As [`deviations`], of four rows of one length.
#[inline(always)]
fn deviations_of<S: Simd>(simd: S, rows: [&[f32]; 4], means: [f32; 4]) -> ([f32; 4], [f32; 4]) {
    let zero = simd.splat(0.0);
    let (mut sums, mut squares, mut middles) = ([zero; 4], [zero; 4], [zero; 4]);
    let mut r = 0;
    while r < 4 {
        middles[r] = simd.splat(means[r]);
        r += 1;
    }
    let cols = rows[0].len();
    let whole = cols - cols % S::LANES;
    let mut i = 0;
    while i < whole {
        r = 0;
        while r < 4 {
            // SAFETY: a vector from `i` on lies within each row.
            let d = simd.sub(unsafe { simd.load(rows[r].as_ptr().add(i)) }, middles[r]);
            // The rows of the next step, while this one works within the first cache.
            simd.prefetch(rows[r].as_ptr().wrapping_add(4 * cols + i));
            sums[r] = simd.add(sums[r], d);
            squares[r] = simd.fma(d, d, squares[r]);
            r += 1;
        }
        i += S::LANES;
    }
    if i < cols {
        r = 0;
        while r < 4 {
            // SAFETY: `cols - i` elements are left in each row.
            let a = unsafe { simd.load_head(rows[r].as_ptr().add(i), cols - i, middles[r]) };
            let d = simd.sub(a, middles[r]);
            sums[r] = simd.add(sums[r], d);
            squares[r] = simd.fma(d, d, squares[r]);
            r += 1;
        }
    }
    (simd.sum4(sums), simd.sum4(squares))
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
