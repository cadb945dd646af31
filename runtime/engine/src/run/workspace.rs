//! Workspaces that sessions share: memory as large as the largest need of one session, used by one run at a time.
//!
//! A submitted run waits for its turn in a list after a thread of a queue took it; the thread continues with other runs. So no
//! thread blocks on the workspace while its owner waits for a queue. A run on the caller's thread blocks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};

use super::queue::{WaitingRun, is_same};
use super::sync::{Condvar, Mutex};
use super::{Priority, check_may_wait, lock};
use crate::device::{Device, Result, SharedMemory};

/// Memory for arenas and scratch buffers that sessions of any models share: as much as the largest session needs, not the sum of
/// all. One run at a time uses it, from its first step to its end. Others wait, ordered by priority and arrival. Clones refer to
/// the same workspace.
#[derive(Clone, Default)]
pub struct SharedWorkspace(Arc<Inner>);

#[derive(Default)]
struct Inner {
    memory: Arc<SharedMemory>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    /// By priority, the highest first; in the order of arrival for equal priorities.
    waiting: [VecDeque<Waiter>; Priority::COUNT],
    /// The number of runs that may wait at the same time.
    capacity: usize,
    /// The number of the next waiting thread.
    next: u64,
    /// The thread that gets the next turn.
    turn_of: Option<u64>,
}

enum Waiter {
    Run(Arc<dyn WaitingRun>),
    Thread(u64),
}

impl fmt::Debug for SharedWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedWorkspace(taken: {})", lock(&self.0.state).is_taken)
    }
}

/// Handles of the same workspace are equal.
impl PartialEq for SharedWorkspace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedWorkspace {}

/// Exclusive use of a workspace by a thread, until this is dropped.
#[derive(Debug)]
pub struct WorkspaceGuard<'a>(&'a SharedWorkspace);

impl Drop for WorkspaceGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl SharedWorkspace {
    /// How many bytes of a device it has.
    pub fn bytes(&self, device: &Device) -> u64 {
        self.0.memory.bytes(device)
    }

    /// Takes the workspace for a run, or queues the run. Returns whether it was taken.
    pub(super) fn take(&self, run: &Arc<impl WaitingRun + 'static>) -> bool {
        let mut state = lock(&self.0.state);
        if !state.is_taken {
            state.is_taken = true;
            return true;
        }
        if let Some(waiting) = state.waiting.get_mut(run.priority().place()) {
            waiting.push_back(Waiter::Run(Arc::clone(run) as Arc<dyn WaitingRun>));
        }
        false
    }

    /// Removes a waiting run. Returns whether it was waiting.
    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        let is_its = |waiter: &Waiter| matches!(waiter, Waiter::Run(other) if is_same(other, run) && other.is_stopped());
        lock(&self.0.state).waiting.iter_mut().any(|waiting| {
            let at = waiting.iter().position(is_its);
            at.is_some_and(|at| waiting.remove(at).is_some())
        })
    }

    /// Releases the workspace and passes it to the first waiter.
    pub(super) fn leave(&self) {
        let next = {
            let mut state = lock(&self.0.state);
            match state.waiting.iter_mut().find_map(VecDeque::pop_front) {
                Some(Waiter::Run(run)) => Some(run),
                Some(Waiter::Thread(number)) => {
                    state.turn_of = Some(number);
                    None
                }
                None => {
                    state.is_taken = false;
                    return;
                }
            }
        };
        match next {
            Some(next) => next.continue_in_workspace(),
            None => self.0.changed.notify_all(),
        }
    }
}

/// How sessions use a shared workspace.
pub trait UseWorkspace {
    /// The memory that sessions use in turn.
    fn memory(&self) -> &Arc<SharedMemory>;

    /// Reserves room for this many more waiting runs, so that waiting does not allocate.
    fn reserve(&self, more: usize);

    /// Gives back room that was reserved.
    fn release(&self, fewer: usize);

    /// Waits until this thread may use the workspace. Does not allocate.
    ///
    /// # Errors
    /// The caller is a callback of a run, which may not wait for other runs.
    fn enter(&self) -> Result<WorkspaceGuard<'_>>;
}

impl UseWorkspace for SharedWorkspace {
    fn memory(&self) -> &Arc<SharedMemory> {
        &self.0.memory
    }

    fn reserve(&self, more: usize) {
        let mut state = lock(&self.0.state);
        let State { waiting, capacity, .. } = &mut *state;
        *capacity += more;
        for waiting in waiting {
            waiting.reserve(capacity.saturating_sub(waiting.len()));
        }
    }

    fn release(&self, fewer: usize) {
        lock(&self.0.state).capacity -= fewer;
    }

    fn enter(&self) -> Result<WorkspaceGuard<'_>> {
        check_may_wait()?;
        let mut state = lock(&self.0.state);
        if state.is_taken {
            let number = state.next;
            state.next += 1;
            if let Some(waiting) = state.waiting.get_mut(Priority::Medium.place()) {
                waiting.push_back(Waiter::Thread(number));
            }
            while state.turn_of != Some(number) {
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.turn_of = None;
        }
        state.is_taken = true;
        drop(state);
        Ok(WorkspaceGuard(self))
    }
}
