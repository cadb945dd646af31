//! Attention in f32, tile by tile. An online softmax runs over blocks of keys and rescales earlier sums whenever a
//! larger score appears (`FlashAttention`: Dao et al., 2022).

use std::marker::PhantomData;

use udo_api::{
    Bf16, Element, Error, ExecError, F16, FinalizeCx, Io, Kernel, Parallel, Scratch, Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout, gemm, pack_b, packed_len};
use udo_simd::rows::{Running, multiply_rows, softmax_block};
use udo_simd::{Map1, Map2, Simd, map1_in_place, map2_in_place};

use super::arguments::{Arguments, Reach, Sides};
use super::sizes::{Counts, Heads, Mask};
use super::{Problem, SCORES, Sizes, Stage};
use crate::family::elementwise::Stored;
use crate::family::partition;

/// Queries per tile, for which keys and values are packed once.
const QUERIES: usize = 64;
/// The most elements of keys, values and scores of a block: half of a 1 MiB second-level cache.
const AT_HAND: usize = 1 << 17;
/// The key count of a block is a multiple of this, a vector register of any instruction set.
const KEYS: usize = 16;

/// A storage type whose values are computed in f32.
pub(crate) trait Storage: Element {
    /// Whether values need to be widened into a buffer.
    const IS_WIDENED: bool;

    fn number(self) -> f32;
    /// Returns rows of f32 values, widened into `buffer` where necessary, and their stride.
    fn widen<'a>(
        x: (&'a [Self], usize),
        extents: [usize; 2],
        buffer: &'a mut [f32],
    ) -> (&'a [f32], usize);
    fn store(x: &[f32], y: &mut [Self]);
    /// Returns the output as f32 if it can be computed in place.
    fn in_place(y: &mut [Self]) -> Option<&mut [f32]>;
}

impl Storage for f32 {
    const IS_WIDENED: bool = false;

    fn number(self) -> f32 {
        self
    }

    fn widen<'a>(x: (&'a [Self], usize), _: [usize; 2], _: &'a mut [f32]) -> (&'a [f32], usize) {
        x
    }

    fn store(x: &[f32], y: &mut [Self]) {
        y.copy_from_slice(x);
    }

    fn in_place(y: &mut [Self]) -> Option<&mut [f32]> {
        Some(y)
    }
}

macro_rules! half_precision {
    ($($t:ty),*) => {$(
        impl Storage for $t {
            const IS_WIDENED: bool = true;

            fn number(self) -> f32 {
                self.load()
            }

            fn widen<'a>(
                (x, step): (&'a [Self], usize),
                [rows, cols]: [usize; 2],
                buffer: &'a mut [f32],
            ) -> (&'a [f32], usize) {
                for (row, to) in buffer.chunks_exact_mut(cols.max(1)).take(rows).enumerate() {
                    to.iter_mut().zip(&x[row * step..]).for_each(|(to, x)| *to = x.number());
                }
                (buffer, cols)
            }

            fn store(x: &[f32], y: &mut [Self]) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = Stored::<f32>::store(*x));
            }

            fn in_place(_: &mut [Self]) -> Option<&mut [f32]> {
                None
            }
        }
    )*};
}

half_precision!(F16, Bf16);

/// How the work is divided.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Queries per tile.
    queries: usize,
    /// Keys per block.
    keys: usize,
    /// The most parts that run concurrently.
    parts: usize,
    /// Elements of output that cannot be computed in place.
    results: usize,
    lens: Lens,
}

/// Scratch elements of each part.
#[derive(Clone, Copy, Debug)]
struct Lens {
    keys: usize,
    values: usize,
    queries: usize,
    scores: usize,
    mask: usize,
    /// Rescaled output of earlier blocks.
    before: usize,
    /// Values widened to f32.
    widened: usize,
    /// One element per query.
    running: usize,
}

impl Lens {
    fn new<T: Storage>(problem: &Problem, queries: usize, keys: usize) -> Self {
        let Counts { depth, width, total, queries: all, .. } = problem.counts;
        // Buffers start at cache lines.
        let len = |len: usize| len.next_multiple_of(KEYS);
        let is_masked = problem.mask.is_some();
        Self {
            keys: len(packed_len(depth, keys)),
            values: len(packed_len(keys, width)),
            queries: if T::IS_WIDENED { len(queries * depth) } else { 0 },
            scores: len(queries * keys),
            mask: if is_masked { len(queries * keys) } else { 0 },
            before: if keys < total { len(queries * width) } else { 0 },
            widened: if T::IS_WIDENED { len(keys * depth.max(width)) } else { 0 },
            running: len(all),
        }
    }

