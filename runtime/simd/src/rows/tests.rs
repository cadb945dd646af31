//! Compares the primitives over rows with `f64` references, or bit by bit, on every instruction set.

use super::combine::{Arithmetic, Operand, combine_on};
use super::convert::{Convert, FromBf16, FromF16, ToBf16, ToF16, convert};
use super::layer_norm::layer_norm_on;
use super::lookup::lookup_on;
use super::lrn::{Lrn, lrn_on};
use super::quantize::{Dequantize, Quantize, Quantized};
use super::reduce::{Reduction, reduce, rows};
use super::softmax::{Running, multiply_rows_on, softmax_block_on, softmax_on};
use super::transpose::transpose_on;
use crate::isa::Isa;
use crate::testing::{Edge, Guarded};

pub(super) const LENS: &[usize] =
    &[1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000];

/// Returns pseudo-random values in 0..1.
pub(super) fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn converted<C: Convert>(isa: Isa, op: C, x: &[C::X]) -> Vec<C::Y> {
    let mut y = Guarded::new(&vec![C::Y::default(); x.len()], Edge::End);
    convert(isa, op, &Guarded::new(x, Edge::End), &mut y);
    y.to_vec()
}

/// Returns the value of a half-precision float.
fn f16_exact(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[test]
fn f16_and_bf16_survive_conversion_to_f32_and_back() {
    let all_bits: Vec<u16> = (0..=u16::MAX).collect();
    for &isa in Isa::available() {
        let as_f32 = converted(isa, FromF16, &all_bits);
        for (bits, y) in all_bits.iter().zip(&as_f32) {
            let exact = f16_exact(*bits);
            assert!(
                y.is_nan() && exact.is_nan() || y.to_bits() == (exact as f32).to_bits(),
                "{isa:?} {bits:x} {y}"
            );
        }
        for (bits, converted_back) in all_bits.iter().zip(converted(isa, ToF16, &as_f32)) {
            let expected = if f16_exact(*bits).is_nan() { bits | 0x200 } else { *bits };
            assert_eq!(converted_back, expected, "{isa:?}");
        }
        let as_f32 = converted(isa, FromBf16, &all_bits);
        for (bits, y) in all_bits.iter().zip(&as_f32) {
            assert_eq!(y.to_bits(), u32::from(*bits) << 16);
        }
        for (bits, converted_back) in as_f32.iter().zip(converted(isa, ToBf16, &as_f32)) {
            let expected = if bits.is_nan() { 0x40 } else { 0 };
            assert_eq!(u32::from(converted_back), bits.to_bits() >> 16 | expected, "{isa:?}");
        }
    }
}

#[test]
fn half_precision_rounds_to_nearest_even() {
    // The midpoints between neighbouring half-precision values, and their neighbours.
    let mut x = Vec::new();
    for bits in 0..0x7c00u16 {
        let midpoint = f64::midpoint(
            f16_exact(bits),
            if bits == 0x7bff { 65536.0 } else { f16_exact(bits + 1) },
        ) as f32;
        x.extend([midpoint.next_down(), midpoint, midpoint.next_up(), -midpoint]);
    }
    for &isa in Isa::available() {
        for (i, y) in converted(isa, ToF16, &x).into_iter().enumerate() {
            let bits = (i / 4) as u16;
            let even = bits + (bits & 1);
            assert_eq!(y, [bits, even, bits + 1, even | 0x8000][i % 4], "{isa:?} {}", x[i]);
        }
    }
    let high: Vec<f32> = (0..0x7f80u32).map(|b| f32::from_bits(b << 16 | 0x8000)).collect();
    for &isa in Isa::available() {
        for (b, y) in converted(isa, ToBf16, &high).into_iter().enumerate() {
            assert_eq!(usize::from(y), b + (b & 1), "{isa:?}");
        }
    }
}

/// Compares quantization and dequantization with scalars, for many values and scales.
fn check_quantization<Q: Quantized + PartialEq + std::fmt::Debug + TryFrom<i64>>(zero_point: Q) {
    let mut x: Vec<f32> = (-3000..3000i16).map(|i| f32::from(i) * 0.25).collect();
    x.extend(random(4000, 3).iter().map(|x| (x - 0.5) * 2e5));
    x.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, -0.0, 1e-45]);
    let zero: i32 = zero_point.into();
    for &isa in Isa::available() {
        for scale in [1.0f32, 0.5, 0.1, 3.0, 0.007_812_5, 1e-3, 1e-38, 1e38, 0.3] {
            for (x, y) in x.iter().zip(converted(isa, Quantize::new(scale, zero_point), &x)) {
                let expected = (x / scale).round_ties_even();
                let expected = if expected.is_nan() { i64::MIN } else { expected as i64 };
                let expected = expected.saturating_add(i64::from(zero));
                let expected = expected.clamp(i64::from(Q::LEAST), i64::from(Q::GREATEST));
                let y: i32 = y.into();
                assert_eq!(i64::from(y), expected, "{isa:?} {x} / {scale} + {zero}");
            }
            let all_values: Vec<Q> = (Q::LEAST..=Q::GREATEST)
                .filter_map(|expected| Q::try_from(i64::from(expected)).ok())
                .collect();
            for (expected, y) in
                all_values.iter().zip(converted(isa, Dequantize { scale, zero_point }, &all_values))
            {
                let expected: i32 = (*expected).into();
                assert_eq!(y.to_bits(), ((expected - zero) as f32 * scale).to_bits(), "{isa:?}");
            }
        }
    }
}

