//! All combinations of operands, scales and output types, compared with i64 sums.

use udo_api::{Element, QuantizedType};

use crate::testing::{Bench, Tensor, assert_near, bench, spread, tensor};

/// Returns values across the range of a type.
fn values<T: QuantizedType>(len: usize, seed: usize) -> Vec<T> {
    let least = if T::DTYPE == u8::DTYPE { 0 } else { -128 };
    (0..len)
        .map(|i| T::from_f32((((i + seed) * 7919 % 65_521) % 256) as f32 + least as f32))
        .collect()
}

/// `sum (a - a_zeros[row]) (b - b_zeros[column])`.
fn sums<A: QuantizedType, B: QuantizedType>(
    [rows, depth, cols]: [usize; 3],
    (a, a_zeros): (&[A], &[A]),
    (b, b_zeros): (&[B], &[B]),
) -> Vec<i32> {
    let zero_at = |zeros: &[A], at: usize| i64::from(zeros[at % zeros.len()].to_i32());
    let of_b = |zeros: &[B], at: usize| i64::from(zeros[at % zeros.len()].to_i32());
    let mut sums = Vec::new();
    for (m, n) in (0..rows).flat_map(|m| (0..cols).map(move |n| (m, n))) {
        let term = |k: usize| {
            (i64::from(a[m * depth + k].to_i32()) - zero_at(a_zeros, m))
                * (i64::from(b[k * cols + n].to_i32()) - of_b(b_zeros, n))
        };
        sums.push((0..depth).map(term).sum::<i64>() as i32);
    }
    sums
}

/// Runs with a constant right side and with one that is an input, on one thread and several.
fn ways(run: &Bench, b: &Tensor, rest: &dyn Fn(Bench) -> Bench) -> Vec<Tensor> {
    let mut all = Vec::new();
    for threads in [1, 3] {
        let run = run.clone().threads(threads);
        all.push(rest(run.clone().constant(b.clone())).one());
        all.push(rest(run.input(b.clone())).one());
    }
    all
}

fn are_exact<A: QuantizedType, B: QuantizedType>(size: [usize; 3], a_zeros: usize, b_zeros: usize) {
    let [rows, depth, cols] = size;
    let (a, b) = (values::<A>(rows * depth, 3), values::<B>(depth * cols, 11));
    let (a_zeros, b_zeros) = (values::<A>(a_zeros, 100), values::<B>(b_zeros, 30));
    let expected = sums(size, (&a, &a_zeros), (&b, &b_zeros));
    let run = bench("MatMulInteger").input(tensor(&[rows, depth], &a));
    let zeros = |run: Bench| {
        let run = run.input(tensor(&[a_zeros.len()], &a_zeros));
        run.input(tensor(&[b_zeros.len()], &b_zeros))
    };
    for y in ways(&run, &tensor(&[depth, cols], &b), &zeros) {
        assert_eq!(y.dims(), [rows, cols]);
        assert_eq!(y.values::<i32>(), expected, "{size:?} {} {}", A::DTYPE, B::DTYPE);
    }
}

#[test]
fn sums_are_exact_for_every_type_and_zero_point() {
    for size @ [rows, _, cols] in
        [[1, 5, 3], [1, 33, 700], [7, 64, 300], [40, 100, 65], [70, 300, 257], [2, 0, 3]]
    {
        for (a_zeros, b_zeros) in [(1, 1), (rows, cols), (1, cols), (rows, 1)] {
            are_exact::<u8, u8>(size, a_zeros, b_zeros);
            are_exact::<u8, i8>(size, a_zeros, b_zeros);
            are_exact::<i8, u8>(size, a_zeros, b_zeros);
            are_exact::<i8, i8>(size, a_zeros, b_zeros);
        }
    }
}

