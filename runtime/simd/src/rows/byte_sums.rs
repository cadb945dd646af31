//! Requantizes sums of products of 16-bit values, given as sums of their bytes' products.

use super::quantize::Quantized;
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Sums combined at a time.
const BLOCK: usize = 16;

/// Sums of byte products, and their addends. Each slice has one element per sum; `bias` and `scales` may have one for
/// all, and slices other than `low` and `scales` may be empty.
#[derive(Clone, Copy, Debug)]
pub struct ByteSums<'a> {
    /// Sums of the high bytes, weighted by 256.
    pub high: &'a [i32],
    /// Sums of the low bytes.
    pub low: &'a [i32],
    /// Added to the sums.
    pub bias: &'a [i32],
    /// Factors of the complete sums.
    pub scales: &'a [f32],
}

/// Computes `saturate(round((256 high + low + bias) * scale) + zero_point)` with ties to even; the exact sum is rounded
/// once to `f32`, and NaN gives the smallest value.
pub fn requantize<Q: Quantized>(sums: ByteSums<'_>, zero_point: Q, y: &mut [Q]) {
    requantize_on(isa(), sums, zero_point, y);
}

pub(super) fn requantize_on<Q: Quantized>(
    isa: Isa,
    sums: ByteSums<'_>,
    zero_point: Q,
    y: &mut [Q],
) {
    let fits = |len: usize, least: usize| len == y.len() || (least..=1).contains(&len);
    debug_assert!(
        fits(sums.bias.len(), 0) && fits(sums.scales.len(), 1),
        "numbers for all or for each"
    );
    debug_assert!(
        sums.low.len() == y.len() && (sums.high.len() == y.len() || sums.high.is_empty())
    );
    dispatch(isa, Requantize { sums, zero_point: zero_point.into() as f32, y });
}

struct Requantize<'a, Q> {
    sums: ByteSums<'a>,
    zero_point: f32,
    y: &'a mut [Q],
}

impl<Q: Quantized> SimdOp for Requantize<'_, Q> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, _: S) {
        let Self { sums: ByteSums { high, low, bias, scales }, zero_point, y } = self;
        let (high, low, bias, scales) =
            (Blocks::new(high), Blocks::new(low), Blocks::new(bias), Blocks::new(scales));
        let (whole, rest) = y.as_chunks_mut::<BLOCK>();
        for (at, y) in whole.iter_mut().enumerate() {
            let numbers = [high.at(at), low.at(at), bias.at(at)];
            requantize_block(numbers, scales.at(at), zero_point, y);
        }
        if !rest.is_empty() {
            let mut values = [Q::default(); BLOCK];
            let numbers = [&high.rest(), &low.rest(), &bias.rest()];
            requantize_block(numbers, &scales.rest(), zero_point, &mut values);
            rest.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        }
    }
}

#[inline(always)]
fn requantize_block<Q: Quantized>(
    [high, low, bias]: [&[i32; BLOCK]; 3],
    scales: &[f32; BLOCK],
    zero_point: f32,
    y: &mut [Q; BLOCK],
) {
    let (least, greatest) = (Q::LEAST as f32, Q::GREATEST as f32);
    for i in 0..BLOCK {
        // Integers below 2^53, so that only the conversion rounds.
        let sum = f64::from(high[i]) * 256.0 + f64::from(low[i]) + f64::from(bias[i]);
        let number = (sum as f32 * scales[i]).round_ties_even() + zero_point;
        let number = if number >= least { number } else { least };
        let number = if number > greatest { greatest } else { number };
        // SAFETY: the value was clamped to the range of the type, and is not NaN.
        y[i] = Q::from_i32(unsafe { number.to_int_unchecked() });
    }
}

/// Elements in blocks: an empty slice stands for zeros, a single element for all.
struct Blocks<'a, T> {
    whole: &'a [[T; BLOCK]],
    rest: &'a [T],
    all: [T; BLOCK],
}

impl<'a, T: Copy + Default> Blocks<'a, T> {
    #[inline(always)]
    fn new(from: &'a [T]) -> Self {
        match *from {
            [] => Self { whole: &[], rest: &[], all: [T::default(); BLOCK] },
            [one] => Self { whole: &[], rest: &[], all: [one; BLOCK] },
            _ => {
                let (whole, rest) = from.as_chunks();
                Self { whole, rest, all: [T::default(); BLOCK] }
            }
        }
    }

    #[inline(always)]
    fn at(&self, block: usize) -> &[T; BLOCK] {
        self.whole.get(block).unwrap_or(&self.all)
    }

    /// Returns the elements after the last whole block.
    #[inline(always)]
    fn rest(&self) -> [T; BLOCK] {
        let mut rest = self.all;
        rest.iter_mut().zip(self.rest).for_each(|(to, &from)| *to = from);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{LENS, random};
    use crate::testing::{Edge, Guarded};

    fn requantized<Q: Quantized + PartialEq + std::fmt::Debug>(zero_point: Q) {
        let ints = |len: usize, seed: u64, most: f32| -> Vec<i32> {
            random(len, seed).iter().map(|x| ((x - 0.5) * most) as i32).collect()
        };
        for &isa in Isa::available() {
            for &len in LENS {
                // Sums of the largest depth, and small ones, with scales that bring them into range.
                for (most, scale) in [(2e9, 2e-7), (3e4, 0.01), (60.0, 4.0 / 256.0)] {
                    let (high, low) = (ints(len, 1, most), ints(len, 2, most));
                    let bias = if len % 2 == 0 { ints(1, 5, most) } else { ints(len, 5, most) };
                    let mut scales: Vec<f32> = random(len, 4).iter().map(|x| x * scale).collect();
                    if len > 40 {
                        (scales[3], scales[35]) = (f32::NAN, f32::INFINITY);
                    }
                    let sums = [(&high[..], &bias[..]), (&[], &[])];
                    for (high, bias) in sums {
                        let mut y = Guarded::new(&vec![Q::default(); len], Edge::End);
                        let sums = ByteSums { high, low: &low, bias, scales: &scales };
                        requantize_on(isa, sums, zero_point, &mut y);
                        for i in 0..len {
                            let value = |from: &[i32]| {
                                from.get(i).or(from.first()).map_or(0, |&int| i64::from(int))
                            };
                            let sum = value(high) * 256 + i64::from(low[i]) + value(bias);
                            let number = f64::from((sum as f32 * scales[i]).round_ties_even());
                            let number = number + f64::from(zero_point.into());
                            let number = number.max(Q::LEAST.into()).min(Q::GREATEST.into());
                            let expected = Q::from_i32(number as i32);
                            assert_eq!(
                                y[i], expected,
                                "{isa:?} {i} of {len}: {sum} * {}",
                                scales[i]
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_bytes_are_exact_and_rounded_once() {
        requantized(40_000u16);
        requantized(-300i16);
        requantized(7u8);
        requantized(-128i8);
    }
}
