//! Discrete Fourier transforms of any length, several side by side.
//!
//! A transform lies in memory as its elements one after the other, each of which is the real parts of all `L` transforms
//! followed by their imaginary parts, so that every step of the algorithm is one of whole vectors. Lengths whose prime factors
//! are small go by mixed radixes (Stockham's order, which needs no reversal of digits); others become a convolution of
//! a length that is a power of two (Bluestein's algorithm). Nothing here allocates but [`Fft::fill`].

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod butterfly;
mod lane;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod run;
#[cfg(test)]
mod tests;

pub use lane::Lane;

use crate::isa::{Isa, dispatch, isa};
use run::{Halves, Run};

/// The largest factor that a pass goes by; larger ones would cost more than a convolution.
const MAX_RADIX: usize = 31;
/// As many factors as a number of 64 bits has.
const MAX_FACTORS: usize = 64;

/// How transforms of one length are computed.
#[derive(Clone, Copy, Debug)]
pub struct Fft {
    len: usize,
    /// The length of the passes: that of the transform, or of the convolution.
    size: usize,
    factors: [u8; MAX_FACTORS],
    count: usize,
}

impl Fft {
    /// Transforms of `len` elements; nothing if tables of so many are more than memory has addresses.
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        // Four numbers a table for each of the most elements that a convolution takes, and room to count on.
        len.checked_mul(256)?;
        let mut fft = Self { len, size: len, factors: [0; MAX_FACTORS], count: 0 };
        if !fft.factor() {
            fft.size = (2 * len - 1).next_power_of_two();
            fft.factor();
        }
        Some(fft)
    }

    /// Finds the factors of `size`; false if one is too large.
    fn factor(&mut self) -> bool {
        (self.count, self.factors) = (0, [0; MAX_FACTORS]);
        let mut left = self.size.max(1);
        for radix in [4, 2, 3, 5].into_iter().chain((7..=MAX_RADIX).step_by(2)) {
            while left.is_multiple_of(radix) {
                self.factors[self.count] = radix as u8;
                self.count += 1;
                left /= radix;
            }
        }
        left == 1
    }

    fn is_convolution(&self) -> bool {
        self.size != self.len
    }

    /// Elements of a transform.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether transforms have no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Numbers in the table of a plan.
    #[must_use]
    pub fn table_len(&self) -> usize {
        let convolution = if self.is_convolution() { self.len + self.size } else { 0 };
        2 * (self.size + convolution)
    }

    /// Numbers in the memory of `lanes` transforms side by side, and in that beside them.
    #[must_use]
    pub fn memory_len(&self, lanes: usize) -> usize {
        2 * self.size * lanes
    }

    /// Fills a table of [`Fft::table_len`] numbers. Allocates.
    pub fn fill<T: Lane>(&self, table: &mut [T]) {
        let exact: Vec<f64> = self.table();
        table.iter_mut().zip(exact).for_each(|(to, from)| *to = T::of_f64(from));
    }

    fn table(&self) -> Vec<f64> {
        let mut table: Vec<f64> = (0..self.size).flat_map(|k| root(k as u128, self.size)).collect();
        if !self.is_convolution() {
            return table;
        }
        // exp(-i pi k^2 / len), whose exponent repeats after twice the length.
        let chirp = |k: usize| root(k as u128 * k as u128, 2 * self.len);
        let mut filter = vec![0.0; 2 * self.size];
        for k in 0..self.len {
            let [re, im] = chirp(k);
            for at in [k, (self.size - k) % self.size] {
                filter[2 * at..2 * at + 2].copy_from_slice(&[re, -im]);
            }
        }
        let mut beside = vec![0.0; 2 * self.size];
        Run::<f64, 1> { fft: self, table: &table, data: &mut filter, beside: &mut beside }.passes();
        table.extend((0..self.len).flat_map(chirp));
        table.extend(filter.iter().map(|x| x / self.size as f64));
        table
    }

    /// Transforms the elements in `data`, of which the first [`Fft::len`] count; `table` is what [`Fft::fill`] made, and
    /// `data` and `beside` have [`Fft::memory_len`] numbers.
    ///
    /// # Panics
    /// Slices are shorter than that.
    pub fn run<T: Lane, const L: usize>(&self, table: &[T], data: &mut [T], beside: &mut [T]) {
        self.run_on::<T, L>(isa(), table, data, beside);
    }

    pub(crate) fn run_on<T: Lane, const L: usize>(
        &self,
        isa: Isa,
        table: &[T],
        data: &mut [T],
        beside: &mut [T],
    ) {
        dispatch(isa, Run::<T, L> { fft: self, table, data, beside });
    }
}

/// How transforms of real numbers are computed: those of an even length as complex ones of half of it.
#[derive(Clone, Copy, Debug)]
pub struct RealFft {
    len: usize,
    fft: Fft,
}

impl RealFft {
    /// Transforms of `len` real numbers; as [`Fft::new`].
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        let is_even = len > 0 && len.is_multiple_of(2);
        Some(Self { len, fft: Fft::new(if is_even { len / 2 } else { len })? })
    }

    /// Whether element `k` lies as real part `2k` and imaginary part `2k + 1`; else imaginary parts are zeros.
    #[must_use]
    pub fn is_halved(&self) -> bool {
        self.fft.len != self.len
    }

    /// Elements of half a spectrum, all that are not the conjugate of another.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.len / 2 + 1
    }

    /// As [`Fft::table_len`].
    #[must_use]
    pub fn table_len(&self) -> usize {
        self.fft.table_len() + if self.is_halved() { 2 * self.bins() } else { 0 }
    }

    /// As [`Fft::memory_len`].
    #[must_use]
    pub fn memory_len(&self, lanes: usize) -> usize {
        self.fft.memory_len(lanes).max(2 * self.bins() * lanes)
    }

    /// As [`Fft::fill`].
    pub fn fill<T: Lane>(&self, table: &mut [T]) {
        let (first, roots) = table.split_at_mut(self.fft.table_len());
        self.fft.fill(first);
        let exact = (0..self.bins()).flat_map(|k| root(k as u128, self.len.max(1)));
        roots.iter_mut().zip(exact).for_each(|(to, from)| *to = T::of_f64(from));
    }

    /// As [`Fft::run`]; leaves the first [`RealFft::bins`] elements of the spectrum in `data`.
    ///
    /// # Panics
    /// As [`Fft::run`].
    pub fn run<T: Lane, const L: usize>(&self, table: &[T], data: &mut [T], beside: &mut [T]) {
        self.run_on::<T, L>(isa(), table, data, beside);
    }

    pub(crate) fn run_on<T: Lane, const L: usize>(
        &self,
        isa: Isa,
        table: &[T],
        data: &mut [T],
        beside: &mut [T],
    ) {
        let (first, roots) = table.split_at(self.fft.table_len());
        self.fft.run_on::<T, L>(isa, first, data, beside);
        if self.is_halved() {
            dispatch(isa, Halves::<T, L> { len: self.fft.len, roots, data });
        }
    }
}

/// exp(-2 pi i k / n).
fn root(k: u128, n: usize) -> [f64; 2] {
    // A small angle loses no digits, and quarters are exact.
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
