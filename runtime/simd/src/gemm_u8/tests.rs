//! Compares quantized products with 64-bit sums, on every instruction set and for every type of output.

use super::{wide::gemm_u16_by, *};
use crate::testing::Guarded;

/// A pseudo-random number generator (xorshift), with the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }
}

/// A product with its parameters; left values are at most 255 for `gemm`.
struct Case {
    m: usize,
    n: usize,
    k: usize,
    a: Vec<u16>,
    a_stride: usize,
    a_zero: u16,
    b: Vec<i8>,
    b_zeros: Vec<i8>,
    bias: Vec<i32>,
    scales: Vec<f32>,
    stride: usize,
}

impl Case {
    fn new(random: &mut Random, m: usize, n: usize, k: usize, highest: u16) -> Self {
        let is_extreme = random.below(3) == 0;
        let value = |random: &mut Random| match random.below(if is_extreme { 2 } else { 9 }) {
            0 => highest,
            1 => 0,
            _ => (random.next() % (u64::from(highest) + 1)) as u16,
        };
        let weight = |random: &mut Random| match random.below(if is_extreme { 2 } else { 9 }) {
            0 => -128,
            1 => 127,
            _ => random.next() as i8,
        };
        let a_stride = k + random.below(3);
        let parameter_len = |random: &mut Random| [0, 1, n][random.below(3)];
        let (zero_count, bias_count) = (parameter_len(random), parameter_len(random));
        let scale_count = if random.below(2) == 0 { 1 } else { n };
        // Scales that bring most sums into range, with some far larger and some invalid.
        let unit_scale = 1.0 / (f32::from(highest) * (k.max(1) as f32).sqrt());
        let scale = |random: &mut Random| match random.below(40) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => -1e30,
            3 => 1e30,
            4 => 0.5,
            _ => unit_scale * random.below(1000) as f32 / 300.0,
        };
        Self {
            m,
            n,
            k,
            a: (0..(m * a_stride).saturating_sub(a_stride - k)).map(|_| value(random)).collect(),
            a_stride,
            a_zero: value(random),
            b: (0..k * n).map(|_| weight(random)).collect(),
            b_zeros: (0..zero_count).map(|_| weight(random)).collect(),
            bias: (0..bias_count).map(|_| random.next() as i32 >> 18).collect(),
            scales: (0..scale_count).map(|_| scale(random)).collect(),
            stride: n + random.below(2) * 5,
        }
    }

    fn sum(&self, row: usize, column: usize) -> i64 {
        let zero = i64::from(pick(&self.b_zeros, column).unwrap_or(0));
        let products = (0..self.k).map(|k| {
            let a = i64::from(self.a[row * self.a_stride + k]) - i64::from(self.a_zero);
            a * (i64::from(self.b[k * self.n + column]) - zero)
        });
        products.sum::<i64>() + i64::from(pick(&self.bias, column).unwrap_or(0))
    }

    /// Compares every instruction set and output with the sums, with 8-bit or 16-bit values on the left.
    fn check(&self, is_16_bit: bool) {
        let Self { m, n, k, stride, .. } = *self;
        let len = (m * stride).saturating_sub(stride - n);
        let mut packed = Guarded::at_end(&vec![0x55i8; packed_len(k, n).unwrap()]);
        let mut b = Guarded::at_end(&self.b);
        assert!(pack_b(b.slice(), Strides { k: n, n: 1 }, k, n, packed.slice()));
        let bytes: Vec<u8> = self.a.iter().map(|&a| a as u8).collect();
        let (mut a8, mut a16) = (Guarded::at_end(&bytes), Guarded::at_end(&self.a));
        let lhs8 = Lhs {
            data: &*a8.slice(),
            rows: m,
            stride: self.a_stride,
            zero_point: self.a_zero as u8,
        };
        let lhs16 =
            Lhs { data: &*a16.slice(), rows: m, stride: self.a_stride, zero_point: self.a_zero };
        let rhs = Rhs { packed: packed.slice(), k, n, zero_points: &self.b_zeros };
        let sums: Vec<i64> = (0..m * n).map(|i| self.sum(i / n.max(1), i % n.max(1))).collect();
        let scale = |i: usize| pick(&self.scales, i % n).unwrap();
        let requantized =
            |i: usize, zero: f32| (sums[i] as f32 * scale(i)).round_ties_even() + zero;
        let float_bias = [0.25f32];
        for &isa in Isa::available() {
            let run = |output: Output<'_>| {
                if is_16_bit {
                    gemm_u16_by(kernels(isa), &lhs16, &rhs, &self.bias, output, stride)
                } else {
                    gemm_on(isa, &lhs8, &rhs, &self.bias, output, stride)
                }
            };
            let label = format!("{isa:?} {m}x{n}x{k} stride {stride} wide {is_16_bit}");
            let scales = &self.scales;

            let mut output = Guarded::at_end(&vec![7i32; len]);
            let result = run(Output::I32(output.slice()));
            if is_16_bit && k > MAX_K_U16_SUMS {
                assert_eq!(result, Err(GemmError::TooDeep), "{label}");
            } else {
                assert_eq!(result, Ok(()), "{label}");
                assert_rows(output.slice(), n, stride, 7, &label, |i| sums[i] as i32);
            }

            for activation in [Activation::None, Activation::Relu] {
                let mut output = Guarded::at_end(&vec![7f32; len]);
                assert_eq!(
                    run(Output::F32 { to: output.slice(), scales, bias: &float_bias, activation }),
                    Ok(())
                );
                let bits: Vec<u32> = output.slice().iter().map(|v| canonical(*v)).collect();
                assert_rows(&bits, n, stride, 7f32.to_bits(), &label, |i| {
                    let value = sums[i] as f32 * scale(i) + 0.25;
                    let is_cut = activation == Activation::Relu && value < 0.0;
                    canonical(if is_cut { 0.0 } else { value })
                });
            }

            let mut output = Guarded::at_end(&vec![7u8; len]);
            assert_eq!(run(Output::U8 { to: output.slice(), scales, zero_point: 131 }), Ok(()));
            assert_rows(output.slice(), n, stride, 7, &label, |i| {
                let value = requantized(i, 131.0);
                if value >= 0.0 { value as u8 } else { 0 }
            });

            let mut output = Guarded::at_end(&vec![7i8; len]);
            assert_eq!(run(Output::I8 { to: output.slice(), scales, zero_point: -5 }), Ok(()));
            assert_rows(output.slice(), n, stride, 7, &label, |i| {
                let value = requantized(i, -5.0);
                if value >= -128.0 { value as i8 } else { -128 }
            });

            let mut output = Guarded::at_end(&vec![7u16; len]);
            assert_eq!(run(Output::U16 { to: output.slice(), scales, zero_point: 40_000 }), Ok(()));
            assert_rows(output.slice(), n, stride, 7, &label, |i| {
                let value = requantized(i, 40_000.0);
                if value >= 0.0 { value as u16 } else { 0 }
            });
        }
    }
}