fn check_combinations<Q: Quantized + PartialEq + std::fmt::Debug>(values: &[Q], zeros: [Q; 3]) {
    // Scales of similar size, and some for which all or no values saturate.
    let scales = [[0.05f32, 0.02, 0.06], [0.3, 7e-3, 1e-9], [1e-3, 1e-3, 1e38], [1e30, 1e30, 0.1]];
    let rotated: Vec<Q> =
        values.iter().cycle().skip(values.len() / 3).take(values.len()).copied().collect();
    for ([a, b, c], &isa) in
        scales.into_iter().flat_map(|s| Isa::available().iter().map(move |i| (s, i)))
    {
        for (a_values, b_values) in [
            (values, &rotated[..]),
            (&values[..1], &rotated[..]),
            (values, &rotated[7..8]),
            (&values[..3], &values[3..6]),
        ] {
            let left = Operand { values: a_values, scale: a, zero_point: zeros[0] };
            let right = Operand { values: b_values, scale: b, zero_point: zeros[1] };
            let len = a_values.len().max(b_values.len());
            for operation in [Arithmetic::Sum, Arithmetic::Product] {
                let quantize = Quantize::new(c, zeros[2]);
                let mut y = vec![Q::default(); len];
                combine_on(isa, operation, left, right, quantize, &mut y);
                let dequantized = |operand: Operand<'_, Q>, i: usize| {
                    let value: i32 =
                        operand.values[if operand.values.len() == 1 { 0 } else { i }].into();
                    let zero: i32 = operand.zero_point.into();
                    (value - zero) as f32 * operand.scale
                };
                let exact_results: Vec<f32> = (0..len)
                    .map(|i| (dequantized(left, i), dequantized(right, i)))
                    .map(|(a, b)| if operation == Arithmetic::Sum { a + b } else { a * b })
                    .collect();
                let expected = converted(isa, quantize, &exact_results);
                assert_eq!(y, expected, "{isa:?} {operation:?} {a} {b} {c}");
            }
        }
    }
}

#[test]
fn quantized_sums_and_products_match_dequantized_ones() {
    let values: Vec<u8> = (0..=u8::MAX).chain(0..77).collect();
    check_combinations(&values, [100, 3, 90]);
    check_combinations(&values, [0, 255, 0]);
    let values: Vec<i8> = (i8::MIN..=i8::MAX).chain(-3..70).collect();
    check_combinations(&values, [0, -128, 5]);
    let values: Vec<u16> = (0..=u16::MAX).step_by(97).collect();
    check_combinations(&values, [32_768, 0, 7]);
}

