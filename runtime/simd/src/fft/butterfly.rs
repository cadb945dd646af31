//! Complex arithmetic on `L` interleaved transforms, and transforms of 2 to 5 elements, from which the passes of larger
//! transforms are built.

use super::lane::Lane;

/// An element of `L` transforms: the real parts, and the imaginary parts.
pub(super) type Complex<T, const L: usize> = [[T; L]; 2];

#[inline(always)]
fn both<T: Lane, const L: usize>(a: [T; L], b: [T; L], f: impl Fn(T, T) -> T) -> [T; L] {
    let mut results = a;
    let mut i = 0;
    while i < L {
        results[i] = f(a[i], b[i]);
        i += 1;
    }
    results
}

#[inline(always)]
pub(super) fn add<T: Lane, const L: usize>(a: Complex<T, L>, b: Complex<T, L>) -> Complex<T, L> {
    [both(a[0], b[0], |a, b| a + b), both(a[1], b[1], |a, b| a + b)]
}

#[inline(always)]
pub(super) fn sub<T: Lane, const L: usize>(a: Complex<T, L>, b: Complex<T, L>) -> Complex<T, L> {
    [both(a[0], b[0], |a, b| a - b), both(a[1], b[1], |a, b| a - b)]
}

#[inline(always)]
pub(super) fn negative<T: Lane, const L: usize>(a: [T; L]) -> [T; L] {
    both(a, a, |a, _| T::default() - a)
}

/// Scales both parts of `a` by `by`.
#[inline(always)]
pub(super) fn scale<T: Lane, const L: usize>(a: Complex<T, L>, by: T) -> Complex<T, L> {
    [both(a[0], a[0], |a, _| a * by), both(a[1], a[1], |a, _| a * by)]
}

/// Multiplies `a` by one complex number.
#[inline(always)]
pub(super) fn mul<T: Lane, const L: usize>(a: Complex<T, L>, [re, im]: [T; 2]) -> Complex<T, L> {
    [both(a[0], a[1], |x, y| x * re - y * im), both(a[0], a[1], |x, y| x * im + y * re)]
}

/// `a - i b`.
#[inline(always)]
fn sub_i<T: Lane, const L: usize>(a: Complex<T, L>, b: Complex<T, L>) -> Complex<T, L> {
    [both(a[0], b[1], |a, b| a + b), both(a[1], b[0], |a, b| a - b)]
}

/// `a + i b`.
#[inline(always)]
fn add_i<T: Lane, const L: usize>(a: Complex<T, L>, b: Complex<T, L>) -> Complex<T, L> {
    [both(a[0], b[1], |a, b| a - b), both(a[1], b[0], |a, b| a + b)]
}

#[inline(always)]
pub(super) fn dft2<T: Lane, const L: usize>([a, b]: [Complex<T, L>; 2]) -> [Complex<T, L>; 2] {
    [add(a, b), sub(a, b)]
}

#[inline(always)]
pub(super) fn dft3<T: Lane, const L: usize>([a, b, c]: [Complex<T, L>; 3]) -> [Complex<T, L>; 3] {
    // sin(60 degrees).
    let sine = T::of_f64(0.866_025_403_784_438_6);
    let (sum, difference) = (add(b, c), scale(sub(b, c), sine));
    let middle = sub(a, scale(sum, T::of_f64(0.5)));
    [add(a, sum), sub_i(middle, difference), add_i(middle, difference)]
}

#[inline(always)]
pub(super) fn dft4<T: Lane, const L: usize>(
    [a, b, c, d]: [Complex<T, L>; 4],
) -> [Complex<T, L>; 4] {
    let (even_sum, even_difference) = (add(a, c), sub(a, c));
    let (odd_sum, odd_difference) = (add(b, d), sub(b, d));
    [
        add(even_sum, odd_sum),
        sub_i(even_difference, odd_difference),
        sub(even_sum, odd_sum),
        add_i(even_difference, odd_difference),
    ]
}

#[inline(always)]
pub(super) fn dft5<T: Lane, const L: usize>(
    [a, b, c, d, e]: [Complex<T, L>; 5],
) -> [Complex<T, L>; 5] {
    // Cosines and sines of 72 and 144 degrees.
    let (c1, c2) = (T::of_f64(0.309_016_994_374_947_45), T::of_f64(-0.809_016_994_374_947_5));
    let (s1, s2) = (T::of_f64(0.951_056_516_295_153_5), T::of_f64(0.587_785_252_292_473_1));
    let (outer_sum, inner_sum) = (add(b, e), add(c, d));
    let (outer_difference, inner_difference) = (sub(b, e), sub(c, d));
    let first_even = add(a, add(scale(outer_sum, c1), scale(inner_sum, c2)));
    let second_even = add(a, add(scale(outer_sum, c2), scale(inner_sum, c1)));
    let first_odd = add(scale(outer_difference, s1), scale(inner_difference, s2));
    let second_odd = sub(scale(outer_difference, s2), scale(inner_difference, s1));
    [
        add(a, add(outer_sum, inner_sum)),
        sub_i(first_even, first_odd),
        sub_i(second_even, second_odd),
        add_i(second_even, second_odd),
        add_i(first_even, first_odd),
    ]
}