#[test]
fn absent_zero_points_are_zero() {
    let (a, b) = (tensor(&[1, 2], &[1u8, 255]), tensor(&[2, 1], &[3u8, 2]));
    assert_eq!(bench("MatMulInteger").input(a).input(b).one().values::<i32>(), [513]);
    let (a, b) = (tensor(&[1, 2], &[-128i8, 2]), tensor(&[2, 1], &[-1i8, 2]));
    assert_eq!(bench("MatMulInteger").input(a).input(b).one().values::<i32>(), [132]);
}

#[test]
fn batches_have_zero_points_of_their_own() {
    let (a, b) = (values::<u8>(2 * 3 * 4, 1), values::<i8>(2 * 4 * 5, 2));
    let (a_zeros, b_zeros) = (values::<u8>(6, 9), values::<i8>(10, 8));
    let run = bench("MatMulInteger").input(tensor(&[2, 3, 4], &a));
    let numbers = |run: Bench| {
        let run = run.input(tensor(&[2, 3, 1], &a_zeros));
        run.input(tensor(&[2, 1, 5], &b_zeros))
    };
    let expected: Vec<i32> = (0..2)
        .flat_map(|i| {
            let a = (&a[i * 12..][..12], &a_zeros[i * 3..][..3]);
            sums([3, 4, 5], a, (&b[i * 20..][..20], &b_zeros[i * 5..][..5]))
        })
        .collect();
    for y in ways(&run, &tensor(&[2, 4, 5], &b), &numbers) {
        assert_eq!((y.dims(), y.values::<i32>()), (vec![2, 3, 5], expected.clone()));
    }
}

#[test]
fn vectors_and_broadcast_batches_multiply() {
    let (a, b) = (values::<u8>(2 * 3 * 4, 1), values::<u8>(4 * 5, 2));
    let expected = sums([6, 4, 5], (&a, &[0]), (&b, &[0]));
    let y = bench("MatMulInteger").input(tensor(&[2, 1, 3, 4], &a)).input(tensor(&[4, 5], &b));
    let y = y.one();
    assert_eq!((y.dims(), y.values::<i32>()), (vec![2, 1, 3, 5], expected.clone()));
    let y = bench("MatMulInteger").input(tensor(&[4], &a[..4])).input(tensor(&[4, 5], &b)).one();
    assert_eq!((y.dims(), y.values::<i32>()), (vec![5], expected[..5].to_vec()));
}

#[test]
fn results_are_quantized_by_rows_and_columns() {
    let size @ [rows, depth, cols] = [5, 40, 70];
    let (a, b) = (values::<u8>(rows * depth, 3), values::<i8>(depth * cols, 11));
    let (a_zero, b_zeros) = ([120u8], values::<i8>(cols, 7));
    let scales = |len: usize| -> Vec<f32> { (0..len).map(|i| 0.01 + 0.001 * i as f32).collect() };
    let exact = sums(size, (&a, &a_zero), (&b, &b_zeros));
    for (a_scales, y_scales) in [(1, 1), (rows, 1), (1, rows), (rows, rows)] {
        let (of_a, of_b, of_y) = (scales(a_scales), scales(cols), scales(y_scales));
        let y_zeros: Vec<u8> = (0..y_scales).map(|i| 100 + i as u8).collect();
        let run = bench("QLinearMatMul").threads(2).input(tensor(&[rows, depth], &a));
        let run = run.input(tensor(&[a_scales], &of_a)).input(tensor(&[], &a_zero));
        let run = run.constant(tensor(&[depth, cols], &b)).input(tensor(&[cols], &of_b));
        let run = run.input(tensor(&[cols], &b_zeros)).input(tensor(&[y_scales], &of_y));
        let y = run.input(tensor(&[y_scales], &y_zeros)).one().values::<u8>();
        for (at, (y, sum)) in y.into_iter().zip(&exact).enumerate() {
            let (m, n) = (at / cols, at % cols);
            let scale = of_a[m % a_scales] * of_b[n] / of_y[m % y_scales];
            let zero = f32::from(y_zeros[m % y_scales]);
            let expected = ((*sum as f32 * scale).round_ties_even() + zero).clamp(0.0, 255.0);
            assert_eq!(y, expected as u8, "{a_scales} {y_scales} at {at}");
        }
    }
}

