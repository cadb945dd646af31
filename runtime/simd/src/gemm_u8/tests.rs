//! Every instruction set compared with 64-bit sums.

use super::{wide::gemm_u16_by, *};
use crate::testing::Guarded;

/// Pseudo-random numbers, the same in every run.
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
        let extreme = random.below(3) == 0;
        let value = |random: &mut Random| match random.below(if extreme { 2 } else { 9 }) {
            0 => highest,
            1 => 0,
            _ => (random.next() % (u64::from(highest) + 1)) as u16,
        };
        let weight = |random: &mut Random| match random.below(if extreme { 2 } else { 9 }) {
            0 => -128,
            1 => 127,
            _ => random.next() as i8,
        };
        let a_stride = k + random.below(3);
        let columns = |random: &mut Random| [0, 1, n][random.below(3)];
        let (zeros, biases) = (columns(random), columns(random));
        let some = if random.below(2) == 0 { 1 } else { n };
        // Scales that bring most sums into range, with some far larger and some invalid.
        let unit = 1.0 / (f32::from(highest) * (k.max(1) as f32).sqrt());
        let scale = |random: &mut Random| match random.below(40) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => -1e30,
            3 => 1e30,
            4 => 0.5,
            _ => unit * random.below(1000) as f32 / 300.0,
        };
        Self {
            m,
            n,
            k,
            a: (0..(m * a_stride).saturating_sub(a_stride - k)).map(|_| value(random)).collect(),
            a_stride,
            a_zero: value(random),
            b: (0..k * n).map(|_| weight(random)).collect(),
            b_zeros: (0..zeros).map(|_| weight(random)).collect(),
            bias: (0..biases).map(|_| random.next() as i32 >> 18).collect(),
            scales: (0..some).map(|_| scale(random)).collect(),
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

    /// Compares every instruction set and output with the sums; `wide` uses 16-bit values.
    fn check(&self, wide: bool) {
        let Self { m, n, k, stride, .. } = *self;
        let len = (m * stride).saturating_sub(stride - n);
        let mut packed = Guarded::at_end(&vec![0x55i8; packed_len(k, n).unwrap()]);
        let mut b = Guarded::at_end(&self.b);
        assert!(pack_b(b.slice(), Strides { k: n, n: 1 }, k, n, packed.slice()));
        let narrow: Vec<u8> = self.a.iter().map(|&a| a as u8).collect();
        let (mut a8, mut a16) = (Guarded::at_end(&narrow), Guarded::at_end(&self.a));
        let left8 = Lhs {
            data: &*a8.slice(),
            rows: m,
            stride: self.a_stride,
            zero_point: self.a_zero as u8,
        };
        let left16 =
            Lhs { data: &*a16.slice(), rows: m, stride: self.a_stride, zero_point: self.a_zero };
        let right = Rhs { packed: packed.slice(), k, n, zero_points: &self.b_zeros };
        let sums: Vec<i64> = (0..m * n).map(|i| self.sum(i / n.max(1), i % n.max(1))).collect();
        let scale = |i: usize| pick(&self.scales, i % n).unwrap();
        let coded = |i: usize, zero: f32| (sums[i] as f32 * scale(i)).round_ties_even() + zero;
        let fbias = [0.25f32];
        for &isa in Isa::available() {
            let run = |output: Output<'_>| {
                if wide {
                    gemm_u16_by(kernels(isa), &left16, &right, &self.bias, output, stride)
                } else {
                    gemm_on(isa, &left8, &right, &self.bias, output, stride)
                }
            };
            let label = format!("{isa:?} {m}x{n}x{k} stride {stride} wide {wide}");
            let scales = &self.scales;

            let mut to = Guarded::at_end(&vec![7i32; len]);
            let done = run(Output::I32(to.slice()));
            if wide && k > MAX_K_U16_SUMS {
                assert_eq!(done, Err(GemmError::TooDeep), "{label}");
            } else {
                assert_eq!(done, Ok(()), "{label}");
                same(to.slice(), n, stride, 7, &label, |i| sums[i] as i32);
            }

            for activation in [Activation::None, Activation::Relu] {
                let mut to = Guarded::at_end(&vec![7f32; len]);
                assert_eq!(
                    run(Output::F32 { to: to.slice(), scales, bias: &fbias, activation }),
                    Ok(())
                );
                let bits: Vec<u32> = to.slice().iter().map(|v| canonical(*v)).collect();
                same(&bits, n, stride, 7f32.to_bits(), &label, |i| {
                    let value = sums[i] as f32 * scale(i) + 0.25;
                    canonical(if activation == Activation::Relu && value < 0.0 {
                        0.0
                    } else {
                        value
                    })
                });
            }

            let mut to = Guarded::at_end(&vec![7u8; len]);
            assert_eq!(run(Output::U8 { to: to.slice(), scales, zero_point: 131 }), Ok(()));
            same(to.slice(), n, stride, 7, &label, |i| {
                let value = coded(i, 131.0);
                if value >= 0.0 { value as u8 } else { 0 }
            });

            let mut to = Guarded::at_end(&vec![7i8; len]);
            assert_eq!(run(Output::I8 { to: to.slice(), scales, zero_point: -5 }), Ok(()));
            same(to.slice(), n, stride, 7, &label, |i| {
                let value = coded(i, -5.0);
                if value >= -128.0 { value as i8 } else { -128 }
            });

            let mut to = Guarded::at_end(&vec![7u16; len]);
            assert_eq!(run(Output::U16 { to: to.slice(), scales, zero_point: 40_000 }), Ok(()));
            same(to.slice(), n, stride, 7, &label, |i| {
                let value = coded(i, 40_000.0);
                if value >= 0.0 { value as u16 } else { 0 }
            });
        }
    }
}

