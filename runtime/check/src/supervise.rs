//! The parent process of a check. It does not run code of the package: it starts a worker for each operator on each
//! core, enforces the time limit of each case, and runs the remaining cases of a dead worker one by one.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use udo_api::Core;

use crate::capture::Capture;
use crate::report::{CaseReport, PRINTS, SubjectReport, Verdict};
use crate::subject::Place;
use crate::{CheckError, Setup};

/// How to start workers.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program, whose command `check` has the worker flags.
    pub path: PathBuf,
}

/// An operator on a core of the package.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) op: String,
    pub(crate) core: Core,
    /// Whether its library does not open.
    pub(crate) is_refused: bool,
}

/// The work of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) place: Place,
    pub(crate) op: Option<String>,
    pub(crate) core: Option<Core>,
    pub(crate) setup: Setup,
    pub(crate) timeout: Duration,
    /// The folder for captures.
    pub(crate) captures: Option<PathBuf>,
    /// The file that each call is written to before it starts.
    pub(crate) record: Option<PathBuf>,
    /// The capture whose call is repeated.
    pub(crate) replay: Option<PathBuf>,
}

/// The messages of a worker.
#[derive(Debug, Default)]
struct WorkerOutput {
    cases: Vec<CaseReport>,
    /// The case that was running when the worker ended, and why it ended.
    unfinished: Option<(String, Verdict, String)>,
    is_done: bool,
    printed: String,
    lines: Vec<Value>,
}

