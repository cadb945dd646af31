//! Model checking with `loom`: queues, frames and streams in all relevant interleavings of threads.
//!
//! A failure ends the process: a deadlock, or a run that does not end as expected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use loom::thread;
use udo_api::{Core, CoreKind, DType};

use super::{Bindings, FrameOptions, Frames, Launch, Queues, RunOptions, Stop, Stream, Work};
use crate::device::{
    CoreSet, Device, DeviceId, DeviceSpec, DeviceTensor, Devices, ErrorCode, Result, TensorSpec,
};

/// Work with one part on each of some devices. A run adds 1 to the byte of its input.
struct Parts(Vec<DeviceId>);

impl Work for Parts {
    fn begin(&mut self, _: &mut Bindings) -> Result<()> {
        Ok(())
    }

    fn device(&self, part: usize) -> Option<DeviceId> {
        self.0.get(part).copied()
    }

    fn run(&mut self, _: usize, _: &Stop<'_>) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, bound: &mut Bindings) -> Result<()> {
        let mut byte = [0];
        bound.read(0, &mut byte)?;
        bound.write(0, &spec(), &byte.map(|byte| byte + 1))
    }
}

fn spec() -> TensorSpec {
    TensorSpec::fixed(DType::U8, &[1]).unwrap()
}

fn device(kind: CoreKind) -> DeviceId {
    DeviceId { kind, index: 0 }
}

/// A session with such work.
struct Session {
    frames: Arc<Frames>,
    home: Device,
}

impl Session {
    /// Creates a session with one frame.
    fn new(kinds: &[CoreKind]) -> Self {
        Self::on(Devices::default(), kinds, 1)
    }

    fn on(devices: Devices, kinds: &[CoreKind], frames: usize) -> Self {
        let queues = Queues::new(devices);
        let home = queues.devices().get(CoreKind::Cpu, 0).unwrap();
        let used: Vec<_> = kinds.iter().copied().map(device).collect();
        let frame = |_| Box::new(Parts(used.clone())) as Box<dyn Work>;
        let made = (0..frames).map(frame).collect();
        let named = used.first().copied();
        let options = FrameOptions { depth: 4, named, ..FrameOptions::default() };
        let frames = Frames::new(made, &queues, &used, options).unwrap();
        Self { frames, home }
    }

    /// Returns a launch, its input with value 1, and its output with value 9.
    fn record(&self, options: RunOptions) -> (Launch, DeviceTensor, DeviceTensor) {
        let tensor = |byte| {
            let tensor = DeviceTensor::new(&self.home, spec()).unwrap();
            tensor.write(&[byte]).unwrap();
            tensor
        };
        let (input, output) = (tensor(1), tensor(9));
        let outputs = [Some(output.clone())];
        let bound =
            Bindings::new((std::slice::from_ref(&input), &outputs), &[], &self.home).unwrap();
        (self.frames.record(bound, options).unwrap(), input, output)
    }
}

/// Explores all interleavings with at most this number of preemptions.
fn explore(preemptions: usize, model: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

#[test]
fn who_waits_gets_what_a_run_made() {
    explore(4, || {
        let session = Session::new(&[CoreKind::Cpu]);
        let (launch, _, output) = session.record(RunOptions::default());
        launch.submit().unwrap().wait().unwrap();
        assert_eq!(output.read_all().unwrap(), [2]);
    });
}

#[test]
fn a_run_goes_from_device_to_device() {
    explore(3, || {
        let session = Session::new(&[CoreKind::Cpu, CoreKind::Dsp]);
        let (launch, _, output) = session.record(RunOptions::default());
        launch.submit().unwrap().wait().unwrap();
        assert_eq!(output.read_all().unwrap(), [2]);
    });
}

#[test]
fn a_run_that_somebody_cancels_ends_once_and_gives_its_tensors_back() {
    explore(4, || {
        let session = Session::new(&[CoreKind::Cpu]);
        let ends = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ends);
        let on_done: super::Callback = Box::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let options = RunOptions { on_done: Some(on_done), ..RunOptions::default() };
        let (launch, input, output) = session.record(options);
        let run = launch.submit().unwrap();
        let other = run.clone();
        let canceller = thread::spawn(move || other.cancel());
        let byte = match run.wait() {
            Ok(()) => 2,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::Cancelled);
                9
            }
        };
        assert_eq!(ends.load(Ordering::SeqCst), 1);
        input.write(&[5]).unwrap();
        assert_eq!(output.read_all().unwrap(), [byte]);
        canceller.join().unwrap();
    });
}

#[test]
fn runs_of_a_stream_keep_their_order() {
    explore(3, || {
        let session = Session::new(&[CoreKind::Cpu]);
        let stream = Stream::default();
        let ended = Arc::new(AtomicUsize::new(0));
        let record = |place| {
            let ended = Arc::clone(&ended);
            let on_done: super::Callback = Box::new(move |_| {
                assert_eq!(ended.fetch_add(1, Ordering::SeqCst), place);
            });
            let stream = Some(stream.clone());
            session.record(RunOptions { stream, on_done: Some(on_done), ..RunOptions::default() }).0
        };
        let (first, second) = (record(0), record(1));
        first.submit().unwrap();
        second.submit().unwrap();
        stream.sync().unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn two_who_submit_get_the_frame_in_turn() {
    explore(3, || {
        let session = Session::new(&[CoreKind::Cpu]);
        let (mine, _, output) = session.record(RunOptions::default());
        let (other, _, theirs) = session.record(RunOptions::default());
        let other = thread::spawn(move || other.submit().unwrap().wait().unwrap());
        mine.submit().unwrap().wait().unwrap();
        other.join().unwrap();
        assert_eq!([output.read_all().unwrap(), theirs.read_all().unwrap()], [[2], [2]]);
    });
}

/// A CPU with two cores, each with a thread.
fn two_cores() -> Devices {
    Devices::new(&[DeviceSpec { cores: 2, ..DeviceSpec::new(Core::CPU) }]).unwrap()
}

#[test]
fn runs_on_two_cores_end_each() {
    explore(2, || {
        let session = Session::on(two_cores(), &[CoreKind::Cpu], 2);
        let (mine, _, output) = session.record(RunOptions::default());
        let (other, _, theirs) = session.record(RunOptions::default());
        let runs = [mine.submit().unwrap(), other.submit().unwrap()];
        for run in &runs {
            run.wait().unwrap();
        }
        assert_eq!([output.read_all().unwrap(), theirs.read_all().unwrap()], [[2], [2]]);
    });
}

#[test]
fn runs_that_name_a_core_have_ended_once_it_was_waited_for() {
    explore(2, || {
        let session = Session::on(two_cores(), &[CoreKind::Cpu], 1);
        let cores = Some(CoreSet::try_from(&[1][..]).unwrap());
        let record = || session.record(RunOptions { cores, ..RunOptions::default() }).0;
        let runs = [record().submit().unwrap(), record().submit().unwrap()];
        session.frames.queues.sync_core(&session.home, 1).unwrap();
        assert!(runs.iter().all(super::Run::is_done));
    });
}
