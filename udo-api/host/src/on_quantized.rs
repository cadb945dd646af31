//! Float kernels called with quantized tensors: inputs are dequantized and outputs quantized around the call.

use std::ffi::c_void;
use std::fmt;
use std::mem::{align_of, size_of};
use std::{ptr, slice};

use udo_api::abi::{ExecArgs, FinalizeArgs, Finalized, KernelVTable, StaticPtr, TensorArg};
use udo_api::{Status, TensorDesc, Workspace};

use crate::Buffer;
use crate::kernel::FinalizedKernel;

/// A conversion between stored elements and the floats that a kernel uses.
pub trait Conversion: Send + Sync + fmt::Debug {
    /// Converts quantized values to floats, both as bytes.
    fn load(&self, values: &[u8], numbers: &mut [u8]);

    /// Converts floats to quantized values, both as bytes.
    fn store(&self, numbers: &[u8], values: &mut [u8]);
}

/// A tensor that the kernel uses as floats and its caller stores in another type.
#[derive(Debug)]
pub struct Converted {
    /// The kernel's tensor: dense, with fixed dimensions.
    pub numbers: TensorDesc,
    /// The size of the stored elements in bytes.
    pub stored_bytes: usize,
    /// The conversion of elements.
    pub conversion: Box<dyn Conversion>,
}

/// A converted tensor, and the position of its floats in the scratch.
#[derive(Debug)]
struct ConvertedTensor {
    converted: Converted,
    scratch_offset: usize,
}

/// The state of a kernel with converted tensors.
struct ConvertingKernel {
    inner: FinalizedKernel,
    inputs: usize,
    /// Inputs, then outputs; `None` for tensors that need no conversion.
    tensors: Vec<Option<ConvertedTensor>>,
    /// The offset of the inner call's tensor arguments in the scratch.
    args_offset: usize,
    /// The size of the scratch in bytes.
    bytes: usize,
}

/// The alignment of parts of the scratch.
const ALIGN: usize = 64;

const _: () = assert!(align_of::<TensorArg>() <= ALIGN);

static VTABLE: KernelVTable = KernelVTable {
    size: KernelVTable::SIZE,
    reserved: 0,
    finalize,
    execute,
    free,
    gpu: StaticPtr::NULL,
    accept: None,
    needs: None,
    prepare: None,
    reserved_words: [0; 1],
};

impl FinalizedKernel {
    /// Wraps this kernel for callers that store some of its tensors in another type. `conversions` describes the
    /// conversion of each of its `inputs` inputs and then of each output. A call converts through scratch; the wrapped
    /// kernel declares neither in-place pairs nor ties. Returns `None` if the scratch size overflows, or the kernel has
    /// geometry that is not filled.
    #[must_use]
    pub fn on_quantized(self, inputs: usize, conversions: Vec<Option<Converted>>) -> Option<Self> {
        let workspace = self.workspace();
        let has_unfilled_geometry = self.geometry_bytes() > 0 && self.filled_geometry().is_none();
        if workspace.wants_all_vtcm() || has_unfilled_geometry {
            return None;
        }
        let mut bytes = workspace.bytes();
        let mut reserve = |len: usize| {
            let start = bytes.checked_next_multiple_of(ALIGN)?;
            bytes = start.checked_add(len)?;
            Some(start)
        };
        let args_offset = reserve(size_of::<TensorArg>().checked_mul(conversions.len())?)?;
        let mut placed = Vec::with_capacity(conversions.len());
        for conversion in conversions {
            placed.push(match conversion {
                None => None,
                Some(converted) => Some(ConvertedTensor {
                    scratch_offset: reserve(converted.numbers.size_bytes())?,
                    converted,
                }),
            });
        }
        let boxed = |inner: Self| {
            let state = ConvertingKernel { inner, inputs, tensors: placed, args_offset, bytes };
            Box::into_raw(Box::new(state)).cast()
        };
        Some(self.wrapped(&VTABLE, Workspace::for_elements::<u8>(bytes), boxed))
    }
}

// SAFETY: matches the contract of `finalize`; it accesses nothing.
unsafe extern "C" fn finalize(_: *const FinalizeArgs, _: *mut Finalized) -> u32 {
    Status::BAD_CALL.code()
}

// SAFETY: `state` is the box from `on_quantized`, freed once.
unsafe extern "C" fn free(state: *mut c_void) {
    // SAFETY: `on_quantized` created it from a box, and nothing else frees it.
    drop(unsafe { Box::from_raw(state.cast::<ConvertingKernel>()) });
}