impl Program {
    fn command(&self, task: &Task, cases: Option<&[String]>) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("check").arg(task.place.to_string());
        let Setup { level, seed, beside } = &task.setup;
        command.args(["--level", &level.to_string(), "--seed", &seed.to_string()]);
        command.args(beside.iter().flat_map(|other| ["--beside".as_ref(), other.as_os_str()]));
        if let (Some(op), Some(core)) = (&task.op, task.core) {
            command.args(["--op", op, "--core", &core.to_string()]);
        }
        let work = cases.map_or_else(|| "list".to_owned(), |cases| cases.join(","));
        command.args(["--worker", &work]);
        let files = [
            ("--captures", &task.captures),
            ("--record", &task.record),
            ("--replay", &task.replay),
        ];
        for (flag, file) in files {
            if let Some(file) = file {
                command.arg(flag).arg(file);
            }
        }
        // A backtrace would allocate memory that the check counts.
        command.env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, task: &Task, cases: Option<&[String]>) -> Result<WorkerOutput, CheckError> {
        let start = |source| CheckError::Worker { path: self.path.clone(), source };
        let (told, tell) = std::io::pipe().map_err(start)?;
        let mut command = self.command(task, cases);
        command.stdin(tell).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Child processes of the package end with it.
        command.process_group(0);
        let mut child = command.spawn().map_err(start)?;
        // The pipe ends when the worker does.
        drop(command);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (read, all_read) = channel();
        if let Some(from) = child.stdout.take() {
            collect(from, &printed, read.clone());
        }
        if let Some(from) = child.stderr.take() {
            collect(from, &printed, read.clone());
        }
        drop(read);
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(told).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut told = listen(&lines, &mut child, task.timeout);
        // A process that the package moved to another group may hold the pipes open.
        let _ = all_read.recv_timeout(LEFT_OPEN);
        let printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        told.printed.push_str(String::from_utf8_lossy(&printed).trim());
        Ok(told)
    }

    /// Lists the package's operators and cores, or returns why it cannot be opened and the next step.
    pub(crate) fn list(&self, task: &Task) -> Result<Vec<Listed>, CheckError> {
        let told = self.run(task, None)?;
        let mut subjects = Vec::new();
        for line in &told.lines {
            let core = line["core"].as_str().and_then(core_of);
            match (line["op"].as_str(), core) {
                (Some(op), Some(core)) => {
                    let (op, is_refused) = (op.to_owned(), line["refused"].is_string());
                    subjects.push(Listed { op, core, is_refused });
                }
                _ => {
                    if let Some(why) = line["refused"].as_str() {
                        let help = line["help"].as_str().unwrap_or_default().to_owned();
                        return Err(CheckError::Refused { why: why.to_owned(), help });
                    }
                }
            }
        }
        if !told.is_done {
            let how = told.unfinished.map_or_else(String::new, |(_, _, how)| how);
            return Err(CheckError::Opening { how, printed: told.printed });
        }
        Ok(subjects)
    }

    /// Runs the cases. Cases that a worker did not reach run in workers of their own.
    pub(crate) fn check(&self, task: &Task, cases: &[String]) -> Result<SubjectReport, CheckError> {
        let start = Instant::now();
        let mut report = SubjectReport {
            op: task.op.clone().unwrap_or_default(),
            core: task.core.map(|core| core.to_string()).unwrap_or_default(),
            cases: Vec::new(),
            seconds: 0.0,
        };
        let told = self.run(task, Some(cases))?;
        let mut printed = told.printed.clone();
        report.cases.extend(told.cases.iter().cloned());
        if !told.is_done {
            report.cases.extend(ended(&told));
            let done: Vec<String> = report.cases.iter().map(|case| case.case.clone()).collect();
            for case in cases.iter().filter(|case| !done.contains(case)) {
                if hangs(&report) >= HANGS {
                    report.cases.push(not_tried(case));
                    continue;
                }
                let told = self.run(task, Some(std::slice::from_ref(case)))?;
                printed.push_str(&told.printed);
                let reported = told.cases.first().cloned().or_else(|| ended(&told));
                report.cases.push(reported.unwrap_or_else(|| CaseReport {
                    case: case.clone(),
                    verdict: Verdict::Crashed,
                    why: "the worker ended before the case began".to_owned(),
                    seconds: 0.0,
                    capture: None,
                }));
            }
        }
        let order = |case: &CaseReport| cases.iter().position(|name| *name == case.case);
        report.cases.sort_by_key(order);
        for case in &mut report.cases {
            if matches!(case.verdict, Verdict::Crashed | Verdict::TimedOut) {
                case.capture = self.capture(task, case)?;
            }
        }
        let has_died = report.cases.iter().any(|case| case.verdict == Verdict::Crashed);
        if !printed.is_empty() && !has_died {
            let line = printed.lines().next().unwrap_or_default();
            report.cases.push(CaseReport {
                case: PRINTS.to_owned(),
                verdict: Verdict::Warning,
                why: format!("it prints: {line:?}"),
                seconds: 0.0,
                capture: None,
            });
        }
        report.seconds = start.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl Program {
    /// Repeats a case that ends the process in a worker that writes each call before it starts, to get its capture.
    fn capture(&self, task: &Task, case: &CaseReport) -> Result<Option<PathBuf>, CheckError> {
        let (Some(folder), Some(op), Some(core)) = (&task.captures, &task.op, task.core) else {
            return Ok(None);
        };
        let (op, core, case_name) = (op.clone(), core.to_string(), case.case.clone());
        let name = Capture { op, core, case: case_name, ..Capture::default() }.file_name();
        let path = folder.join(name);
        // A capture of an earlier check does not belong to this one.
        let _ = std::fs::remove_file(&path);
        if std::fs::create_dir_all(folder).is_err() {
            return Ok(None);
        }
        let ahead = Task { record: Some(path.clone()), captures: None, ..task.clone() };
        let told = self.run(&ahead, Some(std::slice::from_ref(&case.case)))?;
        let capture = Capture::read(&path).ok().filter(|_| !told.is_done);
        let capture = capture.map(|capture| Capture { why: case.why.clone(), ..capture });
        let Some(Ok(path)) = capture.map(|capture| capture.write_into(folder)) else {
            // The failure did not occur again, or occurred before any call.
            let _ = std::fs::remove_file(&path);
            return Ok(None);
        };
        Ok(Some(path))
    }

    /// Repeats the call of the task's capture.
    pub(crate) fn replay(&self, task: &Task) -> Result<Replayed, CheckError> {
        let told = self.run(task, Some(&["replay".to_owned()]))?;
        let said = |key: &str| told.lines.iter().find_map(|line| line.get(key)).cloned();
        if let Some(why) = said("refused") {
            let why = why.as_str().unwrap_or_default().to_owned();
            return Err(CheckError::Refused { why, help: String::new() });
        }
        let case = told.cases.first().cloned().or_else(|| ended(&told));
        let Some(case) = case else {
            let how = told.unfinished.map_or_else(String::new, |(_, _, how)| how);
            return Err(CheckError::Opening { how, printed: told.printed });
        };
        let is_another = said("is_another") == Some(Value::Bool(true));
        Ok(Replayed { case, is_another, diff: said("diff").unwrap_or_default() })
    }
}

/// The result of a repeated call.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The result of its case.
    pub case: CaseReport,
    /// Whether the package is another build than the captured one.
    pub is_another: bool,
    /// Its outputs compared with the expected results, if the call returned.
    pub diff: Value,
}

