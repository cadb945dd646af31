//! Places for blocks of memory that are in use for some steps each, so that they take little together.
//!
//! Each block, in some order, goes to the lowest gap that is free for its whole life, as Pisarchyk and Lee, "Efficient
//! Memory Management for Deep Neural Net Inference" (2020) do. No order is the best for all graphs, so several are tried: the
//! largest first, those that take the most bytes over all steps, those that live longest, those of the fullest
//! steps, and from the first step on or the last. While all of them waste more than a little, blocks that lay highest go
//! first in the next try.

use std::cmp::Reverse;

use super::region::Life;
use udo_graph::memory::MAX_BYTES;

/// Bytes that a buffer takes while it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The buffer's number.
    pub(super) buffer: usize,
    pub(super) bytes: usize,
    pub(super) life: Life,
}

/// Where each block lies, and the bytes of all together.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) offsets: Vec<usize>,
    pub(super) bytes: usize,
}

/// What a layout may waste of the bytes that are alive at once, as a share of them: one in so many.
const WASTE_SHARE: usize = 64;

/// How often blocks that lie highest are put first without any gain.
const MOST_TRIES: usize = 12;

/// How many pairs of blocks all tries may look at together, so that large graphs do not wait for them.
const MOST_WORK: usize = 2_000_000;

/// What finds places for blocks.
pub(super) struct Layouts<'a> {
    blocks: &'a [Block],
    /// What no layout can beat.
    least: usize,
    steps: usize,
    /// What the first byte of a block is a multiple of.
    align_bytes: usize,
}

/// The numbers of blocks, in the order in which they are placed.
type Order = Vec<usize>;

impl<'a> Layouts<'a> {
    /// For blocks of which `least` bytes are alive at once, and that begin at multiples of `align_bytes`.
    pub(super) fn new(blocks: &'a [Block], least: usize, align_bytes: usize) -> Self {
        let steps = blocks.iter().map(|block| block.life.last + 1).max().unwrap_or(0);
        Self { blocks, least, steps, align_bytes }
    }

    /// The smallest layout that was found; none if an address cannot count its bytes.
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

    /// Places blocks in an order, and again with those first that lay highest, as long as that wins something. Nothing if the
    /// bytes cannot be counted.
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

    /// Those first that live in a step in which the most bytes are alive.
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

    /// The layout if blocks are placed in this order; none if its bytes cannot be counted.
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
    /// For how many steps it is in use.
    fn steps(&self) -> usize {
        self.life.last - self.life.first + 1
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

/// The ranges of blocks that are placed, found by when they live: a tree whose nodes each stand for some steps. A life is that of
/// the few largest nodes that make it up.
struct Settled {
    /// A power of two.
    leaves: usize,
    /// The ranges of each node itself; the root is the first, node `i` has the children `2 i` and `2 i + 1`.
    own: Vec<Vec<(usize, usize)>>,
    /// Whether some node below has any.
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

    /// Adds the ranges of those that live in some step of `life`; some of them more than once.
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

    /// Numbers below another, from a seed.
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
            // Values of networks: mostly short lives, now and then one that waits for a join, sizes by powers of two.
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
