//! The host's side of a package's worker: sends one request at a time, and restarts the process when it has ended.

use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Request;
use super::page_allocator::PageAllocator;
use super::process::Process;
use super::shared::{BULK, FAR, SPIN, Segment, Writes, sleep, spin, wake, words};
use super::wire::{InvalidMessage, Reader, answered};
use crate::package::{Tables, index};

/// The value of the answer word after the process has ended.
const ENDED: u32 = u32::MAX;

/// The interval in which a sleeping host checks whether its run was stopped.
const LOOK: Duration = Duration::from_millis(10);

/// The delay before the second restart in a row, and the maximal delay.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The environment variable that limits the instruction set, and the only one that a worker inherits.
const ISA: &str = "UDO_ISA";

/// The largest answer to a request whose answer has no size of its own. Tables of packages have some kilobytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Shared memory is released after answers of at least this size.
const LARGE_BYTES: usize = 1 << 20;

/// The package of a worker, and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contained {
    /// The path of the package's registration library.
    pub(super) path: PathBuf,
    /// A digest of this build of the package: a process that has one build loaded cannot load another.
    pub(super) build: String,
    /// The path of the worker program.
    pub(super) program: PathBuf,
    /// The time limit of an answer.
    pub(super) deadline: Duration,
}

/// A worker: the process that runs a package's code, restarted on demand.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) of: Contained,
    lane: Mutex<Lane>,
}

/// The connection to the process. Its lock serializes requests.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) from_host: Segment,
    pub(super) from_worker: Arc<Segment>,
    /// The allocator of constants in the host's file.
    pub(super) constant_pages: PageAllocator,
    /// Whether the shared memory is that of a process that has ended.
    has_old_memory: bool,
    process: Option<Process>,
    /// The number of processes started so far.
    generation: u64,
    request: u32,
    /// The opened libraries, which a restarted process opens again.
    libraries: Vec<Library>,
    /// The number of processes that ended in a row without an answer in between, and the time of the last end.
    ends: u32,
    ended: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Library {
    path: PathBuf,
    sha256: String,
    tables: Tables,
}

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<InvalidMessage> for Fault {
    fn from(garbled: InvalidMessage) -> Self {
        Self(garbled.to_string())
    }
}

impl Worker {
    /// Creates the worker of a package. The process is started by the first request.
    pub(super) fn new(of: Contained) -> io::Result<Self> {
        let lane = Lane {
            from_host: Segment::new(Writes::Maker)?,
            from_worker: Arc::new(Segment::new(Writes::All)?),
            constant_pages: PageAllocator::new(FAR),
            has_old_memory: false,
            process: None,
            generation: 0,
            request: 0,
            libraries: Vec::new(),
            ends: 0,
            ended: None,
        };
        Ok(Self { of, lane: Mutex::new(lane) })
    }

    pub(super) fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a library, unless it is open. `read` reads its tables from the answer.
    pub(super) fn open(
        &self,
        path: &Path,
        sha256: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<Tables, InvalidMessage>,
    ) -> Result<Tables, Fault> {
        let mut lane = self.lane();
        if let Some(known) = lane.libraries.iter().find(|library| library.path == path) {
            let is_same = known.sha256 == sha256;
            return if is_same { Ok(known.tables) } else { Err(known.changed(&is_now(sha256))) };
        }
        lane.start(self)?;
        let told = lane.ask(self, Request::Open, path.as_os_str().as_encoded_bytes())?;
        let read = answered(&told, read).map_err(|garbled| lane.garbled(garbled))?;
        // After a failure no library is added: the order of the libraries determines the numbers of their kernels.
        let tables = read.map_err(|(_, why)| Fault(why.to_owned()))?;
        let (path, sha256) = (path.to_owned(), sha256.to_owned());
        lane.libraries.push(Library { path, sha256, tables });
        Ok(tables)
    }

    fn command(&self, lane: &Lane) -> io::Result<Command> {
        let mut command = Command::new(&self.of.program);
        // Inherited files need no names. The package's output goes to standard error.
        command
            .stdin(Stdio::from(lane.from_host.fd()?))
            .stdout(Stdio::from(lane.from_worker.fd()?));
        // Secrets of the program are none of the package's business.
        command.env_clear();
        if let Some(isa) = env::var_os(ISA) {
            command.env(ISA, isa);
        }
        command.arg(std::process::id().to_string()).arg(&self.of.path);
        Ok(command)
    }
}

