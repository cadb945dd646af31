//! The queues of devices: each has threads that run what is submitted to it on the cores that it wants, what matters most first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;
use std::{hint, mem};

use super::at_work::{AtWork, Taken};
use super::frames::Frames;
use super::job::{self, Job};
use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, SPIN, thread};
use super::timer::Timer;
use super::{Priority, check_may_wait, lock};
use crate::device::{Device, DeviceId, Devices, Error, ErrorCode, Result};

/// What waits for a device, and what is at work on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Runs in its queue.
    pub runs: usize,
    /// How many of its cores runs are at.
    pub cores_at_work: u32,
}

/// The queues of all devices, whose threads start with the first session that submits to each and end with the last handle of
/// the queues.
#[derive(Debug)]
pub struct Queues {
    devices: Devices,
    of: Mutex<BTreeMap<DeviceId, Served>>,
    /// Those of all sessions that submit, to count what is in flight.
    frames: Mutex<Vec<Weak<Frames>>>,
    pub(super) timer: Timer,
}

/// A queue, and the threads that serve it: one for each core, as far as there may be as many runs.
#[derive(Debug)]
struct Served {
    queue: Arc<Queue>,
    by: Vec<thread::JoinHandle<()>>,
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
    jobs: [VecDeque<Arc<Job>>; Priority::COUNT],
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

impl Queues {
    /// Queues of these devices.
    pub fn new(devices: Devices) -> Arc<Self> {
        let (of, frames, timer) = Default::default();
        Arc::new(Self { devices, of, frames, timer })
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Counts the runs of these frames from now on.
    pub(super) fn count(&self, frames: &Arc<Frames>) {
        let mut all = lock(&self.frames);
        all.retain(|frames| frames.strong_count() > 0);
        all.push(Arc::downgrade(frames));
    }

    /// How many runs were submitted and have not ended.
    pub fn in_flight(&self) -> usize {
        let all: Vec<_> = lock(&self.frames).iter().filter_map(Weak::upgrade).collect();
        all.iter().map(|frames| frames.in_flight()).sum()
    }

    /// What waits for a device, and what is at work on it.
    pub fn waiting(&self, device: &Device) -> Waiting {
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        queue.map_or_else(Waiting::default, |queue| queue.waiting())
    }

    /// The queue of a device.
    pub(super) fn queue(&self, id: DeviceId) -> Result<Arc<Queue>> {
        Ok(Arc::clone(&self.served(&mut lock(&self.of), id)?.queue))
    }

    fn served<'a>(
        &self,
        of: &'a mut BTreeMap<DeviceId, Served>,
        id: DeviceId,
    ) -> Result<&'a mut Served> {
        match of.entry(id) {
            Entry::Occupied(served) => Ok(served.into_mut()),
            Entry::Vacant(free) => {
                let queue = Arc::new(Queue::new(self.devices.get(id.kind, id.index)?));
                Ok(free.insert(Served { queue, by: Vec::new() }))
            }
        }
    }

    /// Makes room in a device's queue for `more` runs at once, and threads for them, so that who submits does not. As many as `named` may
    /// have named their cores.
    pub(super) fn reserve(&self, id: DeviceId, more: usize, named: usize) -> Result<()> {
        let mut of = lock(&self.of);
        let Served { queue, by } = self.served(&mut of, id)?;
        let cores = usize::try_from(queue.device.core_count()).unwrap_or(usize::MAX);
        let wanted = queue.room().saturating_add(more).min(cores);
        for number in by.len()..wanted {
            let (served, name) = (Arc::clone(queue), format!("udo-{id}"));
            let thread = thread::Builder::new().name(name).spawn(move || served.serve(number));
            by.push(thread.map_err(|error| {
                let why = format!("the system gives no thread for the queue of {id}: {error}");
                Error::new(ErrorCode::OutOfMemory, why)
            })?);
        }
        queue.reserve(more, named);
        Ok(())
    }

    /// Waits until the runs that were submitted before and have named this core of a device, or are at it, have ended or left it.
    ///
    /// # Errors
    /// The device has no such core, or a callback waits.
    pub fn sync_core(&self, device: &Device, core: u32) -> Result<()> {
        check_may_wait()?;
        let count = device.core_count();
        if core >= count {
            let why = format!("there is no core {core}: device {device} has {count}, from 0 on");
            return Err(Error::new(ErrorCode::InvalidArgument, why));
        }
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        if let Some(queue) = queue {
            queue.sync_core(core);
        }
        Ok(())
    }

    /// Has a device go away: runs on it and in its queue fail once each, and so does what is submitted from now on, until
    /// it is reset. For tests of programs that have to live with that.
    pub fn lose(&self, device: &Device) {
        device.set_lost(true);
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        for job in queue.iter().flat_map(|queue| queue.drain()) {
            // The device may be back by now.
            job::end_waiting(job, Err(device.loss()));
        }
    }

