//! Max and average pooling of 8-bit values: separable where a vector fits the channels, else pixel by pixel.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256i, __m512i};
use std::marker::PhantomData;
use std::ops::Range;

use super::bytes::{ByteVector, Quotient};
use super::separable::{Fold, Separable, suits};
use super::{Divisor, Image, Job, Window};
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// The most lanes of a vector of sums.
const LANES: usize = 16;
/// The most taps whose sum is exact in `f32`.
const MAX_TAPS: usize = (1 << 24) / 255;

/// Computes the maximum of each window; 0 if no tap is inside the image. Callers with signed values invert the highest
/// bit of inputs and outputs.
///
/// # Panics
///
/// Panics like [`super::max_pool`].
pub fn max_pool_u8(
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
        let (x, y) = (x.data.as_ptr(), y.as_mut_ptr());
        if !pool_separably(isa, Maxima, &job, x, y) {
            // SAFETY: `Job::new` checked that the pixels of the job are within `x` and `y`.
            unsafe { maxima_by_pixel(&job, x, y) }
        }
    }
}

/// Computes the average of each window: the sum as `f32` over the divisor, rounded half to even. Padding that the
/// divisor counts has the value `padding`, the input's zero point; so does the output of windows without counted taps.
/// Every instruction set gives the same bits.
///
/// # Panics
///
/// Panics like [`super::max_pool`], or if the window has more than 65793 taps, whose sum may not be exact.
#[expect(clippy::too_many_arguments, reason = "as `average_pool`, and the value of the padding")]
pub fn average_pool_u8(
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

/// The divisor of an average, and the value of the padding.
#[derive(Clone, Copy)]
pub(super) struct Average {
    pub(super) divisor: Divisor,
    pub(super) padding: u8,
}

#[expect(clippy::too_many_arguments, reason = "the arguments of `average_pool_u8`")]
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
        let has_few_taps = window.taps().is_some_and(|taps| taps <= Quotient::MAX_DIVISOR);
        if !(has_few_taps && pool_separably(isa, average, &job, x, y)) {
            dispatch(isa, Averages { job, x, y, average });
        }
    }
}

/// An output pixel: the number of its taps inside the image along each axis, the index of the first tap's element, and
/// the strides between taps.
struct Pixel {
    taps: [usize; 3],
    first: usize,
    steps: [usize; 3],
}

impl Pixel {
    #[inline(always)]
    fn new(job: &Job<'_>, output: [usize; 3], taps: &[Range<usize>; 3]) -> Self {
        let (first, steps) = job.first_tap(output, taps);
        Self { taps: [0, 1, 2].map(|axis| taps[axis].len()), first, steps }
    }

    /// Returns the element of the first tap in row `j` of plane `i`, counted from the first tap.
    #[inline(always)]
    fn row(&self, i: usize, j: usize) -> usize {
        self.first + i * self.steps[0] + j * self.steps[1]
    }
}

/// A pooling of 8-bit values (maxima or averages), which has a fold for each type of vector.
trait Pool: Copy {
    type WithVector<B: ByteVector>: Fold<Item = u8>;

    /// The fold for vectors `B`.
    fn with_vector<B: ByteVector>(self) -> Self::WithVector<B>;
}

/// Max pooling.
#[derive(Clone, Copy)]
struct Maxima;

impl Pool for Maxima {
    type WithVector<B: ByteVector> = MaximaOf<B>;

    fn with_vector<B: ByteVector>(self) -> MaximaOf<B> {
        MaximaOf(PhantomData)
    }
}

impl Pool for Average {
    type WithVector<B: ByteVector> = AveragesOf<B>;

    fn with_vector<B: ByteVector>(self) -> AveragesOf<B> {
        AveragesOf(self, PhantomData)
    }
}

#[derive(Clone, Copy)]
struct MaximaOf<B>(PhantomData<B>);

impl<B: ByteVector> Fold for MaximaOf<B> {
    type Item = u8;
    type Acc = B;
    type Scale = ();

    const LEN: usize = B::LEN;
    const IS_WIDE: bool = B::LEN > 16;
    const ASSOCIATIVE: bool = true;

