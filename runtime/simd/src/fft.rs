//! Discrete Fourier transforms of any length, `L` transforms at a time.
//!
//! The `L` transforms are interleaved: element `k` holds the real parts of all `L` transforms, then their imaginary
//! parts, so that every step works on whole vectors. Each of the `L` positions is called a lane.
//!
//! A length with small prime factors takes one pass per factor (its radix), in Stockham's order, which needs no digit
//! reversal. Other lengths become a convolution of a power-of-two length (Bluestein's algorithm). Only [`Fft::fill`]
//! allocates.

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod butterfly;
mod lane;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod run;
#[cfg(test)]
mod tests;

pub use lane::Lane;

use crate::isa::{Isa, dispatch, isa};
use run::{RealSpectra, Run};

/// The largest radix of a pass; beyond it, a convolution is cheaper.
const MAX_RADIX: usize = 31;
/// The most factors of a 64-bit integer.
const MAX_FACTORS: usize = 64;

/// The plan of transforms of one length.
#[derive(Clone, Copy, Debug)]
pub struct Fft {
    len: usize,
    /// The length of the passes: that of the transform, or of the convolution.
    size: usize,
    /// The factors of `size`, of which the first `count` are used.
    factors: [u8; MAX_FACTORS],
    count: usize,
}

impl Fft {
    /// Plans transforms of `len` elements; `None` if table sizes overflow.
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        // A table takes four values per element of a convolution; the rest is headroom.
        len.checked_mul(256)?;
        let mut fft = Self { len, size: len, factors: [0; MAX_FACTORS], count: 0 };
        if !fft.factor() {
            fft.size = (2 * len - 1).next_power_of_two();
            fft.factor();
        }
        Some(fft)
    }

    /// Factors `size`; returns false if a factor is too large.
    fn factor(&mut self) -> bool {
        (self.count, self.factors) = (0, [0; MAX_FACTORS]);
        let mut cofactor = self.size.max(1);
        for radix in [4, 2, 3, 5].into_iter().chain((7..=MAX_RADIX).step_by(2)) {
            while cofactor.is_multiple_of(radix) {
                self.factors[self.count] = radix as u8;
                self.count += 1;
                cofactor /= radix;
            }
        }
        cofactor == 1
    }

    fn is_convolution(&self) -> bool {
        self.size != self.len
    }

    /// Returns the number of elements of a transform.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether transforms have no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of values in the table of a plan.
    #[must_use]
    pub fn table_len(&self) -> usize {
        let convolution = if self.is_convolution() { self.len + self.size } else { 0 };
        2 * (self.size + convolution)
    }

    /// Returns the number of values in the data of `lanes` interleaved transforms, and in the scratch buffer.
    #[must_use]
    pub fn memory_len(&self, lanes: usize) -> usize {
        2 * self.size * lanes
    }

    /// Fills a table of [`Fft::table_len`] values. Allocates.
    pub fn fill<T: Lane>(&self, table: &mut [T]) {
        let exact: Vec<f64> = self.table();
        table.iter_mut().zip(exact).for_each(|(entry, value)| *entry = T::of_f64(value));
    }

    /// Returns the complex roots of unity, then, for a convolution, the chirp (the sequence with quadratic phase that
    /// Bluestein's algorithm multiplies by) and the spectrum of its conjugate, scaled by the size.
    fn table(&self) -> Vec<f64> {
        let mut table: Vec<f64> = (0..self.size).flat_map(|k| root(k as u128, self.size)).collect();
        if !self.is_convolution() {
            return table;
        }
        // exp(-i pi k^2 / len), which has a period of twice the length.
        let chirp = |k: usize| root(k as u128 * k as u128, 2 * self.len);
        let mut filter = vec![0.0; 2 * self.size];
        for k in 0..self.len {
            let [re, im] = chirp(k);
            for position in [k, (self.size - k) % self.size] {
                filter[2 * position..2 * position + 2].copy_from_slice(&[re, -im]);
            }
        }
        let mut scratch = vec![0.0; 2 * self.size];
        Run::<f64, 1> { fft: self, table: &table, data: &mut filter, scratch: &mut scratch }
            .passes();
        table.extend((0..self.len).flat_map(chirp));
        table.extend(filter.iter().map(|x| x / self.size as f64));
        table
    }

    /// Transforms the first [`Fft::len`] elements of `data` in place. `table` comes from [`Fft::fill`]; `data` and the
    /// buffer `scratch` have [`Fft::memory_len`] values.
    ///
    /// # Panics
    /// Panics if a slice is shorter.
    pub fn run<T: Lane, const L: usize>(&self, table: &[T], data: &mut [T], scratch: &mut [T]) {
        self.run_on::<T, L>(isa(), table, data, scratch);
    }

    pub(crate) fn run_on<T: Lane, const L: usize>(
        &self,
        isa: Isa,
        table: &[T],
        data: &mut [T],
        scratch: &mut [T],
    ) {
        dispatch(isa, Run::<T, L> { fft: self, table, data, scratch });
    }
}

