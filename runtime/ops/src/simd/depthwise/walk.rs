//! Square kernels of 3 and 5 at strides 1 and 2: walks along output rows.
//!
//! A walk computes a few output rows of 16 channels, from the first pixel to the last. Each input
//! column is loaded once and added to every output column that wants it; those stay in registers until
//! they are complete. So no border is special: columns of the padding are passed over, and rows of the
//! padding read zeros.

use super::super::math::vector::{Simd, Task};
use super::float::{Job, STRIP};
use super::general::curve;
use super::tile;

/// The most output rows of a walk.
const ROWS: usize = 4;
/// The most input rows of a walk.
const INPUT_ROWS: usize = (ROWS - 1) * 2 + 5;

/// What rows of the padding read.
static ZEROS: [f32; STRIP] = [0.0; STRIP];

/// All rows under a kernel of `K` x `K`.
pub(super) struct Walks<'a, const K: usize, const STRIDE: usize>(pub(super) &'a Job<'a>);

impl<const K: usize, const STRIDE: usize> Task for Walks<'_, K, STRIDE> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let job = self.0;
        // Fewer registers make for smaller tiles, which read too much again.
        if (K, STRIDE, S::LANES) == (3, 1, 16) && tile::suits(job) {
            tile::tiles(simd, job);
            curve(simd, job);
            return;
        }
        let mut row = job.rows.start;
        while row < job.rows.end {
            let left = job.rows.end - row;
            // As many rows as there are registers for their sums and one column of their input.
            row += if S::LANES == 16 {
                match left {
                    1 => strips::<S, K, STRIDE, 1>(simd, job, row),
                    2 => strips::<S, K, STRIDE, 2>(simd, job, row),
                    left if left == 3 || live(K, STRIDE) > 3 => {
                        strips::<S, K, STRIDE, 3>(simd, job, row)
                    }
                    _ => strips::<S, K, STRIDE, ROWS>(simd, job, row),
                }
            } else if K == 3 && left > 1 {
                strips::<S, K, STRIDE, 2>(simd, job, row)
            } else {
                strips::<S, K, STRIDE, 1>(simd, job, row)
            };
        }
        curve(simd, job);
    }
}

/// `R` output rows from `row` on; returns `R`.
#[inline(always)]
fn strips<S: Simd, const K: usize, const STRIDE: usize, const R: usize>(
    simd: S,
    job: &Job<'_>,
    row: usize,
) -> usize {
    let [_, height, width] = job.shape.window.input;
    let top = job.shape.window.pads[1];
    let mut rows = Rows { from: [ZEROS.as_ptr(); INPUT_ROWS], step: [0; INPUT_ROWS] };
    for i in 0..(R - 1) * STRIDE + K {
        // Above the first row is beyond any height.
        let y = (row * STRIDE + i).wrapping_sub(top);
        if y < height {
            rows.from[i] = job.x.wrapping_add(y * width * job.x_stride);
            rows.step[i] = job.x_stride;
        }
    }
    // The first row that the next walks read and these do not.
    let new = ((row + R - 1) * STRIDE).wrapping_add(K);
    let mut ahead = job.x.wrapping_add(new.wrapping_sub(top).wrapping_mul(width * job.x_stride));
    let across = job.shape.window.output[2];
    let to = job.y.wrapping_add((row - job.rows.start) * across * job.y_stride);
    for strip in 0..job.channels.div_ceil(STRIP) {
        let mut lane = 0;
        while lane < STRIP {
            walk::<S, K, STRIDE, R>(simd, job, &rows, strip, lane, to, &mut ahead);
            lane += S::LANES;
        }
    }
    R
}

/// The input rows of a walk: where they begin, and how far their pixels lie apart.
struct Rows {
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
}

/// Where a walk stands, of one vector of channels.
struct Walk<'a, S: Simd, const K: usize, const R: usize> {
    job: &'a Job<'a>,
    /// The input rows at the column that comes next, and how far the one after that is.
    from: [*const f32; INPUT_ROWS],
    step: [usize; INPUT_ROWS],
    /// Input of the next walks, in sequence: whatever order the walks themselves read in, the memory
    /// behind the caches sees a stream.
    ahead: *const f32,
    /// The taps of the strip, and their vectors where they are held in registers.
    taps: *const f32,
    held: [[S::F; K]; K],
    /// What sums start with.
    start: S::F,
    /// Of output columns that share an input column.
    sums: [[S::F; R]; K],
    /// The input column that comes next, beyond any width before the first.
    col: usize,
    /// Output columns in front of the image that are yet to come.
    before: usize,
    to: *mut f32,
}

