//! Binary functions and predicates of rows. They exist for the types f32, f64, i64 and u64; elements of other types are
//! converted to one of these in blocks.

use std::marker::PhantomData;

use udo_api::{Bf16, Bool, Element, ExecError, F16, Io, Pair};
use udo_simd::{Compare2, Map2, Operand, Simd, compare2, map2, map2_in_place};

use super::Broadcast;
use super::stored::{BLOCK, Codec, Plain};
use crate::number::Number;

/// One operand of a row: an element per output, or one element for all outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side<'a, T> {
    Each(&'a [T]),
    One(T),
}

impl<'a> From<Side<'a, f32>> for Operand<'a> {
    fn from(side: Side<'a, f32>) -> Self {
        match side {
            Side::Each(elements) => Self::Slice(elements),
            Side::One(element) => Self::Scalar(element),
        }
    }
}

impl<T> Side<'_, T> {
    /// Returns the single value, or all values.
    pub(crate) fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Each(values) => values,
        }
    }
}

impl<'a, T: Element> Side<'a, T> {
    /// Returns `len` elements with a stride of 0 or 1.
    pub(super) fn new(elements: &'a [T], step: usize, len: usize) -> Self {
        if step == 0 { Self::One(elements[0]) } else { Self::Each(&elements[..len]) }
    }

    /// Converts the elements from `first` on to `block`, as many as it has.
    fn load<C: Element>(
        self,
        first: usize,
        block: &mut [C],
        codec: impl Codec<T, C>,
    ) -> Side<'_, C> {
        match self {
            Self::Each(x) => {
                block.iter_mut().zip(&x[first..]).for_each(|(y, &x)| *y = codec.load(x));
                Side::Each(block)
            }
            Self::One(x) => Side::One(codec.load(x)),
        }
    }
}

/// A function of two values.
pub(crate) trait Pairs: Send + Sync + 'static {
    /// The f64 reference for tests.
    const F64: fn(f64, f64) -> f64;

    /// The function of values of any type but f32.
    fn apply<T: Number>(a: T, b: T) -> T;

    /// The function of vector lanes.
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F;

    /// Returns the function of rows of f32.
    fn singles() -> Rows<f32>
    where
        Self: Sized,
    {
        singles::<Self>()
    }
}

/// Returns the function of f32 rows that uses [`Pairs::lanes`].
pub(crate) fn singles<P: Pairs>() -> Rows<f32> {
    Rows {
        out_of_place: |a, b, y| map2(Lanes::<P>(PhantomData), a, b, y),
        in_place: |y, b| map2_in_place(Lanes::<P>(PhantomData), y, b),
    }
}

/// Applies a scalar function to each lane of a vector, for functions without a vector version.
#[inline(always)]
pub(crate) fn lane_by_lane<S: Simd>(
    s: S,
    a: S::F,
    b: S::F,
    function: impl Fn(f32, f32) -> f32,
) -> S::F {
    let (mut y, b) = (s.to_array(a), s.to_array(b));
    for (y, b) in y.iter_mut().zip(b).take(S::LANES) {
        *y = function(*y, b);
    }
    s.of_array(y)
}

/// A function of two rows, with a separate output or in place of the first.
pub(crate) struct Rows<T> {
    pub(crate) out_of_place: fn(Side<'_, T>, Side<'_, T>, &mut [T]),
    pub(crate) in_place: fn(&mut [T], Side<'_, T>),
}

impl<T: Element> Rows<T> {
    /// Computes output 0 from inputs 0 and 1, of which the first may be overwritten.
    pub(super) fn run(&self, plan: &Broadcast, io: &mut Io<'_>) -> Result<(), ExecError> {
        let b = io.inputs.get::<T>(1)?;
        match io.pair::<T>(0, 0)? {
            Pair::Apart(a, y) => plan.rows(io.parallel, (a, b), y, &self.out_of_place),
            Pair::Same(y) => plan.rows_in_place(io.parallel, y, b, &self.in_place),
        }
    }
}

/// An element type with functions and predicates of rows.
pub(super) trait Computed: Element {
    fn rows<P: Pairs>() -> Rows<Self>;
    fn bools<Q: PairPredicate>() -> Bools<Self>;
}

/// The vector version of a function or predicate.
struct Lanes<P>(PhantomData<fn() -> P>);

impl<P> Clone for Lanes<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Lanes<P> {}

impl<P: Pairs> Map2 for Lanes<P> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        P::lanes(s, a, b)
    }
}

impl<Q: PairPredicate> Compare2 for Lanes<Q> {
    #[inline(always)]
    fn compare<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::M {
        Q::lanes(s, a, b)
    }
}

impl Computed for f32 {
    fn rows<P: Pairs>() -> Rows<Self> {
        P::singles()
    }

    fn bools<Q: PairPredicate>() -> Bools<Self> {
        |a, b, y| compare2(Lanes::<Q>(PhantomData), a, b, udo_api::bytes_of_mut(y))
    }
}

macro_rules! computed {
    ($($t:ty),*) => {$(
        impl Computed for $t {
            fn rows<P: Pairs>() -> Rows<Self> {
                Rows { out_of_place: |a, b, y| each(a, b, y, P::apply), in_place: |y, b| each_in_place(y, b, P::apply) }
            }

            fn bools<Q: PairPredicate>() -> Bools<Self> {
                |a, b, y| each(a, b, y, |a, b| Bool::from(Q::holds(a, b)))
            }
        }
    )*};
}

