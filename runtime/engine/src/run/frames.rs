//! The frames of a session. A frame is the memory of one run at a time; runs wait while no frame is free.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use udo_api::Shape;

use super::core_allocator::CoreRequest;
use super::log::RunLog;
use super::queue::{WaitingRun, remove};
use super::queues::Queues;
use super::sync::Mutex;
use super::work::Frame;
use super::workspace::SharedWorkspace;
use super::{Priority, lock};
use crate::device::{CoreSet, Device, DeviceId, Error, ErrorCode, Result, Used};
use crate::run::UseWorkspace;

/// Options of a session's frames.
#[derive(Debug, Default)]
pub struct FrameOptions {
    /// The number of runs that may wait for a frame.
    pub depth: usize,
    /// A workspace shared with other sessions. Only one run at a time uses it.
    pub workspace: Option<SharedWorkspace>,
    /// The log of runs, if any.
    pub log: Option<Arc<RunLog>>,
    /// The number of threads of a run.
    pub threads: usize,
    /// The device whose cores runs may name.
    pub named: Option<DeviceId>,
}

/// The frames of a session, and the runs that wait for them.
pub struct Frames {
    pub(super) queues: Arc<Queues>,
    /// The largest number of runs in flight: those with a frame and those that wait.
    most: usize,
    /// The number of frames.
    count: usize,
    /// The devices that runs use.
    pub(super) used: Used,
    /// A workspace shared with other sessions. Only one run at a time uses it.
    pub(super) workspace: Option<SharedWorkspace>,
    /// The log of runs, if any.
    pub(super) log: Option<Arc<RunLog>>,
    threads: u32,
    /// The device whose cores runs may name.
    pub(super) named: Option<DeviceId>,
    state: Mutex<State>,
}

struct State {
    free: Vec<Frame>,
    /// By priority, the highest first; in the order of submission for equal priorities.
    waiting: [VecDeque<Arc<dyn WaitingRun>>; Priority::COUNT],
    in_flight: usize,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = lock(&self.state).in_flight;
        write!(f, "Frames({in_flight} of {} in flight)", self.most)
    }
}

/// Returns reserved space in a device's queue.
fn release_reserved(queues: &Queues, device: DeviceId, count: usize, named: usize) {
    if let Ok(queue) = queues.queue(device) {
        queue.release(count, named);
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        for device in self.used.iter().map(Device::id) {
            release_reserved(&self.queues, device, self.count, self.named_capacity(device));
        }
        self.queues.timer.release(self.most);
        if let Some(workspace) = &self.workspace {
            workspace.release(self.count);
        }
    }
}

impl Frames {
    /// Creates the frames of a session that uses `devices`.
    ///
    /// # Errors
    /// Fails if a device does not exist.
    pub fn new(
        frames: Vec<Frame>,
        queues: &Arc<Queues>,
        devices: &[DeviceId],
        options: FrameOptions,
    ) -> Result<Arc<Self>> {
        let FrameOptions { depth, workspace, log, threads, named } = options;
        let (count, most) = (frames.len(), frames.len().saturating_add(depth));
        let used = Used::find(queues.devices(), devices.iter().copied())?;
        let named_capacity = |device: DeviceId| if named == Some(device) { most } else { 0 };
        for (at, &device) in devices.iter().enumerate() {
            if let Err(refused) = queues.reserve(device, count, named_capacity(device)) {
                for &before in devices.iter().take(at) {
                    release_reserved(queues, before, count, named_capacity(before));
                }
                return Err(refused);
            }
        }
        queues.timer.reserve(most);
        if let Some(workspace) = &workspace {
            workspace.reserve(count);
        }
        let waiting = std::array::from_fn(|_| VecDeque::with_capacity(depth));
        let state = Mutex::new(State { free: frames, waiting, in_flight: 0 });
        let (queues, threads) = (Arc::clone(queues), u32::try_from(threads).unwrap_or(u32::MAX));
        let made = Self { queues, most, count, used, workspace, log, threads, named, state };
        Ok(Arc::new(made))
    }