/// Returns the delay before the next process after a number of failures in a row. The first restart has no delay.
fn pause(ends: u32) -> Duration {
    let (first, most) = BACK_OFF;
    let doubled = ends.checked_sub(2).map(|times| first.saturating_mul(1 << times.min(16)));
    doubled.unwrap_or_default().min(most)
}

impl Library {
    fn changed(&self, found: &str) -> Fault {
        let (path, sha256) = (self.path.display(), &self.sha256);
        Fault(format!(
            "{path} has changed since it was opened: {found}, expected {sha256}; restart the program to use the new build"
        ))
    }
}

fn is_now(sha256: &str) -> String {
    format!("its SHA-256 is {sha256}")
}

impl Lane {
    /// Returns the number of the running process, which is unique; 0 without one.
    pub(super) fn generation(&self) -> u64 {
        if self.process.is_some() { self.generation } else { 0 }
    }

    /// Starts a process, unless one is running, and opens the libraries in it.
    pub(super) fn start(&mut self, worker: &Worker) -> Result<(), Fault> {
        if self.process.is_some() {
            return Ok(());
        }
        self.back_off();
        self.renew_memory().map_err(|error| {
            Fault(format!("there is no memory to share with its worker: {error}"))
        })?;
        self.request = 0;
        let from_worker = Arc::clone(&self.from_worker);
        let at_end = move || {
            let answer = from_worker.word(words::ANSWER);
            answer.store(ENDED, Ordering::SeqCst);
            wake(answer);
        };
        let started = worker.command(self).and_then(|command| Process::start(command, at_end));
        let process = started.map_err(|error| {
            Fault(format!("{} cannot be started: {error}", worker.of.program.display()))
        })?;
        self.process = Some(process);
        self.has_old_memory = true;
        self.generation += 1;
        let libraries = self.libraries.clone();
        let opened = libraries.iter().try_for_each(|library| self.open_again(worker, library));
        if opened.is_err() {
            // A process without its libraries must not get requests.
            self.end();
        }
        opened
    }

    fn open_again(&mut self, worker: &Worker, library: &Library) -> Result<(), Fault> {
        let path = &library.path;
        let found = index::sha256(path).map_err(|error| error.to_string());
        if found.as_ref() != Ok(&library.sha256) {
            return Err(library.changed(&found.map_or_else(|why| why, |found| is_now(&found))));
        }
        let told = self.ask(worker, Request::Open, path.as_os_str().as_encoded_bytes())?;
        // The file is unchanged, so its tables are too.
        let read = answered(&told, |_| Ok(())).map_err(|garbled| self.garbled(garbled))?;
        read.map_err(|(_, why)| Fault(format!("{} cannot be opened again: {why}", path.display())))
    }

