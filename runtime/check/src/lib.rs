//! The conformance suite for packages of operators.
//!
//! A check has two processes. [`check`] runs in the parent and does not run code of the package: it starts a worker for
//! each operator on each core, collects the workers' findings, and continues after a worker that dies. [`work`] runs in
//! the worker: it opens the package, finds nodes that the operator accepts, and runs the [`CASES`] on them. It calls
//! kernels through `udo-host`, as the runtime does, over memory between guard pages.

mod allow;
mod capture;
mod cases;
mod config;
mod context;
mod elf;
mod expected;
mod goals;
mod guarded;
mod hints;
mod left_out;
mod node;
pub mod opencl_c;
mod oracle;
mod params;
mod raw;
mod recipes;
mod record;
mod reference;
mod replay;
mod report;
mod search;
mod shapes;
mod subject;
mod supervise;
mod ties;
mod trial;
mod values;
mod worker;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use udo_api::Core;

pub use allow::{ALLOW_FILE, Off};
pub use capture::{
    Capture, CaptureError, CapturedInput, CapturedOutput, CapturedWanted, RUN_CASES,
};
pub use cases::{CASES, Case, Category};
pub use report::{CaseReport, Report, SubjectReport, Verdict, again, replay_command};
pub use subject::{BUILTIN, Place};
pub use supervise::{Program, Replayed};
pub use worker::{Work, work};

use supervise::{Listed, Task};

/// The default level of a check.
pub const DEFAULT_LEVEL: u8 = 3;

/// Selects what to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// The package.
    pub place: Place,
    /// The operators to check; empty for all.
    pub ops: Vec<String>,
    /// The cores to check; empty for all cores of the package.
    pub cores: Vec<Core>,
    /// How to check the package.
    pub setup: Setup,
    /// A part of case names; other cases do not run.
    pub filter: String,
    /// The number of workers that run at the same time.
    pub jobs: usize,
    /// The time limit of a case.
    pub timeout: Duration,
    /// The folder for captures of failed calls; `target/captures` in the package's folder by default.
    pub captures: Option<PathBuf>,
}

/// Settings of a check that a repeated case needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The thoroughness, from 1 to 10.
    pub level: u8,
    /// The seed of all test data.
    pub seed: u64,
    /// Packages to open first in the same process.
    pub beside: Vec<PathBuf>,
}

/// How to repeat a captured call.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The capture file.
    pub file: PathBuf,
    /// The core; that of the capture by default.
    pub core: Option<Core>,
    /// The package; that of the capture by default.
    pub package: Option<PathBuf>,
    /// Other packages to open first.
    pub beside: Vec<PathBuf>,
    /// The time limit of the call.
    pub timeout: Duration,
}

/// Repeats the call of a capture.
///
/// # Errors
/// The capture cannot be read, or its package cannot be opened.
pub fn replay(
    program: &Program,
    options: &ReplayOptions,
) -> Result<(Capture, Replayed), CheckError> {
    let capture = Capture::read(&options.file)?;
    let core = options.core.or_else(|| supervise::core_of(&capture.core));
    let core = core.ok_or_else(|| {
        CheckError::Nothing(format!("the capture names an unknown core {:?}", capture.core))
    })?;
    let package = options.package.clone().unwrap_or_else(|| PathBuf::from(&capture.package));
    let task = Task {
        place: Place::from_arg(&package),
        op: Some(capture.op.clone()),
        core: Some(core),
        setup: Setup {
            level: capture.level.clamp(1, 10),
            seed: capture.seed,
            beside: options.beside.clone(),
        },
        timeout: options.timeout,
        captures: None,
        record: None,
        replay: Some(options.file.clone()),
    };
    program.replay(&task).map(|replayed| (capture, replayed))
}

/// Why a package cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The worker's program does not start.
    #[error("cannot start {}", path.display())]
    Worker {
        /// The program.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The package is refused.
    #[error("{why}")]
    Refused {
        /// The cause.
        why: String,
        /// The next step.
        help: String,
    },
    /// The process ended or ran out of time while it opened the package.
    #[error("cannot open the package: {how}{}", printed_said(printed))]
    Opening {
        /// How the process ended.
        how: String,
        /// The output of the process.
        printed: String,
    },
    /// The capture cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The file that switches cases off is invalid.
    #[error("{0}")]
    Allow(String),
    /// Nothing matches the selection.
    #[error("nothing to check: {0}")]
    Nothing(String),
}

fn printed_said(printed: &str) -> String {
    printed.lines().last().map(|line| format!("; it printed {line:?}")).unwrap_or_default()
}

