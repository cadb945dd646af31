//! Numerical guarantees of matrix products, packed and unpacked.

use crate::family::numerics::{SUBNORMAL, assert_rounds_factors, settled, with};
use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

/// The operators that multiply f32 matrices.
const MEMBERS: [&str; 2] = ["MatMul", "Gemm"];
/// Rows, depth and columns that cover every kernel path.
const SIZES: [[usize; 3]; 4] = [[1, 37, 50], [3, 9, 17], [33, 40, 65], [70, 800, 19]];

/// Returns the product with a constant right side, and with one that is an input of the run.
fn products(op: &'static str, a: Tensor, b: &Tensor) -> [Bench; 2] {
    let run = bench(op).input(a);
    [run.clone().constant(b.clone()), run.input(b.clone())]
}

/// Returns the elements of both operands of a product.
fn operands([rows, depth, cols]: [usize; 3]) -> (Vec<f32>, Vec<f32>) {
    (noise(rows * depth), noise(depth * cols))
}

#[test]
fn results_agree_between_runs_and_between_thread_counts() {
    for (op, size) in MEMBERS.into_iter().flat_map(|op| SIZES.map(|size| (op, size))) {
        let ([rows, depth, cols], (a, b)) = (size, operands(size));
        let runs = products(op, tensor(&[rows, depth], &a), &tensor(&[depth, cols], &b));
        let single_thread: Vec<f64> =
            settled(&runs[0]).values::<f32>().into_iter().map(f64::from).collect();
        for (run, threads) in runs.iter().flat_map(|run| [1, 2, 3, 8].map(|n| (run, n))) {
            let y = settled(&run.clone().threads(threads)).values::<f32>();
            assert_near(&y, &single_thread, 1e-5);
        }
    }
}

#[test]
fn nan_reaches_its_row_or_column() {
    for (op, size) in MEMBERS.into_iter().flat_map(|op| SIZES.map(|size| (op, size))) {
        let ([rows, depth, cols], (a, b)) = (size, operands(size));
        let check = |a: &[f32], b: &[f32], is_hit: &dyn Fn(usize) -> bool| {
            let (a_tensor, b_tensor) = (tensor(&[rows, depth], a), tensor(&[depth, cols], b));
            for run in products(op, a_tensor, &b_tensor) {
                for (i, y) in run.one().values::<f32>().into_iter().enumerate() {
                    assert_eq!(y.is_nan(), is_hit(i), "{op} of {size:?}: {y} at {i}");
                }
            }
        };
        for at in [0, depth - 1, rows * depth - 1] {
            check(&with(&a, at, f32::NAN), &b, &|i| i / cols == at / depth);
        }
        for at in [0, cols - 1, depth * cols - 1] {
            check(&a, &with(&b, at, f32::NAN), &|i| i % cols == at % cols);
        }
    }
}

#[test]
fn subnormal_products_are_not_flushed_and_sums_overflow_to_infinity() {
    let a = [SUBNORMAL, -SUBNORMAL, f32::MAX, f32::MIN];
    for op in MEMBERS {
        for run in products(op, tensor(&[4, 1], &a), &tensor(&[1, 2], &[1f32, 2.0])) {
            let expected: Vec<f32> = a.iter().flat_map(|&a| [a, 2.0 * a]).collect();
            assert_eq!(run.one().values::<f32>(), expected, "{op}");
        }
    }
}

#[test]
fn integers_wrap() {
    let a = tensor(&[1, 2], &[i32::MAX, 1]);
    let y = bench("MatMul").input(a).input(tensor(&[2, 2], &[1, 2, 1, 3])).one();
    assert_eq!(y.values::<i32>(), [i32::MIN, 1]);
}

#[test]
fn reduced_precision_rounds_the_factors() {
    for (op, [rows, depth, cols]) in MEMBERS.into_iter().flat_map(|op| SIZES.map(|size| (op, size)))
    {
        let (a, b) = operands([rows, depth, cols]);
        let inputs = [(&[rows, depth][..], &a[..]), (&[depth, cols], &b)];
        assert_rounds_factors(|| bench(op), inputs, depth);
    }
    // Several right sides, and a transposed one.
    let (a, b) = (noise(3 * 9 * 17), noise(3 * 17 * 20));
    assert_rounds_factors(|| bench("MatMul"), [(&[3, 9, 17], &a), (&[3, 17, 20], &b)], 17);
    let (a, b) = (noise(9 * 33), noise(50 * 33));
    let gemm = || bench("Gemm").int("transB", 1);
    assert_rounds_factors(gemm, [(&[9, 33], &a), (&[50, 33], &b)], 33);
}
