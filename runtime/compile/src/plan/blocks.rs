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
const MOST_TRIES: usize = 12;

/// The number of pairs of blocks that all tries together may compare, which bounds the time for large graphs.
const MOST_WORK: usize = 2_000_000;

/// The search for a layout.
pub(super) struct Layouts<'a> {
    blocks: &'a [Block],
    /// The lower bound of any layout, in bytes.
    least: usize,
    steps: usize,
    /// The alignment of blocks.
    align_bytes: usize,
}

/// The indices of blocks, in the order in which they are placed.
type Order = Vec<usize>;

impl<'a> Layouts<'a> {
    /// Prepares a search for blocks with `least` live bytes at most, aligned to `align_bytes`.
    pub(super) fn new(blocks: &'a [Block], least: usize, align_bytes: usize) -> Self {
        let steps = blocks.iter().map(|block| block.life.last + 1).max().unwrap_or(0);
        Self { blocks, least, steps, align_bytes }
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
        let mut work = MOST_WORK;
        for order in orders {
            self.try_from(order(self), &mut best, &mut work)?;
            if work == 0 || self.is_tight(best.as_ref()) {
                break;
            }
        }
        best
    }

    fn is_tight(&self, layout: Option<&Layout>) -> bool {
        let most = self.least.saturating_add(self.least / WASTE_SHARE);
        layout.is_some_and(|layout| layout.bytes <= most)
    }

