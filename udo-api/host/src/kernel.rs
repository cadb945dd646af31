//! Kernels that have been finalized for one node.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use udo_api::abi::{
    ExecArgs, FinalizeArgs, Finalized, KernelInfo, KernelVTable, PARAMS_TRACKED, ParallelTable,
    Span, TensorArg, kernel_vtable,
};
use udo_api::{Core, InPlace, Kernel, KernelDef, KernelFlags, Status, TensorDesc, Workspace};

use crate::node::{ErrorText, RawNode, refuse};
use crate::pack::{Job, Packing, Source};
use crate::{Buffer, NodeDesc, PackStore, Refusal};

/// `[execute-time, thread-safe, heap-free]` Runs a kernel once.
// SAFETY: only a type; who calls through it passes arguments as `FinalizedKernel::exec_args` makes them.
pub type ExecuteFn = unsafe extern "C" fn(args: *const ExecArgs) -> u32;

/// A finalized kernel and its packed constants; freed when dropped.
pub struct FinalizedKernel {
    vtable: &'static KernelVTable,
    in_place: &'static [InPlace],
    flags: KernelFlags,
    state: *mut c_void,
    workspace: Workspace,
    params_read: u64,
    jobs: Vec<Job>,
    kept: Vec<usize>,
    packed: Vec<Arc<Buffer>>,
    spans: Vec<Span>,
}

// SAFETY: the contract wants kernels to be `Send`; the `body` of a job is static, `packed` and what `spans` point to
// move along.
unsafe impl Send for FinalizedKernel {}
// SAFETY: the contract wants kernels to be `Sync`, and packed buffers are only read.
unsafe impl Sync for FinalizedKernel {}

impl fmt::Debug for FinalizedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalizedKernel")
            .field("workspace", &self.workspace)
            .field("packed", &self.packed)
            .finish_non_exhaustive()
    }
}

impl Drop for FinalizedKernel {
    fn drop(&mut self) {
        // SAFETY: finalize or `hosted` made the state, nothing executes it any more, and this happens once.
        unsafe { (self.vtable.free)(self.state) };
    }
}

impl FinalizedKernel {
    /// A kernel that the host made itself, behind the same functions as those of packages.
    pub fn hosted<K: Kernel>(kernel: K) -> Self {
        let workspace = kernel.workspace();
        Self {
            vtable: kernel_vtable::<K>(),
            in_place: &[],
            flags: KernelFlags::NONE,
            state: Box::into_raw(Box::new(kernel)).cast(),
            workspace,
            params_read: 0,
            jobs: Vec::new(),
            kept: Vec::new(),
            packed: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// The scratch that it wants.
    pub fn workspace(&self) -> Workspace {
        self.workspace
    }

    /// What it can do.
    pub fn flags(&self) -> KernelFlags {
        self.flags
    }

    /// The outputs that may take the place of an input.
    pub fn in_place_pairs(&self) -> &'static [InPlace] {
        self.in_place
    }

    /// Whether finalize asked for parameter `index` of the schema; nothing where nobody counts.
    pub fn has_read_param(&self, index: usize) -> Option<bool> {
        let bit =
            1u64.checked_shl(u32::try_from(index).ok()?).filter(|bit| bit & PARAMS_TRACKED == 0)?;
        (self.params_read & PARAMS_TRACKED != 0).then_some(self.params_read & bit != 0)
    }

    /// Whether execute reads input `input`, rather than only what was packed of it.
    pub fn reads(&self, input: usize) -> bool {
        self.kept.contains(&input) || !self.jobs.iter().any(|job| job.inputs().contains(&input))
    }

    /// How many packed constants it asked for.
    pub fn pack_count(&self) -> usize {
        self.jobs.len()
    }

    /// Makes the packed constants that it asked for, out of its constant inputs as it saw them in finalize.
    ///
    /// # Errors
    /// A packer refuses or panics, or an input is not there.
    pub fn pack<'a>(
        &mut self,
        source: impl Fn(usize) -> Option<Source<'a>>,
        store: &PackStore,
    ) -> Result<(), Refusal> {
        let mut packed = Vec::with_capacity(self.jobs.len());
        for job in &self.jobs {
            let sources: Option<Vec<_>> = job.inputs().iter().map(|&input| source(input)).collect();
            let sources = sources.ok_or_else(|| Refusal {
                status: Status::BAD_CALL,
                message: format!("inputs {:?} are not all constant", job.inputs()),
            })?;
            packed.push(job.run(&sources, store)?);
        }
        self.spans = packed.iter().map(|b| Span { ptr: b.as_ptr(), bytes: b.len() }).collect();
        self.packed = packed;
        Ok(())
    }

