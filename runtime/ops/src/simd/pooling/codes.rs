//! 8-bit codes over windows.

use std::ops::Range;

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::{Divisor, Image, Job, Window, place};

/// Channels of a vector of codes, and of four.
const BLOCK: usize = 64;
const BLOCKS: usize = 4 * BLOCK;
/// The most lanes of a vector of sums.
const LANES: usize = 16;
/// Vectors of sums that are taken at the same time.
const VECTORS: usize = 4;
/// The most taps whose sum is exact in `f32`.
const MAX_TAPS: usize = (1 << 24) / 255;

/// The greatest code of each window, 0 where no tap lies in the image. Signed codes are unsigned ones
/// whose highest bit is flipped.
///
/// # Panics
///
/// As [`super::max_pool`].
pub fn max_pool_codes(
    window: &Window,
    channels: usize,
    x: Image<'_, u8>,
    rows: Range<usize>,
    y: &mut [u8],
    y_stride: usize,
) {
    max_on(isa(), window, channels, x, rows, y, y_stride);
}

pub(super) fn max_on(
    isa: Isa,
    window: &Window,
    channels: usize,
    x: Image<'_, u8>,
    rows: Range<usize>,
    y: &mut [u8],
    y_stride: usize,
) {
    if let Some(job) = Job::new(window, channels, &x, rows, y.len(), y_stride) {
        on(isa, Maxima { job, x: x.data, y });
    }
}

/// The average code of each window: the sum as `f32` over the divisor, rounded half to even. The padding
/// that a divisor counts has the code `padding`, which is the input's code for zero; so have windows with
/// no tap that counts. Every instruction set gives the same bits.
///
/// # Panics
///
/// As [`super::max_pool`], or if the window has more than 65793 taps, whose sum may not be exact.
#[expect(clippy::too_many_arguments, reason = "as `average_pool`, and the code of the padding")]
pub fn average_pool_codes(
    window: &Window,
    channels: usize,
    x: Image<'_, u8>,
    divisor: Divisor,
    padding: u8,
    rows: Range<usize>,
    y: &mut [u8],
    y_stride: usize,
) {
    average_on(isa(), window, channels, x, Average { divisor, padding }, rows, y, y_stride);
}

/// What an average divides by, and the code of the padding.
#[derive(Clone, Copy)]
pub(super) struct Average {
    pub(super) divisor: Divisor,
    pub(super) padding: u8,
}

#[expect(clippy::too_many_arguments, reason = "the arguments of `average_pool_codes`")]
pub(super) fn average_on(
    isa: Isa,
    window: &Window,
    channels: usize,
    x: Image<'_, u8>,
    average: Average,
    rows: Range<usize>,
    y: &mut [u8],
    y_stride: usize,
) {
    if let Some(job) = Job::new(window, channels, &x, rows, y.len(), y_stride) {
        assert!(window.taps().is_some_and(|taps| taps <= MAX_TAPS), "taps whose sum is exact");
        let (x, y) = (x.data.as_ptr(), y.as_mut_ptr());
        on(isa, Averages { job, x, y, average });
    }
}

/// Where the pixel of a tap in the image begins.
#[inline(always)]
fn offset(job: &Job<'_>, at: [usize; 3], tap: [usize; 3]) -> usize {
    let window = job.window;
    let [plane, row, col] = [0, 1, 2].map(|axis| place::pixel(window, axis, at[axis], tap[axis]));
    ((plane * window.input[1] + row) * window.input[2] + col) * job.x_stride
}

/// The maxima of a job, in plain Rust: loops over blocks become vector code of the instruction set that
/// they are compiled for.
struct Maxima<'a> {
    job: Job<'a>,
    x: &'a [u8],
    y: &'a mut [u8],
}

