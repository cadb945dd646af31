//! Sums, maxima and minima of slices and of the rows of a matrix.

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Vectors per `f32` accumulator before it is added to the `f64` sum.
const DEPTH: usize = 32;

/// Prefetch distance of maxima and minima in elements. They need so many instructions per element that out-of-order
/// execution alone reaches only few cache lines ahead.
const AHEAD: usize = 512;

/// A reduction of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Sum,
    Max,
    Min,
}

/// Returns the sum, with an error of at most 4e-6 of the sum of absolute values for any length; 0 for an empty slice.
///
/// Runs of up to 2048 elements are summed in `f32`, in 32 or more interleaved accumulators, and the runs in `f64`.
pub fn sum(x: &[f32]) -> f32 {
    reduce(isa(), Reduction::Sum, x)
}

/// Returns the maximum: NaN if there is one, minus infinity for an empty slice.
pub fn max(x: &[f32]) -> f32 {
    reduce(isa(), Reduction::Max, x)
}

/// Returns the minimum: NaN if there is one, infinity for an empty slice.
pub fn min(x: &[f32]) -> f32 {
    reduce(isa(), Reduction::Min, x)
}

/// Computes the [`sum`] of every row of `x: [y.len(), cols]`.
pub fn row_sums(x: &[f32], cols: usize, y: &mut [f32]) {
    rows(isa(), Reduction::Sum, x, cols, y);
}

/// Computes the [`max`] of every row of `x: [y.len(), cols]`.
pub fn row_maxima(x: &[f32], cols: usize, y: &mut [f32]) {
    rows(isa(), Reduction::Max, x, cols, y);
}

/// Computes the [`min`] of every row of `x: [y.len(), cols]`.
pub fn row_minima(x: &[f32], cols: usize, y: &mut [f32]) {
    rows(isa(), Reduction::Min, x, cols, y);
}

pub(super) fn reduce(isa: Isa, reduction: Reduction, x: &[f32]) -> f32 {
    let mut y = [0.0];
    dispatch(isa, Rows { reduction, x, cols: x.len(), y: &mut y });
    y[0]
}

pub(super) fn rows(isa: Isa, reduction: Reduction, x: &[f32], cols: usize, y: &mut [f32]) {
    debug_assert_eq!(Some(x.len()), cols.checked_mul(y.len()), "as many rows as results");
    dispatch(isa, Rows { reduction, x, cols, y });
}

/// The loop over rows.
struct Rows<'a> {
    reduction: Reduction,
    x: &'a [f32],
    cols: usize,
    y: &'a mut [f32],
}

impl SimdOp for Rows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { reduction, mut x, cols, y } = self;
        for y in y {
            let Some((row, following)) = x.split_at_checked(cols) else { return };
            x = following;
            *y = match reduction {
                Reduction::Sum => sum_of(simd, row),
                Reduction::Max => extreme_of::<S, true>(simd, row, f32::NEG_INFINITY),
                Reduction::Min => extreme_of::<S, false>(simd, row, f32::INFINITY),
            };
        }
    }
}

/// Sums a row, in blocks whose sums are added in `f64`.
#[inline(always)]
pub(super) fn sum_of<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let block = 4 * S::LANES * DEPTH;
    if row.len() <= block {
        return block_sum(simd, row);
    }
    row.chunks(block).map(|row| f64::from(block_sum(simd, row))).sum::<f64>() as f32
}

/// Sums up to a block in `f32`.
#[inline(always)]
fn block_sum<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let zero = simd.splat(0.0);
    let mut sums = [zero; 4];
    let (address, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            sums[k] = simd.add(sums[k], unsafe { simd.load(address.add(i + k * S::LANES)) });
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        sums[0] = simd.add(sums[0], unsafe { simd.load_tail(address.add(i), count, zero) });
        i += S::LANES;
    }
    simd.sum(simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3])))
}

/// Returns the maximum or the minimum of each lane, without regard to NaN.
#[inline(always)]
fn extreme<S: Vector, const MAX: bool>(simd: S, a: S::F, b: S::F) -> S::F {
    if MAX { simd.max(a, b) } else { simd.min(a, b) }
}

/// Returns the maximum or minimum of a row and `start`, or NaN if the row contains one.
#[inline(always)]
pub(super) fn extreme_of<S: Vector, const MAX: bool>(simd: S, row: &[f32], start: f32) -> f32 {
    let first = simd.splat(start);
    let (mut extremes, mut nan_flags) = ([first; 4], [simd.splat_i(0); 4]);
    let (address, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            let x = unsafe { simd.load(address.add(i + k * S::LANES)) };
            simd.prefetch(address.wrapping_add(i + k * S::LANES + AHEAD));
            extremes[k] = extreme::<S, MAX>(simd, x, extremes[k]);
            nan_flags[k] = flag_nan(simd, nan_flags[k], x);
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        let x = unsafe { simd.load_tail(address.add(i), count, first) };
        extremes[0] = extreme::<S, MAX>(simd, x, extremes[0]);
        nan_flags[0] = flag_nan(simd, nan_flags[0], x);
        i += S::LANES;
    }
    let nan_flags =
        simd.or(simd.or(nan_flags[0], nan_flags[1]), simd.or(nan_flags[2], nan_flags[3]));
    if simd.any(simd.lt_i(nan_flags, simd.splat_i(0))) {
        return f32::NAN;
    }
    let (a, b) = (
        extreme::<S, MAX>(simd, extremes[0], extremes[1]),
        extreme::<S, MAX>(simd, extremes[2], extremes[3]),
    );
    let mut lanes = [start; 16];
    // SAFETY: a vector has 16 lanes at most.
    unsafe { simd.store(lanes.as_mut_ptr(), extreme::<S, MAX>(simd, a, b)) }
    let mut half = 8;
    while half > 0 {
        let mut k = 0;
        while k < half {
            let (a, b) = (lanes[k], lanes[k + half]);
            lanes[k] = if (a > b) == MAX { a } else { b };
            k += 1;
        }
        half /= 2;
    }
    lanes[0]
}

/// Returns the flags, which become negative in lanes where `x` is NaN.
#[inline(always)]
fn flag_nan<S: Vector>(simd: S, flags: S::I, x: S::F) -> S::I {
    let magnitude = simd.and(simd.bits(x), simd.splat_i(i32::MAX));
    simd.or(flags, simd.sub_i(simd.splat_i(0x7f80_0000), magnitude))
}
