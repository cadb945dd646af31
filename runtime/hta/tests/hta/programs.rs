//! The errors of verification and of runs, on small programs written by hand; and runs on several threads.

use udo_hta::{
    Alone, At, Call, End, Image, Instruction, Kind, Limits, Lines, LoadError, Lookup, Loop, Pair,
    Parallel, Prepared, Program, RunError, SOCS, Space, Transfer, compile,
};

use crate::random::{Owned, Random, append, full, network};

/// Rows of 8 bytes, without gaps.
fn lines(from: At, to: At, rows: u32) -> Lines {
    Lines { from, from_pitch: 8, to, to_pitch: 8, rows, width: 8 }
}

fn load(to: u32, rows: u32) -> Instruction {
    let lines = lines(At::fixed(0), At::fixed(to), rows);
    Instruction::Load(Transfer { space: Space::Input(0), lines })
}

fn store(from: At, to: At, rows: u32) -> Instruction {
    Instruction::Store(Transfer { space: Space::Output(0), lines: lines(from, to, rows) })
}

/// Returns bytecode whose input and output have 4 rows of 8 bytes, and 64 bytes of on-chip memory.
fn image(code: Vec<Instruction>) -> Image<'static> {
    Image {
        soc: SOCS[0].id,
        sram_bytes: 64,
        ddr_bytes: 0,
        inputs: vec![32],
        outputs: vec![32],
        code,
        constants: &[0; 16],
    }
}

#[track_caller]
fn assert_refused(code: Vec<Instruction>, expected: &str) {
    let bytes = image(code).encode().unwrap();
    assert_eq!(Program::load(&bytes, &Limits::DEFAULT).unwrap_err().to_string(), expected);
}

const FOUR_ITERATIONS: Instruction = Instruction::Loop(Loop { iterations: 4 });
const END: Instruction = Instruction::End(End {});

#[test]
fn loops_step_through_memory() {
    let last_row_first = At { address: 32, step: -8 };
    let first_row_first = At { address: 0, step: 8 };
    let reversed = store(last_row_first, first_row_first, 1);
    let code = vec![load(8, 4), FOUR_ITERATIONS, reversed, END];
    let bytes = image(code).encode().unwrap();
    let input: Vec<u8> = (0..32).collect();
    let expected: Vec<u8> = (0..4).rev().flat_map(|row| row * 8..row * 8 + 8).collect();
    assert_eq!(crate::run(&bytes, &[input]), [expected]);
}

#[test]
fn accesses_outside_of_memory_are_refused() {
    let store_all = store(At::fixed(0), At::fixed(0), 4);
    assert_refused(
        vec![load(40, 4), store_all],
        "instruction 0 (Load) accesses Rows { memory: Chip, at: At { address: 40, step: 0 }, count: 1, width: 32, pitch: 32 }, but that memory has 64 bytes, in iteration 0",
    );
    let out_of_bounds = store(At { address: 16, step: -8 }, At::fixed(0), 1);
    assert_refused(
        vec![load(0, 4), FOUR_ITERATIONS, out_of_bounds, END],
        "instruction 2 (Store) accesses Rows { memory: Chip, at: At { address: 16, step: -8 }, count: 1, width: 8, pitch: 8 }, but that memory has 64 bytes, in iteration 3",
    );
    assert_refused(
        vec![load(8, 4), store_all],
        "instruction 1 (Store) reads bytes 0 to 32, which are not initialized, in iteration 0",
    );
    assert_refused(
        vec![load(0, 4), store(At::fixed(0), At::fixed(0), 3)],
        "output 0 is not completely written",
    );
    let overlapping = lines(At::fixed(0), At::fixed(4), 1);
    assert_refused(
        vec![load(0, 4), Instruction::Copy(overlapping), store_all],
        "instruction 1 (Copy) reads [0, 8] and writes [4, 12], which overlap, in iteration 0",
    );
    let Instruction::Store(store_all) = store_all else { panic!("{store_all:?}") };
    let into_input = Transfer { space: Space::Input(0), ..store_all };
    assert_refused(
        vec![load(0, 4), Instruction::Store(into_input)],
        "instruction 1 (Store) writes read-only memory, in iteration 0",
    );
}

