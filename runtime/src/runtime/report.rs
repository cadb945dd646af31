//! What the devices of a runtime are at, for people who look for what takes memory or does not end.

use std::fmt;

use udo_engine::device::{Device, HeapStats, Usage};
use udo_engine::run::{Queues, Waiting};

/// What the devices of a runtime are at. It prints as a text of some lines.
#[derive(Clone, Debug)]
pub struct RuntimeReport {
    /// The devices, in the order of the runtime.
    pub devices: Vec<DeviceReport>,
    /// Runs that were submitted and have not ended. Those that their callers run themselves are in no queue and do not count.
    pub runs_in_flight: usize,
}

/// What a device is at.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// The device.
    pub device: Device,
    /// What of its memory is in use, and by whom.
    pub heap: HeapStats,
    /// Runs that wait for cores of it.
    pub runs_waiting: usize,
    /// How many of its cores runs are at.
    pub cores_at_work: u32,
}

impl RuntimeReport {
    pub(super) fn of(queues: &Queues) -> Self {
        let device = |device: &Device| {
            let Waiting { runs, cores_at_work } = queues.waiting(device);
            let (device, heap) = (device.clone(), device.heap_stats());
            DeviceReport { device, heap, runs_waiting: runs, cores_at_work }
        };
        let devices = queues.devices().iter().map(device).collect();
        Self { devices, runs_in_flight: queues.in_flight() }
    }
}

impl fmt::Display for RuntimeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runs in flight: {}", self.runs_in_flight)?;
        self.devices.iter().try_for_each(|device| write!(f, "\n{device}"))
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, heap, runs_waiting, cores_at_work } = self;
        let (name, cores) = (device.name(), device.core_count());
        let lost = if device.is_lost() { ", lost" } else { "" };
        write!(f, "{device} ({name}){lost}: {cores_at_work} of {cores} cores at work, ")?;
        write!(f, "{runs_waiting} runs waiting")?;
        write!(f, "\n  memory: {}, of {} bytes", Bytes(&heap.total), heap.limit_bytes)?;
        for (owner, usage) in &heap.owners {
            write!(f, "\n    {owner}: {}", Bytes(usage))?;
        }
        if heap.imported != Usage::default() {
            write!(f, "\n  imported: {}", Bytes(&heap.imported))?;
        }
        Ok(())
    }
}

/// Bytes in use, in words.
struct Bytes<'a>(&'a Usage);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { current_bytes, peak_bytes, memories } = self.0;
        write!(f, "{current_bytes} bytes in {memories} memories, {peak_bytes} at most")
    }
}
