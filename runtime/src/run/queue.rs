//! The queues of devices: each has a thread that runs what is submitted to it, what matters most first.

use std::collections::{BTreeMap, VecDeque};
use std::hint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::job::{self, Job};
use super::sync::{AtomicUsize, Condvar, Mutex, SPIN, thread};
use super::timer::Timer;
use super::{Priority, lock};
use crate::device::{Device, DeviceId, Devices, Error, ErrorCode, Result};

/// The queues of all devices, whose threads start with the first run on each and end with the last handle of the queues.
#[derive(Debug)]
pub struct Queues {
    devices: Devices,
    of: Mutex<BTreeMap<DeviceId, Worker>>,
    pub(super) timer: Timer,
}

#[derive(Debug)]
struct Worker {
    queue: Arc<Queue>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What waits for a device.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) device: Device,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    /// How many wait, for who looks without the lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By priority, the highest first; each in the order of submission.
    jobs: [VecDeque<Arc<Job>>; Priority::COUNT],
    /// How many may wait at once.
    room: usize,
    is_closed: bool,
    is_asleep: bool,
}

impl Queues {
    /// Queues of these devices.
    pub fn new(devices: Devices) -> Arc<Self> {
        Arc::new(Self { devices, of: Mutex::default(), timer: Timer::default() })
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The queue of a device, with its thread.
    pub(super) fn queue(&self, id: DeviceId) -> Result<Arc<Queue>> {
        let mut of = lock(&self.of);
        if let Some(worker) = of.get(&id) {
            return Ok(Arc::clone(&worker.queue));
        }
        let device = self.devices.get(id.kind, id.index)?;
        let queue = Arc::new(Queue {
            device,
            waiting: Mutex::default(),
            wake: Condvar::new(),
            count: AtomicUsize::new(0),
        });
        let served = Arc::clone(&queue);
        let thread = thread::Builder::new().name(format!("udo-{id}")).spawn(move || served.serve());
        let thread = thread.map_err(|error| {
            let why = format!("the system gives no thread for the queue of {id}: {error}");
            Error::new(ErrorCode::OutOfMemory, why)
        })?;
        of.insert(id, Worker { queue: Arc::clone(&queue), thread: Some(thread) });
        Ok(queue)
    }

    /// Has a device go away: runs on it and in its queue fail once each, and so does what is submitted from now on, until
    /// it is reset. For tests of programs that have to live with that.
    pub fn lose(&self, device: &Device) {
        device.set_lost(true);
        let queue = lock(&self.of).get(&device.id()).map(|worker| Arc::clone(&worker.queue));
        for job in queue.iter().flat_map(|queue| queue.drain()) {
            job::end_waiting(job, device.check_there());
        }
    }

    /// Brings a device that was lost back. What lies in its memory is as before.
    pub fn reset(&self, device: &Device) {
        device.set_lost(false);
    }

    /// Takes a run out of whichever queue it waits in; whether it was in one.
    pub(super) fn remove(&self, job: &Arc<Job>) -> bool {
        lock(&self.of).values().any(|worker| worker.queue.remove(job))
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let mut of = lock(&self.of);
        for worker in of.values_mut() {
            worker.queue.close();
        }
        for worker in of.values_mut() {
            let thread = worker.thread.take();
            // The last handle may go on a thread of these.
            let others = thread.filter(|thread| thread.thread().id() != thread::current().id());
            // A panic of a worker was printed by it.
            let _ended = others.map(thread::JoinHandle::join);
        }
    }
}

impl Queue {
    /// Makes room for as many runs more as may wait, so that who submits does not.
    pub(super) fn reserve(&self, more: usize) {
        let mut waiting = lock(&self.waiting);
        let Waiting { jobs, room, .. } = &mut *waiting;
        *room += more;
        for jobs in jobs {
            jobs.reserve(room.saturating_sub(jobs.len()));
        }
    }

    /// Takes back what was reserved.
    pub(super) fn release(&self, fewer: usize) {
        lock(&self.waiting).room -= fewer;
    }

    pub(super) fn push(&self, job: Arc<Job>) {
        let is_asleep = {
            let mut waiting = lock(&self.waiting);
            if let Some(jobs) = waiting.jobs.get_mut(job.priority().place()) {
                jobs.push_back(job);
            }
            self.count.fetch_add(1, Ordering::Release);
            waiting.is_asleep
        };
        if is_asleep {
            self.wake.notify_one();
        }
    }

    fn remove(&self, job: &Arc<Job>) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_removed = waiting.jobs.iter_mut().any(|jobs| super::remove(jobs, job));
        self.count.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
        is_removed
    }

    fn drain(&self) -> Vec<Arc<Job>> {
        let mut waiting = lock(&self.waiting);
        let jobs: Vec<_> = waiting.jobs.iter_mut().flat_map(|jobs| jobs.drain(..)).collect();
        self.count.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs
    }

    fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.wake.notify_all();
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            job::proceed(job, self);
        }
    }

    /// What to run next, which it waits for; nothing once the queue is closed.
    fn next(&self) -> Option<Arc<Job>> {
        self.look();
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(job) = waiting.jobs.iter_mut().find_map(VecDeque::pop_front) {
                self.count.fetch_sub(1, Ordering::Relaxed);
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            waiting.is_asleep = true;
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.is_asleep = false;
        }
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
        let queue = queues.queue(DeviceId { kind: CoreKind::Cpu, index: 0 }).unwrap();
        queue.reserve(30);
        queue.reserve(40);
        assert!(lock(&queue.waiting).jobs.iter().all(|jobs| jobs.capacity() >= 70));
        queue.release(30);
        queue.release(40);
        assert_eq!(lock(&queue.waiting).room, 0);
    }
}
