//! Replaces tiles that differ only in addresses, by the same increment each, with loops.

use crate::bytecode::{At, End, Instruction, Loop, Words};

/// Appends the tiles, with a loop for each run of three or more similar ones.
pub(super) fn roll(tiles: &[Vec<Instruction>], code: &mut Vec<Instruction>) {
    let mut rest = tiles;
    while let [first, others @ ..] = rest {
        let steps = others.first().and_then(|second| steps(first, second));
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
            instruction.places(&mut |at| at.step = steps.next().unwrap_or(0));
            code.push(instruction);
        }
        code.push(Instruction::End(End {}));
        rest = rest.get(alike + 1..).unwrap_or_default();
    }
}

/// Returns the address increments between two tiles, or `None` if they differ in anything else.
fn steps(before: &[Instruction], tile: &[Instruction]) -> Option<Vec<i32>> {
    if before.len() != tile.len() {
        return None;
    }
    let mut steps = Vec::new();
    for (before, one) in before.iter().zip(tile) {
        let (blank, places) = parted(*before);
        let (other, moved) = parted(*one);
        if blank != other {
            return None;
        }
        for (from, to) in places.into_iter().zip(moved) {
            steps.push(i32::try_from(i64::from(to) - i64::from(from)).ok()?);
        }
    }
    Some(steps)
}

/// Splits an instruction into itself without addresses, and the addresses.
fn parted(mut instruction: Instruction) -> (Instruction, Vec<u32>) {
    let mut places = Vec::new();
    instruction.places(&mut |at| {
        places.push(at.address);
        *at = At::default();
    });
    (instruction, places)
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
        let [one, begin, body, end, last] = code[..] else { panic!("{code:?}") };
        assert_eq!((one, last), (tiles[0][0], tiles[4][0]));
        assert_eq!(
            (begin, end),
            (Instruction::Loop(Loop { iterations: 3 }), Instruction::End(End {}))
        );
        let Instruction::Copy(body) = body else { panic!("{body:?}") };
        let (from, to) = (At { address: 8, step: 8 }, At { address: 800, step: -10 });
        assert_eq!((body.from, body.to, body.width), (from, to, 1));
    }
}
