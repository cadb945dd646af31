//! Any window of 8-bit codes, in plain Rust that is compiled for every instruction set.

use super::code_job::{Job, STRIP};
use super::place;
use crate::isa::{SimdOp, Vector};

/// Every pixel.
pub(super) struct Plain<'a>(pub(super) &'a Job<'a>);

impl SimdOp for Plain<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, _: S) {
        let job = self.0;
        let [_, height, width] = job.shape.window.output;
        for first in (0..job.channels).step_by(STRIP) {
            let strip = Strip::new(job, first);
            let mut to = job.y.wrapping_add(first);
            for row in job.rows.clone() {
                for col in 0..width {
                    let sums = strip.sums([row / height, row % height, col]);
                    for (c, (sum, scale)) in sums.iter().zip(strip.scales).enumerate() {
                        let code = requantize(*sum as f32, *scale, job.y_zero.into());
                        // SAFETY: the strip has as many channels as scales, and the pixel is one
                        // of the output.
                        unsafe { to.add(c).write(code ^ job.flip) }
                    }
                    to = to.wrapping_add(job.y_stride);
                }
            }
        }
    }
}

/// The ONNX rule: scale, round half to even, add the zero point, saturate; NaN becomes the lowest.
#[inline(always)]
fn requantize(sum: f32, scale: f32, zero_point: f32) -> u8 {
    let code = (sum * scale).round_ties_even() + zero_point;
    let code = if code >= 0.0 { code } else { 0.0 };
    (if code > 255.0 { 255.0 } else { code }) as u8
}

/// Some channels, with their numbers.
struct Strip<'a> {
    job: &'a Job<'a>,
    first: usize,
    weights: &'a [i8],
    zeros: [i16; STRIP],
    start: [i32; STRIP],
    scales: &'a [f32],
}

impl<'a> Strip<'a> {
    #[inline(always)]
    fn new(job: &'a Job<'a>, first: usize) -> Self {
        let count = STRIP.min(job.channels - first);
        let (mut zeros, mut start) = ([0; STRIP], [0; STRIP]);
        if !job.codes.zero_points.is_empty() {
            for (zero, &from) in zeros.iter_mut().zip(&job.codes.zero_points[first..]) {
                *zero = i16::from(from);
            }
        }
        if !job.codes.bias.is_empty() {
            start[..count].copy_from_slice(&job.codes.bias[first..first + count]);
        }
        let scales = &job.codes.scales[first..first + count];
        Self { job, first, weights: job.plain(), zeros, start, scales }
    }

    /// The sums of an output pixel over the taps that lie in the image: those in the padding are 0.
    #[inline(always)]
    fn sums(&self, at: [usize; 3]) -> [i32; STRIP] {
        let (job, window) = (self.job, &self.job.shape.window);
        let count = self.scales.len();
        let mut sums = self.start;
        for i in place::inside(window, 0, at[0]) {
            let plane = place::pixel(window, 0, at[0], i) * window.input[1];
            for j in place::inside(window, 1, at[1]) {
                let row = (plane + place::pixel(window, 1, at[1], j)) * window.input[2];
                for k in place::inside(window, 2, at[2]) {
                    let pixel = row + place::pixel(window, 2, at[2], k);
                    let codes = &job.x.data[pixel * job.x.stride..][..job.shape.channels];
                    let tap = (i * window.kernel[1] + j) * window.kernel[2] + k;
                    let weights = &self.weights[tap * job.channels + self.first..][..count];
                    if job.shape.multiplier == 1 {
                        self.add(&mut sums, &codes[self.first..], weights);
                    } else {
                        let mut spread = [0; STRIP];
                        for (c, spread) in spread[..count].iter_mut().enumerate() {
                            *spread = codes[(self.first + c) / job.shape.multiplier];
                        }
                        self.add(&mut sums, &spread, weights);
                    }
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn add(&self, sums: &mut [i32; STRIP], codes: &[u8], weights: &[i8]) {
        let zero = i16::from(self.job.codes.zero_point);
        let factors = codes.iter().zip(weights.iter().zip(&self.zeros));
        for (sum, (&code, (&weight, weight_zero))) in sums.iter_mut().zip(factors) {
            let (code, weight) = (i16::from(code) - zero, i16::from(weight) - weight_zero);
            *sum = sum.wrapping_add(i32::from(code) * i32::from(weight));
        }
    }
}
