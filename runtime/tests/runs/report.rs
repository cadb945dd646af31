//! Reports of runtimes about devices, and of sessions about the plans of their last runs.

use std::num::NonZero;

use udo_api::{Core, CoreKind, Shape};
use udo_runtime::device::{DeviceSpec, DeviceTensor, ErrorCode};
use udo_runtime::graph::Graph;
use udo_runtime::run::RunOptions;
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Session, Tensor};

const OPEN: &str = "graph open\n  input x: f32[n,2]\n  y = Relu@14(x) # relu\n  output y\n";

fn runtime() -> Runtime {
    let cpu = DeviceSpec { cores: 2, memory_bytes: Some(1 << 20), ..DeviceSpec::new(Core::CPU) };
    let dsp = DeviceSpec { memory_bytes: Some(4096), ..DeviceSpec::new(Core::DSP_V68) };
    Runtime::builder().devices([cpu, dsp]).build().unwrap()
}

#[test]
fn a_report_has_each_device_and_who_has_its_memory() {
    let runtime = runtime();
    let dsp = runtime.devices().get(CoreKind::Dsp, 0).unwrap();
    drop(dsp.alloc(1000).unwrap());
    let _kept = dsp.alloc(24).unwrap();
    let expected = "runs in flight: 0
cpu:0 (host cpu): 0 of 2 cores at work, 0 runs waiting
  memory: 0 bytes in 0 memories, 0 at most, of 1048576 bytes
dsp:0 (emulated dsp:v68): 0 of 1 cores at work, 0 runs waiting
  memory: 24 bytes in 1 memories, 1000 at most, of 4096 bytes
    program: 24 bytes in 1 memories, 1000 at most";
    let report = runtime.report();
    assert_eq!(report.to_string(), expected);
    let used: Vec<bool> = report.devices.iter().map(|of| of.heap.total.peak_bytes > 0).collect();
    assert_eq!(used, [false, true]);
    runtime.lose_device(&dsp);
    let lost = runtime.report().to_string();
    assert!(lost.contains("\ndsp:0 (emulated dsp:v68), lost: 0 of 1 cores"), "{lost}");
}

fn open(runtime: &Runtime, max_plans: usize) -> Model {
    let max_plans = NonZero::new(max_plans).unwrap();
    let options = CompileOptions { max_plans, ..CompileOptions::default() };
    runtime.load(Graph::parse(OPEN).unwrap(), &LoadOptions::from(options.clone())).unwrap()
}

fn run(session: &mut Session, rows: usize) {
    let x = Tensor::from_slice(Shape::new(&[rows, 2]).unwrap(), &vec![-1.0f32; 2 * rows]).unwrap();
    session.set_input("x", &x).unwrap();
    session.run().unwrap();
}

/// The shapes of the last run's input, and how many nodes its plan has.
fn last(session: &Session) -> (String, usize) {
    let plans = session.last_plans().unwrap();
    assert_eq!(plans.len(), 1);
    let (_, desc) = plans[0].inputs().next().unwrap();
    (desc.to_string(), plans[0].report().nodes.len())
}

#[test]
fn a_session_knows_the_plan_of_its_last_run() {
    let runtime = runtime();
    let mut session = open(&runtime, 4).session().unwrap();
    assert_eq!(session.last_plans().unwrap_err().code(), ErrorCode::InvalidState);
    session.prepare(&[("x", &[5, 2])]).unwrap();
    assert_eq!(last(&session), ("f32[5,2]".to_owned(), 1), "it is prepared for that");
    run(&mut session, 3);
    assert_eq!(last(&session).0, "f32[3,2]");
    // A submitted run has memory of its own.
    let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
    let x = Tensor::from_slice(Shape::new(&[7, 2]).unwrap(), &[1.0f32; 14]).unwrap();
    let x = DeviceTensor::from_tensor(&cpu, &x).unwrap();
    let submitted = session.submit(&[x], &[None], RunOptions::default()).unwrap();
    submitted.wait().unwrap();
    assert_eq!(last(&session).0, "f32[7,2]");
    run(&mut session, 3);
    assert_eq!(last(&session).0, "f32[3,2]");
    assert_eq!(session.model().outputs(), ["y"]);
}

#[test]
fn a_plan_that_made_room_for_another_is_gone() {
    let mut session = open(&runtime(), 1).session().unwrap();
    run(&mut session, 3);
    session.prepare(&[("x", &[4, 2])]).unwrap();
    let error = session.last_plans().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(error.to_string().contains("is gone"), "{error}");
    run(&mut session, 4);
    assert_eq!(last(&session).0, "f32[4,2]");
}