    fn sum(&self) -> usize {
        let Self { keys, values, queries, scores, mask, before, widened, running } = self;
        keys + values + queries + scores + mask + before + widened + 3 * running
    }
}

/// Scratch memory of each part.
struct PartScratch<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
    queries: &'a mut [f32],
    scores: &'a mut [f32],
    mask: &'a mut [f32],
    before: &'a mut [f32],
    widened: &'a mut [f32],
    max: &'a mut [f32],
    sum: &'a mut [f32],
    factor: &'a mut [f32],
}

impl<'a> PartScratch<'a> {
    fn new(lens: &Lens, mut all: &'a mut [f32]) -> Self {
        let mut take = |len: usize| {
            let (piece, rest) = std::mem::take(&mut all).split_at_mut(len);
            all = rest;
            piece
        };
        Self {
            keys: take(lens.keys),
            values: take(lens.values),
            queries: take(lens.queries),
            scores: take(lens.scores),
            mask: take(lens.mask),
            before: take(lens.before),
            widened: take(lens.widened),
            max: take(lens.running),
            sum: take(lens.running),
            factor: take(lens.running),
        }
    }
}

/// Kernel of types that are computed in f32.
pub(crate) struct Tiled<T> {
    tiles: Tiles<T>,
    sides: Sides<T>,
}

impl<T: Storage> Kernel for Tiled<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let problem = Problem::read(cx, &Sizes::read(cx)?)?;
        cx.work(problem.work())?;
        let sides = Sides::read(cx, &problem.counts);
        Ok(Self { tiles: Tiles::new(cx, problem, cx.has_output(SCORES)), sides })
    }

    fn workspace(&self) -> Workspace {
        self.tiles.workspace(self.sides.workspace())
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let problem = self.tiles.problem.in_run(&mut io)?;
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let arguments =
            Arguments::take(&problem, &self.sides, &inputs, &mut outputs, &mut scratch, parallel)?;
        let y = outputs.take::<T>(0)?;
        let read = if outputs.has(SCORES) { Some(outputs.take::<T>(SCORES)?) } else { None };
        self.tiles.with_problem(problem).run(&arguments, y, read, &mut scratch, parallel)
    }
}

/// An attention with the sizes of one call.
#[derive(Clone, Copy)]
pub(super) struct Tiles<T> {
    pub(super) problem: Problem,
    cut: Cut,
    marker: PhantomData<fn() -> T>,
}

impl<T: Storage> Tiles<T> {
    pub(super) fn new(cx: &FinalizeCx<'_>, problem: Problem, has_scores: bool) -> Self {
        let Counts { queries, total, depth, width, .. } = problem.counts;
        let queries = queries.min(QUERIES);
        let most = AT_HAND / (depth + width + queries).max(1) / KEYS * KEYS;
        let blocks = total.div_ceil(most.max(KEYS)).max(1);
        // If the scores are an output, a block spans all keys.
        let keys = if has_scores { total } else { total.div_ceil(blocks) };
        let keys = keys.next_multiple_of(KEYS).min(total);
        let threads = cx.threads();
        let parts = if threads == 1 { 1 } else { partition::most_grains(threads) };
        let rows = problem.counts.rows();
        let results = if is_in_place::<T>(&problem.counts) { 0 } else { rows * width };
        let lens = Lens::new::<T>(&problem, queries, keys);
        let cut = Cut { queries, keys, parts: parts.min(rows), results, lens };
        Self { problem, cut, marker: PhantomData }
    }

    /// Returns the tiles with the extents of a run.
    pub(super) fn with_problem(&self, problem: Problem) -> Self {
        Self { problem, ..*self }
    }

    /// Adds the scratch memory to that of the caller, which comes first.
    pub(super) fn workspace(&self, before: Workspace) -> Workspace {
        let Cut { parts, results, lens, .. } = self.cut;
        before.and::<f32>(results).and::<f32>(parts.saturating_mul(lens.sum()))
    }