impl Task for Maxima<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { job, x, y } = self;
        let [_, height, width] = job.window.output;
        let mut pixels = y.chunks_mut(job.y_stride.max(job.channels));
        for row in job.rows.0..job.rows.1 {
            for col in 0..width {
                let at = [row / height, row % height, col];
                let taps = job.inside(at);
                let Some(pixel) = pixels.next() else { return };
                let (wide, rest) = pixel[..job.channels].as_chunks_mut::<BLOCKS>();
                let mut first = 0;
                for to in wide {
                    *to = maxima(&job, x, first, at, &taps);
                    first += BLOCKS;
                }
                let (narrow, rest) = rest.as_chunks_mut::<BLOCK>();
                for to in narrow {
                    *to = maxima(&job, x, first, at, &taps);
                    first += BLOCK;
                }
                if !rest.is_empty() {
                    rest.fill(0);
                    for i in taps[0].clone() {
                        for j in taps[1].clone() {
                            for k in taps[2].clone() {
                                let codes = &x[offset(&job, at, [i, j, k]) + first..];
                                for (to, &code) in rest.iter_mut().zip(codes) {
                                    *to = code.max(*to);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The maxima of `N` channels from `first` on.
#[inline(always)]
fn maxima<const N: usize>(
    job: &Job<'_>,
    x: &[u8],
    first: usize,
    at: [usize; 3],
    taps: &[Range<usize>; 3],
) -> [u8; N] {
    let mut best = [0; N];
    for i in taps[0].clone() {
        for j in taps[1].clone() {
            for k in taps[2].clone() {
                let from = offset(job, at, [i, j, k]) + first;
                let Some(codes) = x.get(from..).and_then(<[u8]>::first_chunk::<N>) else {
                    continue;
                };
                for c in 0..N {
                    best[c] = codes[c].max(best[c]);
                }
            }
        }
    }
    best
}

/// The averages of a job, whose pixels lie where `x` and `y` say.
struct Averages<'a> {
    job: Job<'a>,
    x: *const u8,
    y: *mut u8,
    average: Average,
}

impl Task for Averages<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let job = &self.job;
        let [_, height, width] = job.window.output;
        let mut to = self.y;
        for row in job.rows.0..job.rows.1 {
            for col in 0..width {
                let at = [row / height, row % height, col];
                let taps = job.inside(at);
                let count = self.average.divisor.at(job.window, at, &taps);
                let inside = taps[0].len() * taps[1].len() * taps[2].len();
                // With nothing that counts, the divisor is 1 and the only code is the padding's.
                let padding = count.saturating_sub(inside) as i32 * i32::from(self.average.padding);
                let pixel = Pixel { at, taps, count: count as f32, padding };
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

/// An output pixel: its taps in the image, the divisor, and the sum of the padding.
struct Pixel {
    at: [usize; 3],
    taps: [Range<usize>; 3],
    count: f32,
    padding: i32,
}

impl Averages<'_> {
    /// Pools `V` vectors from channel `c` on, the last one of `len` channels.
    #[inline(always)]
    fn pool<S: Simd, const V: usize>(
        &self,
        simd: S,
        pixel: &Pixel,
        c: usize,
        len: usize,
        to: *mut u8,
    ) {
        let mut sums = [simd.splat_i(pixel.padding); V];
        for i in pixel.taps[0].clone() {
            for j in pixel.taps[1].clone() {
                for k in pixel.taps[2].clone() {
                    let from = self.x.wrapping_add(offset(&self.job, pixel.at, [i, j, k]) + c);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the pixel lies in the image, and has `len` channels there; the
                        // lanes hold a vector.
                        let codes = unsafe {
                            if len == S::LANES {
                                simd.load_u8(from.add(v * S::LANES))
                            } else {
                                let mut lanes = [0; LANES];
                                lanes.as_mut_ptr().copy_from_nonoverlapping(from, len);
                                simd.load_u8(lanes.as_ptr())
                            }
                        };
                        *sum = simd.add_i(*sum, codes);
                    }
                }
            }
        }
        let (count, inverse) = (simd.splat(pixel.count), simd.splat(1.0 / pixel.count));
        for (v, sum) in sums.iter().enumerate() {
            let sum = simd.int_to_float(*sum);
            let average = if S::FUSED {
                // Markstein's correction gives the quotient rounded as a division would.
                let near = simd.mul(sum, inverse);
                simd.fma(simd.nfma(near, count, sum), inverse, near)
            } else {
                simd.div(sum, count)
            };
            let codes = simd.to_int(average);
            // SAFETY: the output pixel has `len` channels of the vector; the lanes hold one.
            unsafe {
                if len == S::LANES {
                    simd.store_u8(to.add(c + v * S::LANES), codes);
                } else {
                    let mut lanes = [0; LANES];
                    simd.store_u8(lanes.as_mut_ptr(), codes);
                    to.add(c).copy_from_nonoverlapping(lanes.as_ptr(), len);
                }
            }
        }
    }
}
