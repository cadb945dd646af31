//! What steps take, next to what the machine can do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::{Report, Session};
use udo_runtime::compile::Plan;
use udo_runtime::session::{SessionOptions, Trace};

use crate::loaded::{Loaded, prepare, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::Column::{Left, Right};
use crate::output::{Failure, progress, table};
use crate::roofline::{self, AtLimit, Limits, RanStep, median, real};
use crate::{tensors, trace};

/// How the model is measured.
#[derive(Args, Clone, Debug)]
pub(super) struct MeasuredFlags {
    /// Run the model and compare step times with roofline bounds
    #[arg(long)]
    pub(super) measured: bool,
    /// Folder with recorded inputs, as for `udo verify`
    ///
    /// The first set is used. By default inputs are pseudo-random.
    #[arg(long, value_name = "DIR", requires = "measured")]
    pub(super) data: Option<PathBuf>,
    /// Number of timed runs
    #[arg(long, value_name = "N", default_value = "30", requires = "measured",
        value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
}

/// Runs before those that are timed.
const WARMUP: usize = 3;

/// A step, an operator's steps or all, and how they compare.
#[derive(Clone, Debug, Default)]
struct Row {
    steps: usize,
    seconds: f64,
    operations: f64,
    bytes: f64,
    at_limit: f64,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.seconds += other.seconds;
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.at_limit += other.at_limit;
    }

    /// How much of the machine's limit it reaches; nothing of steps that a run did not come to.
    fn share(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.at_limit / self.seconds)
    }

    /// Microseconds, giga-operations and gigabytes per second, and the share, for the eye.
    fn cells(&self) -> [String; 4] {
        let rate = |count: f64| match self.seconds {
            seconds if seconds > 0.0 && count > 0.0 => format!("{:.1}", count / seconds / 1e9),
            _ => String::new(),
        };
        let share = self.share().map_or(String::new(), |share| format!("{share:.2}"));
        [format!("{:.2}", self.seconds * 1e6), rate(self.operations), rate(self.bytes), share]
    }

    fn to_json(&self) -> Value {
        json!({
            "us": self.seconds * 1e6, "operations": self.operations, "bytes": self.bytes,
            "at_limit_us": self.at_limit * 1e6, "share": self.share(),
        })
    }
}

/// A step that was measured.
struct Step {
    name: String,
    op: String,
    calls: f64,
    row: Row,
    bound: &'static str,
    method: String,
}

/// What was measured of a model.
pub(super) struct Measured {
    /// What the plan that was measured says of itself.
    pub(super) report: Report,
    limits: Limits,
    steps: Vec<Step>,
    /// By operator, what takes longest first.
    ops: Vec<(String, Row)>,
    /// The median of whole runs, and all steps.
    run_seconds: f64,
    all: Row,
}

/// Runs the model and compares.
pub(super) fn measure(
    flags: &MeasuredFlags,
    model: &ModelFlags,
    loaded: &Loaded,
) -> Result<Measured, Failure> {
    let sets = tensors::input_sets(&loaded.model, flags.data.as_deref(), 1)?;
    let mut session = loaded.session(&SessionOptions::default())?;
    if let Some(set) = sets.first() {
        set_inputs(&mut session, loaded, set)?;
    }
    prepare(&mut session, loaded)?;
    let mut trace = trace::of_a_run(model.threads());
    let count = flags.iterations as usize;
    let bar = progress("measuring", count);
    let (mut runs, mut steps): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for round in 0..WARMUP + count {
        let seconds = one(&mut session, loaded, &mut trace)?;
        if round < WARMUP {
            continue;
        }
        runs.push(seconds);
        let ran = roofline::steps(&session, &trace);
        steps.resize_with(ran.len(), Vec::new);
        steps.iter_mut().zip(ran).for_each(|(times, step)| times.push(step.seconds));
        bar.advance(1);
    }
    drop(bar);
    let mut ran = roofline::steps(&session, &trace);
    for (step, times) in ran.iter_mut().zip(steps) {
        step.seconds = median(times);
    }
    let limits = Limits::measure(model.threads(), &ran);
    let report = session.plan().map(Plan::report).cloned().unwrap_or_default();
    Ok(Measured::of(report, limits, &ran, median(runs)))
}

/// The seconds of a run, and, of another one, what each step takes.
fn one(session: &mut Session, loaded: &Loaded, trace: &mut Trace) -> Result<f64, Failure> {
    let start = Instant::now();
    session.run().map_err(|error| loaded.run_failure(error))?;
    let seconds = start.elapsed().as_secs_f64();
    trace.clear();
    let run = session.run_traced(trace);
    run.map_err(|error| loaded.run_failure(error))?;
    match trace.lost() {
        0 => Ok(seconds),
        lost => Err(Failure::new(format!("a run has {lost} calls of steps more than are noted"))
            .help("measure it with inputs that take fewer trips")),
    }
}

