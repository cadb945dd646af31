//! Movements that walk along each input axis in fixed steps: slices, repetitions, padding.

use udo_api::{Bits, Error, ExecError, FinalizeCx, MAX_RANK, Parallel};

use crate::family::partition::GRAIN;

/// The elements before and after the input along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// A fill value.
    Fill,
    /// The element at that end.
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
    /// 0 repeats one position. Negative steps require that nothing is beyond the input; steps above 1 allow a fill
    /// value as well.
    pub(crate) step: isize,
    /// Number of input positions.
    pub(crate) input: usize,
    /// The range of input positions that is used: its first position, from which `start` counts, and its length.
    pub(crate) from: usize,
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
    Step(isize),
    /// This many positions, repeated.
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

    /// Walks `len` positions of which the first `before` precede the input. A negative `before` crops.
    pub(crate) fn padded(extent: usize, before: isize, len: usize, beyond: Beyond) -> Self {
        let cut = before.min(0).unsigned_abs();
        let start = -before.max(0);
        // The elements after the crop, up to the output's end if that is cropped as well.
        let left = extent.saturating_sub(cut);
        let end = len.saturating_sub(start.unsigned_abs());
        Self { len, start, step: 1, input: extent, from: cut, extent: left.min(end), beyond }
    }

    const fn is_whole(&self) -> bool {
        let is_all = self.from == 0 && self.extent == self.input;
        is_all && self.start == 0 && self.step == 1 && self.len == self.extent
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

    const fn repeats_one(&self) -> bool {
        self.step == 0 && self.input == 1
    }

    /// Returns the input position of output position `at`.
    fn source(&self, at: usize) -> Option<usize> {
        self.run(at, 1).from
    }

    /// Returns the run from output position `at` on, of at most `left` positions.
    #[inline]
    fn run(&self, at: usize, left: usize) -> Run {
        let Self { start, step, extent, .. } = *self;
        let (at, end) = (start + at as isize * step, extent as isize);
        let here = |len: usize, from: isize, advance: Advance| Run {
            len: len.min(left),
            from: usize::try_from(from).ok().map(|from| self.from + from),
            advance,
        };
        if (0..end).contains(&at) {
            return match step {
                0 => here(left, at, Advance::Cycle(1)),
                1 if self.beyond == Beyond::Wrap && at == 0 && left > extent => {
                    here(left, at, Advance::Cycle(extent))
                }
                1.. => here(((end - at) as usize).div_ceil(step as usize), at, Advance::Step(step)),
                _ => here(at as usize / step.unsigned_abs() + 1, at, Advance::Step(step)),
            };
        }
        let until_input =
            if at < 0 { at.unsigned_abs().div_ceil(step.unsigned_abs().max(1)) } else { left };
        match self.beyond {
            _ if extent == 0 => Run { len: left, from: None, advance: Advance::Step(1) },
            Beyond::Fill => {
                Run { len: until_input.min(left), from: None, advance: Advance::Step(1) }
            }
            Beyond::Edge => here(until_input, at.clamp(0, end - 1), Advance::Cycle(1)),
            Beyond::Reflect if extent == 1 => here(left, 0, Advance::Cycle(1)),
            Beyond::Wrap => {
                let at = at.rem_euclid(end);
                let advance = if at == 0 { Advance::Cycle(extent) } else { Advance::Step(1) };
                here(if at == 0 { left } else { (end - at) as usize }, at, advance)
            }
            Beyond::Reflect => {
                let period = 2 * (end - 1);
                let at = at.rem_euclid(period);
                if at < end - 1 {
                    here((end - 1 - at) as usize, at, Advance::Step(1))
                } else {
                    here((period - at) as usize, period - at, Advance::Step(-1))
                }
            }
        }
    }

    /// Merges the walks of two neighbouring axes, if possible.
    fn with_inner(&self, inner: &Self) -> Option<Self> {
        let whole = Self::whole(self.extent * inner.extent);
        if self.is_whole() && inner.is_whole() {
            return Some(whole);
        }
        let is_one = self.repeats_one() && inner.repeats_one();
        is_one.then(|| Self { len: self.len * inner.len, step: 0, ..whole })
    }
}

