//! Rolls tiles into loops. Tiles that have equal instructions, and addresses that grow by the same steps from each tile
//! to the next, become one loop body, whose addresses have these steps.

use crate::bytecode::{At, End, Instruction, Loop, Words};

/// Appends the tiles, with a loop for each run of three or more similar ones.
pub(super) fn roll(tiles: &[Vec<Instruction>], code: &mut Vec<Instruction>) {
    let mut rest = tiles;
    while let [first, others @ ..] = rest {
        let steps = others.first().and_then(|second| steps(first, second));
        // The number of tiles after the first that continue the same steps.
        let alike = steps.as_ref().map_or(0, |first_steps| {
            let pairs = rest.iter().zip(others);
            pairs.take_while(|(a, b)| self::steps(a, b).as_ref() == Some(first_steps)).count()
        });
        let (Some(steps), Ok(iterations @ 3..)) = (steps, u32::try_from(alike + 1)) else {
            code.extend(first);
            rest = others;
            continue;
        };
        code.push(Instruction::Loop(Loop { iterations }));
        let mut steps = steps.into_iter();
        for mut instruction in first.iter().copied() {
            instruction.places(&mut |address| address.step = steps.next().unwrap_or(0));
            code.push(instruction);
        }
        code.push(Instruction::End(End {}));
        rest = rest.get(alike + 1..).unwrap_or_default();
    }
}

/// Returns the step of each address from one tile to the next, or `None` if the tiles differ in anything else.
fn steps(previous: &[Instruction], tile: &[Instruction]) -> Option<Vec<i32>> {
    if previous.len() != tile.len() {
        return None;
    }
    let mut steps = Vec::new();
    for (previous, instruction) in previous.iter().zip(tile) {
        let (previous_fields, previous_addresses) = split_addresses(*previous);
        let (fields, addresses) = split_addresses(*instruction);
        if previous_fields != fields {
            return None;
        }
        for (from, to) in previous_addresses.into_iter().zip(addresses) {
            steps.push(i32::try_from(i64::from(to) - i64::from(from)).ok()?);
        }
    }
    Some(steps)
}

/// Returns an instruction with all addresses 0, and its addresses.
fn split_addresses(mut instruction: Instruction) -> (Instruction, Vec<u32>) {
    let mut addresses = Vec::new();
    instruction.places(&mut |address| {
        addresses.push(address.address);
        *address = At::default();
    });
    (instruction, addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::Lines;

    fn copy(from: u32, to: u32, width: u32) -> Vec<Instruction> {
        vec![Instruction::Copy(Lines::one(from, to, width))]
    }

    #[test]
    fn tiles_at_equal_steps_become_a_loop() {
        let tiles =
            [copy(0, 900, 2), copy(8, 800, 1), copy(16, 790, 1), copy(24, 780, 1), copy(0, 0, 1)];
        let mut code = Vec::new();
        roll(&tiles, &mut code);
        let [before_loop, begin, body, end, after_loop] = code[..] else { panic!("{code:?}") };
        assert_eq!((before_loop, after_loop), (tiles[0][0], tiles[4][0]));
        assert_eq!(
            (begin, end),
            (Instruction::Loop(Loop { iterations: 3 }), Instruction::End(End {}))
        );
        let Instruction::Copy(body) = body else { panic!("{body:?}") };
        let (from, to) = (At { address: 8, step: 8 }, At { address: 800, step: -10 });
        assert_eq!((body.from, body.to, body.width), (from, to, 1));
    }
}
