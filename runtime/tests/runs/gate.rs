//! A package whose kernel waits until the test lets it go: what is in flight meanwhile is in flight for sure.

use std::num::NonZero;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port,
};
use udo_engine::run::Callback;
use udo_runtime::device::{DeviceSpec, Devices, ErrorCode};
use udo_runtime::run::{Priority, RunOptions, SharedWorkspace};
use udo_runtime::{CompileOptions, Runtime};

use super::{LONG, compile, cpu, elements, on, sharing, with_frames};
use udo_engine::device::Coded;
use udo_test_support::compile::built_in;

static PACKAGE: PackageV1 = PackageV1::new("Gates", "1.0.0")
    .ops(&[OpDef::of::<Gate>(), OpDef::of::<ManyGates>()])
    .kernels(&[
        KernelDef::new::<GateF32>("Gate", Core::CPU),
        KernelDef::new::<GateF32>("Gate", Core::DSP_V68),
        KernelDef::new::<GateF32>("Gate", Core::GPU),
        KernelDef::new::<ManyGatesF32>("ManyGates", Core::CPU),
    ]);

/// Its input, once gate number `of` is open.
struct Gate;

impl Op for Gate {
    const SCHEMA: OpSchema = OpSchema::new(
        "Gate",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::scalar("of", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// Its input, in calls of one parallel-for, of which the first ones wait for gate number `of`.
struct ManyGates;

impl Op for ManyGates {
    const SCHEMA: OpSchema = OpSchema::new(
        "ManyGates",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::scalar("of", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Gate::infer(cx)
    }
}

/// How many calls began, and how many may end. A test has a gate of its own.
static GATES: [(AtomicU32, AtomicU32); 17] = [const { (AtomicU32::new(0), AtomicU32::new(0)) }; 17];

/// The most calls of each gate that were at work at once, and those that are now.
static AT_ONCE: [(AtomicU32, AtomicU32); 17] =
    [const { (AtomicU32::new(0), AtomicU32::new(0)) }; 17];

struct GateF32 {
    of: usize,
}

impl Kernel for GateF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { of: usize::try_from(cx.int("of")?).unwrap_or_default() })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (most, now) = &AT_ONCE[self.of];
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pass(self.of);
        let x = io.inputs.get::<f32>(0)?;
        io.outputs.take::<f32>(0)?.copy_from_slice(x);
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

struct ManyGatesF32 {
    of: usize,
}

/// How many calls `ManyGates` makes, of which so many wait at its gate: as many as a test has threads.
const CALLS: usize = 1000;

impl Kernel for ManyGatesF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { of: usize::try_from(cx.int("of")?).unwrap_or_default() })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        io.parallel.run(CALLS, |_| {
            pass(self.of);
            Ok(())
        })?;
        let x = io.inputs.get::<f32>(0)?;
        io.outputs.take::<f32>(0)?.copy_from_slice(x);
        Ok(())
    }
}

/// Goes through a gate, once that is open for as many.
fn pass(gate: usize) {
    let (began, open) = &GATES[gate];
    let number = began.fetch_add(1, Ordering::SeqCst);
    while open.load(Ordering::SeqCst) <= number {
        std::thread::yield_now();
    }
}

pub(super) fn began(gate: usize, count: u32) {
    while GATES[gate].0.load(Ordering::SeqCst) < count {
        std::thread::yield_now();
    }
}

pub(super) fn open(gate: usize, count: u32) {
    GATES[gate].1.store(count, Ordering::SeqCst);
}

/// For how many it is open.
pub(super) fn passed(gate: usize) -> u32 {
    GATES[gate].1.load(Ordering::SeqCst)
}

pub(super) fn runtime() -> Runtime {
    runtime_on(Devices::default())
}

pub(super) fn runtime_on(devices: Devices) -> Runtime {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    Runtime::from_parts(operators, devices)
}

pub(super) fn text(gate: usize) -> String {
    format!(
        "graph g\n  input x: f32[2]\n  a = Relu@14(x)\n  b = Gate@1(a) of={gate}\n  y = Neg@13(b)\n  output y\n"
    )
}

