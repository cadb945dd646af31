//! What models, sessions and runtimes say of themselves: where each node runs and why, what memory a plan takes, and what
//! devices are at.

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
use crate::text::{kept, text};

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