    /// Returns the number of runs that may name cores of a device.
    fn named_capacity(&self, device: DeviceId) -> usize {
        if self.named == Some(device) { self.most } else { 0 }
    }

    /// Returns the cores of a device that a run requests.
    pub(super) fn core_request(&self, cores: CoreSet, device: &Device) -> CoreRequest {
        match cores {
            CoreSet::Listed(list) if self.named == Some(device.id()) => {
                CoreRequest::These(list.bits())
            }
            CoreSet::Listed(_) | CoreSet::Auto => {
                CoreRequest::Any(self.threads.clamp(1, device.core_count()))
            }
        }
    }

    /// Records that a submitted run has named its cores, if it has. Returns its number among such runs.
    pub(super) fn name_cores(&self, cores: CoreSet) -> Option<u64> {
        let CoreSet::Listed(list) = cores else { return None };
        let queue = self.queues.queue(self.named?).ok()?;
        Some(queue.name_cores(list.bits()))
    }

    /// Records that this run has ended.
    pub(super) fn forget_cores(&self, serial: u64) {
        if let Some(Ok(queue)) = self.named.map(|device| self.queues.queue(device)) {
            queue.forget_cores(serial);
        }
    }

    /// Counts a submitted run.
    ///
    /// # Errors
    /// Fails if a device is lost, or the maximal number of runs is in flight.
    pub(super) fn enter(&self) -> Result<()> {
        self.used.check_there()?;
        let mut state = lock(&self.state);
        if state.in_flight >= self.most {
            let why = format!(
                "the session has {} runs in flight, which is its maximum; wait for one, or create the session with more frames or depth",
                self.most
            );
            return Err(Error::new(ErrorCode::Busy, why));
        }
        state.in_flight += 1;
        self.queues.note_submitted();
        Ok(())
    }

    /// Returns a free frame. Otherwise the run waits for one.
    pub(super) fn take(&self, run: &Arc<impl WaitingRun + 'static>) -> Option<Frame> {
        let mut state = lock(&self.state);
        if let Some(frame) = state.free.pop() {
            return Some(frame);
        }
        if let Some(waiting) = state.waiting.get_mut(run.priority().place()) {
            waiting.push_back(Arc::clone(run) as Arc<dyn WaitingRun>);
        }
        None
    }

    /// Removes a waiting run. Returns whether it was waiting.
    pub(super) fn remove(&self, run: &dyn WaitingRun) -> bool {
        lock(&self.state).waiting.iter_mut().any(|waiting| remove(waiting, run))
    }

    /// Counts an ended run and takes back its frame. Returns the waiting run that gets the frame, if any.
    pub(super) fn leave(&self, frame: Option<Frame>) -> Option<(Arc<dyn WaitingRun>, Frame)> {
        let mut state = lock(&self.state);
        state.in_flight -= 1;
        self.queues.note_ended();
        state.give_back(frame?)
    }

    /// Allocates the memory that runs with inputs of these shapes need, in all free frames. Returns the number of frames
    /// in use, which are skipped. No run can take a frame meanwhile.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn prepare(&self, shapes: &[Vec<Shape>]) -> Result<usize> {
        let mut ready = Vec::with_capacity(self.count);
        let mut prepared = Ok(());
        while prepared.is_ok() {
            let Some(mut frame) = lock(&self.state).free.pop() else { break };
            prepared = frame.prepare(shapes);
            ready.push(frame);
        }
        let busy = self.count - ready.len();
        for frame in ready {
            let next = lock(&self.state).give_back(frame);
            if let Some((next, frame)) = next {
                next.begin(frame);
            }
        }
        prepared.map(|()| busy)
    }
}

impl State {
    /// Takes back a frame. Returns the waiting run that gets it, if any.
    fn give_back(&mut self, frame: Frame) -> Option<(Arc<dyn WaitingRun>, Frame)> {
        if let Some(next) = self.waiting.iter_mut().find_map(VecDeque::pop_front) {
            return Some((next, frame));
        }
        self.free.push(frame);
        None
    }
}