    pub(super) fn run(
        &self,
        arguments: &Arguments<'_, T>,
        y: &mut [T],
        read: Option<&mut [T]>,
        scratch: &mut Scratch<'_>,
        parallel: Parallel<'_>,
    ) -> Result<(), ExecError> {
        let results = scratch.take::<f32>(self.cut.results)?;
        let own = scratch.take::<f32>(self.cut.parts * self.cut.lens.sum())?;
        // A bounded run may use fewer rows than reserved.
        let len = self.problem.counts.rows() * self.problem.counts.width;
        let (y, results) = (&mut y[..len], &mut results[..self.cut.results.min(len)]);
        if is_in_place::<T>(&self.problem.counts) {
            let Some(y) = T::in_place(y) else { return Ok(()) };
            return self.compute(arguments, parallel, y, read, own);
        }
        self.compute(arguments, parallel, results, read, own)?;
        self.store(parallel, results, y)
    }
}

/// Whether outputs are computed in place.
fn is_in_place<T: Storage>(counts: &Counts) -> bool {
    !T::IS_WIDENED && !counts.is_packed
}

impl<T: Storage> Tiles<T> {
    /// Computes the outputs of all heads.
    fn compute(
        &self,
        arguments: &Arguments<'_, T>,
        parallel: Parallel<'_>,
        results: &mut [f32],
        read: Option<&mut [T]>,
        own: &mut [f32],
    ) -> Result<(), ExecError> {
        let Counts { batch, q_heads, queries, total, depth, width, .. } = self.problem.counts;
        let (heads, lens) = (batch * q_heads, &self.cut.lens);
        if results.is_empty() {
            return Ok(());
        }
        if let Some(read) = read {
            self.part(arguments, 0, results, Some(read), &mut PartScratch::new(lens, own));
            return Ok(());
        }
        let work = heads * queries * total * (depth + width);
        let grains = partition::grains(parallel, work, partition::F32_PRODUCTS);
        let grains = grains.min(self.cut.parts);
        // Parts are whole heads, or else parts of one head.
        let rows = if grains <= heads {
            heads.div_ceil(grains) * queries
        } else {
            queries.div_ceil(grains / heads)
        };
        parallel.chunks_mut_with(results, rows * width, own, lens.sum(), |part, results, own| {
            self.part(arguments, part * rows, results, None, &mut PartScratch::new(lens, own));
            Ok(())
        })
    }

    /// Computes the outputs from a row on.
    fn part(
        &self,
        arguments: &Arguments<'_, T>,
        first: usize,
        mut results: &mut [f32],
        mut read: Option<&mut [T]>,
        own: &mut PartScratch<'_>,
    ) {
        let Counts { queries, total, width, .. } = self.problem.counts;
        let mut row = first;
        while !results.is_empty() {
            let at = self.problem.counts.position(row);
            let count = (queries - at[2]).min(results.len() / width);
            let (y, rest) = results.split_at_mut(count * width);
            let read = read.as_mut().map(|read| &mut read[row * total..][..count * total]);
            self.head(arguments, at, y, read, own);
            (results, row) = (rest, row + count);
        }
    }

    /// Computes the outputs of a head from a query on.
    fn head(
        &self,
        arguments: &Arguments<'_, T>,
        [batch, head, first]: [usize; 3],
        y: &mut [f32],
        mut read: Option<&mut [T]>,
        own: &mut PartScratch<'_>,
    ) {
        let Counts { total, width, .. } = self.problem.counts;
        let queries = y.len() / width;
        let reach = arguments.reach(&self.problem, batch);
        let seen = self.problem.visible(reach, first + queries - 1);
        let seen = if read.is_some() { total } else { seen };
        let step = self.cut.keys.max(1);
        let start = self.problem.first(reach, first) / step * step;
        own.max[..queries].fill(f32::MIN);
        own.sum[..queries].fill(0.0);
        if seen <= start {
            y.fill(0.0);
        }
        for key in (start..seen).step_by(step) {
            let keys = self.cut.keys.min(seen - key);
            self.pack(arguments, [batch, head, key], keys, own);
            for from in (0..queries).step_by(self.cut.queries) {
                let count = self.cut.queries.min(queries - from);
                let (query, is_first) = (first + from, key == start);
                let tile = Tile { batch, head, query, count, key, keys, reach, is_first };
                let is_seen = tile.visible(&self.problem, count - 1) > key;
                if !is_first && !is_seen && read.is_none() {
                    continue;
                }
                let read = read.as_mut().map(|read| &mut read[from * total..][..count * total]);
                self.scores(arguments, &tile, from, read, own);
                tile.add_values(&mut y[from * width..][..count * width], own);
            }
        }
        if let Some(sink) = arguments.sinks.get(head) {
            let sums = own.sum.iter_mut().zip(&*own.max).take(queries);
            sums.for_each(|(sum, max)| *sum += (sink.number() - max).exp());
        }
        for (y, sum) in y.chunks_exact_mut(width).zip(&mut *own.sum) {
            if self.problem.keyless.is_zeroed(f64::from(*sum)) {
                y.fill(0.0);
                *sum = 1.0;
            }
            *sum = 1.0 / *sum;
        }
        multiply_rows(y, width, own.sum);
    }

