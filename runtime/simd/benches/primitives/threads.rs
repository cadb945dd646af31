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
    wakes(&pool);
    let passes =
        [(); PASSES].map(|()| SHAPES.map(|shape| [floats(&pool, shape), quantized(&pool, shape)]));
    let mut figures = Vec::new();
    for (i, (n, m, k)) in SHAPES.into_iter().enumerate() {
        for (j, dtype) in ["f32", "u8"].into_iter().enumerate() {
            let mut figure = passes.map(|pass| pass[i][j]);
            figure.sort_by(f64::total_cmp);
            let name = format!("{dtype} {n}x{m}x{k}");
            println!("  {name:<44} {:>9.2} x", figure[PASSES / 2]);
            figures.push(figure[PASSES / 2]);
        }
    }
    println!("  geometric mean: {:.2} x", geomean(&figures));
    summary.add("two_threads", geomean(&figures));
}

/// Prints the microseconds until both threads work, with the worker awake and asleep.
fn wakes(pool: &Pool) {
    for (name, pause) in [("awake", Duration::ZERO), ("asleep", Duration::from_millis(1))] {
        let mut times: Vec<f64> = (0..201).map(|_| measure_meeting(pool, pause)).collect();
        times.sort_by(f64::total_cmp);
        let name = format!("both threads at work, the worker {name}");
        println!("  {name:<44} {:>9.1} us", times[times.len() / 2]);
    }
}

/// Returns the microseconds of a parallel loop whose two calls wait for each other, after a pause.
fn measure_meeting(pool: &Pool, pause: Duration) -> f64 {
    let from = Instant::now();
    while from.elapsed() < pause {
        std::hint::spin_loop();
    }
    let here = AtomicUsize::new(0);
    let from = Instant::now();
    let done = pool.parallel().run(2, |_| {
        here.fetch_add(1, Ordering::AcqRel);
        while here.load(Ordering::Acquire) < 2 {
            std::hint::spin_loop();
        }
        Ok(())
    });
    assert!(done.is_ok(), "a call failed");
    from.elapsed().as_secs_f64() * 1e6
}

/// Returns the rows per chunk of `m` rows.
fn rows(pool: &Pool, m: usize) -> usize {
    m.div_ceil(pool.width() * CHUNKS)
}

fn floats(pool: &Pool, (n, m, k): (usize, usize, usize)) -> f64 {
    let mut packed = Lines::new(gemm_f32::packed_len(k, n));
    let packed = packed.slice();
    gemm_f32::pack_b(&vec![0.5; k * n], n, gemm_f32::Layout::Rows, k, n, packed);
    let a = vec![0.25f32; m * k];
    let (mut alone, mut shared) = (Lines::new(m * n), Lines::new(m * n));
    let (alone, shared) = (alone.slice(), shared.slice());
    let product = |first: usize, c: &mut [f32]| {
        let rows = c.len() / n;
        let a = &a[first * k..][..rows * k];
        gemm_f32::gemm(a, k, rows, k, packed, n, c, n, &gemm_f32::Epilogue::default());
    };
    let rows = rows(pool, m);
    let both = || {
        let done = pool.parallel().chunks_mut(black_box(&mut *shared), rows * n, |chunk, c| {
            product(chunk * rows, c);
            Ok(())
        });
        assert!(done.is_ok(), "a chunk failed");
    };
    times(both, || product(0, black_box(&mut *alone)))
}

fn quantized(pool: &Pool, (n, m, k): (usize, usize, usize)) -> f64 {
    let mut packed = Lines::new(gemm_u8::packed_len(k, n).unwrap());
    let packed = packed.slice();
    let weights: Vec<i8> = (-128..=127).cycle().step_by(37).take(n * k).collect();
    assert!(gemm_u8::pack_b(&weights, gemm_u8::Strides { k: 1, n: k }, k, n, packed));
    let a = vec![77u8; m * k];
    let (mut alone, mut shared) = (Lines::new(m * n), Lines::new(m * n));
    let (alone, shared) = (alone.slice(), shared.slice());
    let product = |first: usize, to: &mut [u8]| {
        let rows = to.len() / n;
        let quantized = &a[first * k..][..rows * k];
        let left = gemm_u8::Lhs { data: quantized, rows, stride: k, zero_point: 9 };
        let right = gemm_u8::Rhs { packed, k, n, zero_points: &[] };
        let output = gemm_u8::Output::U8 { to, scales: &[0.000_3], zero_point: 128 };
        gemm_u8::gemm(&left, &right, &[77], output, n).unwrap();
    };
    let rows = rows(pool, m);
    let both = || {
        let done = pool.parallel().chunks_mut(black_box(&mut *shared), rows * n, |chunk, to| {
            product(chunk * rows, to);
            Ok(())
        });
        assert!(done.is_ok(), "a chunk failed");
    };
    times(both, || product(0, black_box(&mut *alone)))
}
