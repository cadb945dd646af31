//! Requantizes sums of products of 16-bit values. Primitives multiply only bytes, so that each sum comes in two parts:
//! the sum of the products of the high bytes, and that of the low bytes.

use super::quantize::Quantized;
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// Sums combined at a time.
const BLOCK: usize = 16;

/// Sums of byte products, with bias and scales. Each slice has one element per sum. `bias` and `scales` may also have
/// one element for all sums; `high` and `bias` may be empty.
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
    let has_len = |len: usize, minimum: usize| len == y.len() || (minimum..=1).contains(&len);
    debug_assert!(
        has_len(sums.bias.len(), 0) && has_len(sums.scales.len(), 1),
        "one element for all sums or one for each"
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
        let (high, low, bias, scales) = (
            BlockedSlice::new(high),
            BlockedSlice::new(low),
            BlockedSlice::new(bias),
            BlockedSlice::new(scales),
        );
        let (blocks, tail) = y.as_chunks_mut::<BLOCK>();
        for (index, y) in blocks.iter_mut().enumerate() {
            let addends = [high.block(index), low.block(index), bias.block(index)];
            requantize_block(addends, scales.block(index), zero_point, y);
        }
        if !tail.is_empty() {
            let mut values = [Q::default(); BLOCK];
            let addends = [&high.last_block(), &low.last_block(), &bias.last_block()];
            requantize_block(addends, &scales.last_block(), zero_point, &mut values);
            tail.iter_mut().zip(values).for_each(|(to, value)| *to = value);
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
    let (minimum, maximum) = (Q::LEAST as f32, Q::GREATEST as f32);
    for i in 0..BLOCK {
        // Integers below 2^53, so that only the conversion rounds.
        let sum = f64::from(high[i]) * 256.0 + f64::from(low[i]) + f64::from(bias[i]);
        let value = (sum as f32 * scales[i]).round_ties_even() + zero_point;
        let value = if value >= minimum { value } else { minimum };
        let value = if value > maximum { maximum } else { value };
        // SAFETY: the value was clamped to the range of the type, and is not NaN.
        y[i] = Q::from_i32(unsafe { value.to_int_unchecked() });
    }
}

/// A slice in blocks of `BLOCK` elements. An empty slice stands for zeros, and a single element for any number of
/// elements.
struct BlockedSlice<'a, T> {
    blocks: &'a [[T; BLOCK]],
    tail: &'a [T],
    default: [T; BLOCK],
}

impl<'a, T: Copy + Default> BlockedSlice<'a, T> {
    #[inline(always)]
    fn new(values: &'a [T]) -> Self {
        match *values {
            [] => Self { blocks: &[], tail: &[], default: [T::default(); BLOCK] },
            [value] => Self { blocks: &[], tail: &[], default: [value; BLOCK] },
            _ => {
                let (blocks, tail) = values.as_chunks();
                Self { blocks, tail, default: [T::default(); BLOCK] }
            }
        }
    }

    #[inline(always)]
    fn block(&self, block: usize) -> &[T; BLOCK] {
        self.blocks.get(block).unwrap_or(&self.default)
    }

    /// Returns the elements after the last whole block.
    #[inline(always)]
    fn last_block(&self) -> [T; BLOCK] {
        let mut block = self.default;
        block.iter_mut().zip(self.tail).for_each(|(to, &values)| *to = values);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{LENS, random};
    use crate::testing::{Edge, Guarded};

    /// Compares all lengths with exact integer sums.
    fn check<Q: Quantized + PartialEq + std::fmt::Debug>(zero_point: Q) {
        let random_integers = |len: usize, seed: u64, magnitude: f32| -> Vec<i32> {
            random(len, seed).iter().map(|x| ((x - 0.5) * magnitude) as i32).collect()
        };
        for &isa in Isa::available() {
            for &len in LENS {
                // Sums of the largest depth, and small ones, with scales that bring them into range.
                for (magnitude, scale) in [(2e9, 2e-7), (3e4, 0.01), (60.0, 4.0 / 256.0)] {
                    let (high, low) =
                        (random_integers(len, 1, magnitude), random_integers(len, 2, magnitude));
                    let bias = if len % 2 == 0 {
                        random_integers(1, 5, magnitude)
                    } else {
                        random_integers(len, 5, magnitude)
                    };
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
                            let value_at = |from: &[i32]| {
                                from.get(i).or(from.first()).map_or(0, |&value| i64::from(value))
                            };
                            let sum = value_at(high) * 256 + i64::from(low[i]) + value_at(bias);
                            let expected_value =
                                f64::from((sum as f32 * scales[i]).round_ties_even());
                            let expected_value = expected_value + f64::from(zero_point.into());
                            let expected_value =
                                expected_value.max(Q::LEAST.into()).min(Q::GREATEST.into());
                            let expected = Q::from_i32(expected_value as i32);
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
        check(40_000u16);
        check(-300i16);
        check(7u8);
        check(-128i8);
    }
}
