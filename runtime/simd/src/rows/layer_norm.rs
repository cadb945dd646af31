//! Layer normalization over the last axis, in three stages per row: the mean, the variance from the deviations, and the
//! result.
//!
//! A stage ends with a sum over the lanes of a vector, which takes longer than a short row, and some stages are limited
//! by memory, others by arithmetic. Therefore the stages of consecutive groups of rows run interleaved: each step runs
//! the first stage of one group, the second stage of the previous group and the third stage of the group before that.
//! The result of a row does not depend on other rows.

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Computes `(x - mean) / sqrt(variance + epsilon) * scale + bias` for every row of `x: [rows, scale.len()]`.
///
/// `bias` has the length of `scale`, or is empty. The variance is the mean of the squared deviations, corrected for the
/// rounding of the mean (Chan, Golub and `LeVeque`, "Algorithms for Computing the Sample Variance", 1983).
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
        if len != 0 {
            let (x, y) = (&x[..len], &mut y[..len]);
            dispatch(isa, LayerNorm { x, scale, bias, epsilon, y });
        }
    }
}

/// The loop over rows. `scale` is not empty, and `bias` is empty or of its length. `x` and `y` have the same number of
/// whole rows, at least one.
struct LayerNorm<'a> {
    x: &'a [f32],
    scale: &'a [f32],
    bias: &'a [f32],
    epsilon: f32,
    y: &'a mut [f32],
}

impl SimdOp for LayerNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let cols = self.scale.len();
        macro_rules! short {
            ($n:literal) => {
                if cols == $n * S::LANES {
                    self.short::<S, $n>(simd, S::LANES)
                } else {
                    self.short::<S, $n>(simd, cols - ($n - 1) * S::LANES)
                }
            };
        }
        // A portable vector takes several machine registers.
        let (fits_registers, has_16_lanes) = (S::FUSED, S::LANES == 16);
        let has_8_lanes = fits_registers && !has_16_lanes;
        match cols.div_ceil(S::LANES) {
            1 if fits_registers => short!(1),
            2 if fits_registers => short!(2),
            3 if fits_registers => short!(3),
            4 if fits_registers => short!(4),
            5 if has_8_lanes => short!(5),
            6 if has_8_lanes => short!(6),
            7 if has_8_lanes => short!(7),
            8 if has_8_lanes => short!(8),
            ..=64 => self.groups::<S, 2, 1>(simd),
            _ if has_16_lanes => self.groups::<S, 1, 4>(simd),
            // As many accumulators as fit the registers.
            _ => self.groups::<S, 1, 2>(simd),
        }
    }
}

