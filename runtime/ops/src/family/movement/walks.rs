//! Movements that walk along each input axis in fixed steps: slices, repetitions and padding. A walk maps the positions
//! of an output axis to positions of the input axis. It consists of runs, which copy elements in one way.

use udo_api::{Bits, Error, ExecError, FinalizeCx, MAX_RANK, Parallel};

use crate::family::partition::GRAIN;

/// The elements at positions before and after the input along an axis. GPU sources use the discriminants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// A fill value.
    Fill,
    /// The first or last element of the input.
    Edge,
    /// The elements in reverse order, without repeating the one at the end.
    Reflect,
    /// The elements from the other end.
    Wrap,
}

/// The input positions of an output axis: every `step`-th from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Number of output positions.
    pub(crate) len: usize,
    /// Input position of the first one; may be before or after the input.
    pub(crate) start: isize,
    /// 0 repeats one position. With negative steps all positions must be inside the input; with steps above 1,
    /// positions outside must have the fill value.
    pub(crate) step: isize,
    /// Number of input positions.
    pub(crate) input: usize,
    /// First input position of the used range, from which `start` counts.
    pub(crate) from: usize,
    /// Number of input positions in the used range.
    pub(crate) extent: usize,
    pub(crate) beyond: Beyond,
}

/// Output positions that read the input in the same way.
#[derive(Clone, Copy, Debug)]
struct Run {
    len: usize,
    /// Input position of the first one; `None` for the fill value.
    from: Option<usize>,
    advance: Advance,
}

/// How a run continues.
#[derive(Clone, Copy, Debug)]
enum Advance {
    /// In steps between input positions.
    Step(isize),
    /// By repeating this many positions.
    Cycle(usize),
}

impl Walk {
    /// Walks the whole axis.
    pub(crate) const fn whole(extent: usize) -> Self {
        Self {
            len: extent,
            start: 0,
            step: 1,
            input: extent,
            from: 0,
            extent,
            beyond: Beyond::Fill,
        }
    }

    /// Walks `len` positions from `start` on, `step` apart, all inside the input.
    pub(crate) const fn slice(extent: usize, start: usize, len: usize, step: isize) -> Self {
        let step = if len > 1 { step } else { 1 };
        Self { len, start: start as isize, step, ..Self::whole(extent) }
    }

    /// Repeats the axis `times` times.
    pub(crate) const fn times(extent: usize, times: usize) -> Self {
        let len = extent.saturating_mul(times);
        if extent == 1 && times != 1 {
            return Self { len, step: 0, ..Self::whole(1) };
        }
        Self { len, beyond: Beyond::Wrap, ..Self::whole(extent) }
    }

    /// Walks `len` positions of which the first `before` precede the input. A negative `before` skips input positions.
    pub(crate) fn padded(extent: usize, before: isize, len: usize, beyond: Beyond) -> Self {
        let skipped = before.min(0).unsigned_abs();
        let start = -before.max(0);
        // The elements after the skipped ones, up to the output's end if that is before the input's end.
        let remaining = extent.saturating_sub(skipped);
        let end = len.saturating_sub(start.unsigned_abs());
        let used = remaining.min(end);
        Self { len, start, step: 1, input: extent, from: skipped, extent: used, beyond }
    }

    const fn is_whole(&self) -> bool {
        let uses_all = self.from == 0 && self.extent == self.input;
        uses_all && self.start == 0 && self.step == 1 && self.len == self.extent
    }

    /// Returns the first input position if the output is a contiguous run of the input.
    fn offset(&self) -> Option<usize> {
        let start = usize::try_from(self.start).ok()?;
        (self.step == 1 && start + self.len <= self.extent).then_some(self.from + start)
    }

    /// Whether positions outside an empty input would have to be read from it.
    const fn lacks_elements(&self) -> bool {
        self.extent == 0 && self.len > 0 && !matches!(self.beyond, Beyond::Fill)
    }

    const fn repeats_element(&self) -> bool {
        self.step == 0 && self.input == 1
    }

    /// Returns the input position of output position `index`, or `None` for the fill value.
    fn source(&self, index: usize) -> Option<usize> {
        self.run(index, 1).from
    }