#[test]
fn dequantized_sums_have_an_offset() {
    let size @ [rows, depth, cols] = [4, 33, 20];
    let (a, b) = (values::<i8>(rows * depth, 3), values::<u8>(depth * cols, 11));
    let exact = sums(size, (&a, &[5]), (&b, &[0]));
    let offset: Vec<f32> = (0..cols).map(|i| i as f32).collect();
    let run = bench("com.microsoft:MatMulIntegerToFloat").input(tensor(&[rows, depth], &a));
    let run = run.constant(tensor(&[depth, cols], &b)).input(tensor(&[], &[0.5f32]));
    let run = run.input(tensor(&[1], &[0.25f32])).input(tensor(&[], &[5i8])).absent();
    let y = run.input(tensor(&[cols], &offset)).one().values::<f32>();
    let expected =
        exact.iter().enumerate().map(|(i, &sum)| 0.125 * f64::from(sum) + (i % cols) as f64);
    assert_near(&y, &expected.collect::<Vec<_>>(), 1e-6);
}

#[test]
fn addends_broadcast_and_either_side_may_be_transposed() {
    let size @ [rows, depth, cols] = [3, 10, 7];
    let (a, b) = (values::<i8>(rows * depth, 3), values::<i8>(depth * cols, 11));
    let c: Vec<i32> = (0..21).map(|i| i * 100 - 900).collect();
    let exact = sums(size, (&a, &[5]), (&b, &[-7]));
    let turned = |x: &[i8], rows: usize, cols: usize| -> Vec<i8> {
        (0..x.len()).map(|i| x[i % rows * cols + i / rows]).collect()
    };
    for (dims, at) in [
        (vec![3, 7], (|i| i) as fn(usize) -> usize),
        (vec![7], |i| i % 7),
        (vec![3, 1], |i| i / 7),
        (vec![], |_| 0),
    ] {
        for case in 0..4 {
            let (trans_a, trans_b) = (case & 1, case >> 1);
            let (a, a_dims) = match trans_a {
                0 => (a.clone(), [rows, depth]),
                _ => (turned(&a, rows, depth), [depth, rows]),
            };
            let (b, b_dims) = match trans_b {
                0 => (b.clone(), [depth, cols]),
                _ => (turned(&b, depth, cols), [cols, depth]),
            };
            let run = bench("com.microsoft:QGemm").input(tensor(&a_dims, &a));
            let run = run.input(tensor(&[], &[0.5f32])).input(tensor(&[], &[5i8]));
            let numbers = |run: Bench| {
                let run = run.input(tensor(&[], &[0.5f32])).input(tensor(&[], &[-7i8]));
                let run = run.input(tensor(&dims, &c[..dims.iter().product()]));
                let run = run.int("transA", trans_a as i64).int("transB", trans_b as i64);
                run.float("alpha", 2.0)
            };
            let expected: Vec<f64> =
                exact.iter().enumerate().map(|(i, sum)| 0.5 * f64::from(sum + c[at(i)])).collect();
            for y in ways(&run, &tensor(&b_dims, &b), &numbers) {
                assert_near(&y.values::<f32>(), &expected, 1e-6);
            }
        }
    }
}

#[test]
fn left_sides_are_quantized_by_their_range() {
    let [rows, depth, cols] = [6, 30, 9];
    let a: Vec<f32> = (0..rows * depth).map(|i| (i * 37 % 256) as f32 * 0.5 - 20.0).collect();
    let b = values::<i8>(depth * cols, 11);
    // The range is 127.5, so that each step is 0.5.
    let exact: Vec<f64> = (0..rows * cols)
        .map(|i| {
            let (m, n) = (i / cols, i % cols);
            let term = |k: usize| f64::from(a[m * depth + k]) * f64::from(b[k * cols + n]);
            0.25 * (0..depth).map(term).sum::<f64>()
        })
        .collect();
    let run = bench("com.microsoft:DynamicQuantizeMatMul").input(tensor(&[2, 3, depth], &a));
    let numbers = |run: Bench| run.input(tensor(&[], &[0.25f32]));
    for y in ways(&run, &tensor(&[depth, cols], &b), &numbers) {
        assert_eq!(y.dims(), [2, 3, cols]);
        assert_near(&y.values::<f32>(), &exact, 1e-5);
    }
}

