//! Benchmarks of `gemm_blocks`.
#![expect(clippy::unwrap_used, reason = "without a right side nothing is measured")]

use std::hint::black_box;

use udo_simd::gemm_blocks::{Blocks, Width, Zeros, arrange, multiply};

use crate::harness::{self, Lines, Summary, Unit, section};

/// Layers of language models: rows, depth, columns, and values per block.
const SHAPES: &[(usize, usize, usize, usize)] =
    &[(1, 2048, 2048, 32), (1, 4096, 4096, 32), (1, 4096, 4096, 128), (4, 4096, 4096, 32)];

/// Prints the rows. They do not count towards the summary.
pub(crate) fn run(_: &mut Summary) {
    section("gemm_blocks: rows x depth x columns of 4 and of 8 bits");
    for &(rows, depth, columns, block) in SHAPES {
        for (width, bits) in [(Width::Four, 4), (Width::Eight, 8)] {
            let blocks = depth / block;
            let len = columns * blocks * width.bytes(block);
            let weights: Vec<u8> = (0..=u8::MAX).rev().cycle().step_by(7).take(len).collect();
            let scales = vec![0.01; columns * blocks];
            let sizes = [block, blocks, columns];
            let b = Blocks::new(width, sizes, &weights, &scales, Zeros::Same(8.0)).unwrap();
            let (mut arranged, mut output) = (Lines::new(rows * depth), Lines::new(rows * columns));
            let input: Vec<f32> = (0..rows * depth).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect();
            arrange(&b, depth, &input, arranged.slice());
            let (arranged, output) = (arranged.slice(), output.slice());
            let ops = 2.0 * (rows * depth * columns) as f64;
            let label = format!("{rows}x{depth}x{columns}, {bits} bits, blocks of {block}");
            harness::row(&label, Unit::Flops, ops, || {
                multiply(&b, 0..columns, arranged, output, columns);
                black_box(&mut *output);
            });
        }
    }
}
