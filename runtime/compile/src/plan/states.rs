//! Avoids copies of loop states.
//!
//! By default, the next state that an iteration computes is copied to the place of the current one. If the current
//! state has been read for the last time before the next one is written, the next one is written in its place.
//! Otherwise both have buffers of the same size, which are exchanged after each iteration. The exchange applies to all
//! steps that use them, inside the loop and outside, so nothing has to be restored for the next run.

use std::collections::BTreeMap;

use udo_api::abi::Tie;

use super::lowered::{Exchange, Lowered, Renewal};
use super::region::Life;
use super::windows::{Idle, Share, WindowId, Windows, Within};
use super::{Operand, Step, WindowPlace, tie};

/// The buffer with a state's next value, if no copy is needed.
struct Source {
    buffer: usize,
    /// The copy of another state that becomes unnecessary.
    aside: Option<(WindowId, usize)>,
}

impl Lowered {
    /// Finds states whose next value is another state, or the state itself, through a view without other consumers. The
    /// view is treated like a copy.
    fn note_views(&mut self) {
        let Self { steps, renewals, .. } = self;
        for at in 0..renewals.len() {
            let Renewal { next, until, trip, aside, .. } = renewals[at];
            let inside = (trip.first..=trip.last).filter_map(|at| Some((at, steps.get(at)?)));
            let touches = |step: &Step| step.operands().any(|o| o.window() == Some(next));
            let mut touching = inside.filter(|(_, step)| touches(step));
            let (Some((step, view)), Some(_), None) =
                (touching.next(), touching.next(), touching.next())
            else {
                continue;
            };
            let ([input], [tie::SAME]) = (&*view.inputs, &*view.ties) else { continue };
            let other = renewals
                .iter()
                .find(|other| other.trip == trip && input.window() == Some(other.state));
            if let (Some(other), None, true) = (other, aside, step < until) {
                renewals[at].aside = Some((other.state, step));
                steps[step].ties.clear();
            }
        }
    }

    /// Marks the part of an iteration in which the window of each state is free.
    pub(super) fn note_idle(&mut self) {
        self.note_views();
        let Self { steps, windows, repeated, renewals, .. } = self;
        for &Renewal { state, next, until, trip, .. } in renewals.iter() {
            let touches = |step: &Step| step.operands().any(|o| o.window() == Some(state));
            let mut inside = trip.first..until;
            let last = inside.rfind(|&at| steps.get(at).is_some_and(touches));
            let mut after = last.unwrap_or(trip.first.saturating_sub(1));
            let of_trip = renewals.iter().filter(|other| other.trip == trip);
            if of_trip.filter_map(|other| other.aside).any(|(other, _)| other == state) {
                after = until.saturating_sub(1);
            }
            // Loops inside this one read it repeatedly.
            for inner in repeated.iter().filter(|inner| inner.last < trip.last) {
                if inner.first <= after && after <= inner.last {
                    after = inner.last;
                }
            }
            windows.set_idle(state, Idle { after, until, next });
        }
    }
}

/// Removes unnecessary copies of states.
pub(super) fn keep(lowered: &mut Lowered, done: &mut [Vec<Tie>]) {
    let renewals = std::mem::take(&mut lowered.renewals);
    for renewal in renewals.iter().filter(|renewal| renewal.aside.is_none()) {
        let within = Within { step: renewal.step, offset: 0, pitch: None };
        if lowered.windows.unify(renewal.next, renewal.state, within, Share::Next) {
            drop_copy(lowered, renewal.step, done);
        }
    }
    for of_trip in renewals.chunk_by(|a, b| a.trip == b.trip) {
        exchange(lowered, of_trip, done);
    }
    hold(lowered);
}

fn drop_copy(lowered: &mut Lowered, step: usize, done: &mut [Vec<Tie>]) {
    let Some(copy) = lowered.steps.get(step) else { return };
    let touched: Vec<_> = copy.operands().filter_map(Operand::window).collect();
    lowered.windows.drop_step(step, &touched);
    if let Some(done) = done.get_mut(step) {
        done.push(tie::SAME);
    }
}

