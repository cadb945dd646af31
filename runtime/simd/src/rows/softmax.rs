//! Softmax over the last axis: `exp(x - max) / sum of exp(x - max)`.
//!
//! A short row stays in registers. A longer one is read three times: for its maximum, for the exponentials, which go to
//! the output, and for their division by the sum. A row larger than the core's own caches is read twice, with the sum
//! rescaled whenever a larger maximum appears (Milakov and Gimelshein, 2018).

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Rows of up to this many elements fit the first-level cache four at a time, with their outputs.
const MEDIUM: usize = 1280;

/// Rows of this many elements and their outputs exceed the second-level cache.
const LONG: usize = 128 << 10;

/// Elements per chunk of a long row, which is read twice from the first-level cache.
const CHUNK: usize = 4096;

/// Computes the softmax of every row of `x: [rows, cols]` in `y`, of the same shape. The relative error is 1e-6 plus
/// half an ulp of `x - max`.
///
/// A row with NaN or plus infinity, or of only minus infinities, becomes NaN.
pub fn softmax(x: &[f32], cols: usize, y: &mut [f32]) {
    softmax_on(isa(), x, cols, y);
}

pub(super) fn softmax_on(isa: Isa, x: &[f32], cols: usize, y: &mut [f32]) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    if let Some(rows) = x.len().min(y.len()).checked_div(cols) {
        let len = rows * cols;
        let (x, y) = (&x[..len], &mut y[..len]);
        dispatch(isa, Softmax { x, cols, y });
    }
}

struct Softmax<'a> {
    x: &'a [f32],
    cols: usize,
    y: &'a mut [f32],
}

impl SimdOp for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { x, cols, y } = self;
        match cols.div_ceil(S::LANES) {
            1 => short::<S, 1>(simd, x, cols, y),
            2 => short::<S, 2>(simd, x, cols, y),
            3 => short::<S, 3>(simd, x, cols, y),
            4 => short::<S, 4>(simd, x, cols, y),
            _ if cols <= MEDIUM => medium(simd, x, cols, y),
            _ => {
                for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
                    if cols <= LONG { group(simd, [x], &mut [y]) } else { long(simd, x, y) }
                }
            }
        }
    }
}

/// Processes rows of `N` vectors, of which the last may be partial, four rows at a time.
#[inline(always)]
fn short<S: Vector, const N: usize>(simd: S, x: &[f32], cols: usize, y: &mut [f32]) {
    let rows = x.len().min(y.len()) / cols;
    let Some(last) = cols.checked_sub((N - 1) * S::LANES) else { return };
    let mut row = 0;
    while row < rows {
        let count = (rows - row).min(4);
        // SAFETY: `count` rows from `row` on are within both slices, and a row has `last` elements
        // after `N - 1` vectors.
        unsafe {
            let (from, to) = (x.as_ptr().add(row * cols), y.as_mut_ptr().add(row * cols));
            if count == 4 && last == S::LANES {
                four::<S, N>(simd, from, to, cols, S::LANES, 4);
            } else {
                four::<S, N>(simd, from, to, cols, last, count);
            }
        }
        row += 4;
    }
}

/// Processes four rows in registers, or `count` of them.
///
/// # Safety
/// `count` rows of `cols` elements are readable and writable; `cols` is `N - 1` vectors and `last`
/// elements, a vector at most.
#[inline(always)]
unsafe fn four<S: Vector, const N: usize>(
    simd: S,
    from: *const f32,
    to: *mut f32,
    cols: usize,
    last: usize,
    count: usize,
) {
    // SAFETY: the caller guarantees that `from` is readable.
    let mut values = unsafe { load_four::<S, N>(simd, from, cols, last, count) };
    let (_, sums) = exponentials_of_four(simd, &mut values, [f32::MIN; 4]);
    let mut inverses = simd.sum4(sums);
    let mut r = 0;
    while r < 4 {
        inverses[r] = 1.0 / inverses[r];
        r += 1;
    }
    // SAFETY: the caller guarantees that `to` is writable.
    unsafe { store_four::<S, N>(simd, to, cols, last, count, values, inverses) }
}

