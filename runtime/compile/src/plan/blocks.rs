//! Packs memory blocks with lifetimes into an arena.
//!
//! Each block, in some order, goes to the lowest gap that is free for its whole lifetime, as in Pisarchyk and Lee,
//! "Efficient Memory Management for Deep Neural Net Inference" (2020). No order is the best for all graphs, so several
//! are tried: by size, by size times lifetime, by lifetime, by the step with the most live bytes, and by first or last
//! step. While the result wastes more than [`WASTE_SHARE`] allows, the highest blocks are placed first in the next try.

use std::cmp::Reverse;

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
            self.try_from(order(self), &mut best, &mut work)?;
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

    /// Places blocks in an order, and again with the highest ones first as long as that improves the result. Returns
    /// `None` if the size overflows.
    fn try_from(
        &self,
        mut order: Order,
        best: &mut Option<Layout>,
        work: &mut usize,
    ) -> Option<()> {
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
        Some(())
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

    /// Returns the layout for this order; `None` if its size overflows.
    fn placed(&self, order: &[usize], work: &mut usize) -> Option<Layout> {
        let mut layout = Layout { offsets: vec![0; self.blocks.len()], bytes: 0 };
        let mut placed = RangeTree::new(self.steps);
        let mut occupied = Vec::new();
        for &at in order {
            let Block { bytes, life, .. } = *self.blocks.get(at)?;
            occupied.clear();
            placed.overlapping(life, &mut occupied);
            *work = work.saturating_sub(occupied.len() + 1);
            occupied.sort_unstable();
            let offset = lowest_gap(&occupied, bytes, self.align_bytes);
            let end = offset.checked_add(bytes).filter(|&end| end <= MAX_BYTES)?;
            *layout.offsets.get_mut(at)? = offset;
            placed.add(life, (offset, end));
            layout.bytes = layout.bytes.max(end);
        }
        Some(layout)
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
