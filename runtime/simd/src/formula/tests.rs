//! Tests every driver on every instruction set, with lengths around multiples of a vector, at the edge of accessible
//! memory.

use super::compare::compare2_on;
use super::fold::{fold_columns_on, fold_rows_on};
use super::map::{map2_in_place_on, map2_on, map2_onto_on, map3_in_place_on, map3_on};
use super::*;
use crate::isa::{Isa, Simd};
use crate::testing::{Guarded, noise};

/// `a - 2 b`, which is not symmetric in its operands and has the same bits on every instruction set.
#[derive(Clone, Copy)]
struct Less2;

impl Map2 for Less2 {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.sub(a, s.add(b, b))
    }
}

fn less2(a: f32, b: f32) -> f32 {
    a - (b + b)
}

/// `b` where `a < 0`, else `c`.
#[derive(Clone, Copy)]
struct Choose;

impl Map3 for Choose {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F, c: S::F) -> S::F {
        s.select(s.lt(a, s.splat(0.0)), b, c)
    }
}

fn choose(a: f32, b: f32, c: f32) -> f32 {
    if a < 0.0 { b } else { c }
}

#[derive(Clone, Copy)]
struct Le;

impl Compare2 for Le {
    #[inline(always)]
    fn compare<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::M {
        s.le(a, b)
    }
}

/// The largest absolute value.
#[derive(Clone, Copy)]
struct Farthest;

impl Fold for Farthest {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, so_far: S::F, x: S::F) -> S::F {
        s.max(so_far, s.abs(x))
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.max(a, b)
    }
}

fn farthest<'a>(x: impl Iterator<Item = &'a f32>) -> f32 {
    x.fold(0.0, |far, x| far.max(x.abs()))
}

/// Counts elements, to detect elements that are processed twice or not at all.
#[derive(Clone, Copy)]
struct Count;

impl Fold for Count {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, so_far: S::F, _: S::F) -> S::F {
        s.add(so_far, s.splat(1.0))
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// Wraps a method of `Simd` with one operand.
macro_rules! formula1 {
    ($name:ident, $s:ident, $x:ident => $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Map1 for $name {
            #[inline(always)]
            fn apply<S: Simd>(self, $s: S, $x: S::F) -> S::F {
                $body
            }
        }
    };
}

formula1!(Round, s, x => s.round(x));
formula1!(Floor, s, x => s.floor(x));
formula1!(Ceil, s, x => s.ceil(x));
formula1!(Trunc, s, x => s.trunc(x));
formula1!(Neg, s, x => s.neg(x));
formula1!(Inside, s, x => {
    let (low, high) = (s.splat(-1.0), s.splat(1.0));
    let beyond = s.mask_or(s.lt(x, low), s.lt(high, x));
    let inside = s.mask_and(s.mask_not(beyond), s.eq(x, x));
    s.select(inside, x, s.splat(9.0))
});
formula1!(ByLanes, s, x => s.of_array(s.to_array(x).map(|x| x + 1.0)));

fn cases() -> impl Iterator<Item = (Isa, usize)> {
    let lens = (0..70).chain([127, 128, 129, 300]);
    Isa::available().iter().flat_map(move |&isa| lens.clone().map(move |len| (isa, len)))
}

#[test]
fn formulas_of_two_values_accept_slices_and_scalars() {
    let (a, b) = (noise(300), noise(601));
    for (isa, len) in cases() {
        let (a, b) = (Guarded::at_end(&a[..len]), Guarded::at_end(&b[301..][..len]));
        let (slice_a, slice_b) = (Operand::Slice(&a), Operand::Slice(&b));
        for (left, right) in [
            (slice_a, slice_b),
            (slice_a, Operand::Scalar(0.7)),
            (Operand::Scalar(0.7), slice_b),
            (Operand::Scalar(0.7), Operand::Scalar(-3.0)),
        ] {
            let value_at = |operand: Operand<'_>, i: usize| match operand {
                Operand::Slice(values) => values[i],
                Operand::Scalar(value) => value,
            };
            let expected: Vec<f32> =
                (0..len).map(|i| less2(value_at(left, i), value_at(right, i))).collect();
            let mut actual = Guarded::at_end(&vec![9.0; len]);
            map2_on(isa, Less2, [left, right], &mut actual);
            assert_eq!(*actual, expected, "{isa:?} {len}");
            if let Operand::Slice(left) = left {
                let mut actual = Guarded::at_end(left);
                map2_in_place_on(isa, Less2, &mut actual, right);
                assert_eq!(*actual, expected, "{isa:?} {len} in place");
            }
            if let Operand::Slice(right) = right {
                let mut actual = Guarded::at_end(right);
                map2_onto_on(isa, Less2, left, &mut actual);
                assert_eq!(*actual, expected, "{isa:?} {len} onto the second");
            }
            let mut bytes = Guarded::at_end(&vec![9; len]);
            compare2_on(isa, Le, [left, right], &mut bytes);
            for (i, &byte) in bytes.iter().enumerate() {
                assert_eq!(
                    byte,
                    u8::from(value_at(left, i) <= value_at(right, i)),
                    "{isa:?} {len} at {i}"
                );
            }
        }
    }
}

