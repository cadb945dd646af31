//! Square kernels of 3 and 5 at strides 1 and 2, and 2 down and 1 across: passes along output rows.
//!
//! A pass computes a few output rows of 16 channels, from the first pixel to the last. Each input
//! column is loaded once and added to every output column that wants it; those stay in registers until
//! they are complete. So no border is special: columns of the padding are passed over, and rows of the
//! padding read zeros. What an output adds up is in the same order however the rows are split.

use super::float_job::{Job, STRIP};
use super::general::curve;
use super::tile;
use crate::isa::{SimdOp, Vector};

/// What rows of the padding read.
static ZEROS: [f32; STRIP] = [0.0; STRIP];

/// The most output rows of a pass.
const ROWS: usize = 4;
/// The most input rows of a pass.
const INPUT_ROWS: usize = (ROWS - 1) * 2 + 5;

/// All rows under a kernel of `K` x `K`, from one to the next `DOWN` and `ACROSS`.
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
        // Fewer registers make for smaller tiles, which read too much again.
        if (K, DOWN, ACROSS, S::LANES) == (3, 1, 1, 16) && tile::suits(job) {
            tile::tiles(simd, job);
            curve(simd, job);
            return;
        }
        let most = most::<S>(K, ACROSS);
        let mut row = job.rows.start;
        while row < job.rows.end {
            let left = job.rows.end - row;
            // Evenly, as passes of a row or so have too few sums to keep the arithmetic busy.
            let count = left.div_ceil(left.div_ceil(most));
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

/// Output rows of a pass: as many as there are registers for their sums and for what they share.
const fn most<S: Vector>(k: usize, stride: usize) -> usize {
    match (S::LANES, k, stride) {
        // Vectors of plain Rust are several registers each.
        _ if !S::FUSED => 1,
        (16, ..) => ROWS,
        (_, 5, 1) => 1,
        _ => 2,
    }
}

/// `R` output rows from `row` on.
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
        // Above the first row is beyond any height.
        let y = (row * DOWN + i).wrapping_sub(top);
        if y < height {
            rows.from[i] = job.x.wrapping_add(y * width * job.x_stride);
            rows.step[i] = job.x_stride;
        }
    }
    let last = ((row + R - 1) * DOWN).wrapping_sub(top);
    let is_inside = row * DOWN >= top && last.saturating_add(K) <= height;
    // The first row that the next passes read and these do not.
    let new = ((row + R - 1) * DOWN).wrapping_add(K);
    let mut ahead = job.x.wrapping_add(new.wrapping_sub(top).wrapping_mul(width * job.x_stride));
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
                // SAFETY: strips lie within the channels.
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
            // What has too few registers anyway gains nothing from a variant of its own.
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

/// Output columns that share an input column.
const fn live(k: usize, stride: usize) -> usize {
    k.div_ceil(stride)
}

/// Brings a cache line closer; any address will do.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn prefetch(at: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a hint touches nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const f32) {}

/// Whether taps are held in registers.
const fn keeps_taps<S: Vector>(k: usize) -> bool {
    k == 3 && S::LANES == 16
}

/// The input rows of a pass: where they begin, and how far their pixels lie apart.
struct Rows {
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
}

/// One vector of channels of a few rows.
struct RowPass<'a, S: Vector, const K: usize> {
    job: &'a Job<'a>,
    /// The input rows at the column that comes next, and how far the one after that is; if all of them
    /// lie in the image, the first row is enough.
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
    /// From a row of the image to the next.
    pitch: usize,
    /// Input of the next passes, in sequence: whatever order the passes themselves read in, the memory
    /// behind the caches sees a stream.
    ahead: *const f32,
    /// The taps of the strip, and their vectors where they are held in registers.
    taps: *const f32,
    tap_vectors: [[S::F; K]; K],
    /// What sums start with.
    start: S::F,
    to: *mut f32,
}

impl<S: Vector, const K: usize> RowPass<'_, S, K> {
    /// From the first column to the last. `INSIDE` means that all input rows lie in the image.
    #[inline(always)]
    fn run<const DOWN: usize, const ACROSS: usize, const R: usize, const INSIDE: bool>(
        &mut self,
        simd: S,
    ) {
        let window = &self.job.shape.window;
        let live = live(K, ACROSS);
        // Of output columns that share an input column. They stay where they are, and those that are
        // complete make room for the next: moves would take the arithmetic's place.
        let mut sums = [[self.start; R]; K];
        // The last `ACROSS` columns of the first window; before the first column is beyond any width.
        let mut col = (K - ACROSS).wrapping_sub(window.pads[2].wrapping_add((live - 1) * ACROSS));
        // Output columns in front of the image, and those of it.
        let mut before = live - 1;
        let mut left = live - 1 + window.output[2];
        loop {
            macro_rules! steps {
                ($($phase:literal)*) => {$(
                    if $phase < live {
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
                        left -= 1;
                        if left == 0 {
                            return;
                        }
                    }
                )*};
            }
            steps!(0 1 2 3 4);
        }
    }

    /// Adds input column `col`, the one numbered `s` of those that come with an output column. The
    /// output column that is complete next is at `PHASE`.
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
        let live = live(K, ACROSS);
        let rows = (R - 1) * DOWN + K;
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
        for i in 0..rows {
            // One pointer for all rows, as there are no registers for more.
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
            for j in 0..live {
                let Some(k) = (K - ACROSS + s).checked_sub(j * ACROSS) else { continue };
                let tap = if keeps_taps::<S>(K) {
                    self.tap_vectors[i][k]
                } else {
                    // SAFETY: a strip has whole vectors for each tap.
                    unsafe { simd.load(self.taps.add((i * K + k) * STRIP)) }
                };
                for r in 0..R {
                    let sum = &mut sums[(PHASE + j) % live][r];
                    *sum = simd.fma(x[r * DOWN + i], tap, *sum);
                }
            }
        }
    }

    /// Stores an output column and goes on to the next.
    #[inline(always)]
    fn store<const R: usize>(&mut self, simd: S, sums: [S::F; R]) {
        let row = self.job.shape.window.output[2] * self.job.y_stride;
        for r in 0..R {
            let mut sum = sums[r];
            if let Some((low, high)) = self.job.clamp {
                // NaN comes through as the second operand.
                sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
            }
            // SAFETY: a vector at the channel of a pixel of the output.
            unsafe { simd.store(self.to.wrapping_add(r * row), sum) }
        }
        self.to = self.to.wrapping_add(self.job.y_stride);
    }
}
