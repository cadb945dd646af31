//! `udo explain`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use udo_compile::pass::Unfused;
use udo_compile::plan::{Crossing, Passage, Subnet, subnet_name};
use udo_runtime::Report;
use udo_runtime::Session;
use udo_runtime::compile::PassResult;
use udo_runtime::compile::Plan;
use udo_runtime::run::{SessionOptions, Trace};

use super::Run;
use super::quantize::DataFlags;
use crate::loaded::{Loaded, prepare, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, print_json, progress, table};
use crate::ranges::{InputSource, RangeFlags};
use crate::raw::Packing;
use crate::roofline::{AtLimit, Limits, RanStep, median, real};
use crate::stages::{Stages, load_with_shapes, shapes_of_data};
use crate::{roofline, tensors, trace};

/// Show where each node runs and why, and how much memory it takes
///
/// The sizes of arenas, scratch and constants are exact: a session allocates these bytes.
///
/// With --measured the model runs, and the median time of each step is shown next to its roofline
/// bound, the least time that this machine needs for the step. The bound is computed from two
/// measured limits, both on --threads threads: multiply-adds on registers, and copies of the bytes
/// that the step reads and writes. Operations are counted as the kernel executes them; a Winograd
/// convolution, for example, has fewer than a direct one. The limit for 8-bit products is that of
/// vector instructions.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo explain model.onnx
  udo explain model.onnx --package SoftmaxUdoPackage --cores dsp,cpu
  udo explain model.onnx --measured --threads 2 --data test_data_set_0")]
pub(crate) struct Explain {
    #[command(flatten)]
    of: ExplainFlags,
    /// Print how often each graph pass applied, and why it left nodes as they were
    #[arg(long)]
    passes: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Explain {
    fn run(self) -> Outcome {
        let explained = self.of.explain()?;
        if self.json {
            print_json(&explained.to_json());
        } else {
            say(explained.report());
            if self.passes {
                say_passes(explained.loaded.model.passes());
            }
            explained.measured.iter().for_each(Measured::say);
        }
        Ok(())
    }
}

/// A model, and whether it is measured.
#[derive(Args, Clone, Debug)]
pub(super) struct ExplainFlags {
    #[command(flatten)]
    pub(super) model: ModelFlags,
    #[command(flatten)]
    measured: MeasuredFlags,
    #[command(flatten)]
    ranges: RangeFlags,
}

/// A model that is compiled, and what was measured of it.
pub(super) struct Explained {
    pub(super) loaded: Loaded,
    measured: Option<Measured>,
}

impl ExplainFlags {
    /// Compiles the model, and measures it if that is asked for.
    pub(super) fn explain(mut self) -> Result<Explained, Failure> {
        let data = DataFlags { calibration: self.measured.data.clone(), ..DataFlags::default() };
        self.ranges.set(&mut self.model, InputSource::Data(data), Packing::Float32);
        let loaded = match self.measured.data {
            Some(_) => {
                let data = self.measured.data.as_deref();
                Stages::load(&self.model, |names| shapes_of_data(data, names))?
            }
            None => load_with_shapes(&self.model)?,
        };
        let is_measured = self.measured.measured;
        let measured = is_measured.then(|| measure(&self.measured, &self.model, &loaded));
        Ok(Explained { measured: measured.transpose()?, loaded })
    }
}

impl Explained {
    /// Returns the report of the plan that was measured, or else that of the model.
    pub(super) fn report(&self) -> &Report {
        self.measured.as_ref().map_or(self.loaded.model.report(), |of| &of.report)
    }