/// Computes one vector of channels of the rows.
#[inline(always)]
fn walk<S: Simd, const K: usize, const STRIDE: usize, const R: usize>(
    simd: S,
    job: &Job<'_>,
    rows: &Rows,
    strip: usize,
    lane: usize,
    to: *mut f32,
    ahead: &mut *const f32,
) {
    let channel = job.channel(strip) + lane;
    let mut from = rows.from;
    for i in 0..(R - 1) * STRIDE + K {
        if !std::ptr::eq(from[i], ZEROS.as_ptr()) {
            from[i] = from[i].wrapping_add(channel);
        }
    }
    let taps = job.weights.wrapping_add(strip * STRIP * K * K + lane);
    let start = if job.bias.is_null() {
        simd.splat(0.0)
    } else {
        // SAFETY: strips lie within the channels.
        unsafe { simd.load(job.bias.add(channel)) }
    };
    let mut held = [[start; K]; K];
    if holds::<S>(K) {
        for (i, tap) in held.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: a strip has whole vectors for each tap.
            *tap = unsafe { simd.load(taps.add(i * STRIP)) };
        }
    }
    let across = job.shape.window.output[2];
    let live = live(K, STRIDE);
    let mut walk = Walk::<S, K, R> {
        job,
        from,
        step: rows.step,
        ahead: *ahead,
        taps,
        held,
        start,
        sums: [[start; R]; K],
        // The last `STRIDE` columns of the first window.
        col: (K - STRIDE).wrapping_sub(job.shape.window.pads[2].wrapping_add((live - 1) * STRIDE)),
        before: live - 1,
        to: to.wrapping_add(channel),
    };
    for _ in 0..live - 1 + across {
        walk.step::<STRIDE>(simd);
    }
    *ahead = walk.ahead;
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
const fn holds<S: Simd>(k: usize) -> bool {
    k == 3 && S::LANES == 16
}

impl<S: Simd, const K: usize, const R: usize> Walk<'_, S, K, R> {
    /// Goes on by one output column.
    #[inline(always)]
    fn step<const STRIDE: usize>(&mut self, simd: S) {
        let job = self.job;
        let live = live(K, STRIDE);
        let rows = (R - 1) * STRIDE + K;
        for s in 0..STRIDE {
            if self.col < job.shape.window.input[2] {
                let mut x = [self.start; INPUT_ROWS];
                for i in 0..rows {
                    // SAFETY: the pixel at `col` has a vector at the channel; zeros have one.
                    x[i] = unsafe { simd.load(self.from[i]) };
                    if job.far && i >= rows - R * STRIDE {
                        prefetch(self.ahead);
                        self.ahead = self.ahead.wrapping_add(STRIP);
                    }
                    self.from[i] = self.from[i].wrapping_add(self.step[i]);
                }
                for j in 0..live {
                    let Some(k) = (K - STRIDE + s).checked_sub(j * STRIDE) else { continue };
                    for i in 0..K {
                        let tap = if holds::<S>(K) {
                            self.held[i][k]
                        } else {
                            // SAFETY: as above.
                            unsafe { simd.load(self.taps.add((i * K + k) * STRIP)) }
                        };
                        for r in 0..R {
                            let sum = &mut self.sums[j][r];
                            *sum = simd.fma(x[r * STRIDE + i], tap, *sum);
                        }
                    }
                }
            }
            self.col = self.col.wrapping_add(1);
        }
        if self.before > 0 {
            self.before -= 1;
        } else {
            let row = job.shape.window.output[2] * job.y_stride;
            for r in 0..R {
                let mut sum = self.sums[0][r];
                if let Some((low, high)) = job.clamp {
                    // NaN comes through as the second operand.
                    sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
                }
                // SAFETY: a vector at the channel of a pixel of the output.
                unsafe { simd.store(self.to.wrapping_add(r * row), sum) }
            }
            self.to = self.to.wrapping_add(job.y_stride);
        }
        for j in 1..live {
            self.sums[j - 1] = self.sums[j];
        }
        self.sums[live - 1] = [self.start; R];
    }
}
