//! Benchmarks of `gemm_bf16`.
#![expect(
    clippy::many_single_char_names,
    reason = "matrices have the letters that BLAS gives them"
)]

use std::hint::black_box;

use udo_simd::gemm_bf16::{self, Rows};
use udo_simd::gemm_f32::{self, Epilogue, Layout};

use crate::harness::{self, Lines, Summary, geomean, section};

/// Layers of well-known networks, as in `gemm_f32`: output channels, pixels or tokens, depth.
const SHAPES: &[(&str, usize, usize, usize)] = &[
    ("resnet50 1x1", 64, 3136, 64),
    ("resnet50 3x3", 128, 784, 1152),
    ("resnet50 3x3", 256, 196, 2304),
    ("resnet50 1x1", 1024, 196, 256),
    ("resnet50 3x3", 512, 49, 4608),
    ("mobilenet 1x1", 512, 196, 512),
    ("transformer", 1536, 128, 384),
    ("fully connected", 1000, 1, 2048),
];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("gemm_bf16: channels x pixels x depth, as a multiple of gemm_f32's rate");
    if !gemm_bf16::is_available() {
        println!("  this machine has no such products");
        return;
    }
    let ratios: Vec<f64> = SHAPES.iter().map(row).collect();
    let ratio = geomean(&ratios);
    println!("  geometric mean {ratio:>40.2} x");
    summary.add("bf16_gemm", ratio);
}

/// Returns the speed relative to `gemm_f32`.
fn row(&(name, n, m, k): &(&str, usize, usize, usize)) -> f64 {
    let mut a = Lines::new(m * k);
    a.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f32 / 17.0 - 0.5);
    let b: Vec<f32> = (0..k * n).map(|i| (i % 23) as f32 / 23.0 - 0.5).collect();
    let mut packed_f32 = Lines::new(gemm_f32::packed_len(k, n));
    gemm_f32::pack_b(&b, n, Layout::Rows, k, n, packed_f32.slice());
    let mut packed_bf16 = Lines::new(gemm_bf16::packed_len(k, n));
    gemm_bf16::pack_b(&b, n, Layout::Rows, k, n, packed_bf16.slice());
    let (a, packed_f32, packed_bf16) = (&*a.slice(), &*packed_f32.slice(), &*packed_bf16.slice());
    let (mut c_bf16, mut c_f32) = (vec![0.0; m * n], vec![0.0; m * n]);
    let epilogue = Epilogue::default();
    let run_bf16 = || {
        let rows = Rows::Strided { a, lda: k };
        gemm_bf16::gemm(rows, m, k, packed_bf16, n, &mut c_bf16, n, &epilogue);
        black_box(&mut *c_bf16);
    };
    let run_f32 = || {
        gemm_f32::gemm(a, k, m, k, packed_f32, n, &mut c_f32, n, &epilogue);
        black_box(&mut *c_f32);
    };
    harness::ratio(&format!("{name} {n}x{m}x{k}"), run_bf16, run_f32)
}