/// The plan of transforms of real values; an even length uses a complex transform of half the length.
#[derive(Clone, Copy, Debug)]
pub struct RealFft {
    len: usize,
    fft: Fft,
}

impl RealFft {
    /// Plans transforms of `len` real values; see [`Fft::new`].
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        let is_even = len > 0 && len.is_multiple_of(2);
        Some(Self { len, fft: Fft::new(if is_even { len / 2 } else { len })? })
    }

    /// Returns whether element `k` of the data holds values `2k` and `2k + 1` as real and imaginary part. Otherwise the
    /// imaginary parts are zeros.
    #[must_use]
    pub fn is_halved(&self) -> bool {
        self.fft.len != self.len
    }

    /// Returns the number of elements of the spectrum that are not conjugates of earlier ones.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.len / 2 + 1
    }

    /// See [`Fft::table_len`].
    #[must_use]
    pub fn table_len(&self) -> usize {
        self.fft.table_len() + if self.is_halved() { 2 * self.bins() } else { 0 }
    }

    /// See [`Fft::memory_len`].
    #[must_use]
    pub fn memory_len(&self, lanes: usize) -> usize {
        self.fft.memory_len(lanes).max(2 * self.bins() * lanes)
    }

    /// See [`Fft::fill`].
    pub fn fill<T: Lane>(&self, table: &mut [T]) {
        let (first, roots) = table.split_at_mut(self.fft.table_len());
        self.fft.fill(first);
        let exact = (0..self.bins()).flat_map(|k| root(k as u128, self.len.max(1)));
        roots.iter_mut().zip(exact).for_each(|(entry, value)| *entry = T::of_f64(value));
    }

    /// Like [`Fft::run`]; leaves the first [`RealFft::bins`] elements of the spectrum in `data`.
    ///
    /// # Panics
    /// Panics like [`Fft::run`].
    pub fn run<T: Lane, const L: usize>(&self, table: &[T], data: &mut [T], scratch: &mut [T]) {
        self.run_on::<T, L>(isa(), table, data, scratch);
    }

    pub(crate) fn run_on<T: Lane, const L: usize>(
        &self,
        isa: Isa,
        table: &[T],
        data: &mut [T],
        scratch: &mut [T],
    ) {
        let (first, roots) = table.split_at(self.fft.table_len());
        self.fft.run_on::<T, L>(isa, first, data, scratch);
        if self.is_halved() {
            dispatch(isa, RealSpectra::<T, L> { len: self.fft.len, roots, data });
        }
    }
}

/// Returns the real and the imaginary part of `exp(-2 pi i k / n)`.
fn root(k: u128, n: usize) -> [f64; 2] {
    // Reduces the angle to a quadrant: it stays accurate for large `k`, and quarter turns are exact.
    let n = n as u128;
    let (quarter, rest) = (4 * (k % n) / n, 4 * (k % n) % n);
    let angle = std::f64::consts::FRAC_PI_2 * (rest as f64 / n as f64);
    let (sin, cos) = angle.sin_cos();
    match quarter {
        0 => [cos, -sin],
        1 => [-sin, -cos],
        2 => [-cos, sin],
        _ => [sin, cos],
    }
}
