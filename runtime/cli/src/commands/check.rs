//! `udo check`

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use udo_api::Core;
use udo_check::{
    CASES, CheckError, DEFAULT_LEVEL, Options, Place, Program, Report, Setup, SubjectReport,
    Verdict, Work,
};
use udo_compile::place::core_named;

use super::Run;
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, note, print_json, table, write_file};
use crate::unchecked::{self, AllowUnchecked};

/// Check a package against the conformance suite
///
/// Runs each operator in its own process on each core, with a time limit for each case. If the
/// package crashes, exits or hangs, one case fails and the others still run. `udo check builtin`
/// checks the built-in operators.
///
/// To switch off cases, list them in udo-check.toml next to the package, each with a reason
/// (docs/check.md).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo check SoftmaxUdoPackage
  udo check SoftmaxUdoPackage --op Softmax --core dsp --filter memory
  udo check builtin --level 1 --junit check.xml")]
pub(crate) struct Check {
    /// Package folder, dist folder, registration library, or `builtin`
    #[arg(required_unless_present = "cases")]
    package: Option<PathBuf>,
    /// Check only this operator
    ///
    /// May be given several times.
    #[arg(long = "op", value_name = "OP")]
    ops: Vec<String>,
    /// Check only on these cores
    ///
    /// A comma-separated list of cpu, gpu, dsp (the same as dsp:v68) and dsp:vNN.
    #[arg(long = "core", value_name = "CORES", value_delimiter = ',', value_parser = core_named)]
    cores: Vec<Core>,
    /// Set the thoroughness, from 1 (takes seconds) to 10
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LEVEL, value_parser = clap::value_parser!(u8).range(1..=10))]
    level: u8,
    /// Set the seed of the test data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Open another package first, in the same process
    ///
    /// May be given several times.
    #[arg(long, value_name = "PACKAGE")]
    beside: Vec<PathBuf>,
    /// Run only cases whose names contain this text
    ///
    /// Example: `--filter memory` or `--filter memory/heap`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Run up to N processes at once [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Stop a case after this time and count it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT)]
    timeout: NonZero<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write captures of failing calls to this folder
    ///
    /// `udo replay` repeats a captured call. [default: target/captures in the package folder]
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    #[command(flatten)]
    allow: AllowUnchecked,
    /// List the cases and run nothing
    #[arg(long)]
    cases: bool,
    /// Be the process that runs the package's code: for these cases, or for `list`
    #[arg(long, hide = true, value_name = "CASES", value_delimiter = ',')]
    worker: Vec<String>,
    /// As that process, write each call here before it is made
    #[arg(long, hide = true, value_name = "FILE")]
    record: Option<PathBuf>,
    /// As that process, make the call of this capture
    #[arg(long, hide = true, value_name = "FILE")]
    replay: Option<PathBuf>,
}

/// How many seconds a case may take if nothing is said.
pub(super) const TIMEOUT: NonZero<u32> = NonZero::new(60).unwrap();

impl Check {
    /// All of the package in `dir`, as much as is tried if nothing is said.
    pub(super) fn with_defaults(dir: &Path, allow: AllowUnchecked) -> Self {
        Self {
            package: Some(dir.to_owned()),
            ops: Vec::new(),
            cores: Vec::new(),
            level: DEFAULT_LEVEL,
            seed: 1,
            beside: Vec::new(),
            filter: String::new(),
            jobs: None,
            timeout: TIMEOUT,
            json: false,
            junit: None,
            captures: None,
            allow,
            cases: false,
            worker: Vec::new(),
            record: None,
            replay: None,
        }
    }
}

impl Run for Check {
    fn run(self) -> Outcome {
        if self.cases {
            list();
            return Ok(());
        }
        let Some(package) = &self.package else { return Err(Failure::usage("no package given")) };
        let place = Place::from_arg(package);
        let setup = Setup { level: self.level, seed: self.seed, beside: self.beside };
        if !self.worker.is_empty() {
            let subject = self.ops.first().cloned().zip(self.cores.first().copied());
            let cases = (self.worker != ["list"]).then_some(self.worker);
            let Self { captures, record, replay, .. } = self;
            let work = Work { place, subject, cases, setup, captures, record, replay };
            return udo_check::work(&work).map_err(Failure::new);
        }
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let options = Options {
            place,
            ops: self.ops,
            cores: self.cores,
            setup: setup.clone(),
            filter: self.filter,
            jobs: self.jobs.map_or(processors, NonZero::get),
            timeout: Duration::from_secs(u64::from(self.timeout.get())),
            captures: self.captures,
        };
        let program = Program { path: std::env::current_exe().map_err(Failure::new)? };
        let (package, is_silent) = (options.place.to_string(), self.json);
        let is_part = !(options.ops.is_empty() && options.cores.is_empty());
        let lacks_package = is_part && options.filter.is_empty() && options.place != Place::Builtin;
        let tell = |subject: &SubjectReport| {
            if !is_silent {
                say(&package, &setup, subject);
            }
        };
        let report = udo_check::check(&program, &options, &tell).map_err(refused)?;
        if let Some(file) = &self.junit {
            write_file(file, report.to_junit().as_bytes())?;
        }
        if self.json {
            print_json(&report.to_json());
        } else {
            outln!("\n{}", summary(&report));
            if lacks_package {
                note("cases of the whole package (binary) run only without --op and --core");
            }
        }
        verdict(&report, self.allow)
    }
}

