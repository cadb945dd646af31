//! Containment: packages whose code runs in a worker process. A crash, hang or wild write there becomes an error here.
//!
//! The host never maps a contained package's libraries. It reads their manifests and lets the worker open them and report their
//! tables (`tables`). The functions in these tables forward calls to the worker (`proxy`), so the code above does not know which
//! packages are contained. Requests before a run are messages (`wire`, `image`, `node`). Calls during a run pass words and
//! elements (`call`). Both use memory that host and worker share (`shared`). `serve` is the worker's side.

mod call;
mod callee;
mod image;
mod kernel;
mod node;
mod options;
mod packs;
mod page_allocator;
mod process;
mod proxy;
mod report;
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

/// A kind of request to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Open,
    Infer,
    Accept,
    Finalize,
    Pack,
    Prepare,
    Execute,
    Free,
}

impl Request {
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
        let index = Self::ALL.iter().position(|request| *request == self);
        index.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX)
    }

    fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// Returns an id that no other kernel of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the worker for this build of the package at `path`. All users with the same containment share it. The object lives as
/// long as the process, as do the tables that refer to it; its worker process may end and be restarted.
pub(crate) fn worker(
    path: &Path,
    build: &str,
    containment: &Containment,
) -> Result<&'static Worker, OpenError> {
    static WORKERS: PerProcess<Mutex<Vec<&'static Worker>>> =
        PerProcess::new(Mutex::new(Vec::new()));
    let mut workers = WORKERS.get().lock().unwrap_or_else(PoisonError::into_inner);
    let contained = Contained {
        path: path.to_owned(),
        build: build.to_owned(),
        program: containment.program(path)?,
        deadline: containment.timeout,
    };
    if let Some(worker) = workers.iter().find(|worker| worker.of == contained) {
        return Ok(worker);
    }
    let started = Worker::new(contained).map_err(|error| refused(path, &error.to_string()))?;
    let worker = Box::leak(Box::new(started));
    workers.push(worker);
    Ok(worker)
}

/// Opens a library in `worker` and returns its tables.
pub(crate) fn open(
    worker: &'static Worker,
    path: &Path,
    sha256: &str,
) -> Result<Tables, OpenError> {
    let opened = worker.open(path, sha256, |answer| tables::tables(worker, answer));
    opened.map_err(|Fault(why)| refused(path, &why))
}

fn refused(path: &Path, why: &str) -> OpenError {
    OpenError::Contained { path: path.to_owned(), reason: why.to_owned() }
}