/// Returns the element for a column from a slice with one element per column, one for all columns, or none.
fn pick<T: Copy>(values: &[T], column: usize) -> Option<T> {
    if let [one] = values { Some(*one) } else { values.get(column).copied() }
}

/// Returns the bits, with one pattern for every NaN.
fn canonical(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

/// Compares rows, and checks that the gaps between them still have the value `gap`.
fn assert_rows<T: Copy + PartialEq + std::fmt::Debug>(
    actual: &[T],
    n: usize,
    stride: usize,
    gap: T,
    label: &str,
    expected: impl Fn(usize) -> T,
) {
    for (i, &actual) in actual.iter().enumerate() {
        let (row, column) = (i / stride, i % stride);
        let expected = if column < n { expected(row * n + column) } else { gap };
        assert_eq!(actual, expected, "{label}: row {row}, column {column}");
    }
}

#[test]
fn every_output_type_is_exact_for_partial_tiles() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for n in [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 97, 113] {
        for m in [0, 1, 2, 5, 6, 7, 8, 9, 12, 13, 25] {
            let k = [0, 1, 2, 3, 4, 5, 7, 8, 13, 31, 64, 67][random.below(12)];
            Case::new(&mut random, m, n, k, 255).check(false);
            let (m, k) = (m.min(7), [k, 127, 128, 129][random.below(4)]);
            Case::new(&mut random, m, n, k, 65_535).check(true);
        }
    }
}

