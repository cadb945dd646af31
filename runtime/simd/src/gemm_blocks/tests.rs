//! Compares products with their definition in `f64`, for every instruction set, with slices next to protected pages.

use super::*;
use crate::gemm_f32::{Epilogue, Layout, gemm, pack_b, packed_len};
use crate::testing::{Guarded, assert_near, noise};

/// A quantized right side with random values, scales and zero points.
struct Case {
    width: Width,
    block: usize,
    count: usize,
    columns: usize,
    values: Vec<u8>,
    scales: Vec<f32>,
    packed_zeros: Vec<u8>,
    zeros: Vec<f32>,
}

impl Case {
    fn new(width: Width, block: usize, count: usize, columns: usize) -> Self {
        let mut state = 7u32;
        let mut bytes = |len: usize| -> Vec<u8> {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..len).map(|_| next()).collect()
        };
        let (values, packed_zeros) =
            (bytes(columns * count * width.bytes(block)), bytes(columns * width.bytes(count)));
        let (scales, zeros) = (noise(columns * count), noise(columns * count + 1).split_off(1));
        Self { width, block, count, columns, values, scales, packed_zeros, zeros }
    }

    /// Returns a quantized value.
    fn value(&self, bytes: &[u8], index: usize) -> f64 {
        match self.width {
            Width::Eight => f64::from(bytes[index]),
            Width::Four => f64::from(bytes[index / 2] >> (index % 2 * 4) & 15),
        }
    }

    /// Returns a dequantized value. `kind` is the index of the zero points in the test's list.
    fn dequantized(&self, kind: usize, column: usize, depth_index: usize) -> f64 {
        let block = depth_index / self.block;
        let len = self.width.bytes(self.block);
        let bytes_of_block = &self.values[(column * self.count + block) * len..][..len];
        let zeros_len = self.width.bytes(self.count);
        let zero = match kind {
            0 => 8.0,
            1 => self.value(&self.packed_zeros[column * zeros_len..][..zeros_len], block),
            _ => f64::from(self.zeros[column * self.count + block]),
        };
        let scale = f64::from(self.scales[column * self.count + block]);
        (self.value(bytes_of_block, depth_index % self.block) - zero) * scale
    }

    /// Returns the product with rows of `depth` elements.
    fn expected(&self, kind: usize, x: &[f32], depth: usize) -> Vec<f64> {
        let rows = x.chunks(depth);
        let sum = |x: &[f32], column: usize| {
            let terms = x.iter().enumerate();
            terms
                .map(|(index, x)| f64::from(*x) * self.dequantized(kind, column, index))
                .sum::<f64>()
        };
        rows.flat_map(|x| (0..self.columns).map(move |column| sum(x, column))).collect()
    }
}

#[test]
fn products_match_dequantized_values() {
    for width in [Width::Four, Width::Eight] {
        for (block, count, columns) in [(16, 3, 5), (32, 1, 1), (32, 4, 9), (64, 2, 6), (128, 2, 3)]
        {
            let case = Case::new(width, block, count, columns);
            let (values, scales) = (Guarded::at_end(&case.values), Guarded::at_end(&case.scales));
            let zeros = [
                Zeros::Same(8.0),
                Zeros::Quantized(&case.packed_zeros),
                Zeros::Floats(&case.zeros),
            ];
            for (kind, zeros) in zeros.into_iter().enumerate() {
                let b =
                    Blocks::new(width, [block, count, columns], &values, &scales, zeros).unwrap();
                for (rows, depth) in
                    [(1, block * count), (2, block * count - 3), (7, block * count)]
                {
                    let x = noise(rows * depth);
                    let mut a = Guarded::at_end(&vec![f32::NAN; rows * b.depth()]);
                    arrange(&b, depth, &x, &mut a);
                    let expected = case.expected(kind, &x, depth);
                    for &isa in Isa::available() {
                        let mut y = Guarded::at_end(&vec![0.0; rows * columns]);
                        multiply_on(isa, &b, 0..columns, &a, &mut y, columns);
                        assert_near(&y, &expected, 1e-4);
                        let product = multiply_dequantized(isa, &b, &a, rows);
                        assert_near(&product, &expected, 1e-4);
                    }
                }
            }
        }
    }
}

/// Computes the product by dequantizing the right side first.
fn multiply_dequantized(isa: Isa, b: &Blocks<'_>, a: &[f32], rows: usize) -> Vec<f32> {
    let (depth, columns) = (b.depth(), b.columns);
    let mut dequantized = Guarded::at_end(&vec![0.0; columns * depth]);
    dequantize_columns_on(isa, b, 0..columns, &mut dequantized);
    let mut packed = vec![0.0; packed_len(depth, columns)];
    pack_b(&dequantized, depth, Layout::Transposed, depth, columns, &mut packed);
    let mut y = vec![0.0; rows * columns];
    gemm(a, depth, rows, depth, &packed, columns, &mut y, columns, &Epilogue::default());
    y
}

#[test]
fn ranges_of_columns_match_whole_products() {
    let case = Case::new(Width::Four, 32, 3, 11);
    let b = Blocks::new(Width::Four, [32, 3, 11], &case.values, &case.scales, Zeros::Same(8.0));
    let b = b.unwrap();
    let a = noise(2 * b.depth());
    let (mut whole, mut part) = (vec![0.0; 22], vec![0.0; 2 * 4]);
    multiply(&b, 0..11, &a, &mut whole, 11);
    multiply(&b, 5..9, &a, &mut part, 4);
    for (whole, part) in whole.chunks(11).zip(part.chunks(4)) {
        assert_eq!(&whole[5..9], part);
    }
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let (values, scales) = (vec![0; 2 * 3 * 16], vec![0.0; 6]);
    let is_accepted = |sizes, values, scales, zeros| {
        Blocks::new(Width::Four, sizes, values, scales, zeros).is_some()
    };
    assert!(is_accepted([32, 2, 3], &values, &scales, Zeros::Same(8.0)));
    assert!(is_accepted([32, 2, 3], &values, &scales, Zeros::Quantized(&[0; 3])));
    assert!(!is_accepted([32, 2, 3], &values[1..], &scales, Zeros::Same(8.0)));
    assert!(!is_accepted([32, 2, 3], &values, &scales[1..], Zeros::Same(8.0)));
    assert!(!is_accepted([32, 2, 3], &values, &scales, Zeros::Quantized(&[0; 2])));
    assert!(!is_accepted([32, 2, 3], &values, &scales, Zeros::Floats(&[0.0; 5])));
    assert!(!is_accepted([24, 2, 3], &values, &scales, Zeros::Same(8.0)));
    assert!(!is_accepted([0, 2, 3], &values, &scales, Zeros::Same(8.0)));
}
