//! The worker process: opens a package's libraries and processes the host's requests one by one until the host ends.

mod calls;
mod states;
mod window;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::io::dup;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit,
};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use udo_api::guard::LibraryGuard;
use udo_api::{KernelDef, OpDef};
use udo_host::Job;

use super::Request;
use super::shared::{BULK, FAR, Rights, SPIN, Segment, sleep, spin, wake, words};
use super::wire::{InvalidMessage, Reader, Writer};
use crate::exit_guard::reset_signals;
use crate::package::{OperatorIndex, load_library};
use crate::thread_pool::Pool;
use states::State;

/// The factor by which a worker spins longer than the host before it sleeps, because the next call of a run comes soon.
const SPIN_FACTOR: u32 = 4;

/// The state of a worker.
struct WorkerState {
    from_host: &'static Segment,
    from_worker: Segment,
    ops: Vec<&'static OpDef>,
    kernels: Vec<Opened>,
    /// Packers that kernels requested, by number, without duplicates.
    packers: Vec<Job>,
    states: BTreeMap<u64, State>,
    pools: BTreeMap<usize, Pool>,
    scratch: udo_host::Buffer,
    geometry: udo_host::Buffer,
    tensors: Vec<udo_api::abi::TensorArg>,
    spans: Vec<udo_api::abi::Span>,
}

/// A kernel of an open library.
#[derive(Clone, Copy)]
struct Opened {
    def: &'static KernelDef,
    op: &'static OpDef,
    guard: Option<LibraryGuard>,
}

/// An error: a status and a message.
struct Refused(u32, String);

impl From<InvalidMessage> for Refused {
    fn from(garbled: InvalidMessage) -> Self {
        Self(udo_api::Status::BAD_CALL.code(), garbled.to_string())
    }
}

impl From<udo_host::Refusal> for Refused {
    fn from(refusal: udo_host::Refusal) -> Self {
        Self(refusal.status.code(), refusal.message)
    }
}

/// Serves the host with this process id, which started this process with two memory files as standard input and output.
/// Returns only if it fails.
///
/// # Errors
/// Fails if the process was not started by a host.
pub fn serve(host: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the signal was set.
    let parent = i32::try_from(host).ok().and_then(Pid::from_raw);
    if parent.is_none() || getppid() != parent {
        let why = "udo-worker must be started by a program that contains packages";
        return Err(io::Error::other(why));
    }
    let (from_host, from_worker) = files()?;
    // A fault in a package must end this process, and so the current call.
    reset_signals();
    // Core dumps of a crashing package are useless.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let empty = || udo_host::Buffer::zeroed(0).map_err(io::Error::other);
    let mut state = WorkerState {
        from_host: Box::leak(Box::new(Segment::map(from_host, Rights::Read)?)),
        from_worker: Segment::map(from_worker, Rights::Write)?,
        ops: Vec::new(),
        kernels: Vec::new(),
        packers: Vec::new(),
        states: BTreeMap::new(),
        pools: BTreeMap::new(),
        scratch: empty()?,
        geometry: empty()?,
        tensors: Vec::new(),
        spans: Vec::new(),
    };
    let mut last = 0;
    loop {
        last = state.wait(last);
        state.answer(last);
    }
}

/// Returns the two memory files. Redirects standard input to /dev/null, and standard output to standard error.
fn files() -> io::Result<(OwnedFd, OwnedFd)> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let (from_host, from_worker) = (dup(stdin.as_fd())?, dup(stdout.as_fd())?);
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr().as_fd())?;
    Ok((from_host, from_worker))
}

impl WorkerState {
    /// Waits for the next request and returns its number.
    fn wait(&self, last: u32) -> u32 {
        let (request, sleeps) =
            (self.from_host.word(words::REQUEST), self.from_worker.word(words::WORKER_SLEEPS));
        let is_new = |request| request != last;
        if let Some(number) = spin(request, SPIN * SPIN_FACTOR, is_new) {
            return number;
        }
        sleeps.store(1, Ordering::SeqCst);
        let number = loop {
            let number = request.load(Ordering::SeqCst);
            if is_new(number) {
                break number;
            }
            sleep(request, number, None);
        };
        sleeps.store(0, Ordering::SeqCst);
        number
    }

    /// Processes a request and publishes the answer.
    fn answer(&mut self, number: u32) {
        let what = Request::from_code(self.from_host.word(words::KIND).load(Ordering::Relaxed));
        match what {
            Some(what @ (Request::Execute | Request::Prepare)) => self.call(what),
            Some(what) => self.answer_message(what),
            None => self.say(Err(InvalidMessage.into())),
        }
        let answer = self.from_worker.word(words::ANSWER);
        answer.store(number, Ordering::SeqCst);
        if self.from_host.word(words::HOST_SLEEPS).load(Ordering::SeqCst) != 0 {
            wake(answer);
        }
    }

