//! `f32` depthwise convolution with 3x3 and 5x5 kernels, at strides of 1, of 2, and of 2 down and 1 across: passes
//! along output rows.
//!
//! A pass computes a few output rows of 16 channels, from the first pixel to the last. Each input column is loaded once
//! and added to every output column that it contributes to; their sums stay in registers until they are complete.
//! Borders need no special code: columns of padding are skipped, and rows of padding read zeros. The order of additions
//! does not depend on how rows are divided.

use super::float_job::{Job, STRIP};
use super::general::curve;
use super::tile;
use crate::isa::{SimdOp, Vector};

/// The pixel that rows of padding read.
static ZEROS: [f32; STRIP] = [0.0; STRIP];

/// The most output rows of a pass.
const ROWS: usize = 4;
/// The most input rows of a pass.
const INPUT_ROWS: usize = (ROWS - 1) * 2 + 5;

/// All rows of a kernel of `K` x `K`, with strides `DOWN` and `ACROSS`.
pub(super) struct RowPasses<'a, const K: usize, const DOWN: usize, const ACROSS: usize>(
    pub(super) &'a Job<'a>,
);

impl<const K: usize, const DOWN: usize, const ACROSS: usize> SimdOp
    for RowPasses<'_, K, DOWN, ACROSS>
{
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let job = self.0;
        // With the fewer registers of other instruction sets, tiles would be smaller and read too many pixels twice.
        if (K, DOWN, ACROSS, S::LANES) == (3, 1, 1, 16) && tile::suits(job) {
            tile::tiles(simd, job);
            curve(simd, job);
            return;
        }
        let most = max_rows::<S>(K, ACROSS);
        let mut row = job.rows.start;
        while row < job.rows.end {
            let remaining = job.rows.end - row;
            // Divides evenly, because passes of one row have too few sums to hide latency.
            let count = remaining.div_ceil(remaining.div_ceil(most));
            match count {
                4 if most > 3 => strips::<S, K, DOWN, ACROSS, 4>(simd, job, row),
                3 if most > 2 => strips::<S, K, DOWN, ACROSS, 3>(simd, job, row),
                2 if most > 1 => strips::<S, K, DOWN, ACROSS, 2>(simd, job, row),
                _ => strips::<S, K, DOWN, ACROSS, 1>(simd, job, row),
            }
            row += count;
        }
        curve(simd, job);
    }
}

/// Returns the most output rows of a pass whose sums and shared operands fit the registers.
const fn max_rows<S: Vector>(k: usize, stride: usize) -> usize {
    match (S::LANES, k, stride) {
        // A portable vector takes several machine registers.
        _ if !S::FUSED => 1,
        (16, ..) => ROWS,
        (_, 5, 1) => 1,
        _ => 2,
    }
}

/// Computes `R` output rows from `row` on.
#[inline(always)]
fn strips<S: Vector, const K: usize, const DOWN: usize, const ACROSS: usize, const R: usize>(
    simd: S,
    job: &Job<'_>,
    row: usize,
) {
    let [_, height, width] = job.shape.window.input;
    let top = job.shape.window.pads[1];
    let mut rows = Rows { from: [ZEROS.as_ptr(); INPUT_ROWS], step: [0; INPUT_ROWS] };
    for i in 0..(R - 1) * DOWN + K {
        // Positions above the image wrap around to a number past any height.
        let y = (row * DOWN + i).wrapping_sub(top);
        if y < height {
            rows.from[i] = job.x.wrapping_add(y * width * job.x_stride);
            rows.step[i] = job.x_stride;
        }
    }
    let last = ((row + R - 1) * DOWN).wrapping_sub(top);
    let is_inside = row * DOWN >= top && last.saturating_add(K) <= height;
    // The first row that the next pass reads and this one does not.
    let next_row = ((row + R - 1) * DOWN).wrapping_add(K);
    let mut ahead =
        job.x.wrapping_add(next_row.wrapping_sub(top).wrapping_mul(width * job.x_stride));
    let across = job.shape.window.output[2];
    let to = job.y.wrapping_add((row - job.rows.start) * across * job.y_stride);
    for strip in 0..job.channels.div_ceil(STRIP) {
        let mut lane = 0;
        while lane < STRIP.min(job.channels) {
            let channel = job.channel(strip) + lane;
            let taps = job.weights.wrapping_add(strip * STRIP * K * K + lane);
            let start = if job.bias.is_null() {
                simd.splat(0.0)
            } else {
                // SAFETY: strips are within the channels.
                unsafe { simd.load(job.bias.add(channel)) }
            };
            let mut tap_vectors = [[start; K]; K];
            if keeps_taps::<S>(K) {
                for (i, tap) in tap_vectors.as_flattened_mut().iter_mut().enumerate() {
                    // SAFETY: a strip has whole vectors for each tap.
                    *tap = unsafe { simd.load(taps.add(i * STRIP)) };
                }
            }
            let mut from = rows.from;
            for i in 0..(R - 1) * DOWN + K {
                if !std::ptr::eq(from[i], ZEROS.as_ptr()) {
                    from[i] = from[i].wrapping_add(channel);
                }
            }
            let mut pass = RowPass::<S, K> {
                job,
                from,
                step: rows.step,
                pitch: width * job.x_stride,
                ahead,
                taps,
                tap_vectors,
                start,
                to: to.wrapping_add(channel),
            };
            // Without fused multiply-adds there are too few registers, and a separate variant gains nothing.
            if is_inside && S::FUSED {
                pass.run::<DOWN, ACROSS, R, true>(simd);
            } else {
                pass.run::<DOWN, ACROSS, R, false>(simd);
            }
            ahead = pass.ahead;
            lane += S::LANES;
        }
    }
}

