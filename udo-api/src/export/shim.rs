//! The ABI functions of operators and kernels, generic over the author's types and compiled into the package. Functions
//! that do not run in execute go through `dyn`, so that they are compiled once instead of per kernel.

use std::ffi::c_void;

use super::watch::watched;
use crate::abi::{
    AcceptArgs, ExecArgs, FinalizeArgs, Finalized, InferArgs, KernelDef, KernelVTable, NeededBytes,
    NeedsArgs, OpDef, OpSchema, Workspace, report,
};
use crate::author::{AcceptCx, FinalizeCx, InferCx, InputShapes, Io, Pending, to_prepare};
use crate::core::Core;
use crate::error::{Error, ExecError};
use crate::guard;
use crate::kernel::{Kernel, Needs};
use crate::schema::Op;
use crate::span::{StaticPtr, slice_or_empty};

impl OpDef {
    /// Creates the entry for `O`.
    pub const fn of<O: Op>() -> Self {
        Self { schema: O::SCHEMA, infer: infer_shim::<O>, reserved: [0; 2] }
    }
}

impl OpDef {
    /// Creates the entry of an operator whose shapes `infer` infers, for hosts that implement the operator themselves
    /// instead of a package.
    // SAFETY: only a type; callers pass arguments as the ABI says.
    pub const fn answered_by(
        schema: OpSchema,
        infer: unsafe extern "C" fn(args: *const InferArgs) -> u32,
    ) -> Self {
        Self { schema, infer, reserved: [0; 2] }
    }
}

impl KernelDef {
    /// Registers `K` as the kernel of operator `op` on `core`.
    pub const fn new<K: Kernel>(op: &'static str, core: Core) -> Self {
        Self::with_vtable(op, core, kernel_vtable::<K>())
    }
}

/// `[describe-time, thread-safe]` Shape inference for `O`.
///
/// # Safety
/// `args` must point to arguments that are valid as the ABI says.
// SAFETY: called only by the host, with arguments as the ABI says.
unsafe extern "C" fn infer_shim<O: Op>(args: *const InferArgs) -> u32 {
    // SAFETY: `args` points to the arguments of this call.
    let args = unsafe { &*args };
    // SAFETY: the arrays of `args` have as many elements as its counts say, until this returns.
    let mut cx = unsafe { InferCx::from_raw(args) };
    // SAFETY: `errors` is null or the host's sink, which accepts messages until this returns.
    unsafe { report(args.node.errors, &mut || O::infer(&mut cx)) }
}

/// Finalizes with `make` and passes ownership of the result to the host.
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
    // SAFETY: `args` and `out` are valid by the caller's promise.
    unsafe { finalize_dyn(args, out, &mut make) }
}