#[test]
fn bounded_rows_are_read_in_the_run() {
    use udo_api::Dim::{Fixed, UpTo};

    let (depth, cols) = (30, 9);
    let bounds = [UpTo(3), UpTo(7), Fixed(depth)];
    let (bytes, b) =
        (values::<u8>(6 * depth, 5), tensor(&[depth, cols], &values::<i8>(depth * cols, 11)));
    let signed: Vec<i8> = bytes.iter().map(|&x| x.cast_signed()).collect();
    let reals: Vec<f32> = bytes.iter().map(|&x| f32::from(x)).collect();
    let dims = [2, 3, depth];
    let lefts = [
        ("MatMulInteger", tensor(&dims, &bytes)),
        ("MatMulInteger", tensor(&dims, &signed)),
        ("com.microsoft:DynamicQuantizeMatMul", tensor(&dims, &reals)),
    ];
    for (op, a) in lefts {
        let run = |a| {
            let run = bench(op).threads(2).input(a).constant(b.clone());
            if op == "MatMulInteger" { run } else { run.input(tensor(&[], &[0.25f32])) }
        };
        let (fixed, y) = (run(a.clone()).one(), run(a.clone().bounded(&bounds)).one());
        assert_eq!(y.desc().full_shape().to_string(), "[<=3,<=7,9]");
        assert_eq!((y.dims(), y.bytes()), (vec![2, 3, cols], fixed.bytes()));
        let error = bench(op).input(a.bounded(&bounds)).input(b.clone());
        let error =
            if op == "MatMulInteger" { error } else { error.input(tensor(&[], &[0.25f32])) };
        assert!(
            error
                .error()
                .ends_with("expected rows of fixed length, one scale, and a constant right side")
        );
    }
}

#[test]
fn mismatched_inputs_are_reported() {
    let x = |dims: &[usize]| tensor(dims, &vec![1u8; dims.iter().product()]);
    let run = || bench("MatMulInteger").input(x(&[2, 3])).input(x(&[3, 4]));
    assert_eq!(
        run().input(x(&[3])).error(),
        "input 2 is u8[3], expected one element, or one for each row of a left or column of a right side [2, 3]"
    );
    assert_eq!(
        run().input(tensor(&[], &[1i8])).error(),
        "input 2 is i8[], expected a zero point of the type of u8[2,3]"
    );
    let run = bench("MatMulInteger").input(x(&[1, 40_000])).input(x(&[40_000, 1]));
    assert_eq!(run.error(), "40000 products are summed up, of which 33025 fit the sums");
    let run = bench("com.microsoft:QGemm").input(x(&[1, 1])).input(tensor(&[], &[1f32]));
    let run = run.input(x(&[])).input(x(&[1, 1])).input(tensor(&[], &[1f32])).input(x(&[]));
    let error = run.absent().input(tensor(&[], &[1f32])).error();
    assert_eq!(error, "one of inputs 7 and 8, scale and zero point of the result, is missing");
}

/// Batches of left sides of 5 by `depth`, times one or two right sides of `depth` by `cols`, with 16-bit values among
/// them.
struct WideCase {
    depth: usize,
    cols: usize,
    rights: usize,
    constant: bool,
    has_addend: bool,
}

