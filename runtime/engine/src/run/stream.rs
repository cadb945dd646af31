//! Streams: runs one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::queue::{WaitingRun, remove};
use super::sync::{Condvar, Mutex};
use super::{check_may_wait, lock};
use crate::device::{Error, Result};

/// Runs that are submitted to a stream begin one after the other, in the order of their submission, whichever sessions and
/// devices they are of. One that fails does not keep those behind it from running. Clones are the same stream.
///
/// Runs of different streams, and those of none, run beside each other as far as there are frames and devices.
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
    /// The numbers of the runs that have not ended.
    in_flight: Vec<u64>,
    /// Up to which run somebody waited.
    reported: u64,
    /// What failed behind that, and which run it was.
    errors: Vec<(u64, Error)>,
    /// How many threads wait, for tests that want to know.
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
    /// That of the first of them that failed, of those behind the ones that somebody waited for before; everybody who
    /// waits for it gets it. Or a callback waits, which would never end.
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

    /// Whether runs are in flight.
    pub fn is_busy(&self) -> bool {
        !lock(&self.0.state).in_flight.is_empty()
    }

    /// Takes a run: its number, and whether it begins now.
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

    /// Takes a run out of those that wait; whether it was one.
    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        remove(&mut lock(&self.0.state).waiting, run)
    }

    /// Counts a run that ended, once `report` has told who waits for it, so that nobody sees the one without the other. Where it
    /// had begun, the next one does, which is returned.
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
