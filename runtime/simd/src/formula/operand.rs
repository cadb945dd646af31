//! Operands of formulas: a slice with one value per element, or a scalar for all elements.

use crate::isa::Vector;

/// An operand of a formula.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// One value per element.
    Slice(&'a [f32]),
    /// One value for all elements.
    Scalar(f32),
}

impl<'a> From<&'a [f32]> for Operand<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::Slice(values)
    }
}

impl From<f32> for Operand<'_> {
    fn from(value: f32) -> Self {
        Self::Scalar(value)
    }
}

impl Operand<'_> {
    /// Returns the number of elements, or `None` for a scalar.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Slice(values) => Some(values.len()),
            Self::Scalar(_) => None,
        }
    }
}

/// An operand inside a loop, which reads vectors from it.
pub(super) trait Source: Copy {
    /// Returns the vector from element `i` on.
    ///
    /// # Safety
    /// `S::LANES` elements from `i` on are readable.
    unsafe fn read<S: Vector>(self, simd: S, i: usize) -> S::F;

    /// Returns the vector from element `i` on, of which `len` lanes are read; the others are 1.
    ///
    /// # Safety
    /// `len` elements from `i` on are readable; `len` is at most `S::LANES`.
    unsafe fn read_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F;
}

/// Contiguous values in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice(pub(super) *const f32);

impl Source for Slice {
    #[inline(always)]
    unsafe fn read<S: Vector>(self, simd: S, i: usize) -> S::F {
        // SAFETY: the caller guarantees that `S::LANES` numbers from `self.0 + i` on are readable.
        unsafe { simd.load(self.0.add(i)) }
    }

    #[inline(always)]
    unsafe fn read_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F {
        // SAFETY: the caller guarantees that `len` numbers from `self.0 + i` on are readable, and
        // no more lanes.
        unsafe { simd.load_tail(self.0.add(i), len, simd.splat(1.0)) }
    }
}

/// A scalar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalar(pub(super) f32);

impl Source for Scalar {
    #[inline(always)]
    unsafe fn read<S: Vector>(self, simd: S, _: usize) -> S::F {
        simd.splat(self.0)
    }

    #[inline(always)]
    unsafe fn read_tail<S: Vector>(self, simd: S, _: usize, _: usize) -> S::F {
        simd.splat(self.0)
    }
}

/// A slice or a scalar, decided at run time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Any {
    Slice(Slice),
    Scalar(Scalar),
}

impl Any {
    pub(super) fn new(operand: Operand<'_>) -> Self {
        match operand {
            Operand::Slice(values) => Self::Slice(Slice(values.as_ptr())),
            Operand::Scalar(value) => Self::Scalar(Scalar(value)),
        }
    }
}

impl Source for Any {
    #[inline(always)]
    unsafe fn read<S: Vector>(self, simd: S, i: usize) -> S::F {
        match self {
            // SAFETY: `S::LANES` numbers from `i` on of `slice` are readable, as the caller
            // guarantees.
            Self::Slice(slice) => unsafe { slice.read(simd, i) },
            // SAFETY: no memory is accessed.
            Self::Scalar(scalar) => unsafe { scalar.read(simd, i) },
        }
    }

    #[inline(always)]
    unsafe fn read_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F {
        match self {
            // SAFETY: `len` numbers from `i` on of `slice` are readable, `S::LANES` at most, as the
            // caller guarantees.
            Self::Slice(slice) => unsafe { slice.read_tail(simd, i, len) },
            // SAFETY: no memory is accessed.
            Self::Scalar(scalar) => unsafe { scalar.read_tail(simd, i, len) },
        }
    }
}

/// Returns the length of the shortest slice among the operands and a result of `len` elements. Debug builds assert that
/// all have one length.
pub(super) fn common_len<const N: usize>(operands: [Operand<'_>; N], len: usize) -> usize {
    let lens = operands.iter().filter_map(Operand::len);
    debug_assert!(lens.clone().all(|other| other == len), "slices of one length");
    lens.fold(len, usize::min)
}