    /// Returns the run from output position `index` on, of at most `left` positions.
    #[inline]
    fn run(&self, index: usize, left: usize) -> Run {
        let Self { start, step, extent, .. } = *self;
        // Position in the used range of the input; may be outside.
        let (at, end) = (start + index as isize * step, extent as isize);
        let run_from = |len: usize, from: isize, advance: Advance| Run {
            len: len.min(left),
            from: usize::try_from(from).ok().map(|from| self.from + from),
            advance,
        };
        if (0..end).contains(&at) {
            return match step {
                0 => run_from(left, at, Advance::Cycle(1)),
                1 if self.beyond == Beyond::Wrap && at == 0 && left > extent => {
                    run_from(left, at, Advance::Cycle(extent))
                }
                1.. => {
                    run_from(((end - at) as usize).div_ceil(step as usize), at, Advance::Step(step))
                }
                _ => run_from(at as usize / step.unsigned_abs() + 1, at, Advance::Step(step)),
            };
        }
        let until_input =
            if at < 0 { at.unsigned_abs().div_ceil(step.unsigned_abs().max(1)) } else { left };
        match self.beyond {
            _ if extent == 0 => Run { len: left, from: None, advance: Advance::Step(1) },
            Beyond::Fill => {
                Run { len: until_input.min(left), from: None, advance: Advance::Step(1) }
            }
            Beyond::Edge => run_from(until_input, at.clamp(0, end - 1), Advance::Cycle(1)),
            Beyond::Reflect if extent == 1 => run_from(left, 0, Advance::Cycle(1)),
            Beyond::Wrap => {
                let at = at.rem_euclid(end);
                let advance = if at == 0 { Advance::Cycle(extent) } else { Advance::Step(1) };
                run_from(if at == 0 { left } else { (end - at) as usize }, at, advance)
            }
            Beyond::Reflect => {
                let period = 2 * (end - 1);
                let at = at.rem_euclid(period);
                if at < end - 1 {
                    run_from((end - 1 - at) as usize, at, Advance::Step(1))
                } else {
                    run_from((period - at) as usize, period - at, Advance::Step(-1))
                }
            }
        }
    }

    /// Merges this walk with that of the next axis, if both walk whole axes, or both repeat one element.
    fn with_inner(&self, inner: &Self) -> Option<Self> {
        let whole = Self::whole(self.extent * inner.extent);
        if self.is_whole() && inner.is_whole() {
            return Some(whole);
        }
        let repeats_element = self.repeats_element() && inner.repeats_element();
        repeats_element.then(|| Self { len: self.len * inner.len, step: 0, ..whole })
    }
}

