//! Softmax over the last axis: `exp(x - max) / sum of exp(x - max)`.

use super::super::math::exp_of;
use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};
use super::reduce::extreme_of;

/// The softmax of every row of `x: [rows, cols]` in `y`, of the same shape; the relative error is
/// 1e-6 and half a unit in the last place of `x - max`.
///
/// A row with a NaN, with plus infinity or of nothing but minus infinities becomes NaNs.
pub fn softmax(x: &[f32], cols: usize, y: &mut [f32]) {
    softmax_on(isa(), x, cols, y);
}

pub(super) fn softmax_on(isa: Isa, x: &[f32], cols: usize, y: &mut [f32]) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    if cols != 0 {
        on(isa, Softmax { x, cols, y });
    }
}

struct Softmax<'a> {
    x: &'a [f32],
    cols: usize,
    y: &'a mut [f32],
}

impl Task for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (x, y) in self.x.chunks_exact(self.cols).zip(self.y.chunks_exact_mut(self.cols)) {
            row(simd, x, y);
        }
    }
}

/// `x` and `y` are of one length.
#[inline(always)]
fn row<S: Simd>(simd: S, x: &[f32], y: &mut [f32]) {
    let len = x.len().min(y.len());
    let max = simd.splat(extreme_of::<S, true>(simd, x, f32::NEG_INFINITY));
    let (from, to) = (x.as_ptr(), y.as_mut_ptr());
    let (zero, nothing) = (simd.splat(0.0), simd.splat(f32::NEG_INFINITY));
    let (mut even, mut odd) = (zero, zero);
    let mut i = 0;
    while i + 2 * S::LANES <= len {
        // SAFETY: two vectors from `i` on lie within `len`.
        let a = unsafe { simd.load(from.add(i)) };
        // SAFETY: as above.
        let b = unsafe { simd.load(from.add(i + S::LANES)) };
        let (a, b) = (exp_of(simd, simd.sub(a, max)), exp_of(simd, simd.sub(b, max)));
        (even, odd) = (simd.add(even, a), simd.add(odd, b));
        // SAFETY: as above.
        unsafe { simd.store(to.add(i), a) }
        // SAFETY: as above.
        unsafe { simd.store(to.add(i + S::LANES), b) }
        i += 2 * S::LANES;
    }
    while i < len {
        let count = S::LANES.min(len - i);
        // SAFETY: `count` elements from `i` on lie within `len`.
        let a = unsafe { simd.load_head(from.add(i), count, nothing) };
        let a = exp_of(simd, simd.sub(a, max));
        even = simd.add(even, a);
        // SAFETY: as above.
        unsafe { simd.store_head(to.add(i), count, a) }
        i += S::LANES;
    }
    let share = simd.splat(1.0 / simd.sum(simd.add(even, odd)));
    let mut i = 0;
    while i + S::LANES <= len {
        // SAFETY: a vector from `i` on lies within `len`.
        let a = unsafe { simd.load(to.add(i)) };
        // SAFETY: as above.
        unsafe { simd.store(to.add(i), simd.mul(a, share)) }
        i += S::LANES;
    }
    if i < len {
        // SAFETY: `len - i` elements are left.
        let a = unsafe { simd.load_head(to.add(i), len - i, zero) };
        // SAFETY: as above.
        unsafe { simd.store_head(to.add(i), len - i, simd.mul(a, share)) }
    }
}