/// Loads four rows; those from `count` on are zeros, and missing lanes of the last vector minus infinity.
///
/// # Safety
/// `count` rows of `cols` elements are readable; `cols` is `N - 1` vectors and `last` elements, a vector at most.
#[inline(always)]
unsafe fn load_four<S: Vector, const N: usize>(
    simd: S,
    from: *const f32,
    cols: usize,
    last: usize,
    count: usize,
) -> [[S::F; N]; 4] {
    let nothing = simd.splat(f32::NEG_INFINITY);
    let mut values = [[simd.splat(0.0); N]; 4];
    let mut r = 0;
    while r < 4 {
        let mut k = 0;
        while k < N && r < count {
            let at = from.wrapping_add(r * cols + k * S::LANES);
            values[r][k] = if k + 1 < N || last == S::LANES {
                // SAFETY: a whole vector within a row.
                unsafe { simd.load(at) }
            } else {
                // SAFETY: the rest of a row, which has fewer elements than a vector.
                unsafe { simd.load_tail(at, last, nothing) }
            };
            k += 1;
        }
        r += 1;
    }
    values
}

/// Replaces four rows by exponentials relative to the maximum of their elements and `least`; returns that maximum and
/// their sums.
#[inline(always)]
fn exponentials_of_four<S: Vector, const N: usize>(
    simd: S,
    values: &mut [[S::F; N]; 4],
    least: [f32; 4],
) -> ([f32; 4], [S::F; 4]) {
    let zero = simd.splat(0.0);
    let (mut best, mut sums) = ([zero; 4], [zero; 4]);
    let mut r = 0;
    while r < 4 {
        best[r] = simd.splat(least[r]);
        let mut k = 0;
        while k < N {
            best[r] = simd.max(values[r][k], best[r]);
            k += 1;
        }
        r += 1;
    }
    let max = simd.max4(best);
    r = 0;
    while r < 4 {
        let max = simd.splat(max[r]);
        let mut k = 0;
        while k < N {
            values[r][k] = simd.exp(simd.sub(values[r][k], max));
            sums[r] = simd.add(sums[r], values[r][k]);
            k += 1;
        }
        r += 1;
    }
    (max, sums)
}

/// Stores `count` rows, each multiplied by its factor.
///
/// # Safety
/// `count` rows of `cols` elements are writable; `cols` is `N - 1` vectors and `last` elements, a vector at most.
#[inline(always)]
unsafe fn store_four<S: Vector, const N: usize>(
    simd: S,
    to: *mut f32,
    cols: usize,
    last: usize,
    count: usize,
    values: [[S::F; N]; 4],
    by: [f32; 4],
) {
    let mut r = 0;
    while r < count.min(4) {
        let by = simd.splat(by[r]);
        let mut k = 0;
        while k < N {
            let at = to.wrapping_add(r * cols + k * S::LANES);
            let value = simd.mul(values[r][k], by);
            if k + 1 < N || last == S::LANES {
                // SAFETY: `to` has as many rows: a whole vector of one.
                unsafe { simd.store(at, value) }
            } else {
                // SAFETY: the rest of a row of `to`, which has fewer elements than a vector.
                unsafe { simd.store_tail(at, last, value) }
            }
            k += 1;
        }
        r += 1;
    }
}

/// Processes four rows at a time, so that the horizontal sums of one row overlap with the next.
#[inline(always)]
fn medium<S: Vector>(simd: S, x: &[f32], cols: usize, y: &mut [f32]) {
    let (mut fours, mut to) = (x.chunks_exact(4 * cols), y.chunks_exact_mut(4 * cols));
    for (x, y) in fours.by_ref().zip(to.by_ref()) {
        let (a, b) = x.split_at(2 * cols);
        let (to_a, to_b) = y.split_at_mut(2 * cols);
        let ((a, b), (c, d)) = (a.split_at(cols), b.split_at(cols));
        let (to_a, to_b) = (to_a.split_at_mut(cols), to_b.split_at_mut(cols));
        group(simd, [a, b, c, d], &mut [to_a.0, to_a.1, to_b.0, to_b.1]);
    }
    let rest = fours.remainder().chunks_exact(cols);
    for (x, y) in rest.zip(to.into_remainder().chunks_exact_mut(cols)) {
        group(simd, [x], &mut [y]);
    }
}

