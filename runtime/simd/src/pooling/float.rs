//! Max and average pooling of `f32`: separable where windows overlap enough, else pixel by pixel.

use std::ops::Range;

use super::separable::{Fold, Separable, suits};
use super::{Divisor, Image, Job, Window, bounds};
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Vectors pooled at the same time.
const VECTORS: usize = 4;

/// Computes the maximum of each window: NaN if it contains one, as in ONNX's reference and NumPy, and minus infinity if
/// no tap is inside the image.
///
/// # Panics
///
/// Panics if a slice is too short, pixels overlap, rows are not the window's, a dilation is 0, or a position overflows
/// `usize`.
pub fn max_pool(
    window: &Window,
    channels: usize,
    x: Image<'_, f32>,
    rows: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    pool_on(isa(), window, channels, x, None, rows, y, y_stride);
}

/// Computes the average of each window; 0 if no tap is inside the image. Taps are added in `f32`, in an order that
/// depends on the window and the channels, but not on `rows`.
///
/// # Panics
///
/// Panics like [`max_pool`].
pub fn average_pool(
    window: &Window,
    channels: usize,
    x: Image<'_, f32>,
    divisor: Divisor,
    rows: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    pool_on(isa(), window, channels, x, Some(divisor), rows, y, y_stride);
}

/// Averages if there is a divisor, else takes the maximum.
#[expect(
    clippy::too_many_arguments,
    reason = "the arguments of `average_pool`, and the instruction set"
)]
pub(super) fn pool_on(
    isa: Isa,
    window: &Window,
    channels: usize,
    x: Image<'_, f32>,
    divisor: Option<Divisor>,
    rows: Range<usize>,
    y: &mut [f32],
    y_stride: usize,
) {
    let Some(job) = Job::new(window, channels, &x, rows, y.len(), y_stride) else { return };
    let (x, y) = (x.data.as_ptr(), y.as_mut_ptr());
    match divisor {
        None => dispatch(isa, Rows::<true> { job, x, y, divisor: Divisor::Inside }),
        Some(divisor) => dispatch(isa, Rows::<false> { job, x, y, divisor }),
    }
}

/// The loop over the output rows of a job, from image `x` to image `y`.
struct Rows<'a, const MAX: bool> {
    job: Job<'a>,
    x: *const f32,
    y: *mut f32,
    divisor: Divisor,
}

impl<const MAX: bool> SimdOp for Rows<'_, MAX> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let job = &self.job;
        let fold = FloatFold::<S, MAX> { simd, divisor: self.divisor };
        // If windows overlap by less than half, the buffer costs more than it saves.
        if suits(fold, job) && job.window.strides[2] < job.window.kernel[2].div_ceil(2) {
            // SAFETY: `simd` proves that the machine has the instructions; `Job::new` checked that
            // the pixels of the job are within `x` and `y`.
            unsafe { Separable { fold, job, x: self.x, y: self.y }.run() }
            return;
        }
        let mut to = self.y;
        for row in job.rows.0..job.rows.1 {
            let ([plane, row], mut taps) = job.row(row);
            for col in 0..job.window.output[2] {
                taps[2] = job.taps_along_row(col);
                let output = [plane, row, col];
                let divisor = self.divisor.count(job.window, output, &taps);
                let pixel = Pixel { output, taps: &taps, divisor };
                let mut c = 0;
                while c + VECTORS * S::LANES <= job.channels {
                    self.pool::<S, VECTORS>(simd, &pixel, c, S::LANES, to);
                    c += VECTORS * S::LANES;
                }
                while c < job.channels {
                    self.pool::<S, 1>(simd, &pixel, c, S::LANES.min(job.channels - c), to);
                    c += S::LANES;
                }
                to = to.wrapping_add(job.y_stride);
            }
        }
    }
}

/// The reduction for `Separable`: a maximum, or a sum that is divided in the end.
#[derive(Clone, Copy)]
struct FloatFold<S, const MAX: bool> {
    simd: S,
    divisor: Divisor,
}

impl<S: Vector, const MAX: bool> Fold for FloatFold<S, MAX> {
    type Item = f32;
    type Acc = S::F;
    /// With fused multiply-adds, the inverse of the divisor as the sum of two positive parts; else the divisor and 0.
    type Scale = [S::F; 2];

