//! The functions behind operators and kernels, generic over the author's types and compiled into the package. What is not called
//! at each run goes through `dyn`, so that it is compiled once and not for each kernel.

use std::ffi::c_void;

use super::watch::watched;
use crate::abi::{
    AcceptArgs, ExecArgs, FinalizeArgs, Finalized, InferArgs, KernelDef, KernelVTable, NeededBytes,
    NeedsArgs, OpDef, OpSchema, Workspace, report,
};
use crate::author::{AcceptCx, FinalizeCx, InferCx, InputShapes, Io, Owed, to_prepare};
use crate::core::Core;
use crate::error::{Error, ExecError};
use crate::guard;
use crate::kernel::{Kernel, Needs};
use crate::schema::Op;
use crate::span::{StaticPtr, slice_or_empty};

impl OpDef {
    /// The entry for `O`.
    pub const fn of<O: Op>() -> Self {
        Self { schema: O::SCHEMA, infer: infer_shim::<O>, reserved: [0; 2] }
    }
}

impl OpDef {
    /// The entry of an operator whose shapes `infer` infers: for hosts that answer for a package.
    // SAFETY: only a type; who calls through it passes arguments as the ABI says.
    pub const fn answered_by(
        schema: OpSchema,
        infer: unsafe extern "C" fn(args: *const InferArgs) -> u32,
    ) -> Self {
        Self { schema, infer, reserved: [0; 2] }
    }
}

impl KernelDef {
    /// `K` computes the operator `op` on `core`.
    pub const fn new<K: Kernel>(op: &'static str, core: Core) -> Self {
        Self::with_vtable(op, core, kernel_vtable::<K>())
    }
}

/// `[describe-time, thread-safe]` Shape inference for `O`.
///
/// # Safety
/// `args` must point to arguments that are valid as the ABI says.
// SAFETY: called by the host alone, with arguments as the ABI says.
unsafe extern "C" fn infer_shim<O: Op>(args: *const InferArgs) -> u32 {
    // SAFETY: `args` points to the arguments of this call.
    let args = unsafe { &*args };
    // SAFETY: what `args` points to has as many elements as its counts say, until this returns.
    let mut cx = unsafe { InferCx::from_raw(args) };
    // SAFETY: `errors` is null or the host's sink, which takes messages until this returns.
    unsafe { report(args.node.errors, &mut || O::infer(&mut cx)) }
}

/// Finalizes with `make` and hands the result's ownership to the host.
///
/// # Safety
/// `args` and `out` must be valid as the ABI says.
pub(super) unsafe fn finalize_with<S>(
    args: *const FinalizeArgs,
    out: *mut Finalized,
    make: impl Fn(&FinalizeCx<'_>) -> Result<(S, Workspace), Error>,
) -> u32 {
    let mut make = |cx: &FinalizeCx<'_>| {
        let (state, workspace) = make(cx)?;
        cx.check_epilogue()?;
        let state = Box::into_raw(Box::new(state)).cast();
        Ok(Finalized { state, workspace, reserved: [0; 4] })
    };
    // SAFETY: `args` and `out` are valid, as the caller of this says.
    unsafe { finalize_by(args, out, &mut make) }
}

