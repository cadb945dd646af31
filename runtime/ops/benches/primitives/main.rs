//! Every compute primitive against the machine's limit, measured in the same run.
//!
//! `cargo bench -p udo-ops` prints a table per primitive and ends with one summary line.
#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a benchmark prints numbers")]

mod gemm_f32;
mod gemm_u8;
mod harness;
mod math;

use harness::Harness;

fn main() {
    let mut harness = Harness::new();
    gemm_f32::run(&mut harness);
    gemm_u8::run(&mut harness);
    math::run(&mut harness);
    harness.finish();
}
