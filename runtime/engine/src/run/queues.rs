//! The queues of all devices, their threads, and the number of runs in flight.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::queue::{DeviceLoad, Queue, WaitingRun};
use super::sync::{Mutex, thread};
use super::timer::Timer;
use super::{check_may_wait, lock};
use crate::device::{Device, DeviceId, Devices, Error, ErrorCode, Result};

/// The queues of all devices. The threads of a queue start with the first session that submits to its device, and end when the
/// last handle of the queues is dropped.
#[derive(Debug)]
pub struct Queues {
    devices: Devices,
    of: Mutex<BTreeMap<DeviceId, QueueThreads>>,
    /// The number of submitted runs that have not ended. It does not order memory accesses, so it is a plain atomic even under
    /// `loom`.
    in_flight: AtomicUsize,
    pub(super) timer: Timer,
}

/// A queue and its threads: one per core, but no more than there may be runs.
#[derive(Debug)]
struct QueueThreads {
    queue: Arc<Queue>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Queues {
    /// Creates the queues of these devices.
    pub fn new(devices: Devices) -> Arc<Self> {
        let (of, in_flight, timer) = Default::default();
        Arc::new(Self { devices, of, in_flight, timer })
    }

    /// Returns the devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the number of submitted runs that have not ended.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a submitted run.
    pub(super) fn note_submitted(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an ended run.
    pub(super) fn note_ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the load of a device.
    pub fn waiting(&self, device: &Device) -> DeviceLoad {
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        queue.map_or_else(DeviceLoad::default, |queue| queue.waiting())
    }

    /// Returns the queue of a device.
    pub(super) fn queue(&self, id: DeviceId) -> Result<Arc<Queue>> {
        Ok(Arc::clone(&self.served(&mut lock(&self.of), id)?.queue))
    }

    fn served<'a>(
        &self,
        of: &'a mut BTreeMap<DeviceId, QueueThreads>,
        id: DeviceId,
    ) -> Result<&'a mut QueueThreads> {
        match of.entry(id) {
            Entry::Occupied(served) => Ok(served.into_mut()),
            Entry::Vacant(free) => {
                let queue = Arc::new(Queue::new(self.devices.get(id.kind, id.index)?));
                Ok(free.insert(QueueThreads { queue, threads: Vec::new() }))
            }
        }
    }

    /// Reserves space in a device's queue for `more` runs, and starts threads for them, so that submitting does not. Up to
    /// `named` of the runs may name cores.
    pub(super) fn reserve(&self, id: DeviceId, more: usize, named: usize) -> Result<()> {
        let mut of = lock(&self.of);
        let QueueThreads { queue, threads } = self.served(&mut of, id)?;
        let cores = usize::try_from(queue.device.core_count()).unwrap_or(usize::MAX);
        let count = queue.capacity().saturating_add(more).min(cores);
        for number in threads.len()..count {
            let (served, name) = (Arc::clone(queue), format!("udo-{id}"));
            let thread = thread::Builder::new().name(name).spawn(move || served.serve(number));
            threads.push(thread.map_err(|error| {
                let why = format!("cannot create a thread for the queue of {id}: {error}");
                Error::new(ErrorCode::OutOfMemory, why)
            })?);
        }
        queue.reserve(more, named);
        Ok(())
    }

    /// Waits until all runs submitted before that named this core of a device have ended, and those that execute on it have left
    /// it.
    ///
    /// # Errors
    /// Fails if the device has no such core. Fails in a callback.
    pub fn sync_core(&self, device: &Device, core: u32) -> Result<()> {
        check_may_wait()?;
        let count = device.core_count();
        if core >= count {
            let why = format!(
                "core {core} does not exist, expected below {count}, the number of cores of device {device}"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, why));
        }
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        if let Some(queue) = queue {
            queue.sync_core(core);
        }
        Ok(())
    }

    /// Simulates the loss of a device: runs on it and in its queue fail, and so do new ones until it is reset. For tests of
    /// programs that handle lost devices.
    pub fn lose(&self, device: &Device) {
        device.set_lost(true);
        let queue = lock(&self.of).get(&device.id()).map(|served| Arc::clone(&served.queue));
        for run in queue.iter().flat_map(|queue| queue.drain()) {
            // The device may have been reset already.
            run.end_waiting(Err(device.loss()));
        }
    }

    /// Makes a lost device available again. The content of its memory is unchanged.
    pub fn reset(&self, device: &Device) {
        device.set_lost(false);
    }

    /// Removes a waiting run from its queue. Returns whether it was waiting in one.
    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        lock(&self.of).values().any(|served| served.queue.remove(run))
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let mut of = lock(&self.of);
        for served in of.values() {
            served.queue.close();
        }
        for thread in of.values_mut().flat_map(|served| served.threads.drain(..)) {
            // The last handle may be dropped on one of these threads.
            if thread.thread().id() != thread::current().id() {
                // A panic was already printed by its thread.
                let _ended = thread.join();
            }
        }
    }
}