#[test]
fn quantizing_is_a_division_rounded_and_saturated() {
    check_quantization(0u8);
    check_quantization(128u8);
    check_quantization(-7i8);
    check_quantization(0i8);
    check_quantization(40_000u16);
    check_quantization(-3i16);
}

#[test]
fn softmax_is_close_to_f64() {
    for &isa in Isa::available() {
        for &cols in LENS {
            let x: Vec<f32> = random(cols * 3, 5).iter().map(|x| x * 40.0 - 20.0).collect();
            let mut y = Guarded::new(&vec![0.0; x.len()], Edge::End);
            softmax_on(isa, &Guarded::new(&x, Edge::End), cols, &mut y);
            for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
                let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
                for (x, y) in x.iter().zip(y) {
                    let exact = f64::from(*x).exp() / sum;
                    // Plus half an ulp of `x - max`.
                    assert!(
                        (f64::from(*y) - exact).abs() < 4e-6 * exact,
                        "{isa:?} {cols} {y} {exact}"
                    );
                }
            }
        }
        let mut y = [0.0; 4];
        softmax_on(isa, &[f32::NAN, 1.0, f32::NEG_INFINITY, 1.0], 2, &mut y);
        assert!(y[0].is_nan() && y[1].is_nan());
        assert_eq!(y[2..], [0.0, 1.0]);
    }
}

#[test]
fn layer_norm_is_precise_far_from_zero() {
    for &isa in Isa::available() {
        for &cols in LENS {
            let x: Vec<f32> = random(cols * 2, 9).iter().map(|x| x + 1000.0).collect();
            let (scale, bias) = (random(cols, 10), random(cols, 11));
            for bias in [&bias[..], &[]] {
                let mut y = Guarded::new(&vec![0.0; x.len()], Edge::End);
                let scale = Guarded::new(&scale, Edge::End);
                layer_norm_on(isa, &Guarded::new(&x, Edge::End), &scale, bias, 1e-3, &mut y);
                for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
                    let as_f64 = x.iter().map(|x| f64::from(*x));
                    let mean = as_f64.clone().sum::<f64>() / cols as f64;
                    let variance =
                        as_f64.map(|x| (x - mean) * (x - mean)).sum::<f64>() / cols as f64;
                    for (i, (x, y)) in x.iter().zip(y).enumerate() {
                        let exact = (f64::from(*x) - mean) / (variance + 1e-3).sqrt()
                            * f64::from(scale[i])
                            + f64::from(*bias.get(i).unwrap_or(&0.0));
                        assert!((f64::from(*y) - exact).abs() < 4e-6, "{isa:?} {cols} {y} {exact}");
                    }
                }
            }
        }
    }
}

#[test]
fn reductions_are_precise_and_propagate_nan() {
    for &isa in Isa::available() {
        for &len in LENS.iter().chain(&[2047, 2048, 2049, 1_000_000]) {
            let mut x = random(len, 13);
            let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
            let guarded = Guarded::new(&x, Edge::End);
            assert!(
                (f64::from(reduce(isa, Reduction::Sum, &guarded)) - exact).abs() < 4e-6 * exact
            );
            let (max, min) = (
                x.iter().copied().fold(f32::MIN, f32::max),
                x.iter().copied().fold(f32::MAX, f32::min),
            );
            assert_eq!(reduce(isa, Reduction::Max, &guarded).to_bits(), max.to_bits());
            assert_eq!(reduce(isa, Reduction::Min, &guarded).to_bits(), min.to_bits());
            x[len / 2] = -f32::NAN;
            assert!(
                reduce(isa, Reduction::Max, &x).is_nan()
                    && reduce(isa, Reduction::Min, &x).is_nan()
            );
        }
        assert_eq!(reduce(isa, Reduction::Sum, &[]).to_bits(), 0);
        assert_eq!(reduce(isa, Reduction::Max, &[]).to_bits(), f32::NEG_INFINITY.to_bits());
        let mut y = [0.0; 3];
        rows(isa, Reduction::Max, &[1.0, 2.0, 4.0, 3.0, -5.0, -6.0], 2, &mut y);
        assert_eq!(y.map(f32::to_bits), [2.0f32, 4.0, -5.0].map(f32::to_bits));
    }
}

