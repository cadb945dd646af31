//! 3x3 kernels at stride 1 by tiles of output pixels, each over all of its channels.
//!
//! A pass (see `row_pass`) reads about one cache line of each pixel before the next pixel. If pixels are a large power
//! of two apart, these lines share a few sets of the first-level cache and evict each other. If the image is in main
//! memory, the hardware prefetcher does not recognize such accesses. A tile reads every pixel sequentially, at the
//! price of reading some of them again for the next tile.

use super::float_job::{Job, STRIP};
use crate::isa::Vector;

/// Output rows and columns of a tile, small enough that the next tile finds shared pixels in cache.
const ROWS: usize = 4;
const COLS: usize = 2;
/// Strips that are processed for all tiles of a row before the next strips, for the same reason.
const STRIP_BLOCK: usize = 16;
/// Pixel strides that are a multiple of this many elements conflict: a first-level cache of 48 KiB in 12 ways holds the
/// lines of at most 48 such pixels.
const CONFLICT: usize = 256;

/// Returns whether tiles are faster than passes, and each side has at most one row or column of padding, as `tile`
/// requires.
#[inline(always)]
pub(super) fn suits(job: &Job<'_>) -> bool {
    let window = &job.shape.window;
    let close = |axis: usize| {
        window.pads[axis] <= 1 && window.output[axis] < window.input[axis] + window.pads[axis]
    };
    (job.exceeds_l2 || job.x_stride.is_multiple_of(CONFLICT)) && close(1) && close(2)
}

/// Computes all rows of the job.
#[inline(always)]
pub(super) fn tiles<S: Vector>(simd: S, job: &Job<'_>) {
    let strips = job.channels.div_ceil(STRIP);
    for first in (0..strips).step_by(STRIP_BLOCK) {
        let strips = (first, strips.min(first + STRIP_BLOCK));
        let mut row = job.rows.start;
        while row < job.rows.end {
            let remaining = job.rows.end - row;
            // Avoids a single last row.
            let count =
                if remaining > ROWS { remaining.min(2 * ROWS).div_ceil(2) } else { remaining };
            match count {
                1 => across::<S, 1>(simd, job, row, strips),
                2 => across::<S, 2>(simd, job, row, strips),
                3 => across::<S, 3>(simd, job, row, strips),
                _ => across::<S, ROWS>(simd, job, row, strips),
            }
            row += count;
        }
    }
}

/// Computes all tiles of `R` output rows.
#[inline(always)]
fn across<S: Vector, const R: usize>(simd: S, job: &Job<'_>, row: usize, strips: (usize, usize)) {
    let width = job.shape.window.output[2];
    let mut col = 0;
    while col + COLS <= width {
        tile::<S, R, COLS>(simd, job, [row, col], strips);
        col += COLS;
    }
    if col < width {
        tile::<S, R, 1>(simd, job, [row, col], strips);
    }
}

/// Computes a tile of `R` rows and `C` columns, of which the first pixel is `at`.
#[inline(always)]
fn tile<S: Vector, const R: usize, const C: usize>(
    simd: S,
    job: &Job<'_>,
    first: [usize; 2],
    strips: (usize, usize),
) {
    let window = &job.shape.window;
    let ([_, height, width], [_, top, left]) = (window.input, window.pads);
    // Whether the first and last rows and columns of input are inside the image.
    let (has_row_above, has_column_left) = (first[0] >= top, first[1] >= left);
    let has_row_below = first[0] + R + 1 - top < height;
    let has_column_right = first[1] + C + 1 - left < width;
    let pixel_stride = job.x_stride;
    // The pixel of the first tap, possibly in the padding.
    let from = (first[0] * width + first[1]).wrapping_sub(top * width + left);
    let from = job.x.wrapping_add(from.wrapping_mul(pixel_stride));
    let across = window.output[2];
    let to = job.y.wrapping_add(((first[0] - job.rows.start) * across + first[1]) * job.y_stride);
    for strip in strips.0..strips.1 {
        let channel = job.channel(strip);
        let start = if job.bias.is_null() {
            simd.splat(0.0)
        } else {
            // SAFETY: strips are within the channels.
            unsafe { simd.load(job.bias.add(channel)) }
        };
        let mut taps = [[start; 3]; 3];
        for (i, tap) in taps.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: a strip has whole vectors for each tap.
            *tap = unsafe { simd.load(job.weights.add((strip * 9 + i) * STRIP)) };
        }
        let mut sums = [[start; C]; R];
        for k in 0..C + 2 {
            if !((k > 0 || has_column_left) && (k <= C || has_column_right)) {
                continue;
            }
            let from = from.wrapping_add(channel + k * pixel_stride);
            for i in 0..R + 2 {
                if !((i > 0 || has_row_above) && (i <= R || has_row_below)) {
                    continue;
                }
                // SAFETY: the pixel is inside the image, and has a strip at the channel.
                let x = unsafe { simd.load(from.wrapping_add(i * width * pixel_stride)) };
                for r in 0..R {
                    for c in 0..C {
                        if i >= r && i - r < 3 && k >= c && k - c < 3 {
                            sums[r][c] = simd.fma(x, taps[i - r][k - c], sums[r][c]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                let mut sum = sums[r][c];
                if let Some((low, high)) = job.clamp {
                    // `min` and `max` return their second operand for NaN.
                    sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
                }
                let to = to.wrapping_add((r * across + c) * job.y_stride + channel);
                // SAFETY: the pixel is one of the output's, and has a strip at the channel.
                unsafe { simd.store(to, sum) }
            }
        }
    }
}
