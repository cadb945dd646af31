//! Tests of the host with a forged worker: the test itself writes the answers. They check invalid answers, restarts and builds.

use std::ops::Deref;

use udo_api::{OpDef, OpSchema, Port, types};

use super::*;
use crate::contain::proxy;
use crate::contain::shared::Rights;
use crate::contain::tables;
use crate::contain::wire::Writer;
use crate::package::Tier;

/// A deadline that no passing test reaches.
const LONG: Duration = Duration::from_secs(30);

/// A worker whose program sleeps: tests answer in its place.
struct Forged(&'static Worker);

impl Deref for Forged {
    type Target = &'static Worker;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Forged {
    fn drop(&mut self) {
        self.lane().end();
    }
}

impl Forged {
    fn open(&self, path: &Path, sha256: &str) -> Result<Tables, Fault> {
        self.0.open(path, sha256, |answer| tables::tables(self.0, answer))
    }

    fn new() -> Self {
        // It takes the host's number and the path for the seconds to sleep.
        let of = Contained {
            path: PathBuf::from("60"),
            build: "build".to_owned(),
            program: PathBuf::from("sleep"),
            deadline: LONG,
        };
        let worker = Worker::new(of).unwrap();
        Self(Box::leak(Box::new(worker)))
    }

    /// Returns the result of `ask` with a worker that answers its one request with `answer`.
    fn answers<T>(&self, answer: &[u8], ask: impl FnOnce() -> T) -> T {
        let lane = self.lane();
        if lane.process.is_none() {
            lane.from_host.word(words::REQUEST).store(0, Ordering::SeqCst);
        }
        let number = if lane.process.is_some() { lane.request + 1 } else { 1 };
        let from_host = Segment::map(lane.from_host.fd().unwrap(), Rights::Read).unwrap();
        let from_worker = Segment::map(lane.from_worker.fd().unwrap(), Rights::Write).unwrap();
        drop(lane);
        thread::scope(|scope| {
            scope.spawn(move || {
                spin(from_host.word(words::REQUEST), LONG, |found| found == number).unwrap();
                from_worker.store(BULK, answer);
                from_worker.store(words::LEN, &(answer.len() as u64).to_le_bytes());
                from_worker.word(words::ANSWER).store(number, Ordering::SeqCst);
                wake(from_worker.word(words::ANSWER));
            });
            ask()
        })
    }
}

static OPS: &[OpDef] = &[OpDef::answered_by(
    OpSchema::new("Op", &[], &[Port::required("y", types::F32)], &[]),
    proxy::infer,
)];

/// Returns an answer to open: the tables of a library with one operator, which has the number `first`.
fn tables_answer(first: usize) -> Vec<u8> {
    let tables = Tables {
        name: "Package",
        version: "1.0.0",
        sdk_version: "1.0.0",
        ops: OPS,
        kernels: &[],
        libraries: &[],
        guard: None,
        tier: Tier::Unchecked,
    };
    let mut writer = Writer::default();
    writer.word(0);
    writer.tables(&tables, [first, 0]);
    writer.done()
}

fn refusal() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.word(1);
    writer.text("the disk is gone");
    writer.done()
}

/// A file, and its SHA-256.
fn library() -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sha256 = index::sha256(file.path()).unwrap();
    (file, sha256)
}

#[test]
fn a_restarted_worker_that_cannot_reopen_a_library_is_ended() {
    let (worker, (file, sha256)) = (Forged::new(), library());
    worker.answers(&tables_answer(0), || worker.open(file.path(), &sha256)).unwrap();
    worker.lane().end();
    let start = || worker.lane().start(&worker);
    for (answer, expected) in [
        (refusal(), "cannot be opened again: the disk is gone"),
        (vec![7], "it sent an invalid answer"),
    ] {
        let Fault(why) = worker.answers(&answer, start).unwrap_err();
        assert!(why.ends_with(expected), "{why}");
        assert_eq!(worker.lane().generation(), 0, "after {why}");
    }
    worker.answers(&tables_answer(0), start).unwrap();
    assert_eq!(worker.lane().generation(), 4);
}

#[test]
fn a_library_is_opened_once_and_a_changed_file_is_refused() {
    let (worker, (file, sha256)) = (Forged::new(), library());
    let path = file.path();
    let first = worker.answers(&tables_answer(0), || worker.open(path, &sha256)).unwrap();
    let requests = worker.lane().request;
    let again = worker.open(path, &sha256).unwrap();
    assert!(std::ptr::eq(first.ops, again.ops), "the tables are the same ones");
    let Fault(why) = worker.open(path, "0123").unwrap_err();
    assert!(why.contains("has changed since it was opened: its SHA-256 is 0123"), "{why}");
    assert_eq!(worker.lane().request, requests, "it got no further request");
}

#[test]
fn tables_that_cannot_be_read_end_their_worker_and_open_nothing() {
    let (worker, (file, sha256)) = (Forged::new(), library());
    let open = || worker.open(file.path(), &sha256);
    for answer in [&tables_answer(0)[..40], &tables_answer(usize::MAX)] {
        worker.answers(answer, open).unwrap_err();
        let lane = worker.lane();
        assert_eq!((lane.generation(), lane.libraries.len()), (0, 0));
    }
    worker.answers(&tables_answer(0), open).unwrap();
}

#[test]
fn two_builds_do_not_share_a_worker() {
    let worker = Forged::new();
    let of = |path: &str, build: &str| {
        let (path, build) = (PathBuf::from(path), build.to_owned());
        Contained { path, build, ..worker.of.clone() }
    };
    assert_eq!(of("60", "build"), worker.of);
    assert!(of("60", "another") != worker.of && of("61", "build") != worker.of);
}

#[test]
fn the_first_worker_that_ends_is_replaced_at_once() {
    let pauses = [0, 1, 2, 3, 4, 8, 9, u32::MAX].map(|ends| pause(ends).as_millis());
    assert_eq!(pauses, [0, 0, 10, 20, 40, 640, 1000, 1000]);
}