    #[inline(always)]
    unsafe fn identity(self) -> B {
        // SAFETY: the caller has the instruction set of `B`; no memory is accessed.
        unsafe { B::zero() }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> B {
        // SAFETY: the caller has the instruction set of `B`, and `LEN` values at `from` to read.
        unsafe { B::load(from) }
    }
    #[inline(always)]
    unsafe fn combine(self, accumulator: B, values: B) -> B {
        // SAFETY: the caller has the instruction set of `B`; no memory is accessed.
        unsafe { accumulator.max(values) }
    }
    #[inline(always)]
    fn divisor(self) -> Divisor {
        Divisor::Inside
    }
    #[inline(always)]
    unsafe fn scale(self, _: usize, _: usize) {}
    #[inline(always)]
    unsafe fn store(self, accumulator: B, (): (), to: *mut u8) {
        // SAFETY: the caller has the instruction set of `B`, and `LEN` values at `to` to write.
        unsafe { accumulator.store(to) }
    }
}

#[derive(Clone, Copy)]
struct AveragesOf<B>(Average, PhantomData<B>);

impl<B: ByteVector> Fold for AveragesOf<B> {
    type Item = u8;
    type Acc = B::Sums;
    type Scale = Quotient;

    const LEN: usize = B::LEN;
    const IS_WIDE: bool = B::LEN > 16;
    const ASSOCIATIVE: bool = true;

    #[inline(always)]
    unsafe fn identity(self) -> B::Sums {
        // SAFETY: the caller has the instruction set of `B`; no memory is accessed.
        unsafe { B::zero().sums() }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> B::Sums {
        // SAFETY: the caller has the instruction set of `B`, and `LEN` values at `from` to read.
        unsafe { B::load(from).sums() }
    }
    #[inline(always)]
    unsafe fn combine(self, accumulator: B::Sums, values: B::Sums) -> B::Sums {
        // SAFETY: the caller has the instruction set of `B`; no memory is accessed.
        unsafe { B::add(accumulator, values) }
    }
    #[inline(always)]
    fn divisor(self) -> Divisor {
        self.0.divisor
    }
    #[inline(always)]
    unsafe fn scale(self, divisor: usize, inside: usize) -> Quotient {
        Quotient::new(divisor, divisor.saturating_sub(inside) * usize::from(self.0.padding))
    }
    #[inline(always)]
    unsafe fn store(self, accumulator: B::Sums, quotient: Quotient, to: *mut u8) {
        // SAFETY: the caller has the instruction set of `B`, and `LEN` values at `to` to write.
        unsafe { B::divide(accumulator, quotient).store(to) }
    }
}

/// Pools a job from image `x` to image `y` with the widest vectors that its channels fill. Returns false, without
/// pooling, if the algorithm does not suit the job.
fn pool_separably(isa: Isa, pool: impl Pool, job: &Job<'_>, x: *const u8, y: *mut u8) -> bool {
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    let isa = isa.min(best);
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512 && job.channels >= <__m512i as ByteVector>::LEN {
        let fold = pool.with_vector::<__m512i>();
        // SAFETY: `best` found AVX-512; the caller's `Job::new` checked that the pixels of the job
        // are within `x` and `y`.
        return suits(fold, job) && unsafe { avx512(Separable { fold, job, x, y }) };
    }
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx2 && job.channels >= <__m256i as ByteVector>::LEN {
        let fold = pool.with_vector::<__m256i>();
        // SAFETY: `isa` found AVX2; the job suits the fold, and its pixels are within `x` and `y`.
        return suits(fold, job) && unsafe { avx2(Separable { fold, job, x, y }) };
    }
    let fold = pool.with_vector::<[u8; 16]>();
    if !suits(fold, job) {
        return false;
    }
    // SAFETY: plain Rust needs no instruction set; the caller's `Job::new` checked that the pixels
    // of the job are within `x` and `y`.
    unsafe { Separable { fold, job, x, y }.run() }
    true
}

/// Runs a pooling with AVX-512; returns true.
///
/// # Safety
///
/// The machine has AVX-512 F and BW, the job suits the fold, and the pixels of its window lie within its `x` and `y`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn avx512(separable: Separable<'_, impl Fold>) -> bool {
    // SAFETY: this function has the instructions; the job suits the fold, and its pixels are at its
    // `x` and `y`.
    unsafe { separable.run() }
    true
}

/// Runs a pooling with AVX2; returns true.
///
/// # Safety
///
/// The machine has AVX2, the job suits the fold, and the pixels of its window lie within its `x` and `y`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(separable: Separable<'_, impl Fold>) -> bool {
    // SAFETY: this function has the instructions; the job suits the fold, and its pixels are at its
    // `x` and `y`.
    unsafe { separable.run() }
    true
}

