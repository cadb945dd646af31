//! Packages whose code runs in a process of its own, the worker: what ends, hangs or writes wildly there is an error here.
//!
//! The host never maps a contained package's libraries. It reads their manifests, and has the worker open them
//! and tell their tables (`tables`), whose functions ask the worker (`proxy`): nobody above knows which packages are contained.
//! What is asked before a run goes as messages (`wire`, `image`, `node`), calls by words and elements (`call`), both through
//! memory that host and worker share (`shared`). `serve` is the worker's side.

mod call;
mod callee;
mod image;
mod kernel;
mod node;
mod options;
mod packs;
mod process;
mod proxy;
mod report;
mod room;
mod serve;
mod shared;
mod tables;
mod wire;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::exit_guard::PerProcess;
use crate::package::{OpenError, Tables};
pub use options::Containment;
pub use serve::serve;
pub(crate) use worker::Worker;
use worker::{Contained, Fault};

/// What a worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Open,
    Infer,
    Accept,
    Finalize,
    Pack,
    Prepare,
    Execute,
    Free,
}

impl Ask {
    const ALL: [Self; 8] = [
        Self::Open,
        Self::Infer,
        Self::Accept,
        Self::Finalize,
        Self::Pack,
        Self::Prepare,
        Self::Execute,
        Self::Free,
    ];

    fn code(self) -> u32 {
        let at = Self::ALL.iter().position(|ask| *ask == self);
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
    }

    fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// A number that no other kernel of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The worker of this build of the package at `path`, which all have who contain it alike. It stays for the life of the process,
/// as the tables do that it answers for; its own process comes and goes.
pub(crate) fn worker(
    path: &Path,
    build: &str,
    of: &Containment,
) -> Result<&'static Worker, OpenError> {
    static WORKERS: PerProcess<Mutex<Vec<&'static Worker>>> =
        PerProcess::new(Mutex::new(Vec::new()));
    let mut workers = WORKERS.get().lock().unwrap_or_else(PoisonError::into_inner);
    let of = Contained {
        path: path.to_owned(),
        build: build.to_owned(),
        program: of.program(path)?,
        deadline: of.timeout,
    };
    if let Some(worker) = workers.iter().find(|worker| worker.of == of) {
        return Ok(worker);
    }
    let made = Worker::new(of).map_err(|error| refused(path, &error.to_string()))?;
    let worker = Box::leak(Box::new(made));
    workers.push(worker);
    Ok(worker)
}

/// Has `worker` open a library of its package; its tables.
pub(crate) fn open(
    worker: &'static Worker,
    path: &Path,
    sha256: &str,
) -> Result<Tables, OpenError> {
    let opened = worker.open(path, sha256, |told| tables::tables(worker, told));
    opened.map_err(|Fault(why)| refused(path, &why))
}

fn refused(path: &Path, why: &str) -> OpenError {
    OpenError::Contained { path: path.to_owned(), reason: why.to_owned() }
}