#[test]
fn softmax_of_long_rows_is_close_to_f64() {
    for &isa in Isa::available() {
        // Rows of every kind, in groups of four and remainders.
        for (rows, cols) in
            [(4, 64), (9, 61), (5, 130), (9, 1280), (2, 1281), (1, 131_073), (2, 200_001)]
        {
            let mut x: Vec<f32> = random(rows * cols, 5).iter().map(|x| x * 20.0).collect();
            // The maximum appears late.
            x[rows * cols - 2] = 60.0;
            let mut y = Guarded::new(&vec![0.0; x.len()], Edge::End);
            softmax_on(isa, &Guarded::new(&x, Edge::End), cols, &mut y);
            for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
                let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
                for (x, y) in x.iter().zip(y) {
                    let exact = f64::from(*x).exp() / sum;
                    let is_near = (f64::from(*y) - exact).abs() < 8e-6 * exact + 1e-44;
                    assert!(is_near, "{isa:?} {cols} {y} {exact}");
                }
            }
            for special in [f32::NAN, f32::INFINITY] {
                x[cols / 2] = special;
                softmax_on(isa, &x, cols, &mut y);
                assert!(y[..cols].iter().all(|y| y.is_nan()), "{isa:?} {cols} {special}");
                assert!(y[cols..].iter().all(|y| !y.is_nan()), "{isa:?} {cols} {special}");
            }
            x[..cols].fill(f32::NEG_INFINITY);
            softmax_on(isa, &x, cols, &mut y);
            assert!(y[..cols].iter().all(|y| y.is_nan()), "{isa:?} {cols}");
            x[0] = f32::MIN;
            softmax_on(isa, &x, cols, &mut y);
            assert_eq!(y[0].to_bits(), 1f32.to_bits(), "{isa:?} {cols}");
        }
    }
}

#[test]
fn softmax_in_blocks_matches_whole_rows() {
    for &isa in Isa::available() {
        for (rows, blocks) in [
            (1, &[1][..]),
            (5, &[3, 70, 17]),
            (9, &[64, 64]),
            (4, &[2, 1, 200]),
            (7, &[8, 33, 48, 16]),
        ] {
            let cols: usize = blocks.iter().sum();
            let mut x: Vec<f32> = random(rows * cols, 5).iter().map(|x| x * 40.0 - 20.0).collect();
            // Rows of minus infinity, and with NaN or infinity, in their first and last block.
            x[..cols].fill(f32::NEG_INFINITY);
            if rows > 2 {
                (x[cols], x[3 * cols - 1]) = (f32::NAN, f32::INFINITY);
            }
            let (mut max, mut sum, mut factor) =
                (vec![f32::MIN; rows], vec![0.0; rows], vec![0.0; rows]);
            let (mut actual, mut start) = (vec![0.0f32; rows * cols], 0);
            for &width in blocks {
                let columns_of_block = |row: usize| row * cols + start..row * cols + start + width;
                let block: Vec<f32> =
                    (0..rows).flat_map(|row| x[columns_of_block(row)].to_vec()).collect();
                let mut block = Guarded::new(&block, Edge::End);
                let running = Running { max: &mut max, sum: &mut sum, factor: &mut factor };
                softmax_block_on(isa, &mut block, width, running);
                multiply_rows_on(isa, &mut actual, cols, &factor);
                for (row, block) in block.chunks(width).enumerate() {
                    actual[columns_of_block(row)].copy_from_slice(block);
                }
                start += width;
            }
            assert_eq!(sum[0].to_bits(), 0, "{isa:?}");
            for row in 1..rows {
                let (x, actual) = (&x[row * cols..][..cols], &actual[row * cols..][..cols]);
                let sum_of_exponentials: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
                if !sum_of_exponentials.is_finite() {
                    assert!(sum[row].is_nan(), "{isa:?} {row}");
                    continue;
                }
                for (x, y) in x.iter().zip(actual) {
                    let exact = f64::from(*x).exp() / sum_of_exponentials;
                    let is_near = (f64::from(y / sum[row]) - exact).abs() < 8e-6 * exact;
                    assert!(is_near, "{isa:?} {rows} {blocks:?} {exact}");
                }
            }
        }
    }
}