impl LayerNorm<'_> {
    /// Processes rows of `N` vectors, of which the last has `last` elements, four rows at a time. Deviations stay in
    /// registers.
    #[inline(always)]
    fn short<S: Vector, const N: usize>(self, simd: S, last: usize) {
        let Self { x, scale, bias, epsilon, y } = self;
        let cols = scale.len();
        let rows = x.len() / cols;
        let zero = simd.splat(0.0);
        let (mut scales, mut biases) = ([zero; N], [zero; N]);
        let count = |n: usize| if n + 1 < N { S::LANES } else { last };
        let mut n = 0;
        while n < N {
            let i = n * S::LANES;
            // SAFETY: `count(n)` elements from `i` on are within `scale`.
            scales[n] = unsafe { load_tail(simd, scale.as_ptr().add(i), count(n), zero) };
            if !bias.is_empty() {
                // SAFETY: `bias` is as long as `scale`.
                biases[n] = unsafe { load_tail(simd, bias.as_ptr().add(i), count(n), zero) };
            }
            n += 1;
        }
        // Fewer than four rows are processed one by one, as four copies of the same row.
        let (chunk_rows, pitch) = if rows < 4 { (1, 0) } else { (rows, cols) };
        for (x, y) in x.chunks(chunk_rows * cols).zip(y.chunks_mut(chunk_rows * cols)) {
            let (from, to) = (x.as_ptr(), y.as_mut_ptr());
            // The last group overlaps the previous one. The first two steps and the last two repeat a group in some
            // stages, and rewrite the same output.
            let start = |group: usize| (group * 4).min(chunk_rows.saturating_sub(4)) * cols;
            let mut deviations = [[zero; N]; 4];
            let (mut means, mut stats) =
                ([zero; 4], Stats { factors: [zero; 4], shifts: [zero; 4] });
            let mut step = 0;
            while step < chunk_rows.div_ceil(4) + 2 {
                let mut acc = [[zero; 4]; 3];
                let mut r = 0;
                while r < 4 {
                    let offset = start(step.saturating_sub(2)) + r * pitch;
                    let mut n = 0;
                    while n < N {
                        let y = simd.fma(deviations[r][n], stats.factors[r], stats.shifts[r]);
                        let y = simd.fma(y, scales[n], biases[n]);
                        // SAFETY: `count(n)` elements of a row of `y`.
                        unsafe { store(simd, to.add(offset + n * S::LANES), count(n), y) }
                        n += 1;
                    }
                    let offset = start(step.saturating_sub(1)) + r * pitch;
                    n = 0;
                    while n < N {
                        let from = from.wrapping_add(offset + n * S::LANES);
                        // SAFETY: `count(n)` elements of a row of `x`.
                        let d = simd
                            .sub(unsafe { load_tail(simd, from, count(n), means[r]) }, means[r]);
                        acc[1][r] = if n == 0 { d } else { simd.add(acc[1][r], d) };
                        acc[2][r] = simd.fma(d, d, acc[2][r]);
                        deviations[r][n] = d;
                        n += 1;
                    }
                    r += 1;
                }
                r = 0;
                while r < 4 {
                    let offset = start(step) + r * pitch;
                    let mut n = 0;
                    while n < N {
                        let from = from.wrapping_add(offset + n * S::LANES);
                        // SAFETY: `count(n)` elements of a row of `x`.
                        let x = unsafe { load_tail(simd, from, count(n), zero) };
                        acc[0][r] = if n == 0 { x } else { simd.add(acc[0][r], x) };
                        n += 1;
                    }
                    r += 1;
                }
                let [sums, deviations, squares] = acc;
                stats =
                    Stats::new(simd, simd.sums4(deviations), simd.sums4(squares), cols, epsilon);
                means = means_of(simd, simd.sums4(sums), cols);
                step += 1;
            }
        }
    }

    /// Processes groups of `R` rows, one or two, with `U` accumulators per row.
    #[inline(always)]
    fn groups<S: Vector, const R: usize, const U: usize>(self, simd: S) {
        let Self { x, scale, bias, epsilon, y } = self;
        let cols = scale.len();
        let rows = x.len() / cols;
        let groups = rows.div_ceil(R);
        let zeros = [[simd.splat(0.0); U]; R];
        let mut sums = Sums { values: zeros, deviations: zeros, squares: zeros };
        let mut means = [simd.splat(0.0); 4];
        let mut step = 0;
        while step < groups + 2 {
            let (deviations, squares) = (total(simd, sums.deviations), total(simd, sums.squares));
            let stats = Stats::new(simd, deviations, squares, cols, epsilon);
            let previous_means = means;
            means = means_of(simd, total(simd, sums.values), cols);
            // In an incomplete last group, its last row is repeated.
            let row_offsets = |group: usize| {
                let mut row_offsets = [0; R];
                let mut r = 0;
                while r < R {
                    row_offsets[r] = (group * R + r).min(rows.saturating_sub(1)) * cols;
                    r += 1;
                }
                row_offsets
            };
            let stages = Stages {
                x: x.as_ptr(),
                y: y.as_mut_ptr(),
                scale,
                bias,
                row_offsets: [
                    row_offsets(step),
                    row_offsets(step.saturating_sub(1)),
                    row_offsets(step.saturating_sub(2)),
                ],
                means: [means, previous_means],
                stats,
            };
            let (has_first, has_second) = (step < groups, step != 0 && step <= groups);
            sums = match (has_first, has_second, step >= 2) {
                (true, true, true) => stages.run::<U, true, true, true>(simd),
                (true, true, false) => stages.run::<U, true, true, false>(simd),
                (true, false, _) => stages.run::<U, true, false, false>(simd),
                (false, true, true) => stages.run::<U, false, true, true>(simd),
                (false, true, false) => stages.run::<U, false, true, false>(simd),
                (false, false, _) => stages.run::<U, false, false, true>(simd),
            };
            step += 1;
        }
    }
}

