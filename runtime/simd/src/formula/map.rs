//! The drivers of element-wise formulas: apply a formula of one, two or three values to slices, with two vectors at a
//! time.

use super::operand::{Any, Operand, Scalar, Slice, Source, common_len};
use crate::isa::{Isa, Simd, SimdOp, Vector, dispatch, isa};

/// A formula of one value.
pub trait Map1: Copy {
    /// Evaluates each lane. Must be `#[inline(always)]`, like everything that it calls.
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F;
}

/// A formula of two values.
pub trait Map2: Copy {
    /// Evaluates each lane. Must be `#[inline(always)]`, like everything that it calls.
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

/// A formula of three values.
pub trait Map3: Copy {
    /// Evaluates each lane. Must be `#[inline(always)]`, like everything that it calls.
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F, c: S::F) -> S::F;
}

/// A formula with its sources, which yields vectors of results.
trait Lanes: Copy {
    /// Evaluates the vector from element `i` on.
    ///
    /// # Safety
    /// Every source has `S::LANES` elements to read from `i` on.
    unsafe fn evaluate<S: Vector>(self, simd: S, i: usize) -> S::F;

    /// Evaluates the first `len` lanes from element `i` on.
    ///
    /// # Safety
    /// Every source has `len` elements to read from `i` on; `len` is at most `S::LANES`.
    unsafe fn evaluate_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F;
}

/// The loop over vectors. The sources of `lanes` have `len` readable elements, and `y` as many writable ones; each
/// source is either `y` itself or does not overlap it.
struct Map<L> {
    lanes: L,
    y: *mut f32,
    len: usize,
}

impl<L: Lanes> SimdOp for Map<L> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { lanes, y, len } = self;
        let mut i = 0;
        // Two vectors at a time hide the latency, because a formula is one dependency chain.
        while i + 2 * S::LANES <= len {
            // SAFETY: two vectors from `i` on are within the `len` elements of the sources.
            let a = unsafe { lanes.evaluate(simd, i) };
            // SAFETY: a vector from `i + S::LANES` on is within the `len` elements of the sources.
            let b = unsafe { lanes.evaluate(simd, i + S::LANES) };
            // SAFETY: two vectors from `i` on are within the `len` elements of `y`, and have been
            // read where `y` is a source.
            unsafe { simd.store(y.add(i), a) }
            // SAFETY: a vector from `i + S::LANES` on is within the `len` elements of `y`.
            unsafe { simd.store(y.add(i + S::LANES), b) }
            i += 2 * S::LANES;
        }
        while i + S::LANES <= len {
            // SAFETY: a vector from `i` on is within the `len` elements of the sources.
            let x = unsafe { lanes.evaluate(simd, i) };
            // SAFETY: a vector from `i` on is within the `len` elements of `y`.
            unsafe { simd.store(y.add(i), x) }
            i += S::LANES;
        }
        if i < len {
            // SAFETY: the sources have `len - i` elements left from `i` on, less than a vector.
            let x = unsafe { lanes.evaluate_tail(simd, i, len - i) };
            // SAFETY: `y` has `len - i` elements left from `i` on, less than a vector.
            unsafe { simd.store_tail(y.add(i), len - i, x) }
        }
    }
}

#[derive(Clone, Copy)]
struct Formula1<F, A>(F, A);

impl<F: Map1, A: Source> Lanes for Formula1<F, A> {
    #[inline(always)]
    unsafe fn evaluate<S: Vector>(self, simd: S, i: usize) -> S::F {
        // SAFETY: the caller guarantees that the source has `S::LANES` elements from `i` on.
        self.0.apply(simd, unsafe { self.1.read(simd, i) })
    }

    #[inline(always)]
    unsafe fn evaluate_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F {
        // SAFETY: the caller guarantees that the source has `len` elements from `i` on.
        self.0.apply(simd, unsafe { self.1.read_tail(simd, i, len) })
    }
}

