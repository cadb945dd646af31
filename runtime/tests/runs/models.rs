//! Submitted runs give the results of synchronous runs, on every core and for every kind of model.

use std::time::Duration;

use udo_api::{Core, CoreKind, DType};
use udo_engine::cores::{OpenCl, Profile};
use udo_engine::device::{Coded, Packing, SpecDetails};
use udo_runtime::compile::{Fallback, PlaceOptions};
use udo_runtime::device::{
    Coherence, DeviceId, DeviceSpec, DeviceTensor, ErrorCode, Extent, TensorSpec,
};
use udo_runtime::run::{RunOptions, SessionOptions};
use udo_runtime::{CompileOptions, LoadOptions, Runtime};

use super::{LONG, compile, cpu, elements, on, with_frames};

const ADD_RELU: &str = "graph g
  input a: f32[1,2,2,1]
  input b: f32[1,2,2,1]
  s = Add@14(a, b)
  y = Relu@14(s)
  output y
";

fn options(cores: &[Core]) -> CompileOptions {
    let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
    let place = PlaceOptions {
        cores: cores.to_vec(),
        fallback: Fallback::To(Core::CPU),
        profile,
        ..PlaceOptions::default()
    };
    CompileOptions { place, ..CompileOptions::default() }
}

/// N01's run, on every kind of device.
#[test]
fn a_small_network_matches_the_cpu_on_every_device() {
    let dsp = DeviceSpec {
        count: 2,
        coherence: Coherence::NonCoherent { seed: Some(7) },
        ..DeviceSpec::new(Core::DSP_V68)
    };
    let specs = [DeviceSpec::new(Core::CPU), DeviceSpec::new(Core::GPU), dsp];
    let runtime = Runtime::builder().devices(specs).build().unwrap();
    for (core, index) in [(Core::CPU, 0), (Core::GPU, 0), (Core::DSP_V68, 1)] {
        let model = compile(&runtime, ADD_RELU, &options(&[core]));
        let kind = core.kind().unwrap();
        let device = runtime.devices().get(kind, index).unwrap();
        let session = SessionOptions {
            home: Some(device.clone()),
            devices: vec![DeviceId { kind, index }],
            ..SessionOptions::default()
        };
        let mut session = model.session_with(&session).unwrap();
        let dims = [1, 2, 2, 1];
        let a = on(&device, &dims, &[1.0f32, -2.0, 3.0, -4.0]);
        let b = on(&device, &dims, &[0.5f32, 0.5, -8.0, 8.0]);
        session.reserve().unwrap();
        let before = device.heap_stats().total.current_bytes;
        for round in 0..100 {
            let run = session.submit(&[a.clone(), b.clone()], &[None], RunOptions::default());
            let run = run.unwrap();
            run.wait_timeout(LONG).unwrap();
            let made = run.output(0).unwrap();
            assert_eq!(made.memory().device(), &device);
            let there = elements::<f32>(&made);
            let near = there.iter().zip([1.5f32, 0.0, 0.0, 4.0]).all(|(a, b)| (a - b).abs() < 0.1);
            assert!(near, "{core} in round {round}: {there:?}");
        }
        assert_eq!(device.heap_stats().total.current_bytes, before, "nothing is left behind");
        let made = session.run_on(&[a, b], &[None]).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].memory().device(), &device);
    }
}

#[test]
fn a_session_asks_for_devices_that_there_are() {
    let runtime = Runtime::new().unwrap();
    let model = compile(&runtime, ADD_RELU, &CompileOptions::default());
    let devices = vec![DeviceId { kind: CoreKind::Dsp, index: 3 }];
    let error =
        model.session_with(&SessionOptions { devices, ..SessionOptions::default() }).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
    assert!(error.to_string().starts_with("there is no device dsp:3"), "{error}");
    let error = model
        .session_with(&SessionOptions { depth: usize::MAX, ..SessionOptions::default() })
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().ends_with("expected at most 65536"), "{error}");
}