/// Accumulators of the first and the second stage.
struct Sums<S: Vector, const R: usize, const U: usize> {
    values: [[S::F; U]; R],
    /// Sums of deviations from the rounded means; not 0 because of the rounding.
    deviations: [[S::F; U]; R],
    squares: [[S::F; U]; R],
}

/// The parameters of the third stage, `deviation * factor + shift`, for four rows.
#[derive(Clone, Copy, Debug)]
struct Stats<S: Vector> {
    factors: [S::F; 4],
    shifts: [S::F; 4],
}

impl<S: Vector> Stats<S> {
    /// Computes the parameters from the sums of the deviations and of their squares, which are repeated in every group
    /// of four lanes.
    #[inline(always)]
    fn new(simd: S, deviation_mean: S::F, squares: S::F, cols: usize, epsilon: f32) -> Self {
        let (zero, inverse_len) = (simd.splat(0.0), simd.splat(1.0 / cols as f32));
        let deviation_mean = simd.mul(deviation_mean, inverse_len);
        let variances = simd.fnma(deviation_mean, deviation_mean, simd.mul(squares, inverse_len));
        let variances = simd.max(variances, zero);
        let factors = simd.rsqrt(simd.add(variances, simd.splat(epsilon)));
        let shifts = simd.mul(simd.sub(zero, deviation_mean), factors);
        Self { factors: simd.broadcast4(factors), shifts: simd.broadcast4(shifts) }
    }
}

/// Returns the means of four rows from their sums, which are repeated in every group of four lanes.
#[inline(always)]
fn means_of<S: Vector>(simd: S, sums: S::F, cols: usize) -> [S::F; 4] {
    simd.broadcast4(simd.mul(sums, simd.splat(1.0 / cols as f32)))
}

/// Returns the sums of `R` rows from `U` accumulators each, repeated in every group of four lanes.
#[inline(always)]
fn total<S: Vector, const R: usize, const U: usize>(simd: S, sums: [[S::F; U]; R]) -> S::F {
    let mut rows = [simd.splat(0.0); 4];
    let mut r = 0;
    while r < R {
        let sums = sums[r];
        rows[r] = match U {
            1 => sums[0],
            2 => simd.add(sums[0], sums[U - 1]),
            _ => simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[U - 1])),
        };
        r += 1;
    }
    simd.sums4(rows)
}

/// One step: a stage each for three groups of rows, first stage first.
struct Stages<'a, S: Vector, const R: usize> {
    x: *const f32,
    y: *mut f32,
    scale: &'a [f32],
    /// The length of `scale`, or empty.
    bias: &'a [f32],
    /// The first element of each row, by stage.
    row_offsets: [[usize; R]; 3],
    /// The means for the second stage, and for the third.
    means: [[S::F; 4]; 2],
    stats: Stats<S>,
}

