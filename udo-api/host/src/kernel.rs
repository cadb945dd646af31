//! Kernels that are finalized for one node: their state, their packed constants, and the arguments of their calls.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use udo_api::abi::{
    AcceptArgs, ExecArgs, FinalizeArgs, Finalized, GpuArgKind, KernelVTable, ParallelTable, Span,
    TensorArg, Tie, Work, ties,
};
use udo_api::export::kernel_vtable;
use udo_api::guard::LibraryGuard;
use udo_api::{InPlace, Kernel, KernelDef, KernelInfo, Status, TensorDesc, Workspace};

use crate::callee::calling;
use crate::geometry::{self, ExecuteFn, Geometry};
use crate::launch;
use crate::node::{ErrorText, RawNode, refuse};
use crate::pack::{Job, Packing, Requests, Source};
use crate::{Budget, Buffer, Machine, PackStore, PackedBytes, PlacedNode, Refusal};

/// A finalized kernel and its packed constants; freed when dropped.
pub struct FinalizedKernel {
    vtable: &'static KernelVTable,
    in_place: &'static [InPlace],
    state: *mut c_void,
    workspace: Workspace,
    geometry: Option<Geometry>,
    jobs: Vec<Job>,
    /// The inputs that execute reads although a packed constant has them as a source.
    read_inputs: Vec<usize>,
    ties: Vec<Tie>,
    work: Option<Work>,
    gpu_info: Option<KernelInfo>,
    packed: Vec<Arc<PackedBytes>>,
    spans: Vec<Span>,
}

// SAFETY: the contract requires kernels to be `Send`; the `body` of a job is static, and `packed` and the targets of
// `spans` move along.
unsafe impl Send for FinalizedKernel {}
// SAFETY: the contract requires kernels to be `Sync`, and packed buffers are only read.
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
        // SAFETY: finalize, `from_kernel` or `wrapped` created the state, and nothing else frees it.
        unsafe { (self.vtable.free)(self.state) };
    }
}

