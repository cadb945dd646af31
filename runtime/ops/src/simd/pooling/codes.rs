//! 8-bit codes over windows.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256i, __m512i};
use std::ops::Range;

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::bytes::Bytes;
use super::quads::Quads;
use super::{Divisor, Image, Job, Window};

/// The most lanes of a vector of sums.
const LANES: usize = 16;
/// Vectors that are pooled at the same time.
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
        let maxima = Maxima { job, x: x.data.as_ptr(), y: y.as_mut_ptr() };
        let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
        match isa.min(best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the machine has it, as `best` says; the door has been passed.
            Isa::Avx512 => unsafe { maxima.avx512() },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { maxima.avx2() },
            // SAFETY: every machine has plain Rust; the door has been passed.
            _ => unsafe { maxima.run::<[u8; 16]>() },
        }
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

/// An output pixel: its taps in the image, and where they begin.
struct Pixel {
    taps: [usize; 3],
    first: usize,
    steps: [usize; 3],
}

impl Pixel {
    #[inline(always)]
    fn new(job: &Job<'_>, at: [usize; 3], taps: &[Range<usize>; 3]) -> Self {
        let (first, steps) = job.first(at, taps);
        Self { taps: [0, 1, 2].map(|axis| taps[axis].len()), first, steps }
    }

    /// Where the first tap in the image of row `j` of plane `i` is.
    #[inline(always)]
    fn row(&self, i: usize, j: usize) -> usize {
        self.first + i * self.steps[0] + j * self.steps[1]
    }
}

/// The maxima of a job, whose pixels lie where `x` and `y` say.
struct Maxima<'a> {
    job: Job<'a>,
    x: *const u8,
    y: *mut u8,
}

impl Maxima<'_> {
    /// # Safety
    ///
    /// The machine has AVX-512 F and BW, and pixels lie where they should.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn avx512(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.run::<__m512i>() }
    }

    /// # Safety
    ///
    /// The machine has AVX2, and pixels lie where they should.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn avx2(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.run::<__m256i>() }
    }

    /// # Safety
    ///
    /// The machine has the instructions of the vectors, and pixels lie where they should.
    #[inline(always)]
    unsafe fn run<B: Bytes>(&self) {
        let job = &self.job;
        let mut to = self.y;
        for row in job.rows.0..job.rows.1 {
            let ([plane, row], mut taps) = job.row(row);
            for col in 0..job.window.output[2] {
                taps[2] = job.along(col);
                let pixel = Pixel::new(job, [plane, row, col], &taps);
                let mut c = 0;
                // SAFETY: the caller's promise; the vectors' channels are the job's.
                unsafe {
                    while c + VECTORS * B::LEN <= job.channels {
                        self.pool::<B, VECTORS>(&pixel, c, to);
                        c += VECTORS * B::LEN;
                    }
                    c = self.rest::<B>(&pixel, c, to);
                    c = self.rest::<[u8; 16]>(&pixel, c, to);
                    self.rest::<[u8; 1]>(&pixel, c, to);
                }
                to = to.wrapping_add(job.y_stride);
            }
        }
    }

    /// Pools vectors from channel `c` on, the last of which overlaps the one before rather than be less
    /// than whole; returns the channel that comes next.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`].
    #[inline(always)]
    unsafe fn rest<B: Bytes>(&self, pixel: &Pixel, mut c: usize, to: *mut u8) -> usize {
        let channels = self.job.channels;
        while c < channels && B::LEN <= channels {
            // SAFETY: the caller's promise; the vector's channels are the job's.
            unsafe { self.pool::<B, 1>(pixel, c.min(channels - B::LEN), to) }
            c += B::LEN;
        }
        c
    }

    /// Pools `V` vectors from channel `c` on.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`]; the job has those channels.
    #[inline(always)]
    unsafe fn pool<B: Bytes, const V: usize>(&self, pixel: &Pixel, c: usize, to: *mut u8) {
        // SAFETY: the caller's promise.
        let mut best = [unsafe { B::zero() }; V];
        for i in 0..pixel.taps[0] {
            for j in 0..pixel.taps[1] {
                let mut at = pixel.row(i, j);
                for _ in 0..pixel.taps[2] {
                    let from = self.x.wrapping_add(at + c);
                    for (v, best) in best.iter_mut().enumerate() {
                        // SAFETY: the pixel lies in the image, and has the channels.
                        *best = unsafe { best.max(B::load(from.add(v * B::LEN))) };
                    }
                    at = at.wrapping_add(pixel.steps[2]);
                }
            }
        }
        for (v, best) in best.into_iter().enumerate() {
            // SAFETY: the output pixel has the channels.
            unsafe { best.store(to.add(c + v * B::LEN)) }
        }
    }
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
        let mut to = self.y;
        let quads = 4 * S::LANES;
        let fits =
            job.channels >= quads && job.window.taps().is_some_and(|n| n <= Quads::<S>::MOST);
        for row in job.rows.0..job.rows.1 {
            let ([plane, row], mut taps) = job.row(row);
            for col in 0..job.window.output[2] {
                taps[2] = job.along(col);
                let at = [plane, row, col];
                let count = self.average.divisor.at(job.window, at, &taps);
                let inside = taps[0].len() * taps[1].len() * taps[2].len();
                // With nothing that counts, the divisor is 1 and the only code is the padding's.
                let padding = count.saturating_sub(inside) as i32 * i32::from(self.average.padding);
                let (count, inverse) = (count as f32, 1.0 / count as f32);
                let sum = Sum { pixel: Pixel::new(job, at, &taps), count, inverse, padding };
                let mut c = 0;
                if fits {
                    while c + VECTORS * quads <= job.channels {
                        self.pool_quads::<S, VECTORS>(simd, &sum, c, to);
                        c += VECTORS * quads;
                    }
                    while c < job.channels {
                        // The last ones overlap those before rather than be less than whole.
                        self.pool_quads::<S, 1>(simd, &sum, c.min(job.channels - quads), to);
                        c += quads;
                    }
                }
                while c < job.channels {
                    self.pool(simd, &sum, c, S::LANES.min(job.channels - c), to);
                    c += S::LANES;
                }
                to = to.wrapping_add(job.y_stride);
            }
        }
    }
}