// SAFETY: `args` follow the contract for a kernel with the scratch and the tensors of `on_quantized`.
unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
    // SAFETY: the arguments are valid for the call, by the contract.
    let args = unsafe { &*args };
    // SAFETY: the state is the box from `on_quantized`, which lives as long as the kernel.
    let kernel = unsafe { &*args.state.cast::<ConvertingKernel>() };
    let outputs = kernel.tensors.len() - kernel.inputs;
    let counts = (usize::from(args.input_count), usize::from(args.output_count));
    if counts != (kernel.inputs, outputs) || args.scratch_bytes < kernel.bytes {
        return Status::BAD_CALL.code();
    }
    let count = kernel.tensors.len();
    // SAFETY: the caller passes one tensor per entry of `tensors`.
    let outer = unsafe { slice::from_raw_parts(args.tensors, count) };
    // SAFETY: the scratch has space for as many arguments from there on.
    let tensors = unsafe { args.scratch.add(kernel.args_offset) };
    #[expect(clippy::cast_ptr_alignment, reason = "scratch and its parts are aligned to 64 bytes")]
    let tensors = tensors.cast::<TensorArg>();
    // SAFETY: source and target hold `count` arguments, which are plain data, and do not overlap.
    unsafe { ptr::copy_nonoverlapping(args.tensors, tensors, count) };
    // SAFETY: they were just initialised, and there are no other references to them.
    let inner = unsafe { slice::from_raw_parts_mut(tensors, count) };
    let ports = kernel.tensors.iter().zip(outer.iter().zip(inner)).enumerate();
    for (port, (tensor, (outer, inner))) in ports {
        let Some(tensor) = tensor else { continue };
        // SAFETY: the scratch holds the floats of this tensor at that position.
        let numbers = unsafe { args.scratch.add(tensor.scratch_offset) };
        *inner = TensorArg::new(&tensor.converted.numbers, numbers);
        if port >= kernel.inputs || tensor.converted.stored_bytes == 0 {
            continue;
        }
        let [stored_len, float_len] =
            [tensor.converted.stored_bytes, tensor.converted.numbers.size_bytes()];
        // SAFETY: an input has its elements at `data`.
        let values = unsafe { slice::from_raw_parts(outer.data.cast_const(), stored_len) };
        // SAFETY: the scratch has this many bytes there, without other references.
        let numbers = unsafe { slice::from_raw_parts_mut(numbers, float_len) };
        tensor.converted.conversion.load(values, numbers);
    }
    let geometry = kernel.inner.filled_geometry();
    let call = ExecArgs {
        size: ExecArgs::SIZE,
        state: kernel.inner.state(),
        tensors,
        scratch_bytes: kernel.inner.workspace().bytes(),
        packed: args.packed,
        scratch: args.scratch,
        guard: args.guard,
        parallel: args.parallel,
        input_count: args.input_count,
        output_count: args.output_count,
        packed_count: args.packed_count,
        reserved: args.reserved,
        untaken: args.untaken,
        unsaid: args.unsaid,
        geometry: geometry.map_or(ptr::null_mut(), Buffer::as_ptr),
        geometry_bytes: geometry.map_or(0, Buffer::len),
    };
    // SAFETY: the arguments are valid for the inner kernel: its tensors as floats, its scratch at the start of this
    // one.
    let status = unsafe { (kernel.inner.execute_fn())(&raw const call) };
    if status != Status::OK.code() {
        return status;
    }
    for (tensor, outer) in kernel.tensors.iter().zip(outer).skip(kernel.inputs) {
        let Some(tensor) = tensor.as_ref().filter(|tensor| tensor.converted.stored_bytes > 0)
        else {
            continue;
        };
        // SAFETY: the scratch holds the floats of this tensor at that position.
        let numbers = unsafe { args.scratch.add(tensor.scratch_offset) };
        // SAFETY: the inner kernel wrote them, and its call has returned.
        let numbers =
            unsafe { slice::from_raw_parts(numbers, tensor.converted.numbers.size_bytes()) };
        // SAFETY: an output has memory for its elements at `data`, without other references.
        let values =
            unsafe { slice::from_raw_parts_mut(outer.data, tensor.converted.stored_bytes) };
        tensor.converted.conversion.store(numbers, values);
    }
    status
}
