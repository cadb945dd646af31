//! The computation of a transform: passes, Bluestein's convolution, and the spectra of real values. Written once for
//! every instruction set.

use super::Fft;
use super::butterfly::{Complex, add, dft2, dft3, dft4, dft5, mul, negative, scale, sub};
use super::lane::Lane;
use crate::isa::{SimdOp, Vector};

/// A run of `L` interleaved transforms, with its memory.
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

/// Returns the values as complex elements.
#[inline(always)]
fn elements<T, const L: usize>(data: &mut [T]) -> &mut [Complex<T, L>] {
    data.as_chunks_mut::<L>().0.as_chunks_mut::<2>().0
}

impl<T: Lane, const L: usize> Run<'_, T, L> {
    /// Transforms the elements with one pass per factor of their length. Passes alternate between data and scratch.
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
                2 => pass.apply(x, y, dft2),
                3 => pass.apply(x, y, dft3),
                4 => pass.apply(x, y, dft4),
                5 => pass.apply(x, y, dft5),
                radix => pass.apply_general(x, y, radix.into()),
            }
            stride *= usize::from(radix);
            (x, y) = (y, x);
        }
        if fft.count % 2 == 1 {
            y.copy_from_slice(x);
        }
    }

    /// Transforms the elements by Bluestein's algorithm: `2nk = n^2 + k^2 - (k - n)^2` turns the transform into a
    /// convolution, which is computed by transforms of another length.
    #[inline(always)]
    fn convolve(&mut self) {
        let (size, len) = (self.fft.size, self.fft.len);
        let tables = self.table.as_chunks::<2>().0;
        let (chirp, filter) = tables[size..].split_at(len);
        let data = &mut elements::<T, L>(self.data)[..size];
        let (signal, padding) = data.split_at_mut(len);
        for (element, &factor) in signal.iter_mut().zip(chirp) {
            *element = mul(*element, factor);
        }
        padding.fill([[T::default(); L]; 2]);
        self.passes();
        for (element, &factor) in elements::<T, L>(self.data).iter_mut().zip(filter) {
            // Swapping real and imaginary parts before and after a forward transform gives the inverse.
            let [re, im] = mul(*element, factor);
            *element = [im, re];
        }
        self.passes();
        for (element, &factor) in elements::<T, L>(self.data).iter_mut().zip(chirp) {
            *element = mul([element[1], element[0]], factor);
        }
    }
}

/// The pass of one factor of a transform of `size` elements. `stride` is the product of the earlier factors, and
/// `roots` has the roots of unity `exp(-2 pi i k / size)`.
struct Pass<'a, T> {
    size: usize,
    stride: usize,
    roots: &'a [[T; 2]],
}

impl<T: Lane> Pass<'_, T> {
    /// Applies `butterfly`, a transform of `R` elements, and multiplies its outputs by roots of unity (twiddle
    /// factors).
    #[inline(always)]
    fn apply<const L: usize, const R: usize>(
        &self,
        input: &[Complex<T, L>],
        output: &mut [Complex<T, L>],
        butterfly: impl Fn([Complex<T, L>; R]) -> [Complex<T, L>; R],
    ) {
        let Self { size, stride, roots } = *self;
        let distance = size / R;
        for (group, output) in output.chunks_exact_mut(R * stride).enumerate() {
            let mut twiddles = [[T::default(); 2]; R];
            let mut k = 0;
            while k < R {
                twiddles[k] = roots[group * k * stride];
                k += 1;
            }
            for index in 0..stride {
                let mut inputs = [[[T::default(); L]; 2]; R];
                let mut k = 0;
                while k < R {
                    inputs[k] = input[group * stride + index + distance * k];
                    k += 1;
                }
                let outputs = butterfly(inputs);
                output[index] = outputs[0];
                let mut k = 1;
                while k < R {
                    output[index + stride * k] =
                        if group == 0 { outputs[k] } else { mul(outputs[k], twiddles[k]) };
                    k += 1;
                }
            }
        }
    }

    /// Applies a transform of any number of elements by its definition, in quadratic time.
    #[inline(always)]
    fn apply_general<const L: usize>(
        &self,
        input: &[Complex<T, L>],
        output: &mut [Complex<T, L>],
        radix: usize,
    ) {
        let Self { size, stride, roots } = *self;
        let distance = size / radix;
        for (group, output) in output.chunks_exact_mut(radix * stride).enumerate() {
            for (bin, index) in
                (0..radix).flat_map(|bin| (0..stride).map(move |index| (bin, index)))
            {
                let first = group * stride + index;
                let mut sum = input[first];
                for k in 1..radix {
                    sum = add(
                        sum,
                        mul(input[first + distance * k], roots[bin * k % radix * distance]),
                    );
                }
                output[index + stride * bin] = mul(sum, roots[group * bin * stride]);
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
            let conjugate = [re, negative(im)];
            let even = scale(add(a, conjugate), half);
            // Half the difference, divided by i.
            let [re, im] = scale(sub(a, conjugate), half);
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