fn wide_sums_are_exact<A: QuantizedType, B: QuantizedType, C: QuantizedType>(case: &WideCase) {
    let &WideCase { depth, cols, rights, constant, has_addend } = case;
    let (a, b) = (spread::<A>(2 * 5 * depth, 40_503), spread::<B>(rights * depth * cols, 89));
    let (a_zero, y_zero) = (spread::<A>(2, 31_007)[1], spread::<C>(2, 1_703)[1]);
    let own = if rights == 1 { cols } else { 1 };
    let b_zeros = spread::<B>(own, 7);
    let b_scales: Vec<f32> = (0..own).map(|at| 0.01 + at as f32 * 0.003).collect();
    let addend: Vec<i32> = (0..cols as i32).map(|at| at * 130_001 - 500_000).collect();
    let one = |value: f32| tensor(&[], &[value]);
    let right = tensor(&[rights, depth, cols][usize::from(rights == 1)..], &b);
    let node = bench(if has_addend { "udo:QLinearMatMulAdd" } else { "QLinearMatMul" })
        .threads(2)
        .input(tensor(&[2, 5, depth], &a))
        .input(one(0.001))
        .input(tensor(&[], &[a_zero]));
    let node = if constant { node.constant(right) } else { node.input(right) };
    let node = node
        .input(tensor(&[own], &b_scales))
        .input(tensor(&[own], &b_zeros))
        .input(one(0.4))
        .input(tensor(&[], &[y_zero]));
    let node = if has_addend { node.input(tensor(&[cols], &addend)) } else { node };
    let y = node.one();
    assert_eq!(y.dims(), [2, 5, cols]);
    let expected = (0..10 * cols).map(|at| {
        let (row, col) = (at / cols, at % cols);
        let right = if rights == 1 { 0 } else { row / 5 * depth * cols };
        let terms = (0..depth).map(|k| {
            let a = i64::from(a[row * depth + k].to_i32()) - i64::from(a_zero.to_i32());
            let b = b[right + k * cols + col].to_i32() - b_zeros[col % own].to_i32();
            a * i64::from(b)
        });
        let sum = terms.sum::<i64>() + if has_addend { i64::from(addend[col]) } else { 0 };
        let number = (sum as f32 * (0.001 * b_scales[col % own] / 0.4)).round_ties_even();
        C::from_f32(number + y_zero.to_i32() as f32)
    });
    assert_eq!(y.values::<C>(), expected.collect::<Vec<_>>());
}

#[test]
fn sums_of_16_bit_values_are_exact() {
    for constant in [false, true] {
        for (depth, cols, rights) in [(1, 1, 1), (7, 3, 1), (300, 33, 1), (64, 16, 2)] {
            for has_addend in [false, true] {
                let case = WideCase { depth, cols, rights, constant, has_addend };
                wide_sums_are_exact::<u16, i8, u16>(&case);
                wide_sums_are_exact::<i16, u8, i16>(&case);
                wide_sums_are_exact::<i16, i8, u8>(&case);
                wide_sums_are_exact::<u8, i8, i16>(&case);
                wide_sums_are_exact::<i8, u8, u16>(&case);
            }
        }
    }
}

/// Two 16-bit values times two columns, with the given zero points and scales.
fn wide_product<S: Element>(a_scales: &[S], b_zeros: &[i8], b_scale: S) -> Bench {
    bench("QLinearMatMul")
        .input(tensor(&[2, 2], &[1u16, 2, 3, 4]))
        .input(tensor(&[a_scales.len()], a_scales))
        .input(tensor(&[], &[0u16]))
        .constant(tensor(&[2, 2], &[1i8, 2, 3, 4]))
        .input(tensor(&[], &[b_scale]))
        .input(tensor(&[b_zeros.len()], b_zeros))
        .input(tensor(&[], &[b_scale]))
        .input(tensor(&[], &[0u16]))
}

#[test]
fn inputs_of_16_bits_have_one_scale_and_zero_point_per_column() {
    use udo_api::{Bf16, F16};

    let values = |node: Bench| node.one().values::<u16>();
    assert_eq!(values(wide_product(&[1f32], &[0], 1.0)), [7, 10, 15, 22]);
    assert_eq!(values(wide_product(&[1f32], &[0, 1], 1.0)), [7, 7, 15, 15]);
    let [half, two] = [0.5, 2.0].map(F16::from_f32);
    assert_eq!(values(wide_product(&[two], &[0], half)), [14, 20, 30, 44]);
    let [half, two] = [0.5, 2.0].map(Bf16::from_f32);
    assert_eq!(values(wide_product(&[two], &[0], half)), [14, 20, 30, 44]);
    assert_eq!(
        wide_product(&[1f32], &[0; 3], 1.0).error(),
        "input 5 is i8[3], expected one element, or one for each row of a left or column of a right side [2, 2]"
    );
    assert_eq!(
        wide_product(&[1f32, 2.0], &[0], 1.0).error(),
        "expected a scalar scale and zero point for a 16-bit left side, and at most one per column for the right side"
    );
}

