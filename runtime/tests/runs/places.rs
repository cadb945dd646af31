//! Where inputs and outputs of runs lie: used there where that can be, and copied, and counted, where not.

use std::slice;

use udo_api::DType;
use udo_engine::device::{
    AllocMemory, AllocOptions, ImportMemory, ImportOptions, Packing, Sharing, SpecDetails,
};
use udo_runtime::device::{Coherence, DeviceSpec, DeviceTensor, ErrorCode, TensorSpec};
use udo_runtime::run::{Copies, RunOptions};
use udo_runtime::{CompileOptions, Runtime, Session};

use super::{compile, cpu, elements, on};
use udo_compile::options::set_dim;

const TEXT: &str = "graph g
  input x: f32[4]
  input s: f32[4]
  a = Add@14(x, s)
  y = Relu@14(a)
  output y
";

fn copies(inputs: usize, outputs: usize, bytes: u64) -> Copies {
    Copies { inputs, outputs, bytes }
}

/// Returns the output of a run, however it is requested, and its copies.
fn runs(
    session: &mut Session,
    inputs: &[DeviceTensor],
    output: Option<&DeviceTensor>,
) -> (Vec<f32>, Copies) {
    let given = [output.cloned()];
    let made = session.run_on(inputs, &given).unwrap();
    let said = (elements::<f32>(&made[0]), session.copies());
    for _ in 0..2 {
        let run = session.submit(inputs, &given, RunOptions::default()).unwrap();
        run.wait().unwrap();
        let again = (elements::<f32>(&run.output(0).unwrap()), run.copies().unwrap());
        assert_eq!(again, said);
    }
    said
}

#[test]
fn b23_tensors_are_used_where_they_lie() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let mut session = compile(&runtime, TEXT, &CompileOptions::default()).session().unwrap();
    let x = on(&cpu, &[4], &[1.0f32, -2.0, 3.0, -4.0]);
    let s = on(&cpu, &[4], &[1.0f32; 4]);
    let y = on(&cpu, &[4], &[7.0f32; 4]);
    let right = vec![2.0f32, 0.0, 4.0, 0.0];
    let given = [x.clone(), s.clone()];
    assert_eq!(runs(&mut session, &given, Some(&y)), (right.clone(), copies(0, 0, 0)));
    assert_eq!(elements::<f32>(&y), right);
    assert_eq!(elements::<f32>(&x), [1.0, -2.0, 3.0, -4.0], "inputs stay as they are");
    assert_eq!(runs(&mut session, &given, None), (right, copies(0, 0, 0)));
    assert_eq!(
        runs(&mut session, &[x.clone(), x], None),
        (vec![2.0, 0.0, 6.0, 0.0], copies(0, 0, 0))
    );
    // What the session has of its own is none of a run's business.
    session.input_mut::<f32>("x").unwrap().fill(5.0);
    session.input_mut::<f32>("s").unwrap().fill(1.0);
    assert_eq!(runs(&mut session, &given, Some(&y)).1, copies(0, 0, 0));
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [6.0; 4]);
    assert_eq!(elements::<f32>(&y), [2.0, 0.0, 4.0, 0.0]);
}

/// The memory of a stage's own inputs and outputs.
#[test]
fn b23_a_session_has_tensors_of_its_own_that_are_never_copied() {
    let runtime = Runtime::new().unwrap();
    let mut session = compile(&runtime, TEXT, &CompileOptions::default()).session().unwrap();
    let io = session.io(None).unwrap().clone();
    io.inputs[0].write(&[0; 16]).unwrap();
    io.inputs[1].copy_from(&on(&cpu(&runtime), &[4], &[1.0f32, -2.0, 3.0, -4.0])).unwrap();
    let output = io.outputs[0].clone();
    let right = (vec![1.0f32, 0.0, 3.0, 0.0], copies(0, 0, 0));
    assert_eq!(runs(&mut session, &io.inputs, Some(&output)), right);
    let again = session.io(None).unwrap();
    assert_eq!(again.outputs[0].memory(), output.memory(), "the same at each call");
    assert_eq!(elements::<f32>(&output), right.0);
    let open = "graph g\n  input x: f32[n]\n  y = Relu@14(x)\n  output y\n";
    let mut session = compile(&runtime, open, &CompileOptions::default()).session().unwrap();
    let error = session.io(None).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(error.to_string().starts_with("input 0, \"x\", has no shape yet"), "{error}");
    session.prepare(&[("x", &[3])]).unwrap();
    let first = session.io(None).unwrap().inputs[0].clone();
    assert_eq!(first.spec().dims().unwrap(), [3]);
    session.prepare(&[("x", &[5])]).unwrap();
    assert_eq!(session.io(None).unwrap().outputs[0].spec().dims().unwrap(), [5]);
}