pub(super) fn refused(error: CheckError) -> Failure {
    let help = match &error {
        CheckError::Refused { help, .. } => help.clone(),
        CheckError::Nothing(_) => {
            return Failure::usage(error)
                .help("name an operator, a core and a case that there are: `udo check --cases`");
        }
        CheckError::Opening { .. } => {
            "opening runs what describes operators, which returns an error where it fails: it neither ends the process nor waits".to_owned()
        }
        _ => String::new(),
    };
    let failure = Failure::new(error);
    if help.is_empty() { failure } else { failure.help(help) }
}

fn list() {
    let rows =
        CASES.iter().map(|case| [case.full_name(), case.level.to_string(), case.doc.to_owned()]);
    outln!("{}", table([Left("case"), Right("level"), Left("requirement")], rows.collect()));
}

/// A line for the operator on the core, and lines for what is wrong.
fn say(package: &str, how: &Setup, subject: &SubjectReport) {
    outln!("{}: {} ({:.1} s)", subject.name(), subject.counts(), subject.seconds);
    for case in subject
        .cases
        .iter()
        .filter(|case| case.verdict.is_bad() || case.verdict == Verdict::Warning)
    {
        outln!("  {} {}: {}", case.verdict.name(), case.case, case.why);
        if case.verdict.is_bad() {
            outln!("    again: {}", udo_check::again(package, how, subject, case));
        }
        if let Some(capture) = &case.capture {
            outln!("    replay: {}", udo_check::replay_command(capture, &how.beside));
        }
    }
    for verdict in [Verdict::Unchecked, Verdict::Skipped] {
        for (why, cases) in subject.by_reason(verdict) {
            outln!("  {} {}: {why}", verdict.name(), cases.join(", "));
        }
    }
}

/// How often each verdict was reached, by category.
fn summary(report: &Report) -> String {
    let rows = udo_check::Category::ALL.into_iter().map(|category| {
        let cases = report.subjects.iter().flat_map(|subject| &subject.cases);
        let own = cases.filter(|case| case.case.split('/').next() == Some(category.name()));
        let own: Vec<Verdict> = own.map(|case| case.verdict).collect();
        let count = |verdict| own.iter().filter(|own| **own == verdict).count().to_string();
        let [passed, failed, crashed, timed_out, warnings, unchecked, skipped, not_applicable] =
            Verdict::ALL.map(count);
        let name = category.name().to_owned();
        [name, passed, failed, crashed, timed_out, warnings, unchecked, skipped, not_applicable]
    });
    let columns = [
        Left("cases"),
        Right("passed"),
        Right("failed"),
        Right("crashed"),
        Right("timed out"),
        Right("warnings"),
        Right("unchecked"),
        Right("skipped"),
        Right("not applicable"),
    ];
    table(columns, rows.collect())
}

/// Each case that this machine cannot try.
fn unchecked_cases(report: &Report) -> Vec<String> {
    let of = |subject: &SubjectReport| -> Vec<String> {
        let reasons = subject.by_reason(Verdict::Unchecked).into_iter();
        let said = |(why, cases): (&str, Vec<&str>)| {
            format!("{} of {}: {why}", cases.join(", "), subject.name())
        };
        reasons.map(said).collect()
    };
    report.subjects.iter().flat_map(of).collect()
}

fn verdict(report: &Report, allow: AllowUnchecked) -> Outcome {
    let bad: usize = Verdict::ALL.into_iter().filter(|v| v.is_bad()).map(|v| report.count(v)).sum();
    let unchecked = unchecked_cases(report);
    if report.is_good() || bad == 0 && !unchecked.is_empty() && !allow.accepts(&unchecked) {
        return unchecked::verdict(&unchecked, allow);
    }
    if bad == 0 {
        return Err(Failure::new("no case ran, so nothing was shown"));
    }
    let all: usize = report.subjects.iter().map(|subject| subject.cases.len()).sum();
    note(format!(
        "each `again:` line is a command that runs its case on its own (seed {})",
        report.setup.seed
    ));
    Err(Failure::new(format!("{bad} of {all} cases have not passed")))
}
