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
    /// One value for all results, or one for each.
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
    let fits =
        |operand: Operand<'_, Q>| operand.values.len() == 1 || operand.values.len() == y.len();
    debug_assert!(fits(a) && fits(b), "values for all results or for each");
    if fits(a) && fits(b) {
        match operation {
            Arithmetic::Sum => dispatch(isa, Combine::<Q, true> { a, b, quantize, y }),
            Arithmetic::Product => dispatch(isa, Combine::<Q, false> { a, b, quantize, y }),
        }
    }
}

/// Vectors that are stored together.
const VECTORS: usize = 4;
/// The most lanes of these vectors.
const MAX_LANES: usize = 16 * VECTORS;

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
    fn max_magnitude(&self) -> f32 {
        (Q::GREATEST - Q::LEAST) as f32 * self.scale.abs()
    }
}

/// An operand in the loop: a dequantized scalar, or the address of the first of several values.
#[derive(Clone, Copy)]
enum Source<F, Q> {
    Scalar(F),
    Values(*const Q),
}

impl<Q: Quantized, const SUM: bool> Combine<'_, Q, SUM> {
    /// Returns whether no result can be so large that it must be saturated before the store saturates it to bytes.
    fn is_near(&self) -> bool {
        let [a, b] = [self.a.max_magnitude(), self.b.max_magnitude()];
        size_of::<Q>() == 1 && self.quantize.is_near(if SUM { a + b } else { a * b })
    }

    /// Dequantizes the lanes from `index` on.
    ///
    /// # Safety
    /// An operand of several values has `LANES` of them from `index` on.
    #[inline(always)]
    unsafe fn load<S: Vector>(
        simd: S,
        source: Source<S::F, Q>,
        encoding: Dequantize<Q>,
        index: usize,
    ) -> S::F {
        match source {
            Source::Scalar(scalar) => scalar,
            // SAFETY: the caller guarantees that there are lanes from `index` on.
            Source::Values(first) => unsafe { encoding.dequantized(simd, first.add(index)) },
        }
    }

    /// Computes the results of `VECTORS` vectors from `index` on.
    ///
    /// # Safety
    /// Operands of several values have enough lanes from `index` on, and as many are writable at `y`.
    #[inline(always)]
    unsafe fn step<S: Vector, const NEAR: bool>(
        &self,
        simd: S,
        [a, b]: [Source<S::F, Q>; 2],
        index: usize,
        y: *mut Q,
    ) {
        let mut values = [simd.splat_i(0); VECTORS];
        for (i, values) in values.iter_mut().enumerate() {
            let index = index + i * S::LANES;
            // SAFETY: operands of several values have lanes from `index` on.
            let a = unsafe { Self::load(simd, a, self.a.encoding(), index) };
            // SAFETY: as above.
            let b = unsafe { Self::load(simd, b, self.b.encoding(), index) };
            let result = if SUM { simd.add(a, b) } else { simd.mul(a, b) };
            *values = if NEAR {
                self.quantize.unsaturated(simd, result)
            } else {
                self.quantize.values(simd, result)
            };
        }
        if size_of::<Q>() == 1 {
            // SAFETY: `VECTORS` vectors of bytes are writable at `y`.
            unsafe { simd.store_saturated(y.cast(), values, Q::LEAST < 0) }
        } else {
            for (i, values) in values.into_iter().enumerate() {
                // SAFETY: `VECTORS` vectors of values of two bytes are writable at `y`.
                unsafe { simd.store_u16(y.add(i * S::LANES).cast(), values) }
            }
        }
    }

    #[inline(always)]
    fn combine_all<S: Vector, const NEAR: bool>(self, simd: S) {
        let len = self.y.len();
        let step = VECTORS * S::LANES;
        let source = |operand: &Operand<'_, Q>| match *operand.values {
            [value] => {
                let lanes = [value; MAX_LANES];
                // SAFETY: a vector has 16 lanes at most.
                Source::Scalar(unsafe { operand.encoding().dequantized(simd, lanes.as_ptr()) })
            }
            _ => Source::Values(operand.values.as_ptr()),
        };
        let sources = [source(&self.a), source(&self.b)];
        let to = self.y.as_mut_ptr();
        let mut index = 0;
        while index + step <= len {
            // SAFETY: `step` values from `index` on are within `len`, which operands of several values have.
            unsafe { self.step::<S, NEAR>(simd, sources, index, to.add(index)) }
            index += step;
        }
        if index < len {
            let (mut left_tail, mut right_tail) =
                ([Q::default(); MAX_LANES], [Q::default(); MAX_LANES]);
            let mut tail = [Q::default(); MAX_LANES];
            let tail_source =
                |source: Source<S::F, Q>, values: &[Q], copy: &mut [Q; MAX_LANES]| match source {
                    Source::Scalar(scalar) => Source::Scalar(scalar),
                    Source::Values(_) => {
                        copy[..len - index].copy_from_slice(&values[index..]);
                        Source::Values(copy.as_ptr())
                    }
                };
            let sources = [
                tail_source(sources[0], self.a.values, &mut left_tail),
                tail_source(sources[1], self.b.values, &mut right_tail),
            ];
            // SAFETY: the copies and the tail of results have `step` values.
            unsafe { self.step::<S, NEAR>(simd, sources, 0, tail.as_mut_ptr()) }
            self.y[index..].copy_from_slice(&tail[..len - index]);
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