/// Processes rows of equal length.
#[inline(always)]
fn group<S: Vector, const R: usize>(simd: S, x: [&[f32]; R], y: &mut [&mut [f32]; R]) {
    let zero = simd.splat(0.0);
    let (mut max, mut sums, mut inverses) = ([0.0; R], [zero; R], [0.0; R]);
    let mut r = 0;
    while r < R {
        max[r] = greatest(simd, x[r]);
        r += 1;
    }
    r = 0;
    while r < R {
        let one = simd.splat(1.0);
        sums[r] = exponentials::<S, true>(simd, x[r], simd.splat(max[r]), one, y[r]);
        r += 1;
    }
    r = 0;
    while r < R {
        inverses[r] = 1.0 / simd.sum(sums[r]);
        r += 1;
    }
    r = 0;
    while r < R {
        multiply(simd, y[r], simd.splat(inverses[r]));
        r += 1;
    }
}

/// Multiplies a row by a scalar.
#[inline(always)]
fn multiply<S: Vector>(simd: S, y: &mut [f32], by: S::F) {
    let (to, len) = (y.as_mut_ptr(), y.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            let at = unsafe { to.add(i + k * S::LANES) };
            // SAFETY: four vectors from `i` on are within the `len` elements of `y`.
            let value = unsafe { simd.load(at) };
            // SAFETY: `at` is one of the four vectors of `y`, a mutable slice, from `i` on.
            unsafe { simd.store(at, simd.mul(value, by)) }
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements are left.
        let value = unsafe { simd.load_tail(to.add(i), count, by) };
        // SAFETY: `count` elements of `y` are left from `i` on.
        unsafe { simd.store_tail(to.add(i), count, simd.mul(value, by)) }
        i += S::LANES;
    }
}

#[inline(always)]
fn long<S: Vector>(simd: S, x: &[f32], y: &mut [f32]) {
    let one = simd.splat(1.0);
    let (mut max, mut sum) = (f32::MIN, simd.splat(0.0));
    for chunk in x.chunks(CHUNK) {
        let best = greatest(simd, chunk);
        if best > max {
            sum = simd.mul(sum, simd.exp(simd.splat(max - best)));
            max = best;
        }
        sum = simd.add(sum, exponentials::<S, false>(simd, chunk, simd.splat(max), one, &mut []));
    }
    let inverse = simd.splat(1.0 / simd.sum(sum));
    let _ = exponentials::<S, true>(simd, x, simd.splat(max), inverse, y);
}

/// Returns the maximum, ignoring NaN; at least the smallest finite value, below which everything gives zeros.
#[inline(always)]
fn greatest<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let least = simd.splat(f32::MIN);
    let mut best = [least; 4];
    let (at, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            best[k] = simd.max(unsafe { simd.load(at.add(i + k * S::LANES)) }, best[k]);
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        best[0] = simd.max(unsafe { simd.load_tail(at.add(i), count, least) }, best[0]);
        i += S::LANES;
    }
    simd.max_lane(simd.max(simd.max(best[0], best[1]), simd.max(best[2], best[3])))
}

/// Returns the sums of `exp(x - max)`; with `STORE`, writes `factor` times the exponentials to `y`, which has the
/// length of `x`.
#[inline(always)]
fn exponentials<S: Vector, const STORE: bool>(
    simd: S,
    x: &[f32],
    max: S::F,
    factor: S::F,
    y: &mut [f32],
) -> S::F {
    let len = if STORE { x.len().min(y.len()) } else { x.len() };
    // SAFETY: both have `len` elements, `y` where it is stored to.
    unsafe { exponentials_to::<S, STORE>(simd, [max, factor], x.as_ptr(), y.as_mut_ptr(), len) }
}