#[derive(Clone, Copy)]
struct Formula2<F, A, B>(F, A, B);

impl<F: Map2, A: Source, B: Source> Lanes for Formula2<F, A, B> {
    #[inline(always)]
    unsafe fn evaluate<S: Vector>(self, simd: S, i: usize) -> S::F {
        // SAFETY: the caller guarantees that both sources have `S::LANES` elements from `i` on.
        let (a, b) = unsafe { (self.1.read(simd, i), self.2.read(simd, i)) };
        self.0.apply(simd, a, b)
    }

    #[inline(always)]
    unsafe fn evaluate_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F {
        // SAFETY: the caller guarantees that both sources have `len` elements from `i` on.
        let (a, b) = unsafe { (self.1.read_tail(simd, i, len), self.2.read_tail(simd, i, len)) };
        self.0.apply(simd, a, b)
    }
}

#[derive(Clone, Copy)]
struct Formula3<F, A>(F, [A; 3]);

impl<F: Map3, A: Source> Lanes for Formula3<F, A> {
    #[inline(always)]
    unsafe fn evaluate<S: Vector>(self, simd: S, i: usize) -> S::F {
        let [a, b, c] = self.1;
        // SAFETY: the caller guarantees that all sources have `S::LANES` elements from `i` on.
        let (a, b, c) = unsafe { (a.read(simd, i), b.read(simd, i), c.read(simd, i)) };
        self.0.apply(simd, a, b, c)
    }

    #[inline(always)]
    unsafe fn evaluate_tail<S: Vector>(self, simd: S, i: usize, len: usize) -> S::F {
        let [a, b, c] = self.1;
        // SAFETY: the caller guarantees that all sources have `len` elements from `i` on.
        let [a, b, c] = unsafe { [a, b, c].map(|from| from.read_tail(simd, i, len)) };
        self.0.apply(simd, a, b, c)
    }
}

/// `y[i] = f(x[i])`.
///
/// Processes the shorter length if the slices differ.
#[inline]
pub fn map1<F: Map1>(f: F, x: &[f32], y: &mut [f32]) {
    map1_on(isa(), f, x, y);
}

/// `x[i] = f(x[i])`.
#[inline]
pub fn map1_in_place<F: Map1>(f: F, x: &mut [f32]) {
    map1_in_place_on(isa(), f, x);
}

#[inline]
pub(crate) fn map1_on<F: Map1>(isa: Isa, f: F, x: &[f32], y: &mut [f32]) {
    let len = common_len([x.into()], y.len());
    dispatch(isa, Map { lanes: Formula1(f, Slice(x.as_ptr())), y: y.as_mut_ptr(), len });
}

#[inline]
pub(crate) fn map1_in_place_on<F: Map1>(isa: Isa, f: F, x: &mut [f32]) {
    let y = x.as_mut_ptr();
    dispatch(isa, Map { lanes: Formula1(f, Slice(y)), y, len: x.len() });
}

/// `y[i] = f(a[i], b[i])`; either operand may be a scalar.
///
/// Processes the shortest length if the slices differ.
#[inline]
pub fn map2<'a, F: Map2>(
    f: F,
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
    y: &mut [f32],
) {
    map2_on(isa(), f, [a.into(), b.into()], y);
}

/// `a[i] = f(a[i], b[i])`; `b` may be a scalar.
///
/// Processes the shorter length if the slices differ.
#[inline]
pub fn map2_in_place<'a, F: Map2>(f: F, a: &mut [f32], b: impl Into<Operand<'a>>) {
    map2_in_place_on(isa(), f, a, b.into());
}

/// `b[i] = f(a[i], b[i])`; `a` may be a scalar.
///
/// Processes the shorter length if the slices differ.
#[inline]
pub fn map2_onto<'a, F: Map2>(f: F, a: impl Into<Operand<'a>>, b: &mut [f32]) {
    map2_onto_on(isa(), f, a.into(), b);
}