#[test]
fn b23_tensors_in_another_layout_are_copied_and_counted() {
    let dsp = DeviceSpec {
        coherence: Coherence::NonCoherent { seed: Some(3) },
        ..DeviceSpec::new(udo_api::Core::DSP_V68)
    };
    let runtime =
        Runtime::builder().devices([DeviceSpec::new(udo_api::Core::CPU), dsp]).build().unwrap();
    let (cpu, dsp) = (cpu(&runtime), runtime.devices().get(udo_api::CoreKind::Dsp, 0).unwrap());
    let mut session = compile(&runtime, TEXT, &CompileOptions::default()).session().unwrap();
    let near = on(&cpu, &[4], &[1.0f32; 4]);
    let far = on(&dsp, &[4], &[2.0f32; 4]);
    let inputs = [near.clone(), far.clone()];
    assert_eq!(runs(&mut session, &inputs, None), (vec![3.0; 4], copies(1, 0, 16)));
    let inputs = [near.clone(), near.clone()];
    assert_eq!(runs(&mut session, &inputs, Some(&far)), (vec![2.0; 4], copies(0, 1, 16)));
    // Other processes may write memory that was exported, unless it was promised that they do not.
    let options = AllocOptions { sharing: Sharing::Exportable, ..AllocOptions::default() };
    let memory = cpu.alloc_with(4096, &options).unwrap();
    let spec = TensorSpec::fixed(DType::F32, &[4]).unwrap();
    let shared = DeviceTensor::from_memory(spec, memory.all()).unwrap();
    shared.copy_from(&near).unwrap();
    let inputs = [shared.clone(), near.clone()];
    assert_eq!(runs(&mut session, &inputs, None), (vec![2.0; 4], copies(0, 0, 0)));
    let fd = memory.export_fd().unwrap();
    assert_eq!(runs(&mut session, &inputs, None), (vec![2.0; 4], copies(1, 0, 16)));
    drop((shared, memory, inputs));
    let whole = ImportOptions { size_bytes: 4096, offset_bytes: 0, is_exclusive: true };
    // SAFETY: the file is this test's, and what it was exported from is gone.
    let alone = unsafe { cpu.import_fd(std::os::fd::AsRawFd::as_raw_fd(&fd), whole) };
    let alone = DeviceTensor::from_memory(spec, alone.unwrap().all()).unwrap();
    assert_eq!(runs(&mut session, &[alone, near], None), (vec![2.0; 4], copies(0, 0, 0)));
}

#[test]
fn b23_packed_and_askew_tensors() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = "graph g\n  input x: u8[5,2]\n  y = Transpose@13(x) perm=[1,0]\n  output y\n";
    let mut session = compile(&runtime, text, &CompileOptions::default()).session().unwrap();
    let all: Vec<u8> = (0..10).collect();
    let right: Vec<u8> = vec![0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
    let packed = TensorSpec::fixed(DType::U8, &[5, 2]).unwrap();
    let packed = packed.with_packing(Packing::N4).unwrap();
    let packed = DeviceTensor::new(&cpu, packed).unwrap();
    packed.write(&all).unwrap();
    let made = session.run_on(&[packed], &[None]).unwrap();
    assert_eq!((elements::<u8>(&made[0]), session.copies()), (right.clone(), copies(1, 0, 10)));
    // A single byte may begin anywhere.
    let memory = cpu.alloc(64).unwrap();
    let part = |at: u64, dims: &[usize]| {
        let spec = TensorSpec::fixed(DType::U8, dims).unwrap();
        DeviceTensor::from_memory(spec, memory.view(at..at + 10).unwrap()).unwrap()
    };
    let (x, y) = (part(3, &[5, 2]), part(17, &[2, 5]));
    memory.fill(0x11).unwrap();
    x.write(&all).unwrap();
    session.run_on(slice::from_ref(&x), &[Some(y.clone())]).unwrap();
    assert_eq!((elements::<u8>(&y), session.copies()), (right, copies(0, 0, 0)));
    let around = memory.read_all().unwrap();
    assert_eq!((&around[13..17], &around[27..30]), (&[0x11; 4][..], &[0x11; 3][..]));
}

/// B08 as well: of what a range bounds nothing is touched behind a run's extents.
#[test]
fn b23_bounded_tensors_are_used_where_there_is_room_for_their_bounds() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = "graph g
  input x: f32[n,2]
  constant w: f32[2,3]{0.5}
  a = MatMul@13(x, w)
  y = Softmax@13(a) axis=1
  output a, y
