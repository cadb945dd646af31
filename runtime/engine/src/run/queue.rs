//! The queue of a device: runs wait in it for the cores that they want, what matters most first, and threads take them on.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use std::{fmt, hint, mem, ptr};

use super::at_work::{AtWork, Taken, Wanted};
use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, SPIN};
use super::work::{Cause, Frame};
use super::{Priority, lock};
use crate::device::{Device, Result};

/// A run that was submitted, as it is known where runs wait: in their streams, for frames, for workspaces, and in queues.
pub(super) trait WaitingRun: fmt::Debug + Send + Sync {
    /// What matters most goes first.
    fn priority(&self) -> Priority;

    /// What it wants of a device's cores.
    fn wanted(&self, device: &Device) -> Wanted;

    /// Whether the submission in flight is to end early.
    fn is_to_end(&self) -> bool;

    /// Goes on: its turn came in its stream.
    fn take_turn(self: Arc<Self>);

    /// Begins in a frame.
    fn begin(self: Arc<Self>, frame: Frame);

    /// Goes on: its turn came in the workspace that its session shares.
    fn go_on_in_workspace(self: Arc<Self>);

    /// Goes on, on the thread of a queue and these cores, as far as it goes there. Whether the thread is the one of the queue that
    /// looks for more now.
    fn proceed(self: Arc<Self>, cores: Taken, queue: &Queue) -> bool;

    /// Ends, having waited until now.
    fn end_waiting(self: Arc<Self>, outcome: Result<()>);

    /// Ends a submission early, unless it has ended.
    fn stop(self: Arc<Self>, submission: u64, cause: Cause);
}

/// Takes a run that is to end out of those that wait. One that is not is a later submission of its launch, and stays.
pub(super) fn remove(runs: &mut VecDeque<Arc<dyn WaitingRun>>, run: &dyn WaitingRun) -> bool {
    let at = runs.iter().position(|other| is_same(other, run) && other.is_to_end());
    at.is_some_and(|at| runs.remove(at).is_some())
}

/// Whether one that waits is this run.
pub(super) fn is_same(waiting: &Arc<dyn WaitingRun>, run: &dyn WaitingRun) -> bool {
    ptr::addr_eq(Arc::as_ptr(waiting), run)
}

/// What waits for a device, and what is at work on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Runs in its queue.
    pub runs: usize,
    /// How many of its cores runs are at.
    pub cores_at_work: u32,
}

/// What waits for a device.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) device: Device,
    waiting: Mutex<Lists>,
    /// Wakes a thread each.
    wake: Box<[Condvar]>,
    /// Cores were given back, for who waits for that.
    rested: Condvar,
    /// How many wait, for who looks without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Lists {
    /// By priority, the highest first; each in the order of submission.
    runs: [VecDeque<Arc<dyn WaitingRun>>; Priority::COUNT],
    cores: AtWork,
    /// How many may wait or be at work at once.
    room: usize,
    /// How many may have named cores at once.
    named_room: usize,
    is_closed: bool,
    /// The threads that sleep, by their numbers. Who went to sleep last is woken first, as what it needs is still at hand.
    asleep: Vec<usize>,
    /// Whether a thread looks for more without the lock, or is about to.
    is_looked: bool,
    /// How many wait for cores to be given back.
    syncing: usize,
}

impl Queue {
    pub(super) fn new(device: Device) -> Self {
        let cores = usize::try_from(device.core_count()).unwrap_or(usize::MAX);
        let waiting = Lists {
            runs: Default::default(),
            cores: AtWork::new(),
            room: 0,
            named_room: 0,
            is_closed: false,
            asleep: Vec::with_capacity(cores),
            is_looked: false,
            syncing: 0,
        };
        let wake = (0..cores).map(|_| Condvar::new()).collect();
        let (waiting, rested) = (Mutex::new(waiting), Condvar::new());
        Self { device, waiting, wake, rested, count: AtomicUsize::new(0) }
    }

    pub(super) fn waiting(&self) -> Waiting {
        let lists = lock(&self.waiting);
        let runs = lists.runs.iter().map(VecDeque::len).sum();
        Waiting { runs, cores_at_work: lists.cores.busy() }
    }

    pub(super) fn room(&self) -> usize {
        lock(&self.waiting).room
    }

    pub(super) fn reserve(&self, more: usize, named: usize) {
        let mut waiting = lock(&self.waiting);
        let Lists { runs, cores, room, named_room, .. } = &mut *waiting;
        *room += more;
        *named_room += named;
        for runs in runs {
            runs.reserve(room.saturating_sub(runs.len()));
        }
        // One that has ended is forgotten a little after the next may come.
        cores.reserve(*room + 2 * *named_room);
    }