    /// Packs the keys and values of a block.
    fn pack(
        &self,
        arguments: &Arguments<'_, T>,
        [batch, head, key]: [usize; 3],
        keys: usize,
        own: &mut PartScratch<'_>,
    ) {
        let Counts { depth, width, .. } = self.problem.counts;
        let at = [batch, self.problem.counts.shared_head(head), key];
        let (x, step) = T::widen(arguments.keys.from(at), [keys, depth], own.widened);
        pack_b(x, step, Layout::Transposed, depth, keys, own.keys);
        // Scales the keys, which are fewer than the scores and packed once for all tiles of queries.
        map2_in_place(
            Multiply,
            &mut own.keys[..packed_len(depth, keys)],
            self.problem.scale as f32,
        );
        let (x, step) = T::widen(arguments.values.from(at), [keys, width], own.widened);
        pack_b(x, step, Layout::Rows, keys, width, own.values);
    }

    /// Computes the exponentials of a tile's scores, and their sum; `from` is its first query in the block of queries.
    fn scores(
        &self,
        arguments: &Arguments<'_, T>,
        tile: &Tile,
        from: usize,
        mut read: Option<&mut [T]>,
        own: &mut PartScratch<'_>,
    ) {
        let problem = &self.problem;
        let Counts { depth, .. } = problem.counts;
        let &Tile { batch, head, query, count, keys, .. } = tile;
        let q = arguments.q.from([batch, head, query]);
        let (q, stride) = T::widen(q, [count, depth], own.queries);
        let is_read = read.is_some();
        let mut keep = |stage: Stage, scores: &[f32]| {
            if let Some(read) = read.as_mut().filter(|_| problem.stage == stage) {
                T::store(scores, read);
            }
        };
        let mask = problem.mask.and_then(|mask| tile.mask(arguments, &mask, own.mask));
        let is_early = matches!(problem.stage, Stage::Scaled | Stage::Capped) && is_read;
        let scores = &mut own.scores[..count * keys];
        // The product adds the mask in its epilogue if no step comes between.
        let is_added = problem.softcap <= 0.0 && !is_early;
        let epilogue = Epilogue { residual: mask.filter(|_| is_added), ..Epilogue::default() };
        gemm(q, stride, count, depth, own.keys, keys, scores, keys, &epilogue);
        keep(Stage::Scaled, scores);
        if problem.softcap > 0.0 {
            let cap = problem.softcap as f32;
            map1_in_place(Softcap { cap, inverse: 1.0 / cap }, scores);
        }
        keep(Stage::Capped, scores);
        if let Some((mask, step)) = mask.filter(|_| !is_added) {
            for (row, scores) in scores.chunks_exact_mut(keys).enumerate() {
                map2_in_place(Add, scores, &mask[row * step..][..keys]);
            }
        }
        // Both ends of the visible keys grow with the query, so the first query's end and the last query's start
        // decide.
        let is_whole = tile.visible(problem, 0) >= tile.key + keys
            && problem.first(tile.reach, tile.query + count - 1) <= tile.key;
        let partial = if is_whole { &mut [][..] } else { &mut *scores };
        for (row, scores) in partial.chunks_exact_mut(keys).enumerate() {
            let within = |key: usize| key.saturating_sub(tile.key).min(keys);
            scores[within(tile.visible(problem, row))..].fill(f32::NEG_INFINITY);
            let first = problem.first(tile.reach, tile.query + row);
            scores[..within(first)].fill(f32::NEG_INFINITY);
        }
        keep(Stage::Masked, scores);
        let running = Running {
            max: &mut own.max[from..][..count],
            sum: &mut own.sum[from..][..count],
            factor: &mut own.factor[..count],
        };
        softmax_block(scores, keys, running);
        if is_read && problem.stage == Stage::Normalized {
            // A score output implies one block of keys, so the sum is final.
            let (sum, inverse) = (&mut own.sum[from..][..count], &mut own.factor[..count]);
            for (sum, inverse) in sum.iter_mut().zip(&mut *inverse) {
                let is_zeroed = problem.keyless.is_zeroed(f64::from(*sum));
                (*sum, *inverse) = if is_zeroed { (*sum, 0.0) } else { (1.0, 1.0 / *sum) };
            }
            multiply_rows(scores, keys, inverse);
        }
        keep(Stage::Normalized, scores);
    }