    /// The packed constants, once they are made.
    pub fn packed(&self) -> &[Arc<Buffer>] {
        &self.packed
    }

    /// The function that runs it.
    pub fn execute_fn(&self) -> ExecuteFn {
        self.vtable.execute
    }

    /// The arguments of a call over `inputs` and `outputs` tensors that lie behind each other at `tensors`;
    /// the calling thread's guard is still to be filled in. `owed` is what [`ExecArgs::owed`] says of the outputs.
    ///
    /// The arguments are valid while the kernel, the scratch and what the pointers lead to stay where they are.
    pub fn exec_args(
        &self,
        tensors: *mut TensorArg,
        (inputs, outputs): (usize, usize),
        [untaken, unsaid]: [u64; 2],
        scratch: &Buffer,
        parallel: *const ParallelTable,
    ) -> ExecArgs {
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let wants_all = self.workspace.wants_all_vtcm();
        ExecArgs {
            state: self.state,
            tensors,
            packed: self.spans.as_ptr(),
            scratch: scratch.as_ptr(),
            scratch_bytes: if wants_all { scratch.len() } else { self.workspace.bytes() },
            guard: std::ptr::null_mut(),
            parallel,
            input_count: count(inputs),
            output_count: count(outputs),
            packed_count: count(self.spans.len()),
            reserved: 0,
            untaken,
            unsaid,
        }
    }

    /// Whether it is a GPU kernel that can run on the host.
    pub fn has_work_item(&self) -> Option<bool> {
        self.vtable.gpu.map(|gpu| gpu.has_work_item != 0)
    }

    /// How a device runs it, if it is a GPU kernel.
    pub fn gpu_info(&self) -> Option<KernelInfo> {
        let gpu = self.vtable.gpu?;
        let mut info = MaybeUninit::<KernelInfo>::zeroed();
        // SAFETY: `state` is this kernel's, and `info` has room for one description.
        let status = unsafe { (gpu.info)(self.state, info.as_mut_ptr()) };
        // SAFETY: zero is a value of every field, whatever the callee filled in.
        (status == Status::OK.code()).then(|| unsafe { info.assume_init() })
    }
}

/// Makes the kernel that `def` stands for, for one node on `core`. What it packs is made by
/// [`FinalizedKernel::pack`], which must be called before it executes.
///
/// # Errors
/// The kernel refuses the node.
pub fn finalize(
    def: &KernelDef,
    core: Core,
    node: &NodeDesc<'_>,
    outputs: &[TensorDesc],
) -> Result<FinalizedKernel, Refusal> {
    let mut errors = ErrorText::default();
    let node = &NodeDesc { output_count: outputs.len(), ..node.clone() };
    let raw = RawNode::new(node, &mut errors);
    let vtable = def.vtable();
    let packing = Packing::default();
    let host = packing.table();
    let args = FinalizeArgs {
        node: raw.args(node),
        outputs: outputs.as_ptr(),
        core,
        reserved: 0,
        host: &raw const host,
        reserved_words: [0; 4],
    };
    let mut made = Finalized {
        state: std::ptr::null_mut(),
        workspace: Workspace::NONE,
        params_read: 0,
        reserved: [0; 3],
    };
    // SAFETY: `args` points to what `node`, `raw` and `outputs` hold, as many as its counts say, and to `host`;
    // all of them and `made` outlive the call.
    let status = unsafe { (vtable.finalize)(&raw const args, &raw mut made) };
    refuse(status, errors.into())?;
    if made.workspace.has_unknown_flags() || made.reserved != [0; 3] {
        // SAFETY: finalize made `made.state`, and nobody has it but us.
        unsafe { (vtable.free)(made.state) };
        let message = "finalize sets reserved fields".to_owned();
        return Err(Refusal { status: Status::BAD_CALL, message });
    }
    let (jobs, kept) = packing.into_parts();
    Ok(FinalizedKernel {
        vtable,
        in_place: def.in_place_pairs(),
        flags: def.known_flags(),
        state: made.state,
        workspace: made.workspace,
        params_read: made.params_read,
        jobs,
        kept,
        packed: Vec::new(),
        spans: Vec::new(),
    })
}
