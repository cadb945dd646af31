//! The worker process of a check. It runs the package's code and reports findings as lines of JSON.
//!
//! The lines go to a separate descriptor, passed as standard input, so that the package's use of standard output cannot
//! disturb them.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use udo_api::Core;
use udo_engine::operators::Operators;
use udo_runtime::package::OpenError;

use crate::Setup;
use crate::capture::Capture;
use crate::cases::{CASES, Case, Finding, Outcome, Run};
use crate::context::{OpContext, PackageContext};
use crate::raw::fault;
use crate::record::Recorder;
use crate::replay;
use crate::report::Verdict;
use crate::subject::{Opened, Place, full_name};

/// The work of a worker.
#[derive(Clone, Debug)]
pub struct Work {
    /// The package.
    pub place: Place,
    /// The operator and its core; `None` for cases of the package as a whole.
    pub subject: Option<(String, Core)>,
    /// Full names of cases; `None` to list the operators.
    pub cases: Option<Vec<String>>,
    /// The settings of the check.
    pub setup: Setup,
    /// The folder for captures; `None` to write none.
    pub captures: Option<PathBuf>,
    /// The capture file that each call is written to before it starts.
    pub record: Option<PathBuf>,
    /// The capture whose call is repeated instead of running cases.
    pub replay: Option<PathBuf>,
}

/// Descriptors below this number are left to packages.
const FIRST_DESCRIPTOR: i32 = 240;

/// Does the work and reports to the parent.
///
/// # Errors
/// The parent cannot be reached.
pub fn work(work: &Work) -> std::io::Result<()> {
    // The parent may end before this process does.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let told = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), FIRST_DESCRIPTOR)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    fault::install(told.as_raw_fd());
    let recorder = Arc::new(Recorder::default());
    let mut teller = Teller {
        to: std::fs::File::from(told),
        captures: work.captures.clone(),
        recorder: Arc::clone(&recorder),
    };
    // The package may change the current folder, which relative paths depend on.
    let package = match &work.place {
        Place::Builtin => work.place.to_string(),
        Place::At(path) => std::path::absolute(path)?.display().to_string(),
    };
    let head =
        Capture { package, level: work.setup.level, seed: work.setup.seed, ..Capture::default() };
    match (&work.cases, &work.subject) {
        (None, _) => list(work, &mut teller)?,
        (Some(cases), None) => {
            let cx = PackageContext { place: work.place.clone() };
            for case in chosen(cases) {
                if let Run::Package(run) = case.run {
                    teller.case(&case.full_name(), &head, || run(&cx))?;
                }
            }
        }
        (Some(cases), Some((op, core))) => {
            let cx = OpContext::new(&work.place, op, *core, &work.setup, recorder);
            let cx = cx.map_err(|error| describe(&error));
            let cx =
                cx.and_then(|cx| cx.ok_or_else(|| format!("the package has no operator {op}")));
            let digest = |cx: &OpContext| digest(&cx.registry, &cx.package);
            let digest = cx.as_ref().map_or_else(|_| String::new(), digest);
            let head = Capture { digest, op: op.clone(), core: core.to_string(), ..head };
            match &work.replay {
                Some(file) => replay_call(file, cx, &head, &mut teller)?,
                None => try_cases(work, cases, &cx, &head, &mut teller)?,
            }
        }
    }
    teller.tell(&json!({ "done": true }))
}

fn try_cases(
    work: &Work,
    cases: &[String],
    cx: &Result<OpContext, String>,
    head: &Capture,
    teller: &mut Teller,
) -> std::io::Result<()> {
    for case in chosen(cases) {
        if let Run::Op(run) = case.run {
            let name = case.full_name();
            if let Some(path) = &work.record {
                let head = Capture { case: name.clone(), ..head.clone() };
                teller.recorder.write_ahead(head, path.clone());
            }
            teller.case(&name, head, || match cx {
                Ok(cx) => run(cx),
                Err(why) => Err(Finding::Failed(why.clone())),
            })?;
        }
    }
    Ok(())
}

