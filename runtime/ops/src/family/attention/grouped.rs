//! Attention over a key-value cache that new keys and values are appended to, as language models run it step by step.

use udo_api::{
    Core, Dim, Error, ExecError, FinalizeCx, Inputs, Io, Kernel, KernelDef, Node, Outputs,
    Parallel, Shape, Status, TensorDesc, Workspace, input, input_like, output_like, types,
};

use super::arguments::{Arguments, Reach, Rows};
use super::rotate::rotate;
use super::sizes::{Counts, Heads, Mask};
use super::tiles::Tiles;
use super::{Keyless, Problem, Stage};
use crate::family::argument::count;

const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const PAST_KEY: usize = 3;
const PAST_VALUE: usize = 4;
const LENGTHS: usize = 5;
const TOTAL: usize = 6;
const COS: usize = 7;
const SIN: usize = 8;
const POSITIONS: usize = 9;
const ADDED: usize = 10;
const SINKS: usize = 11;

/// The first input of features that are not supported: quantized caches and normalized heads.
const OTHERS: usize = 12;

/// The kernels of the operator.
pub(crate) const GROUPED: &[KernelDef] =
    &[KernelDef::new::<Grouped>("GroupQueryAttention", Core::CPU).ports(&[
        input(0, types::F32).bounded(),
        input_like(1, 0).bounded(),
        input_like(2, 0).bounded(),
        input_like(3, 0).bounded(),
        input_like(4, 0).bounded(),
        input(5, types::I32).bounded(),
        input_like(7, 0),
        input_like(8, 0),
        input(9, types::I64).bounded(),
        input_like(10, 0).bounded(),
        input_like(11, 0),
        output_like(0, 0).bounded(),
        output_like(1, 0).bounded(),
        output_like(2, 0).bounded(),
    ])];

/// The extents, or their bounds.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    queries: usize,
    q_heads: usize,
    kv_heads: usize,
    /// Elements of a head.
    elements: usize,
    /// Whether queries, keys and values are packed in one row.
    is_one_row: bool,
    /// Capacity of the cache in keys, before and after the call.
    cache_lens: [usize; 2],
    /// Keys of the longest sequence.
    total: usize,
    /// Rotated pairs of a head; 0 for none.
    pairs: usize,
    /// Whether the number of keys or queries is known only in the run.
    is_bounded: bool,
}

