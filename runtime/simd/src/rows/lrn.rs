//! Local response normalization across channels: ONNX's `LRN`.
//!
//! The squares of some rows are written to a buffer in the first-level cache, separated by zeros, which windows read
//! past the ends of a row. The sum over a window is then a sum of shifted loads. A whole block of squares is stored
//! before any is loaded, because a load that spans two recent stores waits for both.

use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Elements of the buffer of squares, for vectors of any instruction set.
const BUFFER: usize = 4096;

/// The parameters of [`lrn`], named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lrn {
    /// Channels of a window: `(size - 1) / 2` before the channel, and `size / 2` after it.
    pub size: usize,
    /// Factor of the mean of squares over the window; missing channels count as zeros.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
    /// Added to the weighted mean.
    pub bias: f32,
}

/// Computes `x / (bias + alpha / size * sum of x^2 over a window of channels)^beta` for every row of `x: [rows,
/// channels]`, such as the pixels of an NHWC image.
///
/// The relative error is `1e-6 + 1e-7 * beta * size` if `bias` and `alpha` are not negative, plus `1e-7 * beta *
/// |log(base)|` for exponents other than 0.5, 0.75 and 1. A negative base gives NaN. If the slices do not hold the same
/// number of whole rows, or `size` is 0, `y` stays unchanged.
pub fn lrn(x: &[f32], channels: usize, lrn: &Lrn, y: &mut [f32]) {
    lrn_on(isa(), x, channels, lrn, y);
}

pub(super) fn lrn_on(isa: Isa, x: &[f32], channels: usize, lrn: &Lrn, y: &mut [f32]) {
    let fits =
        channels != 0 && lrn.size != 0 && x.len() == y.len() && x.len().is_multiple_of(channels);
    debug_assert!(fits, "rows of channels, and a window");
    if !fits {
        return;
    }
    // A window is clipped to the row.
    let before = ((lrn.size - 1) / 2).min(channels - 1);
    let after = (lrn.size / 2).min(channels - 1);
    let weight = lrn.alpha / lrn.size as f32;
    let rows = Rows { x, channels, before, after, weight, bias: lrn.bias, y };
    match lrn.beta {
        0.5 => dispatch(isa, Normalize { rows, power: Half }),
        0.75 => dispatch(isa, Normalize { rows, power: ThreeQuarters }),
        1.0 => dispatch(isa, Normalize { rows, power: Whole }),
        beta => dispatch(isa, Normalize { rows, power: Arbitrary(beta) }),
    }
}

/// The rows to normalize. The slices have the same length, a multiple of `channels`, which is not 0.
struct Rows<'a> {
    x: &'a [f32],
    channels: usize,
    /// Channels of a window before and after its channel; less than `channels`.
    before: usize,
    after: usize,
    /// Factor of a window's sum of squares.
    weight: f32,
    bias: f32,
    y: &'a mut [f32],
}

/// The loop over rows for one exponent.
struct Normalize<'a, P> {
    rows: Rows<'a>,
    power: P,
}

/// The exponent of the divisor. Common exponents need no exponential function.
trait Power: Copy {
    /// Computes `x / base^self`. Must be `#[inline(always)]`.
    fn divide<S: Vector>(self, simd: S, x: S::F, base: S::F) -> S::F;
}

#[derive(Clone, Copy, Debug)]
struct Half;

impl Power for Half {
    #[inline(always)]
    fn divide<S: Vector>(self, simd: S, x: S::F, base: S::F) -> S::F {
        simd.mul(x, simd.rsqrt(base))
    }
}

#[derive(Clone, Copy, Debug)]
struct ThreeQuarters;

impl Power for ThreeQuarters {
    #[inline(always)]
    fn divide<S: Vector>(self, simd: S, x: S::F, base: S::F) -> S::F {
        let half = simd.rsqrt(base);
        simd.mul(simd.mul(x, half), simd.sqrt(half))
    }
}

#[derive(Clone, Copy, Debug)]
struct Whole;

impl Power for Whole {
    #[inline(always)]
    fn divide<S: Vector>(self, simd: S, x: S::F, base: S::F) -> S::F {
        simd.div(x, base)
    }
}

#[derive(Clone, Copy, Debug)]
struct Arbitrary(f32);

impl Power for Arbitrary {
    #[inline(always)]
    fn divide<S: Vector>(self, simd: S, x: S::F, base: S::F) -> S::F {
        simd.mul(x, simd.exp(simd.mul(simd.log(base), simd.splat(-self.0))))
    }
}

impl<P: Power> SimdOp for Normalize<'_, P> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { rows, power } = self;
        match (rows.before, rows.after) {
            (1, 1) => rows.normalize::<S, P, 3>(simd, power),
            (2, 2) => rows.normalize::<S, P, 5>(simd, power),
            _ => rows.normalize::<S, P, 0>(simd, power),
        }
    }
}