#[test]
fn nested_and_unclosed_loops_are_refused() {
    assert_refused(
        vec![FOUR_ITERATIONS, load(0, 4), FOUR_ITERATIONS],
        "instruction 2 (Loop) is inside a loop, expected its End",
    );
    assert_refused(vec![load(0, 4), END], "instruction 1 (End) is outside a loop");
    assert_refused(vec![FOUR_ITERATIONS, load(0, 4)], "the bytecode ends inside a loop");
    assert_refused(
        vec![Instruction::Loop(Loop { iterations: 0 }), END],
        "instruction 0 (Loop) has iterations of 0, expected at least 1",
    );
}

#[test]
fn values_out_of_range_are_refused() {
    let start = At::fixed(0);
    let pair = Pair {
        a: start,
        b: start,
        to: At::fixed(32),
        len: 32,
        b_len: 32,
        a_scale: 1.0,
        a_zero: 0,
        b_scale: 1.0,
        b_zero: 0,
        to_scale: 1.0,
        to_zero: 0,
    };
    let with_pair = |pair| vec![load(0, 4), Instruction::Add(pair), store(At::fixed(32), start, 4)];
    assert_refused(
        with_pair(Pair { a_zero: 256, ..pair }),
        "instruction 1 (Add) has a zero point of 256, expected at most 255",
    );
    assert_refused(
        with_pair(Pair { to_scale: f32::INFINITY, ..pair }),
        "instruction 1 (Add) has a scale of inf, expected a finite value above 0",
    );
    assert_refused(with_pair(Pair { b_len: 5, ..pair }), "instruction 1 (Add) has 5 values for 32");
    let lookup = Lookup { lines: lines(start, At::fixed(32), 4), table: 8 };
    assert_refused(
        vec![load(0, 4), Instruction::Lookup(lookup)],
        "instruction 1 (Lookup) has table at 8, 256 bytes of 16 constants",
    );
}

#[test]
fn damaged_headers_are_refused() {
    let bytes = image(vec![load(0, 4), store(At::fixed(0), At::fixed(0), 4)]).encode().unwrap();
    let error = |bytes: &[u8]| Program::load(bytes, &Limits::DEFAULT).unwrap_err().to_string();
    assert_eq!(
        error(b"hello"),
        "the section does not begin with \"UDO-HTA\", so it is not HTA bytecode"
    );
    let with_byte = |position: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[position] = value;
        error(&bytes)
    };
    assert_eq!(with_byte(8, 2), "the bytecode has version 2, expected 1; compile the model again");
    assert_eq!(
        with_byte(12, 77),
        "the bytecode is for SoC 77, which this version does not support; compile the model again"
    );
    assert_eq!(
        with_byte(19, 1),
        "the bytecode uses 16777280 bytes of on-chip memory, hta100 has 262144"
    );
    let len = bytes.len();
    assert_eq!(
        error(&bytes[..len - 1]),
        format!(
            "the section has {} bytes, expected {len} as its header says; it is truncated or damaged",
            len - 1
        )
    );
    assert_eq!(with_byte(48, 99), "instruction 0 has code 99, which is not an instruction");
    assert_eq!(with_byte(52, 9), "instruction 0 refers to memory 0x9, which does not exist");
}

#[test]
fn programs_beyond_a_limit_are_refused() {
    let code = vec![load(0, 4), store(At::fixed(0), At::fixed(0), 4)];
    let bytes = image(code).encode().unwrap();
    let error_with = |change: fn(&mut Limits)| {
        let mut error_with = Limits::DEFAULT;
        change(&mut error_with);
        Program::load(&bytes, &error_with).map(|_| ()).unwrap_err()
    };
    let too_much = |what| LoadError::TooMuch { what, most: 1 };
    assert_eq!(error_with(|l| l.instructions = 1), too_much("instructions"));
    assert_eq!(error_with(|l| l.rows = 1), too_much("rows"));
    assert_eq!(error_with(|l| l.operations = 1), too_much("operations"));
    assert_eq!(error_with(|l| l.bytes = 1), too_much("bytes"));
    assert_eq!(
        error_with(|l| l.rows = 1).to_string(),
        "the bytecode exceeds the limit of 1 rows per run"
    );
}

/// Returns a prepared random network, and values for its inputs.
fn prepared(seed: u64) -> (Prepared, Vec<Vec<u8>>) {
    let mut random = Random::new(seed);
    let owned = network(&mut random, full(), 8);
    let bytes = compile(&owned.network(), full()).unwrap();
    let program = Program::load(&bytes, &Limits::DEFAULT).unwrap();
    let feeds = owned.feeds(&mut random);
    (program.prepare().unwrap(), feeds)
}