impl Sizes {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (q_heads, kv_heads) = (count(node, "num_heads")?, count(node, "kv_num_heads")?);
        if !q_heads.is_multiple_of(kv_heads) {
            return Err(Error::new(format!(
                "{q_heads} query heads are not a multiple of {kv_heads} heads of keys"
            )));
        }
        let (query, is_one_row) = (node.input(QUERY)?, !node.has_input(KEY));
        let heads = if is_one_row { q_heads + 2 * kv_heads } else { q_heads };
        let &[batch, queries, row] = query.shape() else {
            return Err(Error::new(format!("input {QUERY} is {query}, expected rank 3")));
        };
        if row == 0 || !row.is_multiple_of(heads) {
            let expected = format!("expected rows of {heads} heads");
            return Err(Error::new(format!("input {QUERY} is {query}, {expected}")));
        }
        let elements = row / heads;
        let rows = [batch, queries, kv_heads * elements];
        for port in [KEY, VALUE].into_iter().filter(|_| !is_one_row) {
            expect(node, port, &rows)?;
        }
        let past =
            if node.has_input(PAST_KEY) { node.input(PAST_KEY)? } else { TensorDesc::ABSENT };
        let before = past.shape().get(2).copied().unwrap_or(0);
        for port in [PAST_KEY, PAST_VALUE].into_iter().filter(|_| !past.is_absent()) {
            expect(node, port, &[batch, kv_heads, before, elements])?;
        }
        expect(node, LENGTHS, &[batch])?;
        for (x, length) in [(query, 1), (past, 2)] {
            let shape = x.full_shape();
            let mut dims = shape.iter().enumerate().skip(1);
            if dims.any(|(axis, dim)| axis != length && dim.exact().is_none()) {
                let expected = "expected the number and size of heads to be known before the run";
                return Err(Error::new(format!("an input is {x}, {expected}")));
            }
        }
        let stated = total(node)?;
        // A sequence has at most its cached keys and the new ones.
        let total = stated.unwrap_or(before.saturating_add(queries));
        let is_fixed = query.full_shape().is_fixed() && past.full_shape().is_fixed();
        let is_bounded = stated.is_none() || !is_fixed;
        if total < queries && !is_bounded {
            return Err(Error::new(format!(
                "{total} keys in total are fewer than the {queries} new ones"
            )));
        }
        let cache_lens = [before, before.max(total)];
        let mut sizes = Self {
            batch,
            queries,
            q_heads,
            kv_heads,
            elements,
            is_one_row,
            cache_lens,
            total,
            pairs: 0,
            is_bounded,
        };
        sizes.pairs = sizes.read_pairs(node)?;
        if node.has_input(SINKS) {
            expect(node, SINKS, &[q_heads])?;
        }
        Ok(sizes)
    }

    fn read_pairs(&self, node: &Node<'_>) -> Result<usize, Error> {
        if !node.flag("do_rotary")? {
            return Ok(0);
        }
        let cos = node.input(COS)?;
        let &[places, pairs] = cos.shape() else {
            return Err(Error::new(format!("input {COS} is {cos}, expected rank 2")));
        };
        // With bounds, the number of positions is checked in the run.
        let is_short = !self.is_bounded && places < self.total;
        if pairs == 0 || 2 * pairs > self.elements || is_short {
            let expected =
                format!("expected {} places by at most {}", self.total, self.elements / 2);
            return Err(Error::new(format!("input {COS} is {cos}, {expected}")));
        }
        expect(node, SIN, &[places, pairs])?;
        if node.has_input(POSITIONS) {
            expect(node, POSITIONS, &[self.batch, self.queries])?;
        }
        Ok(pairs)
    }

    /// Whether no keys precede these queries.
    fn is_prompt(&self) -> bool {
        self.queries == self.total
    }

    /// Returns the elements of a query row, including packed keys and values.
    fn row(&self) -> usize {
        let heads = if self.is_one_row { self.q_heads + 2 * self.kv_heads } else { self.q_heads };
        heads * self.elements
    }

    /// Returns the extents of a run, and sets those of all outputs.
    fn in_run(&self, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<Self, ExecError> {
        let misfit = ExecError::new(Status::BAD_VALUE);
        let &[batch, queries, _] = inputs.shape(QUERY)? else { return Err(misfit) };
        let arguments = inputs.get::<i32>(TOTAL)?.first().copied().ok_or(misfit)?;
        let (kv_heads, elements) = (self.kv_heads, self.elements);
        let has_past = inputs.has(PAST_KEY);
        let before = if has_past { inputs.shape(PAST_KEY)?.get(2).copied() } else { Some(0) };
        let before = before.ok_or(misfit)?;
        let total = usize::try_from(arguments).ok();
        let total = total.filter(|all| (queries..=self.cache_lens[1]).contains(all));
        let total = total.ok_or(ExecError::bad_value(i64::from(arguments), 0))?;
        let (rows, cache) =
            ([batch, queries, kv_heads * elements], [batch, kv_heads, before, elements]);
        let expected: [(usize, &[usize]); 6] = [
            (KEY, &rows),
            (VALUE, &rows),
            (PAST_KEY, &cache),
            (PAST_VALUE, &cache),
            (LENGTHS, &[batch]),
            (POSITIONS, &[batch, queries]),
        ];
        for (port, expected) in expected.into_iter().filter(|(port, _)| inputs.has(*port)) {
            (inputs.shape(port)? == expected).then_some(()).ok_or(misfit)?;
        }
        let cache_lens = [before, before.max(total)];
        outputs.set_shape(0, &[batch, queries, self.q_heads * elements])?;
        for port in [1, 2] {
            outputs.set_shape(port, &[batch, kv_heads, cache_lens[1], elements])?;
        }
        Ok(Self { batch, queries, cache_lens, total, ..*self })
    }

    fn counts(&self) -> Counts {
        let &Self { batch, queries, q_heads, kv_heads, elements, cache_lens, .. } = self;
        Counts {
            batch,
            q_heads,
            kv_heads,
            queries,
            past: 0,
            new: cache_lens[1],
            total: cache_lens[1],
            depth: elements,
            width: elements,
            is_packed: true,
        }
    }

    /// Returns the extents of the scores.
    fn scores(&self) -> [usize; 4] {
        [self.batch, self.q_heads, self.queries, self.total]
    }

    fn problem(&self, node: &Node<'_>) -> Result<Problem, Error> {
        let (elements, mut scores) = (self.elements, self.scores());
        if self.is_bounded && node.has_input(ADDED) {
            // The bound of the attention bias may differ from that of the keys.
            let len = node.input(ADDED)?.shape().last().copied();
            scores[3] = scores[3].max(len.unwrap_or(0));
        }
        let scale = match node.float("scale")? {
            0.0 => 1.0 / (elements as f64).sqrt(),
            scale => scale,
        };
        let window = usize::try_from(node.int("local_window_size")?).ok().filter(|&len| len > 0);
        Ok(Problem {
            counts: self.counts(),
            mask: Mask::read_port(node, ADDED, &Shape::new(&scores)?)?,
            scale,
            softcap: node.float("softcap")?,
            is_causal: node.flag("causal")?,
            is_at_end: false,
            stage: Stage::Normalized,
            keyless: Keyless::Zeros,
            window,
            is_bounded: self.is_bounded,
        })
    }
}

