//! Softmax over the last axis: `exp(x - max) / sum of exp(x - max)`.
//!
//! A short row stays in registers. A longer row is processed in three passes: its maximum, the exponentials, which are
//! written to the output, and their division by the sum. A row larger than the second-level cache is read only twice:
//! the first pass computes maximum and sum together, and rescales the sum whenever a larger maximum appears (Milakov
//! and Gimelshein, "Online normalizer calculation for softmax", 2018).

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

/// The loop over rows.
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
    let minus_infinity = simd.splat(f32::NEG_INFINITY);
    let mut values = [[simd.splat(0.0); N]; 4];
    let mut r = 0;
    while r < 4 {
        let mut k = 0;
        while k < N && r < count {
            let address = from.wrapping_add(r * cols + k * S::LANES);
            values[r][k] = if k + 1 < N || last == S::LANES {
                // SAFETY: a whole vector within a row.
                unsafe { simd.load(address) }
            } else {
                // SAFETY: the rest of a row, which has fewer elements than a vector.
                unsafe { simd.load_tail(address, last, minus_infinity) }
            };
            k += 1;
        }
        r += 1;
    }
    values
}

/// Replaces the elements of four rows by `exp(x - max)`, where `max` is the maximum of a row and its lower bound.
/// Returns the maxima, and vectors with the sums of the exponentials.
#[inline(always)]
fn exponentials_of_four<S: Vector, const N: usize>(
    simd: S,
    values: &mut [[S::F; N]; 4],
    lower_bounds: [f32; 4],
) -> ([f32; 4], [S::F; 4]) {
    let zero = simd.splat(0.0);
    let (mut maxima, mut sums) = ([zero; 4], [zero; 4]);
    let mut r = 0;
    while r < 4 {
        maxima[r] = simd.splat(lower_bounds[r]);
        let mut k = 0;
        while k < N {
            maxima[r] = simd.max(values[r][k], maxima[r]);
            k += 1;
        }
        r += 1;
    }
    let max = simd.max4(maxima);
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
    factors: [f32; 4],
) {
    let mut r = 0;
    while r < count.min(4) {
        let factor = simd.splat(factors[r]);
        let mut k = 0;
        while k < N {
            let address = to.wrapping_add(r * cols + k * S::LANES);
            let value = simd.mul(values[r][k], factor);
            if k + 1 < N || last == S::LANES {
                // SAFETY: `to` has as many rows: a whole vector of one.
                unsafe { simd.store(address, value) }
            } else {
                // SAFETY: the rest of a row of `to`, which has fewer elements than a vector.
                unsafe { simd.store_tail(address, last, value) }
            }
            k += 1;
        }
        r += 1;
    }
}

/// Processes four rows at a time, so that the sum over the lanes of one row overlaps with arithmetic of the next.
#[inline(always)]
fn medium<S: Vector>(simd: S, x: &[f32], cols: usize, y: &mut [f32]) {
    let (mut chunks, mut outputs) = (x.chunks_exact(4 * cols), y.chunks_exact_mut(4 * cols));
    for (x, y) in chunks.by_ref().zip(outputs.by_ref()) {
        let (a, b) = x.split_at(2 * cols);
        let (to_a, to_b) = y.split_at_mut(2 * cols);
        let ((a, b), (c, d)) = (a.split_at(cols), b.split_at(cols));
        let (to_a, to_b) = (to_a.split_at_mut(cols), to_b.split_at_mut(cols));
        group(simd, [a, b, c, d], &mut [to_a.0, to_a.1, to_b.0, to_b.1]);
    }
    let remaining = chunks.remainder().chunks_exact(cols);
    for (x, y) in remaining.zip(outputs.into_remainder().chunks_exact_mut(cols)) {
        group(simd, [x], &mut [y]);
    }
}