    /// All of it, for programs.
    pub(super) fn to_json(&self) -> Value {
        let mut json = to_json(self.report(), self.loaded.model.passes());
        if let Some(measured) = &self.measured {
            json["measured"] = measured.to_json();
        }
        json
    }
}

fn say(report: &Report) {
    say_subnets(report);
    outln!("nodes:");
    for node in &report.nodes {
        let (inputs, outputs) = (node.inputs.join(", "), node.outputs.join(", "));
        let view = match &node.fused_into {
            Some(into) => format!(", fused into {into}"),
            None if node.is_folded => ", constant-folded".to_owned(),
            None if node.control.is_some() => format!(", {}", node.control.unwrap_or_default()),
            None if node.is_view => ", elided: output shares the input's memory".to_owned(),
            None => String::new(),
        };
        let indent = "  ".repeat(node.depth);
        let ids = if node.ids.is_known() { format!("{} ", node.ids) } else { String::new() };
        outln!(
            "  {indent}{ids}{} ({}) on {} from {}: {inputs} -> {outputs}{view}",
            node.name,
            node.op,
            node.core,
            node.package
        );
        for refusal in &node.refusals {
            outln!("    {indent}not on {}: {}", refusal.core, refusal.reason);
        }
        if node.fell_back {
            outln!("    {indent}fell back to the CPU");
        }
        if let Some(backend) = &node.backend {
            outln!("    {indent}kernel runs on {backend}");
        }
    }
    outln!("steps:");
    for (index, step) in report.steps.iter().enumerate() {
        let (inputs, outputs) = (step.inputs.join(", "), step.outputs.join(", "));
        let place = if step.in_place.is_empty() { "" } else { ", in place" };
        let scratch = if step.scratch_bytes == 0 {
            String::new()
        } else {
            format!(", {} B scratch", step.scratch_bytes)
        };
        let by = if step.method.is_empty() { String::new() } else { format!(", {}", step.method) };
        let indent = "  ".repeat(step.depth);
        outln!(
            "  {indent}{index}: {} {} [{}]: {inputs} -> {outputs}{by}{place}{scratch}",
            step.op,
            step.name,
            step.core
        );
    }
    outln!("transfers: {}", report.steps.iter().filter(|step| step.is_transfer()).count());
    outln!("copies between devices:");
    for (step, [from, to]) in report.exchanges() {
        let (was, is) = (step.inputs.join(", "), step.outputs.join(", "));
        outln!("  {from} -> {to}: {}, {was} -> {is}, {} B", step.name, step.bytes);
    }
    say_memory(report);
    for notice in &report.notices {
        outln!("note: {notice}");
    }
}

fn say_passes(passes: &[PassResult]) {
    outln!("passes:");
    for PassResult { pass, count, left } in passes {
        outln!("  {pass}: {count}");
        for Unfused { node, why } in left {
            outln!("    not applied at {node}: {why}");
        }
    }
}

fn say_subnets(report: &Report) {
    outln!("subnets:");
    let mut box_of: Option<&str> = None;
    for Subnet { name, within, core, nodes, steps } in &report.subnets {
        if let Some(within) = within.as_deref().filter(|within| box_of != Some(within)) {
            outln!("  {within}:");
        }
        box_of = within.as_deref();
        let indent = if box_of.is_some() { "  " } else { "" };
        let (first, last) = (steps.start, steps.end - 1);
        outln!("  {indent}{name}: nodes {nodes} on {core}, steps {first}-{last}");
    }
    if let Some(us) = report.modelled_us {
        outln!("  estimated from the costs: {us:.1} us for nodes and crossings");
    }
    if report.subnets.len() > 1 || box_of.is_some() {
        outln!("values between subnets:");
        for of in &report.crossings {
            let [from, to] = ends(report, of);
            let change = if of.made == of.read {
                of.made.clone()
            } else {
                format!("{} -> {}", of.made, of.read)
            };
            let (value, bytes, passage) = (&of.value, of.bytes, of.passage.name());
            outln!("  {from} -> {to}: {value}, {change}, {bytes} B {passage}");
        }
        for passage in [Passage::Shared, Passage::Copied, Passage::Converted] {
            let all = report.crossings.iter().filter(|of| of.passage == passage);
            let (count, bytes) = all.fold((0, 0), |(n, sum), of| (n + 1, sum + of.bytes));
            outln!("  {}: {count}, {bytes} B", passage.name());
        }
    }
}

/// Who makes and who reads what crosses.
fn ends<'a>(report: &'a Report, of: &Crossing) -> [&'a str; 2] {
    [of.from, of.to].map(|subnet| subnet_name(report, subnet).unwrap_or("caller"))
}

fn say_memory(report: &Report) {
    outln!("memory (bytes):");
    let memories = report.memories.iter().map(|m| {
        let activations = [m.arena_bytes, m.live_bytes, m.scratch_bytes].map(|n| n.to_string());
        let derived = [m.constant_bytes, m.packed_bytes, m.geometry_bytes].map(|n| n.to_string());
        let [arena, live, scratch] = activations;
        let [constants, packed, geometry] = derived;
        [m.memory.to_owned(), arena, live, scratch, constants, packed, geometry]
    });
    let columns = [
        Left(""),
        Right("arena"),
        Right("peak live"),
        Right("scratch"),
        Right("constants"),
        Right("prepacked"),
        Right("geometry"),
    ];
    outln!("{}", table(columns, memories.collect()));
}