impl Measured {
    fn of(report: Report, limits: Limits, ran: &[RanStep<'_>], run_seconds: f64) -> Self {
        let (mut all, mut ops) = (Row::default(), BTreeMap::<String, Row>::new());
        let mut steps = Vec::new();
        for step in ran {
            let AtLimit { seconds: at_limit, bound } = limits.of(step);
            let of = step.report;
            let row = Row {
                steps: 1,
                seconds: step.seconds,
                operations: real(of.operations) * step.calls,
                bytes: real(of.bytes) * step.calls,
                at_limit,
            };
            all.add(&row);
            ops.entry(of.op.clone()).or_default().add(&row);
            steps.push(Step {
                name: of.name.clone(),
                op: of.op.clone(),
                calls: step.calls,
                row,
                bound: bound.word(),
                method: of.method.clone(),
            });
        }
        let mut ops: Vec<_> = ops.into_iter().collect();
        ops.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
        Self { report, limits, steps, ops, run_seconds, all }
    }

    /// How much of the machine's limit whole runs reach.
    fn share(&self) -> f64 {
        self.all.at_limit / self.run_seconds
    }

    pub(super) fn say(&self) {
        let columns = [
            Right(""),
            Left("step"),
            Left("operator"),
            Right("us"),
            Right("GFLOP/s"),
            Right("GB/s"),
            Right("share"),
            Left("of"),
            Left("by"),
        ];
        let rows = self.steps.iter().enumerate().map(|(index, step)| {
            let [us, flops, bytes, share] = step.row.cells();
            let trips = if step.calls > 1.0 { format!(" x{}", step.calls) } else { String::new() };
            let (name, op) = (format!("{}{trips}", step.name), step.op.clone());
            let (bound, method) = (step.bound.to_owned(), step.method.clone());
            [index.to_string(), name, op, us, flops, bytes, share, bound, method]
        });
        outln!("measured (medians):\n{}", table(columns, rows.collect()));
        let columns = [
            Left("operator"),
            Right("steps"),
            Right("us"),
            Right("GFLOP/s"),
            Right("GB/s"),
            Right("share"),
            Right("of the time"),
        ];
        let rows = self.ops.iter().map(|(op, row)| {
            let [us, flops, bytes, share] = row.cells();
            let part = format!("{:.1} %", row.seconds / self.all.seconds * 100.0);
            [op.clone(), row.steps.to_string(), us, flops, bytes, share, part]
        });
        outln!("{}", table(columns, rows.collect()));
        let [f32s, int8s] = [self.limits.f32_operations, self.limits.int8_operations];
        let (smallest, largest) = (self.limits.copies.first(), self.limits.copies.last());
        let speed = |copy: Option<&(f64, f64)>| copy.map_or(0.0, |(_, speed)| speed / 1e9);
        let bf16 = self.limits.bf16_operations;
        let bf16 = bf16.map_or(String::new(), |ops| format!(", {:.1} of bf16", ops / 1e9));
        outln!(
            "limits: {:.1} GFLOP/s of f32{bf16}, {:.1} GOP/s of 8-bit products, copies at {:.1} to {:.1} GB/s",
            f32s / 1e9,
            int8s / 1e9,
            speed(smallest),
            speed(largest)
        );
        outln!(
            "a run takes {:.2} us, its steps {:.2} us, at the machine's limits {:.2} us: a share of {:.2}",
            self.run_seconds * 1e6,
            self.all.seconds * 1e6,
            self.all.at_limit * 1e6,
            self.share()
        );
    }

    pub(super) fn to_json(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            let mut json = step.row.to_json();
            json["name"] = step.name.clone().into();
            json["op"] = step.op.clone().into();
            json["calls"] = step.calls.into();
            json["bound"] = step.bound.into();
            json["method"] = step.method.clone().into();
            json
        });
        let ops = self.ops.iter().map(|(op, row)| {
            let mut json = row.to_json();
            json["op"] = op.clone().into();
            json["steps"] = row.steps.into();
            json
        });
        let copies = self.limits.copies.iter();
        let copies = copies.map(|(bytes, speed)| json!({ "bytes": bytes, "bytes_per_s": speed }));
        json!({
            "limits": {
                "f32_operations_per_s": self.limits.f32_operations,
                "int8_operations_per_s": self.limits.int8_operations,
                "bf16_operations_per_s": self.limits.bf16_operations,
                "copies": copies.collect::<Vec<_>>(),
            },
            "steps": steps.collect::<Vec<_>>(),
            "operators": ops.collect::<Vec<_>>(),
            "run_us": self.run_seconds * 1e6,
            "steps_us": self.all.seconds * 1e6,
            "roofline_us": self.all.at_limit * 1e6,
            "share": self.share(),
        })
    }
}
