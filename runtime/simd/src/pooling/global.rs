//! Global pooling: averages and sums of each channel over all pixels of an image.

use super::quads::Quads;
use super::{Image, bounds};
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Vectors accumulated at the same time.
const VECTORS: usize = 4;
/// Pixels per partial sum before it is added to the total, which limits the rounding error.
const DEPTH: usize = 64;
/// The most lanes of a vector.
const LANES: usize = 16;

/// Computes the average of each channel over `pixels` pixels; `y` has one element per channel. NaN if there are no
/// pixels.
///
/// The error of a sum is at most `(64 + pixels / 64)` times half an ulp of the sum of absolute values.
///
/// # Panics
///
/// Panics if `x` is too short, or its pixels overlap.
pub fn global_average(x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
    global_average_on(isa(), x, pixels, y);
}

pub(super) fn global_average_on(isa: Isa, x: Image<'_, f32>, pixels: usize, y: &mut [f32]) {
    assert!(bounds::holds(x.data.len(), Some(pixels), x.stride, y.len()), "an image of its pixels");
    dispatch(isa, Averages { x, pixels, y });
}

/// Computes the sum of each channel over `pixels` pixels, modulo 2^32; `y` has one element per channel.
///
/// # Panics
///
/// Panics like [`global_average`].
pub fn global_sums(x: Image<'_, u8>, pixels: usize, y: &mut [u32]) {
    global_sums_on(isa(), x, pixels, y);
}

pub(super) fn global_sums_on(isa: Isa, x: Image<'_, u8>, pixels: usize, y: &mut [u32]) {
    assert!(bounds::holds(x.data.len(), Some(pixels), x.stride, y.len()), "an image of its pixels");
    dispatch(isa, Sums { x, pixels, y });
}

/// The loop of [`global_average`].
struct Averages<'a> {
    x: Image<'a, f32>,
    pixels: usize,
    y: &'a mut [f32],
}

impl SimdOp for Averages<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(mut self, simd: S) {
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
    /// Averages `V` vectors from channel `channel` on; the last one has `len` channels.
    #[inline(always)]
    fn average<S: Vector, const V: usize>(&mut self, simd: S, channel: usize, len: usize) {
        let zero = simd.splat(0.0);
        let mut totals = [zero; V];
        let mut from = self.x.data.as_ptr().wrapping_add(channel);
        let mut remaining = self.pixels;
        while remaining > 0 {
            let count = remaining.min(DEPTH);
            let mut sums = [zero; V];
            for _ in 0..count {
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the pixel has `len` channels of the vector.
                    let x = unsafe { simd.load_tail(from.add(v * S::LANES), len, zero) };
                    *sum = simd.add(*sum, x);
                }
                from = from.wrapping_add(self.x.stride);
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = simd.add(*total, sum);
            }
            remaining -= count;
        }
        let count = simd.splat(self.pixels as f32);
        for (v, total) in totals.iter().enumerate() {
            // SAFETY: `y` has `len` channels of the vector.
            unsafe {
                let to = self.y.as_mut_ptr().add(channel + v * S::LANES);
                simd.store_tail(to, len, simd.div(*total, count));
            }
        }
    }
}

/// The loop of [`global_sums`].
struct Sums<'a> {
    x: Image<'a, u8>,
    pixels: usize,
    y: &'a mut [u32],
}

impl SimdOp for Sums<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { x, pixels, y } = self;
        let mut c = 0;
        while c + VECTORS * 4 * S::LANES <= y.len() {
            block::<S, VECTORS>(simd, x, pixels, y, c);
            c += VECTORS * 4 * S::LANES;
        }
        while c + 4 * S::LANES <= y.len() {
            block::<S, 1>(simd, x, pixels, y, c);
            c += 4 * S::LANES;
        }
        while c + S::LANES <= y.len() {
            let mut sums = simd.splat_i(0);
            let mut from = x.data.as_ptr().wrapping_add(c);
            for _ in 0..pixels {
                // SAFETY: the pixel has the channels, as `y` has.
                sums = simd.add_i(sums, unsafe { simd.load_u8(from) });
                from = from.wrapping_add(x.stride);
            }
            // SAFETY: `y` has the channels.
            unsafe { simd.store(y.as_mut_ptr().add(c).cast(), simd.float(sums)) }
            c += S::LANES;
        }
        let tail = &mut y[c..];
        if tail.is_empty() {
            return;
        }
        tail.fill(0);
        for pixel in 0..pixels {
            let values = &x.data[pixel * x.stride + c..];
            for (sum, &value) in tail.iter_mut().zip(values) {
                *sum = sum.wrapping_add(value.into());
            }
        }
    }
}

/// Sums `V` vectors of bytes from channel `c` on.
#[inline(always)]
fn block<S: Vector, const V: usize>(
    simd: S,
    x: Image<'_, u8>,
    pixels: usize,
    y: &mut [u32],
    c: usize,
) {
    let mut totals = [[simd.splat_i(0); 4]; V];
    let mut from = x.data.as_ptr().wrapping_add(c);
    let mut remaining = pixels;
    while remaining > 0 {
        let count = remaining.min(Quads::<S>::MAX_COUNT);
        let mut sums = [Quads::new(simd); V];
        for _ in 0..count {
            for (v, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the pixel has the channels of all vectors, as `y` has.
                let values = unsafe { simd.load(from.add(v * 4 * S::LANES).cast()) };
                sums.add(simd, simd.bits(values));
            }
            from = from.wrapping_add(x.stride);
        }
        for (totals, sums) in totals.iter_mut().zip(sums) {
            for (total, sum) in totals.iter_mut().zip(sums.sums(simd)) {
                *total = simd.add_i(*total, sum);
            }
        }
        remaining -= count;
    }
    for (v, totals) in totals.iter().enumerate() {
        let mut rows = [[0u32; LANES]; 4];
        for (row, total) in rows.iter_mut().zip(totals) {
            // SAFETY: a row has as many elements as any vector has lanes.
            unsafe { simd.store(row.as_mut_ptr().cast(), simd.float(*total)) }
        }
        for lane in (0..S::LANES).step_by(4) {
            let to = y[c + 4 * (v * S::LANES + lane)..][..16].as_mut_ptr();
            // SAFETY: each of the four rows has four lanes from `lane` on, and `to` 16 elements.
            unsafe { simd.quad4(rows.as_ptr().cast::<u32>().add(lane), LANES, to, 4) }
        }
    }
}
