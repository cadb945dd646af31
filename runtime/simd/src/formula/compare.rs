//! The driver of comparisons: applies a comparison to two operands, with one byte of output per element.

use super::operand::{Operand, Scalar, Slice, Source, common_len};
use crate::isa::{Isa, Simd, SimdOp, Vector, dispatch, isa};

/// A comparison of two values.
pub trait Compare2: Copy {
    /// Compares each lane. Must be `#[inline(always)]`, like everything that it calls.
    fn compare<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::M;
}

/// Sets `y[i]` to 1 if `f(a[i], b[i])`, else to 0. Either operand may be a scalar.
///
/// Processes the shortest length if the slices differ.
#[inline]
pub fn compare2<'a, F: Compare2>(
    f: F,
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
    y: &mut [u8],
) {
    compare2_on(isa(), f, [a.into(), b.into()], y);
}

#[inline]
pub(super) fn compare2_on<F: Compare2>(isa: Isa, f: F, [a, b]: [Operand<'_>; 2], y: &mut [u8]) {
    let len = common_len([a, b], y.len());
    let y = y.get_mut(..len).unwrap_or_default();
    match (a, b) {
        (Operand::Slice(a), Operand::Slice(b)) => {
            dispatch(isa, CompareSlices { f, a: Slice(a.as_ptr()), b: Slice(b.as_ptr()), y });
        }
        (Operand::Slice(a), Operand::Scalar(b)) => {
            dispatch(isa, CompareSlices { f, a: Slice(a.as_ptr()), b: Scalar(b), y });
        }
        (Operand::Scalar(a), Operand::Slice(b)) => {
            dispatch(isa, CompareSlices { f, a: Scalar(a), b: Slice(b.as_ptr()), y });
        }
        (Operand::Scalar(a), Operand::Scalar(b)) => {
            dispatch(isa, CompareSlices { f, a: Scalar(a), b: Scalar(b), y });
        }
    }
}

/// The loop over vectors. Both sources have as many elements as `y` has bytes.
struct CompareSlices<'a, F, A, B> {
    f: F,
    a: A,
    b: B,
    y: &'a mut [u8],
}

impl<F: Compare2, A: Source, B: Source> SimdOp for CompareSlices<'_, F, A, B> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { f, a, b, y } = self;
        let as_bytes = |a: S::F, b: S::F| {
            simd.select_i(f.compare(simd, a, b), simd.splat_i(1), simd.splat_i(0))
        };
        let mut chunks = y.chunks_exact_mut(S::LANES);
        let mut i = 0;
        for y in chunks.by_ref() {
            // SAFETY: a vector from `i` on is within the bytes of `y`, and so within both sources.
            let (a, b) = unsafe { (a.read(simd, i), b.read(simd, i)) };
            // SAFETY: the chunk has `S::LANES` bytes.
            unsafe { simd.store_u8(y.as_mut_ptr(), as_bytes(a, b)) }
            i += S::LANES;
        }
        let remainder = chunks.into_remainder();
        let len = remainder.len();
        // SAFETY: both sources have `len` elements left from `i` on, less than a vector.
        let (a, b) = unsafe { (a.read_tail(simd, i, len), b.read_tail(simd, i, len)) };
        let mut bytes = [0; 16];
        // SAFETY: a vector has 16 lanes at most.
        unsafe { simd.store_u8(bytes.as_mut_ptr(), as_bytes(a, b)) }
        for (y, byte) in remainder.iter_mut().zip(bytes) {
            *y = byte;
        }
    }
}