    /// Brings a device that was lost back. What lies in its memory is as before.
    pub fn reset(&self, device: &Device) {
        device.set_lost(false);
    }

    /// Takes a run out of whichever queue it waits in; whether it was in one.
    pub(super) fn remove(&self, job: &Arc<Job>) -> bool {
        lock(&self.of).values().any(|served| served.queue.remove(job))
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let mut of = lock(&self.of);
        for served in of.values() {
            served.queue.close();
        }
        for thread in of.values_mut().flat_map(|served| served.by.drain(..)) {
            // The last handle may go on a thread of these.
            if thread.thread().id() != thread::current().id() {
                // A panic of a thread was printed by it.
                let _ended = thread.join();
            }
        }
    }
}

impl Queue {
    fn new(device: Device) -> Self {
        let cores = usize::try_from(device.core_count()).unwrap_or(usize::MAX);
        let waiting = Lists {
            jobs: Default::default(),
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

    fn waiting(&self) -> Waiting {
        let lists = lock(&self.waiting);
        let runs = lists.jobs.iter().map(VecDeque::len).sum();
        Waiting { runs, cores_at_work: lists.cores.busy() }
    }

    fn room(&self) -> usize {
        lock(&self.waiting).room
    }

    fn reserve(&self, more: usize, named: usize) {
        let mut waiting = lock(&self.waiting);
        let Lists { jobs, cores, room, named_room, .. } = &mut *waiting;
        *room += more;
        *named_room += named;
        for jobs in jobs {
            jobs.reserve(room.saturating_sub(jobs.len()));
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

    pub(super) fn push(&self, job: Arc<Job>) {
        let mut waiting = lock(&self.waiting);
        if let Some(jobs) = waiting.jobs.get_mut(job.priority().place()) {
            jobs.push_back(job);
        }
        self.count.fetch_add(1, Ordering::Release);
        self.wake_another(waiting);
    }

    /// Has a thread that sleeps see to what waits, unless one will look anyway.
    fn wake_another(&self, mut waiting: MutexGuard<'_, Lists>) {
        let waits = waiting.jobs.iter().any(|jobs| !jobs.is_empty());
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

    fn sync_core(&self, core: u32) {
        let mut waiting = lock(&self.waiting);
        let until = waiting.cores.next();
        waiting.syncing += 1;
        while waiting.cores.has_before(core, until) {
            waiting = self.rested.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.syncing -= 1;
    }

    fn remove(&self, job: &Arc<Job>) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_removed = waiting.jobs.iter_mut().any(|jobs| super::remove(jobs, job));
        self.count.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
        if is_removed {
            // Cores that it waited for are there for those behind it.
            self.wake_another(waiting);
        }
        is_removed
    }

    fn drain(&self) -> Vec<Arc<Job>> {
        let mut waiting = lock(&self.waiting);
        let jobs: Vec<_> = waiting.jobs.iter_mut().flat_map(|jobs| jobs.drain(..)).collect();
        self.count.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs
    }

    fn close(&self) {
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

    fn serve(&self, number: usize) {
        let mut looks = false;
        while let Some((job, taken)) = self.next(number, looks) {
            looks = job::proceed(job, taken, self);
        }
    }

    /// What thread `number` runs next, which it waits for, and its cores; nothing once the queue is closed. It may be the one that looks
    /// for more already.
    fn next(&self, number: usize, mut looks: bool) -> Option<(Arc<Job>, Taken)> {
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
    fn pick(&self, waiting: &mut Lists) -> Option<(Arc<Job>, Taken)> {
        let Lists { jobs, cores, .. } = waiting;
        let mut left = cores.left(self.device.core_count());
        for jobs in jobs {
            for at in 0..jobs.len() {
                if left.is_none() {
                    return None;
                }
                let Some(wanted) = jobs.get(at).map(|job| job.wanted(&self.device)) else { break };
                if let Some(got) = left.take(wanted) {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some((jobs.remove(at)?, cores.begin(wanted, got)));
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

    #[test]
    fn there_is_room_for_all_that_was_reserved() {
        let queues = Queues::new(Devices::default());
        let id = DeviceId { kind: CoreKind::Cpu, index: 0 };
        queues.reserve(id, 30, 0).unwrap();
        queues.reserve(id, 40, 5).unwrap();
        let queue = queues.queue(id).unwrap();
        assert!(lock(&queue.waiting).jobs.iter().all(|jobs| jobs.capacity() >= 70));
        queue.release(30, 0);
        queue.release(40, 5);
        let waiting = lock(&queue.waiting);
        assert_eq!((waiting.room, waiting.named_room), (0, 0));
    }
}