impl FinalizedKernel {
    /// Wraps a kernel of the host, without geometry, in the functions that packages use.
    pub fn from_kernel<K: Kernel>(kernel: K) -> Self {
        let workspace = kernel.workspace();
        Self {
            vtable: kernel_vtable::<K>(),
            in_place: &[],
            state: Box::into_raw(Box::new(kernel)).cast(),
            workspace,
            geometry: None,
            jobs: Vec::new(),
            read_inputs: Vec::new(),
            ties: Vec::new(),
            work: None,
            gpu_info: None,
            packed: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Replaces this kernel by one of the host's, which gets the packed constants and the ties of this one.
    #[must_use]
    pub fn hosted_by<K: Kernel>(mut self, kernel: K) -> Self {
        let mut hosted = Self::from_kernel(kernel);
        hosted.jobs = std::mem::take(&mut self.jobs);
        hosted.read_inputs = std::mem::take(&mut self.read_inputs);
        hosted.work = self.work;
        hosted.ties = std::mem::take(&mut self.ties);
        hosted
    }

    /// Wraps this kernel in one of the host's, which gets the packed constants of this one. `state` creates the state
    /// of `vtable` from this kernel.
    pub(crate) fn wrapped(
        mut self,
        vtable: &'static KernelVTable,
        workspace: Workspace,
        state: impl FnOnce(Self) -> *mut c_void,
    ) -> Self {
        let (jobs, read_inputs) =
            (std::mem::take(&mut self.jobs), std::mem::take(&mut self.read_inputs));
        let work = self.work;
        let (ties, packed, spans) = (Vec::new(), Vec::new(), Vec::new());
        let (in_place, geometry, gpu_info): (&[InPlace], _, _) = (&[], None, None);
        let state = state(self);
        Self {
            vtable,
            in_place,
            state,
            workspace,
            geometry,
            jobs,
            read_inputs,
            ties,
            work,
            gpu_info,
            packed,
            spans,
        }
    }

    /// Returns the state from finalize.
    pub fn state(&self) -> *const c_void {
        self.state
    }

    /// Returns the geometry that was filled once; `None` without one.
    pub(crate) fn filled_geometry(&self) -> Option<&Buffer> {
        self.geometry.as_ref()?.filled.as_ref()
    }

    /// Returns the scratch of a call.
    pub fn workspace(&self) -> Workspace {
        self.workspace
    }

    /// Returns the size of the geometry in bytes, which depends on the shapes of the inputs.
    pub fn geometry_bytes(&self) -> usize {
        self.geometry.as_ref().map_or(0, |geometry| geometry.bytes)
    }

    /// Fills the geometry if all shapes are fixed; otherwise each session calls [`FinalizedKernel::prepare_fn`].
    ///
    /// # Errors
    /// The kernel refuses the shapes or panics, or `budget` is exhausted.
    pub fn prepare(&mut self, budget: &Budget, guard: LibraryGuard) -> Result<(), Refusal> {
        let state = self.state;
        if let Some(geometry) = self.geometry.as_mut().filter(|geometry| geometry.is_fixed()) {
            geometry.filled = Some(geometry.fill(state, budget, guard)?);
        }
        Ok(())
    }

    /// Returns the function that fills the geometry in the arguments of a call; `None` without geometry, or if it was
    /// filled once.
    pub fn prepare_fn(&self) -> Option<ExecuteFn> {
        let geometry = self.geometry.as_ref()?;
        (!geometry.is_fixed()).then_some(geometry.prepare)
    }

    /// Returns the outputs that may be written in place of an input.
    pub fn in_place_pairs(&self) -> &'static [InPlace] {
        self.in_place
    }

    /// Returns the declared ties of inputs and outputs.
    pub fn ties(&self) -> &[Tie] {
        &self.ties
    }

    /// Returns the work of a call, if the kernel declared it.
    pub fn work(&self) -> Option<Work> {
        self.work
    }

    /// Whether execute reads input `input` itself, not only constants packed from it.
    pub fn reads(&self, input: usize) -> bool {
        self.read_inputs.contains(&input)
            || !self.jobs.iter().any(|job| job.inputs().contains(&input))
    }

    /// Returns the inputs that execute reads although they are packed.
    pub fn retained_inputs(&self) -> &[usize] {
        &self.read_inputs
    }

    /// Returns the requested packed constants.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the number of requested packed constants.
    pub fn pack_count(&self) -> usize {
        self.jobs.len()
    }

    /// Iterates over the source inputs and the size of each packed constant.
    pub fn packs(&self) -> impl Iterator<Item = (&[usize], usize)> {
        self.jobs.iter().map(|job| (job.inputs(), job.bytes()))
    }

    /// Fills the requested packed constants from the constant inputs of finalize; packers may use the threads of
    /// `parallel`.
    ///
    /// # Errors
    /// A packer refuses or panics, or an input is missing.
    pub fn pack<'a>(
        &mut self,
        source: impl Fn(usize) -> Option<Source<'a>>,
        store: &PackStore,
        parallel: Option<&ParallelTable>,
    ) -> Result<(), Refusal> {
        let mut packed = Vec::with_capacity(self.jobs.len());
        for job in &self.jobs {
            let sources: Option<Vec<_>> = job.inputs().iter().map(|&input| source(input)).collect();
            let sources = sources.ok_or_else(|| Refusal {
                status: Status::BAD_CALL,
                message: format!("inputs {:?} are not all constant", job.inputs()),
            })?;
            packed.push(job.run(&sources, store, parallel)?);
        }
        self.spans = packed.iter().map(|b| Span { ptr: b.as_ptr(), bytes: b.len() }).collect();
        self.packed = packed;
        Ok(())
    }

