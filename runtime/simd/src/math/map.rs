//! Applies a function of vectors to slices.

use super::vector::{Simd, Task, on};
use crate::Isa;

/// A function of one number, written over vectors.
pub(super) trait Unary: Copy {
    /// Must be `#[inline(always)]`.
    fn apply<S: Simd>(self, simd: S, x: S::F) -> S::F;
}

/// `op` of `x` in `y`; `x` and `y` are the same memory or share none, for `len` elements.
struct Map<U> {
    op: U,
    x: *const f32,
    y: *mut f32,
    len: usize,
}

impl<U: Unary> Task for Map<U> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { op, x, y, len } = self;
        let mut i = 0;
        // Two in flight, as a function is one chain of instructions.
        while i + 2 * S::LANES <= len {
            // SAFETY: two vectors from `i` on lie within `len`.
            let a = unsafe { simd.load(x.add(i)) };
            // SAFETY: as above.
            let b = unsafe { simd.load(x.add(i + S::LANES)) };
            let (a, b) = (op.apply(simd, a), op.apply(simd, b));
            // SAFETY: as above; `x` has been read where `y` is the same memory.
            unsafe { simd.store(y.add(i), a) }
            // SAFETY: as above.
            unsafe { simd.store(y.add(i + S::LANES), b) }
            i += 2 * S::LANES;
        }
        while i + S::LANES <= len {
            // SAFETY: a whole vector from `i` on lies within `len`.
            let values = unsafe { simd.load(x.add(i)) };
            // SAFETY: as above; `x` has been read where `y` is the same memory.
            unsafe { simd.store(y.add(i), op.apply(simd, values)) }
            i += S::LANES;
        }
        if i < len {
            // SAFETY: `len - i` elements are left, less than a vector.
            let values = unsafe { simd.load_head(x.add(i), len - i, simd.splat(1.0)) };
            // SAFETY: as above.
            unsafe { simd.store_head(y.add(i), len - i, op.apply(simd, values)) }
        }
    }
}

#[inline]
pub(super) fn map<U: Unary>(isa: Isa, op: U, x: &[f32], y: &mut [f32]) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    on(isa, Map { op, x: x.as_ptr(), y: y.as_mut_ptr(), len: x.len().min(y.len()) });
}

#[inline]
pub(super) fn map_in_place<U: Unary>(isa: Isa, op: U, x: &mut [f32]) {
    let y = x.as_mut_ptr();
    on(isa, Map { op, x: y, y, len: x.len() });
}
