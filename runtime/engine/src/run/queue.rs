//! The queue of a device. Runs wait in it for their cores, the highest priority first; threads execute them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use std::{fmt, hint, mem, ptr};

use super::core_allocator::{AllocatedCores, CoreAllocator, CoreRequest};
use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, SPIN};
use super::work::{Cause, Frame};
use super::{Priority, lock};
use crate::device::{Device, Result};

/// A submitted run as the lists see it in which runs wait: of streams, frames, workspaces and queues.
pub(super) trait WaitingRun: fmt::Debug + Send + Sync {
    /// Returns its priority.
    fn priority(&self) -> Priority;

    /// Returns the cores of a device that it requests.
    fn core_request(&self, device: &Device) -> CoreRequest;

    /// Returns whether the current submission was stopped.
    fn is_stopped(&self) -> bool;

    /// Continues after it got its turn in its stream.
    fn take_turn(self: Arc<Self>);

    /// Begins in a frame.
    fn begin(self: Arc<Self>, frame: Frame);

    /// Continues after it got its turn in the shared workspace of its session.
    fn continue_in_workspace(self: Arc<Self>);

    /// Executes on the calling thread of a queue and these cores, as far as possible there. Returns whether this thread became
    /// the one that spins for more work.
    fn proceed(self: Arc<Self>, cores: AllocatedCores, queue: &Queue) -> bool;

    /// Ends a run that was still waiting.
    fn end_waiting(self: Arc<Self>, outcome: Result<()>);

    /// Stops a submission, unless it has ended.
    fn stop(self: Arc<Self>, submission: u64, cause: Cause);
}

/// Removes a stopped run from a list. A run that is not stopped is a later submission of the launch, and stays.
pub(super) fn remove(runs: &mut VecDeque<Arc<dyn WaitingRun>>, run: &dyn WaitingRun) -> bool {
    let at = runs.iter().position(|other| is_same(other, run) && other.is_stopped());
    at.is_some_and(|at| runs.remove(at).is_some())
}

/// Returns whether a waiting run is this one.
pub(super) fn is_same(waiting: &Arc<dyn WaitingRun>, run: &dyn WaitingRun) -> bool {
    ptr::addr_eq(Arc::as_ptr(waiting), run)
}

/// The load of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLoad {
    /// The number of runs in its queue.
    pub runs: usize,
    /// The number of its cores in use.
    pub cores_at_work: u32,
}

/// The queue of a device.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) device: Device,
    waiting: Mutex<Lists>,
    /// One for each thread.
    wake: Box<[Condvar]>,
    /// Signalled when cores are returned, for threads in `sync_core`.
    returned: Condvar,
    /// The number of waiting runs, for readers without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Lists {
    /// By priority, the highest first; in the order of submission for equal priorities.
    runs: [VecDeque<Arc<dyn WaitingRun>>; Priority::COUNT],
    cores: CoreAllocator,
    /// The number of runs that may wait or execute at the same time.
    capacity: usize,
    /// The number of runs that may have named cores at the same time.
    named_capacity: usize,
    is_closed: bool,
    /// The numbers of the sleeping threads. The last one to fall asleep is woken first, because its caches are warmest.
    asleep: Vec<usize>,
    /// Whether a thread spins for work without the lock, or is about to.
    is_spinning: bool,
    /// The number of threads in `sync_core`.
    syncing: usize,
}

impl Queue {
    pub(super) fn new(device: Device) -> Self {
        let cores = usize::try_from(device.core_count()).unwrap_or(usize::MAX);
        let waiting = Lists {
            runs: Default::default(),
            cores: CoreAllocator::new(),
            capacity: 0,
            named_capacity: 0,
            is_closed: false,
            asleep: Vec::with_capacity(cores),
            is_spinning: false,
            syncing: 0,
        };
        let wake = (0..cores).map(|_| Condvar::new()).collect();
        let (waiting, returned) = (Mutex::new(waiting), Condvar::new());
        Self { device, waiting, wake, returned, count: AtomicUsize::new(0) }
    }

    pub(super) fn waiting(&self) -> DeviceLoad {
        let lists = lock(&self.waiting);
        let runs = lists.runs.iter().map(VecDeque::len).sum();
        DeviceLoad { runs, cores_at_work: lists.cores.busy() }
    }

    pub(super) fn capacity(&self) -> usize {
        lock(&self.waiting).capacity
    }

    pub(super) fn reserve(&self, more: usize, named: usize) {
        let mut waiting = lock(&self.waiting);
        let Lists { runs, cores, capacity, named_capacity, .. } = &mut *waiting;
        *capacity += more;
        *named_capacity += named;
        for runs in runs {
            runs.reserve(capacity.saturating_sub(runs.len()));
        }
        // The entry of an ended run may be removed shortly after the next one was added.
        cores.reserve(*capacity + 2 * *named_capacity);
    }

    /// Returns reserved space.
    pub(super) fn release(&self, fewer: usize, named: usize) {
        let mut waiting = lock(&self.waiting);
        waiting.capacity -= fewer;
        waiting.named_capacity -= named;
    }

    pub(super) fn push(&self, run: Arc<dyn WaitingRun>) {
        let mut waiting = lock(&self.waiting);
        if let Some(runs) = waiting.runs.get_mut(run.priority().place()) {
            runs.push_back(run);
        }
        self.count.fetch_add(1, Ordering::Release);
        self.wake_another(waiting);
    }

