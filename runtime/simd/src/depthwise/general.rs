//! `f32` depthwise convolution with any window: pixel by pixel, over the taps inside the image.

use super::bounds;
use super::float_job::{Job, STRIP};
use crate::isa::{SimdOp, Vector};

/// Strips accumulated at the same time.
const STRIPS: usize = 4;

/// Computes all pixels of a job.
pub(super) struct General<'a>(pub(super) &'a Job<'a>);

impl SimdOp for General<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let job = self.0;
        let [_, height, width] = job.shape.window.output;
        let mut to = job.y;
        for row in job.rows.clone() {
            for col in 0..width {
                let pixel = Pixel::new(job, [row / height, row % height, col]);
                let (mut strip, strips) = (0, job.channels.div_ceil(STRIP));
                // The last strip overlaps, so it does not continue the order of the others.
                while strip + STRIPS < strips && job.shape.multiplier == 1 {
                    let mut lane = 0;
                    while lane < STRIP {
                        sum::<S, STRIPS>(simd, job, &pixel, strip, lane, S::LANES, to);
                        lane += S::LANES;
                    }
                    strip += STRIPS;
                }
                while strip < strips {
                    let mut lane = 0;
                    while lane < STRIP.min(job.channels) {
                        let len = S::LANES.min(job.channels - lane);
                        sum::<S, 1>(simd, job, &pixel, strip, lane, len, to);
                        lane += S::LANES;
                    }
                    strip += 1;
                }
                to = to.wrapping_add(job.y_stride);
            }
        }
        curve(simd, job);
    }
}

/// An output pixel: its taps inside the image along each axis, and its position.
struct Pixel {
    taps: [std::ops::Range<usize>; 3],
    position: [usize; 3],
}

impl Pixel {
    #[inline(always)]
    fn new(job: &Job<'_>, position: [usize; 3]) -> Self {
        let window = &job.shape.window;
        Self { taps: [0, 1, 2].map(|axis| bounds::inside(window, axis, position[axis])), position }
    }
}

/// Computes `V` vectors of the pixel: `len` channels of each of `V` strips, from `lane` on.
#[inline(always)]
fn sum<S: Vector, const V: usize>(
    simd: S,
    job: &Job<'_>,
    pixel: &Pixel,
    strip: usize,
    lane: usize,
    len: usize,
    to: *mut f32,
) {
    let first_channel = job.channel(strip) + lane;
    let window = &job.shape.window;
    let strip_len = window.kernel[0] * window.kernel[1] * window.kernel[2] * STRIP;
    let weights = job.weights.wrapping_add(strip * strip_len + lane);
    let mut sums = [simd.splat(0.0); V];
    if !job.bias.is_null() {
        for (v, sum) in sums.iter_mut().enumerate() {
            // SAFETY: `len` channels of the vector are within the bias.
            *sum = unsafe { load(simd, job.bias.add(first_channel + v * STRIP), len) };
        }
    }
    let [planes, rows, cols] = &pixel.taps;
    for i in planes.clone() {
        let plane = bounds::pixel(window, 0, pixel.position[0], i) * window.input[1];
        for j in rows.clone() {
            let row = (plane + bounds::pixel(window, 1, pixel.position[1], j)) * window.input[2];
            for k in cols.clone() {
                let index = row + bounds::pixel(window, 2, pixel.position[2], k);
                let from = job.x.wrapping_add(index * job.x_stride);
                let tap = (i * window.kernel[1] + j) * window.kernel[2] + k;
                let taps = weights.wrapping_add(tap * STRIP);
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the pixel is inside the image, because the tap is, and has `len` channels from
                    // `first_channel` on; strips are whole.
                    unsafe {
                        let x = if job.shape.multiplier == 1 {
                            load(simd, from.add(first_channel + v * STRIP), len)
                        } else {
                            repeat_channels(simd, from, first_channel, job.shape.multiplier, len)
                        };
                        *sum = simd.fma(x, simd.load(taps.add(v * strip_len)), *sum);
                    }
                }
            }
        }
    }
    for (v, sum) in sums.iter().enumerate() {
        let mut sum = *sum;
        if let Some((low, high)) = job.clamp {
            // `min` and `max` return their second operand for NaN.
            sum = simd.min(simd.splat(high), simd.max(simd.splat(low), sum));
        }
        // SAFETY: `len` channels of the vector are within the output pixel.
        unsafe { simd.store_tail(to.add(first_channel + v * STRIP), len, sum) }
    }
}

/// Loads the first `len` lanes.
///
/// # Safety
///
/// `len` elements are readable at `from`.
#[inline(always)]
unsafe fn load<S: Vector>(simd: S, from: *const f32, len: usize) -> S::F {
    // SAFETY: `len` f32 are readable at `from`, a vector at most.
    unsafe {
        if len == S::LANES { simd.load(from) } else { simd.load_tail(from, len, simd.splat(0.0)) }
    }
}

/// Loads the input channels of `len` output channels from `c` on, each repeated for its `multiplier` outputs.
///
/// # Safety
///
/// The input pixel at `from` has these channels.
#[inline(always)]
unsafe fn repeat_channels<S: Vector>(
    simd: S,
    from: *const f32,
    c: usize,
    multiplier: usize,
    len: usize,
) -> S::F {
    let mut lanes = [0.0; STRIP];
    for (i, lane) in lanes.iter_mut().enumerate().take(len) {
        // SAFETY: the pixel at `from` has the input channels of output channels `c..c + len`.
        *lane = unsafe { *from.add((c + i) / multiplier) };
    }
    // SAFETY: a vector has no more lanes.
    unsafe { simd.load(lanes.as_ptr()) }
}

/// Applies an activation that is not a clamp to all output rows.
#[inline(always)]
pub(super) fn curve<S: Vector>(simd: S, job: &Job<'_>) {
    let Some(curve) = job.activation.curve() else { return };
    for pixel in 0..job.rows.len() * job.shape.window.output[2] {
        let mut first_channel = 0;
        while first_channel < job.channels {
            let len = S::LANES.min(job.channels - first_channel);
            let address = job.y.wrapping_add(pixel * job.y_stride + first_channel);
            // SAFETY: `len` channels of the vector are within the output pixel.
            unsafe {
                let x = load(simd, address, len);
                simd.store_tail(address, len, curve.evaluate(simd, x));
            }
            first_channel += S::LANES;
        }
    }
}