    /// Takes back what was reserved.
    pub(super) fn release(&self, fewer: usize, named: usize) {
        let mut waiting = lock(&self.waiting);
        waiting.room -= fewer;
        waiting.named_room -= named;
    }

    pub(super) fn push(&self, run: Arc<dyn WaitingRun>) {
        let mut waiting = lock(&self.waiting);
        if let Some(runs) = waiting.runs.get_mut(run.priority().place()) {
            runs.push_back(run);
        }
        self.count.fetch_add(1, Ordering::Release);
        self.wake_another(waiting);
    }

    /// Has a thread that sleeps see to what waits, unless one will look anyway.
    fn wake_another(&self, mut waiting: MutexGuard<'_, Lists>) {
        let waits = waiting.runs.iter().any(|runs| !runs.is_empty());
        if waiting.is_looked || !waits {
            return;
        }
        let woken = waiting.asleep.pop().and_then(|number| self.wake.get(number));
        drop(waiting);
        if let Some(thread) = woken {
            thread.notify_one();
        }
    }

    /// Notes that a run that is submitted has named these cores: its number.
    pub(super) fn name_cores(&self, cores: u64) -> u64 {
        lock(&self.waiting).cores.enter(cores)
    }

    /// Notes that it has ended.
    pub(super) fn forget_cores(&self, serial: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.cores.leave(serial);
        self.say_rested(&waiting);
    }

    fn say_rested(&self, waiting: &Lists) {
        if waiting.syncing > 0 {
            self.rested.notify_all();
        }
    }

    pub(super) fn sync_core(&self, core: u32) {
        let mut waiting = lock(&self.waiting);
        let until = waiting.cores.next();
        waiting.syncing += 1;
        while waiting.cores.has_before(core, until) {
            waiting = self.rested.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.syncing -= 1;
    }

    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_removed = waiting.runs.iter_mut().any(|runs| remove(runs, run));
        self.count.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
        if is_removed {
            // Cores that it waited for are there for those behind it.
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

    /// Gives the cores of a run back, whose part there is over.
    pub(super) fn give_back(&self, taken: Taken) {
        let mut waiting = lock(&self.waiting);
        waiting.cores.give_back(taken);
        self.say_rested(&waiting);
        self.wake_another(waiting);
    }

    /// Has the thread that serves the queue be the one that looks for more, as it is about to, if none is: so whoever is told now of a
    /// run's end, and submits the next one, wakes no other.
    pub(super) fn take_look(&self) -> bool {
        !mem::replace(&mut lock(&self.waiting).is_looked, true)
    }

    pub(super) fn serve(&self, number: usize) {
        let mut looks = false;
        while let Some((run, taken)) = self.next(number, looks) {
            looks = run.proceed(taken, self);
        }
    }

    /// What thread `number` runs next, which it waits for, and its cores; nothing once the queue is closed. It may be the one that looks
    /// for more already.
    fn next(&self, number: usize, mut looks: bool) -> Option<(Arc<dyn WaitingRun>, Taken)> {
        let mut waiting = lock(&self.waiting);
        let mut has_looked = false;
        loop {
            let next = self.pick(&mut waiting);
            if next.is_some() || waiting.is_closed || has_looked {
                waiting.is_looked &= !mem::take(&mut looks);
            }
            if next.is_some() {
                self.wake_another(waiting);
                return next;
            }
            if waiting.is_closed {
                return None;
            }
            if !has_looked && (looks || !mem::replace(&mut waiting.is_looked, true)) {
                (looks, has_looked) = (true, true);
                drop(waiting);
                self.look();
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

    /// Takes the first run for which there are cores.
    fn pick(&self, waiting: &mut Lists) -> Option<(Arc<dyn WaitingRun>, Taken)> {
        let Lists { runs, cores, .. } = waiting;
        let mut left = cores.left(self.device.core_count());
        for runs in runs {
            for at in 0..runs.len() {
                if left.is_none() {
                    return None;
                }
                let Some(wanted) = runs.get(at).map(|run| run.wanted(&self.device)) else { break };
                if let Some(got) = left.take(wanted) {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some((runs.remove(at)?, cores.begin(wanted, got)));
                }
            }
        }
        None
    }

    /// Looks for a while whether something comes.
    fn look(&self) {
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
        assert_eq!((waiting.room, waiting.named_room), (0, 0));
    }
}
