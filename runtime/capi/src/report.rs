//! What models say of themselves: where each node runs and why, and what memory a plan takes.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use serde_json::{Value, json};
use udo_runtime::model;
use udo_runtime::plan::{CoreMemory, NodeReport, Report as PlanReport};
use udo_runtime::run::Priority;

use crate::error::{Error, text};
use crate::ffi::{guard, need};
use crate::model::Model;
use crate::ports::place;

/// A report in the form that C takes.
#[derive(Debug)]
pub(crate) struct Report {
    ops: Vec<Op>,
    fallbacks: Vec<Fallback>,
    memories: Vec<(CString, CoreMemory)>,
    json: CString,
}

#[derive(Debug)]
struct Op {
    name: CString,
    operator: CString,
    package: CString,
    core: CString,
    work: OpWork,
}

#[derive(Debug)]
struct Fallback {
    name: CString,
    op: CString,
    selected: CString,
    failed: CString,
    reason: CString,
    target: CString,
}

/// Who does the work of an operation: one of `UDO_WORK_*`.
pub type OpWork = u32;
/// A step of its own.
pub const UDO_WORK_STEP: u32 = 0;
/// The step of another operation, which it is fused into.
pub const UDO_WORK_FUSED: u32 = 1;
/// Nobody: its output is its input's bytes.
pub const UDO_WORK_VIEW: u32 = 2;
/// Nobody: it was computed when the model was compiled.
pub const UDO_WORK_FOLDED: u32 = 3;
/// The host, which runs other operations as it says.
pub const UDO_WORK_CONTROL: u32 = 4;

/// Where an operation runs. Texts are the model's and go with it.
#[repr(C)]
#[derive(Debug)]
pub struct OpReport {
    /// Its name.
    pub name: *const c_char,
    /// Its operator.
    pub op: *const c_char,
    /// The package of its kernel; "" where nothing computes it.
    pub package: *const c_char,
    /// The core that runs it, as in "dsp:v68".
    pub core: *const c_char,
    /// Who does its work.
    pub work: OpWork,
}

/// A core that was asked for and did not take an operation, and where that went. Texts are the model's and go with it.
#[repr(C)]
#[derive(Debug)]
pub struct FallbackReport {
    /// The operation's name.
    pub name: *const c_char,
    /// Its operator.
    pub op: *const c_char,
    /// The core that is preferred: the first of those asked for.
    pub selected: *const c_char,
    /// The core that did not take it.
    pub failed: *const c_char,
    /// Why not.
    pub reason: *const c_char,
    /// The core that runs it.
    pub target: *const c_char,
}

/// What the plan of a model takes of one memory, in bytes: sessions have an arena and scratch each, and share the rest.
#[repr(C)]
#[derive(Debug)]
pub struct PlanMemory {
    /// The memory's name; the text is the model's and goes with it.
    pub memory: *const c_char,
    /// Of a session: what operations give each other.
    pub arena_bytes: u64,
    /// Of a session: what operations take for themselves.
    pub scratch_bytes: u64,
    /// Constants as the model has them.
    pub constant_bytes: u64,
    /// Constants that operations have in a form of their own.
    pub packed_bytes: u64,
    /// What operations derived of shapes.
    pub geometry_bytes: u64,
}

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
    pub(crate) fn of(model: &model::Model) -> Self {
        let report = model.report();
        let memories = report.memories.iter();
        Self {
            ops: report.nodes.iter().map(op).collect(),
            fallbacks: report.nodes.iter().flat_map(fallbacks).collect(),
            memories: memories.map(|memory| (text(memory.memory), memory.clone())).collect(),
            json: text(&format!("{:#}", dump(model, report))),
        }
    }
}

/// All of it for people and their tools.
fn dump(model: &model::Model, report: &PlanReport) -> Value {
    let inputs = model.inputs().iter();
    let inputs = inputs.map(|input| json!({"name": input.name, "type": input.of.to_string()}));
    let nodes = report.nodes.iter().map(|node| {
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
    let memories = report.memories.iter().map(|memory| {
        json!({
            "memory": memory.memory,
            "arena_bytes": memory.arena_bytes,
            "scratch_bytes": memory.scratch_bytes,
            "constant_bytes": memory.constant_bytes,
            "packed_bytes": memory.packed_bytes,
            "geometry_bytes": memory.geometry_bytes,
        })
    });
    json!({
        "inputs": inputs.collect::<Value>(),
        "outputs": model.outputs(),
        "threads": model.threads(),
        "priority": match model.priority() {
            Priority::Low => "low",
            Priority::Medium => "medium",
            Priority::High => "high",
        },
        "nodes": nodes.collect::<Value>(),
        "memories": memories.collect::<Value>(),
        "notices": report.notices,
    })
}

/// Counts the operations of a model that its plan knows: none where the shapes that each run brings are planned for then.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_op_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.report().ops.len());
        Ok(())
    })
}

/// Where an operation of a model runs, in the order of the graph.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_op(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<OpReport>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        let Op { name, operator, package, core, work } =
            place(&model.report().ops, "operation", index)?;
        out.write(OpReport {
            name: name.as_ptr(),
            op: operator.as_ptr(),
            package: package.as_ptr(),
            core: core.as_ptr(),
            work: *work,
        });
        Ok(())
    })
}

/// Counts refusals of operations that run elsewhere: 0 where all run on the core that is preferred.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_fallback_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.report().fallbacks.len());
        Ok(())
    })
}

/// Which core did not take which operation, why, and where it runs.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_fallback(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<FallbackReport>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        let all = &model.report().fallbacks;
        let Fallback { name, op, selected, failed, reason, target } =
            place(all, "fallback", index)?;
        out.write(FallbackReport {
            name: name.as_ptr(),
            op: op.as_ptr(),
            selected: selected.as_ptr(),
            failed: failed.as_ptr(),
            reason: reason.as_ptr(),
            target: target.as_ptr(),
        });
        Ok(())
    })
}

/// Counts the memories that the plan of a model uses: none where each run's shapes are planned for then.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_memory_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.report().memories.len());
        Ok(())
    })
}

/// What the plan of a model takes of one memory.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_memory(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<PlanMemory>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        let (name, of) = place(&model.report().memories, "memory", index)?;
        let bytes = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        out.write(PlanMemory {
            memory: name.as_ptr(),
            arena_bytes: bytes(of.arena_bytes),
            scratch_bytes: bytes(of.scratch_bytes),
            constant_bytes: bytes(of.constant_bytes),
            packed_bytes: bytes(of.packed_bytes),
            geometry_bytes: bytes(of.geometry_bytes),
        });
        Ok(())
    })
}

/// All that a model says of itself, as JSON: its inputs and outputs, nodes with their cores, memories and notices. The text is the
/// model's and goes with it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_json(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.report().json.as_ptr());
        Ok(())
    })
}
