//! Packs memory blocks with lifetimes into an arena.
//!
//! Each block, in some order, goes to the lowest gap that is free for its whole lifetime, as in Pisarchyk and Lee,
//! "Efficient Memory Management for Deep Neural Net Inference" (2020). No order is the best for all graphs, so several
//! are tried: by size, by size times lifetime, by lifetime, by the step with the most live bytes, and by first or last
//! step. While the result wastes more than [`WASTE_SHARE`] allows, the highest blocks are placed first in the next try.
//!
//! Placing one block compares it with all placed blocks that live at the same time, which takes the square of their number. A graph
//! with thousands of blocks that live at once is laid out by a sweep over the steps instead ([`Layouts::swept`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::region::Life;
use udo_graph::memory::MAX_BYTES;

/// A block of memory with its lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The index of its buffer.
    pub(super) buffer: usize,
    pub(super) bytes: usize,
    pub(super) life: Life,
}

/// The offset of each block, and the size of the arena.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) offsets: Vec<usize>,
    pub(super) bytes: usize,
}

/// The accepted waste: one part in this many of the live bytes.
const WASTE_SHARE: usize = 64;

/// The number of tries without improvement.
const MAX_TRIES: usize = 12;

/// The number of pairs of blocks that all tries together may compare, which bounds the time for large graphs.
const MAX_WORK: usize = 2_000_000;

/// The number of pairs of blocks that one try may compare.
const MAX_WORK_OF_TRY: usize = 2 * MAX_WORK;

/// The search for a layout.
pub(super) struct Layouts<'a> {
    blocks: &'a [Block],
    /// The lower bound of any layout, in bytes.
    lower_bound: usize,
    steps: usize,
    /// The alignment of blocks.
    align_bytes: usize,
}

/// The indices of blocks, in the order in which they are placed.
type Order = Vec<usize>;

impl<'a> Layouts<'a> {
    /// Prepares a search. `lower_bound` is the largest number of bytes that are live at one step.
    pub(super) fn new(blocks: &'a [Block], lower_bound: usize, align_bytes: usize) -> Self {
        let steps = blocks.iter().map(|block| block.life.last + 1).max().unwrap_or(0);
        Self { blocks, lower_bound, steps, align_bytes }
    }

    /// Returns the smallest layout found; `None` if its size overflows.
    pub(super) fn best(&self) -> Option<Layout> {
        let orders: [fn(&Self) -> Order; 6] = [
            Self::by_size,
            Self::by_area,
            Self::by_life,
            Self::by_step,
            Self::by_first,
            Self::by_last,
        ];
        let mut best = None;
        let mut work = MAX_WORK;
        for order in orders {
            if self.try_from(order(self), &mut best, &mut work).is_err() {
                return best.or_else(|| self.swept());
            }
            if work == 0 || self.is_tight(best.as_ref()) {
                break;
            }
        }
        best
    }

    fn is_tight(&self, layout: Option<&Layout>) -> bool {
        let limit = self.lower_bound.saturating_add(self.lower_bound / WASTE_SHARE);
        layout.is_some_and(|layout| layout.bytes <= limit)
    }

    /// Places blocks in an order, and again with the highest ones first as long as that improves the result.
    fn try_from(
        &self,
        mut order: Order,
        best: &mut Option<Layout>,
        work: &mut usize,
    ) -> Result<(), Abandoned> {
        let (mut smallest, mut tries) = (usize::MAX, 0);
        while tries < MAX_TRIES && *work > 0 && !self.is_tight(best.as_ref()) {
            let layout = self.placed(&order, work)?;
            let end =
                |index: usize| Some(layout.offsets.get(index)? + self.blocks.get(index)?.bytes);
            let (high, others): (Order, Order) =
                order.into_iter().partition(|&index| end(index) == Some(layout.bytes));
            order = [high, others].concat();
            tries = if layout.bytes < smallest { 0 } else { tries + 1 };
            smallest = smallest.min(layout.bytes);
            if best.as_ref().is_none_or(|best| layout.bytes < best.bytes) {
                *best = Some(layout);
            }
        }
        Ok(())
    }

    fn sorted<K: Ord>(&self, key: impl Fn(&Block) -> K) -> Order {
        let mut order: Order = (0..self.blocks.len()).collect();
        order.sort_by_key(|&at| self.blocks.get(at).map(&key));
        order
    }