/// Processes `R` rows of equal length, pass by pass.
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
fn multiply<S: Vector>(simd: S, y: &mut [f32], factor: S::F) {
    let (to, len) = (y.as_mut_ptr(), y.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            let address = unsafe { to.add(i + k * S::LANES) };
            // SAFETY: four vectors from `i` on are within the `len` elements of `y`.
            let value = unsafe { simd.load(address) };
            // SAFETY: `address` is one of the four vectors of `y`, a mutable slice, from `i` on.
            unsafe { simd.store(address, simd.mul(value, factor)) }
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements are left.
        let value = unsafe { simd.load_tail(to.add(i), count, factor) };
        // SAFETY: `count` elements of `y` are left from `i` on.
        unsafe { simd.store_tail(to.add(i), count, simd.mul(value, factor)) }
        i += S::LANES;
    }
}

/// Processes a row that exceeds the second-level cache.
#[inline(always)]
fn long<S: Vector>(simd: S, x: &[f32], y: &mut [f32]) {
    let one = simd.splat(1.0);
    let (mut max, mut sum) = (f32::MIN, simd.splat(0.0));
    for chunk in x.chunks(CHUNK) {
        let chunk_max = greatest(simd, chunk);
        if chunk_max > max {
            sum = simd.mul(sum, simd.exp(simd.splat(max - chunk_max)));
            max = chunk_max;
        }
        sum = simd.add(sum, exponentials::<S, false>(simd, chunk, simd.splat(max), one, &mut []));
    }
    let inverse = simd.splat(1.0 / simd.sum(sum));
    let _ = exponentials::<S, true>(simd, x, simd.splat(max), inverse, y);
}

/// Returns the maximum of a row, ignoring NaN, or `f32::MIN` if that is larger: with a maximum of minus infinity, `x -
/// max` would be NaN.
#[inline(always)]
fn greatest<S: Vector>(simd: S, row: &[f32]) -> f32 {
    let lowest = simd.splat(f32::MIN);
    let mut maxima = [lowest; 4];
    let (address, len) = (row.as_ptr(), row.len());
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        let mut k = 0;
        while k < 4 {
            // SAFETY: four vectors from `i` on are within the row.
            maxima[k] = simd.max(unsafe { simd.load(address.add(i + k * S::LANES)) }, maxima[k]);
            k += 1;
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on are within the row.
        maxima[0] = simd.max(unsafe { simd.load_tail(address.add(i), count, lowest) }, maxima[0]);
        i += S::LANES;
    }
    simd.max_lane(simd.max(simd.max(maxima[0], maxima[1]), simd.max(maxima[2], maxima[3])))
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

/// Like [`exponentials`], for `len` elements at `from`.
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
    let minus_infinity = simd.splat(f32::NEG_INFINITY);
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
        let a = unsafe { simd.load_tail(from.add(i), count, minus_infinity) };
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
/// the maximum of this block and all previous ones. The caller multiplies the exponentials of earlier blocks by the
/// factors of each later block. After the last block, the exponentials divided by the sum are the softmax. The error is
/// that of [`softmax()`], once more for each later block in which the maximum grew.
///
/// A row with NaN or plus infinity ends with a NaN sum, one of only minus infinities with 0.
pub fn softmax_block(x: &mut [f32], cols: usize, running: Running<'_>) {
    softmax_block_on(isa(), x, cols, running);
}

pub(super) fn softmax_block_on(isa: Isa, x: &mut [f32], cols: usize, running: Running<'_>) {
    dispatch(isa, Block { x, cols, running });
}

/// Multiplies every row of `x: [rows, cols]` by its own factor.
pub fn multiply_rows(x: &mut [f32], cols: usize, factors: &[f32]) {
    multiply_rows_on(isa(), x, cols, factors);
}

pub(super) fn multiply_rows_on(isa: Isa, x: &mut [f32], cols: usize, factors: &[f32]) {
    dispatch(isa, MultiplyRows { x, cols, factors });
}

/// The loop of [`multiply_rows`].
struct MultiplyRows<'a> {
    x: &'a mut [f32],
    cols: usize,
    factors: &'a [f32],
}