    fn answer_message(&mut self, what: Request) {
        let mut len = [0; 8];
        self.from_host.load(words::LEN, &mut len);
        let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
        let message = self.from_host.message(len);
        let said = message.ok_or(Refused::from(InvalidMessage)).and_then(|message| {
            let mut reader = Reader::new(message);
            match what {
                Request::Open => self.open(message),
                Request::Infer => self.infer(&mut reader),
                Request::Accept => self.accept(&mut reader),
                Request::Finalize => self.finalize(&mut reader),
                Request::Pack => self.pack(&mut reader),
                Request::Free => self.free(&mut reader),
                Request::Execute | Request::Prepare => Err(InvalidMessage.into()),
            }
        });
        self.say(said);
    }

    /// Writes the answer to a message.
    fn say(&self, said: Result<Writer, Refused>) {
        let mut writer = Writer::default();
        match said {
            Ok(said) => {
                writer.word(0);
                writer.raw(&said.done());
            }
            Err(Refused(status, text)) => {
                writer.word(u64::from(if status == 0 { 1 } else { status }));
                writer.text(&text);
            }
        }
        let bytes = writer.done();
        let len = if self.from_worker.store(BULK, &bytes) && bytes.len() <= FAR - BULK {
            bytes.len() as u64
        } else {
            u64::MAX
        };
        self.from_worker.store(words::LEN, &len.to_le_bytes());
    }

    /// Opens a library.
    fn open(&mut self, path: &[u8]) -> Result<Writer, Refused> {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let refused = |text: String| Refused(1, text);
        let tables = load_library(Path::new(OsStr::from_bytes(path)));
        let tables = tables.map_err(|error| refused(error.to_string()))?;
        let first = [self.ops.len(), self.kernels.len()];
        // Kernels of an implementation library refer to operators of the registration library, which is already open.
        let known: Vec<OpDef> =
            self.ops.iter().map(|op| **op).chain(tables.ops.iter().copied()).collect();
        let by_address: Vec<&'static OpDef> =
            self.ops.iter().copied().chain(tables.ops.iter()).collect();
        let operators = OperatorIndex::new(&known);
        let mut kernels = Vec::with_capacity(tables.kernels.len());
        for def in tables.kernels {
            let op = operators.find_for(def).map_err(|why| refused(why.to_string()))?;
            let at = known.iter().position(|known| std::ptr::eq(known, op));
            let op = at.and_then(|at| by_address.get(at)).copied();
            let op = op.ok_or_else(|| refused("an operator is missing".to_owned()))?;
            kernels.push(Opened { def, op, guard: tables.guard });
        }
        self.kernels.extend(kernels);
        self.ops.extend(tables.ops.iter());
        let mut writer = Writer::default();
        writer.tables(&tables, first);
        Ok(writer)
    }

    /// Reads the number of an operator and returns it.
    fn op(&self, reader: &mut Reader<'_>) -> Result<&'static OpDef, InvalidMessage> {
        let number = reader.number()?;
        self.ops.get(number).copied().ok_or(InvalidMessage)
    }

    fn kernel(&self, reader: &mut Reader<'_>) -> Result<Opened, InvalidMessage> {
        let number = reader.number()?;
        self.kernels.get(number).copied().ok_or(InvalidMessage)
    }

    fn infer(&self, reader: &mut Reader<'_>) -> Result<Writer, Refused> {
        let op = self.op(reader)?;
        let node = reader.node(op.schema())?;
        let outputs = udo_host::infer(op, &node.desc())?;
        let mut writer = Writer::default();
        writer.items(&outputs);
        Ok(writer)
    }

    fn accept(&self, reader: &mut Reader<'_>) -> Result<Writer, Refused> {
        let Opened { def, op, .. } = self.kernel(reader)?;
        let node = reader.node(op.schema())?;
        let steps = udo_host::accept(def, &reader.placed(&node)?)?;
        let mut writer = Writer::default();
        writer.number(steps);
        Ok(writer)
    }

    /// Returns a pool with this number of threads.
    fn pool(&mut self, width: usize) -> Result<Option<&Pool>, Refused> {
        let Some(threads) = NonZero::new(width) else { return Ok(None) };
        Ok(Some(match self.pools.entry(width) {
            Entry::Occupied(pool) => pool.into_mut(),
            Entry::Vacant(entry) => {
                let pool = Pool::new(threads).map_err(|error| Refused(1, error.to_string()))?;
                entry.insert(pool)
            }
        }))
    }
}
