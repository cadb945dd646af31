//! The report of a model, built from the reports of the runtime.

use std::ffi::CString;

use serde_json::{Value, json};
use udo_compile::place;
use udo_engine::device::Result;
use udo_runtime::Report as PlanReport;
use udo_runtime::compile::{CoreMemory, NodeReport, Plan};
use udo_runtime::run::Priority;

use crate::text::text;

/// A report in the form that C takes.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ops: Vec<Op>,
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) memories: Vec<(CString, CoreMemory)>,
    pub(crate) json: CString,
}

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) name: CString,
    pub(crate) operator: CString,
    pub(crate) package: CString,
    pub(crate) core: CString,
    pub(crate) work: OpWork,
}

#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) name: CString,
    pub(crate) op: CString,
    pub(crate) selected: CString,
    pub(crate) failed: CString,
    pub(crate) reason: CString,
    pub(crate) target: CString,
}

/// The kind of work that computes an operation: one of `UDO_WORK_*`.
pub type OpWork = u32;
/// The operation is a step of its own.
pub const UDO_WORK_STEP: u32 = 0;
/// The operation is fused into the step of another one.
pub const UDO_WORK_FUSED: u32 = 1;
/// No computation: the output uses the bytes of the input.
pub const UDO_WORK_VIEW: u32 = 2;
/// No computation in a run: the result was computed at compile time.
pub const UDO_WORK_FOLDED: u32 = 3;
/// The operation is control flow: the host runs its subgraphs.
pub const UDO_WORK_CONTROL: u32 = 4;

fn work(node: &NodeReport) -> OpWork {
    match node {
        NodeReport { is_folded: true, .. } => UDO_WORK_FOLDED,
        NodeReport { control: Some(_), .. } => UDO_WORK_CONTROL,
        NodeReport { fused_into: Some(_), .. } => UDO_WORK_FUSED,
        NodeReport { is_view: true, .. } => UDO_WORK_VIEW,
        NodeReport { .. } => UDO_WORK_STEP,
    }
}

fn op(node: &NodeReport) -> Op {
    Op {
        name: text(&node.name),
        operator: text(&node.op),
        package: text(&node.package),
        core: text(&node.core.to_string()),
        work: work(node),
    }
}

/// A line for each core that refused a node which runs all the same.
fn fallbacks(node: &NodeReport) -> impl Iterator<Item = Fallback> {
    let selected = node.refusals.first().map(|first| first.core.to_string()).unwrap_or_default();
    node.refusals.iter().map(move |refusal| Fallback {
        name: text(&node.name),
        op: text(&node.op),
        selected: text(&selected),
        failed: text(&refusal.core.to_string()),
        reason: text(&refusal.reason),
        target: text(&node.core.to_string()),
    })
}

impl Report {
    pub(crate) fn new(model: &udo_runtime::Model) -> Self {
        let report = model.report();
        let memories = report.memories.iter();
        Self {
            ops: report.nodes.iter().map(op).collect(),
            fallbacks: report.nodes.iter().flat_map(fallbacks).collect(),
            memories: memories.map(|memory| (text(memory.memory), memory.clone())).collect(),
            json: text(&of_model(model)),
        }
    }
}

/// All that a model says of itself, for people and their tools.
fn of_model(model: &udo_runtime::Model) -> String {
    let inputs = model.inputs().iter();
    let inputs = inputs.map(|input| json!({"name": input.name, "type": input.of.to_string()}));
    format!("{:#}", dump(model, &inputs.collect(), &[model.report()]))
}

/// The same, as it was in the last run of a session.
pub(crate) fn of_session(session: &udo_runtime::Session) -> Result<String> {
    let plans = session.last_plans()?;
    let inputs = plans.first().into_iter().flat_map(|plan| plan.inputs());
    let inputs = inputs.map(|(name, desc)| json!({"name": name, "type": desc.to_string()}));
    let reports: Vec<&PlanReport> = plans.iter().map(|plan| Plan::report(plan)).collect();
    Ok(format!("{:#}", dump(&session.model(), &inputs.collect(), &reports)))
}

/// A model over these inputs, planned in these parts.
fn dump(model: &udo_runtime::Model, inputs: &Value, parts: &[&PlanReport]) -> Value {
    let nodes = parts.iter().flat_map(|report| &report.nodes).map(|node| {
        let refusals = node.refusals.iter();
        let refusals = refusals
            .map(|refusal| json!({"core": refusal.core.to_string(), "reason": refusal.reason}));
        json!({
            "name": node.name,
            "op": node.op,
            "package": node.package,
            "core": node.core.to_string(),
            "inputs": node.inputs,
            "outputs": node.outputs,
            "refusals": refusals.collect::<Value>(),
            "fell_back": node.fell_back,
            "fused_into": node.fused_into,
            "is_view": node.is_view,
            "is_folded": node.is_folded,
        })
    });
    let notices: Vec<_> = parts.iter().flat_map(|report| &report.notices).collect();
    let memories = parts.iter().flat_map(|report| &report.memories).map(|memory| {
        json!({
            "memory": memory.memory,
            "arena_bytes": memory.arena_bytes,
            "scratch_bytes": memory.scratch_bytes,
            "constant_bytes": memory.constant_bytes,
            "packed_bytes": memory.packed_bytes,
            "geometry_bytes": memory.geometry_bytes,
        })
    });
    let fallbacks = parts.iter().flat_map(|report| &report.nodes).flat_map(fallbacks);
    let fallbacks = fallbacks.map(|of| {
        let [name, op, selected, failed, reason, target] =
            [of.name, of.op, of.selected, of.failed, of.reason, of.target].map(string);
        json!({
            "name": name, "op": op, "selected": selected, "failed": failed, "reason": reason,
            "target": target,
        })
    });
    let exchanges = parts.iter().flat_map(|report| report.exchanges()).map(|(step, [from, to])| {
        json!({
            "value": step.name, "from": from, "to": to, "input": step.inputs, "output": step.outputs,
            "bytes": step.bytes,
        })
    });
    json!({
        "inputs": inputs,
        "outputs": model.outputs(),
        "cores": model.options().place.cores.iter().map(ToString::to_string).collect::<Value>(),
        "fallback": match model.options().place.fallback {
            place::Fallback::Off => Value::Null,
            place::Fallback::To(core) => core.to_string().into(),
        },
        "fallbacks": fallbacks.collect::<Value>(),
        "exchanges": exchanges.collect::<Value>(),
        "threads": model.options().threads.get(),
        "priority": match model.options().priority {
            Priority::Low => "low",
            Priority::Medium => "medium",
            Priority::High => "high",
        },
        "nodes": nodes.collect::<Value>(),
        "memories": memories.collect::<Value>(),
        "notices": notices,
    })
}

/// A text of C as it is for Rust.
fn string(text: CString) -> String {
    text.into_string().unwrap_or_default()
}