    /// Waits after several failures in a row, longer each time.
    fn back_off(&self) {
        let Some(ended) = self.ended else { return };
        let until = ended + pause(self.ends);
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|t| !t.is_zero())
        {
            thread::park_timeout(left);
        }
    }

    /// Kills the process, if there is one, and releases its memory. Returns how it ended.
    fn end(&mut self) -> String {
        let process = self.process.take();
        let description = process.map_or_else(String::new, |process| {
            process.kill();
            process.ended()
        });
        // The next start tries again and reports the error.
        let _ = self.renew_memory();
        description
    }

    /// Replaces the shared memory if a process has had it: whatever that process left behind can neither write what the next one
    /// answers nor fill the memory of the machine.
    fn renew_memory(&mut self) -> io::Result<()> {
        if self.has_old_memory {
            let from_host = Segment::new(Writes::Maker)?;
            self.from_worker = Arc::new(Segment::new(Writes::All)?);
            self.from_host = from_host;
            self.constant_pages = PageAllocator::new(FAR);
            self.has_old_memory = false;
        }
        Ok(())
    }

    /// Records that the process has ended, or kills it.
    fn fault(&mut self, why: Option<String>) -> Fault {
        let how = self.end();
        self.ends = self.ends.saturating_add(1);
        self.ended = Some(Instant::now());
        Fault(why.unwrap_or(how))
    }

    /// Sends a message and returns the answer.
    pub(super) fn ask(
        &mut self,
        worker: &Worker,
        what: Request,
        with: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        self.ask_for(worker, what, with, MAX_ANSWER_BYTES)
    }

    /// Sends a message and returns the answer, which may have up to `max_answer_bytes`.
    pub(super) fn ask_for(
        &mut self,
        worker: &Worker,
        what: Request,
        with: &[u8],
        max_answer_bytes: usize,
    ) -> Result<Vec<u8>, Fault> {
        if !self.from_host.store(BULK, with) || with.len() > FAR - BULK {
            return Err(Fault(format!("the message has {} bytes, which is too many", with.len())));
        }
        self.from_host.store(words::LEN, &(with.len() as u64).to_le_bytes());
        self.exchange(worker, what, None)?;
        let mut len = [0; 8];
        self.from_worker.load(words::LEN, &mut len);
        let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
        let max_bytes = max_answer_bytes.min(FAR - BULK);
        if len > max_bytes {
            return Err(self
                .fault(Some(format!("its answer has {len} bytes, expected at most {max_bytes}"))));
        }
        let answer = self.from_worker.copy(BULK, len);
        if len >= LARGE_BYTES {
            self.from_worker.release(BULK, len);
        }
        // A process that sends invalid data is not used again.
        answer.ok_or_else(|| self.fault(Some(InvalidMessage.to_string())))
    }

    /// Kills the process after an invalid answer.
    pub(super) fn garbled(&mut self, garbled: InvalidMessage) -> Fault {
        self.fault(Some(garbled.to_string()))
    }

    /// Sends a request and waits for the answer. Does not allocate unless it fails.
    pub(super) fn exchange(
        &mut self,
        worker: &Worker,
        what: Request,
        stop: Option<&AtomicU32>,
    ) -> Result<(), Fault> {
        self.request = if self.request >= ENDED - 1 { 1 } else { self.request + 1 };
        let number = self.request;
        self.from_host.word(words::KIND).store(what.code(), Ordering::Relaxed);
        self.from_host.word(words::STOP).store(0, Ordering::Relaxed);
        let request = self.from_host.word(words::REQUEST);
        request.store(number, Ordering::SeqCst);
        if self.from_worker.word(words::WORKER_SLEEPS).load(Ordering::SeqCst) != 0 {
            wake(request);
        }
        let asked = Instant::now();
        let answer = self.from_worker.word(words::ANSWER);
        let is_over = |found| found == number || found == ENDED;
        let found = match spin(answer, SPIN.min(worker.of.deadline), is_over) {
            Some(found) => Some(found),
            None => self.sleep(worker, number, asked, stop),
        };
        match found {
            Some(ENDED) => Err(self.fault(None)),
            Some(_) => {
                self.ends = 0;
                Ok(())
            }
            None => {
                let waited = worker.of.deadline;
                Err(self.fault(Some(format!("it did not answer within {waited:?} and was killed"))))
            }
        }
    }

    /// Sleeps until the request is answered, the process has ended, or the time is up.
    fn sleep(
        &self,
        worker: &Worker,
        number: u32,
        asked: Instant,
        stop: Option<&AtomicU32>,
    ) -> Option<u32> {
        let (answer, sleeps) =
            (self.from_worker.word(words::ANSWER), self.from_host.word(words::HOST_SLEEPS));
        sleeps.store(1, Ordering::SeqCst);
        let found = loop {
            let found = answer.load(Ordering::SeqCst);
            if found == number || found == ENDED {
                break Some(found);
            }
            let left = worker.of.deadline.saturating_sub(asked.elapsed());
            if left.is_zero() {
                break None;
            }
            let is_stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed) != 0);
            self.from_host.word(words::STOP).store(u32::from(is_stopped), Ordering::Relaxed);
            sleep(answer, found, Some(if stop.is_some() { left.min(LOOK) } else { left }));
        };
        sleeps.store(0, Ordering::SeqCst);
        found
    }
}

#[cfg(test)]
mod tests;