/// Returns the number of output columns whose windows share an input column.
const fn shared_columns(k: usize, stride: usize) -> usize {
    k.div_ceil(stride)
}

/// Prefetches a cache line; any address is permitted.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn prefetch(at: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch hint accesses no memory.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const f32) {}

/// Returns whether there are enough registers to keep all taps in them.
const fn keeps_taps<S: Vector>(k: usize) -> bool {
    k == 3 && S::LANES == 16
}

/// The input rows of a pass: the first pixel of each, and its pixel stride, which is 0 for a row of padding.
struct Rows {
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
}

/// A pass over one vector of channels of a few rows.
struct RowPass<'a, S: Vector, const K: usize> {
    job: &'a Job<'a>,
    /// The next pixel of each input row, and its pixel stride; if all rows are inside the image, only the first row is
    /// used.
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
    /// Stride between image rows.
    pitch: usize,
    /// The address to prefetch, which walks sequentially through the input of the next passes: the hardware recognizes
    /// a sequential stream, but not the order in which the passes read.
    ahead: *const f32,
    /// The taps of the strip, and their vectors if kept in registers.
    taps: *const f32,
    tap_vectors: [[S::F; K]; K],
    /// Initial sums.
    start: S::F,
    to: *mut f32,
}

impl<S: Vector, const K: usize> RowPass<'_, S, K> {
    /// Processes all columns. `INSIDE` means that all input rows are inside the image.
    #[inline(always)]
    fn run<const DOWN: usize, const ACROSS: usize, const R: usize, const INSIDE: bool>(
        &mut self,
        simd: S,
    ) {
        let window = &self.job.shape.window;
        let shared_columns = shared_columns(K, ACROSS);
        // Sums of the output columns that share an input column. A completed column's sums are reused for the next new
        // column, so that sums need not be moved: moves would compete with arithmetic.
        let mut sums = [[self.start; R]; K];
        // The last `ACROSS` columns of the first window; columns before the first wrap around to a number past any
        // width.
        let mut col =
            (K - ACROSS).wrapping_sub(window.pads[2].wrapping_add((shared_columns - 1) * ACROSS));
        // Output columns before the image, and those inside it.
        let mut before = shared_columns - 1;
        let mut columns_left = shared_columns - 1 + window.output[2];
        loop {
            macro_rules! steps {
                ($($phase:literal)*) => {$(
                    if $phase < shared_columns {
                        self.column::<DOWN, ACROSS, R, $phase, INSIDE>(simd, &mut sums, col, 0);
                        if ACROSS > 1 {
                            self.column::<DOWN, ACROSS, R, $phase, INSIDE>(simd, &mut sums, col.wrapping_add(1), 1);
                        }
                        col = col.wrapping_add(ACROSS);
                        if before == 0 {
                            self.store(simd, sums[$phase]);
                        } else {
                            before -= 1;
                        }
                        sums[$phase] = [self.start; R];
                        columns_left -= 1;
                        if columns_left == 0 {
                            return;
                        }
                    }
                )*};
            }
            steps!(0 1 2 3 4);
        }
    }

    /// Adds input column `col`, the `s`th of the `ACROSS` columns that complete an output column. `PHASE` is the index
    /// in `sums` of the output column that is completed next.
    #[inline(always)]
    fn column<
        const DOWN: usize,
        const ACROSS: usize,
        const R: usize,
        const PHASE: usize,
        const INSIDE: bool,
    >(
        &mut self,
        simd: S,
        sums: &mut [[S::F; R]; K],
        col: usize,
        s: usize,
    ) {
        let shared_columns = shared_columns(K, ACROSS);
        let row_count = (R - 1) * DOWN + K;
        if col >= self.job.shape.window.input[2] {
            return;
        }
        if self.job.exceeds_l2 {
            for _ in 0..R * DOWN {
                prefetch(self.ahead);
                self.ahead = self.ahead.wrapping_add(STRIP);
            }
        }
        let mut x = [self.start; INPUT_ROWS];
        for i in 0..row_count {
            // One pointer for all rows, because there are no registers for more.
            let from =
                if INSIDE { self.from[0].wrapping_add(i * self.pitch) } else { self.from[i] };
            // SAFETY: the row's pixel at `col` has a vector at the channel; zeros have one.
            x[i] = unsafe { simd.load(from) };
            if !INSIDE {
                self.from[i] = from.wrapping_add(self.step[i]);
            }
        }
        if INSIDE {
            self.from[0] = self.from[0].wrapping_add(self.job.x_stride);
        }
        for i in 0..K {
            for j in 0..shared_columns {
                let Some(k) = (K - ACROSS + s).checked_sub(j * ACROSS) else { continue };
                let tap = if keeps_taps::<S>(K) {
                    self.tap_vectors[i][k]
                } else {
                    // SAFETY: a strip has whole vectors for each tap.
                    unsafe { simd.load(self.taps.add((i * K + k) * STRIP)) }
                };
                for r in 0..R {
                    let sum = &mut sums[(PHASE + j) % shared_columns][r];
                    *sum = simd.fma(x[r * DOWN + i], tap, *sum);
                }
            }
        }
    }

    /// Stores an output column and advances to the next.
    #[inline(always)]
    fn store<const R: usize>(&mut self, simd: S, sums: [S::F; R]) {
        let row = self.job.shape.window.output[2] * self.job.y_stride;
        for r in 0..R {
            let mut sum = sums[r];
            if let Some((low, high)) = self.job.clamp {
                // `min` and `max` return their second operand for NaN.
                sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
            }
            // SAFETY: a vector at the channel of a pixel of the output.
            unsafe { simd.store(self.to.wrapping_add(r * row), sum) }
        }
        self.to = self.to.wrapping_add(self.job.y_stride);
    }
}