/// Does the same for `len` elements from `from` on.
///
/// # Safety
/// `len` elements are readable at `from` and, with `STORE`, writable at `to`, which may be `from`.
#[inline(always)]
unsafe fn exponentials_to<S: Vector, const STORE: bool>(
    simd: S,
    [max, factor]: [S::F; 2],
    from: *const f32,
    to: *mut f32,
    len: usize,
) -> S::F {
    let nothing = simd.splat(f32::NEG_INFINITY);
    let (mut even, mut odd) = (simd.splat(0.0), simd.splat(0.0));
    let mut i = 0;
    while i + 2 * S::LANES <= len {
        // SAFETY: two vectors from `i` on are within the `len` elements at `from`.
        let a = unsafe { simd.load(from.add(i)) };
        // SAFETY: a vector from `i + S::LANES` on is within the `len` elements at `from`.
        let b = unsafe { simd.load(from.add(i + S::LANES)) };
        let (a, b) = (simd.exp(simd.sub(a, max)), simd.exp(simd.sub(b, max)));
        (even, odd) = (simd.add(even, a), simd.add(odd, b));
        if STORE {
            // SAFETY: two vectors from `i` on are within the `len` elements at `to`.
            unsafe { simd.store(to.add(i), simd.mul(a, factor)) }
            // SAFETY: a vector from `i + S::LANES` on is within the `len` elements at `to`.
            unsafe { simd.store(to.add(i + S::LANES), simd.mul(b, factor)) }
        }
        i += 2 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within `len`.
        let a = unsafe { simd.load_tail(from.add(i), count, nothing) };
        let a = simd.exp(simd.sub(a, max));
        even = simd.add(even, a);
        if STORE {
            // SAFETY: `count` elements from `i` on are within the `len` elements at `to`.
            unsafe { simd.store_tail(to.add(i), count, simd.mul(a, factor)) }
        }
        i += S::LANES;
    }
    simd.add(even, odd)
}

/// The state of a softmax over rows that arrive block by block.
#[derive(Debug)]
pub struct Running<'a> {
    /// The maximum of each row so far; initially [`f32::MIN`].
    pub max: &'a mut [f32],
    /// The sum of each row's exponentials so far; initially 0.
    pub sum: &'a mut [f32],
    /// The factor for exponentials of earlier blocks, since the maximum may have grown.
    pub factor: &'a mut [f32],
}

/// Processes the next block of columns of a softmax: replaces every row of `x: [rows, cols]` by `exp(x - max)`, with
/// the maximum of this block and all before. After the last block, exponentials divided by the sum are the softmax. The
/// error is that of [`softmax()`], once more for each later block in which the maximum grew.
///
/// A row with NaN or plus infinity ends with a NaN sum, one of only minus infinities with 0.
pub fn softmax_block(x: &mut [f32], cols: usize, running: Running<'_>) {
    softmax_block_on(isa(), x, cols, running);
}

pub(super) fn softmax_block_on(isa: Isa, x: &mut [f32], cols: usize, running: Running<'_>) {
    dispatch(isa, Block { x, cols, running });
}

/// Multiplies every row of `x: [rows, cols]` by its own factor.
pub fn multiply_rows(x: &mut [f32], cols: usize, by: &[f32]) {
    multiply_rows_on(isa(), x, cols, by);
}

pub(super) fn multiply_rows_on(isa: Isa, x: &mut [f32], cols: usize, by: &[f32]) {
    dispatch(isa, MultiplyRows { x, cols, by });
}

struct MultiplyRows<'a> {
    x: &'a mut [f32],
    cols: usize,
    by: &'a [f32],
}

impl SimdOp for MultiplyRows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { x, cols, by } = self;
        for (row, by) in x.chunks_exact_mut(cols.max(1)).zip(by) {
            multiply(simd, row, simd.splat(*by));
        }
    }
}

struct Block<'a> {
    x: &'a mut [f32],
    cols: usize,
    running: Running<'a>,
}

