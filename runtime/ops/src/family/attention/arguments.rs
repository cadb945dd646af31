//! Inputs of an attention call: queries, mask, and all keys and values with the cached ones in front.

use std::marker::PhantomData;

use udo_api::{
    Bool, Element, ExecError, FinalizeCx, Inputs, Outputs, Parallel, Scratch, Workspace,
};

use super::sizes::{Counts, Heads};
use super::{K, MASK, PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE, Problem, Q, V};
use super::{Mask, VALID_LENGTHS};

/// Keys or values. The complete ones are the cached ones, then the new ones.
#[derive(Clone, Copy, Debug)]
struct Side<T> {
    /// Input with the new ones.
    new: usize,
    /// Input with the cached ones.
    past: usize,
    /// Output for the complete ones.
    present: usize,
    /// Elements of a single key or value.
    elements: usize,
    /// Scratch elements for joining cached and new ones.
    scratch_len: usize,
    marker: PhantomData<fn() -> T>,
}

/// Keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides<T>([Side<T>; 2]);

impl<T: Element> Sides<T> {
    pub(super) fn read(cx: &FinalizeCx<'_>, counts: &Counts) -> Self {
        let side = |new: usize, past: usize, present: usize, elements: usize| {
            // Without an output for the complete keys, they are joined in scratch memory.
            let needs_scratch = cx.has_input(past) && !cx.has_output(present);
            let scratch_len = if needs_scratch { counts.cache_len(elements) } else { 0 };
            Side { new, past, present, elements, scratch_len, marker: PhantomData }
        };
        Self([
            side(K, PAST_KEY, PRESENT_KEY, counts.depth),
            side(V, PAST_VALUE, PRESENT_VALUE, counts.width),
        ])
    }

    /// Returns the scratch memory for joined keys and values.
    pub(super) fn workspace(&self) -> Workspace {
        let [keys, values] = &self.0;
        Workspace::for_elements::<T>(keys.scratch_len).and::<T>(values.scratch_len)
    }
}

/// Elements, and the positions of the rows of heads in them.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub(super) data: &'a [T],
    pub(super) heads: Heads,
}

impl<'a, T> Rows<'a, T> {
    /// Returns the elements from a row of a head on, and the row stride.
    pub(super) fn from(&self, [batch, head, row]: [usize; 3]) -> (&'a [T], usize) {
        let stride = self.heads.row;
        (&self.data[self.heads.at(batch, head) + row * stride..], stride)
    }
}

/// The inputs of a call.
pub(super) struct Arguments<'a, T> {
    pub(super) q: Rows<'a, T>,
    pub(super) keys: Rows<'a, T>,
    pub(super) values: Rows<'a, T>,
    /// The float mask, which is added to scores; empty if absent.
    pub(super) numbers: &'a [T],
    /// The bool mask, which selects keys; empty if absent.
    pub(super) bools: &'a [Bool],
    /// Keys of each sequence; empty if all keys are valid.
    pub(super) valid: &'a [i64],
    /// Keys of each sequence that precede those of its queries; empty if the same for all.
    pub(super) past: &'a [i64],
    /// An additional score of each head that counts only in the sum of exponentials (an attention sink); empty for
    /// none.
    pub(super) sinks: &'a [T],
    /// The reach of a sequence in which all keys are valid.
    pub(super) all: Reach,
}

/// The positions of a sequence's keys relative to its queries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Valid keys.
    pub(super) valid: usize,
    /// Keys before the position of the first query.
    past: usize,
    /// Queries before the position of the first key.
    missing: usize,
}

impl Reach {
    pub(super) fn new(valid: usize, past: usize) -> Self {
        Self { valid, past, missing: 0 }
    }

    /// Returns the reach if `queries` queries end at the last key; some of them may precede the first key.
    pub(super) fn at_end(self, is_at_end: bool, queries: usize) -> Self {
        if !is_at_end {
            return self;
        }
        let past = self.valid.saturating_sub(queries);
        Self { past, missing: queries.saturating_sub(self.valid), ..self }
    }

