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
    of: Converted,
    at: usize,
}

/// The state of a kernel with converted tensors.
struct ConvertingKernel {
    inner: FinalizedKernel,
    inputs: usize,
    /// Inputs, then outputs; `None` for tensors that need no conversion.
    ways: Vec<Option<ConvertedTensor>>,
    /// The position of the inner call's tensor arguments in the scratch.
    tensors_at: usize,
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
    /// Wraps this kernel for callers that store some of its tensors in another type. `ways` describes the conversion of
    /// each of its `inputs` inputs and then of each output. A call converts through scratch; the wrapped kernel
    /// declares neither in-place pairs nor ties. Returns `None` if the scratch size overflows, or the kernel has
    /// geometry that is not filled.
    #[must_use]
    pub fn on_quantized(self, inputs: usize, ways: Vec<Option<Converted>>) -> Option<Self> {
        let workspace = self.workspace();
        let is_open = self.geometry_bytes() > 0 && self.filled_geometry().is_none();
        if workspace.wants_all_vtcm() || is_open {
            return None;
        }
        let mut bytes = workspace.bytes();
        let mut take = |len: usize| {
            let at = bytes.checked_next_multiple_of(ALIGN)?;
            bytes = at.checked_add(len)?;
            Some(at)
        };
        let tensors_at = take(size_of::<TensorArg>().checked_mul(ways.len())?)?;
        let mut placed = Vec::with_capacity(ways.len());
        for way in ways {
            placed.push(match way {
                None => None,
                Some(of) => Some(ConvertedTensor { at: take(of.numbers.size_bytes())?, of }),
            });
        }
        let boxed = |inner: Self| {
            let state = ConvertingKernel { inner, inputs, ways: placed, tensors_at, bytes };
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
    let own = unsafe { &*args.state.cast::<ConvertingKernel>() };
    let outputs = own.ways.len() - own.inputs;
    let counts = (usize::from(args.input_count), usize::from(args.output_count));
    if counts != (own.inputs, outputs) || args.scratch_bytes < own.bytes {
        return Status::BAD_CALL.code();
    }
    let count = own.ways.len();
    // SAFETY: the caller passes one tensor per entry of `ways`.
    let outer = unsafe { slice::from_raw_parts(args.tensors, count) };
    // SAFETY: the scratch has space for as many arguments from there on.
    let tensors = unsafe { args.scratch.add(own.tensors_at) };
    #[expect(clippy::cast_ptr_alignment, reason = "scratch and its parts are aligned to 64 bytes")]
    let tensors = tensors.cast::<TensorArg>();
    // SAFETY: source and target hold `count` arguments, which are plain data, and do not overlap.
    unsafe { ptr::copy_nonoverlapping(args.tensors, tensors, count) };
    // SAFETY: they were just initialised, and there are no other references to them.
    let inner = unsafe { slice::from_raw_parts_mut(tensors, count) };
    for (port, (way, (outer, inner))) in own.ways.iter().zip(outer.iter().zip(inner)).enumerate() {
        let Some(way) = way else { continue };
        // SAFETY: the scratch holds the floats of this tensor at that position.
        let numbers = unsafe { args.scratch.add(way.at) };
        *inner = TensorArg::new(&way.of.numbers, numbers);
        if port >= own.inputs || way.of.stored_bytes == 0 {
            continue;
        }
        // SAFETY: an input has its elements at `data`.
        let values = unsafe { slice::from_raw_parts(outer.data.cast_const(), way.of.stored_bytes) };
        // SAFETY: the scratch has this many bytes there, without other references.
        let numbers = unsafe { slice::from_raw_parts_mut(numbers, way.of.numbers.size_bytes()) };
        way.of.conversion.load(values, numbers);
    }
    let geometry = own.inner.filled_geometry();
    let call = ExecArgs {
        size: ExecArgs::SIZE,
        state: own.inner.state(),
        tensors,
        scratch_bytes: own.inner.workspace().bytes(),
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
    // SAFETY: the arguments are valid for the inner kernel: its tensors as floats, its scratch at the start of ours.
    let status = unsafe { (own.inner.execute_fn())(&raw const call) };
    if status != Status::OK.code() {
        return status;
    }
    for (way, outer) in own.ways.iter().zip(outer).skip(own.inputs) {
        let Some(way) = way.as_ref().filter(|way| way.of.stored_bytes > 0) else { continue };
        // SAFETY: the scratch holds the floats of this tensor at that position.
        let numbers = unsafe { args.scratch.add(way.at) };
        // SAFETY: the inner kernel wrote them, and its call has returned.
        let numbers = unsafe { slice::from_raw_parts(numbers, way.of.numbers.size_bytes()) };
        // SAFETY: an output has memory for its elements at `data`, without other references.
        let values = unsafe { slice::from_raw_parts_mut(outer.data, way.of.stored_bytes) };
        way.of.conversion.store(numbers, values);
    }
    status
}
