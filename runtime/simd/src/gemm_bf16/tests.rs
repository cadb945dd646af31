//! Compares bf16 products with a naive product, on machines that have bf16 instructions.

use super::*;
use crate::gemm_f32::Activation;
use crate::testing::{Guarded, noise};

/// Returns the error bound of a sum of `terms` terms, relative to the sum of absolute values.
fn bound(terms: usize) -> f64 {
    2f64.powi(-7) + 2f64.powi(-16) + (terms as f64 + 3.0) * 1.2e-7
}

/// Runs a product with a full epilogue, and compares each element.
fn check(a: Rows<'_>, [m, k, n]: [usize; 3], element: impl Fn(usize, usize) -> f32) {
    let ldc = n + 1;
    let (b, bias, residual) = (noise(k * n), noise(n), noise(m * n));
    for layout in [Layout::Rows, Layout::Transposed] {
        let mut packed = Guarded::at_end(&vec![f32::NAN; packed_len(k, n)]);
        let ldb = if layout == Layout::Rows { n } else { k };
        let weight = |row: usize, col: usize| match layout {
            Layout::Rows => b[row * ldb + col],
            Layout::Transposed => b[col * ldb + row],
        };
        pack_b(&b, ldb, layout, k, n, packed.slice());
        let mut c = Guarded::at_end(&vec![-7.5; (m - 1) * ldc + n]);
        let epilogue = Epilogue {
            bias: Some(&bias),
            residual: Some((&residual, n)),
            activation: Activation::Relu,
        };
        gemm(a, m, k, packed.slice(), n, c.slice(), ldc, &epilogue);
        for row in 0..m {
            for col in 0..n {
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for depth in 0..k {
                    let term = f64::from(element(row, depth)) * f64::from(weight(depth, col));
                    sum += term;
                    magnitude += term.abs();
                }
                let addend = f64::from(bias[col]) + f64::from(residual[row * n + col]);
                let expected = (sum + addend).max(0.0);
                let error = (f64::from(c[row * ldc + col]) - expected).abs();
                let bound_of_sum = bound(k) * (magnitude + addend.abs() + 1e-6);
                assert!(
                    error <= bound_of_sum,
                    "[{row}, {col}] of {m} x {k} x {n} is off by {error}, not {bound_of_sum}"
                );
            }
        }
        let is_unchanged = |row: usize| c[row * ldc - 1].to_bits() == (-7.5f32).to_bits();
        assert!((1..m).all(is_unchanged), "gaps between rows are unchanged");
    }
}

#[test]
fn products_are_within_their_bound() {
    if !is_available() {
        return;
    }
    for m in [1, 2, 7, 8, 9, 33, 70] {
        for (k, n) in [(1, 1), (2, 16), (3, 17), (31, 48), (64, 65), (513, 20), (1100, 130)] {
            let lda = k + 3;
            let mut a = Guarded::at_end(&noise((m - 1) * lda + k));
            let a = &*a.slice();
            check(Rows::Strided { a, lda }, [m, k, n], |row, depth| a[row * lda + depth]);
        }
    }
}

#[test]
fn gathered_rows_come_from_the_table_or_are_zeros() {
    if !is_available() {
        return;
    }
    for (taps, count) in [(1, 5), (9, 7), (3, 64), (25, 33)] {
        let (pixels, lda, first, m) = (20, count + 4, 3, 37);
        let mut a = Guarded::at_end(&noise((pixels - 1) * lda + first + count));
        let a = &*a.slice();
        let table: Vec<u32> = (0..m * taps)
            .map(|i| if i % 5 == 0 { u32::MAX - (i % 2) as u32 } else { (i * 7 % pixels) as u32 })
            .collect();
        let rows = Rows::Gathered { a, lda, table: &table, taps, channels: (first, count) };
        check(rows, [m, taps * count, 40], |row, depth| {
            let pixel = table[row * taps + depth / count] as usize;
            if pixel < pixels { a[pixel * lda + first + depth % count] } else { 0.0 }
        });
    }
}

#[test]
fn vectors_round_like_scalars() {
    let special =
        [f32::NAN, f32::INFINITY, f32::MAX, -0.0, 1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8)];
    let values: Vec<f32> = noise(70).into_iter().chain(special).collect();
    for len in [0, 1, 15, 16, 31, 33, values.len()] {
        let mut outputs = vec![7; len];
        round(&values[values.len() - len..], &mut outputs);
        for (&x, &outputs) in values[values.len() - len..].iter().zip(&outputs) {
            let actual = f32::from_bits(u32::from(outputs) << 16);
            if x.is_nan() {
                assert!(actual.is_nan());
                continue;
            }
            assert_eq!(outputs, rounded(x), "{x}");
            let error = (f64::from(actual) - f64::from(x)).abs();
            let is_largest = x.to_bits() == f32::MAX.to_bits();
            assert!(
                is_largest || !x.is_finite() || error <= f64::from(x.abs()) * 2f64.powi(-8),
                "{x}"
            );
        }
    }
    assert_eq!([1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8)].map(rounded), [0x3f80, 0x3f82]);
}

#[test]
fn products_of_depth_zero_are_the_bias() {
    if !is_available() {
        return;
    }
    let mut c = [f32::NAN; 6];
    let epilogue = Epilogue { bias: Some(&[1.0, 2.0, 3.0]), ..Epilogue::default() };
    gemm(Rows::Strided { a: &[], lda: 0 }, 2, 0, &[], 3, &mut c, 3, &epilogue);
    assert_eq!(c.map(f32::to_bits), [1.0f32, 2.0, 3.0, 1.0, 2.0, 3.0].map(f32::to_bits));
}
