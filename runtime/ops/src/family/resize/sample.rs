//! Element types that are resized, and the types of their weighted sums.

use udo_api::{Bf16, Element, F16};
use udo_simd::{Map1, Map2, Map3, Simd, map1, map2, map2_in_place, map3_in_place};

use crate::number::{Number, Real};

/// Shorter slices are not worth a call.
const SHORT: usize = 16;

/// An element type with weighted sums.
pub(super) trait Sample: Element {
    /// The type of sums.
    type Wide: Real + Sample<Wide = Self::Wide>;

    /// Converts an element to the type of sums, exactly.
    fn widen(self) -> Self::Wide;

    /// Converts a sum: integers round half to even, and saturate.
    fn narrow(wide: Self::Wide) -> Self;

    /// Returns the elements themselves if they are of the wide type.
    fn wide(_: &[Self]) -> Option<&[Self::Wide]> {
        None
    }

    fn wide_mut(_: &mut [Self]) -> Option<&mut [Self::Wide]> {
        None
    }

    /// Computes `y = x * weight` or `y += x * weight`.
    fn weigh_one(sum: Sum, x: &[Self], weight: Self::Wide, y: &mut [Self::Wide]) {
        weigh_one(sum, x, weight, y);
    }

    /// Computes `y = a * a_weight + b * b_weight`, or adds both terms to `y`, one after the other.
    fn weigh_two(sum: Sum, x: [&[Self]; 2], weights: [Self::Wide; 2], y: &mut [Self::Wide]) {
        weigh_two(sum, x, weights, y);
    }
}

/// Whether a sum is empty, so that the first term overwrites `y`, or has terms to which the next are added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    Empty,
    Started,
}

/// Computes the weighted sum of several runs of `x`, each as long as `y`: `sources` yields their starts and weights.
pub(super) fn combine<T: Sample>(
    x: &[T],
    mut sources: impl Iterator<Item = (usize, T::Wide)>,
    y: &mut [T::Wide],
) {
    let len = y.len();
    let run = |start: usize| &x[start..][..len];
    let mut sum = Sum::Empty;
    while let Some((a, a_weight)) = sources.next() {
        match sources.next() {
            Some((b, b_weight)) => T::weigh_two(sum, [run(a), run(b)], [a_weight, b_weight], y),
            None => T::weigh_one(sum, run(a), a_weight, y),
        }
        sum = Sum::Started;
    }
    if sum == Sum::Empty {
        y.fill(T::Wide::ZERO);
    }
}

fn weigh_one<T: Sample>(sum: Sum, x: &[T], weight: T::Wide, y: &mut [T::Wide]) {
    for (y, x) in y.iter_mut().zip(x) {
        let term = x.widen().mul(weight);
        *y = if sum == Sum::Started { y.add(term) } else { term };
    }
}

fn weigh_two<T: Sample>(
    sum: Sum,
    [a, b]: [&[T]; 2],
    [a_weight, b_weight]: [T::Wide; 2],
    y: &mut [T::Wide],
) {
    for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
        let term = a.widen().mul(a_weight);
        let first = if sum == Sum::Started { y.add(term) } else { term };
        *y = first.add(b.widen().mul(b_weight));
    }
}

macro_rules! integers {
    ($($t:ty: $wide:ty),*) => {$(
        impl Sample for $t {
            type Wide = $wide;
            fn widen(self) -> $wide { self as $wide }
            fn narrow(wide: $wide) -> Self { wide.round_ties_even() as Self }
        }
    )*};
}

integers!(i8: f32, u8: f32, i16: f32, u16: f32, i32: f64, u32: f64, i64: f64, u64: f64);

macro_rules! half_precision {
    ($($t:ty),*) => {$(
        impl Sample for $t {
            type Wide = f32;
            fn widen(self) -> f32 { self.to_f32() }
            fn narrow(wide: f32) -> Self { Self::from_f32(wide) }
        }
    )*};
}

half_precision!(F16, Bf16);

impl Sample for f64 {
    type Wide = f64;

    fn widen(self) -> f64 {
        self
    }

    fn narrow(wide: f64) -> f64 {
        wide
    }

    fn wide(x: &[f64]) -> Option<&[f64]> {
        Some(x)
    }

    fn wide_mut(y: &mut [f64]) -> Option<&mut [f64]> {
        Some(y)
    }
}

impl Sample for f32 {
    type Wide = f32;

    fn widen(self) -> f32 {
        self
    }

    fn narrow(wide: f32) -> f32 {
        wide
    }

    fn wide(x: &[f32]) -> Option<&[f32]> {
        Some(x)
    }

    fn wide_mut(y: &mut [f32]) -> Option<&mut [f32]> {
        Some(y)
    }

    fn weigh_one(sum: Sum, x: &[f32], weight: f32, y: &mut [f32]) {
        match sum {
            _ if y.len() < SHORT => weigh_one(sum, x, weight, y),
            Sum::Empty => map1(Weigh([weight]), x, y),
            Sum::Started => map2_in_place(Weigh([weight]), y, x),
        }
    }

    fn weigh_two(sum: Sum, [a, b]: [&[f32]; 2], weights: [f32; 2], y: &mut [f32]) {
        match sum {
            _ if y.len() < SHORT => weigh_two(sum, [a, b], weights, y),
            Sum::Empty => map2(Weigh(weights), a, b, y),
            Sum::Started => map3_in_place(Weigh(weights), y, a, b),
        }
    }
}

/// The vector version of `weigh_one` and `weigh_two`, with their weights. It rounds after each product and each sum, so
/// its results have the same bits as theirs.
#[derive(Clone, Copy)]
struct Weigh<const N: usize>([f32; N]);

impl Map1 for Weigh<1> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.mul(x, s.splat(self.0[0]))
    }
}

impl Map2 for Weigh<1> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, y: S::F, x: S::F) -> S::F {
        s.add(y, s.mul(x, s.splat(self.0[0])))
    }
}

impl Map2 for Weigh<2> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(s.mul(a, s.splat(self.0[0])), s.mul(b, s.splat(self.0[1])))
    }
}

impl Map3 for Weigh<2> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, y: S::F, a: S::F, b: S::F) -> S::F {
        s.add(s.add(y, s.mul(a, s.splat(self.0[0]))), s.mul(b, s.splat(self.0[1])))
    }
}
