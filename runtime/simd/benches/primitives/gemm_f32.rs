//! Benchmarks of `gemm_f32`.
#![expect(
    clippy::many_single_char_names,
    clippy::unwrap_used,
    reason = "matrices have the letters that BLAS gives them; without a thread nothing is measured"
)]

use std::hint::black_box;

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_tensor::NdTensorView;
use udo_simd::gemm_f32::{Epilogue, Layout, gemm, pack_b, packed_len};

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// Layers of well-known networks: output channels, pixels or tokens, depth.
const SHAPES: &[(&str, usize, usize, usize)] = &[
    ("resnet50 1x1", 64, 3136, 64),
    ("resnet50 1x1", 256, 3136, 64),
    ("resnet50 3x3", 64, 3136, 576),
    ("resnet50 3x3", 128, 784, 1152),
    ("resnet50 1x1", 512, 784, 128),
    ("resnet50 3x3", 256, 196, 2304),
    ("resnet50 1x1", 1024, 196, 256),
    ("resnet50 3x3", 512, 49, 4608),
    ("resnet50 1x1", 2048, 49, 512),
    ("mobilenet 1x1", 64, 12544, 32),
    ("mobilenet 1x1", 512, 196, 512),
    ("mobilenet 1x1", 1024, 49, 1024),
    ("transformer", 384, 128, 384),
    ("transformer", 1536, 128, 384),
    ("transformer", 384, 128, 1536),
];

/// A fully connected layer, limited by reading its weights.
const FULLY_CONNECTED: (&str, usize, usize, usize) = ("fully connected", 1000, 1, 2048);

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("gemm_f32: channels x pixels x depth; then as a multiple of rten-gemm's rate");
    let rows: Vec<(f64, f64)> = SHAPES.iter().map(row).collect();
    row(&FULLY_CONNECTED);
    let (fractions, ratios): (Vec<f64>, Vec<f64>) = rows.into_iter().unzip();
    let (fraction, ratio) = (geomean(&fractions), geomean(&ratios));
    println!("  geometric means without the last {:>30.1} %  {ratio:.2} x", fraction * 100.0);
    summary.add("f32_gemm", fraction);
}

/// Returns the fraction of the peak, and the speed relative to rten-gemm.
fn row(&(name, n, m, k): &(&str, usize, usize, usize)) -> (f64, f64) {
    let (mut a, mut packed, mut c) =
        (Lines::new(m * k), Lines::new(packed_len(k, n)), Lines::new(m * n));
    a.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f32 / 17.0 - 0.5);
    let b: Vec<f32> = (0..k * n).map(|i| (i % 23) as f32 / 23.0 - 0.5).collect();
    pack_b(&b, n, Layout::Rows, k, n, packed.slice());
    let (a, packed, c) = (a.slice(), packed.slice(), c.slice());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let ops = 2.0 * (m * n * k) as f64;
    let label = format!("{name} {n}x{m}x{k}");
    let fraction = harness::row(&label, Unit::Flops, ops, || {
        gemm(a, k, m, k, packed, n, c, n, &Epilogue::default());
        black_box(&mut *c);
    });
    let executor = GemmExecutor::<f32>::new();
    let rten_packed = executor.prepack_b(NdTensorView::from_data([k, n], b.as_slice()));
    let mut rten_c = vec![0.0; m * n];
    let run_rten = || {
        let a = GemmInputA::Unpacked(NdTensorView::from_data([m, k], &*a));
        let b = GemmInputB::Packed(&rten_packed);
        let result = executor.gemm(&mut rten_c, a, b, GemmOptions::default());
        assert!(result.is_ok(), "rten-gemm refuses");
    };
    let run_udo = || {
        gemm(a, k, m, k, packed, n, c, n, &Epilogue::default());
        black_box(&mut *c);
    };
    // In the pool's single thread, because rten-gemm uses the pool that it is called from.
    let ratio = pool.install(|| harness::ratio("", run_udo, run_rten));
    (fraction, ratio)
}
