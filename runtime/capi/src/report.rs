//! What models, sessions and runtimes say of themselves: where each node runs and why, what memory a plan takes, and what
//! devices are at.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use serde_json::{Value, json};
use udo_runtime::device::Result;
use udo_runtime::model;
use udo_runtime::place;
use udo_runtime::plan::{CoreMemory, NodeReport, Plan, Report as PlanReport};
use udo_runtime::run::Priority;

use crate::born::live;
use crate::error::{Error, text};
use crate::ffi::{guard, need};
use crate::model::Model;
use crate::ports::place;
use crate::runtime::Runtime;
use crate::session::Session;

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
            json: text(&of_model(model)),
        }
    }
}

/// All that a model says of itself, for people and their tools.
fn of_model(model: &model::Model) -> String {
    let inputs = model.inputs().iter();
    let inputs = inputs.map(|input| json!({"name": input.name, "type": input.of.to_string()}));
    format!("{:#}", dump(model, &inputs.collect(), &[model.report()]))
}

/// The same, as it was in the last run of a session.
fn of_session(session: &model::Session) -> Result<String> {
    let plans = session.last_plans()?;
    let inputs = plans.first().into_iter().flat_map(|plan| plan.inputs());
    let inputs = inputs.map(|(name, desc)| json!({"name": name, "type": desc.to_string()}));
    let reports: Vec<&PlanReport> = plans.iter().map(|plan| Plan::report(plan)).collect();
    Ok(format!("{:#}", dump(&session.model(), &inputs.collect(), &reports)))
}

/// A model over these inputs, planned in these parts.
fn dump(model: &model::Model, inputs: &Value, parts: &[&PlanReport]) -> Value {
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
            [of.name, of.op, of.selected, of.failed, of.reason, of.target].map(said);
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
        "cores": model.cores().iter().map(ToString::to_string).collect::<Value>(),
        "fallback": match model.fallback() {
            place::Fallback::Off => Value::Null,
            place::Fallback::To(core) => core.to_string().into(),
        },
        "fallbacks": fallbacks.collect::<Value>(),
        "exchanges": exchanges.collect::<Value>(),
        "threads": model.threads(),
        "priority": match model.priority() {
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
fn said(text: CString) -> String {
    text.into_string().unwrap_or_default()
}

/// Counts the operations of a model that its plan knows: none where the shapes that each run brings are planned for then.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_op_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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
        let (model, out) = (live(model, "model")?, need(out, "out")?);
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

/// All that a model says of itself, as JSON: its inputs and outputs, the cores that were asked for in order, nodes with their cores,
/// what fell back from which core to which and why, what devices exchange, memories and notices. The text is the model's and goes with it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_json(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        out.write(model.report().json.as_ptr());
        Ok(())
    })
}

/// As `udo_model_json`, of the plan that the last run of a session took, a submitted one or another; before there was one, of that which it
/// is prepared for. So it says what runs where of models that leave shapes open. Parts that were planned in the run are listed one
/// behind the other. The text is the calling thread's, and goes with its next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_json(
    session: Option<&Session>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    thread_local! {
        static LAST: RefCell<CString> = RefCell::default();
    }
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        let json = text(&session.last(of_session)?);
        out.write(LAST.with_borrow_mut(|last| kept(last, json)));
        Ok(())
    })
}

/// What the devices of a runtime are at now, for people: what of their memories is in use, by whom, and how many runs wait or are in
/// flight. The text is the calling thread's, and goes with its next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_report(
    runtime: Option<&Runtime>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    thread_local! {
        static LAST: RefCell<CString> = RefCell::default();
    }
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let report = text(&runtime.0.report().to_string());
        out.write(LAST.with_borrow_mut(|last| kept(last, report)));
        Ok(())
    })
}

/// Keeps a text in the place of the last one: where it lies.
pub(crate) fn kept(last: &mut CString, text: CString) -> *const c_char {
    *last = text;
    last.as_ptr()
}
