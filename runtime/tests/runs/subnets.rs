//! Subnets on different devices work at several runs at once: while one is at a run, those before it are at later ones.

use std::array;
use std::num::NonZero;
use std::slice;

use udo_api::guard::thread_heap_calls;
use udo_api::{Core, CoreKind};
use udo_engine::cores::OpenCl;
use udo_engine::run::RunSpanKind;
use udo_runtime::device::{DeviceSpec, Devices};
use udo_runtime::run::{RunLog, RunOptions, SessionOptions};
use udo_runtime::{CompileOptions, Model, Runtime};

use super::gate::{began, open, passed, runtime_on};
use super::{LONG, compile, cpu, elements, on};

/// The gates of the three subnets, in their order.
const GATES: [usize; 3] = [14, 15, 16];

const FRAMES: usize = 4;

const TEXT: &str = "graph g
  input x: f32[2]
  a = Gate@1(x) of=14 # first
  b = Gate@1(a) of=15 # second
  y = Gate@1(b) of=16 # third
  output y
";

/// A runtime whose CPU has cores enough for what is moved between devices beside a run that waits at a gate.
fn runtime() -> Runtime {
    let devices = [Core::CPU, Core::DSP_V68, Core::GPU]
        .map(|core| DeviceSpec { cores: 4, ..DeviceSpec::new(core) });
    runtime_on(Devices::new(&devices).unwrap())
}

fn model(runtime: &Runtime) -> Model {
    let mut options = CompileOptions::default();
    options.place.affinity = ["second=dsp", "third=gpu"].map(|pin| pin.parse().unwrap()).to_vec();
    options.place.profile.opencl = OpenCl::Off;
    compile(runtime, TEXT, &options)
}

/// Four runs through three subnets take six turns in which each device is at one run at most, instead of the twelve that they take one after the
/// other. A turn begins when all that can be at work is, and only then may any of it end.
#[test]
fn four_runs_through_three_subnets_take_half_the_turns() {
    let runtime = runtime();
    let model = model(&runtime);
    let names: Vec<&str> = model.report().subnets.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["CPU Subnet 0", "DSP Subnet 1", "GPU Subnet 2"]);
    let log = RunLog::with_room(200);
    let options = SessionOptions {
        frames: NonZero::new(FRAMES).unwrap(),
        log: Some(log.clone()),
        ..SessionOptions::default()
    };
    let mut session = model.session_with(&options).unwrap();
    let x = on(&cpu(&runtime), &[2], &[1.0f32, -2.0]);
    let launches: [_; FRAMES] = array::from_fn(|_| {
        session.record(slice::from_ref(&x), &[None], RunOptions::default()).unwrap()
    });
    let round = || {
        let before = thread_heap_calls();
        let runs = launches.each_ref().map(|launch| launch.submit().unwrap());
        let turns = let_through();
        for run in &runs {
            run.wait_timeout(LONG).unwrap();
        }
        let heap_calls = thread_heap_calls() - before;
        for run in &runs {
            assert_eq!(elements::<f32>(&run.output(0).unwrap()), [1.0, -2.0]);
        }
        (turns, heap_calls)
    };
    // The first runs start threads and make the outputs.
    assert_eq!(
        round().0,
        6,
        "each device begins a turn after the one before it, and has a turn for each run"
    );
    order_is_that_of_the_report(&model, &log);
    assert_eq!(round(), (6, 0));
}

/// Lets all runs through, turn by turn; says how many turns there were.
fn let_through() -> u32 {
    let mut passed = GATES.map(passed);
    let all = passed.map(|count| count + u32::try_from(FRAMES).unwrap());
    let mut turns = 0;
    while passed != all {
        // A run is at the gate of a subnet that has let fewer through than the one before it.
        let before = [all[0], passed[0], passed[1]];
        let is_there = [0, 1, 2].map(|of| passed[of] < before[of]);
        let at = || (0..3).filter(|&of| is_there[of]);
        for of in at() {
            began(GATES[of], passed[of] + 1);
        }
        for of in at() {
            passed[of] += 1;
            open(GATES[of], passed[of]);
        }
        turns += 1;
    }
    turns
}

/// The log of each run names the devices of the subnets, in order.
fn order_is_that_of_the_report(model: &Model, log: &RunLog) {
    let wanted: Vec<Option<CoreKind>> =
        model.report().subnets.iter().map(|of| of.core.kind()).collect();
    assert_eq!(log.lost(), 0);
    for run in 0..FRAMES as u64 {
        let spans = log.spans();
        let parts =
            spans.iter().filter(|of| of.run == run && matches!(of.kind, RunSpanKind::Part(_)));
        let mut kinds: Vec<Option<CoreKind>> =
            parts.map(|of| of.device.map(|id| id.kind)).collect();
        // What is moved between two devices is moved by the host.
        let mut at = 0;
        kinds.retain(|kind| {
            at += 1;
            at == 1 || *kind != Some(CoreKind::Cpu)
        });
        assert_eq!(kinds, wanted, "run {run}");
    }
}