    /// Returns the packed constants after packing.
    pub fn packed(&self) -> &[Arc<PackedBytes>] {
        &self.packed
    }

    /// Returns the execute function.
    pub fn execute_fn(&self) -> ExecuteFn {
        self.vtable.execute
    }

    /// Builds the arguments of a call over `inputs` and `outputs` tensors stored consecutively at `tensors`. The caller
    /// must still set the calling thread's guard, and the geometry if it was not filled once. `owed` is the result of
    /// [`ExecArgs::owed`] for the outputs.
    ///
    /// The arguments are valid while the kernel, the scratch and the targets of the pointers stay in place.
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
        let filled = self.filled_geometry();
        ExecArgs {
            size: ExecArgs::SIZE,
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
            reserved: [0; 3],
            untaken,
            unsaid,
            geometry: filled.map_or(std::ptr::null_mut(), Buffer::as_ptr),
            geometry_bytes: filled.map_or(0, Buffer::len),
        }
    }

    /// Returns whether a GPU kernel can run on the host; `None` for other kernels.
    pub fn has_work_item(&self) -> Option<bool> {
        self.vtable.gpu.get().map(|gpu| gpu.work_items != 0)
    }

    /// Returns how a device runs it, if it is a GPU kernel; all arguments are validated.
    pub fn gpu_info(&self) -> Option<&KernelInfo> {
        self.gpu_info.as_ref()
    }

    /// Returns the size of each requested packed constant in bytes.
    pub fn packed_bytes(&self) -> Vec<usize> {
        self.jobs.iter().map(Job::bytes).collect()
    }
}

/// Returns how many leading epilogue steps the kernel of `def` accepts for the node.
///
/// # Errors
/// The kernel refuses the node, or accepts more steps than there are.
pub fn accept(def: &KernelDef, placed: &PlacedNode<'_>) -> Result<usize, Refusal> {
    let Some(ask) = def.vtable().and_then(|vtable| vtable.accept) else { return Ok(0) };
    let mut errors = ErrorText::default();
    let raw = RawNode::new(&placed.node, &mut errors);
    let args = AcceptArgs {
        size: AcceptArgs::SIZE,
        reserved: 0,
        node: raw.args(&placed.node),
        outputs: placed.outputs.as_ptr(),
        core: placed.core,
        epilogue_count: placed.epilogue_count(),
        epilogue: placed.epilogue.as_ptr(),
        reserved_words: [0; 4],
    };
    let mut steps = 0;
    // SAFETY: `args` points to the contents of `placed` and `raw`, with matching counts; they and `steps` outlive the
    // call.
    let status = calling(def, || unsafe { ask(&raw const args, &raw mut steps) });
    refuse(status, errors.into())?;
    if steps > placed.epilogue_count() {
        let count = placed.epilogue.len();
        let message = format!("accept takes {steps} steps of an epilogue that has {count}");
        return Err(Refusal { status: Status::BAD_CALL, message });
    }
    Ok(steps as usize)
}

