//! Bytecode with a random change either fails verification, or runs to its end inside its memory.

use udo_hta::{Limits, Program, compile};

use crate::random::{Random, full, network, with_memory};

const LIMITS: Limits =
    Limits { instructions: 1 << 12, rows: 1 << 16, operations: 1 << 24, bytes: 1 << 24 };

#[test]
fn changed_programs_are_refused_or_run() {
    let mut ran_count = 0;
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let layers = random.within(1, 5);
        let owned = network(&mut random, full(), layers);
        let small = with_memory(full(), 1 << random.within(11, 15), 4096);
        let Ok(mut bytes) = compile(&owned.network(), &small) else { continue };
        // 8 bytes of magic and 8 words.
        let header = 40.min(bytes.len() - 1);
        for _ in 0..random.within(1, 3) {
            // Mostly after the header, where most fields are.
            let first = if random.chance(8) { 0 } else { header };
            let position = random.within(first, (bytes.len() - 1).min(2000));
            match random.within(0, 3) {
                0 => bytes[position] ^= 1 << random.within(0, 7),
                1 => bytes[position] = random.within(0, 255) as u8,
                2 => bytes[position] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => {
                    let from = random.within(first, bytes.len() - 1);
                    bytes[position] = bytes[from];
                }
            }
        }
        if random.chance(20) {
            bytes.truncate(random.within(0, bytes.len()));
        }
        let Ok(program) = Program::load(&bytes, &LIMITS) else { continue };
        let Ok(prepared) = program.prepare() else { continue };
        assert!(prepared.prepared_bytes() as u64 <= LIMITS.bytes, "seed {seed}");
        let inputs: Vec<_> =
            program.inputs().iter().map(|&len| random.bytes(len as usize)).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<_> =
            program.outputs().iter().map(|&len| vec![0; len as usize]).collect();
        let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let mut scratch = vec![0; prepared.scratch_len()];
        let result = prepared.run(&inputs, &mut outputs, &mut scratch);
        assert_eq!(result, Ok(()), "seed {seed}: {:?}", udo_hta::Image::decode(&bytes));
        ran_count += 1;
    }
    assert!((100..900).contains(&ran_count), "{ran_count} of 1000 ran");
}