#[test]
fn formulas_of_three_values_accept_slices_and_scalars() {
    let (a, b, c) = (noise(300), noise(700), noise(1100));
    for (isa, len) in cases() {
        let a = Guarded::at_end(&a[..len]);
        let (b, c) = (Guarded::at_end(&b[400..][..len]), Guarded::at_end(&c[800..][..len]));
        let mut actual = Guarded::at_end(&vec![9.0; len]);
        map3_on(
            isa,
            Choose,
            [Operand::Slice(&a), Operand::Slice(&b), Operand::Slice(&c)],
            &mut actual,
        );
        let expected: Vec<f32> = (0..len).map(|i| choose(a[i], b[i], c[i])).collect();
        assert_eq!(*actual, expected, "{isa:?} {len}");
        let mut actual = Guarded::at_end(&a);
        map3_in_place_on(isa, Choose, &mut actual, [Operand::Scalar(5.0), Operand::Slice(&c)]);
        let expected: Vec<f32> = (0..len).map(|i| choose(a[i], 5.0, c[i])).collect();
        assert_eq!(*actual, expected, "{isa:?} {len} in place");
    }
}

#[test]
fn folds_process_every_value_once() {
    let x = noise(300 * 7);
    for (isa, cols) in cases() {
        let x = Guarded::at_end(&x[..cols * 7]);
        let mut actual = Guarded::at_end(&[9.0; 7]);
        fold_rows_on(isa, Count, &x, cols, &mut actual);
        assert_eq!(*actual, [cols as f32; 7], "{isa:?} {cols}");
        fold_rows_on(isa, Farthest, &x, cols, &mut actual);
        for (row, actual) in actual.iter().enumerate() {
            let expected = farthest(x[row * cols..][..cols].iter());
            assert_eq!(actual.to_bits(), expected.to_bits(), "{isa:?} {cols} {row}");
        }
        let mut actual = Guarded::at_end(&vec![0.0; cols]);
        fold_columns_on(isa, Farthest, &x, &mut actual);
        for (column, actual) in actual.iter().enumerate() {
            let expected = farthest(x.iter().skip(column).step_by(cols));
            assert_eq!(actual.to_bits(), expected.to_bits(), "{isa:?} {cols} {column}");
        }
        fold_columns_on(isa, Count, &x, &mut actual);
        fold_columns_on(isa, Count, &x, &mut actual);
        // Two folds of 7 rows have counted 14 elements on top of the previous result.
        let counts = actual
            .iter()
            .enumerate()
            .map(|(i, actual)| actual - farthest(x.iter().skip(i).step_by(cols)));
        assert!(counts.into_iter().all(|count| (count - 14.0).abs() < 1e-5), "{isa:?} {cols}");
    }
}

/// Checks that `f` gives the bits of `reference` on every instruction set.
fn check<F: Map1>(name: &str, f: F, x: &[f32], reference: impl Fn(f32) -> f32) {
    for &isa in Isa::available() {
        let mut y = vec![9.0; x.len()];
        map1_on(isa, f, x, &mut y);
        for (&x, y) in x.iter().zip(y) {
            let expected = reference(x);
            let same = y.to_bits() == expected.to_bits() || y.is_nan() && expected.is_nan();
            assert!(same, "{isa:?} {name}({x:e}) is {y:e}, expected {expected:e}");
        }
    }
}

#[test]
fn vector_methods_match_scalars() {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(99_991).map(f32::from_bits).collect();
    x.extend([
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        0.0,
        -0.0,
        8_388_607.5,
        1e30,
        f32::NAN,
        f32::INFINITY,
    ]);
    check("round", Round, &x, f32::round_ties_even);
    check("floor", Floor, &x, f32::floor);
    check("ceil", Ceil, &x, f32::ceil);
    check("trunc", Trunc, &x, f32::trunc);
    check("neg", Neg, &x, |x| -x);
    check("inside", Inside, &x, |x| if (-1.0..=1.0).contains(&x) { x } else { 9.0 });
    check("lanes", ByLanes, &x, |x| x + 1.0);
}

#[test]
fn no_driver_allocates() {
    let x = [0.5f32; 77];
    let (mut y, mut bytes) = ([0.0f32; 77], [0; 77]);
    // Detection of the instruction set may allocate in the first run.
    let quiet = (0..100_000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        map2(Less2, x.as_slice(), 0.5, &mut y);
        map3(Choose, x.as_slice(), 0.5, 0.25, &mut y);
        compare2(Le, x.as_slice(), 0.5, &mut bytes);
        y[0] = fold(Farthest, &x);
        fold_columns(Count, &x, &mut y);
        udo_api::guard::thread_heap_calls() == before
    });
    assert!(quiet);
}