#[test]
fn products_of_several_blocks_are_exact() {
    let mut random = Random(77);
    Case::new(&mut random, 1100, 19, 5, 255).check(false);
    Case::new(&mut random, 101, 65, 1531, 255).check(false);
    Case::new(&mut random, 4, 50, 2051, 65_535).check(true);
}

#[test]
fn tall_and_deep_products_are_exact() {
    let mut random = Random(0x51_7cc1_b727_220a);
    let mut pick = |values: &[usize]| values[random.below(values.len())];
    let shapes: Vec<[usize; 3]> = (0..40)
        .map(|_| {
            let m = pick(&[7, 15, 16, 17, 31, 33, 49, 112, 127, 128, 129, 145, 272]);
            let n = pick(&[1, 15, 16, 17, 32, 33, 48, 49, 64, 65, 100]);
            [m, n, pick(&[33, 36, 63, 64, 65, 127, 128, 200, 383, 384, 385, 449, 770])]
        })
        .collect();
    for [m, n, k] in shapes {
        Case::new(&mut random, m, n, k, 255).check(false);
    }
}

#[test]
fn the_deepest_product_of_extreme_values_fits() {
    for (a, b, zero) in [(255, -128, 127), (255, 127, -128)] {
        let case = Case {
            m: 7,
            n: 2,
            k: MAX_K,
            a: vec![a; MAX_K * 7],
            a_stride: MAX_K,
            a_zero: 0,
            b: vec![b; MAX_K * 2],
            b_zeros: vec![zero],
            bias: vec![],
            scales: vec![1e-7],
            stride: 2,
        };
        case.check(false);
        assert_eq!(case.sum(0, 0).abs(), 255 * 255 * 33_025);
    }
}

#[test]
fn ties_round_to_even() {
    let (k, n) = (1, 48);
    let b: Vec<i8> = (0..48).map(|i| i - 24).collect();
    let case = Case {
        m: 2,
        n,
        k,
        a: vec![1, 3],
        a_stride: 1,
        a_zero: 0,
        b,
        b_zeros: vec![],
        bias: vec![],
        scales: vec![0.5],
        stride: n,
    };
    case.check(false);
    let mut packed = vec![0; packed_len(k, n).unwrap()];
    assert!(pack_b(&case.b, Strides { k: n, n: 1 }, k, n, &mut packed));
    let mut output = [0i8; 48];
    let lhs = Lhs { data: &[1u8], rows: 1, stride: 1, zero_point: 0 };
    let rhs = Rhs { packed: &packed, k, n, zero_points: &[] };
    gemm(&lhs, &rhs, &[], Output::I8 { to: &mut output, scales: &[0.5], zero_point: 0 }, n)
        .unwrap();
    // Rounded from -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5.
    assert_eq!(output[21..30], [-2, -1, 0, 0, 0, 1, 2, 2, 2]);
}

#[test]
fn transposed_weights_are_packed_to_the_same_bytes() {
    let mut random = Random(5);
    let (k, n) = (13, 53);
    let b: Vec<i8> = (0..k * n).map(|_| random.next() as i8).collect();
    let transposed: Vec<i8> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
    let mut packed = [vec![0; packed_len(k, n).unwrap()], vec![1; packed_len(k, n).unwrap()]];
    assert!(pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed[0]));
    assert!(pack_b(&transposed, Strides { k: 1, n: k }, k, n, &mut packed[1]));
    assert_eq!(packed[0], packed[1]);
    assert!(!pack_b(&b[1..], Strides { k: n, n: 1 }, k, n, &mut packed[0]));
    assert!(!pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed[0][1..]));
}

