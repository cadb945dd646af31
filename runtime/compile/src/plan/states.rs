//! Avoids copies of loop states: the values that an iteration of a loop passes to the next one. A renewal is the copy
//! at the end of an iteration that updates a state.
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
    /// The state of which it is a copy, and the copying step, which becomes unnecessary.
    copy_of: Option<(WindowId, usize)>,
}

impl Lowered {
    /// Finds states whose next value is another state, or the state itself, through a view without other consumers. The
    /// view is treated like a copy.
    fn find_views(&mut self) {
        let Self { steps, renewals, .. } = self;
        for index in 0..renewals.len() {
            let Renewal { next, until, iteration, copy_of, .. } = renewals[index];
            let inside = (iteration.first..=iteration.last)
                .filter_map(|step| Some((step, steps.get(step)?)));
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
                .find(|other| other.iteration == iteration && input.window() == Some(other.state));
            if let (Some(other), None, true) = (other, copy_of, step < until) {
                renewals[index].copy_of = Some((other.state, step));
                steps[step].ties.clear();
            }
        }
    }

    /// Marks the part of an iteration in which the window of each state is free.
    pub(super) fn record_idle(&mut self) {
        self.find_views();
        let Self { steps, windows, repeated, renewals, .. } = self;
        for &Renewal { state, next, until, iteration, .. } in renewals.iter() {
            let touches = |step: &Step| step.operands().any(|o| o.window() == Some(state));
            let mut inside = iteration.first..until;
            let last = inside.rfind(|&step| steps.get(step).is_some_and(touches));
            let mut after = last.unwrap_or(iteration.first.saturating_sub(1));
            // Another state's next value is a copy of this state: it is read until the renewals begin.
            let same_loop = renewals.iter().filter(|other| other.iteration == iteration);
            if same_loop.filter_map(|other| other.copy_of).any(|(other, _)| other == state) {
                after = until.saturating_sub(1);
            }
            // Loops inside this one read it repeatedly.
            for inner in repeated.iter().filter(|inner| inner.last < iteration.last) {
                if inner.first <= after && after <= inner.last {
                    after = inner.last;
                }
            }
            windows.set_idle(state, Idle { after, until, next });
        }
    }
}

/// Removes unnecessary copies of states. `realized` has the ties of each step that shared memory realizes.
pub(super) fn elide_copies(lowered: &mut Lowered, realized: &mut [Vec<Tie>]) {
    let renewals = std::mem::take(&mut lowered.renewals);
    for renewal in renewals.iter().filter(|renewal| renewal.copy_of.is_none()) {
        let within = Within { step: renewal.step, offset: 0, pitch: None };
        if lowered.windows.unify(renewal.next, renewal.state, within, Share::Next) {
            drop_copy(lowered, renewal.step, realized);
        }
    }
    for loop_renewals in renewals.chunk_by(|a, b| a.iteration == b.iteration) {
        exchange(lowered, loop_renewals, realized);
    }
    reserve(lowered);
}

/// Removes a copying step, whose source and destination share memory now.
fn drop_copy(lowered: &mut Lowered, step: usize, realized: &mut [Vec<Tie>]) {
    let Some(copy) = lowered.steps.get(step) else { return };
    let touched: Vec<_> = copy.operands().filter_map(Operand::window).collect();
    lowered.windows.drop_step(step, &touched);
    if let Some(realized) = realized.get_mut(step) {
        realized.push(tie::SAME);
    }
}

