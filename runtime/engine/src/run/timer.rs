//! Enforces the time limits of runs. The thread starts with the first run that has a limit.

use std::ptr;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

use super::lock;
use super::queue::WaitingRun;
use super::sync::{Condvar, Mutex, thread};
use super::work::Cause;

/// The runs with a time limit.
#[derive(Debug, Default)]
pub(super) struct Timer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<Limit>,
    /// The number of limits that may exist at the same time.
    capacity: usize,
    is_started: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Limit {
    at: Instant,
    run: Weak<dyn WaitingRun>,
    submission: u64,
}

impl Timer {
    /// Reserves space for more limits, so that submitting does not.
    pub(super) fn reserve(&self, more: usize) {
        let mut state = lock(&self.0.state);
        let State { runs, capacity, .. } = &mut *state;
        *capacity += more;
        runs.reserve(capacity.saturating_sub(runs.len()));
    }

    /// Returns reserved space.
    pub(super) fn release(&self, fewer: usize) {
        lock(&self.0.state).capacity -= fewer;
    }

    /// Starts the thread, unless it is running.
    pub(super) fn start(&self) -> std::io::Result<()> {
        let mut state = lock(&self.0.state);
        if !state.is_started {
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("udo-timer".to_owned()).spawn(move || shared.serve())?;
            state.is_started = true;
        }
        Ok(())
    }

    /// Stops this submission of a run at time `at`, unless it has ended.
    pub(super) fn set(&self, at: Instant, run: &Arc<impl WaitingRun + 'static>, submission: u64) {
        let mut state = lock(&self.0.state);
        let is_first = state.runs.iter().all(|limit| at < limit.at);
        let run = Arc::downgrade(&(Arc::clone(run) as Arc<dyn WaitingRun>));
        state.runs.push(Limit { at, run, submission });
        drop(state);
        if is_first {
            self.0.changed.notify_one();
        }
    }

    /// Removes the limit of an ended run.
    pub(super) fn clear(&self, run: &dyn WaitingRun) {
        let mut state = lock(&self.0.state);
        let is_its = |limit: &Limit| ptr::addr_eq(limit.run.as_ptr(), run);
        if let Some(at) = state.runs.iter().position(is_its) {
            state.runs.swap_remove(at);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = lock(&self.state);
        while !state.is_closed {
            let now = Instant::now();
            if let Some(at) = state.runs.iter().position(|limit| limit.at <= now) {
                let limit = state.runs.swap_remove(at);
                drop(state);
                if let Some(run) = limit.run.upgrade() {
                    run.stop(limit.submission, Cause::TimedOut);
                }
                state = lock(&self.state);
                continue;
            }
            let next = state.runs.iter().map(|limit| limit.at).min();
            state = match next {
                Some(at) => {
                    let wait = at.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
