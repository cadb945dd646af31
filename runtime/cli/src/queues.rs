//! The timeline of submitted runs on devices, as a file that Chrome's tracing page and Perfetto show.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use udo_engine::run::{RunSpan, RunSpanKind};
use udo_runtime::run::RunLog;

use crate::output::{Failure, Outcome, note};
use crate::trace;

/// Spans that are kept.
const SPANS: usize = 1 << 18;

/// The lane of ends, below those of the devices.
const ENDS: &str = "ends and callbacks";

/// A file for what is noted of runs.
pub(crate) struct QueueTrace {
    path: PathBuf,
    title: String,
    log: Arc<RunLog>,
}

impl QueueTrace {
    /// A file at `path` for runs of `model`, if there is to be one.
    pub(crate) fn new(path: Option<&Path>, model: &Path) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        trace::check_path(path, "trace")?;
        let title = format!("udo {}", model.display());
        Ok(Some(Self { path: path.to_owned(), title, log: RunLog::with_room(SPANS) }))
    }

    /// Where sessions note their runs.
    pub(crate) fn log(&self) -> Arc<RunLog> {
        Arc::clone(&self.log)
    }

    /// Writes the file.
    pub(crate) fn write(self) -> Outcome {
        let (spans, lost) = (self.log.spans(), self.log.lost());
        if lost > 0 {
            note(format!("the trace lacks {lost} spans: it records at most {SPANS}"));
        }
        let lanes: BTreeSet<String> =
            spans.iter().filter_map(|span| Some(span.device?.to_string())).collect();
        let lanes: Vec<String> = lanes.into_iter().chain([ENDS.to_owned()]).collect();
        let names =
            lanes.iter().zip(0..).map(|(name, at)| trace::metadata("thread_name", at, name));
        let mut events = vec![trace::metadata("process_name", 0, &self.title)];
        events.extend(names);
        for span in &spans {
            let of = span.device.map_or_else(|| ENDS.to_owned(), |device| device.to_string());
            let lane = lanes.iter().position(|lane| *lane == of).unwrap_or_default();
            events.extend(of_span(span, &of, lane).iter().map(Value::to_string));
        }
        let runs = spans.iter().map(|span| span.run).collect::<BTreeSet<_>>().len();
        trace::write_events(&self.path, &events, runs, lost)
    }
}

/// Returns the events of a span. Waiting does not occupy a device, so waits have a track for each run.
fn of_span(span: &RunSpan, of: &str, lane: usize) -> Vec<Value> {
    let (start, time) = (trace::micros(span.start), trace::micros(span.time));
    let run = span.run;
    let work = |name: String, error: Option<String>| {
        vec![json!({
            "name": name, "cat": "run", "ph": "X", "pid": trace::PROCESS, "tid": lane, "ts": start,
            "dur": time, "args": { "run": run, "error": error },
        })]
    };
    match span.kind {
        RunSpanKind::Waits => {
            let name = match span.device {
                Some(_) => format!("waits for {of}"),
                None => "waits".to_owned(),
            };
            let edge = |edge: &str, at: f64| {
                json!({
                    "name": name, "cat": "wait", "ph": edge, "pid": trace::PROCESS, "tid": lane,
                    "id": run, "ts": at, "args": { "run": run },
                })
            };
            vec![edge("b", start), edge("e", start + time)]
        }
        RunSpanKind::Begins => work(format!("run {run} takes inputs"), None),
        RunSpanKind::Part(part) => work(format!("run {run} part {part}"), None),
        RunSpanKind::Gives => work(format!("run {run} gives outputs"), None),
        RunSpanKind::Ends(error) => {
            work(format!("run {run} ends"), error.map(|error| error.to_string()))
        }
    }
}