    fn by_size(&self) -> Order {
        self.sorted(|block| Reverse(block.bytes))
    }

    fn by_area(&self) -> Order {
        self.sorted(|block| Reverse(block.bytes.saturating_mul(block.steps())))
    }

    fn by_life(&self) -> Order {
        self.sorted(|block| Reverse((block.steps(), block.bytes)))
    }

    fn by_first(&self) -> Order {
        self.sorted(|block| (block.life.first, Reverse(block.bytes)))
    }

    fn by_last(&self) -> Order {
        self.sorted(|block| Reverse((block.life.last, block.bytes)))
    }

    /// Sorts blocks that are live at a step with the most live bytes first.
    fn by_step(&self) -> Order {
        if self.blocks.iter().map(Block::steps).sum::<usize>() > MAX_WORK {
            return self.by_size();
        }
        let mut live_bytes = vec![0usize; self.steps];
        for Block { bytes, life, .. } in self.blocks {
            for live in live_bytes.iter_mut().take(life.last + 1).skip(life.first) {
                *live = live.saturating_add(*bytes);
            }
        }
        let fullest = |life: Life| live_bytes.get(life.first..=life.last)?.iter().max().copied();
        self.sorted(|block| Reverse((fullest(block.life), block.bytes)))
    }

    /// Returns the layout for this order.
    fn placed(&self, order: &[usize], work: &mut usize) -> Result<Layout, Abandoned> {
        let mut layout = Layout { offsets: vec![0; self.blocks.len()], bytes: 0 };
        let mut placed = RangeTree::new(self.steps);
        let mut occupied = Vec::new();
        let mut compared = 0;
        for &index in order {
            let Block { bytes, life, .. } = *self.blocks.get(index).ok_or(Abandoned)?;
            occupied.clear();
            placed.overlapping(life, &mut occupied);
            compared += occupied.len() + 1;
            if compared > MAX_WORK_OF_TRY {
                return Err(Abandoned);
            }
            occupied.sort_unstable();
            let offset = lowest_gap(&occupied, bytes, self.align_bytes);
            let end = offset.checked_add(bytes).filter(|&end| end <= MAX_BYTES).ok_or(Abandoned)?;
            *layout.offsets.get_mut(index).ok_or(Abandoned)? = offset;
            placed.add(life, (offset, end));
            layout.bytes = layout.bytes.max(end);
        }
        *work = work.saturating_sub(compared);
        Ok(layout)
    }

    /// Returns a layout in n log n time; `None` if its size overflows.
    ///
    /// The sweep goes through the blocks by their first steps, frees the ranges of those whose lives have ended, and puts each block into
    /// the smallest free range that it fits in (best fit), or else at the end.
    fn swept(&self) -> Option<Layout> {
        let mut layout = Layout { offsets: vec![0; self.blocks.len()], bytes: 0 };
        let mut free = FreeRanges::default();
        // The blocks that are live, by last step.
        let mut live = BinaryHeap::new();
        for index in self.by_first() {
            let Block { bytes, life, .. } = *self.blocks.get(index)?;
            while let Some(&Reverse((last, start, end))) = live.peek()
                && last < life.first
            {
                live.pop();
                free.add(start, end);
            }
            let padded = bytes.checked_next_multiple_of(self.align_bytes)?;
            let start = free.take(padded).unwrap_or_else(|| {
                let start = free.take_last(layout.bytes).unwrap_or(layout.bytes);
                layout.bytes = start.saturating_add(padded);
                start
            });
            if layout.bytes > MAX_BYTES {
                return None;
            }
            *layout.offsets.get_mut(index)? = start;
            live.push(Reverse((life.last, start, start + padded)));
        }
        Some(layout)
    }
}

/// The sign that an order was given up: the layout's size overflows, or there are too many blocks to compare.
#[derive(Debug)]
struct Abandoned;

/// Free ranges of an arena. No two of them touch.
#[derive(Debug, Default)]
struct FreeRanges {
    /// The end of each range by its start.
    by_start: BTreeMap<usize, usize>,
    /// The size and start of each range.
    by_size: BTreeSet<(usize, usize)>,
}

impl FreeRanges {
    /// Adds a range, and joins it with the free ranges that it touches.
    fn add(&mut self, mut start: usize, mut end: usize) {
        let before = self.by_start.range(..start).next_back().map(|(&start, &end)| (start, end));
        if let Some((from, to)) = before
            && to == start
        {
            self.remove(from, to);
            start = from;
        }
        if let Some(&to) = self.by_start.get(&end) {
            self.remove(end, to);
            end = to;
        }
        self.by_start.insert(start, end);
        self.by_size.insert((end - start, start));
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.by_start.remove(&start);
        self.by_size.remove(&(end - start, start));
    }

