//! Tests of the HTA: compiles and runs networks, and compares with a reference implementation.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers without a pattern, and naive arithmetic"
)]

mod documented;
mod layers;
mod mutations;
mod networks;
mod programs;
mod random;
mod reference;
mod refusals;
mod seeds;

use udo_hta::{Limits, Network, Program, Soc, compile};

/// Counts heap calls, so that a test can check that runs make none.
#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;

/// Runs bytecode on inputs and returns its outputs. Outputs and scratch memory are filled with garbage before.
#[track_caller]
fn run(bytes: &[u8], inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let program = Program::load(bytes, &Limits::DEFAULT).unwrap();
    let prepared = program.prepare().unwrap();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<_> = program.outputs().iter().map(|&len| vec![7; len as usize]).collect();
    let mut output_slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut scratch = vec![9; prepared.scratch_len()];
    prepared.run(&inputs, &mut output_slices, &mut scratch).unwrap();
    outputs
}

/// Returns whether the network fits the SoC's memories. If it does, asserts that a run gives the expected outputs.
#[track_caller]
fn fits_and_agrees(
    what: &str,
    network: &Network<'_>,
    soc: &Soc,
    inputs: &[Vec<u8>],
    expected: &[Vec<u8>],
) -> bool {
    let bytes = match compile(network, soc) {
        Ok(bytes) => bytes,
        Err(udo_hta::CompileError::Rows { .. } | udo_hta::CompileError::Refused(_)) => {
            return false;
        }
        Err(other) => panic!("{what}: {other}"),
    };
    assert!(run(&bytes, inputs) == expected, "{what}: {network:?} for {soc:?}");
    true
}