/// Repeats the call of a capture.
fn replay_call(
    file: &Path,
    cx: Result<OpContext, String>,
    head: &Capture,
    teller: &mut Teller,
) -> std::io::Result<()> {
    let capture = match Capture::read(file) {
        Ok(capture) => capture,
        Err(error) => return teller.tell(&json!({ "refused": error.to_string() })),
    };
    teller.tell(&json!({ "is_another": head.digest != capture.digest }))?;
    // Side effects of finalize count as the call's.
    teller.tell(&json!({ "start": capture.case }))?;
    let cx = cx.and_then(|cx| replay::context(cx, &capture));
    teller.case(&capture.case, head, || match &cx {
        Ok(cx) => replay::run(cx, &capture.case),
        Err(why) => Err(Finding::Failed(why.clone())),
    })?;
    if let Ok(cx) = &cx {
        teller.tell(&json!({ "diff": replay::diff(cx, &capture) }))?;
    }
    Ok(())
}

/// Returns the digest of the package's files.
fn digest(registry: &Operators, package: &str) -> String {
    let own = registry.packages().find(|own| own.name == package);
    let digest = own.and_then(|own| own.index_sha256.clone().or_else(|| own.sha256.clone()));
    digest.unwrap_or_default()
}

fn chosen(names: &[String]) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(|case| names.contains(&case.full_name()))
}

/// Reports the operators and their cores.
fn list(work: &Work, teller: &mut Teller) -> std::io::Result<()> {
    let opened = match Opened::beside(&work.place, &work.setup.beside) {
        Ok(opened) => opened,
        Err(error) => {
            return teller.tell(&json!({ "refused": error.to_string(), "help": error.help() }));
        }
    };
    let cores = opened.cores();
    let mut opened = opened;
    // Operators of this domain are internal to the runtime, which builds only valid nodes of them.
    let is_means =
        |op: &&udo_api::OpDef| work.place == Place::Builtin && op.schema().domain() == "udo";
    for op in opened.ops().filter(|op| !is_means(op)).collect::<Vec<_>>() {
        let name = full_name(op);
        for &core in &cores {
            let (is_any, why) = match opened.subject(&name, core) {
                Ok(Some(subject)) => (!subject.kernels.is_empty() || subject.is_declared(), None),
                Ok(None) => (false, None),
                Err(error) => (true, Some(describe(&error))),
            };
            if is_any {
                teller.tell(&json!({ "op": name, "core": core.to_string(), "refused": why }))?;
            }
        }
    }
    Ok(())
}

/// Describes why a package does not open, and the next step.
fn describe(error: &OpenError) -> String {
    format!("{error}; {}", error.help())
}

struct Teller {
    to: std::fs::File,
    captures: Option<PathBuf>,
    recorder: Arc<Recorder>,
}

impl Teller {
    fn tell(&mut self, what: &Value) -> std::io::Result<()> {
        // One write, so that a fault message cannot interleave.
        self.to.write_all(format!("{what}\n").as_bytes())
    }

    fn case(
        &mut self,
        name: &str,
        head: &Capture,
        run: impl FnOnce() -> Outcome,
    ) -> std::io::Result<()> {
        self.tell(&json!({ "start": name }))?;
        self.recorder.clear();
        let (verdict, mut why) = match run() {
            Ok(()) => ("passed", String::new()),
            Err(Finding::Failed(why)) => ("failed", why),
            Err(Finding::Warning(why)) => ("warning", why),
            Err(Finding::Unchecked(why)) => (Verdict::Unchecked.name(), why),
            Err(Finding::Skipped(why)) => ("skipped", why),
            Err(Finding::NotApplicable(why)) => (Verdict::NotApplicable.name(), why),
        };
        let mut path = None;
        if let (Some(folder), "failed") = (&self.captures, verdict) {
            let head = Capture { case: name.to_owned(), why: why.clone(), ..head.clone() };
            match self.recorder.write_graph(folder, head.file_stem().as_str()) {
                Some(Ok(written)) => why = format!("{why}; the model is {}", written.display()),
                Some(Err(error)) => why = format!("{why} (its model cannot be written: {error})"),
                None => {}
            }
            match self.recorder.last(head).map(|capture| capture.write_into(folder)) {
                Some(Ok(written)) => path = Some(written.display().to_string()),
                Some(Err(error)) => why = format!("{why} ({error})"),
                None => {}
            }
        }
        self.tell(&json!({ "end": name, "verdict": verdict, "why": why, "capture": path }))
    }
}