    /// Stores the outputs in the order and type of the output tensor.
    fn store(&self, parallel: Parallel<'_>, results: &[f32], y: &mut [T]) -> Result<(), ExecError> {
        let Counts { q_heads, queries, width, is_packed, .. } = self.problem.counts;
        if !is_packed {
            return parallel.chunks_mut(y, partition::GRAIN, |chunk, y| {
                T::store(&results[chunk * partition::GRAIN..][..y.len()], y);
                Ok(())
            });
        }
        let heads = Heads::new(q_heads, queries, width, false);
        let row = q_heads * width;
        let grain = partition::row_grain(row);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (at, y) in y.chunks_exact_mut(row).enumerate() {
                let query = chunk * (grain / row) + at;
                for (head, y) in y.chunks_exact_mut(width).enumerate() {
                    let from = heads.at(query / queries, head) + query % queries * width;
                    T::store(&results[from..][..width], y);
                }
            }
            Ok(())
        })
    }
}

/// Some queries of a head and some keys.
struct Tile {
    batch: usize,
    head: usize,
    query: usize,
    count: usize,
    key: usize,
    keys: usize,
    reach: Reach,
    /// Whether this is the first block of keys.
    is_first: bool,
}

impl Tile {
    /// Returns how many of the keys a query sees.
    fn visible(&self, problem: &Problem, row: usize) -> usize {
        problem.visible(self.reach, self.query + row)
    }

    /// Returns the part of the mask that is added to the scores, and its row stride.
    fn mask<'a, T: Storage>(
        &self,
        arguments: &Arguments<'a, T>,
        mask: &Mask,
        buffer: &'a mut [f32],
    ) -> Option<(&'a [f32], usize)> {
        let &Self { batch, head, query, count, key, keys, .. } = self;
        let cols = mask.len.checked_sub(key)?.min(keys);
        let (from, step) = (mask.at([batch, head, query]) + key, mask.step());
        let rows = if step == 0 { 1 } else { count };
        if !mask.is_bool && cols == keys {
            let (x, stride) = T::widen((&arguments.numbers[from..], step), [rows, keys], buffer);
            return Some((x, if step == 0 { 0 } else { stride }));
        }
        for (row, to) in buffer.chunks_exact_mut(keys).take(rows).enumerate() {
            let from = from + row * step;
            // Keys past the mask's end are masked out elsewhere, so any finite value will do.
            to[cols..].fill(0.0);
            if mask.is_bool {
                let bools = to.iter_mut().zip(&arguments.bools[from..][..cols]);
                bools.for_each(|(to, x)| *to = if x.get() { 0.0 } else { f32::NEG_INFINITY });
            } else {
                let numbers = to.iter_mut().zip(&arguments.numbers[from..][..cols]);
                numbers.for_each(|(to, x)| *to = x.number());
            }
        }
        Some((buffer, if step == 0 { 0 } else { keys }))
    }

    /// Adds `shares * values` of the block to the rescaled outputs of earlier blocks.
    fn add_values(&self, y: &mut [f32], own: &mut PartScratch<'_>) {
        let &Self { count, keys, is_first, .. } = self;
        let width = y.len() / count;
        let mut epilogue = Epilogue::default();
        if !is_first {
            let before = &mut own.before[..y.len()];
            before.copy_from_slice(y);
            multiply_rows(before, width, own.factor);
            epilogue.residual = Some((before, width));
        }
        gemm(own.scores, keys, count, keys, own.values, width, y, width, &epilogue);
    }
}

#[derive(Clone, Copy)]
struct Multiply;

impl Map2 for Multiply {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(a, b)
    }
}

#[derive(Clone, Copy)]
struct Add;

impl Map2 for Add {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// `softcap * tanh(x / softcap)`: limits scores smoothly.
#[derive(Clone, Copy)]
struct Softcap {
    cap: f32,
    inverse: f32,
}

impl Map1 for Softcap {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.mul(s.tanh(s.mul(x, s.splat(self.inverse))), s.splat(self.cap))
    }
}
