//! Sums, maxima and minima of rows.

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Vectors per `f32` accumulator before it is added to the `f64` sum.
const DEPTH: usize = 32;

/// Prefetch distance of maxima and minima in elements: they need so many instructions per element that out-of-order
/// execution alone covers few cache lines.
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
            let Some((row, rest)) = x.split_at_checked(cols) else { return };
            x = rest;
            *y = match reduction {
                Reduction::Sum => sum_of(simd, row),
                Reduction::Max => extreme_of::<S, true>(simd, row, f32::NEG_INFINITY),
                Reduction::Min => extreme_of::<S, false>(simd, row, f32::INFINITY),
            };
        }
    }
}

/// Sums a row.
#[inline(always)]
pub(super) fn sum_of<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let block = 4 * S::LANES * DEPTH;
    if row.len() <= block {
        return block_sum(simd, row);
    }
    row.chunks(block).map(|row| f64::from(block_sum(simd, row))).sum::<f64>() as f32
}

#[inline(always)]
fn block_sum<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let zero = simd.splat(0.0);
    let mut sums = [zero; 4];
    let (at, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            sums[k] = simd.add(sums[k], unsafe { simd.load(at.add(i + k * S::LANES)) });
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        sums[0] = simd.add(sums[0], unsafe { simd.load_tail(at.add(i), count, zero) });
        i += S::LANES;
    }
    simd.sum(simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3])))
}

#[inline(always)]
fn better<S: Vector, const MAX: bool>(simd: S, a: S::F, b: S::F) -> S::F {
    if MAX { simd.max(a, b) } else { simd.min(a, b) }
}

/// Returns the maximum or minimum of a row and `start`, or NaN.
#[inline(always)]
pub(super) fn extreme_of<S: Vector, const MAX: bool>(simd: S, row: &[f32], start: f32) -> f32 {
    let first = simd.splat(start);
    let (mut best, mut flaws) = ([first; 4], [simd.splat_i(0); 4]);
    let (at, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            let x = unsafe { simd.load(at.add(i + k * S::LANES)) };
            simd.prefetch(at.wrapping_add(i + k * S::LANES + AHEAD));
            best[k] = better::<S, MAX>(simd, x, best[k]);
            flaws[k] = flaw(simd, flaws[k], x);
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        let x = unsafe { simd.load_tail(at.add(i), count, first) };
        best[0] = better::<S, MAX>(simd, x, best[0]);
        flaws[0] = flaw(simd, flaws[0], x);
        i += S::LANES;
    }
    let flaws = simd.or(simd.or(flaws[0], flaws[1]), simd.or(flaws[2], flaws[3]));
    if simd.any(simd.lt_i(flaws, simd.splat_i(0))) {
        return f32::NAN;
    }
    let (a, b) =
        (better::<S, MAX>(simd, best[0], best[1]), better::<S, MAX>(simd, best[2], best[3]));
    let mut lanes = [start; 16];
    // SAFETY: a vector has 16 lanes at most.
    unsafe { simd.store(lanes.as_mut_ptr(), better::<S, MAX>(simd, a, b)) }
    let mut width = 8;
    while width > 0 {
        let mut k = 0;
        while k < width {
            let (a, b) = (lanes[k], lanes[k + width]);
            lanes[k] = if (a > b) == MAX { a } else { b };
            k += 1;
        }
        width /= 2;
    }
    lanes[0]
}

/// Returns `flaws`, made negative where `x` is NaN.
#[inline(always)]
fn flaw<S: Vector>(simd: S, flaws: S::I, x: S::F) -> S::I {
    let size = simd.and(simd.bits(x), simd.splat_i(i32::MAX));
    simd.or(flaws, simd.sub_i(simd.splat_i(0x7f80_0000), size))
}