/// Exchanges buffers for as many states of a loop as possible.
fn exchange(lowered: &mut Lowered, renewals: &[Renewal], done: &mut [Vec<Tie>]) {
    let windows = &lowered.windows;
    let is_copied = |renewal: &&Renewal| done.get(renewal.step).is_some_and(Vec::is_empty);
    let fills = |renewal: &&Renewal| windows.filled(renewal.state).is_some();
    let mut wanted: Vec<Renewal> =
        renewals.iter().filter(is_copied).filter(fills).copied().collect();
    let sources = loop {
        match sources(windows, &wanted) {
            Ok(sources) => break sources,
            Err(without) => drop(wanted.remove(without)),
        }
    };
    // The current contents of the buffers, while exchanges are being found.
    let mut has: BTreeMap<usize, usize> = BTreeMap::new();
    for (renewal, source) in wanted.iter().zip(sources) {
        let Some(target) = lowered.windows.filled(renewal.state) else { continue };
        let moved = has.iter().find(|&(_, &what)| what == source.buffer).map(|(&at, _)| at);
        let from = moved.unwrap_or(source.buffer);
        if from != target {
            let there = has.insert(target, source.buffer).unwrap_or(target);
            has.insert(from, there);
            let after = renewal.trip.last;
            lowered.exchanges.push(Exchange { after, buffers: [target, from] });
        }
        drop_copy(lowered, renewal.step, done);
        if let Some((_, step)) = source.aside {
            drop_copy(lowered, step, done);
            lowered.windows.forget(renewal.next);
        }
    }
}

/// Returns a distinct buffer with the next value of each state, or the index of a state without one.
fn sources(windows: &Windows, wanted: &[Renewal]) -> Result<Vec<Source>, usize> {
    let mut sources: Vec<Source> = Vec::with_capacity(wanted.len());
    for (at, renewal) in wanted.iter().enumerate() {
        let is_free = |buffer: &usize| sources.iter().all(|source| source.buffer != *buffer);
        let target = windows.filled(renewal.state);
        let size =
            target.and_then(|buffer| windows.buffers.get(buffer)).map(|b| (b.memory, b.bytes));
        let is_alike = |buffer: &usize| {
            let other = windows.buffers.get(*buffer).map(|b| (b.memory, b.bytes));
            Some(*buffer) != target && other == size && is_free(buffer)
        };
        // Another state that is exchanged itself can be used directly.
        let other = renewal.aside.filter(|(other, _)| wanted.iter().any(|w| w.state == *other));
        let other = other.and_then(|aside| {
            let buffer = windows.filled(aside.0)?;
            let is_there = Some(buffer) == target && is_free(&buffer);
            (is_there || is_alike(&buffer)).then_some(Source { buffer, aside: Some(aside) })
        });
        let made = || {
            let buffer = windows.filled(renewal.next).filter(is_alike)?;
            windows.is_of(buffer, renewal.trip).then_some(Source { buffer, aside: None })
        };
        sources.push(other.or_else(made).ok_or(at)?);
    }
    Ok(sources)
}

/// Keeps exchanged buffers in place while any of them is in use.
fn hold(lowered: &mut Lowered) {
    let Lowered { windows, exchanges, .. } = lowered;
    loop {
        let mut is_held = true;
        for &Exchange { buffers, .. } in exchanges.iter() {
            let lives = buffers.map(|at| windows.buffers.get(at)?.life(&windows.all));
            let Some(all) = lives.into_iter().flatten().reduce(Life::and) else { continue };
            for (buffer, life) in buffers.into_iter().zip(lives) {
                if life != Some(all) {
                    windows.hold(buffer, all);
                    is_held = false;
                }
            }
        }
        if is_held {
            break;
        }
    }
    // Rows keep their strides.
    for &Exchange { after, buffers } in exchanges.iter() {
        for buffer in buffers {
            windows.hold(buffer, Life { first: after, last: after });
        }
    }
}

/// Records at windows which exchanged place they use; returns the exchanges and the offsets of the places.
pub(super) fn placed(
    lowered: &Lowered,
    places: &mut [WindowPlace],
) -> (Vec<super::Exchange>, Vec<usize>) {
    let Lowered { windows, exchanges, .. } = lowered;
    let mut buffers: Vec<usize> = exchanges.iter().flat_map(|exchange| exchange.buffers).collect();
    buffers.sort_unstable();
    buffers.dedup();
    let mut starts = Vec::with_capacity(buffers.len());
    for (number, buffer) in buffers.iter().filter_map(|&at| windows.buffers.get(at)).enumerate() {
        let mut start = usize::MAX;
        for &window in &buffer.windows {
            let Some(place) = places.get_mut(window) else { continue };
            place.exchanged = Some(number);
            start = start.min(place.offset);
        }
        starts.push(start);
    }
    let number = |buffer: usize| buffers.binary_search(&buffer).unwrap_or(usize::MAX);
    let numbered = |exchange: &Exchange| super::Exchange {
        after: exchange.after,
        places: exchange.buffers.map(number),
    };
    (exchanges.iter().map(numbered).collect(), starts)
}