#[inline]
pub(super) fn map2_on<F: Map2>(isa: Isa, f: F, [a, b]: [Operand<'_>; 2], y: &mut [f32]) {
    let len = common_len([a, b], y.len());
    let to = y.as_mut_ptr();
    match (a, b) {
        (Operand::Slice(a), Operand::Slice(b)) => {
            let lanes = Formula2(f, Slice(a.as_ptr()), Slice(b.as_ptr()));
            dispatch(isa, Map { lanes, y: to, len });
        }
        (Operand::Slice(a), Operand::Scalar(b)) => {
            dispatch(isa, Map { lanes: Formula2(f, Slice(a.as_ptr()), Scalar(b)), y: to, len });
        }
        (Operand::Scalar(a), Operand::Slice(b)) => {
            dispatch(isa, Map { lanes: Formula2(f, Scalar(a), Slice(b.as_ptr())), y: to, len });
        }
        (Operand::Scalar(a), Operand::Scalar(_)) => {
            y.fill(a);
            map2_in_place_on(isa, f, y, b);
        }
    }
}

#[inline]
pub(super) fn map2_in_place_on<F: Map2>(isa: Isa, f: F, a: &mut [f32], b: Operand<'_>) {
    let len = common_len([b], a.len());
    let y = a.as_mut_ptr();
    match b {
        Operand::Slice(b) => {
            dispatch(isa, Map { lanes: Formula2(f, Slice(y), Slice(b.as_ptr())), y, len });
        }
        Operand::Scalar(b) => {
            dispatch(isa, Map { lanes: Formula2(f, Slice(y), Scalar(b)), y, len });
        }
    }
}

#[inline]
pub(super) fn map2_onto_on<F: Map2>(isa: Isa, f: F, a: Operand<'_>, b: &mut [f32]) {
    let len = common_len([a], b.len());
    let y = b.as_mut_ptr();
    match a {
        Operand::Slice(a) => {
            dispatch(isa, Map { lanes: Formula2(f, Slice(a.as_ptr()), Slice(y)), y, len });
        }
        Operand::Scalar(a) => {
            dispatch(isa, Map { lanes: Formula2(f, Scalar(a), Slice(y)), y, len });
        }
    }
}

/// `y[i] = f(a[i], b[i], c[i])`; any operand may be a scalar.
///
/// Processes the shortest length if the slices differ.
#[inline]
pub fn map3<'a, F: Map3>(
    f: F,
    a: impl Into<Operand<'a>>,
    b: impl Into<Operand<'a>>,
    c: impl Into<Operand<'a>>,
    y: &mut [f32],
) {
    map3_on(isa(), f, [a.into(), b.into(), c.into()], y);
}

/// `a[i] = f(a[i], b[i], c[i])`; `b` and `c` may be scalars.
///
/// Processes the shortest length if the slices differ.
#[inline]
pub fn map3_in_place<'a, F: Map3>(
    f: F,
    a: &mut [f32],
    b: impl Into<Operand<'a>>,
    c: impl Into<Operand<'a>>,
) {
    map3_in_place_on(isa(), f, a, [b.into(), c.into()]);
}

#[inline]
pub(super) fn map3_on<F: Map3>(isa: Isa, f: F, operands: [Operand<'_>; 3], y: &mut [f32]) {
    let len = common_len(operands, y.len());
    dispatch(isa, Map { lanes: Formula3(f, operands.map(Any::new)), y: y.as_mut_ptr(), len });
}

#[inline]
pub(super) fn map3_in_place_on<F: Map3>(isa: Isa, f: F, a: &mut [f32], bc: [Operand<'_>; 2]) {
    let len = common_len(bc, a.len());
    let y = a.as_mut_ptr();
    let [b, c] = bc.map(Any::new);
    dispatch(isa, Map { lanes: Formula3(f, [Any::Slice(Slice(y)), b, c]), y, len });
}