    /// Places blocks in an order, and again with the highest ones first as long as that improves the result. Returns
    /// `None` if the size overflows.
    fn try_from(
        &self,
        mut order: Order,
        best: &mut Option<Layout>,
        work: &mut usize,
    ) -> Option<()> {
        let (mut least, mut tries) = (usize::MAX, 0);
        while tries < MOST_TRIES && *work > 0 && !self.is_tight(best.as_ref()) {
            let layout = self.placed(&order, work)?;
            let end = |at: usize| Some(layout.offsets.get(at)? + self.blocks.get(at)?.bytes);
            let (high, others): (Order, Order) =
                order.into_iter().partition(|&at| end(at) == Some(layout.bytes));
            order = [high, others].concat();
            tries = if layout.bytes < least { 0 } else { tries + 1 };
            least = least.min(layout.bytes);
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
        if self.blocks.iter().map(Block::steps).sum::<usize>() > MOST_WORK {
            return self.by_size();
        }
        let mut alive = vec![0usize; self.steps];
        for Block { bytes, life, .. } in self.blocks {
            for alive in alive.iter_mut().take(life.last + 1).skip(life.first) {
                *alive = alive.saturating_add(*bytes);
            }
        }
        let fullest = |life: Life| alive.get(life.first..=life.last)?.iter().max().copied();
        self.sorted(|block| Reverse((fullest(block.life), block.bytes)))
    }

    /// Returns the layout for this order; `None` if its size overflows.
    fn placed(&self, order: &[usize], work: &mut usize) -> Option<Layout> {
        let mut layout = Layout { offsets: vec![0; self.blocks.len()], bytes: 0 };
        let mut settled = Settled::new(self.steps);
        let mut taken = Vec::new();
        for &at in order {
            let Block { bytes, life, .. } = *self.blocks.get(at)?;
            taken.clear();
            settled.meeting(life, &mut taken);
            *work = work.saturating_sub(taken.len() + 1);
            taken.sort_unstable();
            let offset = lowest_gap(&taken, bytes, self.align_bytes);
            let end = offset.checked_add(bytes).filter(|&end| end <= MAX_BYTES)?;
            *layout.offsets.get_mut(at)? = offset;
            settled.add(life, (offset, end));
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

/// Returns the lowest aligned offset at which `bytes` fit between the sorted ranges `taken`.
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

/// The ranges of placed blocks, in a segment tree over the steps. A lifetime is stored at the few largest nodes that
/// cover it.
struct Settled {
    /// The number of leaves, a power of two.
    leaves: usize,
    /// The ranges of each node. The root is node 1; node `i` has the children `2 i` and `2 i + 1`.
    own: Vec<Vec<(usize, usize)>>,
    /// Whether a node below has ranges.
    is_used: Vec<bool>,
}

impl Settled {
    fn new(steps: usize) -> Self {
        let leaves = steps.max(1).next_power_of_two();
        Self { leaves, own: vec![Vec::new(); 2 * leaves], is_used: vec![false; 2 * leaves] }
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
        if let Some(own) = self.own.get_mut(node) {
            own.push(range);
        }
        let mut node = node / 2;
        while node > 0 && !self.is_used[node] {
            self.is_used[node] = true;
            node /= 2;
        }
    }

    /// Collects the ranges of blocks that are live during `life`, possibly with repetitions.
    fn meeting(&self, life: Life, found: &mut Vec<(usize, usize)>) {
        let mut nodes = vec![(1, 0, self.leaves)];
        while let Some((node, first, steps)) = nodes.pop() {
            if first > life.last || first + steps <= life.first {
                continue;
            }
            found.extend(self.own.get(node).into_iter().flatten());
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

    fn least(blocks: &[Block]) -> usize {
        let alive = |step| {
            let at = blocks.iter().filter(|b| b.life.first <= step && step <= b.life.last);
            at.map(|block| block.bytes).sum()
        };
        (0..100).map(alive).max().unwrap()
    }

    fn blocks(count: usize, mut of: impl FnMut() -> (usize, usize, usize)) -> Vec<Block> {
        let block = |buffer| {
            let (bytes, first, steps) = of();
            Block { buffer, bytes, life: Life { first, last: first + steps } }
        };
        (0..count).map(block).collect()
    }

    fn check(blocks: &[Block]) -> Layout {
        let layout = Layouts::new(blocks, least(blocks), ALIGN_BYTES).best().unwrap();
        for (i, (a, at)) in blocks.iter().zip(&layout.offsets).enumerate() {
            assert_eq!(at % ALIGN_BYTES, 0);
            assert!(at + a.bytes <= layout.bytes);
            for (j, (b, other)) in blocks.iter().zip(&layout.offsets).enumerate().skip(i + 1) {
                let apart = at + a.bytes <= *other || other + b.bytes <= *at;
                assert!(!a.life.meets(b.life) || apart, "blocks {i} and {j} overlap");
            }
        }
        layout
    }

    #[test]
    fn blocks_that_live_at_once_never_overlap() {
        for seed in 0..50 {
            let mut random = random(seed);
            check(&blocks(40, || (1 + random(1000), random(30), random(6))));
        }
    }

    #[test]
    fn layouts_of_random_lives_waste_little() {
        let mut worst = 0.0f64;
        for seed in 0..100 {
            let mut random = random(seed);
            // Typical of networks: mostly short lifetimes, sometimes one that waits for a join, sizes around powers of
            // two.
            let all = blocks(60, || {
                let steps = if random(5) == 0 { 1 + random(20) } else { 1 };
                ((1 + random(3)) << (10 + random(5)), random(50), steps)
            });
            let (found, least) = (check(&all).bytes, least(&all));
            #[expect(clippy::cast_precision_loss, reason = "a ratio for the eye")]
            let ratio = found as f64 / least as f64;
            assert!(ratio <= 1.05, "seed {seed}: {found} bytes of {least} that live at once");
            worst = worst.max(ratio);
        }
        assert!(worst >= 1.0);
    }

    #[test]
    fn those_who_live_at_once_are_found() {
        let mut random = random(7);
        let all = blocks(200, || (1, random(60), random(40)));
        let mut settled = Settled::new(100);
        for block in &all {
            settled.add(block.life, (block.buffer, block.buffer + 1));
        }
        for block in &all {
            let mut found = Vec::new();
            settled.meeting(block.life, &mut found);
            found.sort_unstable();
            found.dedup();
            let meets = |other: &&Block| other.life.meets(block.life);
            let wanted = all.iter().filter(meets).map(|b| (b.buffer, b.buffer + 1));
            assert!(found.iter().copied().eq(wanted), "{:?}", block.life);
        }
    }
}