fn expect(node: &Node<'_>, port: usize, expected: &[usize]) -> Result<(), Error> {
    let found = node.input(port)?;
    if found.shape() == expected {
        return Ok(());
    }
    Err(Error::new(format!("input {port} is {found}, expected {expected:?}")))
}

/// Returns the key count of the longest sequence, if it is known before the run.
fn total(node: &Node<'_>) -> Result<Option<usize>, Error> {
    let misfit =
        |found: String| Error::new(format!("input {TOTAL} is {found}, expected a number of keys"));
    let Some(found) = node.constant_ints(TOTAL)? else {
        let x = node.input(TOTAL)?;
        return if x.full_shape().is_fixed() && x.len() == 1 {
            Ok(None)
        } else {
            Err(misfit(x.to_string()))
        };
    };
    let one = <[i64; 1]>::try_from(&*found).ok();
    let total = one.and_then(|[total]| usize::try_from(total).ok());
    total.map(Some).ok_or_else(|| misfit(format!("{found:?}")))
}

/// The shapes of the outputs.
pub(crate) struct GroupedShapes {
    pub(crate) rows: Shape,
    pub(crate) cache: Shape,
}

impl GroupedShapes {
    /// Returns the shapes for a node that a kernel accepts.
    pub(crate) fn infer(node: &Node<'_>) -> Result<Self, Error> {
        for (flag, meaning) in [
            ("qk_output", "asks for scores"),
            ("sliding_window_cache", "limits the cache to a window"),
            ("kv_cache_bit_width", "requests a quantized cache"),
        ] {
            let found = node.int(flag)?;
            if found != 0 {
                let reason = format!("which {meaning}, expected 0");
                return Err(Error::new(format!("parameter {flag:?} is {found}, {reason}")));
            }
        }
        if let Some(port) = (OTHERS..node.input_count()).find(|&port| node.has_input(port)) {
            let expected =
                "expected none: quantized caches and head normalization are not supported";
            return Err(Error::new(format!("input {port} is there, {expected}")));
        }
        let sizes = Sizes::read(node)?;
        sizes.problem(node)?;
        let dim = |axis: usize| node.input(QUERY).map(|x| x.full_shape().dim(axis));
        let (batch, length) = (dim(0)?.unwrap_or(Dim::Fixed(0)), dim(1)?.unwrap_or(Dim::Fixed(0)));
        let Sizes { q_heads, kv_heads, elements, cache_lens, is_bounded, .. } = sizes;
        let all = if is_bounded { Dim::UpTo(cache_lens[1]) } else { Dim::Fixed(cache_lens[1]) };
        Ok(Self {
            rows: Shape::from_dims(&[batch, length, Dim::Fixed(q_heads * elements)])?,
            cache: Shape::from_dims(&[batch, Dim::Fixed(kv_heads), all, Dim::Fixed(elements)])?,
        })
    }
}

#[derive(Clone, Copy)]
struct Grouped {
    sizes: Sizes,
    tiles: Tiles<f32>,
    is_interleaved: bool,
    /// Whether sums of exponentials include an additional 1 (smooth softmax).
    is_smooth: bool,
}