/// Computes the maxima of any window, pixel by pixel.
///
/// # Safety
///
/// The pixels of the job's windows are inside `x` and `y`.
unsafe fn maxima_by_pixel(job: &Job<'_>, x: *const u8, y: *mut u8) {
    let mut to = y;
    for row in job.rows.0..job.rows.1 {
        let ([plane, row], mut taps) = job.row(row);
        for col in 0..job.window.output[2] {
            taps[2] = job.taps_along_row(col);
            let pixel = Pixel::new(job, [plane, row, col], &taps);
            // SAFETY: `to` is one of the job's output pixels in `y`, of `job.channels` bytes.
            let maxima = unsafe { std::slice::from_raw_parts_mut(to, job.channels) };
            maxima.fill(0);
            for i in 0..pixel.taps[0] {
                for j in 0..pixel.taps[1] {
                    let mut element = pixel.row(i, j);
                    for _ in 0..pixel.taps[2] {
                        let from = x.wrapping_add(element);
                        // SAFETY: `element` is a pixel of the image that `x` holds, of `job.channels` bytes.
                        let values = unsafe { std::slice::from_raw_parts(from, job.channels) };
                        for (maxima, &value) in maxima.iter_mut().zip(values) {
                            *maxima = value.max(*maxima);
                        }
                        element = element.wrapping_add(pixel.steps[2]);
                    }
                }
            }
            to = to.wrapping_add(job.y_stride);
        }
    }
}

/// The loop over the averages of a job, from image `x` to image `y`.
struct Averages<'a> {
    job: Job<'a>,
    x: *const u8,
    y: *mut u8,
    average: Average,
}

impl SimdOp for Averages<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let job = &self.job;
        let mut to = self.y;
        for row in job.rows.0..job.rows.1 {
            let ([plane, row], mut taps) = job.row(row);
            for col in 0..job.window.output[2] {
                taps[2] = job.taps_along_row(col);
                let output = [plane, row, col];
                let divisor = self.average.divisor.count(job.window, output, &taps);
                let inside = taps[0].len() * taps[1].len() * taps[2].len();
                // Without counted taps the divisor is 1, so that the average is the value of the padding.
                let padding =
                    divisor.saturating_sub(inside) as i32 * i32::from(self.average.padding);
                let (divisor, inverse) = (divisor as f32, 1.0 / divisor as f32);
                let sum = Sum { pixel: Pixel::new(job, output, &taps), divisor, inverse, padding };
                let mut c = 0;
                while c < job.channels {
                    self.pool(simd, &sum, c, S::LANES.min(job.channels - c), to);
                    c += S::LANES;
                }
                to = to.wrapping_add(job.y_stride);
            }
        }
    }
}

/// The divisor of an output pixel, its inverse, and the sum of the padding.
struct Sum {
    pixel: Pixel,
    divisor: f32,
    inverse: f32,
    padding: i32,
}

impl Sum {
    /// Divides sums.
    #[inline(always)]
    fn values<S: Vector>(&self, simd: S, sums: S::I) -> S::I {
        let sum = simd.int_to_float(simd.add_i(sums, simd.splat_i(self.padding)));
        let divisor = simd.splat(self.divisor);
        let average = if S::FUSED {
            // Multiplies by the inverse; Markstein's correction then gives the same rounding as a division.
            let inverse = simd.splat(self.inverse);
            let quotient = simd.mul(sum, inverse);
            simd.fma(simd.fnma(quotient, divisor, sum), inverse, quotient)
        } else {
            simd.div(sum, divisor)
        };
        simd.to_int(average)
    }
}

impl Averages<'_> {
    /// Pools `len` channels from channel `c` on.
    #[inline(always)]
    fn pool<S: Vector>(&self, simd: S, sum: &Sum, c: usize, len: usize, to: *mut u8) {
        let mut sums = simd.splat_i(0);
        for i in 0..sum.pixel.taps[0] {
            for j in 0..sum.pixel.taps[1] {
                let mut element = sum.pixel.row(i, j);
                for _ in 0..sum.pixel.taps[2] {
                    let from = self.x.wrapping_add(element + c);
                    // SAFETY: the pixel is inside the image, and has `len` channels there; the
                    // lanes hold a vector.
                    let values = unsafe {
                        if len == S::LANES {
                            simd.load_u8(from)
                        } else {
                            let mut lanes = [0; LANES];
                            lanes.as_mut_ptr().copy_from_nonoverlapping(from, len);
                            simd.load_u8(lanes.as_ptr())
                        }
                    };
                    sums = simd.add_i(sums, values);
                    element = element.wrapping_add(sum.pixel.steps[2]);
                }
            }
        }
        let values = sum.values(simd, sums);
        // SAFETY: the output pixel has `len` channels of the vector; the lanes hold one.
        unsafe {
            if len == S::LANES {
                simd.store_u8(to.add(c), values);
            } else {
                let mut lanes = [0; LANES];
                simd.store_u8(lanes.as_mut_ptr(), values);
                to.add(c).copy_from_nonoverlapping(lanes.as_ptr(), len);
            }
        }
    }
}
