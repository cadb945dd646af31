//! Averages and sums over all pixels of an image.

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::{Image, place};

/// Vectors that are added up at the same time.
const VECTORS: usize = 4;
/// Pixels that one sum takes up before it goes to the total: both stay short.
const DEPTH: usize = 64;
/// Channels of codes that are added up at the same time.
const BLOCK: usize = 64;

/// The average of each channel over `pixels` pixels; `y` has an element per channel. A NaN for none.
///
/// Sums are off by at most `(64 + pixels / 64)` times half a unit in the last place of the sum of sizes.
///
/// # Panics
///
/// If `x` is too short, or its pixels overlap.
pub fn global_average(x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
    global_average_on(isa(), x, pixels, y);
}

pub(super) fn global_average_on(isa: Isa, x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
    assert!(place::holds(x.data.len(), Some(pixels), x.stride, y.len()), "an image of its pixels");
    on(isa, Averages { x, pixels, y });
}

/// The sum of each channel's codes over `pixels` pixels, modulo 2^32; `y` has an element per channel.
///
/// # Panics
///
/// As [`global_average`].
pub fn global_sums(x: Image<'_, u8>, pixels: usize, y: &mut [u32]) {
    global_sums_on(isa(), x, pixels, y);
}

pub(super) fn global_sums_on(isa: Isa, x: Image<'_, u8>, pixels: usize, y: &mut [u32]) {
    assert!(place::holds(x.data.len(), Some(pixels), x.stride, y.len()), "an image of its pixels");
    on(isa, Sums { x, pixels, y });
}

struct Averages<'a> {
    x: Image<'a, f32>,
    pixels: usize,
    y: &'a mut [f32],
}

impl Task for Averages<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let mut c = 0;
        while c + VECTORS * S::LANES <= self.y.len() {
            self.average::<S, VECTORS>(simd, c, S::LANES);
            c += VECTORS * S::LANES;
        }
        while c < self.y.len() {
            self.average::<S, 1>(simd, c, S::LANES.min(self.y.len() - c));
            c += S::LANES;
        }
    }
}

impl Averages<'_> {
    /// `V` vectors from channel `c` on, the last one of `len` channels.
    #[inline(always)]
    fn average<S: Simd, const V: usize>(&mut self, simd: S, c: usize, len: usize) {
        let zero = simd.splat(0.0);
        let mut totals = [zero; V];
        let mut from = self.x.data.as_ptr().wrapping_add(c);
        let mut left = self.pixels;
        while left > 0 {
            let count = left.min(DEPTH);
            let mut sums = [zero; V];
            for _ in 0..count {
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the pixel has `len` channels of the vector.
                    let x = unsafe { simd.load_head(from.add(v * S::LANES), len, zero) };
                    *sum = simd.add(*sum, x);
                }
                from = from.wrapping_add(self.x.stride);
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = simd.add(*total, sum);
            }
            left -= count;
        }
        let count = simd.splat(self.pixels as f32);
        for (v, total) in totals.iter().enumerate() {
            // SAFETY: `y` has `len` channels of the vector.
            unsafe {
                let to = self.y.as_mut_ptr().add(c + v * S::LANES);
                simd.store_head(to, len, simd.div(*total, count));
            }
        }
    }
}

struct Sums<'a> {
    x: Image<'a, u8>,
    pixels: usize,
    y: &'a mut [u32],
}

impl Task for Sums<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (blocks, tail) = self.y.as_chunks_mut::<BLOCK>();
        let first = blocks.len() * BLOCK;
        for (i, y) in blocks.iter_mut().enumerate() {
            let mut sums = [0u32; BLOCK];
            for pixel in 0..self.pixels {
                let from = pixel * self.x.stride + i * BLOCK;
                let Some(codes) = self.x.data.get(from..).and_then(<[u8]>::first_chunk::<BLOCK>)
                else {
                    continue;
                };
                for c in 0..BLOCK {
                    sums[c] = sums[c].wrapping_add(codes[c].into());
                }
            }
            *y = sums;
        }
        if tail.is_empty() {
            return;
        }
        tail.fill(0);
        for pixel in 0..self.pixels {
            let codes = &self.x.data[pixel * self.x.stride + first..];
            for (sum, &code) in tail.iter_mut().zip(codes) {
                *sum = sum.wrapping_add(code.into());
            }
        }
    }
}