/// Finalizes the kernel of `def` for one node. [`FinalizedKernel::pack`] must fill its packed constants before it
/// executes.
///
/// # Errors
/// The kernel refuses the node.
pub fn finalize(
    def: &KernelDef,
    placed: &PlacedNode<'_>,
    machine: Machine,
) -> Result<FinalizedKernel, Refusal> {
    let mut errors = ErrorText::default();
    let raw = RawNode::new(&placed.node, &mut errors);
    let Some(vtable) = def.vtable() else {
        let message = "the kernel has no functions".to_owned();
        return Err(Refusal { status: Status::BAD_CALL, message });
    };
    let packing = Packing::default();
    let host = packing.table(machine);
    let args = FinalizeArgs {
        size: FinalizeArgs::SIZE,
        reserved: 0,
        node: raw.args(&placed.node),
        outputs: placed.outputs.as_ptr(),
        core: placed.core,
        epilogue_count: placed.epilogue_count(),
        host: &raw const host,
        epilogue: placed.epilogue.as_ptr(),
        reserved_words: [0; 3],
    };
    let mut finalized =
        Finalized { state: std::ptr::null_mut(), workspace: Workspace::NONE, reserved: [0; 4] };
    // SAFETY: `args` points to the contents of `placed` and `raw`, with matching counts, and to `host`; all of them and
    // `finalized` outlive the call.
    let status = calling(def, || unsafe { (vtable.finalize)(&raw const args, &raw mut finalized) });
    refuse(status, errors.into())?;
    let Requests { jobs, read_inputs, ties, work } = packing.into_requests();
    // From here on, dropping `kernel` frees the state.
    let mut kernel = FinalizedKernel {
        vtable,
        in_place: def.in_place_pairs(),
        state: finalized.state,
        workspace: finalized.workspace,
        geometry: None,
        jobs,
        read_inputs,
        ties,
        work,
        gpu_info: None,
        packed: Vec::new(),
        spans: Vec::new(),
    };
    if finalized.workspace.has_unknown_flags() || finalized.reserved != [0; 4] {
        let message = "finalize sets reserved fields".to_owned();
        return Err(Refusal { status: Status::BAD_CALL, message });
    }
    if let Some(tie) = kernel.ties.iter().find(|tie| !is_sound(tie, placed)) {
        let Tie { kind, input, output, axis, offset, .. } = tie;
        let message = format!(
            "finalize ties output {output} to input {input} by kind {kind} at {offset} of axis {axis}, which is not valid"
        );
        return Err(Refusal { status: Status::BAD_CALL, message });
    }
    if let Some(gpu) = vtable.gpu.get() {
        // SAFETY: `state` is from this kernel's finalize.
        let info = unsafe { launch::info(gpu, kernel.state, placed, kernel.jobs.len()) }?;
        // Execute reads the arguments of launches, packed or not.
        kernel.read_inputs.extend(info.launches.iter().flat_map(|launch| &launch.args).filter_map(
            |arg| match arg.get() {
                Some(GpuArgKind::Input(port)) => usize::try_from(port).ok(),
                Some(_) | None => None,
            },
        ));
        kernel.gpu_info = Some(info);
    }
    // As in execute, inputs that are only packed are absent.
    let mut inputs = placed.node.inputs.clone();
    for (port, desc) in inputs.iter_mut().enumerate() {
        if !kernel.reads(port) {
            *desc = TensorDesc::ABSENT;
        }
    }
    (kernel.workspace, kernel.geometry) =
        geometry::needs(vtable, kernel.state, &inputs, kernel.workspace)?;
    Ok(kernel)
}

/// Whether the input and the output of a tie can hold the same elements.
fn is_sound(tie: &Tie, placed: &PlacedNode<'_>) -> bool {
    let input = placed.node.inputs.get(tie.input as usize);
    let output = placed.outputs.get(tie.output as usize);
    let (Some(input), Some(output)) = (input, output) else { return false };
    let is_clear = tie.reserved == 0 && tie.reserved_words == [0; 2];
    let (part, whole) = match tie.kind {
        ties::SAME => return is_clear && input.len() == output.len(),
        ties::OUTPUT_IN_INPUT => (output.shape(), input.shape()),
        ties::INPUT_IN_OUTPUT => (input.shape(), output.shape()),
        _ => return false,
    };
    let axis = tie.axis as usize;
    let mut extents = part.iter().zip(whole).enumerate();
    let fits = |(at, (part, whole)): (usize, (&usize, &usize))| {
        if at != axis {
            return part == whole;
        }
        let end = usize::try_from(tie.offset).ok().and_then(|offset| offset.checked_add(*part));
        end.is_some_and(|end| end <= *whole)
    };
    is_clear
        && axis < whole.len()
        && part.len() == whole.len()
        && input.dtype() == output.dtype()
        && extents.all(fits)
}
