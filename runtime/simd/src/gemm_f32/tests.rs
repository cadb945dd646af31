//! Compares products with a naive product, on every instruction set.
#![expect(clippy::float_cmp, reason = "numbers that are exact, or infinite")]

use super::*;
use crate::testing::Guarded;
use crate::testing::noise;

// Zero, one, primes, and either side of a register, a panel and a block of rows.
const ROWS: &[usize] = &[1, 2, 3, 5, 6, 7, 8, 9, 13, 15, 16, 17, 25, 31];
const COLS: &[usize] =
    &[1, 2, 7, 8, 9, 15, 16, 17, 23, 31, 33, 47, 48, 49, 63, 64, 65, 80, 96, 97, 127, 131];
const DEPTHS: &[usize] = &[0, 1, 2, 3, 4, 5, 7, 16, 31];

/// A product: its sizes, layout and epilogue.
#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    k: usize,
    n: usize,
    /// Elements between rows.
    gap: usize,
    layout: Layout,
    /// Whether the epilogue adds a bias, and a residual.
    addends: (bool, bool),
    activation: Activation,
}

impl Case {
    fn plain(m: usize, k: usize, n: usize) -> Self {
        let activation = Activation::None;
        Self { m, k, n, gap: 0, layout: Layout::Rows, addends: (false, false), activation }
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Activation::Relu6 => {
            if x.is_nan() {
                x
            } else {
                x.clamp(0.0, 6.0)
            }
        }
        Activation::Clamp(low, high) => {
            if x.is_nan() {
                x
            } else {
                x.clamp(low.into(), high.into())
            }
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
    }
}

/// Computes erf by its series where that converges fast, else by its continued fraction.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    let value = if magnitude < 2.5 {
        let (mut term, mut sum) = (magnitude, magnitude);
        for i in 1..60 {
            term *= -magnitude * magnitude / f64::from(i);
            sum += term / f64::from(2 * i + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..60).rev().fold(0.0, |tail, i| f64::from(i) / 2.0 / (magnitude + tail));
        1.0 - (-magnitude * magnitude).exp() / (magnitude + fraction) / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

/// Runs the case with the kernels of an instruction set, on slices next to protected pages, and compares each element.
/// The error of a sum of `k` products is at most `(k + 3) eps sum |a b|`, including bias and residual. Activations have
/// slopes up to 1.2, and an error of their own.
fn check(kernels: &MicroKernels, case: Case) {
    let Case { m, k, n, gap, layout, addends, activation } = case;
    let (lda, ldc, ldr) = (k + gap, n + gap, n + 2 * gap);
    let (b_rows, b_cols) = if layout == Layout::Rows { (k, n) } else { (n, k) };
    let ldb = b_cols + gap;
    let len = |rows: usize, cols: usize, ld: usize| {
        if rows == 0 || cols == 0 { 0 } else { (rows - 1) * ld + cols }
    };
    let a = noise(len(m, k, lda));
    let b: Vec<f32> = noise(len(b_rows, b_cols, ldb)).iter().map(|x| 3.0 * x).collect();
    let bias = noise(n);
    let residual: Vec<f32> = noise(len(m, n, ldr)).iter().map(|x| 2.0 * x).collect();

    let mut packed = Guarded::at_end(&vec![f32::NAN; kernels.packed_len(k, n)]);
    kernels.pack_b(Guarded::at_end(&b).slice(), ldb, layout, k, n, packed.slice());
    let mut c = Guarded::at_end(&vec![-7.5; len(m, n, ldc)]);
    let (mut guarded_a, mut guarded_bias, mut guarded_residual) =
        (Guarded::at_end(&a), Guarded::at_end(&bias), Guarded::at_end(&residual));
    let epilogue = Epilogue {
        bias: addends.0.then_some(guarded_bias.slice()),
        residual: addends.1.then_some((guarded_residual.slice(), ldr)),
        activation,
    };
    kernels.gemm(guarded_a.slice(), lda, m, k, packed.slice(), n, c.slice(), ldc, &epilogue);

    for (index, &actual) in c.slice().iter().enumerate() {
        let (i, j) = (index / ldc, index % ldc);
        if j >= n {
            assert_eq!(actual.to_bits(), (-7.5f32).to_bits(), "gap after row {i} of {case:?}");
            continue;
        }
        let mut sum = 0.0;
        let mut magnitude = 0.0;
        let mut add = |x: f64| (sum += x, magnitude += x.abs());
        for l in 0..k {
            let b = if layout == Layout::Rows { b[l * ldb + j] } else { b[j * ldb + l] };
            add(f64::from(a[i * lda + l]) * f64::from(b));
        }
        addends.0.then(|| add(bias[j].into()));
        addends.1.then(|| add(residual[i * ldr + j].into()));
        let expected = activate(activation, sum);
        let eps = f64::from(f32::EPSILON);
        let bound = 1.2 * (k as f64 + 3.0) * eps * magnitude + 4.0 * eps * expected.abs();
        let bound = if activation == Activation::Gelu { bound + 3e-7 * sum.abs() } else { bound };
        let error = (f64::from(actual) - expected).abs();
        assert!(
            error <= bound,
            "({i}, {j}) of {case:?} is {actual}, expected {expected} +- {bound}"
        );
    }
}

fn all_kernels() -> impl Iterator<Item = &'static MicroKernels> {
    Isa::available().iter().map(|&isa| kernels(isa))
}

#[test]
fn products_match_for_partial_tiles() {
    for kernels in all_kernels() {
        for &m in ROWS {
            for &n in COLS {
                for &k in DEPTHS {
                    check(kernels, Case::plain(m, k, n));
                }
            }
        }
    }
}

#[test]
fn products_of_several_blocks_match() {
    for kernels in all_kernels() {
        for (m, k, n) in [(17, 385, 50), (23, 769, 17), (64, 1153, 65), (9, 2000, 5), (1, 1001, 99)]
        {
            for addends in [(false, false), (true, true)] {
                check(kernels, Case { gap: 3, addends, ..Case::plain(m, k, n) });
            }
        }
        check(kernels, Case { gap: 1, addends: (true, true), ..Case::plain(1100, 9, 19) });
    }
}

#[test]
fn products_with_epilogues_and_strides_match() {
    let activations = [
        Activation::None,
        Activation::Relu,
        Activation::Relu6,
        Activation::Clamp(-0.5, 0.75),
        Activation::Silu,
        Activation::Gelu,
    ];
    for kernels in all_kernels() {
        for activation in activations {
            for layout in [Layout::Rows, Layout::Transposed] {
                for addends in [(false, false), (true, false), (false, true), (true, true)] {
                    for (m, k, n) in [(1, 37, 61), (11, 6, 64), (29, 401, 53)] {
                        for gap in [0, 5] {
                            check(kernels, Case { m, k, n, gap, layout, addends, activation });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn columns_divided_among_threads_match_the_whole() {
    for kernels in all_kernels() {
        for (m, k, n, gap) in
            [(2, 64, 131, 0), (7, 33, 256, 5), (17, 900, 97, 1), (3, 0, 70, 2), (1, 5, 1, 0)]
        {
            let (lda, ldc) = (k + gap, n + gap);
            let len = |cols: usize, ld: usize| if cols == 0 { 0 } else { (m - 1) * ld + cols };
            let (a, b, bias) = (noise(len(k, lda)), noise(k * n), noise(n));
            let residual = noise(len(n, ldc));
            let mut packed = vec![0.0; kernels.packed_len(k, n)];
            kernels.pack_b(&b, n, Layout::Rows, k, n, &mut packed);
            let activation = Activation::Relu;
            let epilogue =
                Epilogue { bias: Some(&bias), residual: Some((&residual, ldc)), activation };
            // Chunks as separate blocks are covered by the tests above.
            let chunks = 4;
            let columns = kernels.columns_of_chunk(n, chunks);
            let mut expected = vec![-7.5; len(n, ldc)];
            for first in (0..n).step_by(columns) {
                let width = columns.min(n - first);
                let residual = Some((&residual[first..], ldc));
                let epilogue = Epilogue { bias: Some(&bias[first..]), residual, activation };
                let (packed, c) = (&packed[first * k..], &mut expected[first..]);
                kernels.gemm(&a, lda, m, k, packed, width, c, ldc, &epilogue);
            }
            // On two threads, with the required number of calls, too few, and too many.
            for calls in [|n: usize| n, |_| 0, |n| n + 3] {
                let mut c = Guarded::at_end(&vec![-7.5; len(n, ldc)]);
                let run = |count: usize, chunk: &(dyn Fn() + Sync)| {
                    std::thread::scope(|scope| {
                        scope.spawn(|| (0..calls(count) / 2).for_each(|_| chunk()));
                        (calls(count) / 2..calls(count)).for_each(|_| chunk());
                    });
                };
                let c = c.slice();
                kernels.gemm_by_columns(&a, lda, m, k, &packed, n, c, ldc, &epilogue, chunks, run);
                let stored = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(stored(c), stored(&expected), "{m} x {k} x {n}, {gap} more");
            }
        }
    }
}

#[test]
fn products_of_random_shapes_match() {
    for kernels in all_kernels() {
        for numbers in noise(300).chunks_exact(3) {
            let [m, k, n] = [0, 1, 2].map(|i| (numbers[i].abs() * 90.0) as usize);
            check(
                kernels,
                Case { gap: k % 3, addends: (m % 2 == 0, n % 2 == 0), ..Case::plain(m, k, n) },
            );
        }
    }
}

#[test]
fn silu_and_gelu_match_over_their_whole_range() {
    for kernels in all_kernels() {
        let x: Vec<f32> = noise(4000).iter().map(|x| x * x * x * 100.0).collect();
        let x =
            [&x[..], &[0.0, -0.0, 1e-30, -1e-30, 88.0, 95.0, -86.0, 1e30, f32::INFINITY]].concat();
        let mut packed_one = vec![0.0; kernels.packed_len(1, 1)];
        kernels.pack_b(&[1.0], 1, Layout::Rows, 1, 1, &mut packed_one);
        for activation in [Activation::Silu, Activation::Gelu] {
            let mut y = vec![0.0; x.len()];
            let epilogue = Epilogue { activation, ..Epilogue::default() };
            kernels.gemm(&x, 1, x.len(), 1, &packed_one, 1, &mut y, 1, &epilogue);
            for (&x, &y) in x.iter().zip(&y) {
                let expected = activate(activation, x.into());
                let absolute_error =
                    if activation == Activation::Gelu { 3e-7 * x.abs() } else { 0.0 };
                let bound = 5e-7 * expected.abs() + f64::from(absolute_error) + 3e-37;
                let error = f64::from(y) - expected;
                assert!(y == expected as f32 || error.abs() <= bound, "{activation:?}({x}) is {y}");
            }
        }
    }
}

#[test]
fn non_finite_values_stay_in_their_row() {
    for kernels in all_kernels() {
        for (m, k, n) in [(9, 21, 70), (1, 21, 70), (30, 800, 33)] {
            let b = vec![1.0; k * n];
            let mut packed = vec![0.0; kernels.packed_len(k, n)];
            kernels.pack_b(&b, n, Layout::Rows, k, n, &mut packed);
            for (value, activation) in [
                (f32::NAN, Activation::None),
                (f32::NAN, Activation::Relu),
                (f32::NAN, Activation::Relu6),
                (f32::NAN, Activation::Clamp(-1.0, 1.0)),
                (f32::NAN, Activation::Silu),
                (f32::NAN, Activation::Gelu),
                (f32::INFINITY, Activation::None),
                (f32::NEG_INFINITY, Activation::None),
                (f32::INFINITY, Activation::Silu),
            ] {
                let mut a = vec![0.5; m * k];
                a[(m - 1) * k + k / 2] = value;
                let mut c = vec![0.0; m * n];
                let epilogue = Epilogue { activation, ..Epilogue::default() };
                kernels.gemm(&a, k, m, k, &packed, n, &mut c, n, &epilogue);
                let (other_rows, last_row) = c.split_at((m - 1) * n);
                assert!(other_rows.iter().all(|x| x.is_finite()), "{activation:?}");
                let is_expected =
                    |x: &f32| x.to_bits() == value.to_bits() || (x.is_nan() && value.is_nan());
                assert!(
                    last_row.iter().all(is_expected),
                    "{activation:?} of {value} in {last_row:?}"
                );
            }
        }
    }
}

#[test]
fn products_of_depth_zero_are_the_bias() {
    for kernels in all_kernels() {
        let mut c = [1.0; 6];
        let epilogue = Epilogue { bias: Some(&[2.0, -3.0]), ..Epilogue::default() };
        kernels.gemm(&[], 0, 3, 0, &[], 2, &mut c, 2, &epilogue);
        assert_eq!(c, [2.0, -3.0, 2.0, -3.0, 2.0, -3.0]);
        kernels.gemm(&[], 4, 0, 4, &vec![0.0; kernels.packed_len(4, 2)], 2, &mut [], 2, &epilogue);
        kernels.gemm(&[0.0; 12], 4, 3, 4, &[], 0, &mut [], 0, &epilogue);
    }
}

#[test]
fn batched_products_match_single_products() {
    let (count, m, k, n) = (3, 5, 7, 20);
    let (a, b, residual) = (noise(count * m * k), noise(count * k * n), noise(m * n));
    let len = packed_len(k, n);
    let mut packed = vec![0.0; count * len];
    for (b, packed) in b.chunks_exact(k * n).zip(packed.chunks_exact_mut(len)) {
        pack_b(b, n, Layout::Rows, k, n, packed);
    }
    let batch = Batch { count, a: m * k, packed: len, c: m * n, residual: 0 };
    let epilogue = Epilogue { residual: Some((&residual, n)), ..Epilogue::default() };
    let mut c = vec![0.0; count * m * n];
    gemm_batched(&batch, &a, k, m, k, &packed, n, &mut c, n, &epilogue);
    for (i, c) in c.chunks_exact(m * n).enumerate() {
        let (a, packed) = (&a[i * m * k..][..m * k], &packed[i * len..][..len]);
        let mut expected = vec![0.0; m * n];
        gemm(a, k, m, k, packed, n, &mut expected, n, &epilogue);
        assert_eq!(c, expected);
        let mut row = vec![0.0; n];
        gemv(&a[..k], k, packed, n, &mut row, &Epilogue::default());
        let rows = row.iter().zip(&residual).map(|(y, r)| f64::from(y + r)).collect::<Vec<_>>();
        crate::testing::assert_near(&c[..n], &rows, 1e-5);
    }
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let is_refused = |a: usize, packed: usize, c: usize, bias: usize, residual: usize| {
        std::panic::catch_unwind(|| {
            let (bias, residual) = (vec![0.0; bias], vec![0.0; residual]);
            let epilogue = Epilogue {
                bias: Some(&bias),
                residual: Some((&residual, 9)),
                activation: Activation::None,
            };
            let mut c = vec![0.0; c];
            gemm(&vec![0.0; a], 4, 3, 4, &vec![0.0; packed], 9, &mut c, 9, &epilogue);
        })
        .is_err()
    };
    let packed = packed_len(4, 9);
    assert!(!is_refused(12, packed, 27, 9, 27));
    assert!(is_refused(11, packed, 27, 9, 27));
    assert!(is_refused(12, packed - 1, 27, 9, 27));
    assert!(is_refused(12, packed, 26, 9, 27));
    assert!(is_refused(12, packed, 27, 8, 27));
    assert!(is_refused(12, packed, 27, 9, 26));
}

#[test]
fn products_make_no_heap_calls() {
    let (m, k, n) = (33, 500, 70);
    let (a, b) = (noise(m * k), noise(k * n));
    for kernels in all_kernels() {
        let mut packed = vec![0.0; kernels.packed_len(k, n)];
        let mut c = vec![0.0; m * n];
        let epilogue = Epilogue { activation: Activation::Silu, ..Epilogue::default() };
        // The first run may allocate, while it detects the instruction set.
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            kernels.pack_b(&b, n, Layout::Rows, k, n, &mut packed);
            kernels.gemm(&a, k, m, k, &packed, n, &mut c, n, &epilogue);
            udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many products called the heap");
    }
}

#[test]
fn products_may_be_deeper_than_a_block() {
    for kernels in Isa::available().iter().map(|&isa| kernels(isa)) {
        let k = (1 << 17) + 1;
        let (a, packed) = (vec![1.0; k], vec![1.0; kernels.packed_len(k, 1)]);
        let mut c = [0.0];
        kernels.gemm(&a, k, 1, k, &packed, 1, &mut c, 1, &Epilogue::default());
        assert_eq!(c, [k as f32]);
    }
}

#[test]
fn chunks_of_columns_are_packed_matrices() {
    const DEPTH: usize = 19;
    for &isa in Isa::available() {
        let kernels = kernels(isa);
        for n in COLS.iter().copied().chain([144, 145, 160, 161, 192, 193, 500, 1000]) {
            let (x, b, bias) = (noise(DEPTH), noise(DEPTH * n), noise(n));
            let mut packed = vec![0.0; kernels.packed_len(DEPTH, n)];
            kernels.pack_b(&b, n, Layout::Rows, DEPTH, n, &mut packed);
            let product = |packed: &[f32], bias: &[f32], y: &mut [f32]| {
                let (epilogue, n) = (Epilogue { bias: Some(bias), ..Epilogue::default() }, y.len());
                kernels.gemm(&x, DEPTH, 1, DEPTH, packed, n, y, n, &epilogue);
            };
            let mut whole = vec![0.0; n];
            product(&packed, &bias, &mut whole);
            for chunks in 1..6 {
                let columns = kernels.columns_of_chunk(n, chunks);
                let mut y = vec![0.0; n];
                assert!(y.chunks(columns).len() <= chunks, "{isa:?} {n} {chunks}");
                for (chunk, y) in y.chunks_mut(columns).enumerate() {
                    let first = chunk * columns;
                    product(&packed[first * DEPTH..], &bias[first..], y);
                }
                assert_eq!(y, whole, "{isa:?} {n} {chunks}");
            }
        }
    }
}
