//! Elementwise sums and products of quantized values, requantized.

use super::quantize::{Dequantize, Quantize, Quantized};
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// A function of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
}

/// An operand of [`combine`].
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, Q> {
    /// One value for all results, or one each.
    pub values: &'a [Q],
    /// The scale.
    pub scale: f32,
    /// The zero point.
    pub zero_point: Q,
}

/// Dequantizes both operands like [`dequantize`](super::dequantize), adds or multiplies them, and stores the results
/// like [`quantize`](super::quantize()).
pub fn combine<Q: Quantized>(
    operation: Arithmetic,
    a: Operand<'_, Q>,
    b: Operand<'_, Q>,
    scale: f32,
    zero_point: Q,
    y: &mut [Q],
) {
    combine_on(isa(), operation, a, b, Quantize::new(scale, zero_point), y);
}

pub(super) fn combine_on<Q: Quantized>(
    isa: Isa,
    operation: Arithmetic,
    a: Operand<'_, Q>,
    b: Operand<'_, Q>,
    quantize: Quantize<Q>,
    y: &mut [Q],
) {
    let fits = |side: Operand<'_, Q>| side.values.len() == 1 || side.values.len() == y.len();
    debug_assert!(fits(a) && fits(b), "values for all results or for each");
    if fits(a) && fits(b) {
        match operation {
            Arithmetic::Sum => dispatch(isa, Combine::<Q, true> { a, b, quantize, y }),
            Arithmetic::Product => dispatch(isa, Combine::<Q, false> { a, b, quantize, y }),
        }
    }
}

/// Vectors stored together.
const AT_ONCE: usize = 4;
/// The most lanes of them.
const MOST: usize = 16 * AT_ONCE;

/// Each operand has one value, or as many as `y`.
struct Combine<'a, Q, const SUM: bool> {
    a: Operand<'a, Q>,
    b: Operand<'a, Q>,
    quantize: Quantize<Q>,
    y: &'a mut [Q],
}

impl<Q: Quantized> Operand<'_, Q> {
    fn encoding(&self) -> Dequantize<Q> {
        Dequantize { scale: self.scale, zero_point: self.zero_point }
    }

    /// Returns the largest absolute value that can be represented.
    fn size(&self) -> f32 {
        (Q::GREATEST - Q::LEAST) as f32 * self.scale.abs()
    }
}

/// The position of an operand's values: the dequantized scalar, or the first element.
#[derive(Clone, Copy)]
enum Place<F, Q> {
    One(F),
    Each(*const Q),
}

impl<Q: Quantized, const SUM: bool> Combine<'_, Q, SUM> {
    /// Whether no result is so large that it saturates before it is stored.
    fn is_near(&self) -> bool {
        let [a, b] = [self.a.size(), self.b.size()];
        size_of::<Q>() == 1 && self.quantize.is_near(if SUM { a + b } else { a * b })
    }

    /// Dequantizes the lanes from `at` on.
    ///
    /// # Safety
    /// An operand of several values has `LANES` of them from `at` on.
    #[inline(always)]
    unsafe fn load<S: Vector>(
        simd: S,
        place: Place<S::F, Q>,
        is: Dequantize<Q>,
        at: usize,
    ) -> S::F {
        match place {
            Place::One(number) => number,
            // SAFETY: the caller guarantees that there are lanes from `at` on.
            Place::Each(first) => unsafe { is.numbers(simd, first.add(at)) },
        }
    }

    /// Computes the results of `AT_ONCE` vectors from `at` on.
    ///
    /// # Safety
    /// Operands of several values have enough lanes from `at` on, and as many are writable at `y`.
    #[inline(always)]
    unsafe fn step<S: Vector, const NEAR: bool>(
        &self,
        simd: S,
        [a, b]: [Place<S::F, Q>; 2],
        at: usize,
        y: *mut Q,
    ) {
        let mut values = [simd.splat_i(0); AT_ONCE];
        for (i, values) in values.iter_mut().enumerate() {
            let at = at + i * S::LANES;
            // SAFETY: sides of several values have lanes from `at` on.
            let a = unsafe { Self::load(simd, a, self.a.encoding(), at) };
            // SAFETY: as above.
            let b = unsafe { Self::load(simd, b, self.b.encoding(), at) };
            let number = if SUM { simd.add(a, b) } else { simd.mul(a, b) };
            *values = if NEAR {
                self.quantize.unsaturated(simd, number)
            } else {
                self.quantize.values(simd, number)
            };
        }
        if size_of::<Q>() == 1 {
            // SAFETY: `AT_ONCE` vectors of bytes are writable at `y`.
            unsafe { simd.store_saturated(y.cast(), values, Q::LEAST < 0) }
        } else {
            for (i, values) in values.into_iter().enumerate() {
                // SAFETY: `AT_ONCE` vectors of values of two bytes are writable at `y`.
                unsafe { simd.store_u16(y.add(i * S::LANES).cast(), values) }
            }
        }
    }

    #[inline(always)]
    fn combine_all<S: Vector, const NEAR: bool>(self, simd: S) {
        let len = self.y.len();
        let width = AT_ONCE * S::LANES;
        let place = |side: &Operand<'_, Q>| match *side.values {
            [one] => {
                let lanes = [one; MOST];
                // SAFETY: a vector has 16 lanes at most.
                Place::One(unsafe { side.encoding().numbers(simd, lanes.as_ptr()) })
            }
            _ => Place::Each(side.values.as_ptr()),
        };
        let places = [place(&self.a), place(&self.b)];
        let to = self.y.as_mut_ptr();
        let mut at = 0;
        while at + width <= len {
            // SAFETY: `width` values from `at` on are within `len`, which sides of several values have.
            unsafe { self.step::<S, NEAR>(simd, places, at, to.add(at)) }
            at += width;
        }
        if at < len {
            let (mut left, mut right) = ([Q::default(); MOST], [Q::default(); MOST]);
            let mut rest = [Q::default(); MOST];
            let copied = |place: Place<S::F, Q>, values: &[Q], copy: &mut [Q; MOST]| match place {
                Place::One(number) => Place::One(number),
                Place::Each(_) => {
                    copy[..len - at].copy_from_slice(&values[at..]);
                    Place::Each(copy.as_ptr())
                }
            };
            let places = [
                copied(places[0], self.a.values, &mut left),
                copied(places[1], self.b.values, &mut right),
            ];
            // SAFETY: the copies and the rest have room for `width` values.
            unsafe { self.step::<S, NEAR>(simd, places, 0, rest.as_mut_ptr()) }
            self.y[at..].copy_from_slice(&rest[..len - at]);
        }
    }
}

impl<Q: Quantized, const SUM: bool> SimdOp for Combine<'_, Q, SUM> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        if self.is_near() {
            self.combine_all::<S, true>(simd);
        } else {
            self.combine_all::<S, false>(simd);
        }
    }
}
