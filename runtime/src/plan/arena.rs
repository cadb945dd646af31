//! Lays buffers out in arenas, largest first.
//!
//! Offsets follow the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory Management for
//! Deep Neural Net Inference" (2020): each buffer, largest first, goes to the lowest gap that is free
//! for its whole life.

use super::WindowPlace;
use super::lower::Lowered;
use super::windows::{Buffer, Life, Region, Window, Windows};
use crate::cores::{Memory, PerMemory};
use crate::memory::{ALIGN_BYTES, MAX_BYTES};

/// The buffers, and when each is in use.
pub(super) struct Arenas {
    buffers: Vec<(Memory, usize)>,
    lives: Vec<Option<Life>>,
    steps: usize,
    /// What the first byte of a buffer is a multiple of.
    align_bytes: PerMemory<usize>,
}

impl Arenas {
    /// Works out every buffer's life.
    pub(super) fn of(lowered: &Lowered) -> Self {
        let Windows { all, buffers, .. } = &lowered.windows;
        let align_bytes =
            PerMemory::of(|memory| ALIGN_BYTES.max(lowered.windows.align_bytes(memory)));
        let lives: Vec<_> = buffers.iter().map(|buffer| buffer.life(all)).collect();
        let steps = lives.iter().flatten().map(|life| life.last).max().unwrap_or(0);
        let size = |buffer: &Buffer| (buffer.memory, buffer.bytes);
        Self { buffers: buffers.iter().map(size).collect(), lives, steps, align_bytes }
    }

    /// Where each window lies, and the bytes of each arena.
    ///
    /// # Errors
    /// The memory whose arena is larger than an address can count.
    pub(super) fn place(
        &self,
        windows: &Windows,
    ) -> Result<(Vec<WindowPlace>, PerMemory<usize>), Memory> {
        let (offsets, arenas) = self.offsets()?;
        let place = |window: &Window| {
            let Region { offset, pitch, .. } = window.region;
            WindowPlace {
                memory: self.buffers.get(window.buffer).map_or(Memory::Host, |b| b.0),
                offset: offsets.get(window.buffer).map_or(0, |start| start + offset),
                pitch: (!window.region.is_dense()).then_some(pitch),
            }
        };
        Ok((windows.all.iter().map(place).collect(), arenas))
    }

    /// The offset of each buffer, and the bytes of each arena.
    fn offsets(&self) -> Result<(Vec<usize>, PerMemory<usize>), Memory> {
        let mut order: Vec<usize> = (0..self.buffers.len()).collect();
        order.sort_by_key(|&at| (std::cmp::Reverse(self.buffers[at].1), at));
        let mut places = vec![0; self.buffers.len()];
        let mut settled: Vec<usize> = Vec::new();
        let mut arenas = PerMemory::<usize>::default();
        for at in order {
            let (memory, bytes) = self.buffers[at];
            let Some(life) = self.lives[at].filter(|_| bytes > 0) else { continue };
            let meets = |&&other: &&usize| {
                self.buffers[other].0 == memory && self.lives[other].is_some_and(|l| l.meets(life))
            };
            let mut taken: Vec<(usize, usize)> = settled
                .iter()
                .filter(meets)
                .map(|&other| (places[other], places[other] + self.buffers[other].1))
                .collect();
            taken.sort_unstable();
            let offset = lowest_gap(&taken, bytes, self.align_bytes[memory]);
            let end = offset.checked_add(bytes).filter(|&e| e <= MAX_BYTES).ok_or(memory)?;
            places[at] = offset;
            settled.push(at);
            let arena = &mut arenas[memory];
            *arena = end.max(*arena);
        }
        Ok((places, arenas))
    }

    /// Bytes of the buffers that are alive at once in `memory`, at the worst step: what no layout can beat.
    pub(super) fn largest_live_set(&self, memory: Memory) -> usize {
        let alive_at = |step: usize| {
            let alive = self.buffers.iter().zip(&self.lives).filter(|((m, _), life)| {
                *m == memory && life.is_some_and(|l| l.first <= step && step <= l.last)
            });
            alive.map(|((_, bytes), _)| *bytes).sum()
        };
        (0..=self.steps).map(alive_at).max().unwrap_or(0)
    }
}

/// The lowest aligned offset where `bytes` fit between the sorted ranges `taken`.
fn lowest_gap(taken: &[(usize, usize)], bytes: usize, align_bytes: usize) -> usize {
    let mut offset: usize = 0;
    for &(start, end) in taken {
        if offset.saturating_add(bytes) <= start {
            break;
        }
        offset = offset.max(end.next_multiple_of(align_bytes));
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(buffers: &[(usize, usize, usize)]) -> Arenas {
        Arenas {
            buffers: buffers.iter().map(|&(bytes, ..)| (Memory::Host, bytes)).collect(),
            lives: buffers.iter().map(|&(_, first, last)| Some(Life { first, last })).collect(),
            steps: buffers.iter().map(|s| s.2).max().unwrap_or(0),
            align_bytes: PerMemory::of(|_| ALIGN_BYTES),
        }
    }

    #[test]
    fn buffers_that_live_at_once_never_overlap() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % below).unwrap()
        };
        for _ in 0..50 {
            let buffers: Vec<_> = (0..40)
                .map(|_| {
                    let first = random(30);
                    (random(1000), first, first + random(6))
                })
                .collect();
            let (places, arenas) = layout(&buffers).offsets().unwrap();
            for (i, a) in buffers.iter().enumerate() {
                assert_eq!(places[i] % ALIGN_BYTES, 0);
                assert!(places[i] + a.0 <= arenas[Memory::Host]);
                for (j, b) in buffers.iter().enumerate().skip(i + 1) {
                    let together = a.1 <= b.2 && b.1 <= a.2 && a.0 > 0 && b.0 > 0;
                    let apart = places[i] + a.0 <= places[j] || places[j] + b.0 <= places[i];
                    assert!(!together || apart, "buffers {i} and {j} overlap");
                }
            }
        }
    }

    #[test]
    fn a_chain_takes_two_buffers() {
        let chain: Vec<_> = (0..10).map(|i| (640, i, i + 1)).collect();
        let layout = layout(&chain);
        let arenas = layout.offsets().unwrap().1;
        assert_eq!(Memory::ALL.map(|memory| arenas[memory]), [1280, 0, 0]);
        assert_eq!(layout.largest_live_set(Memory::Host), 1280);
    }
}
