//! Kernels that break the rules of `execute`, and the errors that report them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::vec_init_then_push,
    reason = "tests break rules"
)]

use std::cell::RefCell;
use std::num::NonZero;

use udo_api::guard::thread_heap_calls;
use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port, Status, Workspace,
};
use udo_engine::thread_pool::Pool;
use udo_runtime::graph::Attr;
use udo_runtime::run::{RunError, StepError};
use udo_runtime::{CompileOptions, Session};
use udo_test_support::graphs;

static PACKAGE: PackageV1 = PackageV1::new("Misbehaving", "1.0.0")
    .ops(&[OpDef::of::<Misbehave>()])
    .kernels(&[KernelDef::new::<MisbehaveF32>("Misbehave", Core::CPU)])
    .guarded();

struct Misbehave;

impl Op for Misbehave {
    const SCHEMA: OpSchema = OpSchema::new(
        "Misbehave",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::text("how")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// One way to break the rules, switched on by a negative first element.
type Breach = fn(&mut Io<'_>) -> Result<(), ExecError>;

struct MisbehaveF32 {
    way: Breach,
}

thread_local! {
    static LAZY: RefCell<Vec<u8>> = RefCell::new(vec![0; 77]);
}

fn parallel_push(io: &mut Io<'_>) -> Result<(), ExecError> {
    io.parallel.run(8, |i| {
        if i == 5 {
            drop(std::hint::black_box(vec![0u8; 33]));
        }
        Ok(())
    })
}

fn parallel_panic(io: &mut Io<'_>) -> Result<(), ExecError> {
    io.parallel.run(8, |i| {
        assert!(i != 5, "worker call {i} broke");
        Ok(())
    })
}

const WAYS: &[(&str, Breach)] = &[
    ("nothing", |_| Ok(())),
    ("push", |_| {
        let mut v = Vec::new();
        v.push(1u64);
        std::hint::black_box(&v);
        Ok(())
    }),
    ("format", |io| {
        std::hint::black_box(format!("{:?}", io.inputs.shape(0)?));
        Ok(())
    }),
    ("box", |_| {
        std::hint::black_box(Box::new([0u8; 48]));
        Ok(())
    }),
    ("thread", |_| {
        drop(std::thread::spawn(|| {}).join());
        Ok(())
    }),
    ("thread-local", |_| {
        LAZY.with(|lazy| std::hint::black_box(lazy.borrow().len()));
        Ok(())
    }),
    ("worker", parallel_push),
    ("worker-panic", parallel_panic),
    ("panic", |_| panic!("the kernel gave up")),
    ("index", |io| {
        let x = io.inputs.get::<f32>(0)?;
        let at = std::hint::black_box(x.len());
        std::hint::black_box(x[at]);
        Ok(())
    }),
    ("status", |_| Err(ExecError::new(Status::from_code(4711)))),
    ("scratch", |io| io.scratch.take::<f32>(17).map(drop)),
    ("port", |io| io.inputs.get::<f32>(3).map(drop)),
    ("type", |io| io.inputs.get::<i64>(0).map(drop)),
    ("width", |io| io.inputs.get_bits::<u64>(0).map(drop)),
    ("output-width", |io| io.outputs.take_bits::<u16>(0).map(drop)),
    ("pair-width", |io| io.pair_bits::<u8>(0, 0).map(drop)),
    ("twice", |io| {
        io.outputs.take::<f32>(0)?;
        io.outputs.take::<f32>(0).map(drop)
    }),
    ("pair", |io| io.in_place::<f32>(0, 0).map(drop)),
    ("bound", |io| io.outputs.set_shape(0, &[9])),
    ("value", |_| Err(ExecError::bad_value(-3, 2))),
];

impl Kernel for MisbehaveF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let how = cx.text("how")?;
        let found = WAYS.iter().find(|(name, _)| *name == how);
        found
            .map(|(_, way)| Self { way: *way })
            .ok_or_else(|| Error::new(format!("no way called {how:?}")))
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f32>(16)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let x = io.inputs.get::<f32>(0)?;
        if x.first().is_some_and(|&v| v < 0.0) {
            return (self.way)(&mut io);
        }
        io.scratch.take::<f32>(16)?;
        let y = io.outputs.take::<f32>(0)?;
        y.copy_from_slice(x);
        Ok(())
    }
}

fn session(how: &str) -> Session {
    udo_api::guard::install_panic_hook();
    let graph =
        graphs::one_node("Misbehave", 1, DType::F32, &[8], &[("how", Attr::Text(how.to_owned()))]);
    let options = CompileOptions { threads: NonZero::new(2).unwrap(), ..CompileOptions::default() };
    graphs::compile(graph, &PACKAGE, &options).expect("the graph compiles").session().unwrap()
}

fn run(session: &mut Session, first: f32) -> Result<(), StepError> {
    session.input_mut::<f32>("a").unwrap()[0] = first;
    session.run().map_err(|error| match error {
        RunError::Step(error) => error,
        other => panic!("{other}"),
    })
}

#[test]
fn every_breach_is_reported_and_the_next_run_works() {
    let node = "node \"the_misbehave\": package Misbehaving's Misbehave on cpu ";
    // (way, status, what the message says)
    let cases: &[(&str, Status, &str)] = &[
        ("push", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 32 bytes"),
        ("format", Status::HEAP_USE, "used the heap in execute: "),
        ("box", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 48 bytes"),
        ("thread", Status::HEAP_USE, "used the heap in execute: "),
        ("thread-local", Status::HEAP_USE, "used the heap in execute: "),
        ("worker", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 33 bytes"),
        (
            "worker-panic",
            Status::PANICKED,
            "panicked: worker call 5 broke (runtime/tests/kernels/firewall.rs:",
        ),
        (
            "panic",
            Status::PANICKED,
            "panicked: the kernel gave up (runtime/tests/kernels/firewall.rs:",
        ),
        ("index", Status::PANICKED, "panicked: a payload that is no text"),
        ("status", Status::from_code(4711), "returned unknown status 4711"),
        (
            "scratch",
            Status::SCRATCH_EXCEEDED,
            "requested more scratch or geometry than it declared: requested 68 bytes, 64 are left",
        ),
        ("port", Status::NO_SUCH_PORT, "requested a port that the node does not have: port 3 of 1"),
        (
            "type",
            Status::WRONG_TYPE,
            "used a port as a type that it does not have: expected i64, found f32",
        ),
        (
            "width",
            Status::WRONG_TYPE,
            "used a port as a type that it does not have: expected u64, found f32",
        ),
        (
            "output-width",
            Status::WRONG_TYPE,
            "used a port as a type that it does not have: expected u16, found f32",
        ),
        (
            "pair-width",
            Status::WRONG_TYPE,
            "used a port as a type that it does not have: expected u8, found f32",
        ),
        ("twice", Status::OUTPUT_TAKEN, "took an output twice: port 0"),
        ("pair", Status::IN_PLACE, "used one port of an in-place pair on its own: port 0"),
        (
            "bound",
            Status::BOUND_EXCEEDED,
            "gave an output a larger shape than its bound: 9 elements, bound 8",
        ),
        ("value", Status::BAD_VALUE, "found a value that it cannot process: -3 at element 2"),
    ];
    assert_eq!(cases.len() + 1, WAYS.len(), "every way has a case");
    for &(how, status, message) in cases {
        let mut session = session(how);
        run(&mut session, 1.0).expect("a good input runs");
        let error = run(&mut session, -1.0).expect_err(how);
        assert_eq!(error.error.status, status, "{how}: {error}");
        let text = error.to_string();
        assert!(text.starts_with(node), "{how}: {text}");
        if how != "index" {
            assert!(text[node.len()..].starts_with(message), "{how}: {text}");
        }
        run(&mut session, 2.0).unwrap_or_else(|e| panic!("{how}: the next run fails: {e}"));
        assert_eq!(session.output::<f32>("y").unwrap()[0].to_bits(), 2.0f32.to_bits());
    }
}

#[test]
fn clean_runs_use_no_heap() {
    let mut session = session("nothing");
    run(&mut session, 1.0).unwrap();
    let before = thread_heap_calls();
    for _ in 0..100 {
        run(&mut session, 1.0).unwrap();
    }
    assert_eq!(thread_heap_calls(), before);
}

#[test]
fn a_session_may_move_to_another_thread() {
    let mut session = session("push");
    run(&mut session, 1.0).unwrap();
    let mut session = std::thread::spawn(move || {
        let error = run(&mut session, -1.0).unwrap_err();
        assert_eq!(error.error.status, Status::HEAP_USE);
        session
    })
    .join()
    .unwrap();
    run(&mut session, 1.0).unwrap();
    assert_eq!(run(&mut session, -1.0).unwrap_err().error.status, Status::HEAP_USE);
}

#[test]
fn the_pool_makes_no_heap_calls() {
    let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
    let calls_of = |body: &dyn Fn()| {
        let before = thread_heap_calls();
        (0..100).for_each(|_| body());
        thread_heap_calls() - before
    };
    assert_eq!(calls_of(&|| pool.parallel().run(8, |_| Ok(())).unwrap()), 0);
    assert!(calls_of(&|| drop(std::hint::black_box(Box::new(1)))) >= 100, "the counter counts");
}