impl<S: Vector, const R: usize> Stages<'_, S, R> {
    /// Runs the selected stages: `A` is the first, `B` the second and `C` the third.
    #[inline(always)]
    fn run<const U: usize, const A: bool, const B: bool, const C: bool>(
        self,
        simd: S,
    ) -> Sums<S, R, U> {
        if self.bias.is_empty() {
            self.run_with::<U, A, B, C, false>(simd)
        } else {
            self.run_with::<U, A, B, C, true>(simd)
        }
    }

    #[inline(always)]
    fn run_with<const U: usize, const A: bool, const B: bool, const C: bool, const BIAS: bool>(
        self,
        simd: S,
    ) -> Sums<S, R, U> {
        let zeros = [[simd.splat(0.0); U]; R];
        let mut sums = Sums { values: zeros, deviations: zeros, squares: zeros };
        let cols = self.scale.len();
        let mut i = 0;
        while i + U * S::LANES <= cols {
            let mut u = 0;
            while u < U {
                // SAFETY: `U` vectors from `i` on are within a row.
                unsafe { self.step::<U, A, B, C, BIAS>(simd, i, S::LANES, u, &mut sums) }
                i += S::LANES;
                u += 1;
            }
        }
        while i < cols {
            let count = S::LANES.min(cols - i);
            // SAFETY: `count` elements from `i` on are within a row.
            unsafe { self.step::<U, A, B, C, BIAS>(simd, i, count, 0, &mut sums) }
            i += S::LANES;
        }
        sums
    }

    /// Processes one vector of each row, or the first `count` elements of one, with accumulator `u`.
    ///
    /// # Safety
    /// `count` elements from `i` on are inside a row; the rows of the selected stages are inside `x`, and for the third
    /// inside `y`.
    #[inline(always)]
    unsafe fn step<
        const U: usize,
        const A: bool,
        const B: bool,
        const C: bool,
        const BIAS: bool,
    >(
        &self,
        simd: S,
        i: usize,
        count: usize,
        u: usize,
        sums: &mut Sums<S, R, U>,
    ) {
        let [first, second, third] = self.row_offsets;
        let zero = simd.splat(0.0);
        let (mut results, mut scale, mut bias) = ([zero; R], zero, zero);
        if C {
            // SAFETY: `scale` is as long as a row, which has `count` elements from `i` on.
            scale = unsafe { load_tail(simd, self.scale.as_ptr().add(i), count, zero) };
            if BIAS {
                // SAFETY: `bias` is as long as a row, which has `count` elements from `i` on.
                bias = unsafe { load_tail(simd, self.bias.as_ptr().add(i), count, zero) };
            }
        }
        let mut r = 0;
        while r < R {
            if C {
                // SAFETY: the rows of `third` have `count` elements from `i` on in `self.x`.
                let x = unsafe { load_tail(simd, self.x.add(third[r] + i), count, zero) };
                let deviation = simd.sub(x, self.means[1][r]);
                let y = simd.fma(deviation, self.stats.factors[r], self.stats.shifts[r]);
                results[r] = if BIAS { simd.fma(y, scale, bias) } else { simd.mul(y, scale) };
            }
            if A {
                // SAFETY: the rows of `first` have `count` elements from `i` on in `self.x`.
                let x = unsafe { load_tail(simd, self.x.add(first[r] + i), count, zero) };
                sums.values[r][u] = simd.add(sums.values[r][u], x);
            }
            if B {
                let mean = self.means[0][r];
                // SAFETY: the rows of `second` have `count` elements from `i` on in `self.x`.
                let x = unsafe { load_tail(simd, self.x.add(second[r] + i), count, mean) };
                let deviation = simd.sub(x, mean);
                sums.deviations[r][u] = simd.add(sums.deviations[r][u], deviation);
                sums.squares[r][u] = simd.fma(deviation, deviation, sums.squares[r][u]);
            }
            r += 1;
        }
        // All loads come before any store: if rows are a multiple of the page size apart, a store to one would delay
        // the load of the next.
        r = 0;
        while C && r < R {
            // SAFETY: the rows of `third` have `count` elements from `i` on in `self.y`.
            unsafe { store(simd, self.y.add(third[r] + i), count, results[r]) }
            r += 1;
        }
    }
}

/// Loads `count` elements, followed by `fill`.
///
/// # Safety
/// `count` elements are readable.
#[inline(always)]
unsafe fn load_tail<S: Vector>(simd: S, from: *const f32, count: usize, fill: S::F) -> S::F {
    if count == S::LANES {
        // SAFETY: `count` elements are readable at `from`, a whole vector.
        unsafe { simd.load(from) }
    } else {
        // SAFETY: `count` elements are readable at `from`, less than a vector.
        unsafe { simd.load_tail(from, count, fill) }
    }
}

/// Stores `count` elements.
///
/// # Safety
/// `count` elements are writable.
#[inline(always)]
unsafe fn store<S: Vector>(simd: S, to: *mut f32, count: usize, x: S::F) {
    if count == S::LANES {
        // SAFETY: `count` elements are writable at `to`, a whole vector.
        unsafe { simd.store(to, x) }
    } else {
        // SAFETY: `count` elements are writable at `to`, less than a vector.
        unsafe { simd.store_tail(to, count, x) }
    }
}
