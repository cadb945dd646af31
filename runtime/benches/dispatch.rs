//! The cost of a kernel call: chains of 1,000 operators over 16 floats.
//!
//! `cargo bench -p udo-runtime --bench dispatch` prints nanoseconds per node for the same operator
//! linked in, loaded from a Rust package, and loaded from a C package, which has neither guard nor checked
//! views. What the guard alone costs is the difference to a build with `--cfg udo_unguarded`:
//! `tests/peers/guard.py` runs both in turns.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, or stops"
)]

use std::num::NonZero;
use std::path::Path;
use std::time::Instant;

use udo_api::guard::heap_calls;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, GuardAlloc, InferCx, Io, Kernel, KernelDef, Op,
    OpDef, OpSchema, PackageV1, Param, Port, Value, types,
};
use udo_engine::operators::Operators;
use udo_runtime::graph::{DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Session};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::packages;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

const NODES: usize = 1000;
const RUNS: usize = 3000;

static LINKED: PackageV1 = PackageV1::new("Linked", "1.0.0")
    .ops(&[OpDef::of::<Scale>(), OpDef::of::<Fork>()])
    .kernels(&[
        KernelDef::new::<ScaleF32>("Scale", Core::CPU),
        KernelDef::new::<ForkF32>("Fork", Core::CPU),
    ])
    .guarded();

/// The operator of the fixtures.
struct Scale;

impl Op for Scale {
    const SCHEMA: OpSchema = OpSchema::new(
        "Scale",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::F32)],
        &[Param::scalar("factor", DType::F32).default(Value::float(1.0))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct ScaleF32 {
    factor: f32,
}

impl Kernel for ScaleF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { factor: cx.float32("factor")? })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let x = inputs.get::<f32>(0)?;
        for (y, x) in outputs.take::<f32>(0)?.iter_mut().zip(x) {
            *y = self.factor * x;
        }
        Ok(())
    }
}

/// A parallel-for of as many empty calls as there are threads.
struct Fork;

impl Op for Fork {
    const SCHEMA: OpSchema = OpSchema::new(
        "Fork",
        &[Port::required("x", types::F32)],
        &[Port::required("y", types::F32)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Scale::infer(cx)
    }
}

struct ForkF32;

impl Kernel for ForkF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { mut outputs, parallel, .. } = io;
        outputs.take::<f32>(0)?;
        parallel.run(parallel.width(), |_| Ok(()))
    }
}

fn chain(op: &str, operators: &Operators) -> Session {
    chain_on(op, operators, NonZero::<usize>::MIN)
}

fn chain_on(op: &str, operators: &Operators, threads: NonZero<usize>) -> Session {
    let options = CompileOptions { threads, ..CompileOptions::default() };
    let mut graph = Graph::new("chain");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(16)]);
    let operands = if op == "Add" { 2 } else { 1 };
    let mut value = x;
    for index in 0..NODES {
        let next = graph.add_value(&format!("v{index}"));
        graph.add_node(Node::new(op, 21, &[value, x][..operands], &[next]));
        value = next;
    }
    graph.outputs.push(value);
    let mut session = compile_graph(graph, operators, &options).unwrap().session().unwrap();
    session.input_mut::<f32>("x").unwrap().fill(1.0);
    session
}

/// Nanoseconds per node, each chain's median over runs that take turns.
fn measure(chains: &mut [(&str, Session)]) -> Vec<f64> {
    let mut times = vec![Vec::with_capacity(RUNS); chains.len()];
    for run in 0..RUNS + 100 {
        for ((_, session), times) in chains.iter_mut().zip(&mut times) {
            let start = Instant::now();
            session.run().unwrap();
            if run >= 100 {
                times.push(start.elapsed().as_secs_f64() * 1e9 / NODES as f64);
            }
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}

/// The Rust fixture with optimization.
fn rust_package(folder: &Path) {
    let built = packages::build_fixture("scale", "release");
    std::fs::create_dir_all(folder).unwrap();
    for (part, file) in [("reg", packages::SCALE_REG), ("cpu", packages::SCALE_CPU)] {
        std::fs::copy(built.join(format!("libscale_udo_package_{part}.so")), folder.join(file))
            .unwrap();
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let mut operators = Operators::new();
        operators.open(&folder.path().join(name)).unwrap();
        operators
    };
    rust_package(&folder.path().join("rust"));
    let c_file = folder.path().join("c/libUdoCScaleReg.so");
    packages::c_package(&c_file, &[("KERNELS", "{UDO_CPU, 0}")]);
    let mut linked = Operators::new();
    linked.add_static(&LINKED).unwrap();
    let mut chains = vec![
        ("Scale, linked in", chain("Scale", &linked)),
        ("Scale, Rust package", chain("Scale", &open("rust"))),
        ("Scale, C package", chain("Scale", &open("c"))),
        ("Relu, built in", chain("Relu", &built_in())),
        ("Add, built in", chain("Add", &built_in())),
    ];
    let medians = measure(&mut chains);
    println!("{NODES} nodes over 16 floats, median of {RUNS} runs");
    for ((name, session), ns) in chains.iter_mut().zip(&medians) {
        let before = heap_calls();
        session.run().unwrap();
        println!("  {name:<32} {ns:>7.2} ns/node  {} heap calls/run", heap_calls() - before);
    }
    let two = NonZero::new(2).unwrap_or(NonZero::<usize>::MIN);
    let mut forks = [("fork", chain_on("Fork", &linked, two))];
    println!("  a parallel-for on two threads: {:.0} ns", measure(&mut forks)[0]);
    println!("  opening a package: {:.2} ms, median of {COPIES} copies", opening(folder.path()));
    let figures: Vec<String> = ["linked", "package", "c", "relu", "add"]
        .iter()
        .zip(&medians)
        .map(|(name, ns)| format!("{name}={ns:.2}"))
        .collect();
    println!("summary: {}", figures.join(" "));
}

const COPIES: usize = 20;

/// Milliseconds to open a good package and its CPU library: manifest, digest, load, checks.
fn opening(folder: &Path) -> f64 {
    let mut times: Vec<f64> = (0..COPIES)
        .map(|copy| {
            // A library that is loaded already opens faster, so each time is a file's first.
            let fresh = folder.join(format!("copy{copy}"));
            rust_package(&fresh);
            let start = Instant::now();
            let mut operators = Operators::new();
            let id = operators.open(&fresh).unwrap();
            assert_eq!(operators.kernels_for(id, Core::CPU).unwrap().len(), 1);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[COPIES / 2]
}
