//! Kernels of numbers that are called with tensors which hold quantized values.

use std::ffi::c_void;
use std::fmt;
use std::mem::{align_of, size_of};
use std::{ptr, slice};

use udo_api::abi::{ExecArgs, FinalizeArgs, Finalized, KernelVTable, StaticPtr, TensorArg};
use udo_api::{Status, TensorDesc, Workspace};

use crate::Buffer;
use crate::kernel::FinalizedKernel;

/// How the elements of a tensor are converted between what is stored and numbers.
pub trait Conversion: Send + Sync + fmt::Debug {
    /// Makes numbers of stored values, both by their bytes.
    fn load(&self, values: &[u8], numbers: &mut [u8]);

    /// Makes stored values of numbers, both by their bytes.
    fn store(&self, numbers: &[u8], values: &mut [u8]);
}

/// A tensor that a kernel takes as numbers, and its caller stores otherwise.
#[derive(Debug)]
pub struct Converted {
    /// As the kernel takes it: of fixed dimensions, dense.
    pub numbers: TensorDesc,
    /// Bytes of the elements as they are stored.
    pub stored_bytes: usize,
    /// How elements are converted.
    pub conversion: Box<dyn Conversion>,
}

/// A converted tensor, and where in the scratch its numbers are.
#[derive(Debug)]
struct Way {
    of: Converted,
    at: usize,
}

/// The state of a kernel on values.
struct OnValues {
    inner: FinalizedKernel,
    inputs: usize,
    /// Inputs, then outputs; nothing where a tensor comes as the kernel takes it.
    ways: Vec<Option<Way>>,
    /// Where in the scratch the tensors of the inner call are described.
    tensors_at: usize,
    /// Bytes of scratch.
    bytes: usize,
}

/// How parts of the scratch are aligned.
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
    /// This kernel for callers that store some of its tensors otherwise: `ways` says of each of its inputs, of which there are
    /// `inputs`, and then of each of its outputs, how. A call converts into and out of scratch; what the kernel may do in place
    /// or leave out is not asked of the caller. None if there would be no such scratch, or the kernel has geometry that is not
    /// filled.
    #[must_use]
    pub fn on_values(self, inputs: usize, ways: Vec<Option<Converted>>) -> Option<Self> {
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
                Some(of) => Some(Way { at: take(of.numbers.size_bytes())?, of }),
            });
        }
        let boxed = |inner: Self| {
            let state = OnValues { inner, inputs, ways: placed, tensors_at, bytes };
            Box::into_raw(Box::new(state)).cast()
        };
        Some(self.wrapped(&VTABLE, Workspace::of::<u8>(bytes), boxed))
    }
}

// SAFETY: what the contract says of `finalize`; it touches nothing.
unsafe extern "C" fn finalize(_: *const FinalizeArgs, _: *mut Finalized) -> u32 {
    Status::BAD_CALL.code()
}

// SAFETY: `state` is what `on_values` boxed, once.
unsafe extern "C" fn free(state: *mut c_void) {
    // SAFETY: `on_values` made it of a box, and nothing else frees it.
    drop(unsafe { Box::from_raw(state.cast::<OnValues>()) });
}

// SAFETY: `args` is as the contract says for a kernel with the scratch and the tensors that `on_values` said.
unsafe extern "C" fn execute(args: *const ExecArgs) -> u32 {
    // SAFETY: the arguments are valid for the call, by the contract.
    let args = unsafe { &*args };
    // SAFETY: the state is what `on_values` boxed; it lives as long as the kernel.
    let own = unsafe { &*args.state.cast::<OnValues>() };
    let outputs = own.ways.len() - own.inputs;
    let counts = (usize::from(args.input_count), usize::from(args.output_count));
    if counts != (own.inputs, outputs) || args.scratch_bytes < own.bytes {
        return Status::BAD_CALL.code();
    }
    let count = own.ways.len();
    // SAFETY: the caller gives as many tensors as there are ways.
    let outer = unsafe { slice::from_raw_parts(args.tensors, count) };
    // SAFETY: the scratch has room for as many descriptions from there on.
    let tensors = unsafe { args.scratch.add(own.tensors_at) };
    #[expect(clippy::cast_ptr_alignment, reason = "scratch and its parts are aligned to 64 bytes")]
    let tensors = tensors.cast::<TensorArg>();
    // SAFETY: both are of as many descriptions, which are plain data, and the scratch lies apart from the caller's.
    unsafe { ptr::copy_nonoverlapping(args.tensors, tensors, count) };
    // SAFETY: they have just been written, and nothing else refers to them.
    let inner = unsafe { slice::from_raw_parts_mut(tensors, count) };
    for (port, (way, (outer, inner))) in own.ways.iter().zip(outer.iter().zip(inner)).enumerate() {
        let Some(way) = way else { continue };
        // SAFETY: the scratch has the numbers of this tensor there, and nothing else.
        let numbers = unsafe { args.scratch.add(way.at) };
        *inner = TensorArg::new(&way.of.numbers, numbers);
        if port >= own.inputs || way.of.stored_bytes == 0 {
            continue;
        }
        // SAFETY: an input has its elements at `data`.
        let values = unsafe { slice::from_raw_parts(outer.data.cast_const(), way.of.stored_bytes) };
        // SAFETY: the scratch has so many bytes there, which nothing else refers to.
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
    // SAFETY: the arguments are those of a call of the inner kernel: its tensors as numbers, its scratch at the begin of ours.
    let status = unsafe { (own.inner.execute_fn())(&raw const call) };
    if status != Status::OK.code() {
        return status;
    }
    for (way, outer) in own.ways.iter().zip(outer).skip(own.inputs) {
        let Some(way) = way.as_ref().filter(|way| way.of.stored_bytes > 0) else { continue };
        // SAFETY: the scratch has the numbers of this tensor there.
        let numbers = unsafe { args.scratch.add(way.at) };
        // SAFETY: the inner kernel has made as many, and its call is over.
        let numbers = unsafe { slice::from_raw_parts(numbers, way.of.numbers.size_bytes()) };
        // SAFETY: an output has room for its elements at `data`, which nothing else refers to.
        let values = unsafe { slice::from_raw_parts_mut(outer.data, way.of.stored_bytes) };
        way.of.conversion.store(numbers, values);
    }
    status
}
