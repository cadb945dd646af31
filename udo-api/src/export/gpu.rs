//! GPU kernels: their ABI functions, their descriptions for the host, and work items on the emulated GPU.

use std::ffi::c_void;

use super::shim::{accept_with, execute_with, finalize_with, free};
use crate::abi::{
    AcceptArgs, ExecArgs, FinalizeArgs, Finalized, GpuLaunch, GpuSink, GpuTable, KernelDef,
    KernelVTable, Workspace,
};
use crate::author::{
    Buffers, FinalizeCx, Io, MAX_OUTPUTS, Parallel, ScratchBuffers, SharedBuffers, WorkItem,
};
use crate::core::Core;
use crate::error::{Error, ExecError, Status};
use crate::gpu::{GpuKernel, KernelInfo, Launch, WorkItemFn};
use crate::span::{Span, StaticPtr, slice_or_empty};

impl KernelDef {
    /// Registers `K` as the GPU kernel of operator `op`.
    pub const fn gpu<K: GpuKernel>(op: &'static str) -> Self {
        Self::with_vtable(op, Core::GPU, gpu_vtable::<K>())
    }
}

struct GpuFns<K>(K);

impl<K: GpuKernel> GpuFns<K> {
    #[expect(clippy::cast_possible_truncation, reason = "a kernel has few launches")]
    const GPU: GpuTable = GpuTable {
        size: GpuTable::SIZE,
        work_items: K::WORK_ITEMS.len() as u32,
        info: Self::info,
        reserved_words: [0; 4],
    };
    const TABLE: KernelVTable = KernelVTable {
        size: KernelVTable::SIZE,
        reserved: 0,
        finalize: Self::finalize,
        execute: Self::execute,
        free: free::<GpuState<K>>,
        gpu: StaticPtr::new(&Self::GPU),
        accept: Some(Self::accept),
        needs: None,
        prepare: None,
        reserved_words: [0; 1],
    };

    // SAFETY: called only by the host, with a node and memory for a number as the ABI says.
    unsafe extern "C" fn accept(args: *const AcceptArgs, steps: *mut u32) -> u32 {
        // SAFETY: the host follows the ABI.
        unsafe { accept_with(args, steps, &K::accept) }
    }

    // SAFETY: called only by the host, with arguments as the ABI says and memory for one result.
    unsafe extern "C" fn finalize(args: *const FinalizeArgs, out: *mut Finalized) -> u32 {
        // SAFETY: the host follows the ABI.
        unsafe { finalize_with(args, out, GpuState::<K>::finalize) }
    }

    // SAFETY: called only by the host, with arguments as the ABI says and the state from finalize.
    unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
        // SAFETY: the host follows the ABI, and finalize created a `GpuState<K>`.
        unsafe { execute_with::<GpuState<K>>(args, GpuState::execute) }
    }

    // SAFETY: called only by the host, with the state from finalize and a sink that outlives the call.
    unsafe extern "C" fn info(state: *const c_void, sink: *const GpuSink) -> u32 {
        // SAFETY: the host passes the state from finalize.
        let state = unsafe { &*state.cast::<GpuState<K>>() };
        // SAFETY: the host passes a sink that is valid for the call.
        let sink = unsafe { &*sink };
        // SAFETY: the sink is valid for the call, and so is `info`, which belongs to the state.
        unsafe { send(&state.info, sink) }.code()
    }
}

/// Returns the functions of a GPU kernel.
const fn gpu_vtable<K: GpuKernel>() -> &'static KernelVTable {
    &GpuFns::<K>::TABLE
}

/// A finalized GPU kernel.
struct GpuState<K> {
    kernel: K,
    info: KernelInfo,
    scratch: ScratchBuffers,
}

impl<K: GpuKernel> GpuState<K> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<(Self, Workspace), Error> {
        let kernel = K::operation(cx)?;
        let (info, scratch) = kernel_info(cx, &|info| kernel.set_kernel_info(info))?;
        let workspace = scratch.workspace();
        Ok((Self { kernel, info, scratch }, workspace))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let run = |launch: usize, global_size, buffers: &Buffers<'_>, parallel: Parallel<'_>| {
            K::WORK_ITEMS.get(launch).map_or(Ok(()), |&work_item| {
                run_range(&self.kernel, work_item, global_size, buffers, parallel)
            })
        };
        if K::WORK_ITEMS.is_empty() {
            return Err(ExecError::new(Status::NO_WORK_ITEM));
        }
        run_launches(&self.info, &self.scratch, io, &run)
    }
}