/// B11.
#[test]
fn submit_returns_while_a_kernel_is_at_work_and_waiting_for_some_time_leaves_it_alone() {
    let runtime = runtime();
    let model = compile(&runtime, &text(0), &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = model.session().unwrap();
    let (x, y) = (on(&cpu, &[2], &[1.0f32, -2.0]), on(&cpu, &[2], &[7.0f32, 7.0]));
    let run =
        session.submit(slice::from_ref(&x), &[Some(y.clone())], RunOptions::default()).unwrap();
    began(0, 1);
    assert_eq!(run.wait_timeout(Duration::from_millis(1)).unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(x.write(&[0; 8]).unwrap_err().code(), ErrorCode::Busy);
    assert_eq!(y.to_host().unwrap_err().code(), ErrorCode::Busy);
    let error =
        session.submit(slice::from_ref(&x), &[Some(y.clone())], RunOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().starts_with("output 0: "), "{error}");
    open(0, 1);
    run.wait_timeout(LONG).unwrap();
    assert_eq!(elements::<f32>(&y), [-1.0, 0.0]);
}

/// B22.
#[test]
fn frames_of_runs_are_not_reserved_and_this_is_reported() {
    let runtime = runtime();
    let text = text(13).replace("f32[2]", "f32[n]");
    let model = compile(&runtime, &text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = model.session().unwrap();
    session.prepare(&[("x", &[2])]).unwrap();
    session.reserve().unwrap();
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
    began(13, 1);
    session.reserve().unwrap();
    session.prepare(&[("x", &[3])]).unwrap();
    let error = session.reserve().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().starts_with("1 of the session's 1 frames are busy"), "{error}");
    open(13, 2);
    run.wait().unwrap();
    session.reserve().unwrap();
    assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-1.0, 0.0]);
}

#[test]
fn a_kernel_that_ignores_its_cancellation_keeps_the_leases_until_it_ends() {
    let runtime = runtime();
    let model = compile(&runtime, &text(1), &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = model.session().unwrap();
    let (x, y) = (on(&cpu, &[2], &[1.0f32, -2.0]), on(&cpu, &[2], &[7.0f32, 7.0]));
    let run =
        session.submit(slice::from_ref(&x), &[Some(y.clone())], RunOptions::default()).unwrap();
    began(1, 1);
    run.cancel();
    assert!(!run.is_done());
    assert_eq!(x.write(&[0; 8]).unwrap_err().code(), ErrorCode::Busy);
    open(1, 1);
    assert_eq!(run.wait().unwrap_err().code(), ErrorCode::Cancelled);
    y.write(&[7; 8]).unwrap();
    x.write(&[0; 8]).unwrap();
}

#[test]
fn a_parallel_for_makes_no_more_calls_once_its_run_is_cancelled() {
    for (gate, threads) in [(8, 1), (9, 2)] {
        let runtime = runtime();
        let threads = NonZero::new(threads).unwrap();
        let text = text(gate).replace("Gate@1", "ManyGates@1");
        let model =
            compile(&runtime, &text, &CompileOptions { threads, ..CompileOptions::default() });
        let mut session = model.session().unwrap();
        let x = on(&cpu(&runtime), &[2], &[1.0f32, -2.0]);
        let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
        let at_once = u32::try_from(threads.get()).unwrap();
        began(gate, at_once);
        run.cancel();
        open(gate, u32::MAX);
        assert_eq!(run.wait().unwrap_err().code(), ErrorCode::Cancelled);
        assert_eq!(GATES[gate].0.load(Ordering::SeqCst), at_once, "calls that began");
        let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
        run.wait_timeout(LONG).unwrap();
        assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-1.0, 0.0], "the next one is whole");
        let calls = GATES[gate].0.load(Ordering::SeqCst) - at_once;
        assert_eq!(usize::try_from(calls).unwrap(), CALLS);
    }
}

#[test]
fn a_device_that_goes_away_under_a_run_fails_it_and_comes_back() {
    let runtime = runtime();
    let model = compile(&runtime, &text(2), &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = with_frames(&model, 1);
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let mut submit = || session.submit(slice::from_ref(&x), &[None], RunOptions::default());
    let runs = [submit().unwrap(), submit().unwrap()];
    began(2, 1);
    runtime.lose_device(&cpu);
    assert_eq!(submit().unwrap_err().code(), ErrorCode::DeviceLost);
    open(2, 9);
    for run in runs {
        assert_eq!(run.wait().unwrap_err().code(), ErrorCode::DeviceLost);
    }
    runtime.reset_device(&cpu);
    let run = submit().unwrap();
    run.wait().unwrap();
    assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-1.0, 0.0]);
}

/// Private memories: two runs of one session are in a kernel at once.
#[test]
fn b19_private_sessions_overlap_in_time() {
    let runtime = runtime();
    let model = compile(&runtime, &text(3), &CompileOptions::default());
    let cpu = cpu(&runtime);
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let mut session = model.session().unwrap();
    let mut own = model.session().unwrap();
    own.input_mut::<f32>("x").unwrap().copy_from_slice(&[3.0, 4.0]);
    let run = session.submit(&[x], &[None], RunOptions::default()).unwrap();
    began(3, 1);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| own.run());
        began(3, 2);
        open(3, 2);
        beside.join().unwrap().unwrap();
    });
    run.wait().unwrap();
    assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-1.0, 0.0]);
    assert_eq!(own.output::<f32>("y").unwrap(), [-3.0, -4.0]);
}