#[test]
fn inconsistent_arguments_are_refused() {
    let (k, n) = (3, 2);
    let packed = vec![0; packed_len(k, n).unwrap()];
    let error_of = |data: &[u8], stride: usize, packed: &[i8], k: usize, zero_points: &[i8]| {
        let lhs = Lhs { data, rows: 2, stride, zero_point: 0 };
        let rhs = Rhs { packed, k, n, zero_points };
        gemm(&lhs, &rhs, &[], Output::I32(&mut [0; 4]), n)
    };
    assert_eq!(error_of(&[0; 6], 3, &packed, k, &[]), Ok(()));
    assert_eq!(error_of(&[0; 5], 3, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(error_of(&[0; 6], 2, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(error_of(&[0; 6], usize::MAX, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(error_of(&[0; 6], 3, &packed[1..], k, &[]), Err(GemmError::Rhs));
    assert_eq!(error_of(&[0; 6], 3, &packed, k, &[0; 3]), Err(GemmError::Columns));
    assert_eq!(error_of(&[0; 6], 3, &packed, MAX_K + 1, &[]), Err(GemmError::TooDeep));
    let lhs = Lhs { data: &[0u8; 6], rows: 2, stride: 3, zero_point: 0 };
    let rhs = Rhs { packed: &packed, k, n, zero_points: &[] };
    let mut output = [0; 3];
    assert_eq!(gemm(&lhs, &rhs, &[], Output::I32(&mut output), n), Err(GemmError::Output));
    assert_eq!(packed_len(usize::MAX, usize::MAX), None);
}

#[test]
fn products_make_no_heap_calls() {
    let (m, n, k) = (20, 70, 33);
    let b = vec![3i8; k * n];
    let mut packed = vec![0; packed_len(k, n).unwrap()];
    let (a8, a16) = (vec![200u8; m * k], vec![60_000u16; m * k]);
    let mut bytes = vec![0u8; m * n];
    // The first run may allocate, while it detects the instruction set.
    let clean = (0..1000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        assert!(pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed));
        let rhs = Rhs { packed: &packed, k, n, zero_points: &[1] };
        for &isa in Isa::available() {
            let lhs = Lhs { data: &a8, rows: m, stride: k, zero_point: 3 };
            let output = Output::U8 { to: &mut bytes, scales: &[0.1], zero_point: 1 };
            assert_eq!(gemm_on(isa, &lhs, &rhs, &[], output, n), Ok(()));
            let lhs = Lhs { data: &a16, rows: m, stride: k, zero_point: 3 };
            let output = Output::U8 { to: &mut bytes, scales: &[0.1], zero_point: 1 };
            assert_eq!(gemm_u16_by(kernels(isa), &lhs, &rhs, &[], output, n), Ok(()));
        }
        udo_api::guard::thread_heap_calls() == before
    });
    assert!(clean);
}

#[test]
fn the_stride_of_a_single_row_does_not_matter() {
    let (k, n) = (4, 20);
    let mut packed = vec![0; packed_len(k, n).unwrap()];
    assert!(pack_b(&[1; 80], Strides { k: n, n: 1 }, k, n, &mut packed));
    let lhs = Lhs { data: &[1; 4], rows: 1, stride: 0, zero_point: 0 };
    let rhs = Rhs { packed: &packed, k, n, zero_points: &[] };
    for stride in [0, 1, 16, usize::MAX] {
        let mut bytes = [9; 20];
        let output = Output::U16 { to: &mut bytes, scales: &[1.0], zero_point: 0 };
        assert_eq!(super::gemm(&lhs, &rhs, &[], output, stride), Ok(()));
        assert_eq!(bytes, [4; 20]);
    }
}