    /// Wakes a sleeping thread for the waiting runs, unless one is spinning for work.
    fn wake_another(&self, mut waiting: MutexGuard<'_, Lists>) {
        let waits = waiting.runs.iter().any(|runs| !runs.is_empty());
        if waiting.is_spinning || !waits {
            return;
        }
        let woken = waiting.asleep.pop().and_then(|number| self.wake.get(number));
        drop(waiting);
        if let Some(thread) = woken {
            thread.notify_one();
        }
    }

    /// Records that a submitted run has named these cores. Returns its number.
    pub(super) fn name_cores(&self, cores: u64) -> u64 {
        lock(&self.waiting).cores.enter(cores)
    }

    /// Records that this run has ended.
    pub(super) fn forget_cores(&self, serial: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.cores.leave(serial);
        self.notify_returned(&waiting);
    }

    fn notify_returned(&self, waiting: &Lists) {
        if waiting.syncing > 0 {
            self.returned.notify_all();
        }
    }

    pub(super) fn sync_core(&self, core: u32) {
        let mut waiting = lock(&self.waiting);
        let until = waiting.cores.next();
        waiting.syncing += 1;
        while waiting.cores.has_before(core, until) {
            waiting = self.returned.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.syncing -= 1;
    }

    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_removed = waiting.runs.iter_mut().any(|runs| remove(runs, run));
        self.count.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
        if is_removed {
            // The cores that it waited for may be free for later runs.
            self.wake_another(waiting);
        }
        is_removed
    }

    pub(super) fn drain(&self) -> Vec<Arc<dyn WaitingRun>> {
        let mut waiting = lock(&self.waiting);
        let runs: Vec<_> = waiting.runs.iter_mut().flat_map(|runs| runs.drain(..)).collect();
        self.count.fetch_sub(runs.len(), Ordering::Relaxed);
        runs
    }

    pub(super) fn close(&self) {
        {
            let mut waiting = lock(&self.waiting);
            waiting.is_closed = true;
            waiting.asleep.clear();
        }
        self.wake.iter().for_each(Condvar::notify_one);
    }

    /// Returns the cores of a run whose part on this device has ended.
    pub(super) fn give_back(&self, taken: AllocatedCores) {
        let mut waiting = lock(&self.waiting);
        waiting.cores.give_back(taken);
        self.notify_returned(&waiting);
        self.wake_another(waiting);
    }

    /// Makes the calling thread of the queue the one that spins for work, unless another one does. A waiter that is notified now and
    /// submits the next run then wakes no other thread.
    pub(super) fn start_spinning(&self) -> bool {
        !mem::replace(&mut lock(&self.waiting).is_spinning, true)
    }

    pub(super) fn serve(&self, number: usize) {
        let mut spins = false;
        while let Some((run, taken)) = self.next(number, spins) {
            spins = run.proceed(taken, self);
        }
    }

    /// Waits for the next run of thread `number` and its cores. Returns `None` after the queue was closed. `spins`: this thread
    /// already is the one that spins for work.
    fn next(
        &self,
        number: usize,
        mut spins: bool,
    ) -> Option<(Arc<dyn WaitingRun>, AllocatedCores)> {
        let mut waiting = lock(&self.waiting);
        let mut has_looked = false;
        loop {
            let next = self.pick(&mut waiting);
            if next.is_some() || waiting.is_closed || has_looked {
                waiting.is_spinning &= !mem::take(&mut spins);
            }
            if next.is_some() {
                self.wake_another(waiting);
                return next;
            }
            if waiting.is_closed {
                return None;
            }
            if !has_looked && (spins || !mem::replace(&mut waiting.is_spinning, true)) {
                (spins, has_looked) = (true, true);
                drop(waiting);
                self.spin();
                waiting = lock(&self.waiting);
                continue;
            }
            waiting.asleep.push(number);
            while waiting.asleep.contains(&number) {
                let wake = self.wake.get(number)?;
                waiting = wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes the first run for which enough cores are free.
    fn pick(&self, waiting: &mut Lists) -> Option<(Arc<dyn WaitingRun>, AllocatedCores)> {
        let Lists { runs, cores, .. } = waiting;
        let mut left = cores.left(self.device.core_count());
        for runs in runs {
            for at in 0..runs.len() {
                if left.is_none() {
                    return None;
                }
                let Some(request) = runs.get(at).map(|run| run.core_request(&self.device)) else {
                    break;
                };
                if let Some(allocated) = left.take(request) {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some((runs.remove(at)?, cores.begin(request, allocated)));
                }
            }
        }
        None
    }

    /// Spins for a while until a run arrives.
    fn spin(&self) {
        let start = Instant::now();
        while self.count.load(Ordering::Acquire) == 0 && start.elapsed() < SPIN {
            for _ in 0..16 {
                hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use udo_api::CoreKind;

    use super::*;
    use crate::device::Devices;

    #[test]
    fn there_is_room_for_all_that_was_reserved() {
        let queue = Queue::new(Devices::default().get(CoreKind::Cpu, 0).unwrap());
        queue.reserve(30, 0);
        queue.reserve(40, 5);
        assert!(lock(&queue.waiting).runs.iter().all(|runs| runs.capacity() >= 70));
        queue.release(30, 0);
        queue.release(40, 5);
        let waiting = lock(&queue.waiting);
        assert_eq!((waiting.capacity, waiting.named_capacity), (0, 0));
    }
}