impl SimdOp for MultiplyRows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { x, cols, factors } = self;
        for (row, factor) in x.chunks_exact_mut(cols.max(1)).zip(factors) {
            multiply(simd, row, simd.splat(*factor));
        }
    }
}

/// The loop of [`softmax_block`].
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
        let mut chunks = x.chunks_exact_mut(4 * cols.max(1));
        let mut rows = 0..max.len().min(sum.len()).min(factor.len());
        for x in chunks.by_ref() {
            let (a, b) = x.split_at_mut(2 * cols);
            let ((a, b), (c, d)) = (a.split_at_mut(cols), b.split_at_mut(cols));
            let Some(row) = rows.nth(3).map(|last| last - 3) else { return };
            block_rows(
                simd,
                &mut [a, b, c, d],
                &mut max[row..],
                &mut sum[row..],
                &mut factor[row..],
            );
        }
        for x in chunks.into_remainder().chunks_exact_mut(cols.max(1)) {
            let Some(row) = rows.next() else { return };
            block_rows(simd, &mut [x], &mut max[row..], &mut sum[row..], &mut factor[row..]);
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
        let mut previous_maxima = [f32::MIN; 4];
        previous_maxima[..count].copy_from_slice(&max[row..][..count]);
        // SAFETY: `row` is below the number of rows, so this is within `x`.
        let address = unsafe { x.as_mut_ptr().add(row * cols) };
        // SAFETY: `count` rows from `row` on are within `x`, and a row has `last` elements
        // after `N - 1` vectors.
        let mut values =
            unsafe { load_four::<S, N>(simd, address.cast_const(), cols, last, count) };
        let (maxima, sums) = exponentials_of_four(simd, &mut values, previous_maxima);
        // SAFETY: the same rows as for loading; `x` is a mutable slice.
        unsafe { store_four::<S, N>(simd, address, cols, last, count, values, [1.0; 4]) }
        // The factor for the exponentials of earlier blocks is `exp(previous maximum - maximum)`.
        let mut exponents = previous_maxima;
        let mut r = 0;
        while r < 4 {
            exponents[r] -= maxima[r];
            r += 1;
        }
        // SAFETY: four elements, which no vector has fewer than.
        let exponents = unsafe { simd.load_tail(exponents.as_ptr(), 4, simd.splat(0.0)) };
        let (factors, sums) = (simd.to_array(simd.exp(exponents)), simd.sum4(sums));
        r = 0;
        while r < count {
            sum[row + r] = sum[row + r] * factors[r] + sums[r];
            (max[row + r], factor[row + r]) = (maxima[r], factors[r]);
            r += 1;
        }
        row += 4;
    }
}

/// Processes the next block of `R` rows.
#[inline(always)]
fn block_rows<S: Vector, const R: usize>(
    simd: S,
    x: &mut [&mut [f32]; R],
    max: &mut [f32],
    sum: &mut [f32],
    factor: &mut [f32],
) {
    let (mut maxima, mut sums) = ([0.0; R], [simd.splat(0.0); R]);
    let mut r = 0;
    while r < R {
        maxima[r] = simd.max_lane(simd.max(simd.splat(greatest(simd, x[r])), simd.splat(max[r])));
        r += 1;
    }
    r = 0;
    while r < R {
        let (address, parameters) = (x[r].as_mut_ptr(), [simd.splat(maxima[r]), simd.splat(1.0)]);
        // SAFETY: the row has as many elements, and is a mutable slice.
        sums[r] = unsafe {
            exponentials_to::<S, true>(simd, parameters, address.cast_const(), address, x[r].len())
        };
        r += 1;
    }
    r = 0;
    while r < R {
        let rescale = simd.to_array(simd.exp(simd.splat(max[r] - maxima[r])))[0];
        sum[r] = sum[r] * rescale + simd.sum(sums[r]);
        (max[r], factor[r]) = (maxima[r], rescale);
        r += 1;
    }
}
