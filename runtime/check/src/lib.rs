//! The conformance suite for packages of operators: what holds for every package, tried on one.
//!
//! A check is two sides. [`check`] runs no code of the package: it starts a worker for each operator on each core, hears what
//! they tell, and goes on where one dies. [`work`] is the worker's side: it opens the package, looks for nodes that the operator
//! takes, and tries the [`CASES`] on them. It calls kernels as the runtime does, by way of `udo-host`, over memory between pages
//! that nobody may touch.

mod allow;
mod capture;
mod cases;
mod config;
mod context;
mod elf;
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
mod wanted;
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

/// The level of a check where nothing is said.
pub const DEFAULT_LEVEL: u8 = 3;

/// What is to be checked, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The package.
    pub place: Place,
    /// The operators; all of them if there is none.
    pub ops: Vec<String>,
    /// The cores; all that the package has if there is none.
    pub cores: Vec<Core>,
    /// How the package is tried.
    pub setup: Setup,
    /// Only cases whose names have this in them.
    pub filter: String,
    /// How many workers there are at once.
    pub jobs: usize,
    /// How long a case may take.
    pub timeout: Duration,
    /// The folder for captures of what is wrong; `target/captures` in the package's folder if nothing is said.
    pub captures: Option<PathBuf>,
}

/// How a package is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How much is tried, from 1 to 10.
    pub level: u8,
    /// The seed of all elements.
    pub seed: u64,
    /// Packages that are open in the same process, before it.
    pub beside: Vec<PathBuf>,
}

/// How a captured call is made again.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The capture.
    pub file: PathBuf,
    /// The core; the capture's if nothing is said.
    pub core: Option<Core>,
    /// The package; the capture's if nothing is said.
    pub package: Option<PathBuf>,
    /// Other packages that are opened before it.
    pub beside: Vec<PathBuf>,
    /// How long the call may take.
    pub timeout: Duration,
}

/// Makes the call of a capture again.
///
/// # Errors
/// The capture cannot be read, or its package opened.
pub fn replay(
    program: &Program,
    options: &ReplayOptions,
) -> Result<(Capture, Replayed), CheckError> {
    let capture = Capture::read(&options.file)?;
    let core = options.core.or_else(|| supervise::core_of(&capture.core));
    let core = core.ok_or_else(|| {
        CheckError::Nothing(format!("the capture is of core {:?}, which is none", capture.core))
    })?;
    let package = options.package.clone().unwrap_or_else(|| PathBuf::from(&capture.package));
    let task = Task {
        place: Place::of(&package),
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

/// Why a package is not checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The worker's program does not start.
    #[error("cannot start {}", path.display())]
    Worker {
        /// The program.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The package is refused.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
        /// The next step.
        help: String,
    },
    /// The process ended while the package was opened, or was not done with it in time.
    #[error("the package does not let itself be opened: {how}{}", printed_said(printed))]
    Opening {
        /// How it ended.
        how: String,
        /// What it printed.
        printed: String,
    },
    /// The capture is of no use.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The file that switches cases off is wrong.
    #[error("{0}")]
    Allow(String),
    /// There is nothing of what was asked for.
    #[error("there is nothing to check: {0}")]
    Nothing(String),
}

fn printed_said(printed: &str) -> String {
    printed.lines().last().map(|line| format!("; it printed {line:?}")).unwrap_or_default()
}

/// Checks a package; `tell` hears of each operator on each core as soon as it is done.
///
/// # Errors
/// The package cannot be opened, or there is nothing of what was asked for.
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

/// Where captures go.
fn captures_folder(options: &Options) -> PathBuf {
    let own = || cases_folder(options).unwrap_or_default().join("target/captures");
    let folder = options.captures.clone().unwrap_or_else(own);
    std::path::absolute(&folder).unwrap_or(folder)
}

fn cases_folder(options: &Options) -> Option<PathBuf> {
    context::PackageContext { place: options.place.clone() }.folder()
}

/// What workers are to do: for each operator on each core, and for the package.
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
        // The cases of the package say why it does not open.
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
            return Err(CheckError::Nothing(format!("there is no operator {op}; {}", said())));
        }
    }
    for core in &options.cores {
        if !subjects.iter().any(|listed| listed.core == *core) {
            return Err(CheckError::Nothing(format!("nothing is for {core}; {}", said())));
        }
    }
    let wanted = subjects.iter().filter(|listed| {
        let fits = options.ops.is_empty() || options.ops.contains(&listed.op);
        fits && (options.cores.is_empty() || options.cores.contains(&listed.core))
    });
    for listed in wanted.filter(|_| !op.is_empty()) {
        // Where nothing can be tried, one case says why.
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

/// Tries those of the cases that are not switched off.
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