#[test]
fn layer_norm_supports_any_number_of_rows() {
    for &isa in Isa::available() {
        for (rows, cols) in [(1, 40), (3, 40), (4, 17), (7, 33), (9, 2048), (5, 2049)] {
            let x: Vec<f32> = random(rows * cols, 9).iter().map(|x| x * 3.0 - 9.0).collect();
            let (scale, bias) = (random(cols, 10), random(cols, 11));
            let mut y = Guarded::new(&vec![0.0; x.len()], Edge::Start);
            let guarded = Guarded::new(&x, Edge::End);
            layer_norm_on(isa, &guarded, &scale, &bias, 1e-5, &mut y);
            for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
                let as_f64 = x.iter().map(|x| f64::from(*x));
                let mean = as_f64.clone().sum::<f64>() / cols as f64;
                let variance = as_f64.map(|x| (x - mean) * (x - mean)).sum::<f64>() / cols as f64;
                for (i, (x, y)) in x.iter().zip(y).enumerate() {
                    let exact = (f64::from(*x) - mean) / (variance + 1e-5).sqrt()
                        * f64::from(scale[i])
                        + f64::from(bias[i]);
                    assert!((f64::from(*y) - exact).abs() < 4e-6, "{isa:?} {cols} {y} {exact}");
                }
            }
        }
    }
}

#[test]
fn layer_norm_of_a_row_does_not_depend_on_other_rows() {
    for &isa in Isa::available() {
        for &cols in LENS.iter().chain(&[511, 1024, 1025, 1100]) {
            for rows in [2, 3, 5, 10] {
                let mut x = random(rows * cols, 9);
                x[cols] = f32::NAN;
                let (scale, bias) = (random(cols, 10), random(cols, 11));
                let mut y = vec![0.0; x.len()];
                layer_norm_on(isa, &x, &scale, &bias, 1e-5, &mut y);
                for (r, (x, y)) in x.chunks(cols).zip(y.chunks(cols)).enumerate() {
                    let mut single_row = vec![0.0; cols];
                    layer_norm_on(isa, x, &scale, &bias, 1e-5, &mut single_row);
                    let is_equal = y.iter().zip(&single_row).all(|(y, single_row)| match r {
                        1 => y.is_nan() && single_row.is_nan(),
                        _ => y.to_bits() == single_row.to_bits(),
                    });
                    assert!(is_equal, "{isa:?} {rows} {cols} {r}");
                }
            }
            layer_norm_on(isa, &[], &random(cols, 10), &[], 1e-5, &mut []);
        }
    }
}