    /// Returns the end of the keys up to a query's joined position.
    pub(super) fn end(&self, query: usize) -> usize {
        (self.past + query + 1).saturating_sub(self.missing)
    }
}

impl<'a, T: Element> Arguments<'a, T> {
    pub(super) fn take(
        problem: &Problem,
        Sides([keys, values]): &Sides<T>,
        inputs: &Inputs<'a>,
        outputs: &mut Outputs<'a>,
        scratch: &mut Scratch<'a>,
        parallel: Parallel<'_>,
    ) -> Result<Self, ExecError> {
        let counts = &problem.counts;
        let Counts { q_heads, queries, depth, is_packed, total, past, .. } = *counts;
        let q = Rows {
            data: inputs.get::<T>(Q)?,
            heads: Heads::new(q_heads, queries, depth, is_packed),
        };
        let mut join = |side: &Side<T>| {
            let joined = scratch.take::<T>(side.scratch_len)?;
            side.join(counts, inputs, outputs, joined, parallel)
        };
        let (keys, values) = (join(keys)?, join(values)?);
        let is_bool = problem.mask.map(|mask: Mask| mask.is_bool);
        let numbers = if is_bool == Some(false) { inputs.get::<T>(MASK)? } else { &[] };
        let bools = if is_bool == Some(true) { inputs.get::<Bool>(MASK)? } else { &[] };
        let has_lengths = inputs.has(VALID_LENGTHS);
        let valid = if has_lengths { inputs.get::<i64>(VALID_LENGTHS)? } else { &[] };
        for (batch, &len) in valid.iter().enumerate() {
            let fits = usize::try_from(len).is_ok_and(|len| len <= total);
            fits.then_some(()).ok_or(ExecError::bad_value(len, batch))?;
        }
        let all = Reach::new(total, past);
        Ok(Self { q, keys, values, numbers, bools, valid, past: &[], sinks: &[], all })
    }

    /// Returns the reach of a sequence.
    pub(super) fn reach(&self, problem: &Problem, batch: usize) -> Reach {
        let length = |lengths: &[i64], default: usize| {
            lengths.get(batch).map_or(default, |&len| usize::try_from(len).unwrap_or(0))
        };
        let reach =
            Reach::new(length(self.valid, self.all.valid), length(self.past, self.all.past));
        reach.at_end(problem.is_at_end, problem.counts.queries)
    }
}

impl<T: Element> Side<T> {
    /// Returns all keys or values: the input itself, or cached and new ones joined in the output or in `joined`.
    fn join<'a>(
        &self,
        counts: &Counts,
        inputs: &Inputs<'a>,
        outputs: &mut Outputs<'a>,
        joined: &'a mut [T],
        parallel: Parallel<'_>,
    ) -> Result<Rows<'a, T>, ExecError> {
        let &Counts { kv_heads, past, new, total, is_packed, .. } = counts;
        let x = inputs.get::<T>(self.new)?;
        let heads = Heads::new(kv_heads, new, self.elements, is_packed);
        let has_present = outputs.has(self.present);
        if !has_present && !inputs.has(self.past) {
            return Ok(Rows { data: x, heads });
        }
        let joined = if has_present { outputs.take::<T>(self.present)? } else { joined };
        let joined = &mut joined[..counts.cache_len(self.elements)];
        let past_x = if past > 0 { inputs.get::<T>(self.past)? } else { &[] };
        let (head_len, past_len) = (total * self.elements, past * self.elements);
        parallel.chunks_mut(joined, head_len, |index, joined| {
            let (cached, rest) = joined.split_at_mut(past_len);
            cached.copy_from_slice(&past_x[index * past_len..][..past_len]);
            let first = heads.at(index / kv_heads, index % kv_heads);
            for (row, y) in rest.chunks_exact_mut(self.elements.max(1)).enumerate() {
                y.copy_from_slice(&x[first + row * heads.row..][..self.elements]);
            }
            Ok(())
        })?;
        let heads = Heads::new(kv_heads, total, self.elements, false);
        Ok(Rows { data: joined, heads })
    }
}