computed!(f64, i64, u64);

macro_rules! by_blocks {
    ($($c:ty: $($t:ty),*;)*) => {$($(
        impl Computed for $t {
            fn rows<P: Pairs>() -> Rows<Self> {
                Rows {
                    out_of_place: |a, b, y| combine_blocks([Plain; 3], <$c>::rows::<P>().in_place, a, b, y),
                    in_place: |y, b| combine_blocks_in_place(<$c>::rows::<P>().in_place, y, b),
                }
            }

            fn bools<Q: PairPredicate>() -> Bools<Self> {
                |a, b, y| compare_blocks([Plain; 2], <$c>::bools::<Q>(), a, b, y)
            }
        }
    )*)*};
}

by_blocks! {
    f32: F16, Bf16;
    i64: i8, i16, i32, u8, u16, u32, Bool;
}

/// Computes `y[i] = f(a[i], b[i])`.
#[inline]
pub(super) fn each<T: Copy, Y: Copy>(
    a: Side<'_, T>,
    b: Side<'_, T>,
    y: &mut [Y],
    f: impl Fn(T, T) -> Y,
) {
    match (a, b) {
        (Side::One(a), Side::One(b)) => y.fill(f(a, b)),
        (Side::One(a), Side::Each(b)) => y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(a, b)),
        (Side::Each(a), Side::One(b)) => y.iter_mut().zip(a).for_each(|(y, &a)| *y = f(a, b)),
        (Side::Each(a), Side::Each(b)) => {
            y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = f(a, b));
        }
    }
}

/// Computes `y[i] = f(y[i], b[i])`.
#[inline]
pub(super) fn each_in_place<T: Copy>(y: &mut [T], b: Side<'_, T>, f: impl Fn(T, T) -> T) {
    match b {
        Side::One(b) => y.iter_mut().for_each(|y| *y = f(*y, b)),
        Side::Each(b) => y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(*y, b)),
    }
}

/// Computes [`Rows::out_of_place`] for elements that are converted in blocks.
pub(super) fn combine_blocks<T: Element, C: Element, K: Codec<T, C>>(
    [a_codec, b_codec, y_codec]: [K; 3],
    in_place: fn(&mut [C], Side<'_, C>),
    a: Side<'_, T>,
    b: Side<'_, T>,
    y: &mut [T],
) {
    let (mut a_block, mut b_block) = ([C::default(); BLOCK], [C::default(); BLOCK]);
    for (i, y) in y.chunks_mut(BLOCK).enumerate() {
        let (a_block, first) = (&mut a_block[..y.len()], i * BLOCK);
        let scalar = match a.load(first, a_block, a_codec) {
            Side::One(a) => Some(a),
            Side::Each(_) => None,
        };
        if let Some(a) = scalar {
            a_block.fill(a);
        }
        in_place(a_block, b.load(first, &mut b_block[..y.len()], b_codec));
        y.iter_mut().zip(a_block).for_each(|(y, &mut result)| *y = y_codec.store(result));
    }
}

/// Computes [`Rows::in_place`] for elements that are converted in blocks.
pub(super) fn combine_blocks_in_place<T: Element, C: Element>(
    in_place: fn(&mut [C], Side<'_, C>),
    y: &mut [T],
    b: Side<'_, T>,
) where
    Plain: Codec<T, C>,
{
    let (mut y_block, mut b_block) = ([C::default(); BLOCK], [C::default(); BLOCK]);
    for (i, y) in y.chunks_mut(BLOCK).enumerate() {
        let y_block = &mut y_block[..y.len()];
        y_block.iter_mut().zip(&*y).for_each(|(loaded, &x)| *loaded = Plain.load(x));
        in_place(y_block, b.load(i * BLOCK, &mut b_block[..y.len()], Plain));
        y.iter_mut().zip(y_block).for_each(|(y, &mut result)| *y = Plain.store(result));
    }
}

/// A predicate of two values.
pub(crate) trait PairPredicate: Send + Sync + 'static {
    /// The predicate of values of any type but f32.
    fn holds<T: Number>(a: T, b: T) -> bool;

    /// The predicate of vector lanes.
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::M;
}

/// A function that evaluates a predicate for two rows.
pub(super) type Bools<T> = fn(Side<'_, T>, Side<'_, T>, &mut [Bool]);

/// Evaluates a predicate for two rows whose elements are converted in blocks.
pub(super) fn compare_blocks<T: Element, C: Element, K: Codec<T, C>>(
    [a_codec, b_codec]: [K; 2],
    compare_rows: Bools<C>,
    a: Side<'_, T>,
    b: Side<'_, T>,
    y: &mut [Bool],
) {
    let (mut a_block, mut b_block) = ([C::default(); BLOCK], [C::default(); BLOCK]);
    for (i, y) in y.chunks_mut(BLOCK).enumerate() {
        let first = i * BLOCK;
        let a = a.load(first, &mut a_block[..y.len()], a_codec);
        compare_rows(a, b.load(first, &mut b_block[..y.len()], b_codec), y);
    }
}
