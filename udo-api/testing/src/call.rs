//! One call of a finalized kernel.

use std::ffi::c_void;

use udo_api::Status;
use udo_api::abi::{ExecArgs, ParallelTable, TensorArg};
use udo_api::guard::{LibraryGuard, heap_calls};
use udo_host::{Failure, FinalizedKernel, failure};

use crate::tensor::{Memory, Tensor};

/// What scratch holds at first: as a float, a number that no kernel makes.
const SCRATCH: u8 = 0x7f;

/// The fast memory of a DSP, for kernels that want all of it.
pub(crate) const VTCM_BYTES: usize = 4 << 20;

/// What a call is made with, besides its tensors.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) threads: u32,
    pub(crate) guard: LibraryGuard,
}

/// What a call that went well left behind.
pub(crate) struct Traces {
    pub(crate) scratch_used_bytes: usize,
    pub(crate) heap_calls: u64,
}

/// Why a call did not go well.
pub(crate) enum Broken {
    Failed(Failure),
    /// The kernel wrote where it must not; what that is.
    Wrote(String),
}

/// Runs the kernel; each of `in_place`, an input and an output, shares the input's memory.
pub(crate) fn execute(
    kernel: &FinalizedKernel,
    inputs: &[Option<Tensor>],
    outputs: &mut [Tensor],
    in_place: &[(u16, u16)],
    caller: Caller,
) -> Result<Traces, Broken> {
    let watched = mark_bounded(outputs, in_place);
    let mut args: Vec<TensorArg> =
        inputs.iter().map(|i| i.as_ref().map_or(TensorArg::ABSENT, Tensor::arg)).collect();
    args.extend(outputs.iter().map(Tensor::arg));
    for &(from, to) in in_place {
        let output = inputs.len() + usize::from(to);
        args[usize::from(from)].data = args[output].data;
        for (arg, other) in [(usize::from(from), to), (output, from)] {
            args[arg] = std::mem::replace(&mut args[arg], TensorArg::ABSENT).paired_with(other);
        }
    }
    let workspace = kernel.workspace();
    let wanted = if workspace.wants_all_vtcm() { VTCM_BYTES } else { workspace.bytes() };
    let mut scratch = Memory::zeroed(wanted);
    scratch.bytes_mut().fill(SCRATCH);
    let parallel = ParallelTable {
        size: ParallelTable::SIZE,
        width: caller.threads,
        ctx: std::ptr::null(),
        run: backwards,
        stop: std::ptr::null(),
        reserved_words: [0; 3],
    };
    let parallel = if caller.threads == 1 { std::ptr::null() } else { &raw const parallel };
    let ports = (inputs.len(), outputs.len());
    let owed = ExecArgs::owed(&args[inputs.len()..]);
    let mut call = kernel.exec_args(args.as_mut_ptr(), ports, owed, scratch.buffer(), parallel);
    // The buffer has some bytes more.
    call.scratch_bytes = wanted;
    call.guard = caller.guard.cell();
    let geometry = Memory::zeroed(kernel.geometry_bytes());
    let before = heap_calls();
    if let Some(prepare) = kernel.prepare_fn() {
        call.geometry = geometry.buffer().as_ptr();
        call.geometry_bytes = kernel.geometry_bytes();
        // SAFETY: as below; `geometry` is the call's to fill, and outlives it.
        let status = unsafe { prepare(&raw const call) };
        if status != Status::OK.code() {
            return Err(Broken::Failed(failure(status, caller.guard)));
        }
    }
    // SAFETY: `call` points to `args`, whose tensors lie in memory of `inputs` and `outputs` that nothing else
    // refers to, to `scratch`, and to the kernel's constants; all of them outlive the call.
    let status = unsafe { (kernel.execute_fn())(&raw const call) };
    let heap_calls = heap_calls() - before;
    if status != Status::OK.code() {
        return Err(Broken::Failed(failure(status, caller.guard)));
    }
    if !geometry.is_whole() {
        return Err(Broken::Wrote("the kernel writes beyond its geometry".to_owned()));
    }
    if !scratch.is_whole() {
        return Err(Broken::Wrote("the kernel writes beyond its scratch".to_owned()));
    }
    for (port, (tensor, arg)) in outputs.iter_mut().zip(&args[inputs.len()..]).enumerate() {
        let dims = arg.dims.get(..usize::from(arg.rank)).unwrap_or_default();
        check_output((port, tensor), dims, watched.contains(&port))?;
        tensor.set_dims(dims);
    }
    let used = scratch.bytes().iter().rposition(|&byte| byte != SCRATCH);
    Ok(Traces { scratch_used_bytes: used.map_or(0, |last| last + 1), heap_calls })
}

/// Marks the elements of bounded outputs that have memory of their own; which those are.
fn mark_bounded(outputs: &mut [Tensor], in_place: &[(u16, u16)]) -> Vec<usize> {
    let is_alone = |port: usize| in_place.iter().all(|&(_, to)| usize::from(to) != port);
    let mut marked = Vec::new();
    for (port, output) in outputs.iter_mut().enumerate() {
        if is_alone(port) && !output.desc().full_shape().is_fixed() {
            output.mark();
            marked.push(port);
        }
    }
    marked
}

/// Nothing, if a kernel that says these extents wrote no further; within its memory, if that is not `is_marked`.
fn check_output(
    (port, tensor): (usize, &Tensor),
    dims: &[usize],
    is_marked: bool,
) -> Result<(), Broken> {
    if !tensor.memory().is_whole() {
        return Err(Broken::Wrote(format!("the kernel writes beyond output {port}")));
    }
    if is_marked && !tensor.is_marked_behind(dims) {
        let why =
            format!("the kernel writes behind the extents {dims:?} that it says of output {port}");
        return Err(Broken::Wrote(why));
    }
    Ok(())
}

/// Makes the calls from the last to the first, so that a kernel that counts on an order is found.
///
/// # Safety
/// SAFETY is that of [`ParallelTable::run`]: `task` may be called with `ctx` for every index below `count`.
unsafe extern "C" fn backwards(
    _: *const c_void,
    count: usize,
    // SAFETY: what it may be called with is the caller's promise.
    task: unsafe extern "C" fn(*const c_void, usize),
    ctx: *const c_void,
) {
    for index in (0..count).rev() {
        // SAFETY: the caller vouches for `task` and `ctx`, and `index` is below `count`.
        unsafe { task(ctx, index) };
    }
}