#[test]
fn empty_16_bit_inputs_give_empty_outputs() {
    let one = |value: f32| tensor(&[], &[value]);
    let y = bench("QLinearMatMul")
        .input(tensor::<u16>(&[0, 2], &[]))
        .input(one(1.0))
        .input(tensor(&[], &[0u16]))
        .constant(tensor(&[2, 3], &[1i8; 6]))
        .input(one(1.0))
        .input(tensor(&[], &[0i8]))
        .input(one(1.0))
        .input(tensor(&[], &[0u16]))
        .one();
    assert_eq!(y.dims(), [0, 3]);
}

fn wide_gemm(trans: (i64, i64), alpha: f64, addend: &[i32]) -> Bench {
    let one = |value: f32| tensor(&[], &[value]);
    bench("com.microsoft:QGemm")
        .int("transA", trans.0)
        .int("transB", trans.1)
        .float("alpha", alpha)
        .input(tensor(&[2, 2], &[60_000u16, 50_000, 40_000, 0]))
        .input(one(0.5))
        .input(tensor(&[], &[40_000u16]))
        .constant(tensor(&[2, 2], &[1i8, -2, 3, 100]))
        .input(tensor(&[2], &[2.0f32, 4.0]))
        .input(tensor(&[], &[0i8]))
        .input(tensor(&[addend.len()], addend))
        .input(one(100.0))
        .input(tensor(&[], &[1000i16]))
}

#[test]
fn right_sides_of_16_bits_may_be_transposed() {
    let values = |node: Bench| node.one().values::<i16>();
    // 20,000 and 10,000 above the zero point, equal to it, and 40,000 below it.
    let plain = wide_gemm((0, 0), 1.0, &[0, 5000]);
    assert_eq!(values(plain), [1500, 20_300, -200, -32_768]);
    let transposed = wide_gemm((0, 1), 1.0, &[0, 5000]);
    assert_eq!(values(transposed), [1000, 22_300, 1800, -32_768]);
    let doubled = wide_gemm((0, 1), 2.0, &[0, 5000]);
    assert_eq!(values(doubled), [1000, 32_767, 2600, -32_768]);
}

#[test]
fn unsupported_16_bit_products_are_refused() {
    let expected = "expected a left side that is not transposed, and one addend per column";
    assert_eq!(wide_gemm((1, 0), 1.0, &[0, 0]).error(), expected);
    assert_eq!(wide_gemm((0, 0), 1.0, &[1]).error(), expected);
}

/// The 16-bit kernel also accepts such nodes, but needs scratch memory for its sums.
#[test]
fn the_8_bit_kernel_is_chosen_for_8_bit_values() {
    let one = |value: f32| tensor(&[], &[value]);
    let node = bench("QLinearMatMul")
        .input(tensor(&[3, 4], &values::<u8>(12, 1)))
        .input(one(0.5))
        .input(tensor(&[], &[3u8]))
        .constant(tensor(&[4, 5], &values::<i8>(20, 2)))
        .input(one(0.5))
        .input(tensor(&[], &[0i8]))
        .input(one(10.0))
        .input(tensor(&[], &[100u8]));
    let outcomes = node.run().unwrap();
    let scratch: Vec<usize> = outcomes.iter().map(|outcome| outcome.workspace.bytes()).collect();
    let [bytes, wide] = scratch[..] else { panic!("{scratch:?}") };
    assert!(bytes < wide, "{scratch:?}");
}
