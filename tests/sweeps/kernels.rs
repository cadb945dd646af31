//! Kernels that are printed from references, as a user gets them: one config with many operators, one `udo new`, one `udo build`, then
//! every case of every operator on every core next to the reference. `UDO_SWEEP=all` takes all operators of the reference language's
//! own tests that a config can say, and has `udo check` try them; without it there are some for each kind of loop.
//! `UDO_REQUIRE_OPENCL=1` runs them on a device with OpenCL as well, which takes seconds for each program that it compiles: the first
//! case of each, or all.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test converts small numbers, compares infinities, and has failed where it cannot go on"
)]

mod cases;
mod config;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use cases::{Outcome, Target, outcome};
use serde_json::Value;
use udo_engine::cores::opencl;
use udo_runtime::Runtime;
use udo_test_support::checkout::{cargo, root};
use udo_test_support::language::Operator;

/// Operators of each kind: pointwise ones, broadcasts, folds, products, windows, indices, selections; one with each kind of parameter.
const SOME: &[&str] = &[
    "add",
    "argmax",
    "clip",
    "conv2d",
    "deviations",
    "gather",
    "gelu_erf",
    "gemm",
    "layer_norm",
    "leaky_relu",
    "matmul",
    "mish",
    "mod",
    "odd_terms",
    "pad",
    "resize_linear",
    "softmax",
    "top_k_above",
];

fn is_all() -> bool {
    std::env::var("UDO_SWEEP").is_ok_and(|value| value == "all")
}

/// The operators that take part, by name.
fn operators() -> BTreeMap<String, Operator> {
    let folder = root().join("generator/reference/tests/operators");
    let mut operators = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if is_all() || SOME.contains(&name.as_str()) {
            operators.insert(name, Operator::parse(&fs::read_to_string(path).unwrap()));
        }
    }
    operators.retain(|_, operator| config::can_say(operator));
    operators
}

fn udo(folder: &Path, args: &[&str]) -> String {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output = udo.args(args).current_dir(folder).env_remove("UDO_ROOT").output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{out}\n{err}");
    assert!(!err.contains("warning"), "{err}");
    out.into_owned()
}

/// Printed code is as clean as what is written by hand, whatever the formulas.
fn has_no_complaints(package: &Path) {
    let mut clippy = cargo("clippy", package);
    let output =
        clippy.args(["--all-targets", "--quiet", "--", "-D", "warnings"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// All of the package passes `udo check`, but kernels on the GPU that wait for code, which are those of `unwritten`. Returns the counts.
fn passes_its_check(package: &Path, unwritten: &[&String]) -> Value {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output = udo.args(["check", ".", "--level", "2", "--json"]).current_dir(package).output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let is_bad = |case: &&Value| {
        ["failed", "crashed", "timed out"].contains(&case["verdict"].as_str().unwrap())
    };
    let bad: Vec<_> = report["cases"].as_array().unwrap().iter().filter(is_bad).collect();
    let waits = |case: &Value| {
        let op = |name: &&String| case["op"] == *config::type_name(name);
        case["core"] == "gpu" && case["case"] == "contract/written" && unwritten.iter().any(op)
    };
    assert!(bad.iter().all(|case| waits(case)), "{bad:#?}");
    assert_eq!(bad.len(), unwritten.len(), "{bad:#?}");
    report["summary"].clone()
}

#[test]
fn kernels_of_every_core_are_as_their_references_say() {
    let operators = operators();
    let desk = tempfile::tempdir().unwrap();
    fs::write(desk.path().join("c.json"), config::text(&operators)).unwrap();
    let said = udo(desk.path(), &["new", "c.json"]);
    // Outputs that elements decide are the only thing that waits for code.
    let waits = said.lines().filter_map(|line| line.trim_start().strip_prefix("waits "));
    let waits: Vec<&str> = waits.map(|line| line.split(':').next().unwrap().trim()).collect();
    let bounded =
        |name: &&String| ["compress", "nms", "non_zero", "top_k_above"].contains(&name.as_str());
    let wanted = operators.keys().filter(bounded).map(|name| format!("GPU/src/ops/{name}_ref.rs"));
    assert_eq!(waits, wanted.collect::<Vec<_>>());
    // What is tried much is worth being optimized.
    let build: &[&str] = if is_all() { &["build"] } else { &["build", "--debug"] };
    udo(desk.path(), &[build, &["SweepPackage"]].concat());

    let package = desk.path().join("SweepPackage");
    has_no_complaints(&package);
    let runtime = Runtime::builder().package(&package).build().unwrap();
    // One set of operators for all: a library is looked at and opened once.
    let opened = runtime.operators();
    let mut ways = vec![Target::Cpu, Target::Dsp, Target::GPU, Target::HALVES];
    if std::env::var_os("UDO_REQUIRE_OPENCL").is_some() {
        assert!(opencl::device().is_some(), "{:?}", opencl::find());
        ways.extend([Target::DEVICE, Target::DEVICE_HALVES]);
    }
    let is_tried = |way: &&Target, name: &String, number: usize| {
        !(way.is_gpu() && bounded(&name)) && (is_all() || number == 0 || !way.is_device())
    };
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for (name, operator) in &operators {
        for (number, case) in operator.cases.iter().enumerate() {
            for way in ways.iter().filter(|way| is_tried(way, name, number)) {
                let Some(outcome) = outcome(opened, name, operator, case, *way) else {
                    continue;
                };
                *counts.entry(format!("{way:?}")).or_insert(0) += 1;
                if let Outcome::Wrong(what) = outcome {
                    wrong.push(format!("{name}, case {number}, {way:?}: {what}"));
                }
            }
        }
    }
    println!("{} operators, cases: {counts:?}", operators.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if is_all() {
        let unwritten: Vec<&String> = operators.keys().filter(bounded).collect();
        println!("udo check: {}", passes_its_check(&package, &unwritten));
    }
    // Every way has nearly every case: a byte cannot hold some numbers.
    for way in ways {
        let tried = operators.iter().map(|(name, operator)| {
            (0..operator.cases.len()).filter(|number| is_tried(&&way, name, *number)).count()
        });
        let tried = tried.sum::<usize>();
        let count = counts.get(&format!("{way:?}")).copied().unwrap_or(0);
        assert!(count * 10 >= tried * 9, "{way:?}: {count} of {tried} cases");
    }
}
