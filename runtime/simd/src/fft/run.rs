//! The passes of a transform, written once for every instruction set.

use super::Fft;
use super::butterfly::{Complex, add, mul, negative, of_2, of_3, of_4, of_5, scale, sub};
use super::lane::Lane;
use crate::isa::{SimdOp, Vector};

/// Transforms side by side, and their memory.
pub(super) struct Run<'a, T, const L: usize> {
    pub(super) fft: &'a Fft,
    pub(super) table: &'a [T],
    pub(super) data: &'a mut [T],
    pub(super) scratch: &'a mut [T],
}

impl<T: Lane, const L: usize> SimdOp for Run<'_, T, L> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(mut self, _: S) {
        if self.fft.is_convolution() { self.convolve() } else { self.passes() }
    }
}

/// Returns the elements of all lanes.
#[inline(always)]
fn elements<T, const L: usize>(data: &mut [T]) -> &mut [Complex<T, L>] {
    data.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0
}

impl<T: Lane, const L: usize> Run<'_, T, L> {
    /// Transforms the elements by the factors of their length.
    #[inline(always)]
    pub(super) fn passes(&mut self) {
        let (fft, roots) = (self.fft, self.table.as_chunks::<2>().0);
        let size = fft.size;
        let mut x = &mut elements::<T, L>(self.data)[..size];
        let mut y = &mut elements::<T, L>(self.scratch)[..size];
        let roots = &roots[..size];
        let mut stride = 1;
        for &radix in &fft.factors[..fft.count] {
            let pass = Pass { size, stride, roots };
            match radix {
                2 => pass.by(x, y, of_2),
                3 => pass.by(x, y, of_3),
                4 => pass.by(x, y, of_4),
                5 => pass.by(x, y, of_5),
                radix => pass.by_odd(x, y, radix.into()),
            }
            stride *= usize::from(radix);
            (x, y) = (y, x);
        }
        if fft.count % 2 == 1 {
            y.copy_from_slice(x);
        }
    }

    /// Bluestein's algorithm: `2nk = n^2 + k^2 - (k - n)^2` turns the transform into a convolution, which is computed
    /// by transforms of another length.
    #[inline(always)]
    fn convolve(&mut self) {
        let (size, len) = (self.fft.size, self.fft.len);
        let tables = self.table.as_chunks::<2>().0;
        let (chirp, filter) = tables[size..].split_at(len);
        let data = &mut elements::<T, L>(self.data)[..size];
        let (signal, padding) = data.split_at_mut(len);
        for (x, &w) in signal.iter_mut().zip(chirp) {
            *x = mul(*x, w);
        }
        padding.fill([[T::default(); L]; 2]);
        self.passes();
        for (x, &w) in elements::<T, L>(self.data).iter_mut().zip(filter) {
            // Swapping real and imaginary parts before and after a forward transform gives the inverse.
            let [re, im] = mul(*x, w);
            *x = [im, re];
        }
        self.passes();
        for (x, &w) in elements::<T, L>(self.data).iter_mut().zip(chirp) {
            *x = mul([x[1], x[0]], w);
        }
    }
}

/// One factor of a transform of `size` elements; earlier factors have formed groups of `stride` neighbours.
struct Pass<'a, T> {
    size: usize,
    stride: usize,
    roots: &'a [[T; 2]],
}

impl<T: Lane> Pass<'_, T> {
    #[inline(always)]
    fn by<const L: usize, const R: usize>(
        &self,
        x: &[Complex<T, L>],
        y: &mut [Complex<T, L>],
        butterfly: impl Fn([Complex<T, L>; R]) -> [Complex<T, L>; R],
    ) {
        let Self { size, stride, roots } = *self;
        let distance = size / R;
        for (group, y) in y.chunks_exact_mut(R * stride).enumerate() {
            let mut turns = [[T::default(); 2]; R];
            let mut k = 0;
            while k < R {
                turns[k] = roots[group * k * stride];
                k += 1;
            }
            for at in 0..stride {
                let mut inputs = [[[T::default(); L]; 2]; R];
                let mut k = 0;
                while k < R {
                    inputs[k] = x[group * stride + at + distance * k];
                    k += 1;
                }
                let outputs = butterfly(inputs);
                y[at] = outputs[0];
                let mut k = 1;
                while k < R {
                    y[at + stride * k] =
                        if group == 0 { outputs[k] } else { mul(outputs[k], turns[k]) };
                    k += 1;
                }
            }
        }
    }

    /// Handles any factor, in quadratic time.
    #[inline(always)]
    fn by_odd<const L: usize>(&self, x: &[Complex<T, L>], y: &mut [Complex<T, L>], radix: usize) {
        let Self { size, stride, roots } = *self;
        let distance = size / radix;
        for (group, y) in y.chunks_exact_mut(radix * stride).enumerate() {
            for (bin, at) in (0..radix).flat_map(|bin| (0..stride).map(move |at| (bin, at))) {
                let first = group * stride + at;
                let mut sum = x[first];
                for k in 1..radix {
                    sum = add(sum, mul(x[first + distance * k], roots[bin * k % radix * distance]));
                }
                y[at + stride * bin] = mul(sum, roots[group * bin * stride]);
            }
        }
    }
}

/// Computes the spectra of real values whose even elements were transformed as real parts and odd ones as imaginary
/// parts.
pub(super) struct RealSpectra<'a, T, const L: usize> {
    /// Length of the complex transform.
    pub(super) len: usize,
    pub(super) roots: &'a [T],
    pub(super) data: &'a mut [T],
}

impl<T: Lane, const L: usize> SimdOp for RealSpectra<'_, T, L> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, _: S) {
        let Self { len, roots, data } = self;
        let roots = roots.as_chunks::<2>().0;
        let z = &mut elements::<T, L>(data)[..=len];
        z[len] = z[0];
        let half = T::of_f64(0.5);
        for k in 0..=len / 2 {
            let (a, [re, im]) = (z[k], z[len - k]);
            let other = [re, negative(im)];
            let even = scale(add(a, other), half);
            // Half the difference, divided by i.
            let [re, im] = scale(sub(a, other), half);
            let odd = [im, negative(re)];
            let [re, im] = sub(even, mul(odd, roots[k]));
            z[k] = add(even, mul(odd, roots[k]));
            // The conjugate of `even - root * odd`.
            if k != len - k {
                z[len - k] = [re, negative(im)];
            }
        }
    }
}