/// Exchanges buffers for as many states of a loop as possible.
fn exchange(lowered: &mut Lowered, renewals: &[Renewal], realized: &mut [Vec<Tie>]) {
    let windows = &lowered.windows;
    let is_copied = |renewal: &&Renewal| realized.get(renewal.step).is_some_and(Vec::is_empty);
    let fills = |renewal: &&Renewal| windows.filled(renewal.state).is_some();
    let mut candidates: Vec<Renewal> =
        renewals.iter().filter(is_copied).filter(fills).copied().collect();
    let sources = loop {
        match sources(windows, &candidates) {
            Ok(sources) => break sources,
            Err(unsuitable) => drop(candidates.remove(unsuitable)),
        }
    };
    // The buffer whose original contents each buffer has after the exchanges so far.
    let mut contents: BTreeMap<usize, usize> = BTreeMap::new();
    for (renewal, source) in candidates.iter().zip(sources) {
        let Some(target) = lowered.windows.filled(renewal.state) else { continue };
        let moved = contents.iter().find(|&(_, &original)| original == source.buffer);
        let moved = moved.map(|(&buffer, _)| buffer);
        let from = moved.unwrap_or(source.buffer);
        if from != target {
            let replaced = contents.insert(target, source.buffer).unwrap_or(target);
            contents.insert(from, replaced);
            let after = renewal.iteration.last;
            lowered.exchanges.push(Exchange { after, buffers: [target, from] });
        }
        drop_copy(lowered, renewal.step, realized);
        if let Some((_, step)) = source.copy_of {
            drop_copy(lowered, step, realized);
            lowered.windows.forget(renewal.next);
        }
    }
}

/// Returns a distinct buffer with the next value of each state, or the index of a state without one.
fn sources(windows: &Windows, candidates: &[Renewal]) -> Result<Vec<Source>, usize> {
    let mut sources: Vec<Source> = Vec::with_capacity(candidates.len());
    for (index, renewal) in candidates.iter().enumerate() {
        let is_free = |buffer: &usize| sources.iter().all(|source| source.buffer != *buffer);
        let target = windows.filled(renewal.state);
        let size =
            target.and_then(|buffer| windows.buffers.get(buffer)).map(|b| (b.memory, b.bytes));
        let is_alike = |buffer: &usize| {
            let other = windows.buffers.get(*buffer).map(|b| (b.memory, b.bytes));
            Some(*buffer) != target && other == size && is_free(buffer)
        };
        // Another state that is exchanged itself can be used directly.
        let is_candidate = |state: WindowId| candidates.iter().any(|other| other.state == state);
        let original = renewal.copy_of.filter(|(state, _)| is_candidate(*state));
        let original = original.and_then(|copy_of| {
            let (state, _) = copy_of;
            let buffer = windows.filled(state)?;
            let is_target = Some(buffer) == target && is_free(&buffer);
            let fits = is_target || is_alike(&buffer);
            fits.then_some(Source { buffer, copy_of: Some(copy_of) })
        });
        let from_next = || {
            let buffer = windows.filled(renewal.next).filter(is_alike)?;
            let is_local = windows.is_live_within(buffer, renewal.iteration);
            is_local.then_some(Source { buffer, copy_of: None })
        };
        sources.push(original.or_else(from_next).ok_or(index)?);
    }
    Ok(sources)
}

/// Keeps exchanged buffers in place while any of them is in use.
fn reserve(lowered: &mut Lowered) {
    let Lowered { windows, exchanges, .. } = lowered;
    loop {
        let mut is_stable = true;
        for &Exchange { buffers, .. } in exchanges.iter() {
            let lives = buffers.map(|buffer| windows.buffers.get(buffer)?.life(&windows.all));
            let Some(span) = lives.into_iter().flatten().reduce(Life::and) else { continue };
            for (buffer, life) in buffers.into_iter().zip(lives) {
                if life != Some(span) {
                    windows.reserve(buffer, span);
                    is_stable = false;
                }
            }
        }
        if is_stable {
            break;
        }
    }
    // A reserved buffer keeps its strides, too.
    for &Exchange { after, buffers } in exchanges.iter() {
        for buffer in buffers {
            windows.reserve(buffer, Life { first: after, last: after });
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
    for (number, buffer) in
        buffers.iter().filter_map(|&buffer| windows.buffers.get(buffer)).enumerate()
    {
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