/// Declares output 0 as a view of input 0 if the walks select a contiguous part of it.
pub(crate) fn tie_part(
    cx: &FinalizeCx<'_>,
    walks: impl Iterator<Item = Walk>,
) -> Result<(), Error> {
    let mut partial = walks.enumerate().filter(|(_, walk)| !walk.is_whole());
    match (partial.next(), partial.next()) {
        (None, _) => cx.tie_same(0, 0),
        (Some((axis, walk)), None) => match walk.offset() {
            Some(offset) => cx.tie_output_in_input(0, 0, axis, offset),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// One walk per output axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walks {
    /// Number of walks; neighbouring axes are merged where possible.
    rank: usize,
    along: [Walk; MAX_RANK],
    /// Elements per position of the last walk.
    inner: usize,
    /// Number of output elements.
    len: usize,
}

impl Walks {
    /// Combines the walks of all output axes.
    pub(crate) fn new(axes: impl Iterator<Item = Walk>) -> Self {
        let mut walks = Self { rank: 0, along: [Walk::whole(1); MAX_RANK], inner: 1, len: 1 };
        for walk in axes.take(MAX_RANK) {
            walks.len *= walk.len;
            let last = walks.rank.checked_sub(1).map(|last| &mut walks.along[last]);
            let merged = last.and_then(|last| Some((last.with_inner(&walk)?, last)));
            if let Some((merged, last)) = merged {
                *last = merged;
            } else {
                walks.along[walks.rank] = walk;
                walks.rank += 1;
            }
        }
        // If the last axis is complete, its elements are contiguous.
        if walks.rank > 1 && walks.along[walks.rank - 1].is_whole() {
            walks.rank -= 1;
            walks.inner = walks.along[walks.rank].len;
        }
        walks.rank = walks.rank.max(1);
        walks
    }

    /// Returns the number of output elements.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns each walk with its input stride.
    pub(super) fn axes(&self) -> Vec<(Walk, usize)> {
        let inner = (self.inner != 1).then_some(Walk::whole(self.inner));
        let mut axes: Vec<_> =
            self.along[..self.rank].iter().copied().chain(inner).map(|w| (w, 1)).collect();
        let mut stride = 1;
        for (walk, walk_stride) in axes.iter_mut().rev() {
            *walk_stride = stride;
            stride *= walk.input;
        }
        axes
    }

    /// Returns the input element of output element `index`, or `None` for the fill value.
    pub(super) fn place(&self, index: usize) -> Option<usize> {
        let (mut remaining, mut element) = (index / self.inner, index % self.inner);
        let mut stride = self.inner;
        for walk in self.along[..self.rank].iter().rev() {
            element += walk.source(remaining % walk.len)? * stride;
            remaining /= walk.len;
            stride *= walk.input;
        }
        Some(element)
    }

    /// Writes the output to the front of `y`, which is longer for a bounded output.
    pub(crate) fn copy<B: Bits>(
        &self,
        parallel: Parallel<'_>,
        x: &[B],
        y: &mut [B],
        fill: B,
    ) -> Result<(), ExecError> {
        if self.len == 0 {
            return Ok(());
        }
        if let Some(axis) = self.along.iter().position(Walk::lacks_elements) {
            return Err(ExecError::bad_value(0, axis));
        }
        let blocks = (GRAIN / self.inner).max(1);
        parallel.chunks_mut(&mut y[..self.len], blocks * self.inner, |chunk, y| {
            self.copy_from(chunk * blocks, x, y, fill);
            Ok(())
        })
    }

    /// Does the work of [`Walks::copy`] on the calling thread.
    pub(crate) fn copy_alone<B: Bits>(&self, x: &[B], y: &mut [B], fill: B) {
        if self.len > 0 {
            self.copy_from(0, x, y, fill);
        }
    }

    /// Writes `y` from position `first` of the last walk on, counted over the whole output.
    fn copy_from<B: Bits>(&self, first: usize, x: &[B], y: &mut [B], fill: B) {
        let last = self.along[self.rank - 1];
        let (mut rows, mut position) = (Rows::new(self, first / last.len), first % last.len);
        let mut remaining = y;
        while !remaining.is_empty() {
            let row_len = ((last.len - position) * self.inner).min(remaining.len());
            let (y, next) = remaining.split_at_mut(row_len);
            match rows.from() {
                Some(start) => self.copy_row(position, &x[start..], y, fill),
                None => y.fill(fill),
            }
            (remaining, position) = (next, 0);
            rows.next();
        }
    }

    /// Writes part of an output row, from `position` of the last walk on, from an input row.
    fn copy_row<B: Bits>(&self, mut position: usize, x: &[B], mut y: &mut [B], fill: B) {
        let (last, inner) = (&self.along[self.rank - 1], self.inner);
        while !y.is_empty() {
            let run = last.run(position, y.len() / inner);
            let (part, rest) = y.split_at_mut(run.len * inner);
            match run.from {
                Some(from) => copy_run(&x[from * inner..], x, from, run.advance, inner, part),
                None => part.fill(fill),
            }
            position += run.len;
            y = rest;
        }
    }
}

/// Writes one run of the input row `row`; `x` is `row` from position `from` on, and a position has `inner` elements.
fn copy_run<B: Bits>(x: &[B], row: &[B], from: usize, advance: Advance, inner: usize, y: &mut [B]) {
    match advance {
        Advance::Step(1) => y.copy_from_slice(&x[..y.len()]),
        Advance::Cycle(len) => cycle(&x[..len * inner], y),
        Advance::Step(step) if inner == 1 => {
            let stride = step.unsigned_abs();
            if step > 0 {
                y.iter_mut().zip(x.iter().step_by(stride)).for_each(|(y, x)| *y = *x);
            } else {
                let reversed = row[..=from].iter().rev().step_by(stride);
                y.iter_mut().zip(reversed).for_each(|(y, x)| *y = *x);
            }
        }
        Advance::Step(step) => {
            for (index, y) in y.chunks_exact_mut(inner).enumerate() {
                let position = (from as isize + index as isize * step) as usize;
                y.copy_from_slice(&row[position * inner..][..inner]);
            }
        }
    }
}

/// Fills `y` with repetitions of `x`.
pub(crate) fn cycle<B: Bits>(x: &[B], y: &mut [B]) {
    if let [x] = x {
        return y.fill(*x);
    }
    let mut filled = x.len().min(y.len());
    y[..filled].copy_from_slice(&x[..filled]);
    while filled < y.len() && filled > 0 {
        let next = filled.min(y.len() - filled);
        y.copy_within(..next, filled);
        filled += next;
    }
}

/// Iterates over the input row of each output row.
struct Rows<'a> {
    /// The walks of all axes but the last.
    outer: &'a [Walk],
    /// Input strides.
    strides: [usize; MAX_RANK],
    /// Output position along each axis.
    at: [usize; MAX_RANK],
    /// Input offset along each axis; `None` for the fill value.
    from: [Option<usize>; MAX_RANK],
}

impl<'a> Rows<'a> {
    fn new(walks: &'a Walks, first: usize) -> Self {
        let (outer, last) = walks.along[..walks.rank].split_at(walks.rank - 1);
        let mut rows =
            Self { outer, strides: [0; MAX_RANK], at: [0; MAX_RANK], from: [Some(0); MAX_RANK] };
        let mut stride = last.first().map_or(1, |last| last.input) * walks.inner;
        let mut remaining = first;
        for (axis, walk) in outer.iter().enumerate().rev() {
            rows.strides[axis] = stride;
            stride *= walk.input;
            rows.put(axis, remaining % walk.len);
            remaining /= walk.len;
        }
        rows
    }

    /// Sets the output position along an axis.
    fn put(&mut self, axis: usize, position: usize) {
        self.at[axis] = position;
        let source = self.outer[axis].source(position);
        self.from[axis] = source.map(|source| source * self.strides[axis]);
    }

    /// Returns the first element of the input row, or `None` if the output row has only fill values.
    fn from(&self) -> Option<usize> {
        self.from[..self.outer.len()].iter().try_fold(0, |sum, from| Some(sum + (*from)?))
    }

    /// Advances to the next output row.
    fn next(&mut self) {
        for (axis, walk) in self.outer.iter().enumerate().rev() {
            let next = self.at[axis] + 1;
            self.put(axis, if next == walk.len { 0 } else { next });
            if next < walk.len {
                break;
            }
        }
    }
}
