//! Lays out the buffers of a plan in arenas, one for each memory: determines the lifetime of each buffer and its
//! offset.

use super::WindowPlace;
use super::blocks::{Block, Layout, Layouts};
use super::lowered::Lowered;
use super::region::{Life, Region};
use super::windows::{Buffer, Window, Windows};
use udo_engine::cores::{Memory, PerMemory};
use udo_graph::memory::ALIGN_BYTES;

/// The buffers with their lifetimes.
pub(super) struct Arenas {
    /// The memory and the size in bytes of each buffer.
    buffers: Vec<(Memory, usize)>,
    /// The lifetime of each buffer; `None` if no step uses it.
    lives: Vec<Option<Life>>,
    steps: usize,
    /// The alignment of buffers.
    align_bytes: PerMemory<usize>,
}

impl Arenas {
    /// Computes the lifetime of every buffer.
    pub(super) fn new(lowered: &Lowered) -> Self {
        let Windows { all, buffers, .. } = &lowered.windows;
        let align_bytes =
            PerMemory::from_fn(|memory| ALIGN_BYTES.max(lowered.windows.align_bytes(memory)));
        let lives: Vec<_> = buffers.iter().map(|buffer| buffer.life(all)).collect();
        let steps = lives.iter().flatten().map(|life| life.last).max().unwrap_or(0);
        let size = |buffer: &Buffer| (buffer.memory, buffer.bytes);
        Self { buffers: buffers.iter().map(size).collect(), lives, steps, align_bytes }
    }

    /// Returns the place of each window, and the size of each arena.
    ///
    /// # Errors
    /// An arena is too large; the error names its memory.
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
                exchanged: None,
                moves: None,
            }
        };
        Ok((windows.all.iter().map(place).collect(), arenas))
    }

    /// Returns the offset of each buffer, and the size of each arena.
    fn offsets(&self) -> Result<(Vec<usize>, PerMemory<usize>), Memory> {
        let mut places = vec![0; self.buffers.len()];
        let mut arenas = PerMemory::<usize>::default();
        for memory in Memory::ALL {
            let blocks = self.blocks(memory);
            let best =
                Layouts::new(&blocks, self.largest_live_set(memory), self.align_bytes[memory])
                    .best();
            let Layout { offsets, bytes } = best.ok_or(memory)?;
            arenas[memory] = bytes;
            for (block, offset) in blocks.iter().zip(offsets) {
                places[block.buffer] = offset;
            }
        }
        Ok((places, arenas))
    }

    /// Returns the buffers of a memory that are used.
    fn blocks(&self, memory: Memory) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (buffer, (&(own_memory, bytes), &life)) in
            self.buffers.iter().zip(&self.lives).enumerate()
        {
            let life = life.filter(|_| own_memory == memory && bytes > 0);
            blocks.extend(life.map(|life| Block { buffer, bytes, life }));
        }
        blocks
    }

    /// Returns the largest number of bytes in `memory` that are live at one step: the lower bound of any layout.
    pub(super) fn largest_live_set(&self, memory: Memory) -> usize {
        // The bytes that become live and that die at each step.
        let mut changes = vec![[0usize; 2]; self.steps + 2];
        for Block { bytes, life, .. } in self.blocks(memory) {
            for (side, step) in [life.first, life.last + 1].into_iter().enumerate() {
                changes[step][side] = changes[step][side].saturating_add(bytes);
            }
        }
        let live_bytes = changes.iter().scan(0usize, |live, [born, dead]| {
            *live = live.saturating_sub(*dead).saturating_add(*born);
            Some(*live)
        });
        live_bytes.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_need_two_buffers() {
        let life = |first| Some(Life { first, last: first + 1 });
        let buffers = vec![(Memory::Host, 640); 10];
        let lives = (0..10).map(life).collect();
        let align_bytes = PerMemory::from_fn(|_| ALIGN_BYTES);
        let layout = Arenas { buffers, lives, steps: 10, align_bytes };
        let arenas = layout.offsets().unwrap().1;
        assert_eq!(Memory::ALL.map(|memory| arenas[memory]), [1280, 0, 0]);
        assert_eq!(Memory::ALL.map(|memory| layout.largest_live_set(memory)), [1280, 0, 0]);
    }
}
