//! The queues of all devices, their threads, and how many runs are in flight.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::queue::{Queue, Waiting, WaitingRun};
use super::sync::{Mutex, thread};
use super::timer::Timer;
use super::{check_may_wait, lock};
use crate::device::{Device, DeviceId, Devices, Error, ErrorCode, Result};

/// The queues of all devices, whose threads start with the first session that submits to each and end with the last handle of
/// the queues.
#[derive(Debug)]
pub struct Queues {
    devices: Devices,
    of: Mutex<BTreeMap<DeviceId, Served>>,
    /// How many runs were submitted and have not ended. It orders nothing, so models need not follow it.
    in_flight: AtomicUsize,
    pub(super) timer: Timer,
}

/// A queue, and the threads that serve it: one for each core, as far as there may be as many runs.
#[derive(Debug)]
struct Served {
    queue: Arc<Queue>,
    by: Vec<thread::JoinHandle<()>>,
}

impl Queues {
    /// Queues of these devices.
    pub fn new(devices: Devices) -> Arc<Self> {
        let (of, in_flight, timer) = Default::default();
        Arc::new(Self { devices, of, in_flight, timer })
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// How many runs were submitted and have not ended.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a run that is submitted.
    pub(super) fn note_submitted(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run that ended.
    pub(super) fn note_ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
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
        for run in queue.iter().flat_map(|queue| queue.drain()) {
            // The device may be back by now.
            run.end_waiting(Err(device.loss()));
        }
    }

    /// Brings a device that was lost back. What lies in its memory is as before.
    pub fn reset(&self, device: &Device) {
        device.set_lost(false);
    }

    /// Takes a run out of whichever queue it waits in; whether it was in one.
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
        for thread in of.values_mut().flat_map(|served| served.by.drain(..)) {
            // The last handle may go on a thread of these.
            if thread.thread().id() != thread::current().id() {
                // A panic of a thread was printed by it.
                let _ended = thread.join();
            }
        }
    }
}