#[test]
fn lrn_is_close_to_f64() {
    let cases = [(1, 1), (1, 5), (3, 2), (5, 7), (16, 3), (17, 5), (64, 5), (65, 4), (100, 1)]
        .into_iter()
        .chain([(70, 33), (40, 200), (4096, 5), (5000, 9), (3000, 2051), (4100, 60)]);
    for (&isa, (channels, size)) in
        Isa::available().iter().flat_map(|isa| cases.clone().map(move |case| (isa, case)))
    {
        for beta in [0.5f32, 0.75, 1.0, 0.6] {
            let rows = if channels < 1000 { 67 } else { 2 };
            let x: Vec<f32> = random(rows * channels, 7).iter().map(|x| x * 60.0 - 30.0).collect();
            let lrn = Lrn { size, alpha: 0.3, beta, bias: 2.0 };
            let mut y = Guarded::new(&vec![0.0; x.len()], Edge::End);
            lrn_on(isa, &Guarded::new(&x, Edge::End), channels, &lrn, &mut y);
            let (alpha, beta_f64) = (f64::from(lrn.alpha), f64::from(beta));
            for (x, y) in x.chunks(channels).zip(y.chunks(channels)) {
                for (c, y) in y.iter().enumerate() {
                    let start = c.saturating_sub((size - 1) / 2);
                    let window = &x[start..channels.min(c + size / 2 + 1)];
                    let sum: f64 = window.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                    let base = 2.0 + alpha / size as f64 * sum;
                    let exact = f64::from(x[c]) / base.powf(beta_f64);
                    let bound = 1e-6 + 1e-7 * beta_f64 * (size as f64 + base.ln().abs());
                    let error = (f64::from(*y) - exact).abs();
                    assert!(
                        error <= bound * exact.abs(),
                        "{isa:?} {channels} {lrn:?} {c}: {y} {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn lrn_propagates_nan_and_infinity() {
    for &isa in Isa::available() {
        for beta in [0.5f32, 0.75, 1.0, 0.6] {
            let lrn = Lrn { size: 3, alpha: 1.0, beta, bias: 1.0 };
            let mut x = [1.0; 40];
            (x[20], x[30]) = (f32::NAN, f32::INFINITY);
            let mut y = [7.0; 40];
            lrn_on(isa, &x, 40, &lrn, &mut y);
            for (c, y) in y.iter().enumerate() {
                assert_eq!(y.is_nan(), (19..=21).contains(&c) || c == 30, "{isa:?} {beta} {c} {y}");
            }
            assert_eq!((y[29], y[31]), (0.0, 0.0), "{isa:?} {beta}");
        }
    }
}

/// Compares transposes of many shapes with the definition; `value` returns the elements.
fn check_transposes<T: crate::bits::Bits + Default + PartialEq + std::fmt::Debug>(
    value: impl Fn(usize) -> T,
) {
    let cases: &[(&[usize], &[usize])] = &[
        (&[], &[]),
        (&[5], &[0]),
        (&[7, 9], &[1, 0]),
        (&[64, 64], &[1, 0]),
        (&[65, 130], &[1, 0]),
        (&[16, 33], &[1, 0]),
        (&[300, 270], &[1, 0]),
        (&[1030, 600], &[1, 0]),
        (&[23, 1024], &[1, 0]),
        (&[1024, 1040], &[1, 0]),
        (&[3, 196], &[1, 0]),
        (&[49, 3], &[1, 0]),
        (&[5, 15], &[1, 0]),
        (&[14, 13], &[1, 0]),
        (&[100, 49], &[1, 0]),
        (&[2, 64, 49], &[0, 2, 1]),
        (&[2, 81, 79], &[0, 2, 1]),
        (&[16, 9, 40, 32], &[3, 2, 1, 0]),
        (&[1024, 31], &[1, 0]),
        (&[4, 8, 1, 16, 16], &[4, 3, 2, 1, 0]),
        (&[3, 17, 19], &[0, 2, 1]),
        (&[3, 17, 19], &[2, 1, 0]),
        (&[3, 17, 19], &[1, 0, 2]),
        (&[2, 3, 20, 21], &[0, 2, 3, 1]),
        (&[2, 1, 20, 21], &[3, 1, 0, 2]),
        (&[2, 3, 4, 5, 6], &[4, 2, 0, 1, 3]),
        (&[2, 2, 3, 2, 2, 3, 2, 2], &[7, 5, 3, 1, 0, 2, 4, 6]),
    ];
    for (&isa, (shape, perm)) in
        Isa::available().iter().flat_map(|isa| cases.iter().map(move |case| (isa, case)))
    {
        let len = shape.iter().product();
        let x: Vec<T> = (0..len).map(&value).collect();
        let mut y = Guarded::new(&vec![T::default(); len], Edge::End);
        transpose_on(isa, &Guarded::new(&x, Edge::End), shape, perm, &mut y);
        for (index, y) in y.iter().enumerate() {
            let (mut remainder, mut source) = (index, 0);
            for &axis in perm.iter().rev() {
                source += remainder % shape[axis] * shape[axis + 1..].iter().product::<usize>();
                remainder /= shape[axis];
            }
            assert_eq!(*y, x[source], "{isa:?} {shape:?} {perm:?} at {index}");
        }
    }
}

#[test]
fn transposes_match_the_definition() {
    check_transposes(|i| i as f32);
    check_transposes(|i| (i * 31 % 251) as u8);
    check_transposes(|i| i as i64);
    check_transposes(|i| i as u16);
    check_transposes(|i| [i as u8, (i >> 8) as u8, (i >> 16) as u8]);
    check_transposes(|i| (i as u32).to_le_bytes());
    check_transposes(|i| (i as u16).to_le_bytes());
}

#[test]
fn lookups_read_the_table() {
    let mut table = [0; 256];
    for (i, entry) in table.iter_mut().enumerate() {
        *entry = (i * 167 + 13) as u8;
    }
    let x: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
    for &isa in Isa::available() {
        for len in 0..300 {
            let mut y = Guarded::new(&vec![0; len], Edge::End);
            lookup_on(isa, &Guarded::new(&x[..len], Edge::End), &table, &mut y);
            assert!(y.iter().zip(&x).all(|(y, x)| *y == table[usize::from(*x)]), "{isa:?} {len}");
        }
    }
}

#[test]
fn no_primitive_allocates() {
    let x = random(770, 1);
    let (mut y, mut bytes) = (vec![0.0; 770], vec![0u8; 770]);
    // Detection of the instruction set may allocate in the first run.
    let quiet = (0..100_000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        super::softmax(&x, 77, &mut y);
        super::layer_norm(&x, &x[..77], &[], 1e-5, &mut y);
        super::transpose(&x, &[10, 77], &[1, 0], &mut y);
        super::quantize(&x, 0.01, 3, &mut bytes);
        super::lrn(&x, 77, &Lrn { size: 5, alpha: 1e-4, beta: 0.75, bias: 1.0 }, &mut y);
        super::row_sums(&x, 77, &mut y[..10]);
        udo_api::guard::thread_heap_calls() == before
    });
    assert!(quiet);
}

#[test]
fn parts_of_transposes_write_only_their_elements() {
    for &isa in Isa::available() {
        for (rows, cols) in [(1, 1), (1, 9), (9, 1), (3, 49), (16, 16), (33, 64), (64, 100)] {
            for gap in [0, 5] {
                let (x_stride, y_stride) = (cols + gap, rows + 2 * gap);
                let x: Vec<u32> = (0..(rows - 1) * x_stride + cols).map(|i| i as u32).collect();
                let x = Guarded::at_end(&x);
                let mut y = Guarded::at_end(&vec![u32::MAX; (cols - 1) * y_stride + rows]);
                super::transpose::transpose_part_on(
                    isa,
                    &x,
                    x_stride,
                    [rows, cols],
                    &mut y,
                    y_stride,
                );
                for (index, &actual) in y.iter().enumerate() {
                    let (j, i) = (index / y_stride, index % y_stride);
                    let expected = if i < rows { (i * x_stride + j) as u32 } else { u32::MAX };
                    assert_eq!(actual, expected, "{isa:?} {rows}x{cols} gap {gap} at {j}, {i}");
                }
            }
        }
    }
}