";
    let mut options = CompileOptions::default();
    set_dim(&mut options.bind, "n", 1..=4);
    let mut session = compile(&runtime, text, &options).session().unwrap();
    session.input_mut::<f32>("x").unwrap().fill(8.0);
    let own = session.io(None).unwrap().inputs[0].spec().dims().unwrap().to_vec();
    for n in [2usize, 4, 1, 3, 2] {
        let numbers = || (0u8..).map(f32::from);
        let x = on(&cpu, &[n, 2], &numbers().take(2 * n).collect::<Vec<_>>());
        let sums: Vec<f32> = numbers().take(n).flat_map(|row| [row * 2.0 + 0.5; 3]).collect();
        let places = [(); 2].map(|()| on(&cpu, &[4, 3], &[7.0f32; 12]));
        let exact = on(&cpu, &[n, 3], &vec![7.0f32; 3 * n]);
        let given = [Some(places[0].clone()), Some(places[1].clone())];
        for round in 0..3 {
            let (made, copied) = if round == 0 {
                (session.run_on(slice::from_ref(&x), &given).unwrap(), session.copies())
            } else {
                let run = session.submit(slice::from_ref(&x), &given, RunOptions::default());
                let run = run.unwrap();
                run.wait().unwrap();
                ([0, 1].map(|at| run.output(at).unwrap()).to_vec(), run.copies().unwrap())
            };
            assert_eq!(copied, copies(0, 0, 0), "{n}");
            assert_eq!(made[0].memory(), places[0].memory());
            assert_eq!(made[1].spec().dims().unwrap(), [n, 3]);
            assert_eq!(elements::<f32>(&made[0]), sums);
            assert_eq!(&elements::<f32>(&places[0])[3 * n..], &vec![7.0; 12 - 3 * n]);
            assert_eq!(&elements::<f32>(&places[1])[3 * n..], &vec![7.0; 12 - 3 * n]);
        }
        // Where there is room for the run's extents alone, and where a run makes the output.
        let made = session.run_on(slice::from_ref(&x), &[Some(exact), None]).unwrap();
        let count = if n == 4 { 1 } else { 2 };
        let bytes = u64::try_from(12 * n * count).unwrap();
        assert_eq!(session.copies(), copies(0, count, bytes));
        assert_eq!(elements::<f32>(&made[0]), sums);
        // What the session has of its own is none of a run's business.
        assert_eq!(session.io(None).unwrap().inputs[0].spec().dims().unwrap(), own);
        session.run().unwrap();
        assert_eq!(session.output::<f32>("a").unwrap(), [8.0; 12]);
    }
    let error = session.run_on(&[on(&cpu, &[5, 2], &[0.0f32; 10])], &[None, None]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("a").unwrap(), [8.0; 12], "the session stays");
}

/// An output that is an input, and two that are one.
#[test]
fn b23_values_wanted_by_two_outputs_are_copied_to_one() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = "graph g
  input x: f32[2]
  same = Identity@16(x)
  y = Neg@13(x)
  z = Identity@16(y)
  output same, y, z
";
    let mut session = compile(&runtime, text, &CompileOptions::default()).session().unwrap();
    let x = on(&cpu, &[2], &[1.0f32, 2.0]);
    let outputs = [(); 3].map(|()| Some(on(&cpu, &[2], &[0.0f32; 2])));
    for _ in 0..2 {
        let made = session.run_on(slice::from_ref(&x), &outputs).unwrap();
        let made: Vec<Vec<f32>> = made.iter().map(elements).collect();
        assert_eq!(made, [[1.0, 2.0], [-1.0, -2.0], [-1.0, -2.0]]);
        assert_eq!(session.copies(), copies(0, 2, 16));
    }
    assert_eq!(elements::<f32>(&x), [1.0, 2.0]);
}

/// The tensors of a session for its inputs and outputs, run after run.
#[test]
fn b23_a_launch_whose_made_output_is_in_use_is_busy() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let mut session = compile(&runtime, TEXT, &CompileOptions::default()).session().unwrap();
    let x = on(&cpu, &[4], &[1.0f32; 4]);
    let launch = session.record(&[x.clone(), x], &[None], RunOptions::default()).unwrap();
    let run = launch.submit().unwrap();
    run.wait().unwrap();
    let made = run.output(0).unwrap();
    let map = made.memory().map(0..16).unwrap();
    let error = launch.submit().unwrap().wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().starts_with("output 0: "), "{error}");
    drop(map);
    launch.submit().unwrap().wait().unwrap();
    assert_eq!(elements::<f32>(&made), [2.0; 4]);
}
