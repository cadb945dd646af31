//! Reports of models, sessions and runtimes: where each node runs and why, the memory that a plan takes, and the state of
//! devices.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use crate::argument::{need, place};
use crate::born::live;
use crate::error::Error;
use crate::ffi::guard;
use crate::handles::Runtime;
use crate::model::Model;
use crate::model_report::{Fallback, Op, OpWork, of_session};
use crate::session::Session;
use crate::text::{store, text};

/// Where an operation runs. The strings live as long as the model.
#[repr(C)]
#[derive(Debug)]
pub struct OpReport {
    /// The name.
    pub name: *const c_char,
    /// The operator.
    pub op: *const c_char,
    /// The package of its kernel; "" if no kernel computes it.
    pub package: *const c_char,
    /// The core that runs it, such as "dsp:v68".
    pub core: *const c_char,
    /// The kind of work that computes it.
    pub work: OpWork,
}

/// A core that was asked for and does not support an operation, and the core that runs it instead.
/// The strings live as long as the model.
#[repr(C)]
#[derive(Debug)]
pub struct FallbackReport {
    /// The name of the operation.
    pub name: *const c_char,
    /// The operator.
    pub op: *const c_char,
    /// The preferred core: the first of those asked for.
    pub selected: *const c_char,
    /// The core that does not support it.
    pub failed: *const c_char,
    /// The reason.
    pub reason: *const c_char,
    /// The core that runs it.
    pub target: *const c_char,
}

/// Bytes that the plan of a model needs in one memory. Each session has its own arena and scratch
/// memory; the rest is shared.
#[repr(C)]
#[derive(Debug)]
pub struct PlanMemory {
    /// The name of the memory. The string lives as long as the model.
    pub memory: *const c_char,
    /// Per session: values between operations.
    pub arena_bytes: u64,
    /// Per session: scratch memory of operations.
    pub scratch_bytes: u64,
    /// Constants of the model.
    pub constant_bytes: u64,
    /// Prepacked constants.
    pub packed_bytes: u64,
    /// Data that operations derived from shapes.
    pub geometry_bytes: u64,
}

/// Returns the number of operations in the plan of a model; 0 if each run plans for its own shapes.
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

/// Returns where an operation of a model runs, in the order of the graph.
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

/// Returns the number of refusals of operations that run on another core; 0 if all run on the
/// preferred core.
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

/// Returns a refusal: the core, the operation, the reason, and the core that runs it.
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

/// Returns the number of memories that the plan of a model uses; 0 if each run plans for its own
/// shapes.
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

/// Returns the bytes that the plan of a model needs in a memory.
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

/// Returns a report of a model as JSON: inputs and outputs, the cores asked for, nodes with their
/// cores, fallbacks and their reasons, transfers between devices, memories and notices. The string
/// lives as long as the model.
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

/// Like `udo_model_json`, for the plan of the last run of a session, or before the first run, the
/// plan that it is prepared for. It therefore also covers models with open shapes. Segments that
/// were planned during the run are listed one after the other. The string lives until the thread's
/// next call of this function.
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
        out.write(LAST.with_borrow_mut(|last| store(last, json)));
        Ok(())
    })
}

/// Returns the current state of a runtime's devices as readable text: memory in use and its owners,
/// and the number of runs that wait or are in flight. The string lives until the thread's next call
/// of this function.
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
        out.write(LAST.with_borrow_mut(|last| store(last, report)));
        Ok(())
    })
}
