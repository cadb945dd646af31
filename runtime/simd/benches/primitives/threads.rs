//! The speedup of two threads of the runtime's pool over one, on large products.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use udo_engine::thread_pool::Pool;
use udo_simd::{gemm_f32, gemm_u8};

use crate::harness::{Lines, Summary, geomean, section, times};

/// Output channels, pixels or tokens, depth.
const SHAPES: [(usize, usize, usize); 5] =
    [(64, 3136, 576), (128, 784, 1152), (256, 3136, 64), (384, 512, 384), (1536, 512, 384)];

/// Chunks per thread: more than one, so that a thread that starts late takes fewer.
const CHUNKS: usize = 2;

/// Number of measurements; a neighbouring process may occupy the second core for seconds.
const PASSES: usize = 3;

/// Prints the median of the passes.
pub(crate) fn run(summary: &mut Summary) {
    section("two threads against one; channels x pixels x depth");
    let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
    print_wake_times(&pool);
    let passes = [(); PASSES]
        .map(|()| SHAPES.map(|shape| [speedup_f32(&pool, shape), speedup_u8(&pool, shape)]));
    let mut medians = Vec::new();
    for (i, (n, m, k)) in SHAPES.into_iter().enumerate() {
        for (j, dtype) in ["f32", "u8"].into_iter().enumerate() {
            let mut ratios = passes.map(|pass| pass[i][j]);
            ratios.sort_by(f64::total_cmp);
            let name = format!("{dtype} {n}x{m}x{k}");
            println!("  {name:<44} {:>9.2} x", ratios[PASSES / 2]);
            medians.push(ratios[PASSES / 2]);
        }
    }
    println!("  geometric mean: {:.2} x", geomean(&medians));
    summary.add("two_threads", geomean(&medians));
}

/// Prints the microseconds until both threads work, with the worker awake and asleep.
fn print_wake_times(pool: &Pool) {
    for (name, pause) in [("awake", Duration::ZERO), ("asleep", Duration::from_millis(1))] {
        let mut times: Vec<f64> = (0..201).map(|_| measure_meeting(pool, pause)).collect();
        times.sort_by(f64::total_cmp);
        let name = format!("both threads at work, the worker {name}");
        println!("  {name:<44} {:>9.1} us", times[times.len() / 2]);
    }
}

/// Returns the microseconds of a parallel loop whose two calls wait for each other, after a pause.
fn measure_meeting(pool: &Pool, pause: Duration) -> f64 {
    let start = Instant::now();
    while start.elapsed() < pause {
        std::hint::spin_loop();
    }
    let arrived = AtomicUsize::new(0);
    let start = Instant::now();
    let result = pool.parallel().run(2, |_| {
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < 2 {
            std::hint::spin_loop();
        }
        Ok(())
    });
    assert!(result.is_ok(), "a call failed");
    start.elapsed().as_secs_f64() * 1e6
}

/// Returns the rows per chunk of `m` rows.
fn rows(pool: &Pool, m: usize) -> usize {
    m.div_ceil(pool.width() * CHUNKS)
}

/// Returns the speed of two threads relative to one for a product of floating-point numbers.
fn speedup_f32(pool: &Pool, (n, m, k): (usize, usize, usize)) -> f64 {
    let mut packed = Lines::new(gemm_f32::packed_len(k, n));
    let packed = packed.slice();
    gemm_f32::pack_b(&vec![0.5; k * n], n, gemm_f32::Layout::Rows, k, n, packed);
    let a = vec![0.25f32; m * k];
    let (mut single_output, mut pool_output) = (Lines::new(m * n), Lines::new(m * n));
    let (single_output, pool_output) = (single_output.slice(), pool_output.slice());
    let product = |first_row: usize, c: &mut [f32]| {
        let rows = c.len() / n;
        let a = &a[first_row * k..][..rows * k];
        gemm_f32::gemm(a, k, rows, k, packed, n, c, n, &gemm_f32::Epilogue::default());
    };
    let rows = rows(pool, m);
    let run_on_pool = || {
        let result =
            pool.parallel().chunks_mut(black_box(&mut *pool_output), rows * n, |chunk, c| {
                product(chunk * rows, c);
                Ok(())
            });
        assert!(result.is_ok(), "a chunk failed");
    };
    times(run_on_pool, || product(0, black_box(&mut *single_output)))
}

/// Returns the speed of two threads relative to one for a quantized product.
fn speedup_u8(pool: &Pool, (n, m, k): (usize, usize, usize)) -> f64 {
    let mut packed = Lines::new(gemm_u8::packed_len(k, n).unwrap());
    let packed = packed.slice();
    let weights: Vec<i8> = (-128..=127).cycle().step_by(37).take(n * k).collect();
    assert!(gemm_u8::pack_b(&weights, gemm_u8::Strides { k: 1, n: k }, k, n, packed));
    let a = vec![77u8; m * k];
    let (mut single_output, mut pool_output) = (Lines::new(m * n), Lines::new(m * n));
    let (single_output, pool_output) = (single_output.slice(), pool_output.slice());
    let product = |first_row: usize, to: &mut [u8]| {
        let rows = to.len() / n;
        let data = &a[first_row * k..][..rows * k];
        let lhs = gemm_u8::Lhs { data, rows, stride: k, zero_point: 9 };
        let rhs = gemm_u8::Rhs { packed, k, n, zero_points: &[] };
        let output = gemm_u8::Output::U8 { to, scales: &[0.000_3], zero_point: 128 };
        gemm_u8::gemm(&lhs, &rhs, &[77], output, n).unwrap();
    };
    let rows = rows(pool, m);
    let run_on_pool = || {
        let result =
            pool.parallel().chunks_mut(black_box(&mut *pool_output), rows * n, |chunk, to| {
                product(chunk * rows, to);
                Ok(())
            });
        assert!(result.is_ok(), "a chunk failed");
    };
    times(run_on_pool, || product(0, black_box(&mut *single_output)))
}