/// An output pixel: the divisor and its inverse, and the sum of the padding.
struct Sum {
    pixel: Pixel,
    count: f32,
    inverse: f32,
    padding: i32,
}

impl Sum {
    /// The codes of sums.
    #[inline(always)]
    fn codes<S: Simd>(&self, simd: S, sums: S::I) -> S::I {
        let sum = simd.int_to_float(simd.add_i(sums, simd.splat_i(self.padding)));
        let count = simd.splat(self.count);
        let average = if S::FUSED {
            // Markstein's correction gives the quotient rounded as a division would.
            let inverse = simd.splat(self.inverse);
            let near = simd.mul(sum, inverse);
            simd.fma(simd.nfma(near, count, sum), inverse, near)
        } else {
            simd.div(sum, count)
        };
        simd.to_int(average)
    }
}

impl Averages<'_> {
    /// Pools `V` vectors of four channels per lane from channel `c` on.
    #[inline(always)]
    fn pool_quads<S: Simd, const V: usize>(&self, simd: S, sum: &Sum, c: usize, to: *mut u8) {
        let mut sums = [Quads::new(simd); V];
        for i in 0..sum.pixel.taps[0] {
            for j in 0..sum.pixel.taps[1] {
                let mut at = sum.pixel.row(i, j);
                for _ in 0..sum.pixel.taps[2] {
                    let from = self.x.wrapping_add(at + c);
                    for (v, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: the pixel lies in the image, and has the channels of all vectors.
                        let codes = unsafe { simd.load(from.add(v * 4 * S::LANES).cast()) };
                        sums.add(simd, simd.bits(codes));
                    }
                    at = at.wrapping_add(sum.pixel.steps[2]);
                }
            }
        }
        for (v, sums) in sums.into_iter().enumerate() {
            let [first, second, third, fourth] = sums.sums(simd);
            let (first, second) = (sum.codes(simd, first), sum.codes(simd, second));
            let (third, fourth) = (sum.codes(simd, third), sum.codes(simd, fourth));
            let low = simd.or(first, simd.shl::<8>(second));
            let codes = simd.or(low, simd.or(simd.shl::<16>(third), simd.shl::<24>(fourth)));
            // SAFETY: the output pixel has the channels of all vectors.
            unsafe { simd.store(to.add(c + v * 4 * S::LANES).cast(), simd.float(codes)) }
        }
    }

    /// Pools `len` channels from channel `c` on.
    #[inline(always)]
    fn pool<S: Simd>(&self, simd: S, sum: &Sum, c: usize, len: usize, to: *mut u8) {
        let mut sums = simd.splat_i(0);
        for i in 0..sum.pixel.taps[0] {
            for j in 0..sum.pixel.taps[1] {
                let mut at = sum.pixel.row(i, j);
                for _ in 0..sum.pixel.taps[2] {
                    let from = self.x.wrapping_add(at + c);
                    // SAFETY: the pixel lies in the image, and has `len` channels there; the lanes hold a
                    // vector.
                    let codes = unsafe {
                        if len == S::LANES {
                            simd.load_u8(from)
                        } else {
                            let mut lanes = [0; LANES];
                            lanes.as_mut_ptr().copy_from_nonoverlapping(from, len);
                            simd.load_u8(lanes.as_ptr())
                        }
                    };
                    sums = simd.add_i(sums, codes);
                    at = at.wrapping_add(sum.pixel.steps[2]);
                }
            }
        }
        let codes = sum.codes(simd, sums);
        // SAFETY: the output pixel has `len` channels of the vector; the lanes hold one.
        unsafe {
            if len == S::LANES {
                simd.store_u8(to.add(c), codes);
            } else {
                let mut lanes = [0; LANES];
                simd.store_u8(lanes.as_mut_ptr(), codes);
                to.add(c).copy_from_nonoverlapping(lanes.as_ptr(), len);
            }
        }
    }
}