/// How long to wait for output after the process ended.
const LEFT_OPEN: Duration = Duration::from_secs(1);

/// After this many timed-out cases the remaining ones are skipped.
const HANGS: usize = 3;

fn hangs(report: &SubjectReport) -> usize {
    report.cases.iter().filter(|case| case.verdict == Verdict::TimedOut).count()
}

fn not_tried(case: &str) -> CaseReport {
    let why = format!("not run: {HANGS} earlier cases exceeded the time limit");
    let (case, verdict) = (case.to_owned(), Verdict::Skipped);
    CaseReport { case, verdict, why, seconds: 0.0, capture: None }
}

/// Parses a core's name.
pub(crate) fn core_of(name: &str) -> Option<Core> {
    if let Some(core) = Core::from_name(name) {
        return Some(core);
    }
    let arch = name.strip_prefix("dsp:v")?.parse().ok()?;
    Some(Core::dsp(arch))
}

fn ended(told: &WorkerOutput) -> Option<CaseReport> {
    let (case, verdict, why) = told.unfinished.clone()?;
    let said = told.printed.lines().last().filter(|_| verdict == Verdict::Crashed);
    let why = said.map_or(why.clone(), |line| format!("{why}; it printed {line:?}"));
    (!case.is_empty()).then_some(CaseReport { case, verdict, why, seconds: 0.0, capture: None })
}

/// Collects printed output. Dropping `done` signals the end; nothing is sent.
fn collect(
    mut from: impl Read + Send + 'static,
    to: &Arc<Mutex<Vec<u8>>>,
    done: Sender<Infallible>,
) {
    /// More output than a report shows.
    const KEPT: usize = 64 << 10;
    let to = Arc::clone(to);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            if to.len() < KEPT {
                to.extend_from_slice(buffer.get(..count).unwrap_or_default());
            }
        }
        drop(done);
    });
}

/// Ends a worker that still runs, and its child processes. Returns the worker's exit status.
fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    // The worker is not reaped yet, so its process id is still its own.
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _gone = group.map(|group| kill_process_group(group, Signal::KILL));
    child.wait()
}

/// Whether a worker ends within the time limit.
fn ends_within(child: &Child, timeout: Duration) -> bool {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let start = Instant::now();
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(Some(_)) => return true,
            Ok(None) | Err(Errno::INTR) if start.elapsed() < timeout => {
                thread::park_timeout(Duration::from_millis(1));
            }
            Ok(None) | Err(_) => return false,
        }
    }
}

/// Reads a worker's messages until it ends or a case exceeds the time limit.
fn listen(lines: &Receiver<String>, child: &mut Child, timeout: Duration) -> WorkerOutput {
    let mut told = WorkerOutput::default();
    let mut current: Option<(String, Instant)> = None;
    let mut fault = String::new();
    loop {
        match lines.recv_timeout(timeout) {
            Ok(line) => {
                let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
                if let Some(name) = value["start"].as_str() {
                    current = Some((name.to_owned(), Instant::now()));
                } else if let (Some(name), Some(verdict)) =
                    (value["end"].as_str(), value["verdict"].as_str())
                {
                    let seconds =
                        current.take().map_or(0.0, |(_, start)| start.elapsed().as_secs_f64());
                    let verdict = Verdict::from_name(verdict).unwrap_or(Verdict::Failed);
                    let why = value["why"].as_str().unwrap_or_default().to_owned();
                    let capture = value["capture"].as_str().map(PathBuf::from);
                    let case = name.to_owned();
                    told.cases.push(CaseReport { case, verdict, why, seconds, capture });
                } else if let Some(what) = value["fault"].as_str() {
                    what.clone_into(&mut fault);
                } else if value["done"] == true {
                    told.is_done = true;
                } else {
                    told.lines.push(value);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let _killed = end(child);
                let case = current.map(|(name, _)| name).unwrap_or_default();
                let why = format!("not done after {} s", timeout.as_secs());
                told.unfinished = Some((case, Verdict::TimedOut, why));
                return told;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let has_ended = ends_within(child, timeout);
    let status = end(child);
    if !told.is_done {
        let how = match status {
            Ok(_) if !has_ended => "the package closed the pipe for findings".to_owned(),
            Ok(status) if fault.is_empty() => {
                format!("the process ended during the case: {status}")
            }
            Ok(status) => format!("{fault} ({status})"),
            Err(error) => error.to_string(),
        };
        told.unfinished =
            Some((current.map(|(name, _)| name).unwrap_or_default(), Verdict::Crashed, how));
    }
    told
}