/// # Safety
/// `args` and `out` must be valid as the ABI says.
unsafe fn finalize_by(
    args: *const FinalizeArgs,
    out: *mut Finalized,
    make: &mut dyn FnMut(&FinalizeCx<'_>) -> Result<Finalized, Error>,
) -> u32 {
    // SAFETY: `args` points to the arguments of this call, which stay until it returns.
    let args = unsafe { &*args };
    // SAFETY: the arrays that `args` names have as many elements as its counts say, until this returns.
    let cx = unsafe { FinalizeCx::from_raw(args) };
    // SAFETY: the caller passes room for one result.
    let out = unsafe { &mut *out };
    let mut make = || {
        *out = make(&cx)?;
        Ok(())
    };
    // SAFETY: `errors` is null or the host's sink, which takes messages until this returns.
    unsafe { report(args.node.errors, &mut make) }
}

/// Asks `accept` how many steps of the epilogue it takes, and tells the host.
///
/// # Safety
/// `args` and `steps` must be valid as the ABI says.
pub(super) unsafe fn accept_with(
    args: *const AcceptArgs,
    steps: *mut u32,
    accept: &dyn Fn(&AcceptCx<'_>) -> Result<usize, Error>,
) -> u32 {
    // SAFETY: `args` points to the arguments of this call, which stay until it returns.
    let args = unsafe { &*args };
    // SAFETY: the arrays that `args` names have as many elements as its counts say, until this returns.
    let cx = unsafe { AcceptCx::from_raw(args) };
    // SAFETY: the caller passes room for one number.
    let steps = unsafe { &mut *steps };
    let mut ask = || {
        let taken = accept(&cx)?;
        *steps = u32::try_from(taken).unwrap_or(u32::MAX);
        Ok(())
    };
    // SAFETY: `errors` is null or the host's sink, which takes messages until this returns.
    unsafe { report(args.node.errors, &mut ask) }
}

/// `[execute-time, thread-safe, heap-free]` Runs a kernel once, and sees that it does all that a call owes.
///
/// # Safety
/// `args` must be valid as the ABI says, and `args.state` be a `*const S` from finalize.
#[inline]
pub(super) unsafe fn execute_with<S>(
    args: *const ExecArgs,
    body: impl FnOnce(&S, Io<'_>) -> Result<(), ExecError>,
) -> u32 {
    let body = |state: &S, args: &ExecArgs| {
        let owed = Owed::of(args);
        // SAFETY: the host keeps `tensors`, `packed`, `geometry` and `parallel` valid during the call.
        let io = unsafe { Io::from_raw(args, &owed) };
        body(state, io)?;
        // SAFETY: the views of `tensors` ended with `body`.
        unsafe { owed.check(args) }
    };
    // SAFETY: `args` is valid as the ABI says, and its state is an `S`, as the caller of this says of both.
    unsafe { watched::<S>(args, body) }
}

/// The same of calls that come with new shapes alone.
///
/// # Safety
/// `args` must be valid as the ABI says.
unsafe fn watched_by(
    args: *const ExecArgs,
    body: &dyn Fn(&ExecArgs) -> Result<(), ExecError>,
) -> u32 {
    // SAFETY: `args` is valid, as the caller says, and its state, whatever it is, is an empty value as well.
    unsafe { watched::<()>(args, |(), args| body(args)) }
}

/// `[finalize-time]` Frees what finalize made.
// SAFETY: called by the host alone, once, with what finalize of the same `S` made.
pub(super) unsafe extern "C" fn free<S>(state: *mut c_void) {
    let mut state = {
        // SAFETY: the host hands back, once, what `finalize_with` made with the same `S`.
        Some(unsafe { Box::from_raw(state.cast::<S>()) })
    };
    guard::quietly(&mut || drop(state.take()));
}

struct KernelFns<K>(K);

impl<K: Kernel> KernelFns<K> {
    const TABLE: KernelVTable = KernelVTable {
        size: KernelVTable::SIZE,
        reserved: 0,
        finalize: Self::finalize,
        execute: Self::execute,
        free: free::<K>,
        gpu: StaticPtr::NULL,
        accept: Some(Self::accept),
        needs: Some(Self::needs),
        prepare: Some(Self::prepare),
        reserved_words: [0; 1],
    };

    // SAFETY: called by the host alone, with a node and room for a number as the ABI says.
    unsafe extern "C" fn accept(args: *const AcceptArgs, steps: *mut u32) -> u32 {
        // SAFETY: the host keeps to the ABI.
        unsafe { accept_with(args, steps, &K::accept) }
    }

    // SAFETY: called by the host alone, with arguments as the ABI says and room for one result.
    unsafe extern "C" fn finalize(args: *const FinalizeArgs, out: *mut Finalized) -> u32 {
        // What it needs is asked apart.
        let make = |cx: &FinalizeCx<'_>| Ok((K::finalize(cx)?, Workspace::NONE));
        // SAFETY: the host keeps to the ABI.
        unsafe { finalize_with(args, out, make) }
    }

    // SAFETY: called by the host alone, with what finalize made, inputs and room as the ABI says.
    unsafe extern "C" fn needs(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32 {
        // SAFETY: the host passes arguments that are valid for the call.
        let args = unsafe { &*args };
        // SAFETY: finalize made a `K`.
        let kernel = unsafe { &*args.state.cast::<K>() };
        // SAFETY: `inputs` points to `input_count` arguments.
        let inputs = unsafe { slice_or_empty(args.inputs, args.input_count as usize) };
        // SAFETY: the host passes room for one answer.
        let out = unsafe { &mut *needs };
        let mut ask = || {
            let Needs { scratch, geometry } = kernel.needs(InputShapes { args: inputs })?;
            let geometry_bytes = geometry.bytes();
            *out = NeededBytes { scratch, geometry_bytes, reserved_words: [0; 3] };
            Ok(())
        };
        // SAFETY: the sink is null or valid for the call.
        unsafe { report(args.errors, &mut ask) }
    }

    // SAFETY: called by the host alone, with arguments as the ABI says.
    unsafe extern "C" fn prepare(args: *const ExecArgs) -> u32 {
        let fill = |args: &ExecArgs| {
            // SAFETY: finalize made a `K`, which the host frees after the last call.
            let kernel = unsafe { &*args.state.cast::<K>() };
            // SAFETY: `tensors` points to the arguments, and `geometry` to bytes that are the call's to fill.
            let (inputs, geometry) = unsafe { to_prepare(args) };
            kernel.prepare(inputs, geometry)
        };
        // SAFETY: the host keeps to the ABI.
        unsafe { watched_by(args, &fill) }
    }

    // SAFETY: called by the host alone, with arguments as the ABI says and the state from finalize.
    unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
        // SAFETY: the host keeps to the ABI, and finalize made a `K`.
        unsafe { execute_with::<K>(args, K::execute) }
    }
}

/// The functions of an ordinary kernel.
pub const fn kernel_vtable<K: Kernel>() -> &'static KernelVTable {
    &KernelFns::<K>::TABLE
}