/// Returns the launches that `set` declares, checked, and the layout of its scratch buffers.
fn kernel_info(
    cx: &FinalizeCx<'_>,
    set: &dyn Fn(&mut KernelInfo) -> Result<(), Error>,
) -> Result<(KernelInfo, ScratchBuffers), Error> {
    if cx.output_count() > MAX_OUTPUTS {
        let count = cx.output_count();
        return Err(Error::new(format!(
            "it has {count} outputs, a GPU kernel at most {MAX_OUTPUTS}"
        )));
    }
    let mut info = KernelInfo::default();
    set(&mut info)?;
    for sizes in info.launches.iter().map(|launch| launch.global_size) {
        if sizes.iter().try_fold(1usize, |total, &size| total.checked_mul(size)).is_none() {
            return Err(Error::new(format!("the global size {sizes:?} is too large")));
        }
    }
    let scratch = ScratchBuffers::with_sizes(&info.scratch).ok_or_else(|| {
        Error::new(format!("its scratch, {:?} bytes, is too large", info.scratch))
    })?;
    Ok((info, scratch))
}

/// Runs the launch with this number over its work items, divided among the host's threads.
type RunLaunch<'a> =
    dyn Fn(usize, [usize; 3], &Buffers<'_>, Parallel<'_>) -> Result<(), ExecError> + 'a;

/// Runs the launches of a kernel one after the other. Compiled once, and not for each kernel.
fn run_launches(
    info: &KernelInfo,
    scratch: &ScratchBuffers,
    io: Io<'_>,
    run: &RunLaunch<'_>,
) -> Result<(), ExecError> {
    let parallel = io.parallel;
    let shared = SharedBuffers::new(io, scratch)?;
    for (index, launch) in info.launches.iter().enumerate() {
        run(index, launch.global_size, &shared.buffers(), parallel)?;
    }
    Ok(())
}

/// The number of grains (blocks of consecutive work items) per thread: a few balance work items of unequal duration.
const GRAINS: usize = 4;

/// Runs every work item of a launch.
fn run_range<K: GpuKernel>(
    kernel: &K,
    work_item: WorkItemFn<K>,
    global_size: [usize; 3],
    buffers: &Buffers<'_>,
    parallel: Parallel<'_>,
) -> Result<(), ExecError> {
    let total: usize = global_size.iter().product();
    let grain_len = total.div_ceil(parallel.width() * GRAINS).max(1);
    parallel.run(total.div_ceil(grain_len), |index| {
        for item in index * grain_len..total.min((index + 1) * grain_len) {
            let [width, height, _] = global_size;
            let global_id = [item % width, item / width % height, item / (width * height)];
            work_item(kernel, WorkItem { global_id, global_size }, buffers)?;
        }
        Ok(())
    })
}

fn span<T>(elements: &[T]) -> Span {
    Span { ptr: elements.as_ptr().cast(), bytes: size_of_val(elements) }
}

/// Sends `info` to `sink`.
///
/// # Safety
/// `sink` must be valid as the ABI says.
pub unsafe fn send(info: &KernelInfo, sink: &GpuSink) -> Status {
    for &bytes in &info.scratch {
        // SAFETY: `ctx` belongs to the function.
        let status = unsafe { (sink.scratch)(sink.ctx, bytes) };
        if status != Status::OK.code() {
            return Status::from_code(status);
        }
    }
    for launch in &info.launches {
        let raw = GpuLaunch {
            size: GpuLaunch::SIZE,
            has_local: u32::from(launch.local_size.is_some()),
            source: span(launch.source.as_bytes()),
            name: span(launch.name.as_bytes()),
            options: span(launch.options.as_bytes()),
            args: launch.args.as_ptr(),
            arg_count: launch.args.len(),
            global: launch.global_size,
            local: launch.local_size.unwrap_or([0; 3]),
            reserved_words: [0; 4],
        };
        // SAFETY: `ctx` belongs to the function, and `raw` points to the contents of `launch`.
        let status = unsafe { (sink.launch)(sink.ctx, &raw const raw) };
        if status != Status::OK.code() {
            return Status::from_code(status);
        }
    }
    Status::OK
}

impl GpuLaunch {
    /// Copies the launch with its strings and arguments.
    ///
    /// # Errors
    /// A string is not UTF-8, or a reserved field is set.
    ///
    /// # Safety
    /// The pointers must be valid for as many elements as the counts say.
    pub unsafe fn to_launch(&self) -> Result<Launch, Error> {
        let text = |span: &Span, field: &str| {
            // SAFETY: the caller guarantees `span.bytes` bytes at `span.ptr`.
            let bytes = unsafe { slice_or_empty(span.ptr, span.bytes) };
            let text = std::str::from_utf8(bytes);
            text.map(str::to_owned).map_err(|_| Error::new(format!("its {field} is not UTF-8")))
        };
        if self.reserved_words != [0; 4] || self.has_local > 1 {
            return Err(Error::new("it sets reserved fields"));
        }
        let launch = Launch::new(text(&self.source, "source")?, text(&self.name, "kernel name")?)
            .options(text(&self.options, "build options")?)
            // SAFETY: the caller guarantees `arg_count` arguments at `args`.
            .args(unsafe { slice_or_empty(self.args, self.arg_count) }.iter().copied())
            .global_size(self.global);
        Ok(if self.has_local == 1 { launch.local_size(self.local) } else { launch })
    }
}
