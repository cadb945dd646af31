//! Packages that end the process: the program that installs the guard says who, and does not succeed.
//!
//! Each case runs in a process of its own: this program again, asked for one test. It is a program of
//! its own, as the guard's handlers stay once they are installed.
#![expect(clippy::unwrap_used, reason = "a case that cannot be made fails the test")]

use std::num::NonZero;
use std::process::{Command, exit};

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port,
};
use udo_engine::exit_guard;
use udo_runtime::CompileOptions;
use udo_runtime::graph::Attr;
use udo_runtime::run::StepProfile;
use udo_test_support::graphs;

static PACKAGE: PackageV1 = PackageV1::new("Leaving", "1.0.0")
    .ops(&[OpDef::of::<Leave>()])
    .kernels(&[KernelDef::new::<LeaveF32>("Leave", Core::CPU)]);

struct Leave;

impl Op for Leave {
    const SCHEMA: OpSchema = OpSchema::new(
        "Leave",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[Param::text("when")],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        if cx.text("when")? == "infer" {
            exit(0);
        }
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct LeaveF32 {
    when: String,
}

impl Kernel for LeaveF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let when = cx.text("when")?.to_owned();
        if when == "finalize" {
            exit(0);
        }
        Ok(Self { when })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        outputs.take::<f32>(0)?.copy_from_slice(inputs.get(0)?);
        match self.when.as_str() {
            "execute" | "profiled" => exit(0),
            "worker" => parallel.run(64, |_| {
                // The caller's own calls wait until a worker has left.
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                if name.starts_with("udo-worker") {
                    exit(0);
                }
                loop {
                    std::thread::park();
                }
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for LeaveF32 {
    fn drop(&mut self) {
        if self.when == "free" {
            exit(0);
        }
    }
}

/// The case that the process below was started for; none where this runs as a test.
#[test]
fn the_case_asked_for() {
    let Ok(when) = std::env::var("UDO_TEST_EXIT") else { return };
    exit_guard::install().unwrap();
    exit_guard::install().unwrap();
    let attrs = [("when", Attr::Text(when.clone()))];
    let graph = graphs::one_node("Leave", 1, DType::F32, &[4], &attrs);
    let options = CompileOptions { threads: NonZero::new(2).unwrap(), ..CompileOptions::default() };
    let model = graphs::compile(graph, &PACKAGE, &options).unwrap();
    let mut session = model.session().unwrap();
    match when.as_str() {
        "profiled" => session.run_profiled(&mut [StepProfile::default()]).unwrap(),
        _ => session.run().unwrap(),
    }
    drop((session, model));
    // Nobody is in a package now: this is the program's own exit.
    exit(if when == "own" { 7 } else { 0 });
}

#[test]
fn an_early_exit_says_who_and_fails() {
    let cases = [
        ("infer", "node \"the_leave\": package Leaving's Leave ended the process in infer"),
        (
            "finalize",
            "node \"the_leave\": package Leaving's Leave on cpu ended the process in finalize",
        ),
        (
            "execute",
            "node \"the_leave\": package Leaving's Leave on cpu ended the process in execute",
        ),
        (
            "profiled",
            "node \"the_leave\": package Leaving's Leave on cpu ended the process in execute",
        ),
        (
            "worker",
            "node \"the_leave\": package Leaving's Leave on cpu ended the process in execute",
        ),
        ("free", "node \"the_leave\": package Leaving's Leave on cpu ended the process in free"),
    ];
    for (when, wanted) in cases {
        let (code, errors) = case(when);
        assert_eq!(code, Some(1), "{when}: {errors}");
        let wanted = format!(
            "error: {wanted}\nhelp: a package must return an error instead of calling exit\n"
        );
        assert_eq!(errors, wanted, "{when}");
    }
}

#[test]
fn a_program_may_exit_as_it_likes() {
    assert_eq!(case("own"), (Some(7), String::new()));
    assert_eq!(case("never"), (Some(0), String::new()));
}

/// The exit code and the errors of a process that runs one case.
fn case(when: &str) -> (Option<i32>, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "the_case_asked_for", "--nocapture", "--test-threads=1"]);
    let output = program.env("UDO_TEST_EXIT", when).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}
