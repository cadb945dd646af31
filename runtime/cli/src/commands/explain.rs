//! `udo explain`

mod measured;

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use udo_compile::pass::Stayed;
use udo_runtime::compile::Fired;
use udo_compile::plan::{Crossing, Passage, Subnet};
use udo_runtime::Report;

use super::Run;
use super::quantize::DataFlags;
use crate::loaded::Loaded;
use crate::model_flags::ModelFlags;
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, print_json, table};
use crate::ranges::{Given, RangeFlags};
use crate::raw::Packing;
use crate::stages::{Stages, load_with_shapes, shapes_of_data};
use measured::{Measured, MeasuredFlags, measure};

/// Show where each node runs and why, and how much memory it takes
///
/// Bytes are exact: arenas, scratch memory and constants are those that a session uses.
///
/// With --measured the model runs, and the median time of each step is shown with its roofline bound. The bound
/// follows from the measured limits of this machine, on the same number of threads: multiply-adds in registers, and
/// copies of the bytes that the step reads and writes. Operations are those of the algorithm: Winograd convolution
/// has fewer than direct convolution. For 8-bit products the limit is that of vector instructions.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo explain model.onnx
  udo explain model.onnx --package SoftmaxUdoPackage --cores dsp,cpu
  udo explain model.onnx --measured --threads 2 --data test_data_set_0")]
pub(crate) struct Explain {
    #[command(flatten)]
    of: ExplainFlags,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Run for Explain {
    fn run(self) -> Outcome {
        let explained = self.of.explain()?;
        if self.json {
            print_json(&explained.to_json());
        } else {
            say(explained.report(), explained.loaded.model.passes());
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
        self.ranges.set(&mut self.model, Given::Data(data), Packing::Float32);
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
    /// What runs where: of the plan that was measured, else of the model's.
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

fn say(report: &Report, passes: &[Fired]) {
    for notice in &report.notices {
        outln!("note: {notice}");
    }
    outln!("passes:");
    for Fired { pass, count, left } in passes {
        outln!("  {pass}: {count}");
        for Stayed { node, why } in left {
            outln!("    not at {node}: {why}");
        }
    }
    say_subnets(report);
    outln!("nodes:");
    for node in &report.nodes {
        let (inputs, outputs) = (node.inputs.join(", "), node.outputs.join(", "));
        let view = match &node.fused_into {
            Some(into) => format!(", fused into {into}"),
            None if node.is_folded => ", folded: computed with the model".to_owned(),
            None if node.control.is_some() => format!(", {}", node.control.unwrap_or_default()),
            None if node.is_view => ", elided: its bytes are its inputs'".to_owned(),
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
            outln!("    {indent}fell back to the cpu");
        }
        if let Some(backend) = &node.backend {
            outln!("    {indent}by {backend}");
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
    outln!("transfers: {}", report.transfers());
    outln!("exchanges between devices:");
    for (step, [from, to]) in report.exchanges() {
        let (was, is) = (step.inputs.join(", "), step.outputs.join(", "));
        outln!("  {from} -> {to}: {}, {was} -> {is}, {} B", step.name, step.bytes);
    }
    say_memory(report);
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
        outln!("  nodes and what crosses between cores take {us:.1} us by the costs");
    }
    if report.subnets.len() > 1 || box_of.is_some() {
        outln!("crossings:");
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
    [of.from, of.to].map(|subnet| report.name_of(subnet).unwrap_or("caller"))
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
        Right("largest live"),
        Right("scratch"),
        Right("constants"),
        Right("packed"),
        Right("geometry"),
    ];
    outln!("{}", table(columns, memories.collect()));
}

fn to_json(report: &Report, passes: &[Fired]) -> Value {
    let stayed = |left: &Stayed| json!({ "node": left.node, "why": left.why });
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
                "ids": n.ids.ids().collect::<Vec<_>>(), "subnet": report.name_of(n.subnet),
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
                "subnet": report.name_of(s.subnet),
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
        "transfers": report.transfers(), "memories": memories,
    })
}