#[test]
fn runs_make_no_heap_calls() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let owned = network(&mut random, full(), 8);
        let bytes = compile(&owned.network(), full()).unwrap();
        let program = Program::load(&bytes, &Limits::DEFAULT).unwrap();
        let prepared = program.prepare().unwrap();
        let feeds = owned.feeds(&mut random);
        let inputs: Vec<&[u8]> = feeds.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<_> =
            program.outputs().iter().map(|&len| vec![0; len as usize]).collect();
        let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let mut scratch = vec![0; prepared.scratch_len()];
        // The first run detects CPU features, which may allocate.
        prepared.run(&inputs, &mut outputs, &mut scratch).unwrap();
        let before = udo_api::guard::thread_heap_calls();
        let result = prepared.run(&inputs, &mut outputs, &mut scratch);
        assert_eq!(udo_api::guard::thread_heap_calls(), before, "seed {seed}");
        assert_eq!(result, Ok(()));
    }
}

#[test]
fn runs_check_sizes_of_inputs_and_outputs() {
    let (prepared, feeds) = prepared(3);
    let input: &[u8] = &feeds[0];
    let mut scratch = vec![0; prepared.scratch_len()];
    let result = prepared.run(&[], &mut [], &mut scratch);
    assert_eq!(result, Err(RunError::Inputs { found: 0, expected: 1 }));
    let result = prepared.run(&[input], &mut [], &mut scratch);
    assert!(matches!(result, Err(RunError::Outputs { found: 0, .. })), "{result:?}");
    let bytes = image(vec![load(0, 4), store(At::fixed(0), At::fixed(0), 4)]).encode().unwrap();
    let prepared = Program::load(&bytes, &Limits::DEFAULT).unwrap().prepare().unwrap();
    let (input, mut output) = ([0; 32], [0; 32]);
    let mut scratch = vec![0; prepared.scratch_len()];
    let result = prepared.run(&[&input[1..]], &mut [&mut output], &mut scratch);
    assert_eq!(result.unwrap_err().to_string(), "input 0 has 31 bytes, expected 32");
    let result = prepared.run(&[&input], &mut [&mut output[1..]], &mut scratch);
    assert_eq!(result.unwrap_err().to_string(), "output 0 has 31 bytes, expected 32");
    let expected = scratch.len();
    let result = prepared.run(&[&input], &mut [&mut output], &mut scratch[1..]);
    assert_eq!(result, Err(RunError::Scratch { found: expected - 1, expected }));
}

/// Runs each chunk on a thread of its own.
struct Threads;

impl Parallel for Threads {
    fn threads(&self) -> usize {
        3
    }

    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError> {
        std::thread::scope(|scope| {
            let chunks = bytes.chunks_mut(len).enumerate();
            let calls: Vec<_> =
                chunks.map(|(index, chunk)| scope.spawn(move || each(index, chunk))).collect();
            calls.into_iter().try_for_each(|call| call.join().unwrap())
        })
    }
}

/// Stops every run.
struct Stops;

impl Parallel for Stops {
    fn threads(&self) -> usize {
        1
    }

    fn chunks(&self, _: &mut [u8], _: usize, _: &Call<'_>) -> Result<(), RunError> {
        Err(RunError::Stopped)
    }
}

#[test]
fn threads_do_not_change_outputs() {
    let mut random = Random::new(5);
    for kind in [Kind::Conv, Kind::Depthwise] {
        for _ in 0..4 {
            let mut owned = Owned::default();
            let channels = random.within(8, 16);
            let x = owned.input(&mut random, [1, 150, 171, channels]);
            let y = append(&mut owned, &mut random, full(), kind, x);
            let y = append(&mut owned, &mut random, full(), kind, y);
            owned.outputs.push(y);
            let bytes = compile(&owned.network(), full()).unwrap();
            let program = Program::load(&bytes, &Limits::DEFAULT).unwrap();
            let prepared = program.prepare().unwrap();
            let feeds = owned.feeds(&mut random);
            let run = |parallel: &dyn Parallel| {
                let mut output = vec![0; program.outputs()[0] as usize];
                let mut scratch = vec![0; prepared.scratch_len()];
                let result =
                    prepared.run_on(parallel, &[&feeds[0]], &mut [&mut output], &mut scratch);
                result.map(|()| output)
            };
            assert!(run(&Threads) == run(&Alone), "{kind:?}");
            assert_eq!(run(&Stops), Err(RunError::Stopped));
        }
    }
}
