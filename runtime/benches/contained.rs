//! The cost of calls to a contained kernel, compared with direct calls: one operator over a few tensors.
//!
//! `cargo bench -p udo-runtime --bench contained` builds the worker, and prints microseconds per run where host and worker look for each
//! other without sleeping, and where the worker sleeps between runs.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, or stops")]

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use udo_api::guard::heap_calls;
use udo_api::{DType, GuardAlloc};
use udo_engine::operators::Operators;
use udo_runtime::graph::{DimSpec, Graph, Node};
use udo_runtime::package::Containment;
use udo_runtime::{CompileOptions, Session};
use udo_test_support::compile::compile_graph;
use udo_test_support::packages;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

const RUNS: usize = 3000;

/// Longer than a worker looks for its next call.
const PAUSE: Duration = Duration::from_millis(1);

fn session(operators: &Operators, len: usize) -> Session {
    let mut graph = Graph::new("one");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(len)]);
    let y = graph.add_value("y");
    graph.add_node(Node::new("Scale", 21, &[x], &[y]));
    graph.outputs.push(y);
    let model = compile_graph(graph, operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().fill(1.0);
    session
}

/// Microseconds per run: the median, and the 90th of a hundred.
fn measure(session: &mut Session, runs: usize, pause: Duration) -> [f64; 2] {
    let mut times = Vec::with_capacity(runs);
    for run in 0..runs + runs / 10 {
        if !pause.is_zero() {
            thread::park_timeout(pause);
        }
        let start = Instant::now();
        session.run().unwrap();
        if run >= runs / 10 {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times.sort_by(f64::total_cmp);
    [times[runs / 2], times[runs / 10 * 9]]
}

fn package(folder: &Path) {
    let built = packages::build_fixture("scale", "release");
    for (part, file) in [("reg", packages::SCALE_REG), ("cpu", packages::SCALE_CPU)] {
        std::fs::copy(built.join(format!("libscale_udo_package_{part}.so")), folder.join(file))
            .unwrap();
    }
}

fn main() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--offline",
        "--quiet",
        "--release",
        "-p",
        "udo-cli",
        "--bin",
        "udo-worker",
    ]);
    packages::run(cargo.current_dir(packages::root()));
    let folder = tempfile::tempdir().unwrap();
    package(folder.path());
    let (mut plain, mut contained) = (Operators::new(), Operators::new());
    plain.open(folder.path()).unwrap();
    contained.open_contained(folder.path(), &Containment::default()).unwrap();
    println!("microseconds per run of one node, median and 90 %, of {RUNS} runs");
    for (name, len) in [("64 B", 16), ("4 KiB", 1 << 10), ("1 MiB", 1 << 18), ("8 MiB", 1 << 21)] {
        let runs = if len > 1 << 16 { RUNS / 10 } else { RUNS };
        let [p50, p90] = measure(&mut session(&plain, len), runs, Duration::ZERO);
        let mut session = session(&contained, len);
        let [c50, c90] = measure(&mut session, runs, Duration::ZERO);
        let [s50, s90] = measure(&mut session, runs / 3, PAUSE);
        let before = heap_calls();
        session.run().unwrap();
        let heap = heap_calls() - before;
        println!(
            "  {name:<6} in the host {p50:>8.2} {p90:>8.2}   contained {c50:>8.2} {c90:>8.2}   asleep {s50:>8.2} {s90:>8.2}   {heap} heap calls/run"
        );
    }
}
