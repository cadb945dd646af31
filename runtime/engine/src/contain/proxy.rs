//! The functions in tables of contained packages. Each sends a request to the worker and returns its
//! answer.

use std::ffi::c_void;

use udo_api::Status;
use udo_api::TensorDesc;
use udo_api::abi::{
    AcceptArgs, ErrorSink, ExecArgs, FinalizeArgs, Finalized, GpuSink, InferArgs, NeededBytes,
    NeedsArgs,
};
use udo_api::export::send;

use super::callee::{Callee, called};
use super::kernel::{Kernel, Refused};
use super::report::refuse;
use super::wire::{InvalidMessage, Reader, Writer, answered};
use super::worker::Fault;
use super::{Request, call};
use crate::exit_guard;

/// Sends a request that precedes a run, and reads the answer with `take`. Returns the status.
///
/// # Safety
/// `errors` is null or valid for the call.
unsafe fn ask(
    request: Request,
    errors: *const ErrorSink,
    write: impl FnOnce(&mut Writer),
    take: impl FnOnce(&mut Reader<'_>) -> Result<(), InvalidMessage>,
) -> u32 {
    let exchange = || {
        let Callee { worker, package, number } = called().ok_or(InvalidMessage)?;
        // Shape inference reports errors without naming the operator's package.
        let named = |Fault(why): Fault| match request {
            Request::Infer => Fault(format!("package {package}: {why}")),
            _ => Fault(why),
        };
        let mut writer = Writer::default();
        writer.number(number);
        write(&mut writer);
        let mut lane = worker.lane();
        let answer = lane.start(worker).and_then(|()| lane.ask(worker, request, &writer.done()));
        let answer = answer.map_err(named)?;
        let read = answered(&answer, take).map_err(|garbled| lane.garbled(garbled))?;
        Ok::<_, Fault>(read.err().map(|(status, text)| (status, text.to_owned())))
    };
    match exchange() {
        Ok(None) => Status::OK.code(),
        // SAFETY: as the caller promises.
        Ok(Some((status, text))) => unsafe { refuse(errors, status, &text) },
        // SAFETY: as the caller promises.
        Err(fault) => unsafe { refuse(errors, Status::WORKER.code(), &fault.0) },
    }
}

// SAFETY: called by the host alone, with arguments as the ABI says.
pub(super) unsafe extern "C" fn infer(args: *const InferArgs) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    let count = args.node.output_count as usize;
    // SAFETY: what the arguments point to is there for the call.
    let write = |writer: &mut Writer| unsafe { writer.infer(args) };
    let take = |answer: &mut Reader<'_>| {
        let outputs = answer.items::<TensorDesc>()?;
        answer.end()?;
        if outputs.len() != count {
            return Err(InvalidMessage);
        }
        for (index, output) in outputs.into_iter().enumerate() {
            // SAFETY: the host passes room for as many descriptions as the node has outputs.
            unsafe { args.outputs.wrapping_add(index).write(output) };
        }
        Ok(())
    };
    // SAFETY: the sink is the host's.
    unsafe { ask(Request::Infer, args.node.errors, write, take) }
}

// SAFETY: called by the host alone, with a node and room for a number as the ABI says.
pub(super) unsafe extern "C" fn accept(args: *const AcceptArgs, steps: *mut u32) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    // SAFETY: what the arguments point to is there for the call.
    let write = |writer: &mut Writer| unsafe { writer.accept(args) };
    let take = |answer: &mut Reader<'_>| {
        let step_count = answer.u32()?;
        // SAFETY: the host passes room for one number.
        unsafe { steps.write(step_count) };
        answer.end()
    };
    // SAFETY: the sink is the host's.
    unsafe { ask(Request::Accept, args.node.errors, write, take) }
}

// SAFETY: called by the host alone, with arguments as the ABI says and room for one result.
pub(super) unsafe extern "C" fn finalize(args: *const FinalizeArgs, out: *mut Finalized) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    let unknown = || Refused::from(InvalidMessage);
    let finalized = called().ok_or_else(unknown).and_then(|callee| {
        // SAFETY: as the host says of its arguments.
        unsafe { Kernel::finalize(callee, args) }
    });
    let kernel = match finalized {
        Ok(kernel) => Box::new(kernel),
        Err(refused) => {
            let (status, text) = match refused {
                Refused::By(status, text) => (status, text),
                Refused::Fault(fault) => (Status::WORKER.code(), fault.0),
            };
            // SAFETY: the sink is the host's.
            return unsafe { refuse(args.node.errors, status, &text) };
        }
    };
    let (workspace, _) = kernel.needs;
    let finalized = Finalized { state: Box::into_raw(kernel).cast(), workspace, reserved: [0; 4] };
    // SAFETY: the host passes room for one result.
    unsafe { out.write(finalized) };
    Status::OK.code()
}

/// Returns the kernel of a state.
///
/// # Safety
/// `state` comes from `finalize` and was not passed to `free` yet.
unsafe fn kernel<'a>(state: *const c_void) -> &'a Kernel {
    // SAFETY: as the caller promises.
    unsafe { &*state.cast::<Kernel>() }
}

// SAFETY: called by the host alone, with the state from finalize and room for one answer.
pub(super) unsafe extern "C" fn needs(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    // SAFETY: the state is one of ours. The worker computed these needs directly after finalize, for the same inputs.
    let (scratch, geometry_bytes) = unsafe { kernel(args.state) }.needs;
    let needed = NeededBytes { scratch, geometry_bytes, reserved_words: [0; 3] };
    // SAFETY: the host passes room for one answer.
    unsafe { needs.write(needed) };
    Status::OK.code()
}

// SAFETY: called by the host alone, with arguments as the ABI says and the state from finalize.
pub(super) unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    // SAFETY: the state is one of ours.
    let kernel = unsafe { kernel(args.state) };
    // SAFETY: the arguments are the host's.
    unsafe { call::execute(kernel, args) }
}

// SAFETY: called by the host alone, with arguments as the ABI says and the state from finalize.
pub(super) unsafe extern "C" fn prepare(args: *const ExecArgs) -> u32 {
    // SAFETY: the host passes arguments that are valid for the call.
    let args = unsafe { &*args };
    // SAFETY: the state is one of ours.
    let kernel = unsafe { kernel(args.state) };
    // SAFETY: the arguments are the host's.
    unsafe { call::prepare(kernel, args) }
}

// SAFETY: called by the host alone, with the state from finalize and a sink that lives for the call.
pub(super) unsafe extern "C" fn info(state: *const c_void, sink: *const GpuSink) -> u32 {
    // SAFETY: the state is one of ours.
    let kernel = unsafe { kernel(state) };
    // SAFETY: the sink is valid for the call.
    let sink = unsafe { &*sink };
    // SAFETY: it is the host's.
    unsafe { send(&kernel.gpu, sink) }.code()
}

// SAFETY: called by the host alone, once, with the state from finalize.
pub(super) unsafe extern "C" fn free(state: *mut c_void) {
    if state.is_null() {
        return;
    }
    // SAFETY: `finalize` created it from a box, and the host returns it once.
    let kernel = unsafe { Box::from_raw(state.cast::<Kernel>()) };
    if let Err(fault) = kernel.free() {
        exit_guard::note_fault("failed", &fault);
    }
}