impl SimdOp for Block<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { x, cols, running } = self;
        match cols.div_ceil(S::LANES) {
            1 => return short_block::<S, 1>(simd, x, cols, running),
            2 => return short_block::<S, 2>(simd, x, cols, running),
            3 => return short_block::<S, 3>(simd, x, cols, running),
            4 => return short_block::<S, 4>(simd, x, cols, running),
            _ => {}
        }
        let Running { max, sum, factor } = running;
        let mut fours = x.chunks_exact_mut(4 * cols.max(1));
        let mut rows = 0..max.len().min(sum.len()).min(factor.len());
        for x in fours.by_ref() {
            let (a, b) = x.split_at_mut(2 * cols);
            let ((a, b), (c, d)) = (a.split_at_mut(cols), b.split_at_mut(cols));
            let Some(at) = rows.nth(3).map(|last| last - 3) else { return };
            block_rows(simd, &mut [a, b, c, d], &mut max[at..], &mut sum[at..], &mut factor[at..]);
        }
        for x in fours.into_remainder().chunks_exact_mut(cols.max(1)) {
            let Some(at) = rows.next() else { return };
            block_rows(simd, &mut [x], &mut max[at..], &mut sum[at..], &mut factor[at..]);
        }
    }
}

/// Processes the next block of rows of `N` vectors, of which the last may be partial, four rows at a time.
#[inline(always)]
fn short_block<S: Vector, const N: usize>(
    simd: S,
    x: &mut [f32],
    cols: usize,
    Running { max, sum, factor }: Running<'_>,
) {
    let rows = (x.len() / cols).min(max.len()).min(sum.len()).min(factor.len());
    let Some(last) = cols.checked_sub((N - 1) * S::LANES) else { return };
    let mut row = 0;
    while row < rows {
        let count = (rows - row).min(4);
        let mut before = [f32::MIN; 4];
        before[..count].copy_from_slice(&max[row..][..count]);
        // SAFETY: `row` is below the number of rows, so this is within `x`.
        let at = unsafe { x.as_mut_ptr().add(row * cols) };
        // SAFETY: `count` rows from `row` on are within `x`, and a row has `last` elements
        // after `N - 1` vectors.
        let mut values = unsafe { load_four::<S, N>(simd, at.cast_const(), cols, last, count) };
        let (best, sums) = exponentials_of_four(simd, &mut values, before);
        // SAFETY: the same rows as for loading; `x` is a mutable slice.
        unsafe { store_four::<S, N>(simd, at, cols, last, count, values, [1.0; 4]) }
        let mut r = 0;
        while r < 4 {
            before[r] -= best[r];
            r += 1;
        }
        // SAFETY: four elements, which no vector has fewer than.
        let before = unsafe { simd.load_tail(before.as_ptr(), 4, simd.splat(0.0)) };
        let (before, sums) = (simd.to_array(simd.exp(before)), simd.sum4(sums));
        r = 0;
        while r < count {
            sum[row + r] = sum[row + r] * before[r] + sums[r];
            (max[row + r], factor[row + r]) = (best[r], before[r]);
            r += 1;
        }
        row += 4;
    }
}

/// Processes the next block of some rows; the other rows keep the initial state.
#[inline(always)]
fn block_rows<S: Vector, const R: usize>(
    simd: S,
    x: &mut [&mut [f32]; R],
    max: &mut [f32],
    sum: &mut [f32],
    factor: &mut [f32],
) {
    let (mut best, mut sums) = ([0.0; R], [simd.splat(0.0); R]);
    let mut r = 0;
    while r < R {
        best[r] = simd.max_lane(simd.max(simd.splat(greatest(simd, x[r])), simd.splat(max[r])));
        r += 1;
    }
    r = 0;
    while r < R {
        let (at, start) = (x[r].as_mut_ptr(), [simd.splat(best[r]), simd.splat(1.0)]);
        // SAFETY: the row has as many elements, and is a mutable slice.
        sums[r] =
            unsafe { exponentials_to::<S, true>(simd, start, at.cast_const(), at, x[r].len()) };
        r += 1;
    }
    r = 0;
    while r < R {
        let before = simd.to_array(simd.exp(simd.splat(max[r] - best[r])))[0];
        sum[r] = sum[r] * before + simd.sum(sums[r]);
        (max[r], factor[r]) = (best[r], before);
        r += 1;
    }
}