fn pick<T: Copy>(values: &[T], column: usize) -> Option<T> {
    if let [one] = values { Some(*one) } else { values.get(column).copied() }
}

/// Returns the bits, with one pattern for every NaN.
fn canonical(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

/// Compares rows, and checks that gaps between them are unchanged.
fn same<T: Copy + PartialEq + std::fmt::Debug>(
    actual: &[T],
    n: usize,
    stride: usize,
    before: T,
    label: &str,
    expected: impl Fn(usize) -> T,
) {
    for (i, &actual) in actual.iter().enumerate() {
        let (row, column) = (i / stride, i % stride);
        let expected = if column < n { expected(row * n + column) } else { before };
        assert_eq!(actual, expected, "{label}: row {row}, column {column}");
    }
}

#[test]
fn every_output_format_gives_the_sums_at_every_remainder() {
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
fn blocks_of_rows_and_of_depth_join() {
    let mut random = Random(77);
    Case::new(&mut random, 1100, 19, 5, 255).check(false);
    Case::new(&mut random, 101, 65, 1531, 255).check(false);
    Case::new(&mut random, 4, 50, 2051, 65_535).check(true);
}

#[test]
fn tall_and_deep_products_give_their_sums() {
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
    let mut to = [0i8; 48];
    let left = Lhs { data: &[1u8], rows: 1, stride: 1, zero_point: 0 };
    let right = Rhs { packed: &packed, k, n, zero_points: &[] };
    gemm(&left, &right, &[], Output::I8 { to: &mut to, scales: &[0.5], zero_point: 0 }, n).unwrap();
    // Rounded from -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5.
    assert_eq!(to[21..30], [-2, -1, 0, 0, 0, 1, 2, 2, 2]);
}

#[test]
fn transposed_weights_pack_alike() {
    let mut random = Random(5);
    let (k, n) = (13, 53);
    let b: Vec<i8> = (0..k * n).map(|_| random.next() as i8).collect();
    let across: Vec<i8> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
    let mut packed = [vec![0; packed_len(k, n).unwrap()], vec![1; packed_len(k, n).unwrap()]];
    assert!(pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed[0]));
    assert!(pack_b(&across, Strides { k: 1, n: k }, k, n, &mut packed[1]));
    assert_eq!(packed[0], packed[1]);
    assert!(!pack_b(&b[1..], Strides { k: n, n: 1 }, k, n, &mut packed[0]));
    assert!(!pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed[0][1..]));
}

#[test]
fn contradictory_arguments_are_refused() {
    let (k, n) = (3, 2);
    let packed = vec![0; packed_len(k, n).unwrap()];
    let run = |quantized: &[u8], stride: usize, packed: &[i8], k: usize, zero_points: &[i8]| {
        let left = Lhs { data: quantized, rows: 2, stride, zero_point: 0 };
        let right = Rhs { packed, k, n, zero_points };
        gemm(&left, &right, &[], Output::I32(&mut [0; 4]), n)
    };
    assert_eq!(run(&[0; 6], 3, &packed, k, &[]), Ok(()));
    assert_eq!(run(&[0; 5], 3, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(run(&[0; 6], 2, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(run(&[0; 6], usize::MAX, &packed, k, &[]), Err(GemmError::Lhs));
    assert_eq!(run(&[0; 6], 3, &packed[1..], k, &[]), Err(GemmError::Rhs));
    assert_eq!(run(&[0; 6], 3, &packed, k, &[0; 3]), Err(GemmError::Columns));
    assert_eq!(run(&[0; 6], 3, &packed, MAX_K + 1, &[]), Err(GemmError::TooDeep));
    let left = Lhs { data: &[0u8; 6], rows: 2, stride: 3, zero_point: 0 };
    let right = Rhs { packed: &packed, k, n, zero_points: &[] };
    let mut to = [0; 3];
    assert_eq!(gemm(&left, &right, &[], Output::I32(&mut to), n), Err(GemmError::Output));
    assert_eq!(packed_len(usize::MAX, usize::MAX), None);
}

#[test]
fn no_product_uses_the_heap() {
    let (m, n, k) = (20, 70, 33);
    let b = vec![3i8; k * n];
    let mut packed = vec![0; packed_len(k, n).unwrap()];
    let (a8, a16) = (vec![200u8; m * k], vec![60_000u16; m * k]);
    let mut to = vec![0u8; m * n];
    // The count covers all threads, so other tests may add to it, but not in every run.
    let clean = (0..1000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        assert!(pack_b(&b, Strides { k: n, n: 1 }, k, n, &mut packed));
        let right = Rhs { packed: &packed, k, n, zero_points: &[1] };
        for &isa in Isa::available() {
            let left = Lhs { data: &a8, rows: m, stride: k, zero_point: 3 };
            let output = Output::U8 { to: &mut to, scales: &[0.1], zero_point: 1 };
            assert_eq!(gemm_on(isa, &left, &right, &[], output, n), Ok(()));
            let left = Lhs { data: &a16, rows: m, stride: k, zero_point: 3 };
            let output = Output::U8 { to: &mut to, scales: &[0.1], zero_point: 1 };
            assert_eq!(gemm_u16_by(kernels(isa), &left, &right, &[], output, n), Ok(()));
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
    let left = Lhs { data: &[1; 4], rows: 1, stride: 0, zero_point: 0 };
    let right = Rhs { packed: &packed, k, n, zero_points: &[] };
    for stride in [0, 1, 16, usize::MAX] {
        let mut to = [9; 20];
        let output = Output::U16 { to: &mut to, scales: &[1.0], zero_point: 0 };
        assert_eq!(super::gemm(&left, &right, &[], output, stride), Ok(()));
        assert_eq!(to, [4; 20]);
    }
}