    const LEN: usize = S::LANES;
    const IS_WIDE: bool = S::FUSED;
    const ASSOCIATIVE: bool = MAX;

    #[inline(always)]
    unsafe fn identity(self) -> S::F {
        self.simd.splat(if MAX { f32::NEG_INFINITY } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> S::F {
        // SAFETY: `S::LANES` f32 are readable at `from`.
        unsafe { self.simd.load(from) }
    }
    #[inline(always)]
    unsafe fn combine(self, accumulator: S::F, values: S::F) -> S::F {
        if MAX { max(self.simd, values, accumulator) } else { self.simd.add(accumulator, values) }
    }
    #[inline(always)]
    fn divisor(self) -> Divisor {
        self.divisor
    }
    #[inline(always)]
    unsafe fn scale(self, divisor: usize, _: usize) -> Self::Scale {
        let inverse = 1.0 / divisor as f64;
        // Both parts are positive, so infinity stays infinity.
        let high = (inverse as f32).next_down();
        let low = (inverse - f64::from(high)) as f32;
        let parts = if S::FUSED { [high, low] } else { [divisor as f32, 0.0] };
        parts.map(|part| self.simd.splat(part))
    }
    #[inline(always)]
    unsafe fn store(self, accumulator: S::F, [high, low]: Self::Scale, to: *mut f32) {
        let simd = self.simd;
        let y = if MAX {
            accumulator
        } else if S::FUSED {
            simd.fma(accumulator, high, simd.mul(accumulator, low))
        } else {
            simd.div(accumulator, high)
        };
        // SAFETY: `S::LANES` f32 are writable at `to`.
        unsafe { simd.store(to, y) }
    }
}

/// An output pixel: its taps inside the image, and the divisor of its average.
struct Pixel<'a> {
    output: [usize; 3],
    taps: &'a [Range<usize>; 3],
    divisor: usize,
}

impl<const MAX: bool> Rows<'_, MAX> {
    /// Pools `V` vectors from channel `c` on; the last one has `len` channels.
    #[inline(always)]
    fn pool<S: Vector, const V: usize>(
        &self,
        simd: S,
        pixel: &Pixel<'_>,
        c: usize,
        len: usize,
        to: *mut f32,
    ) {
        let (job, window) = (&self.job, self.job.window);
        let start = simd.splat(if MAX { f32::NEG_INFINITY } else { 0.0 });
        let mut pooled = [start; V];
        let [planes, rows, cols] = pixel.taps;
        for i in planes.clone() {
            let plane = bounds::pixel(window, 0, pixel.output[0], i) * window.input[1];
            for j in rows.clone() {
                let row = (plane + bounds::pixel(window, 1, pixel.output[1], j)) * window.input[2];
                for k in cols.clone() {
                    let index = row + bounds::pixel(window, 2, pixel.output[2], k);
                    let from = self.x.wrapping_add(index * job.x_stride + c);
                    for (v, pooled) in pooled.iter_mut().enumerate() {
                        // SAFETY: the pixel is inside the image, and has `len` channels there.
                        let x = unsafe {
                            let from = from.add(v * S::LANES);
                            if len == S::LANES {
                                simd.load(from)
                            } else {
                                simd.load_tail(from, len, start)
                            }
                        };
                        *pooled = if MAX { max(simd, x, *pooled) } else { simd.add(x, *pooled) };
                    }
                }
            }
        }
        for (v, pooled) in pooled.iter().enumerate() {
            let divisor = simd.splat(pixel.divisor as f32);
            let y = if MAX { *pooled } else { simd.div(*pooled, divisor) };
            // SAFETY: the output pixel has `len` channels of the vector.
            unsafe {
                let to = to.add(c + v * S::LANES);
                if len == S::LANES { simd.store(to, y) } else { simd.store_tail(to, len, y) }
            }
        }
    }
}

/// Returns the larger value, or NaN.
#[inline(always)]
fn max<S: Vector>(simd: S, x: S::F, best: S::F) -> S::F {
    // `max` returns `best` if either is NaN.
    let greater = simd.max(x, best);
    simd.select(simd.eq(x, x), greater, x)
}