/// Checks a package. Calls `tell` with each operator on each core as soon as its cases are done, from any worker
/// thread.
///
/// # Errors
/// The package cannot be opened, or nothing matches the selection.
pub fn check(
    program: &Program,
    options: &Options,
    tell: &(dyn Fn(&SubjectReport) + Sync),
) -> Result<Report, CheckError> {
    let off = match (&options.place, cases_folder(options)) {
        (Place::Builtin, _) => allow::builtin(),
        (Place::At(_), Some(folder)) => allow::read(&folder),
        (Place::At(_), None) => Ok(Vec::new()),
    };
    let off = off.map_err(CheckError::Allow)?;
    let task = Task {
        place: options.place.clone(),
        op: None,
        core: None,
        setup: options.setup.clone(),
        timeout: options.timeout,
        captures: Some(captures_folder(options)),
        record: None,
        replay: None,
    };
    let tasks = tasks(program, options, &task)?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let fault = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, 256) {
            scope.spawn(|| {
                while let Some((task, cases)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match checked(program, task, cases, &off) {
                        Ok(report) => {
                            tell(&report);
                            if let Ok(mut done) = done.lock() {
                                done.push(report);
                            }
                        }
                        Err(error) => {
                            if let Ok(mut fault) = fault.lock() {
                                fault.get_or_insert(error);
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Ok(Some(error)) = fault.into_inner() {
        return Err(error);
    }
    let mut subjects = done.into_inner().unwrap_or_default();
    subjects.sort_by(|a, b| (&a.op, &a.core).cmp(&(&b.op, &b.core)));
    let package = options.place.to_string();
    Ok(Report { package, setup: options.setup.clone(), subjects })
}

/// Returns the folder for captures.
fn captures_folder(options: &Options) -> PathBuf {
    let own = || cases_folder(options).unwrap_or_default().join("target/captures");
    let folder = options.captures.clone().unwrap_or_else(own);
    std::path::absolute(&folder).unwrap_or(folder)
}

fn cases_folder(options: &Options) -> Option<PathBuf> {
    context::PackageContext { place: options.place.clone() }.folder()
}

/// Lists the workers' tasks: one per operator and core, and one for the package as a whole.
fn tasks(
    program: &Program,
    options: &Options,
    task: &Task,
) -> Result<Vec<(Task, Vec<String>)>, CheckError> {
    let is_chosen = |case: &&Case| {
        case.level <= options.setup.level && case.full_name().contains(&options.filter)
    };
    let names = |of_package: bool| -> Vec<String> {
        let cases =
            CASES.iter().filter(is_chosen).filter(|case| case.is_of_package() == of_package);
        cases.map(Case::full_name).collect()
    };
    let (package, op) = (names(true), names(false));
    if package.is_empty() && op.is_empty() {
        let filter = &options.filter;
        return Err(CheckError::Nothing(format!(
            "no case of level {} has {filter:?} in its name",
            options.setup.level
        )));
    }
    let mut tasks = Vec::new();
    let is_whole = options.ops.is_empty() && options.cores.is_empty();
    if is_whole && !package.is_empty() && options.place != Place::Builtin {
        tasks.push((task.clone(), package));
    }
    let subjects = match program.list(task) {
        Ok(subjects) => subjects,
        // The cases of the package report why it does not open.
        Err(CheckError::Opening { .. }) if !tasks.is_empty() => return Ok(tasks),
        Err(error) => return Err(error),
    };
    let said = || {
        let all: Vec<String> =
            subjects.iter().map(|Listed { op, core, .. }| format!("{op} on {core}")).collect();
        format!("the package has {}", all.join(", "))
    };
    for op in &options.ops {
        if !subjects.iter().any(|listed| listed.op == *op) {
            return Err(CheckError::Nothing(format!("no operator {op}; {}", said())));
        }
    }
    for core in &options.cores {
        if !subjects.iter().any(|listed| listed.core == *core) {
            return Err(CheckError::Nothing(format!("no operator for {core}; {}", said())));
        }
    }
    let wanted = subjects.iter().filter(|listed| {
        let fits = options.ops.is_empty() || options.ops.contains(&listed.op);
        fits && (options.cores.is_empty() || options.cores.contains(&listed.core))
    });
    for listed in wanted.filter(|_| !op.is_empty()) {
        // One case reports why no case can run.
        let cases =
            if listed.is_refused { op.iter().take(1).cloned().collect() } else { op.clone() };
        let of = Task { op: Some(listed.op.clone()), core: Some(listed.core), ..task.clone() };
        tasks.push((of, cases));
    }
    if tasks.is_empty() {
        return Err(CheckError::Nothing(said()));
    }
    Ok(tasks)
}

/// Runs the cases that are not switched off.
fn checked(
    program: &Program,
    task: &Task,
    cases: &[String],
    off: &[Off],
) -> Result<SubjectReport, CheckError> {
    let (op, core) =
        (task.op.clone().unwrap_or_default(), task.core.map(|c| c.to_string()).unwrap_or_default());
    let reason = |case: &str| {
        off.iter().find(|off| off.is_for(case, &op, &core)).map(|off| off.because.clone())
    };
    let tried: Vec<String> = cases.iter().filter(|case| reason(case).is_none()).cloned().collect();
    let mut report = program.check(task, &tried)?;
    for case in cases {
        if let Some(because) = reason(case) {
            let why = format!("switched off: {because}");
            report.cases.push(CaseReport {
                case: case.clone(),
                verdict: Verdict::Skipped,
                why,
                seconds: 0.0,
                capture: None,
            });
        }
    }
    Ok(report)
}