impl Kernel for Grouped {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let sizes = Sizes::read(cx)?;
        Ok(Self {
            sizes,
            tiles: Tiles::new(cx, sizes.problem(cx)?, false),
            is_interleaved: cx.flag("rotary_interleaved")?,
            is_smooth: cx.flag("smooth_softmax")?,
        })
    }

    fn workspace(&self) -> Workspace {
        let Sizes { batch, q_heads, .. } = self.sizes;
        let before = Workspace::for_elements::<i64>(2 * batch).and::<f32>(q_heads);
        self.tiles.workspace(before.and::<f32>(self.turned_len()))
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let run = &self.in_run(&io.inputs, &mut io.outputs)?;
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let Sizes { queries, q_heads, kv_heads, elements, cache_lens, .. } = run.sizes;
        // Scratch memory is reserved for the bounds.
        let (valid, past) = run.lengths(&inputs, scratch.take::<i64>(2 * self.sizes.batch)?)?;
        let sinks = self.sinks(&inputs, scratch.take::<f32>(q_heads)?)?;
        let turned = scratch.take::<f32>(self.turned_len())?;
        let cache = run.write(&inputs, &mut outputs, past, parallel)?;
        let heads = Heads::new(kv_heads, cache_lens[1], elements, false);
        let [keys, values] = cache.map(|data| Rows { data, heads });
        let q = run.queries(&inputs, &mut turned[..run.turned_len()], past, parallel)?;
        let row = if run.sizes.pairs > 0 { q_heads * elements } else { run.sizes.row() };
        let q = Rows { data: q, heads: Heads::within(row, queries, elements) };
        let numbers = if inputs.has(ADDED) { inputs.get::<f32>(ADDED)? } else { &[] };
        let all = Reach::new(cache_lens[1], 0);
        let arguments = Arguments { q, keys, values, numbers, bools: &[], valid, past, sinks, all };
        run.tiles.run(&arguments, outputs.take::<f32>(0)?, None, &mut scratch, parallel)
    }
}

impl Grouped {
    /// Returns the kernel's state with the extents of a run.
    fn in_run(&self, inputs: &Inputs<'_>, outputs: &mut Outputs<'_>) -> Result<Self, ExecError> {
        if !self.sizes.is_bounded {
            return Ok(*self);
        }
        let sizes = self.sizes.in_run(inputs, outputs)?;
        let mask = self.tiles.problem.mask.map(|mask| mask.in_run(inputs, ADDED, &sizes.scores()));
        let problem =
            Problem { counts: sizes.counts(), mask: mask.transpose()?, ..self.tiles.problem };
        Ok(Self { sizes, tiles: self.tiles.with_problem(problem), ..*self })
    }

    /// Returns the elements of rotated queries.
    fn turned_len(&self) -> usize {
        let Sizes { batch, queries, q_heads, elements, pairs, .. } = self.sizes;
        if pairs == 0 { 0 } else { batch * queries * q_heads * elements }
    }

