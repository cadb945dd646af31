//! The side of a check that runs a package's code: a process of its own, which tells what it finds as lines of JSON.
//!
//! Lines go to a descriptor of their own, which the parent passed as standard input, so that what a package does to standard
//! output disturbs nothing.

use std::io::Write;
use std::os::fd::AsRawFd;

use serde_json::{Value, json};
use udo_api::Core;

use crate::cases::{CASES, Case, Finding, Outcome, Run};
use crate::context::{OpContext, PackageContext};
use crate::raw::fault;
use crate::subject::{Opened, Place, full_name};

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Work {
    /// The package.
    pub place: Place,
    /// The operator and its core; nothing for cases of the package as a whole.
    pub subject: Option<(String, Core)>,
    /// Full names of cases; nothing to list what there is to check.
    pub cases: Option<Vec<String>>,
    /// How much is tried.
    pub level: u8,
    /// The seed of all elements.
    pub seed: u64,
}

/// Descriptors below this are left to packages.
const FIRST_DESCRIPTOR: i32 = 240;

/// Does what a parent asks for, and tells it what there is.
///
/// # Errors
/// There is nobody to tell.
pub fn work(work: &Work) -> std::io::Result<()> {
    let told = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), FIRST_DESCRIPTOR)?;
    fault::install(told.as_raw_fd());
    let mut teller = Teller { to: std::fs::File::from(told) };
    match (&work.cases, &work.subject) {
        (None, _) => list(work, &mut teller)?,
        (Some(cases), None) => {
            let cx = PackageContext { place: work.place.clone() };
            for case in chosen(cases) {
                if let Run::Package(run) = case.run {
                    teller.case(case, || run(&cx))?;
                }
            }
        }
        (Some(cases), Some((op, core))) => {
            let cx = OpContext::new(&work.place, (op, *core), work.level, work.seed);
            for case in chosen(cases) {
                if let Run::Op(run) = case.run {
                    teller.case(case, || match &cx {
                        Ok(Some(cx)) => run(cx),
                        Ok(None) => {
                            Err(Finding::Failed(format!("the package has no operator {op}")))
                        }
                        Err(error) => Err(Finding::Failed(error.to_string())),
                    })?;
                }
            }
        }
    }
    teller.tell(&json!({ "done": true }))
}

fn chosen(names: &[String]) -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(|case| names.contains(&case.full_name()))
}

/// Tells the operators and the cores that there are.
fn list(work: &Work, teller: &mut Teller) -> std::io::Result<()> {
    let opened = match Opened::open(&work.place) {
        Ok(opened) => opened,
        Err(error) => {
            return teller.tell(&json!({ "refused": error.to_string(), "help": error.help() }));
        }
    };
    let cores = opened.cores();
    let mut opened = opened;
    // Operators of this domain are the runtime's own means, which it gives nodes that fit by construction.
    let is_means =
        |op: &&udo_api::OpDef| work.place == Place::Builtin && op.schema().domain() == "udo";
    for op in opened.ops().filter(|op| !is_means(op)).collect::<Vec<_>>() {
        let name = full_name(op);
        for &core in &cores {
            let (is_any, why) = match opened.subject(&name, core) {
                Ok(Some(subject)) => (!subject.kernels.is_empty() || subject.is_declared(), None),
                Ok(None) => (false, None),
                Err(error) => (true, Some(error.to_string())),
            };
            if is_any {
                teller.tell(&json!({ "op": name, "core": core.to_string(), "refused": why }))?;
            }
        }
    }
    Ok(())
}

struct Teller {
    to: std::fs::File,
}

impl Teller {
    fn tell(&mut self, what: &Value) -> std::io::Result<()> {
        // One write, so that what a fault tells is not put between.
        self.to.write_all(format!("{what}\n").as_bytes())
    }

    fn case(&mut self, case: &Case, run: impl FnOnce() -> Outcome) -> std::io::Result<()> {
        let name = case.full_name();
        self.tell(&json!({ "start": name }))?;
        let (verdict, why) = match run() {
            Ok(()) => ("passed", String::new()),
            Err(Finding::Failed(why)) => ("failed", why),
            Err(Finding::Warning(why)) => ("warning", why),
            Err(Finding::Skipped(why)) => ("skipped", why),
        };
        self.tell(&json!({ "end": name, "verdict": verdict, "why": why }))
    }
}
