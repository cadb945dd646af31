//! Streams: sequences of runs.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::queue::{WaitingRun, remove};
use super::sync::{Condvar, Mutex};
use super::{check_may_wait, lock};
use crate::device::{Error, Result};

/// A sequence of runs. Runs begin in the order of their submission to the stream, each after the previous one has ended,
/// whatever their sessions and devices. A failed run does not prevent later ones from running. Clones refer to the same stream.
///
/// Runs of different streams, and those without a stream, run concurrently as far as frames and devices are free.
#[derive(Clone, Debug, Default)]
pub struct Stream(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<dyn WaitingRun>>,
    is_running: bool,
    submitted: u64,
    /// The numbers of the runs in flight.
    in_flight: Vec<u64>,
    /// The first run that no `sync` has waited for.
    reported: u64,
    /// The errors of runs that no `sync` has waited for, and their numbers.
    errors: Vec<(u64, Error)>,
    /// The number of waiting threads, for tests.
    #[cfg(all(test, not(loom)))]
    waiters: usize,
}

impl State {
    fn has_ended(&self, to: u64) -> bool {
        self.in_flight.iter().all(|&number| number >= to)
    }
}

impl Stream {
    /// Waits until all runs have ended that were submitted before.
    ///
    /// # Errors
    /// Returns the error of the first failed run since the last call of `sync`. All threads that wait for it get it. Fails in a
    /// callback, where waiting would never end.
    pub fn sync(&self) -> Result<()> {
        check_may_wait()?;
        let mut state = lock(&self.0.state);
        let (from, to) = (state.reported, state.submitted);
        #[cfg(all(test, not(loom)))]
        {
            state.waiters += 1;
        }
        while !state.has_ended(to) {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let failed = state.errors.iter().find(|(at, _)| (from..to).contains(at));
        let failed = failed.map(|(_, error)| error.clone());
        state.reported = state.reported.max(to);
        failed.map_or(Ok(()), Err)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn waiters(&self) -> usize {
        lock(&self.0.state).waiters
    }

    /// Returns whether runs are in flight.
    pub fn is_busy(&self) -> bool {
        !lock(&self.0.state).in_flight.is_empty()
    }

    /// Adds a run. Returns its number, and whether it begins now.
    pub(super) fn enter(&self, run: &Arc<impl WaitingRun + 'static>) -> (u64, bool) {
        let mut state = lock(&self.0.state);
        let number = state.submitted;
        state.submitted += 1;
        state.in_flight.push(number);
        let begins = !std::mem::replace(&mut state.is_running, true);
        if !begins {
            state.waiting.push_back(Arc::clone(run) as Arc<dyn WaitingRun>);
        }
        (number, begins)
    }

    /// Removes a waiting run. Returns whether it was waiting.
    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        remove(&mut lock(&self.0.state).waiting, run)
    }

    /// Removes an ended run. Calls `report`, which notifies its waiters, under the lock, so that no thread sees one change without
    /// the other. If the run had begun, returns the next run to begin.
    pub(super) fn leave<R>(
        &self,
        (number, had_begun): (u64, bool),
        failure: Option<Error>,
        report: impl FnOnce() -> R,
    ) -> (Option<Arc<dyn WaitingRun>>, R) {
        let mut state = lock(&self.0.state);
        let reported_to = report();
        state.in_flight.retain(|&other| other != number);
        let reported = state.reported;
        state.errors.retain(|(at, _)| *at >= reported);
        if let Some(error) = failure {
            let at = state.errors.partition_point(|(at, _)| *at < number);
            state.errors.insert(at, (number, error));
        }
        let next = if had_begun { state.waiting.pop_front() } else { None };
        if had_begun && next.is_none() {
            state.is_running = false;
        }
        drop(state);
        self.0.changed.notify_all();
        (next, reported_to)
    }
}