/// Inputs and outputs, and what is said of them.
type Case<'a> = (&'a [&'a DeviceTensor], &'a [Option<&'a DeviceTensor>], ErrorCode, &'a str);

/// N23: what does not fit is refused by its place, and the session goes on.
#[test]
fn runs_with_unfit_tensors_are_refused_before_submission() {
    let runtime = Runtime::new().unwrap();
    let model = compile(&runtime, ADD_RELU, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let good = on(&cpu, &[1, 2, 2, 1], &[1.0f32; 4]);
    let short = on(&cpu, &[1, 2, 1, 1], &[1.0f32; 2]);
    let ints = on(&cpu, &[1, 2, 2, 1], &[1i32; 4]);
    let open = TensorSpec::new(DType::F32, &[Extent::Open]).unwrap();
    let open = DeviceTensor::with_capacity(&cpu, open, 64).unwrap();
    let mut session = model.session().unwrap();
    let cases: &[Case<'_>] = &[
        (&[&good], &[None], ErrorCode::InvalidArgument, "1 inputs, expected 2: \"a\", \"b\""),
        (&[], &[None], ErrorCode::InvalidArgument, "0 inputs, expected 2: \"a\", \"b\""),
        (&[&good; 3], &[None], ErrorCode::InvalidArgument, "3 inputs, expected 2: \"a\", \"b\""),
        (&[&good; 2], &[], ErrorCode::InvalidArgument, "0 outputs, expected 1: \"y\""),
        (
            &[&good, &short],
            &[None],
            ErrorCode::ShapeMismatch,
            "input 1, \"b\", is f32[1,2,1,1], expected f32[1,2,2,1]",
        ),
        (
            &[&ints, &good],
            &[None],
            ErrorCode::ShapeMismatch,
            "input 0, \"a\", is i32[1,2,2,1], expected f32[1,2,2,1]",
        ),
        (&[&open, &good], &[None], ErrorCode::DynamicShape, "input 0: f32[?] does not say"),
        (
            &[&good; 2],
            &[Some(&ints)],
            ErrorCode::InvalidArgument,
            "output 0, \"y\", is i32[1,2,2,1], expected one of f32",
        ),
        (
            &[&good; 2],
            &[Some(&good)],
            ErrorCode::InvalidArgument,
            "output 0 overlaps input 0; use separate memory",
        ),
    ];
    for (inputs, outputs, code, message) in cases {
        let inputs: Vec<_> = inputs.iter().map(|tensor| (*tensor).clone()).collect();
        let outputs: Vec<_> = outputs.iter().map(|tensor| tensor.cloned()).collect();
        let error = session.submit(&inputs, &outputs, RunOptions::default()).unwrap_err();
        assert_eq!(error.code(), *code, "{error}");
        assert!(error.to_string().starts_with(message), "{error}");
        let error = session.run_on(&inputs, &outputs).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
    // What only a run can find out.
    let given = [good.clone(), good.clone()];
    let error = session.submit(&given, &[Some(short)], RunOptions::default()).unwrap();
    let error = error.wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.to_string().starts_with("output 0: f32[1,2,2,1] takes 16 bytes"), "{error}");
    let run = session.submit(&given, &[None], RunOptions::default()).unwrap();
    run.wait().unwrap();
    assert_eq!(elements::<f32>(&run.output(0).unwrap()), [2.0; 4]);
}

#[test]
fn packed_tensors_are_converted_where_they_enter_and_leave() {
    let runtime = Runtime::new().unwrap();
    let text = "graph g\n  input x: u8[5,2]\n  y = Identity@16(x)\n  output y\n";
    let model = compile(&runtime, text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let spec = TensorSpec::fixed(DType::U8, &[5, 2]).unwrap().with_packing(Packing::N4).unwrap();
    let (x, y) = (DeviceTensor::new(&cpu, spec).unwrap(), DeviceTensor::new(&cpu, spec).unwrap());
    let all: Vec<u8> = (0..10).collect();
    x.write(&all).unwrap();
    let mut session = model.session().unwrap();
    session.submit(&[x], &[Some(y.clone())], RunOptions::default()).unwrap().wait().unwrap();
    assert_eq!(y.to_host().unwrap().bytes(), all);
    assert_eq!(y.memory().len(), 16);
}

/// N02's run, and B08: a shape per run, and bytes behind a short result stay.
#[test]
fn shapes_may_change_from_run_to_run() {
    let runtime = Runtime::new().unwrap();
    let text = "graph g\n  input x: f32[n,2]\n  y = Neg@13(x)\n  output y\n";
    let model = compile(&runtime, text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let spec = TensorSpec::new(DType::F32, &[Extent::Open, Extent::Fixed(2)]).unwrap();
    let room = DeviceTensor::with_capacity(&cpu, spec, 64).unwrap();
    room.memory().fill(0x11).unwrap();
    let mut session = with_frames(&model, 2);
    for n in [1u8, 3, 2, 3] {
        let given: Vec<f32> = (0..2 * n).map(f32::from).collect();
        let n = usize::from(n);
        let x = on(&cpu, &[n, 2], &given);
        let run = session.submit(&[x], &[Some(room.clone())], RunOptions::default()).unwrap();
        run.wait().unwrap();
        let out = run.output(0).unwrap();
        assert_eq!(out.spec().dims().unwrap(), [n, 2]);
        assert_eq!(elements::<f32>(&out), given.iter().map(|x| -x).collect::<Vec<_>>());
        let behind = room.memory().view(24..64).unwrap().read_all().unwrap();
        assert_eq!(behind, [0x11; 40]);
    }
}

#[test]
fn submitted_runs_plan_segments_during_the_run() {
    let text = "graph count
  input x: i64[3]
  constant zero: i64[]{0}
  constant one: i64[]{1}
  most = ReduceMax@18(x) keepdims=0 # most
  y = Range@11(zero, most, one) # numbers
  output y
";
    let runtime = Runtime::new().unwrap();
    let model = compile(&runtime, text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = model.session().unwrap();
    for most in [4i64, 2, 4] {
        let x = on(&cpu, &[3], &[1, most, 0]);
        let run = session.submit(&[x], &[None], RunOptions::default()).unwrap();
        run.wait().unwrap();
        assert_eq!(elements::<i64>(&run.output(0).unwrap()), (0..most).collect::<Vec<_>>());
    }
}

const ENDLESS: &str = "graph g
  input x: f32[2]
  input trips: i64[]
  y = Loop@16(trips, _, x) # endless
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[2]
      constant one: f32[]{1.0}
      next = Add@14(s, one) # next
      output go, next
  output y
";

#[test]
fn a_loop_without_end_is_ended_by_its_time_and_by_who_cancels_it() {
    let runtime = Runtime::new().unwrap();
    let model = compile(&runtime, ENDLESS, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let given = [on(&cpu, &[2], &[0.0f32; 2]), on(&cpu, &[], &[i64::MAX])];
    let mut session = model.session().unwrap();
    let timeout = Some(Duration::from_millis(5));
    let options = RunOptions { timeout, ..RunOptions::default() };
    let run = session.submit(&given, &[None], options).unwrap();
    assert_eq!(run.wait_timeout(LONG).unwrap_err().code(), ErrorCode::Timeout);
    assert!(run.is_done());
    let run = session.submit(&given, &[None], RunOptions::default()).unwrap();
    assert_eq!(run.wait_timeout(Duration::from_millis(2)).unwrap_err().code(), ErrorCode::Timeout);
    assert!(!run.is_done());
    run.cancel();
    assert_eq!(run.wait_timeout(LONG).unwrap_err().code(), ErrorCode::Cancelled);
}

#[test]
fn a_model_of_a_file_and_one_of_its_bytes_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.graph");
    std::fs::write(&path, ADD_RELU).unwrap();
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let models = [
        runtime.load(&path, &LoadOptions::default()).unwrap(),
        runtime.load(ADD_RELU.as_bytes(), &LoadOptions::default()).unwrap(),
    ];
    for model in models {
        let mut session = model.session().unwrap();
        let x = on(&cpu, &[1, 2, 2, 1], &[1.0f32, -2.0, 3.0, -4.0]);
        let made = session.run_on(&[x.clone(), x], &[None]).unwrap();
        assert_eq!(elements::<f32>(&made[0]), [2.0, 0.0, 6.0, 0.0]);
    }
    let error = runtime.load(folder.path().join("none.onnx"), &LoadOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidPath);
    let error = runtime.load(b"nothing", &LoadOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidFile);
}
