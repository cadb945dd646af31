//! Starts, watches and kills the process of a worker.
//!
//! A thread starts it and waits for it, so that it is always reaped. The system kills it when that thread ends, and so when the
//! host ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

/// A started process.
#[derive(Debug)]
pub(super) struct Process(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

/// The time that the system may take to end a killed process. One that waits for a device may take longer.
const KILL_TIME: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum State {
    Starting,
    Running(Handle),
    /// It could not be started.
    Refused(io::Error),
    /// It was reaped; the text says how it ended.
    Ended(String),
}

/// A running process.
#[derive(Debug)]
struct Handle {
    pid: Pid,
    /// A process can leave its process group, but not its descriptor.
    descriptor: OwnedFd,
}

impl Handle {
    /// Kills the process, and those that it started unless they have left its process group.
    fn kill(&self) {
        // It may have ended.
        let _gone = pidfd_send_signal(&self.descriptor, Signal::KILL);
        let _gone = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.state() = state;
        self.changed.notify_all();
    }

    fn wait_while(&self, is_pending: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(self.state(), |state| is_pending(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn new() -> Self {
        Self { state: Mutex::new(State::Starting), changed: Condvar::new() }
    }

    /// Starts the process and waits until it has ended. Calls `at_end` before the end becomes visible, and so before another
    /// process can be started.
    fn watch(&self, mut command: Command, at_end: impl FnOnce()) {
        let child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(refused) => return self.set(State::Refused(refused)),
        };
        // The command holds copies of the memory files, which the worker has now.
        drop(command);
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return self.set(State::Refused(io::ErrorKind::InvalidData.into()));
        };
        // The id is that of the child, as it is reaped below only.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => self.set(State::Running(Handle { pid, descriptor })),
            Err(error) => {
                let _ = reap(child, pid);
                return self.set(State::Refused(error.into()));
            }
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).is_err_and(|errno| errno == rustix::io::Errno::INTR)
        {
        }
        // Killing by process id requires this lock, so the id cannot be reused before.
        let mut state = self.state();
        let description = reap(child, pid);
        at_end();
        *state = State::Ended(description);
        self.changed.notify_all();
    }
}

fn reap(mut child: Child, pid: Pid) -> String {
    // Kill the processes that it may have started.
    let _gone = kill_process_group(pid, Signal::KILL);
    let _gone = child.kill();
    child
        .wait()
        .map_or_else(|error| format!("its worker ended in an unknown way: {error}"), describe)
}

/// Describes an unexpected end of a worker.
fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its worker exited with status {code}"),
        (None, Some(signal)) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("its worker was terminated by {name} (signal {signal})"),
            None => format!("its worker was terminated by signal {signal}"),
        },
        (None, None) => "its worker ended".to_owned(),
    }
}

/// Signals that end a process, by their numbers on Linux.
const SIGNALS: &[(i32, &str)] = &[
    (4, "an illegal instruction"),
    (5, "a trap"),
    (6, "abort"),
    (7, "a bus error"),
    (8, "an arithmetic fault"),
    (9, "kill"),
    (11, "a memory fault"),
    (13, "a closed pipe"),
    (14, "an alarm"),
    (15, "a termination request"),
    (24, "its CPU time limit"),
    (31, "a forbidden system call"),
];

impl Process {
    /// Starts a process. Calls `at_end` when it was reaped, unless it could not be started.
    pub(super) fn start(
        command: Command,
        at_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let watched = Arc::new(Watched::new());
        let watcher = Arc::clone(&watched);
        let builder = thread::Builder::new().name("udo-contain".to_owned());
        builder.spawn(move || watcher.watch(command, at_end))?;
        let mut state = watched.wait_while(|state| matches!(state, State::Starting));
        match &mut *state {
            State::Refused(error) => Err(std::mem::replace(error, io::ErrorKind::Other.into())),
            State::Starting | State::Running(_) | State::Ended(_) => {
                drop(state);
                Ok(Self(watched))
            }
        }
    }

    /// Kills the process and waits until it was reaped, for a bounded time.
    pub(super) fn kill(&self) {
        if let State::Running(process) = &*self.0.state() {
            process.kill();
        }
        drop(self.end_state());
    }

    /// Waits until the process has ended, for a bounded time, and describes how.
    pub(super) fn ended(&self) -> String {
        match &*self.end_state() {
            State::Ended(description) => description.clone(),
            State::Refused(error) => format!("its worker cannot be started: {error}"),
            State::Starting | State::Running(_) => {
                format!("its worker was killed and has not ended within {KILL_TIME:?}")
            }
        }
    }

    fn end_state(&self) -> MutexGuard<'_, State> {
        let is_pending = |state: &mut State| matches!(state, State::Starting | State::Running(_));
        let waited = self.0.changed.wait_timeout_while(self.0.state(), KILL_TIME, is_pending);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn started(script: &str) -> (Process, mpsc::Receiver<()>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let (send, receive) = mpsc::channel();
        let at_end = move || send.send(()).unwrap_or_default();
        (Process::start(command, at_end).unwrap(), receive)
    }

    #[test]
    fn the_cause_of_an_end_is_described() {
        let cases = [
            ("exit 3", "its worker exited with status 3"),
            ("kill -SEGV $$", "its worker was terminated by a memory fault (signal 11)"),
            ("kill -USR1 $$", "its worker was terminated by signal 10"),
        ];
        for (script, expected) in cases {
            let (process, ended) = started(script);
            assert_eq!(process.ended(), expected);
            ended.recv().unwrap();
        }
    }

    #[test]
    fn kill_ends_the_process_and_its_children() {
        let (process, ended) = started("sleep 1000 & wait");
        process.kill();
        assert_eq!(process.ended(), "its worker was terminated by kill (signal 9)");
        ended.recv().unwrap();
        process.kill();
    }

    /// Returns whether the end was visible when `at_end` ran; `None` if it did not run.
    fn seen_at_end(program: &str) -> Option<bool> {
        let (watched, mut seen) = (Watched::new(), None);
        watched.watch(Command::new(program), || {
            let is_end = |state: MutexGuard<'_, State>| matches!(*state, State::Ended(_));
            seen = Some(watched.state.try_lock().is_ok_and(is_end));
        });
        seen
    }

    #[test]
    fn at_end_runs_before_the_end_is_visible_and_only_if_the_process_started() {
        assert_eq!(seen_at_end("true"), Some(false));
        assert_eq!(seen_at_end("/nowhere/udo-worker"), None);
    }

    #[test]
    fn a_process_that_left_its_group_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut command = Command::new("perl");
        command.args(["-e", "$| = 1; setpgrp(0, getpgrp(getppid)); print getpgrp; sleep 1000"]);
        command.stdout(std::fs::File::create(&output).unwrap());
        let process = Process::start(command, || ()).unwrap();
        let own_group = rustix::process::getpgrp().as_raw_nonzero().to_string();
        let started = Instant::now();
        while std::fs::read_to_string(&output).unwrap() != own_group {
            assert!(started.elapsed() < Duration::from_mins(1), "it did not leave its group");
            thread::yield_now();
        }
        process.kill();
        assert_eq!(process.ended(), "its worker was terminated by kill (signal 9)");
    }

    #[test]
    fn a_missing_program_cannot_be_started() {
        let refused = Process::start(Command::new("/nowhere/udo-worker"), || ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    }
}