    /// Takes `bytes` from the smallest range that has as many, and returns their start.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let &(size, start) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(start, start + size);
        if size > bytes {
            self.by_start.insert(start + bytes, start + size);
            self.by_size.insert((size - bytes, start + bytes));
        }
        Some(start)
    }

    /// Takes the range that ends at `arena_end`, and returns its start.
    fn take_last(&mut self, arena_end: usize) -> Option<usize> {
        let (&start, &end) = self.by_start.last_key_value()?;
        (end == arena_end).then(|| {
            self.remove(start, end);
            start
        })
    }
}

impl Block {
    /// Returns the number of steps of its lifetime.
    fn steps(&self) -> usize {
        self.life.last - self.life.first + 1
    }
}

/// Returns the lowest aligned offset at which `bytes` fit between the sorted ranges `occupied`.
fn lowest_gap(occupied: &[(usize, usize)], bytes: usize, align_bytes: usize) -> usize {
    let mut offset: usize = 0;
    for &(start, end) in occupied {
        if offset.saturating_add(bytes) <= start {
            break;
        }
        offset = offset.max(end.next_multiple_of(align_bytes));
    }
    offset
}

/// The ranges of placed blocks, in a segment tree over the steps. A lifetime is stored at the few largest nodes that
/// cover it.
struct RangeTree {
    /// The number of leaves, a power of two.
    leaves: usize,
    /// The ranges of each node. The root is node 1; node `i` has the children `2 i` and `2 i + 1`.
    ranges: Vec<Vec<(usize, usize)>>,
    /// Whether a node below has ranges.
    is_used: Vec<bool>,
}

impl RangeTree {
    fn new(steps: usize) -> Self {
        let leaves = steps.max(1).next_power_of_two();
        Self { leaves, ranges: vec![Vec::new(); 2 * leaves], is_used: vec![false; 2 * leaves] }
    }

    fn add(&mut self, life: Life, range: (usize, usize)) {
        let (mut from, mut to) = (life.first + self.leaves, life.last + self.leaves + 1);
        while from < to {
            for (is_part, node) in [(from % 2 == 1, from), (to % 2 == 1, to - 1)] {
                if is_part && node >= from && node < to {
                    self.put(node, range);
                }
            }
            (from, to) = (from.div_ceil(2), to / 2);
        }
    }

    fn put(&mut self, node: usize, range: (usize, usize)) {
        if let Some(ranges) = self.ranges.get_mut(node) {
            ranges.push(range);
        }
        let mut node = node / 2;
        while node > 0 && !self.is_used[node] {
            self.is_used[node] = true;
            node /= 2;
        }
    }