/// The part of [`finalize_with`] that is compiled once for all kernels.
///
/// # Safety
/// `args` and `out` must be valid as the ABI says.
unsafe fn finalize_dyn(
    args: *const FinalizeArgs,
    out: *mut Finalized,
    make: &mut dyn FnMut(&FinalizeCx<'_>) -> Result<Finalized, Error>,
) -> u32 {
    // SAFETY: `args` points to the arguments of this call, which are valid until it returns.
    let args = unsafe { &*args };
    // SAFETY: the arrays of `args` have as many elements as its counts say, until this returns.
    let cx = unsafe { FinalizeCx::from_raw(args) };
    // SAFETY: the caller passes memory for one result.
    let out = unsafe { &mut *out };
    let mut make = || {
        *out = make(&cx)?;
        Ok(())
    };
    // SAFETY: `errors` is null or the host's sink, which accepts messages until this returns.
    unsafe { report(args.node.errors, &mut make) }
}

/// Calls `accept` and writes the number of accepted epilogue steps.
///
/// # Safety
/// `args` and `steps` must be valid as the ABI says.
pub(super) unsafe fn accept_with(
    args: *const AcceptArgs,
    steps: *mut u32,
    accept: &dyn Fn(&AcceptCx<'_>) -> Result<usize, Error>,
) -> u32 {
    // SAFETY: `args` points to the arguments of this call, which are valid until it returns.
    let args = unsafe { &*args };
    // SAFETY: the arrays of `args` have as many elements as its counts say, until this returns.
    let cx = unsafe { AcceptCx::from_raw(args) };
    // SAFETY: the caller passes memory for one number.
    let steps = unsafe { &mut *steps };
    let mut call = || {
        let accepted = accept(&cx)?;
        *steps = u32::try_from(accepted).unwrap_or(u32::MAX);
        Ok(())
    };
    // SAFETY: `errors` is null or the host's sink, which accepts messages until this returns.
    unsafe { report(args.node.errors, &mut call) }
}

/// `[execute-time, thread-safe, heap-free]` Runs a kernel once, and checks that it takes all outputs.
///
/// # Safety
/// `args` must be valid as the ABI says, and `args.state` be a `*const S` from finalize.
#[inline]
pub(super) unsafe fn execute_with<S>(
    args: *const ExecArgs,
    body: impl FnOnce(&S, Io<'_>) -> Result<(), ExecError>,
) -> u32 {
    let body = |state: &S, args: &ExecArgs| {
        let pending = Pending::new(args);
        // SAFETY: the host keeps `tensors`, `packed`, `geometry` and `parallel` valid during the call.
        let io = unsafe { Io::from_raw(args, &pending) };
        body(state, io)?;
        // SAFETY: the views of `tensors` ended with `body`.
        unsafe { pending.check(args) }
    };
    // SAFETY: `args` is valid as the ABI says and its state is an `S`, by the caller's promise.
    unsafe { watched::<S>(args, body) }
}

/// Runs `body` on the arguments of a call of prepare.
///
/// # Safety
/// `args` must be valid as the ABI says.
unsafe fn watched_prepare(
    args: *const ExecArgs,
    body: &dyn Fn(&ExecArgs) -> Result<(), ExecError>,
) -> u32 {
    // SAFETY: `args` is valid by the caller's promise, and any state is a valid `()`.
    unsafe { watched::<()>(args, |(), args| body(args)) }
}

/// `[finalize-time]` Frees the state from finalize.
// SAFETY: called only by the host, once, with the state from finalize of the same `S`.
pub(super) unsafe extern "C" fn free<S>(state: *mut c_void) {
    let mut state = {
        // SAFETY: the host returns, once, the box that `finalize_with` created with the same `S`.
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

    // SAFETY: called only by the host, with a node and memory for a number as the ABI says.
    unsafe extern "C" fn accept(args: *const AcceptArgs, steps: *mut u32) -> u32 {
        // SAFETY: the host follows the ABI.
        unsafe { accept_with(args, steps, &K::accept) }
    }

    // SAFETY: called only by the host, with arguments as the ABI says and memory for one result.
    unsafe extern "C" fn finalize(args: *const FinalizeArgs, out: *mut Finalized) -> u32 {
        // `needs` returns the workspace separately.
        let make = |cx: &FinalizeCx<'_>| Ok((K::finalize(cx)?, Workspace::NONE));
        // SAFETY: the host follows the ABI.
        unsafe { finalize_with(args, out, make) }
    }

    // SAFETY: called only by the host, with the state from finalize, inputs and memory as the ABI says.
    unsafe extern "C" fn needs(args: *const NeedsArgs, needs: *mut NeededBytes) -> u32 {
        // SAFETY: the host passes arguments that are valid for the call.
        let args = unsafe { &*args };
        // SAFETY: finalize created a `K`.
        let kernel = unsafe { &*args.state.cast::<K>() };
        // SAFETY: `inputs` points to `input_count` arguments.
        let inputs = unsafe { slice_or_empty(args.inputs, args.input_count as usize) };
        // SAFETY: the host passes memory for one result.
        let out = unsafe { &mut *needs };
        let mut call = || {
            let Needs { scratch, geometry } = kernel.needs(InputShapes { args: inputs })?;
            let geometry_bytes = geometry.bytes();
            *out = NeededBytes { scratch, geometry_bytes, reserved_words: [0; 3] };
            Ok(())
        };
        // SAFETY: the sink is null or valid for the call.
        unsafe { report(args.errors, &mut call) }
    }

    // SAFETY: called only by the host, with arguments as the ABI says.
    unsafe extern "C" fn prepare(args: *const ExecArgs) -> u32 {
        let fill = |args: &ExecArgs| {
            // SAFETY: finalize created a `K`, which the host frees after the last call.
            let kernel = unsafe { &*args.state.cast::<K>() };
            // SAFETY: `tensors` points to the arguments, and `geometry` to bytes for this call to fill.
            let (inputs, geometry) = unsafe { to_prepare(args) };
            kernel.prepare(inputs, geometry)
        };
        // SAFETY: the host follows the ABI.
        unsafe { watched_prepare(args, &fill) }
    }

    // SAFETY: called only by the host, with arguments as the ABI says and the state from finalize.
    unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
        // SAFETY: the host follows the ABI, and finalize created a `K`.
        unsafe { execute_with::<K>(args, K::execute) }
    }
}

/// Returns the functions of an ordinary kernel.
pub const fn kernel_vtable<K: Kernel>() -> &'static KernelVTable {
    &KernelFns::<K>::TABLE
}
