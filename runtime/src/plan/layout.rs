//! Lays slots out in arenas: in place where kernels allow it, then largest first.
//!
//! Offsets follow the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory Management for
//! Deep Neural Net Inference" (2020): each slot, largest first, goes to the lowest gap that is free
//! for its whole life.

use udo_api::InPlace;

use super::values::Drawn;
use super::{PlanOptions, Purpose, SlotId, SlotPlace, Step};
use crate::cores::Memory;
use crate::memory::{ALIGN_BYTES, MAX_BYTES};

/// The steps between which a slot holds something; both ends count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    first: usize,
    last: usize,
}

impl Life {
    fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The life of each slot.
pub(super) struct Lifetimes {
    slots: Vec<(Memory, usize)>,
    lives: Vec<Option<Life>>,
    steps: usize,
}

impl Lifetimes {
    /// Works out every slot's life, and puts outputs in the place of dying inputs where kernels and options
    /// allow it.
    pub(super) fn of(drawn: &mut Drawn, options: &PlanOptions) -> Self {
        let steps = drawn.steps.len();
        let mut lives: Vec<Option<Life>> = vec![None; drawn.slots.len()];
        for port in &drawn.inputs {
            // Inputs stay from run to run.
            extend(&mut lives, port.operand.slot(), 0);
            extend(&mut lives, port.operand.slot(), steps);
        }
        for (index, step) in drawn.steps.iter().enumerate() {
            for operand in step.operands() {
                extend(&mut lives, operand.slot(), index);
            }
        }
        for port in &drawn.outputs {
            extend(&mut lives, port.operand.slot(), steps);
        }
        let mut lifetimes = Self { slots: drawn.slots.clone(), lives, steps };
        if options.reuses_inputs {
            for index in 0..drawn.steps.len() {
                lifetimes.share(drawn, index);
            }
        }
        lifetimes
    }

    /// Puts the outputs of one step in the place of inputs that die there.
    fn share(&mut self, drawn: &mut Drawn, index: usize) {
        let Some(step) = drawn.steps.get(index) else { return };
        if !matches!(step.purpose, Purpose::Node { .. }) {
            return;
        }
        for pair in step.kernel.in_place_pairs() {
            let Some((from, to)) = self.sharable(&drawn.steps[index], index, *pair) else {
                continue;
            };
            let (Some(dying), Some(born)) = (self.lives[from.0], self.lives[to.0]) else {
                continue;
            };
            self.lives[from.0] = Some(Life { first: dying.first, last: born.last });
            self.lives[to.0] = None;
            let step = &mut drawn.steps[index];
            if let Some(input) = step.inputs.get_mut(usize::from(pair.input)) {
                input.in_place = Some(pair.output);
            }
            if let Some(output) = step.outputs.get_mut(usize::from(pair.output)) {
                output.in_place = Some(pair.input);
            }
            rename(drawn, to, from);
        }
    }

    /// The slots of a pair, if the input dies here and the output fits its place exactly.
    fn sharable(&self, step: &Step, index: usize, pair: InPlace) -> Option<(SlotId, SlotId)> {
        let input = step.inputs.get(usize::from(pair.input))?;
        let output = step.outputs.get(usize::from(pair.output))?;
        let (from, to) = (input.slot()?, output.slot()?);
        let dies = self.lives.get(from.0)?.is_some_and(|life| life.last == index);
        let once = step.operands().filter(|o| o.slot() == Some(from)).count() == 1;
        let free = input.in_place.is_none() && output.in_place.is_none();
        let alike = input.desc.dtype() == output.desc.dtype()
            && input.desc.full_shape() == output.desc.full_shape()
            && input.desc.full_shape().is_fixed()
            && input.rows.is_none()
            && output.rows.is_none()
            && self.slots.get(from.0)? == self.slots.get(to.0)?;
        (dies && once && free && alike && from != to).then_some((from, to))
    }

