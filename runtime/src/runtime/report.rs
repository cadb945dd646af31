//! Reports the state of a runtime's devices, to find memory that is in use and runs that do not end.

use std::fmt;

use udo_engine::device::{Device, HeapStats, Usage};
use udo_engine::run::{DeviceLoad, Queues};

/// The state of a runtime's devices. It prints as several lines of text.
#[derive(Clone, Debug)]
pub struct RuntimeReport {
    /// The devices, in the runtime's order.
    pub devices: Vec<DeviceReport>,
    /// Submitted runs that have not ended. Runs on their caller's thread are not queued and do not count.
    pub runs_in_flight: usize,
}

/// The state of a device.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// The device.
    pub device: Device,
    /// The use of its memory, by owner.
    pub heap: HeapStats,
    /// Runs that wait for its cores.
    pub runs_waiting: usize,
    /// The number of its cores that are busy.
    pub cores_at_work: u32,
}

impl RuntimeReport {
    pub(super) fn new(queues: &Queues) -> Self {
        let device = |device: &Device| {
            let DeviceLoad { runs, cores_at_work } = queues.waiting(device);
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

/// Formats bytes in use.
struct Bytes<'a>(&'a Usage);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { current_bytes, peak_bytes, memories } = self.0;
        write!(f, "{current_bytes} bytes in {memories} memories, {peak_bytes} at most")
    }
}
