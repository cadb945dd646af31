//! The drivers of reductions: of a slice to one value, and of the rows or the columns of a matrix.

use crate::isa::{Isa, Simd, SimdOp, Vector, dispatch, isa};

/// A reduction step.
///
/// Values are accumulated in several independent accumulators, which are combined at the end. Their number depends on
/// the instruction set, so sums of floats may differ in their last bits between sets.
pub trait Fold: Copy {
    /// The result of an empty reduction, which is neutral in [`Fold::combine`].
    const IDENTITY: f32;

    /// Accumulates `x`. Must be `#[inline(always)]`, like everything that it calls.
    fn step<S: Simd>(self, s: S, so_far: S::F, x: S::F) -> S::F;

    /// Combines two accumulators. Must be `#[inline(always)]`, like everything that it calls.
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

/// Independent accumulators, which hide the latency of a step.
const ACCUMULATORS: usize = 4;

/// Reduces all values to one.
#[inline]
pub fn fold<F: Fold>(f: F, x: &[f32]) -> f32 {
    let mut y = [F::IDENTITY];
    dispatch(isa(), Rows { f, x, cols: x.len(), y: &mut y });
    y[0]
}

/// Reduces every row of `x: [y.len(), cols]` to an element of `y`.
///
/// If `x` has too few rows, the other elements of `y` stay unchanged.
#[inline]
pub fn fold_rows<F: Fold>(f: F, x: &[f32], cols: usize, y: &mut [f32]) {
    fold_rows_on(isa(), f, x, cols, y);
}

/// Accumulates every column of `x: [rows, y.len()]` into an element of `y`, which starts as [`Fold::IDENTITY`] or the
/// result of previous rows.
///
/// Elements after the last whole row are accumulated into the columns that they reach.
#[inline]
pub fn fold_columns<F: Fold>(f: F, x: &[f32], y: &mut [f32]) {
    fold_columns_on(isa(), f, x, y);
}

#[inline]
pub(super) fn fold_rows_on<F: Fold>(isa: Isa, f: F, x: &[f32], cols: usize, y: &mut [f32]) {
    debug_assert_eq!(Some(x.len()), cols.checked_mul(y.len()), "as many rows as results");
    dispatch(isa, Rows { f, x, cols, y });
}

#[inline]
pub(super) fn fold_columns_on<F: Fold>(isa: Isa, f: F, x: &[f32], y: &mut [f32]) {
    debug_assert!(y.is_empty() || x.len().is_multiple_of(y.len()), "whole rows");
    dispatch(isa, Columns { f, x, y });
}

/// The loop of [`fold_rows`].
struct Rows<'a, F> {
    f: F,
    x: &'a [f32],
    cols: usize,
    y: &'a mut [f32],
}

impl<F: Fold> SimdOp for Rows<'_, F> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { f, mut x, cols, y } = self;
        for y in y {
            let Some((row, rest)) = x.split_at_checked(cols) else { return };
            x = rest;
            *y = fold_row(simd, f, row);
        }
    }
}

#[inline(always)]
fn fold_row<S: Vector, F: Fold>(simd: S, f: F, row: &[f32]) -> f32 {
    let start = simd.splat(F::IDENTITY);
    let mut accumulators = [start; ACCUMULATORS];
    let mut chunks = row.chunks_exact(ACCUMULATORS * S::LANES);
    for chunk in chunks.by_ref() {
        let mut k = 0;
        while k < ACCUMULATORS {
            // SAFETY: a chunk has `ACCUMULATORS * S::LANES` numbers, and `k` is below `ACCUMULATORS`.
            let x = unsafe { simd.load(chunk.as_ptr().add(k * S::LANES)) };
            accumulators[k] = f.step(simd, accumulators[k], x);
            k += 1;
        }
    }
    for chunk in chunks.remainder().chunks(S::LANES) {
        // SAFETY: the chunk has `chunk.len()` numbers, a vector at most.
        let x = unsafe { simd.load_tail(chunk.as_ptr(), chunk.len(), start) };
        let next = f.step(simd, accumulators[0], x);
        accumulators[0] = simd.select(first_lanes(simd, chunk.len()), next, accumulators[0]);
    }
    let [a, b, c, d] = accumulators;
    let mut lanes = simd.to_array(f.combine(simd, f.combine(simd, a, b), f.combine(simd, c, d)));
    // Combines the upper half of the lanes with the lower half until one lane is left.
    let mut half = S::LANES / 2;
    while half > 0 {
        let mut upper = [F::IDENTITY; 16];
        for (upper, lane) in upper.iter_mut().zip(lanes.iter().skip(half).take(half)) {
            *upper = *lane;
        }
        lanes = simd.to_array(f.combine(simd, simd.of_array(lanes), simd.of_array(upper)));
        half /= 2;
    }
    lanes[0]
}

/// Returns the mask of the first `len` lanes.
#[inline(always)]
fn first_lanes<S: Simd>(simd: S, len: usize) -> S::M {
    const LANES: [f32; 16] = {
        let mut lanes = [0.0; 16];
        let mut i = 0;
        while i < 16 {
            lanes[i] = i as f32;
            i += 1;
        }
        lanes
    };
    simd.lt(simd.of_array(LANES), simd.splat(len as f32))
}

/// The loop of [`fold_columns`].
struct Columns<'a, F> {
    f: F,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl<F: Fold> SimdOp for Columns<'_, F> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { f, x, y } = self;
        for row in x.chunks(y.len().max(1)) {
            for (x, y) in row.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
                let (len, zero) = (x.len().min(y.len()), simd.splat(0.0));
                // SAFETY: both chunks have `len` numbers, a vector at most.
                let x = unsafe { simd.load_tail(x.as_ptr(), len, zero) };
                // SAFETY: at most a vector of `y` is left: `len` readable values.
                let so_far = unsafe { simd.load_tail(y.as_ptr(), len, zero) };
                // SAFETY: `y` has `len` numbers to write.
                unsafe { simd.store_tail(y.as_mut_ptr(), len, f.step(simd, so_far, x)) }
            }
        }
    }
}
