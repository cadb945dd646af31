//! The timeline of runs, as a file that Chrome's tracing page and Perfetto show.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use udo_runtime::compile::{Plan, StepReport};
use udo_runtime::run::{Span, SpanKind, Trace};
use udo_runtime::{Report, Session};

use crate::loaded::Loaded;
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, note, write_file};
use udo_compile::plan::subnet_name;

/// Spans of each thread that one run keeps.
const SPANS: usize = 1 << 16;

/// A trace with room for a run.
pub(crate) fn of_a_run(threads: NonZero<usize>) -> Trace {
    Trace::new(threads, SPANS)
}

/// The number of the process in the file. There is one, and the same runs give the same file but for their times.
pub(crate) const PROCESS: u32 = 1;

/// A trace of one run, and the events of those before.
pub(crate) struct TraceFile {
    path: PathBuf,
    /// Where the file's time begins.
    base: Instant,
    trace: Trace,
    /// As they are written, as there may be many of them.
    events: Vec<String>,
    runs: usize,
    lost: usize,
}

impl TraceFile {
    /// A file at `path` that begins with the load of the model.
    pub(crate) fn new(path: &Path, flags: &ModelFlags, loaded: &Loaded) -> Result<Self, Failure> {
        check_path(path, "profile")?;
        let mut events =
            vec![metadata("process_name", 0, &format!("udo {}", flags.model.display()))];
        events.push(metadata("thread_name", 0, "session"));
        let workers = 1..flags.threads().get();
        events.extend(workers.map(|n| metadata("thread_name", n, &format!("worker {n}"))));
        let mut file = Self {
            path: path.to_owned(),
            base: loaded.started,
            trace: of_a_run(flags.threads()),
            events,
            runs: 0,
            lost: 0,
        };
        file.push("load", "plan", (0, Duration::ZERO, loaded.load_time), json!({}));
        Ok(file)
    }

    /// Returns the trace for the next run.
    pub(crate) fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Keeps what the last run of `session` noted.
    pub(crate) fn keep(&mut self, session: &Session) {
        let plans: Vec<&Report> = session.plans().map(Plan::report).collect();
        let offset = self.trace.started().saturating_duration_since(self.base);
        for span in self.trace.spans().collect::<Vec<_>>() {
            let (name, category, mut args) = match span.kind {
                SpanKind::Prepare => ("prepare", "plan", json!({})),
                SpanKind::Replan => ("replan", "plan", json!({})),
                SpanKind::Step { plan, step } => {
                    let Some(report) = plans.get(plan) else { continue };
                    let Some(step) = report.steps.get(step) else { continue };
                    (step.op.as_str(), "step", args(report, step, &span))
                }
            };
            args["run"] = self.runs.into();
            if span.thread > 0 {
                args["busy_us"] = micros(span.busy).into();
            }
            self.push(name, category, (span.thread, offset + span.start, span.time), args);
        }
        self.runs += 1;
        self.lost += self.trace.lost();
        self.trace.clear();
    }

    fn push(
        &mut self,
        name: &str,
        category: &str,
        (thread, start, time): (usize, Duration, Duration),
        args: Value,
    ) {
        let mut event = json!({
            "name": name, "cat": category, "ph": "X", "pid": PROCESS, "tid": thread,
            "ts": micros(start), "dur": micros(time),
        });
        event["args"] = args;
        self.events.push(event.to_string());
    }

    /// Writes the file.
    pub(crate) fn write(self) -> Outcome {
        if self.lost > 0 {
            note(format!(
                "the profile lacks {} spans: a run records at most {SPANS} per thread",
                self.lost
            ));
        }
        write_events(&self.path, &self.events, self.runs, self.lost)
    }
}

/// Refuses a path where no file can be written, before anything runs.
pub(crate) fn check_path(path: &Path, what: &str) -> Outcome {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let text = format!(
            "cannot write {what} {}: it is not a file in an existing folder",
            path.display()
        );
        return Err(Failure::new(text).help("name a file in a folder that is there"));
    }
    Ok(())
}

/// Writes a file of events.
pub(crate) fn write_events(path: &Path, events: &[String], runs: usize, lost: usize) -> Outcome {
    let other = json!({ "version": udo_api::SDK_VERSION, "runs": runs, "lost_spans": lost });
    let events = events.join(",\n");
    let head = format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[");
    write_file(path, format!("{head}\n{events}\n]}}\n").as_bytes())
}

/// Returns the details that the viewers show for a selected step.
fn args(report: &Report, step: &StepReport, span: &Span) -> Value {
    if span.thread > 0 {
        return json!({ "op": step.op, "node": step.name });
    }
    json!({
        "op": step.op, "node": step.name, "package": step.package, "core": step.core.to_string(),
        "subnet": subnet_name(report, step.subnet), "inputs": step.inputs, "outputs": step.outputs, "bytes": step.bytes,
        "heap_calls": span.heap_calls,
    })
}

pub(crate) fn metadata(name: &str, thread: usize, text: &str) -> String {
    let args = json!({ "name": text });
    json!({ "name": name, "ph": "M", "pid": PROCESS, "tid": thread, "args": args }).to_string()
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
