//! The frames of a session: each is the memory of one run at a time. Who finds none free waits for one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::job::Job;
use super::sync::Mutex;
use super::{Priority, Queues, RunLog, SharedWorkspace, Work, lock, remove};
use crate::device::{DeviceId, Error, ErrorCode, Result};

/// A frame, while nobody runs in it.
pub(super) type Frame = Box<dyn Work>;

/// What a session has decided about its frames.
#[derive(Debug, Default)]
pub(crate) struct FrameOptions {
    /// How many runs may wait for one.
    pub(crate) depth: usize,
    /// What they share with others, so that one run at a time is at work.
    pub(crate) workspace: Option<SharedWorkspace>,
    /// Where runs are noted, if they are.
    pub(crate) log: Option<Arc<RunLog>>,
}

/// The frames of a session, and the runs that wait for one.
pub(crate) struct Frames {
    pub(super) queues: Arc<Queues>,
    /// How many runs may be in flight: those with a frame, and those that wait.
    most: usize,
    /// How many frames there are.
    count: usize,
    /// The devices that runs use.
    devices: Vec<DeviceId>,
    /// What they share with others, so that one run at a time is at work.
    pub(super) workspace: Option<SharedWorkspace>,
    /// Where runs are noted, if they are.
    pub(super) log: Option<Arc<RunLog>>,
    state: Mutex<State>,
}

struct State {
    free: Vec<Frame>,
    /// By priority, the highest first; each in the order of submission.
    waiting: [VecDeque<Arc<Job>>; Priority::COUNT],
    in_flight: usize,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = lock(&self.state).in_flight;
        write!(f, "Frames({in_flight} of {} in flight)", self.most)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        for &device in &self.devices {
            if let Ok(queue) = self.queues.queue(device) {
                queue.release(self.count);
            }
        }
        self.queues.timer.release(self.most);
        if let Some(workspace) = &self.workspace {
            workspace.release(self.count);
        }
    }
}

impl Frames {
    /// These frames. They use `devices`.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn new(
        frames: Vec<Frame>,
        queues: &Arc<Queues>,
        devices: Vec<DeviceId>,
        options: FrameOptions,
    ) -> Result<Arc<Self>> {
        let FrameOptions { depth, workspace, log } = options;
        let (count, most) = (frames.len(), frames.len().saturating_add(depth));
        let used =
            devices.iter().map(|&device| queues.queue(device)).collect::<Result<Vec<_>>>()?;
        for queue in used {
            queue.reserve(count);
        }
        queues.timer.reserve(most);
        if let Some(workspace) = &workspace {
            workspace.reserve(count);
        }
        let waiting = std::array::from_fn(|_| VecDeque::with_capacity(depth));
        let state = Mutex::new(State { free: frames, waiting, in_flight: 0 });
        let queues = Arc::clone(queues);
        Ok(Arc::new(Self { queues, most, count, devices, workspace, log, state }))
    }

    /// Counts a run that is submitted.
    ///
    /// # Errors
    /// A device is lost, or there are as many runs in flight as there may be.
    pub(super) fn enter(&self) -> Result<()> {
        for id in &self.devices {
            self.queues.devices().get(id.kind, id.index)?.check_there()?;
        }
        let mut state = lock(&self.state);
        if state.in_flight >= self.most {
            let why = format!(
                "the session has {} runs in flight, the most it takes; wait for one, or ask for more frames or depth",
                self.most
            );
            return Err(Error::new(ErrorCode::Busy, why));
        }
        state.in_flight += 1;
        Ok(())
    }

    /// A frame for a run, if one is free; else the run waits for one.
    pub(super) fn take(&self, job: &Arc<Job>) -> Option<Frame> {
        let mut state = lock(&self.state);
        if let Some(frame) = state.free.pop() {
            return Some(frame);
        }
        if let Some(waiting) = state.waiting.get_mut(job.priority().place()) {
            waiting.push_back(Arc::clone(job));
        }
        None
    }

    /// Takes a run out of those that wait; whether it was one.
    pub(super) fn remove(&self, job: &Arc<Job>) -> bool {
        lock(&self.state).waiting.iter_mut().any(|waiting| remove(waiting, job))
    }

    /// Counts a run that ended, and takes its frame back, if it had one. That goes to who waits for one, if anybody does.
    pub(super) fn leave(&self, frame: Option<Frame>) -> Option<(Arc<Job>, Frame)> {
        let mut state = lock(&self.state);
        state.in_flight -= 1;
        let frame = frame?;
        if let Some(next) = state.waiting.iter_mut().find_map(VecDeque::pop_front) {
            return Some((next, frame));
        }
        state.free.push(frame);
        None
    }
}