    /// The offset of each slot, and the bytes of each arena.
    ///
    /// # Errors
    /// The memory whose arena is larger than an address can count.
    pub(super) fn place(&self) -> Result<(Vec<SlotPlace>, [usize; 3]), Memory> {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|&slot| (std::cmp::Reverse(self.slots[slot].1), slot));
        let mut places: Vec<SlotPlace> =
            self.slots.iter().map(|&(memory, _)| SlotPlace { memory, offset: 0 }).collect();
        let mut settled: Vec<usize> = Vec::new();
        let mut arenas = [0usize; 3];
        for slot in order {
            let (memory, bytes) = self.slots[slot];
            let Some(life) = self.lives[slot].filter(|_| bytes > 0) else { continue };
            let meets = |&&other: &&usize| {
                self.slots[other].0 == memory && self.lives[other].is_some_and(|l| l.meets(life))
            };
            let mut taken: Vec<(usize, usize)> = settled
                .iter()
                .filter(meets)
                .map(|&other| (places[other].offset, places[other].offset + self.slots[other].1))
                .collect();
            taken.sort_unstable();
            let offset = lowest_gap(&taken, bytes);
            let end = offset.checked_add(bytes).filter(|&e| e <= MAX_BYTES).ok_or(memory)?;
            places[slot].offset = offset;
            settled.push(slot);
            let arena = &mut arenas[memory as usize];
            *arena = end.max(*arena);
        }
        Ok((places, arenas))
    }

    /// Bytes of the slots that are alive at once in `memory`, at the worst step: what no layout can beat.
    pub(super) fn largest_live_set(&self, memory: Memory) -> usize {
        let alive_at = |step: usize| {
            let alive = self.slots.iter().zip(&self.lives).filter(|((m, _), life)| {
                *m == memory && life.is_some_and(|l| l.first <= step && step <= l.last)
            });
            alive.map(|((_, bytes), _)| *bytes).sum()
        };
        (0..=self.steps).map(alive_at).max().unwrap_or(0)
    }
}

fn extend(lives: &mut [Option<Life>], slot: Option<SlotId>, step: usize) {
    let Some(life) = slot.and_then(|s| lives.get_mut(s.0)) else { return };
    *life = Some(match *life {
        None => Life { first: step, last: step },
        Some(Life { first, last }) => Life { first: first.min(step), last: last.max(step) },
    });
}

/// Makes every operand in slot `from` one in slot `to`.
fn rename(drawn: &mut Drawn, from: SlotId, to: SlotId) {
    let ports = drawn.inputs.iter_mut().chain(&mut drawn.outputs).map(|p| &mut p.operand);
    for operand in drawn.steps.iter_mut().flat_map(Step::operands_mut).chain(ports) {
        if operand.slot() == Some(from) {
            operand.place = Some(super::Place::Slot(to));
        }
    }
}

/// The lowest aligned offset where `bytes` fit between the sorted ranges `taken`.
fn lowest_gap(taken: &[(usize, usize)], bytes: usize) -> usize {
    let mut offset: usize = 0;
    for &(start, end) in taken {
        if offset.saturating_add(bytes) <= start {
            break;
        }
        offset = offset.max(end.next_multiple_of(ALIGN_BYTES));
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifetimes(slots: &[(usize, usize, usize)]) -> Lifetimes {
        Lifetimes {
            slots: slots.iter().map(|&(bytes, ..)| (Memory::Host, bytes)).collect(),
            lives: slots.iter().map(|&(_, first, last)| Some(Life { first, last })).collect(),
            steps: slots.iter().map(|s| s.2).max().unwrap_or(0),
        }
    }

    #[test]
    fn slots_that_live_at_once_never_overlap() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % below).unwrap()
        };
        for _ in 0..50 {
            let slots: Vec<_> = (0..40)
                .map(|_| {
                    let first = random(30);
                    (random(1000), first, first + random(6))
                })
                .collect();
            let lifetimes = lifetimes(&slots);
            let (places, arenas) = lifetimes.place().unwrap();
            for (i, a) in slots.iter().enumerate() {
                assert_eq!(places[i].offset % ALIGN_BYTES, 0);
                assert!(places[i].offset + a.0 <= arenas[0]);
                for (j, b) in slots.iter().enumerate().skip(i + 1) {
                    let together = a.1 <= b.2 && b.1 <= a.2 && a.0 > 0 && b.0 > 0;
                    let apart = places[i].offset + a.0 <= places[j].offset
                        || places[j].offset + b.0 <= places[i].offset;
                    assert!(!together || apart, "slots {i} and {j} overlap");
                }
            }
        }
    }

    #[test]
    fn a_chain_takes_two_slots() {
        let chain: Vec<_> = (0..10).map(|i| (640, i, i + 1)).collect();
        let lifetimes = lifetimes(&chain);
        assert_eq!(lifetimes.place().unwrap().1, [1280, 0, 0]);
        assert_eq!(lifetimes.largest_live_set(Memory::Host), 1280);
    }
}
