//! Any bytes are refused as bytecode, or run to their end within their memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use udo_hta::{Limits, Program};

const LIMITS: Limits =
    Limits { instructions: 1 << 12, rows: 1 << 16, operations: 1 << 22, bytes: 1 << 24 };

fuzz_target!(|bytes: &[u8]| {
    let Ok(program) = Program::load(bytes, &LIMITS) else { return };
    let prepared = program.prepare().expect("limits hold what is prepared");
    let inputs: Vec<_> = program.inputs().iter().map(|&len| vec![1; len as usize]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<_> = program.outputs().iter().map(|&len| vec![0; len as usize]).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut scratch = vec![0; prepared.scratch_len()];
    prepared.run(&inputs, &mut outputs, &mut scratch).expect("what was checked runs");
});