impl Rows<'_> {
    /// Processes windows of `SIZE` channels, or of any size if it is 0.
    #[inline(always)]
    fn normalize<S: Vector, P: Power, const SIZE: usize>(self, simd: S, power: P) {
        let channels = self.channels;
        let mut buffer = [0.0; BUFFER];
        // Zeros before and after a row, in whole vectors.
        let gap = self.before.max(self.after).next_multiple_of(S::LANES);
        let pitch = channels.next_multiple_of(S::LANES) + gap;
        if gap > BUFFER / 4 {
            self.wide(simd, power);
        } else if gap + pitch <= BUFFER {
            let elements_per_block = (BUFFER - gap) / pitch * channels;
            let blocks =
                self.x.chunks(elements_per_block).zip(self.y.chunks_mut(elements_per_block));
            for (x, y) in blocks {
                let mut position = gap;
                for row in x.chunks_exact(channels) {
                    squares(simd, row, 0, &mut buffer[position..position + pitch - gap]);
                    position += pitch;
                }
                let mut position = gap - self.before;
                for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                    let sums = &buffer[position..position + pitch - gap + self.before + self.after];
                    let window = Window::new(self.before, self.after, self.weight, self.bias);
                    window.normalize::<S, P, SIZE>(simd, power, x, sums, y);
                    position += pitch;
                }
            }
        } else {
            let chunk = BUFFER - 2 * gap;
            let rows = self.x.chunks_exact(channels).zip(self.y.chunks_exact_mut(channels));
            for (x, y) in rows {
                let mut from = 0;
                while from < channels {
                    // The squares of a chunk and of the channels around it. Positions before the row are zeros.
                    let zeros_before = gap.saturating_sub(from);
                    buffer[..zeros_before].fill(0.0);
                    squares(simd, x, from.saturating_sub(gap), &mut buffer[zeros_before..]);
                    let count = chunk.min(channels - from);
                    let (x, y) = (&x[from..from + count], &mut y[from..from + count]);
                    let window = Window::new(self.before, self.after, self.weight, self.bias);
                    let sums = &buffer[gap - self.before..];
                    window.normalize::<S, P, SIZE>(simd, power, x, sums, y);
                    from += chunk;
                }
            }
        }
    }

    /// Processes windows that are too wide for the buffer, one channel at a time.
    #[inline(always)]
    fn wide<S: Vector, P: Power>(self, simd: S, power: P) {
        let channels = self.channels;
        for (x, y) in self.x.chunks_exact(channels).zip(self.y.chunks_exact_mut(channels)) {
            for c in 0..channels {
                let from = c.saturating_sub(self.before);
                let to = channels.min(c + self.after + 1);
                let mut sum = 0.0;
                for x in &x[from..to] {
                    sum += f64::from(*x) * f64::from(*x);
                }
                let base = (sum * f64::from(self.weight) + f64::from(self.bias)) as f32;
                let value = power.divide(simd, simd.splat(x[c]), simd.splat(base));
                // SAFETY: one element of the row.
                unsafe { simd.store_tail(y.as_mut_ptr().add(c), 1, value) }
            }
        }
    }
}

/// Writes the squares of a row from `from` on to whole vectors of `to`, followed by zeros.
#[inline(always)]
fn squares<S: Vector>(simd: S, row: &[f32], start: usize, to: &mut [f32]) {
    let zero = simd.splat(0.0);
    let mut i = 0;
    while i + S::LANES <= to.len() {
        let remaining = row.len().saturating_sub(start + i);
        let x = if remaining >= S::LANES {
            // SAFETY: a vector from there on is within the row.
            unsafe { simd.load(row.as_ptr().add(start + i)) }
        } else if remaining > 0 {
            // SAFETY: `remaining` elements are left.
            unsafe { simd.load_tail(row.as_ptr().add(start + i), remaining, zero) }
        } else {
            zero
        };
        // SAFETY: a vector from `i` on is within `to`.
        unsafe { simd.store(to.as_mut_ptr().add(i), simd.mul(x, x)) }
        i += S::LANES;
    }
}

/// The window of a normalization.
#[derive(Clone, Copy, Debug)]
struct Window {
    size: usize,
    weight: f32,
    bias: f32,
}

impl Window {
    fn new(before: usize, after: usize, weight: f32, bias: f32) -> Self {
        Self { size: before + after + 1, weight, bias }
    }

    /// Normalizes `x`. `squares[c..c + size]` is the window of `x[c]`; the last vector must be complete as well.
    #[inline(always)]
    fn normalize<S: Vector, P: Power, const SIZE: usize>(
        self,
        simd: S,
        power: P,
        x: &[f32],
        squares: &[f32],
        y: &mut [f32],
    ) {
        let len = x.len().min(y.len());
        let size = if SIZE == 0 { self.size } else { SIZE };
        if squares.len() + 1 < len.next_multiple_of(S::LANES) + size {
            return;
        }
        let (weight, bias) = (simd.splat(self.weight), simd.splat(self.bias));
        let mut i = 0;
        while i < len {
            // SAFETY: vectors from `i` to `i + size - 1` on are within the squares.
            let mut sum = unsafe { simd.load(squares.as_ptr().add(i)) };
            let mut k = 1;
            while k < size {
                // SAFETY: `squares` has `size - 1` more after that vector.
                sum = simd.add(sum, unsafe { simd.load(squares.as_ptr().add(i + k)) });
                k += 1;
            }
            let base = simd.fma(sum, weight, bias);
            if i + S::LANES <= len {
                // SAFETY: a vector from `i` on is within `len`.
                let x = unsafe { simd.load(x.as_ptr().add(i)) };
                // SAFETY: `y` has `len` elements as well.
                unsafe { simd.store(y.as_mut_ptr().add(i), power.divide(simd, x, base)) }
            } else {
                // SAFETY: `len - i` elements are left.
                let x = unsafe { simd.load_tail(x.as_ptr().add(i), len - i, bias) };
                let value = power.divide(simd, x, base);
                // SAFETY: `y` has `len` elements as well.
                unsafe { simd.store_tail(y.as_mut_ptr().add(i), len - i, value) }
            }
            i += S::LANES;
        }
    }
}
