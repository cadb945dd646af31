//! `udo test`

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Run;
use super::build::{Members, Tested, test};
use crate::output::{Failure, Outcome, note, print_json};
use crate::unchecked::{self, AllowUnchecked};

/// Run a package's own tests for each operator and core
///
/// Runs cargo in the target folder of `udo build`. Tests of GPU kernels emulate their work items on
/// the CPU. Their OpenCL C is compiled, but not run, by the OpenCL device of this machine or by
/// clang.
///
/// The command fails if a test fails, if no test runs, if OpenCL C does not compile, or if
/// something could not be checked and --allow-unchecked is not given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo test SoftmaxUdoPackage                all tests
  udo test SoftmaxUdoPackage --cores cpu    tests of the CPU kernels
  udo test SoftmaxUdoPackage softmax        tests with softmax in their names")]
pub(crate) struct TestPackage {
    /// Package folder
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run only tests whose names contain this text
    #[arg(value_name = "TEXT")]
    name: Option<String>,
    #[command(flatten)]
    members: Members,
    #[command(flatten)]
    allow: AllowUnchecked,
    /// Print one JSON object instead of text
    ///
    /// The output of the tests goes to standard error.
    #[arg(long)]
    json: bool,
}

impl Run for TestPackage {
    fn run(self) -> Outcome {
        let dir = fs::canonicalize(&self.dir).map_err(|error| {
            Failure::new(format!("no package at {}: {error}", self.dir.display()))
                .help("`udo new -p CONFIG` makes one")
        })?;
        let show: fn(&str) =
            if self.json { |line| eprintln!("{line}") } else { |line| outln!("{line}") };
        let tested = test(&dir, &self.members, (self.name.as_deref(), show))?;
        let Tested { tests, opencl } = &tested;
        let mut left_out: Vec<String> = Vec::new();
        for (file, why) in opencl.unchecked() {
            left_out.push(format!("{file} was not compiled: {why}"));
        }
        for ignored in &tests.ignored {
            left_out.push(format!("test {ignored} is marked #[ignore]"));
        }
        let is_right = tests.have_passed && !opencl.has_errors() && tests.passed > 0;
        if self.json {
            print_json(&json!({
                "passed": is_right && self.allow.accepts(&left_out), "tests_passed": tests.passed,
                "failed": tests.failed, "ignored": tests.ignored, "opencl": opencl.state(),
                "opencl_sources": opencl.to_json(), "unchecked": left_out,
            }));
        } else {
            note(format!(
                "{} tests passed, {} failed, {} ignored",
                tests.passed,
                tests.failed.len(),
                tests.ignored.len()
            ));
        }
        self.verdict(&tested, &left_out)
    }
}

impl TestPackage {
    fn verdict(&self, Tested { tests, opencl }: &Tested, left_out: &[String]) -> Outcome {
        if !tests.have_passed {
            return Err(Failure::told());
        }
        if opencl.has_errors() {
            return Err(Failure::new("the package's OpenCL C does not compile")
                .help("the warning above has the compiler's messages"));
        }
        if tests.passed == 0 {
            let named = self.name.as_ref().map_or_else(
                || "the package has no test that runs".to_owned(),
                |name| format!("no test that runs has {name:?} in its name"),
            );
            return Err(Failure::new(named).help("`udo test` without a name runs all of them"));
        }
        unchecked::verdict(left_out, self.allow)
    }
}
