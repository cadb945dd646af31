//! 8-bit depthwise convolution with any window: pixel by pixel, over the taps inside the image. It is plain Rust that
//! is compiled for every instruction set.

use super::bounds;
use super::quantized_job::{Job, STRIP};
use crate::isa::{SimdOp, Vector};

/// Computes every pixel.
pub(super) struct GeneralU8<'a> {
    pub(super) job: &'a Job<'a>,
    /// Destination of the sums if they are the output; the job's output is then unused.
    pub(super) sums: Option<*mut i32>,
}

impl SimdOp for GeneralU8<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, _: S) {
        let Self { job, sums: to_sums } = self;
        let [_, height, width] = job.shape.window.output;
        for first_channel in (0..job.channels).step_by(STRIP) {
            let strip = Strip::new(job, first_channel);
            let mut offset = first_channel;
            for row in job.rows.clone() {
                for col in 0..width {
                    let sums = strip.sums([row / height, row % height, col]);
                    if let Some(to) = to_sums {
                        let to = to.wrapping_add(offset);
                        // SAFETY: the strip has `count` channels, and the pixel is one of the output.
                        unsafe { to.copy_from_nonoverlapping(sums.as_ptr(), strip.count) }
                    }
                    for (c, (sum, scale)) in sums.iter().zip(strip.scales).enumerate() {
                        let value = requantize(*sum as f32, *scale, job.y_zero.into());
                        let to = job.y.wrapping_add(offset + c);
                        // SAFETY: the strip has one scale per channel, scales imply a quantized
                        // output, and the pixel is inside it.
                        unsafe { to.write(value ^ job.flip) }
                    }
                    offset = offset.wrapping_add(job.y_stride);
                }
            }
        }
    }
}

/// Requantizes as ONNX's `QuantizeLinear`: scales, rounds half to even, adds the zero point and saturates. NaN becomes
/// the smallest value.
#[inline(always)]
fn requantize(sum: f32, scale: f32, zero_point: f32) -> u8 {
    let value = (sum * scale).round_ties_even() + zero_point;
    let value = if value >= 0.0 { value } else { 0.0 };
    (if value > 255.0 { 255.0 } else { value }) as u8
}

/// Up to [`STRIP`] channels from `first` on, with their parameters.
struct Strip<'a> {
    job: &'a Job<'a>,
    first: usize,
    weights: &'a [i8],
    /// The weights' zero points.
    zeros: [i16; STRIP],
    /// Initial sums.
    start: [i32; STRIP],
    /// Number of channels.
    count: usize,
    /// One per channel; empty if the output is sums.
    scales: &'a [f32],
}

impl<'a> Strip<'a> {
    #[inline(always)]
    fn new(job: &'a Job<'a>, first: usize) -> Self {
        let count = STRIP.min(job.channels - first);
        let (mut zeros, mut start) = ([0; STRIP], [0; STRIP]);
        if !job.weights.zero_points.is_empty() {
            for (zero, &zero_point) in zeros.iter_mut().zip(&job.weights.zero_points[first..]) {
                *zero = i16::from(zero_point);
            }
        }
        if !job.weights.bias.is_empty() {
            start[..count].copy_from_slice(&job.weights.bias[first..first + count]);
        }
        let scales = job.weights.scales.get(first..first + count).unwrap_or(&[]);
        Self { job, first, weights: job.weights_by_tap(), zeros, start, count, scales }
    }

    /// Sums an output pixel over the taps inside the image; those in the padding contribute 0.
    #[inline(always)]
    fn sums(&self, output: [usize; 3]) -> [i32; STRIP] {
        let (job, window) = (self.job, &self.job.shape.window);
        let count = self.count;
        let mut sums = self.start;
        for i in bounds::inside(window, 0, output[0]) {
            let plane = bounds::pixel(window, 0, output[0], i) * window.input[1];
            for j in bounds::inside(window, 1, output[1]) {
                let row = (plane + bounds::pixel(window, 1, output[1], j)) * window.input[2];
                for k in bounds::inside(window, 2, output[2]) {
                    let pixel = row + bounds::pixel(window, 2, output[2], k);
                    let values = &job.x.data[pixel * job.x.stride..][..job.shape.channels];
                    let tap = (i * window.kernel[1] + j) * window.kernel[2] + k;
                    let weights = &self.weights[tap * job.channels + self.first..][..count];
                    if job.shape.multiplier == 1 {
                        self.add(&mut sums, &values[self.first..], weights);
                    } else {
                        let mut repeated = [0; STRIP];
                        for (c, repeated) in repeated[..count].iter_mut().enumerate() {
                            *repeated = values[(self.first + c) / job.shape.multiplier];
                        }
                        self.add(&mut sums, &repeated, weights);
                    }
                }
            }
        }
        sums
    }

    /// Adds the products of one tap to the sums.
    #[inline(always)]
    fn add(&self, sums: &mut [i32; STRIP], values: &[u8], weights: &[i8]) {
        let zero = i16::from(self.job.weights.zero_point);
        let factors = values.iter().zip(weights.iter().zip(&self.zeros));
        for (sum, (&value, (&weight, weight_zero))) in sums.iter_mut().zip(factors) {
            let (value, weight) = (i16::from(value) - zero, i16::from(weight) - weight_zero);
            *sum = sum.wrapping_add(i32::from(value) * i32::from(weight));
        }
    }
}