fn to_json(report: &Report, passes: &[PassResult]) -> Value {
    let stayed = |left: &Unfused| json!({ "node": left.node, "why": left.why });
    let passes = passes.iter().map(|fired| {
        let left: Vec<Value> = fired.left.iter().map(stayed).collect();
        json!({ "name": fired.pass, "count": fired.count, "left": left })
    });
    let passes: Vec<Value> = passes.collect();
    let nodes: Vec<Value> = report
        .nodes
        .iter()
        .map(|n| {
            let refusals: Vec<Value> =
                n.refusals.iter().map(|r| json!({ "core": r.core.to_string(), "reason": r.reason })).collect();
            let encodings: BTreeMap<&str, &str> =
                n.encodings.iter().map(|(name, of)| (name.as_str(), of.as_str())).collect();
            json!({
                "ids": n.ids.ids().collect::<Vec<_>>(), "subnet": subnet_name(report, n.subnet),
                "name": n.name, "op": n.op, "package": n.package, "core": n.core.to_string(), "inputs": n.inputs,
                "outputs": n.outputs, "reads": n.reads, "makes": n.makes, "encodings": encodings, "refusals": refusals, "fell_back": n.fell_back, "view": n.is_view,
                "fused_into": n.fused_into, "folded": n.is_folded,
                "backend": n.backend, "control": n.control, "depth": n.depth,
            })
        })
        .collect();
    let steps: Vec<Value> = report
        .steps
        .iter()
        .map(|s| {
            json!({
                "subnet": subnet_name(report, s.subnet),
                "name": s.name, "op": s.op, "package": s.package, "core": s.core.to_string(), "inputs": s.inputs,
                "outputs": s.outputs, "between": s.between, "in_place": s.in_place, "scratch_bytes": s.scratch_bytes, "depth": s.depth,
                "bytes": s.bytes, "operations": s.operations, "method": s.method,
            })
        })
        .collect();
    let memories: Vec<Value> = report
        .memories
        .iter()
        .map(|m| {
            json!({
                "memory": m.memory, "arena_bytes": m.arena_bytes, "live_bytes": m.live_bytes,
                "scratch_bytes": m.scratch_bytes, "constant_bytes": m.constant_bytes,
                "packed_bytes": m.packed_bytes, "geometry_bytes": m.geometry_bytes,
            })
        })
        .collect();
    let exchanges: Vec<Value> = report
        .exchanges()
        .map(|(step, [from, to])| {
            json!({
                "value": step.name, "from": from, "to": to, "input": step.inputs, "output": step.outputs,
                "bytes": step.bytes,
            })
        })
        .collect();
    let subnets = report.subnets.iter().map(|of| {
        json!({
            "name": of.name, "within": of.within, "core": of.core.to_string(), "nodes": of.nodes.ids().collect::<Vec<_>>(),
            "steps": [of.steps.start, of.steps.end],
        })
    });
    let subnets: Vec<Value> = subnets.collect();
    let crossings = report.crossings.iter().map(|of| {
        let [from, to] = ends(report, of);
        json!({
            "value": of.value, "from": from, "to": to, "made": of.made, "read": of.read, "bytes": of.bytes,
            "passage": of.passage.name(),
        })
    });
    let crossings: Vec<Value> = crossings.collect();
    json!({
        "exchanges": exchanges, "subnets": subnets, "crossings": crossings, "modelled_us": report.modelled_us, "notices": report.notices, "passes": passes, "nodes": nodes, "steps": steps,
        "transfers": report.steps.iter().filter(|step| step.is_transfer()).count(), "memories": memories,
    })
}

/// How the model is measured.
#[derive(Args, Clone, Debug)]
struct MeasuredFlags {
    /// Run the model and compare step times with roofline bounds
    #[arg(long)]
    measured: bool,
    /// Read recorded inputs from this folder, as for `udo verify`
    ///
    /// Only the first set is used. By default inputs are pseudo-random.
    #[arg(long, value_name = "DIR", requires = "measured")]
    data: Option<PathBuf>,
    /// Time N runs
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
        let share = self.share().map_or(String::new(), |share| format!("{:.1} %", share * 100.0));
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

/// The measurements of a model.
struct Measured {
    /// The report of the plan that was measured.
    report: Report,
    limits: Limits,
    steps: Vec<Step>,
    /// Totals by operator, the slowest first.
    ops: Vec<(String, Row)>,
    /// The median of whole runs, and all steps.
    run_seconds: f64,
    all: Row,
}

/// Runs the model and compares.
fn measure(
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
    let report = session.plans().next().map(Plan::report).cloned().unwrap_or_default();
    Ok(Measured::new(report, limits, &ran, median(runs)))
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
            .help("measure it with inputs that need fewer loop iterations")),
    }
}

impl Measured {
    fn new(report: Report, limits: Limits, ran: &[RanStep<'_>], run_seconds: f64) -> Self {
        let (mut all, mut ops) = (Row::default(), BTreeMap::<String, Row>::new());
        let mut steps = Vec::new();
        for step in ran {
            let AtLimit { seconds: at_limit, bound } = limits.bound(step);
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

    fn say(&self) {
        let columns = [
            Right(""),
            Left("step"),
            Left("operator"),
            Right("us"),
            Right("GFLOP/s"),
            Right("GB/s"),
            Right("of roofline"),
            Left("bound"),
            Left("method"),
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
            Right("of roofline"),
            Right("of total time"),
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
        let bf16 = bf16.map_or(String::new(), |ops| format!(", {:.1} in bf16", ops / 1e9));
        outln!(
            "machine limits: {:.1} GFLOP/s in f32{bf16}, {:.1} GOP/s in 8-bit products, copies at {:.1} to {:.1} GB/s",
            f32s / 1e9,
            int8s / 1e9,
            speed(smallest),
            speed(largest)
        );
        outln!(
            "run: {:.2} us, steps: {:.2} us, roofline bound: {:.2} us ({:.1} % of the run)",
            self.run_seconds * 1e6,
            self.all.seconds * 1e6,
            self.all.at_limit * 1e6,
            self.share() * 100.0
        );
    }

    fn to_json(&self) -> Value {
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