    /// Collects the ranges of blocks that are live during `life`, possibly with repetitions.
    fn overlapping(&self, life: Life, ranges: &mut Vec<(usize, usize)>) {
        let mut nodes = vec![(1, 0, self.leaves)];
        while let Some((node, first, steps)) = nodes.pop() {
            if first > life.last || first + steps <= life.first {
                continue;
            }
            ranges.extend(self.ranges.get(node).into_iter().flatten());
            if self.is_used.get(node) == Some(&true) && steps > 1 {
                let half = steps / 2;
                nodes.extend([(2 * node, first, half), (2 * node + 1, first + half, half)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_graph::memory::ALIGN_BYTES;

    /// Returns a generator of numbers below a bound.
    fn random(mut seed: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        }
    }

    /// Returns the largest number of bytes that are live at one step.
    fn lower_bound(blocks: &[Block]) -> usize {
        let live_bytes = |step| {
            let live = blocks.iter().filter(|b| b.life.first <= step && step <= b.life.last);
            live.map(|block| block.bytes).sum()
        };
        (0..100).map(live_bytes).max().unwrap()
    }

    /// Returns blocks, whose bytes, first step and number of further steps `draw` returns.
    fn blocks(count: usize, mut draw: impl FnMut() -> (usize, usize, usize)) -> Vec<Block> {
        let block = |buffer| {
            let (bytes, first, steps) = draw();
            Block { buffer, bytes, life: Life { first, last: first + steps } }
        };
        (0..count).map(block).collect()
    }

    /// Checks that live blocks never overlap, and returns the layout.
    fn check(blocks: &[Block]) -> Layout {
        let layout = Layouts::new(blocks, lower_bound(blocks), ALIGN_BYTES).best().unwrap();
        for (i, (a, offset)) in blocks.iter().zip(&layout.offsets).enumerate() {
            assert_eq!(offset % ALIGN_BYTES, 0);
            assert!(offset + a.bytes <= layout.bytes);
            for (j, (b, other)) in blocks.iter().zip(&layout.offsets).enumerate().skip(i + 1) {
                let is_disjoint = offset + a.bytes <= *other || other + b.bytes <= *offset;
                assert!(!a.life.overlaps(b.life) || is_disjoint, "blocks {i} and {j} overlap");
            }
        }
        layout
    }

    #[test]
    fn live_blocks_never_overlap() {
        for seed in 0..50 {
            let mut random = random(seed);
            check(&blocks(40, || (1 + random(1000), random(30), random(6))));
        }
    }

    #[test]
    fn a_sweep_overlaps_no_blocks_and_wastes_little() {
        let mut worst = 0.0f64;
        for seed in 0..50 {
            let mut random = random(seed);
            let blocks = blocks(200, || (1 + random(1000), random(60), random(9)));
            let layout = Layouts::new(&blocks, lower_bound(&blocks), ALIGN_BYTES).swept().unwrap();
            for (i, (a, &start)) in blocks.iter().zip(&layout.offsets).enumerate() {
                assert!(start.is_multiple_of(ALIGN_BYTES) && start + a.bytes <= layout.bytes);
                for (b, &other) in blocks.iter().zip(&layout.offsets).skip(i + 1) {
                    let is_apart = start + a.bytes <= other || other + b.bytes <= start;
                    assert!(!a.life.overlaps(b.life) || is_apart);
                }
            }
            let [bytes, bound] =
                [layout.bytes, lower_bound(&blocks)].map(|n| u32::try_from(n).unwrap());
            worst = worst.max(f64::from(bytes) / f64::from(bound));
        }
        assert!(worst < 1.3, "{worst}");
    }

    #[test]
    fn many_blocks_that_live_at_once_are_swept() {
        let count = 5_000;
        let life = |buffer| Life { first: buffer, last: count };
        let all: Vec<Block> =
            (0..count).map(|buffer| Block { buffer, bytes: 64, life: life(buffer) }).collect();
        let layouts = Layouts::new(&all, 64 * count, ALIGN_BYTES);
        let mut work = MAX_WORK;
        assert!(layouts.placed(&layouts.by_size(), &mut work).is_err());
        assert_eq!(layouts.best().unwrap().bytes, 64 * count);
    }

    #[test]
    fn layouts_waste_little_memory() {
        let mut worst = 0.0f64;
        for seed in 0..100 {
            let mut random = random(seed);
            // Typical of networks: mostly short lifetimes, sometimes one that waits for a join, sizes around powers of
            // two.
            let all = blocks(60, || {
                let steps = if random(5) == 0 { 1 + random(20) } else { 1 };
                ((1 + random(3)) << (10 + random(5)), random(50), steps)
            });
            let (actual, lower_bound) = (check(&all).bytes, lower_bound(&all));
            #[expect(clippy::cast_precision_loss, reason = "a ratio with a tolerance")]
            let ratio = actual as f64 / lower_bound as f64;
            assert!(
                ratio <= 1.05,
                "seed {seed}: {actual} bytes, of which {lower_bound} are live at once"
            );
            worst = worst.max(ratio);
        }
        assert!(worst >= 1.0);
    }

    #[test]
    fn the_range_tree_finds_all_live_blocks() {
        let mut random = random(7);
        let all = blocks(200, || (1, random(60), random(40)));
        let mut placed = RangeTree::new(100);
        for block in &all {
            placed.add(block.life, (block.buffer, block.buffer + 1));
        }
        for block in &all {
            let mut ranges = Vec::new();
            placed.overlapping(block.life, &mut ranges);
            ranges.sort_unstable();
            ranges.dedup();
            let is_live = |other: &&Block| other.life.overlaps(block.life);
            let expected = all.iter().filter(is_live).map(|b| (b.buffer, b.buffer + 1));
            assert!(ranges.iter().copied().eq(expected), "{:?}", block.life);
        }
    }
}
