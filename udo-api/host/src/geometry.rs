//! The memory that a finalized kernel needs for the shapes of its inputs: scratch, and geometry (data that it computes
//! once per set of shapes).

use std::ffi::c_void;
use std::ptr;

use udo_api::abi::{ExecArgs, KernelVTable, NeededBytes, NeedsArgs, TensorArg};
use udo_api::guard::LibraryGuard;
use udo_api::{Status, TensorDesc, Workspace};

use crate::node::{ErrorText, refuse};
use crate::{Budget, Buffer, Refusal, failure};

/// `[execute-time, thread-safe, heap-free]` Runs a kernel once.
// SAFETY: only a type; callers pass arguments from `FinalizedKernel::exec_args`.
pub type ExecuteFn = unsafe extern "C" fn(args: *const ExecArgs) -> u32;

/// The geometry of a kernel, and the inputs that it depends on.
#[derive(Debug)]
pub(crate) struct Geometry {
    pub(crate) prepare: ExecuteFn,
    pub(crate) bytes: usize,
    inputs: Vec<TensorDesc>,
    /// The geometry filled once, if all shapes are fixed.
    pub(crate) filled: Option<Buffer>,
}

impl Geometry {
    /// Whether the input shapes are the same in all runs.
    pub(crate) fn is_fixed(&self) -> bool {
        self.inputs.iter().all(|desc| desc.full_shape().is_fixed())
    }

    /// Fills the geometry for inputs at their bounds.
    pub(crate) fn fill(
        &self,
        state: *const c_void,
        budget: &Budget,
        guard: LibraryGuard,
    ) -> Result<Buffer, Refusal> {
        let buffer = budget
            .zeroed(self.bytes)
            .map_err(|error| Refusal { status: Status::FAILED, message: error.to_string() })?;
        let mut inputs = without_elements(&self.inputs);
        let args = ExecArgs {
            size: ExecArgs::SIZE,
            state,
            tensors: inputs.as_mut_ptr(),
            packed: ptr::null(),
            scratch: ptr::null_mut(),
            scratch_bytes: 0,
            guard: guard.cell(),
            parallel: ptr::null(),
            input_count: u16::try_from(inputs.len()).unwrap_or(u16::MAX),
            output_count: 0,
            packed_count: 0,
            reserved: [0; 3],
            untaken: 0,
            unsaid: 0,
            geometry: buffer.as_ptr(),
            geometry_bytes: self.bytes,
        };
        // SAFETY: `args` points to `inputs` and to `bytes` writable bytes of `buffer` without other references; both
        // outlive the call, and `state` is from finalize.
        let status = unsafe { (self.prepare)(&raw const args) };
        if status == Status::OK.code() {
            return Ok(buffer);
        }
        Err(Refusal { status: Status::FAILED, message: failure(status, guard).to_string() })
    }
}

/// Calls a finalized kernel's `needs` for inputs at their bounds: its scratch, and its geometry if it has one.
/// `finalize_scratch` is the scratch that finalize stated, for kernels without `needs`.
pub(crate) fn needs(
    vtable: &KernelVTable,
    state: *const c_void,
    descs: &[TensorDesc],
    finalize_scratch: Workspace,
) -> Result<(Workspace, Option<Geometry>), Refusal> {
    let Some(needs) = vtable.needs else { return Ok((finalize_scratch, None)) };
    let inputs = without_elements(descs);
    let mut errors = ErrorText::default();
    let sink = errors.sink();
    let args = NeedsArgs {
        size: NeedsArgs::SIZE,
        state,
        inputs: inputs.as_ptr(),
        input_count: u32::try_from(inputs.len()).unwrap_or(u32::MAX),
        errors: &raw const sink,
        reserved_words: [0; 4],
    };
    let mut needed =
        NeededBytes { scratch: Workspace::NONE, geometry_bytes: 0, reserved_words: [0; 3] };
    // SAFETY: `args` points to `inputs` and `sink`; they and `needed` outlive the call, and `state` is from finalize.
    let status = unsafe { needs(&raw const args, &raw mut needed) };
    refuse(status, errors.into())?;
    let NeededBytes { scratch, geometry_bytes: bytes, reserved_words } = needed;
    let refusal = |message: &str| Refusal { status: Status::BAD_CALL, message: message.to_owned() };
    if scratch.has_unknown_flags() || reserved_words != [0; 3] {
        return Err(refusal("needs sets reserved fields"));
    }
    let geometry = match (bytes, vtable.prepare) {
        (0, _) => None,
        (_, None) => return Err(refusal("needs requests geometry, but the kernel has no prepare")),
        (_, Some(prepare)) => {
            Some(Geometry { prepare, bytes, inputs: descs.to_vec(), filled: None })
        }
    };
    Ok((scratch, geometry))
}

/// Returns the inputs at their bounds, without elements.
fn without_elements(descs: &[TensorDesc]) -> Vec<TensorArg> {
    descs.iter().map(|desc| TensorArg::new(desc, ptr::null_mut())).collect()
}
