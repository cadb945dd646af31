//! Runs of parts that tests make: gated, failing, endless.

mod cores;
mod ends;
mod log;
mod order;
mod random;
mod submit;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use udo_api::{Core, CoreKind, DType};

use super::{
    Bindings, Callback, FrameOptions, Frames, Launch, Queues, Run, RunLog, RunOptions,
    SharedWorkspace, Stop, Work, lock,
};
use crate::device::{
    Device, DeviceId, DeviceSpec, DeviceTensor, Devices, Error, ErrorCode, Result, TensorSpec,
};

/// Long enough for anything that is not stuck.
const LONG: Duration = Duration::from_mins(1);

/// A gate that holds parts of runs back until a test opens it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<u32>, Condvar)>);

impl Gate {
    /// Lets one more through.
    fn open(&self) {
        let (passes, changed) = &*self.0;
        *lock(passes) += 1;
        changed.notify_all();
    }

    fn pass(&self) -> Result<()> {
        let (passes, changed) = &*self.0;
        let is_closed = |passes: &mut u32| *passes == 0;
        let (mut passes, waited) =
            changed.wait_timeout_while(lock(passes), LONG, is_closed).unwrap();
        if waited.timed_out() {
            return Err(Error::new(ErrorCode::Internal, "nobody opened the gate"));
        }
        *passes -= 1;
        Ok(())
    }
}

/// The behaviour of a part of a run.
type Part = Arc<dyn Fn(&Stop<'_>) -> Result<()> + Send + Sync>;

/// Parts on devices. A run adds 1 to each byte of its input.
#[derive(Clone)]
struct Parts(Vec<(DeviceId, Part)>);

impl Work for Parts {
    fn begin(&mut self, _: &mut Bindings) -> Result<()> {
        Ok(())
    }

    fn device(&self, part: usize) -> Option<DeviceId> {
        self.0.get(part).map(|(device, _)| *device)
    }

    fn run(&mut self, part: usize, stop: &Stop<'_>) -> Result<()> {
        self.0[part].1(stop)
    }

    fn end(&mut self, bound: &mut Bindings) -> Result<()> {
        let mut bytes = [0; 4];
        bound.read(0, &mut bytes)?;
        bound.write(0, &spec(), &bytes.map(|byte| byte + 1))
    }
}

fn spec() -> TensorSpec {
    TensorSpec::fixed(DType::U8, &[4]).unwrap()
}

fn cpu() -> DeviceId {
    DeviceId { kind: CoreKind::Cpu, index: 0 }
}

/// A session of parts, and where its tensors lie.
struct Session {
    queues: Arc<Queues>,
    frames: Arc<Frames>,
    home: Device,
}

impl Session {
    fn new(parts: &Parts, frames: usize, depth: usize) -> Self {
        Self::with(parts, frames, FrameOptions { depth, ..FrameOptions::default() })
    }

    fn recorder(parts: &Parts, frames: usize, depth: usize, log: Option<Arc<RunLog>>) -> Self {
        Self::with(parts, frames, FrameOptions { depth, log, ..FrameOptions::default() })
    }

    /// With a workspace that others may share.
    fn sharing(
        parts: &Parts,
        frames: usize,
        depth: usize,
        workspace: Option<SharedWorkspace>,
    ) -> Self {
        Self::with(parts, frames, FrameOptions { depth, workspace, ..FrameOptions::default() })
    }

    fn with(parts: &Parts, frames: usize, options: FrameOptions) -> Self {
        let dsp = DeviceSpec { count: 2, ..DeviceSpec::new(Core::DSP_V68) };
        // One core, so that runs go one after the other.
        let cpu = DeviceSpec { cores: 1, ..DeviceSpec::new(Core::CPU) };
        let queues = Queues::new(Devices::new(&[cpu, dsp]).unwrap());
        Self::on(&queues, parts, frames, options)
    }

    fn on(queues: &Arc<Queues>, parts: &Parts, frames: usize, options: FrameOptions) -> Self {
        let home = queues.devices().get(CoreKind::Cpu, 0).unwrap();
        let used: Vec<_> = parts.0.iter().map(|(device, _)| *device).collect();
        let work = |_| Box::new(parts.clone()) as Box<dyn Work>;
        let work = (0..frames).map(work).collect();
        let frames = Frames::new(work, queues, &used, options).unwrap();
        Self { queues: Arc::clone(queues), frames, home }
    }

    /// One part on the CPU.
    fn with_work(part: impl Fn(&Stop<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self::new(&Parts(vec![(cpu(), Arc::new(part))]), 1, 8)
    }

    /// One part on the CPU that a gate holds back.
    fn gated() -> (Self, Gate) {
        let gate = Gate::default();
        let pass = gate.clone();
        (Self::with_work(move |_| pass.pass()), gate)
    }

    fn tensor(&self) -> DeviceTensor {
        let tensor = DeviceTensor::new(&self.home, spec()).unwrap();
        tensor.write(&[1, 2, 3, 4]).unwrap();
        tensor
    }

    fn record(&self, options: RunOptions) -> (Launch, DeviceTensor, DeviceTensor) {
        let (input, output) = (self.tensor(), self.tensor());
        let given = [Some(output.clone())];
        let bound = Bindings::new((std::slice::from_ref(&input), &given), &[], &self.home).unwrap();
        (self.frames.record(bound, options).unwrap(), input, output)
    }

    fn submit(&self, options: RunOptions) -> Run {
        self.record(options).0.submit().unwrap()
    }
}

/// The runs in the order in which they began.
fn log<T>() -> (Sender<T>, Receiver<T>) {
    mpsc::channel()
}
