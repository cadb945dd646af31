//! Measures every compute primitive against the machine's limit, sampled in the same run.
//!
//! `cargo bench -p udo-simd` prints a table per primitive and a summary line. Arguments select primitives by name; the
//! default is all.
#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a benchmark prints numbers"
)]

mod conv_f32;
mod conv_u8;
mod depthwise;
mod gemm_bf16;
mod gemm_blocks;
mod gemm_f32;
mod gemm_u8;
mod harness;
mod math;
mod pooling;
mod threads;
mod winograd;

use harness::Summary;

/// Prints the rows of a primitive, and adds its result to the summary.
type Run = fn(&mut Summary);

const PRIMITIVES: &[(&str, Run)] = &[
    ("gemm_f32", gemm_f32::run),
    ("gemm_bf16", gemm_bf16::run),
    ("gemm_u8", gemm_u8::run),
    ("gemm_blocks", gemm_blocks::run),
    ("conv_f32", conv_f32::run),
    ("conv_u8", conv_u8::run),
    ("winograd", winograd::run),
    ("depthwise", depthwise::run),
    ("pooling", pooling::run),
    ("math", math::run),
    ("threads", threads::run),
];

fn main() {
    let mut summary = Summary::default();
    let selected: Vec<String> =
        std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    for (name, run) in PRIMITIVES {
        if selected.is_empty() || selected.iter().any(|selected| selected == name) {
            run(&mut summary);
        }
    }
    summary.print();
}