    /// Returns the key count of each sequence, and how many of those were cached.
    fn lengths<'a>(
        &self,
        inputs: &Inputs<'_>,
        lengths: &'a mut [i64],
    ) -> Result<(&'a [i64], &'a [i64]), ExecError> {
        let Sizes { queries, total, cache_lens, .. } = self.sizes;
        let arguments = inputs.get::<i32>(LENGTHS)?;
        let (valid, past) = lengths.split_at_mut(arguments.len());
        for (at, ((valid, past), &last)) in
            valid.iter_mut().zip(&mut *past).zip(arguments).enumerate()
        {
            let all = i64::from(last) + 1;
            let before = if self.sizes.is_prompt() { 0 } else { all - queries as i64 };
            let fits =
                all > 0 && all <= total as i64 && before >= 0 && before <= cache_lens[0] as i64;
            fits.then_some(()).ok_or(ExecError::bad_value(i64::from(last), at))?;
            (*valid, *past) = (all, before);
        }
        Ok((valid, past))
    }

    fn sinks<'a>(&self, inputs: &Inputs<'a>, zeros: &'a mut [f32]) -> Result<&'a [f32], ExecError> {
        if inputs.has(SINKS) {
            return inputs.get::<f32>(SINKS);
        }
        zeros.fill(0.0);
        Ok(if self.is_smooth { zeros } else { &[] })
    }

    /// Returns the cosines and sines of a position.
    fn angles<'a>(
        &self,
        inputs: &Inputs<'a>,
        past: &[i64],
        [batch, place]: [usize; 2],
    ) -> Result<[&'a [f32]; 2], ExecError> {
        let Sizes { queries, pairs, .. } = self.sizes;
        let position = if inputs.has(POSITIONS) {
            let arguments = inputs.get::<i64>(POSITIONS)?;
            // In a prompt, the first position determines all.
            let is_prompt = self.sizes.is_prompt();
            if is_prompt { arguments[0] + place as i64 } else { arguments[batch * queries + place] }
        } else {
            past[batch] + place as i64
        };
        let (cos, sin) = (inputs.get::<f32>(COS)?, inputs.get::<f32>(SIN)?);
        let at = usize::try_from(position).ok().filter(|&at| at < cos.len() / pairs);
        let at = at.ok_or(ExecError::bad_value(position, batch * queries + place))?;
        Ok([cos, sin].map(|x| &x[at * pairs..][..pairs]))
    }

    /// Returns the queries, rotated if the node asks for it.
    fn queries<'a>(
        &self,
        inputs: &Inputs<'a>,
        turned: &'a mut [f32],
        past: &[i64],
        parallel: Parallel<'_>,
    ) -> Result<&'a [f32], ExecError> {
        let Sizes { queries, q_heads, elements, pairs, .. } = self.sizes;
        let (x, row) = (inputs.get::<f32>(QUERY)?, self.sizes.row());
        if pairs == 0 {
            return Ok(x);
        }
        parallel.chunks_mut(turned, q_heads * elements, |at, to| {
            let angles = self.angles(inputs, past, [at / queries, at % queries])?;
            let heads = x[at * row..].chunks_exact(elements).zip(to.chunks_exact_mut(elements));
            heads.for_each(|(x, to)| rotate(self.is_interleaved, x, angles, to));
            Ok(())
        })?;
        Ok(turned)
    }

    /// Writes the caches: previous contents, then new keys and values.
    fn write<'a>(
        &self,
        inputs: &Inputs<'a>,
        outputs: &mut Outputs<'a>,
        past: &[i64],
        parallel: Parallel<'_>,
    ) -> Result<[&'a [f32]; 2], ExecError> {
        let Sizes { queries, q_heads, kv_heads, elements, is_one_row, cache_lens, pairs, .. } =
            self.sizes;
        let mut present = [&[][..]; 2];
        for (side, present) in present.iter_mut().enumerate() {
            let [new, old] = [[KEY, PAST_KEY], [VALUE, PAST_VALUE]][side];
            let (x, row, first) = if is_one_row {
                let first = (q_heads + side * kv_heads) * elements;
                (inputs.get::<f32>(QUERY)?, self.sizes.row(), first)
            } else {
                (inputs.get::<f32>(new)?, kv_heads * elements, 0)
            };
            let before = if inputs.has(old) { inputs.get::<f32>(old)? } else { &[] };
            let to = outputs.take::<f32>(1 + side)?;
            let to = &mut to[..self.sizes.batch * kv_heads * cache_lens[1] * elements];
            parallel.chunks_mut(to, cache_lens[1] * elements, |at, to| {
                let (batch, head) = (at / kv_heads, at % kv_heads);
                let len = past[batch] as usize * elements;
                let (old, rest) = to.split_at_mut(len);
                old.copy_from_slice(&before[at * cache_lens[0] * elements..][..len]);
                let (written, rest) = rest.split_at_mut(queries * elements);
                rest.fill(0.0);
                for (place, to) in written.chunks_exact_mut(elements).enumerate() {
                    let from = (batch * queries + place) * row + first + head * elements;
                    let x = &x[from..][..elements];
                    if side == 0 && pairs > 0 {
                        let angles = self.angles(inputs, past, [batch, place])?;
                        rotate(self.is_interleaved, x, angles, to);
                    } else {
                        to.copy_from_slice(x);
                    }
                }
                Ok(())
            })?;
            *present = to;
        }
        Ok(present)
    }
}