/// Declares output 0 as a view of input 0 where the walks select a contiguous part.
pub(crate) fn tie_part(
    cx: &FinalizeCx<'_>,
    walks: impl Iterator<Item = Walk>,
) -> Result<(), Error> {
    let mut cut = walks.enumerate().filter(|(_, walk)| !walk.is_whole());
    match (cut.next(), cut.next()) {
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
    len: usize,
}

impl Walks {
    pub(crate) fn new(each: impl Iterator<Item = Walk>) -> Self {
        let mut all = Self { rank: 0, along: [Walk::whole(1); MAX_RANK], inner: 1, len: 1 };
        for walk in each.take(MAX_RANK) {
            all.len *= walk.len;
            let last = all.rank.checked_sub(1).map(|last| &mut all.along[last]);
            if let Some((both, last)) = last.and_then(|last| Some((last.with_inner(&walk)?, last)))
            {
                *last = both;
            } else {
                all.along[all.rank] = walk;
                all.rank += 1;
            }
        }
        // If the last axis is complete, its elements are contiguous.
        if all.rank > 1 && all.along[all.rank - 1].is_whole() {
            all.rank -= 1;
            all.inner = all.along[all.rank].len;
        }
        all.rank = all.rank.max(1);
        all
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
        for (walk, own) in axes.iter_mut().rev() {
            *own = stride;
            stride *= walk.input;
        }
        axes
    }

    /// Returns the input position of output element `i`.
    pub(super) fn place(&self, i: usize) -> Option<usize> {
        let (mut rest, mut place) = (i / self.inner, i % self.inner);
        let mut stride = self.inner;
        for walk in self.along[..self.rank].iter().rev() {
            place += walk.source(rest % walk.len)? * stride;
            rest /= walk.len;
            stride *= walk.input;
        }
        Some(place)
    }

    /// Writes `y`, of which a bounded output uses a prefix.
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

    /// Like [`Walks::copy`], on the calling thread.
    pub(crate) fn copy_alone<B: Bits>(&self, x: &[B], y: &mut [B], fill: B) {
        if self.len > 0 {
            self.copy_from(0, x, y, fill);
        }
    }

    /// Writes `y` from position `first` of the last walk on, counted over the whole output.
    fn copy_from<B: Bits>(&self, first: usize, x: &[B], y: &mut [B], fill: B) {
        let last = self.along[self.rank - 1];
        let (mut rows, mut at) = (Rows::new(self, first / last.len), first % last.len);
        let mut left = y;
        while !left.is_empty() {
            let row = ((last.len - at) * self.inner).min(left.len());
            let (y, rest) = left.split_at_mut(row);
            match rows.from() {
                Some(from) => self.copy_row(at, &x[from..], y, fill),
                None => y.fill(fill),
            }
            (left, at) = (rest, 0);
            rows.next();
        }
    }

    /// Writes part of an output row, from position `at` of the last walk on, from an input row.
    fn copy_row<B: Bits>(&self, mut at: usize, x: &[B], mut y: &mut [B], fill: B) {
        let (last, inner) = (&self.along[self.rank - 1], self.inner);
        while !y.is_empty() {
            let run = last.run(at, y.len() / inner);
            let (part, rest) = y.split_at_mut(run.len * inner);
            match run.from {
                Some(from) => copy_run(&x[from * inner..], x, from, run.advance, inner, part),
                None => part.fill(fill),
            }
            at += run.len;
            y = rest;
        }
    }
}

/// Writes one run: `x` is `row` from position `from` on.
fn copy_run<B: Bits>(x: &[B], row: &[B], from: usize, advance: Advance, inner: usize, y: &mut [B]) {
    match advance {
        Advance::Step(1) => y.copy_from_slice(&x[..y.len()]),
        Advance::Cycle(len) => cycle(&x[..len * inner], y),
        Advance::Step(step) if inner == 1 => {
            let far = step.unsigned_abs();
            if step > 0 {
                y.iter_mut().zip(x.iter().step_by(far)).for_each(|(y, x)| *y = *x);
            } else {
                let back = row[..=from].iter().rev().step_by(far);
                y.iter_mut().zip(back).for_each(|(y, x)| *y = *x);
            }
        }
        Advance::Step(step) => {
            for (at, y) in y.chunks_exact_mut(inner).enumerate() {
                let position = (from as isize + at as isize * step) as usize;
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
    let mut done = x.len().min(y.len());
    y[..done].copy_from_slice(&x[..done]);
    while done < y.len() && done > 0 {
        let next = done.min(y.len() - done);
        y.copy_within(..next, done);
        done += next;
    }
}

/// Iterates over the input row of each output row.
struct Rows<'a> {
    outer: &'a [Walk],
    /// Input strides.
    strides: [usize; MAX_RANK],
    at: [usize; MAX_RANK],
    from: [Option<usize>; MAX_RANK],
}

impl<'a> Rows<'a> {
    fn new(walks: &'a Walks, first: usize) -> Self {
        let (outer, last) = walks.along[..walks.rank].split_at(walks.rank - 1);
        let mut rows =
            Self { outer, strides: [0; MAX_RANK], at: [0; MAX_RANK], from: [Some(0); MAX_RANK] };
        let mut stride = last.first().map_or(1, |last| last.input) * walks.inner;
        let mut left = first;
        for (axis, walk) in outer.iter().enumerate().rev() {
            rows.strides[axis] = stride;
            stride *= walk.input;
            rows.put(axis, left % walk.len);
            left /= walk.len;
        }
        rows
    }

    fn put(&mut self, axis: usize, at: usize) {
        self.at[axis] = at;
        self.from[axis] = self.outer[axis].source(at).map(|from| from * self.strides[axis]);
    }

    /// Returns the first element of the row, or `None` if all of it is fill.
    fn from(&self) -> Option<usize> {
        self.from[..self.outer.len()].iter().try_fold(0, |sum, from| Some(sum + (*from)?))
    }

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