#[test]
fn b19_two_threads_on_one_network_serialise_and_are_right() {
    let runtime = runtime();
    let model = compile(&runtime, &text(4), &CompileOptions::default());
    let cpu = cpu(&runtime);
    let workspace = SharedWorkspace::default();
    open(4, 1 << 20);
    std::thread::scope(|scope| {
        for seed in [1.0f32, 2.0, 3.0] {
            let mut session = sharing(&model, &workspace, 2);
            let x = on(&cpu, &[2], &[seed, -seed]);
            scope.spawn(move || {
                for round in 0..100 {
                    if round % 3 == 0 {
                        let run =
                            session.submit(slice::from_ref(&x), &[None], RunOptions::default());
                        let run = run.unwrap();
                        run.wait_timeout(LONG).unwrap();
                        assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-seed, 0.0]);
                    }
                    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[seed, seed]);
                    session.run().unwrap();
                    assert_eq!(session.output::<f32>("y").unwrap(), [-seed, -seed]);
                }
            });
        }
    });
    assert_eq!(AT_ONCE[4].0.load(Ordering::SeqCst), 1);
}

/// Who waits for the workspace waits beside the queue, whose thread goes on with others.
#[test]
fn b19_waiting_for_a_workspace_does_not_block_other_runs() {
    let runtime = runtime();
    let held = compile(&runtime, &text(5), &CompileOptions::default());
    let free = compile(&runtime, &text(6), &CompileOptions::default());
    open(6, 1 << 20);
    let cpu = cpu(&runtime);
    let workspace = SharedWorkspace::default();
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let (mut one, mut two) = (sharing(&held, &workspace, 1), sharing(&held, &workspace, 1));
    let mut other = free.session().unwrap();
    std::thread::scope(|scope| {
        one.input_mut::<f32>("x").unwrap().fill(1.0);
        let at_work = scope.spawn(move || one.run());
        began(5, 1);
        let submit = |options| two.submit(slice::from_ref(&x), &[None], options).unwrap();
        let (first, rest) = std::iter::repeat_with(RunOptions::default)
            .take(3)
            .map(submit)
            .collect::<Vec<_>>()
            .split_first()
            .map(|(first, rest)| (first.clone(), rest.to_vec()))
            .unwrap();
        // The queue's thread has them taken on by the time that it runs this.
        let beside = other.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
        beside.wait_timeout(LONG).unwrap();
        first.cancel();
        assert_eq!(first.wait_timeout(LONG).unwrap_err().code(), ErrorCode::Cancelled);
        assert!(rest.iter().all(|run| !run.is_done()));
        open(5, 9);
        at_work.join().unwrap().unwrap();
        for run in rest {
            run.wait_timeout(LONG).unwrap();
            assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-1.0, 0.0]);
        }
    });
}

#[test]
fn b19_a_callback_does_not_wait_for_a_workspace() {
    let runtime = runtime();
    let model = compile(&runtime, &text(7), &CompileOptions::default());
    open(7, 1 << 20);
    let cpu = cpu(&runtime);
    let workspace = SharedWorkspace::default();
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let (mut one, mut two) = (sharing(&model, &workspace, 1), sharing(&model, &workspace, 1));
    let (said, heard) = std::sync::mpsc::channel();
    let on_done = move |_: &Result<(), _>| said.send(two.run().unwrap_err().code()).unwrap();
    let options = RunOptions { on_done: Some(Box::new(on_done)), ..RunOptions::default() };
    one.submit(&[x], &[None], options).unwrap().wait_timeout(LONG).unwrap();
    assert_eq!(heard.recv_timeout(LONG).unwrap(), ErrorCode::InvalidState);
}

#[test]
fn runs_without_a_priority_have_that_of_their_model() {
    // One core, so that runs go one after the other.
    let one = DeviceSpec { cores: 1, ..DeviceSpec::new(Core::CPU) };
    let runtime = runtime_on(Devices::new(&[one]).unwrap());
    let cpu = cpu(&runtime);
    let at_work = compile(&runtime, &text(10), &CompileOptions::default());
    let x = on(&cpu, &[2], &[1.0f32, -2.0]);
    let mut first = at_work.session().unwrap();
    let first = first.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
    began(10, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let cases = [
        ("low", Priority::Low, None),
        ("medium", Priority::Medium, None),
        ("low that says high", Priority::Low, Some(Priority::High)),
        ("high", Priority::High, None),
    ];
    let submit = |(name, model, run): (&'static str, Priority, Option<Priority>)| {
        let text = "graph g\n  input x: f32[2]\n  y = Neg@13(x)\n  output y\n";
        let model = compile(
            &runtime,
            text,
            &CompileOptions { priority: model, ..CompileOptions::default() },
        );
        let order = Arc::clone(&order);
        let on_done = move |_: &_| order.lock().unwrap().push(name);
        let on_done: Callback = Box::new(on_done);
        let options = RunOptions { priority: run, on_done: Some(on_done), ..RunOptions::default() };
        model.session().unwrap().submit(slice::from_ref(&x), &[None], options).unwrap()
    };
    let runs = cases.map(submit);
    open(10, 1);
    first.wait_timeout(LONG).unwrap();
    for run in runs {
        run.wait_timeout(LONG).unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["low that says high", "high", "medium", "low"]);
}
