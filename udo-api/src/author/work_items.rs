//! Work items of the emulated GPU, and the buffers that they share.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::io::{Inputs, Io, check_width};
use super::pack::{Packed, PackedConstants};
use crate::abi::{TensorArg, Workspace};
use crate::dtype::DType;
use crate::element::{Bf16, Bits, Element, F16};
use crate::error::{ExecError, Status};

/// The position of a work item, and the number of work items, along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The equivalent of OpenCL's `get_global_id`.
    pub global_id: [usize; 3],
    /// The equivalent of OpenCL's `get_global_size`.
    pub global_size: [usize; 3],
}

/// The buffers of a call, by the node's inputs and outputs, and the data that its launches share.
///
/// All work items may access all elements, so each access to an output or to scratch is one relaxed atomic: work items
/// that write to the same element race as on a device, without undefined behaviour.
pub struct Buffers<'a> {
    io: &'a SharedBuffers<'a>,
}

/// The data that the work items of all launches of a call share.
pub(crate) struct SharedBuffers<'a> {
    inputs: Inputs<'a>,
    outputs: [TensorArg; MAX_OUTPUTS],
    output_count: usize,
    packed: PackedConstants<'a>,
    /// The host's scratch, whose layout `scratch` describes.
    scratch_ptr: *mut u8,
    scratch: &'a ScratchBuffers,
    marker: PhantomData<&'a mut [u8]>,
}

/// The most outputs of a kernel on the emulated GPU.
pub(crate) const MAX_OUTPUTS: usize = 8;

// SAFETY: inputs and packed constants are only read, outputs and scratch are only accessed with atomics.
unsafe impl Sync for SharedBuffers<'_> {}

impl<'a> SharedBuffers<'a> {
    /// Takes all outputs of a call.
    ///
    /// # Errors
    /// The call has more outputs than [`MAX_OUTPUTS`], strided rows, or too little scratch.
    pub(crate) fn new(io: Io<'a>, scratch: &'a ScratchBuffers) -> Result<Self, ExecError> {
        let Io { inputs, mut outputs, scratch: mut arena, packed, .. } = io;
        let output_count = outputs.len();
        if output_count > MAX_OUTPUTS {
            let counts = [output_count as u64, MAX_OUTPUTS as u64];
            return Err(ExecError::with(Status::NO_SUCH_PORT, counts));
        }
        let mut output_args = [const { TensorArg::ABSENT }; MAX_OUTPUTS];
        for (port, slot) in output_args.iter_mut().take(output_count).enumerate() {
            if outputs.has(port) {
                *slot = outputs.take_raw(port)?;
            }
        }
        let scratch_ptr = arena.take::<u8>(scratch.bytes)?.as_mut_ptr();
        let marker = PhantomData;
        Ok(Self {
            inputs,
            outputs: output_args,
            output_count,
            packed,
            scratch_ptr,
            scratch,
            marker,
        })
    }

    /// Returns the view of a work item.
    pub(crate) const fn buffers(&self) -> Buffers<'_> {
        Buffers { io: self }
    }
}

/// The positions of a GPU kernel's scratch buffers in the scratch of a call.
pub(crate) struct ScratchBuffers {
    /// The start and the size of each in bytes.
    places: Vec<[usize; 2]>,
    bytes: usize,
}

impl ScratchBuffers {
    /// Lays out buffers of these sizes in bytes; `None` on overflow.
    pub(crate) fn with_sizes(sizes: &[usize]) -> Option<Self> {
        let (mut places, mut end) = (Vec::with_capacity(sizes.len()), 0_usize);
        for &bytes in sizes {
            let start = end.checked_next_multiple_of(Workspace::ALIGN_BYTES)?;
            places.push([start, bytes]);
            end = start.checked_add(bytes)?;
        }
        Some(Self { places, bytes: end })
    }

    /// Returns the workspace for all of them.
    pub(crate) const fn workspace(&self) -> Workspace {
        Workspace::for_elements::<u8>(self.bytes)
    }
}

impl fmt::Debug for Buffers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("outputs", &self.io.output_count).finish_non_exhaustive()
    }
}

/// Returns the error for element `index` of `len`, which is out of range.
const fn out_of_range(index: usize, len: usize) -> ExecError {
    ExecError::bad_value((index as u64).cast_signed(), len)
}

/// Returns the address of element `index` of a tensor of type `T`.
fn locate<T: Element>(arg: &TensorArg, index: usize) -> Result<*mut T, ExecError> {
    if arg.dtype != T::DTYPE.code() {
        return Err(ExecError::with(
            Status::WRONG_TYPE,
            [u64::from(T::DTYPE.code()), u64::from(arg.dtype)],
        ));
    }
    locate_bits(arg, index)
}

/// Returns the address of element `index`, for a `T` with the width of the elements.
fn locate_bits<T: Element>(arg: &TensorArg, index: usize) -> Result<*mut T, ExecError> {
    if index >= arg.capacity || arg.data.is_null() {
        return Err(out_of_range(index, arg.capacity));
    }
    // SAFETY: the index is inside the host's buffer for `capacity` elements, each as wide as `T`.
    Ok(unsafe { arg.data.cast::<T>().add(index) })
}

impl Buffers<'_> {
    fn output(&self, port: usize) -> Result<&TensorArg, ExecError> {
        let count = self.io.output_count;
        let output = self.io.outputs.get(..count).and_then(|outputs| outputs.get(port));
        output.ok_or(ExecError::with(Status::NO_SUCH_PORT, [port as u64, count as u64]))
    }

    /// Returns the address of element `index` of scratch buffer `scratch`.
    fn scratch<T: Element>(&self, scratch: usize, index: usize) -> Result<*mut T, ExecError> {
        let (places, ptr) = (&self.io.scratch.places, self.io.scratch_ptr);
        let missing = ExecError::with(Status::NO_SUCH_PORT, [scratch as u64, places.len() as u64]);
        let &[start, bytes] = places.get(scratch).ok_or(missing)?;
        let len = bytes / size_of::<T>();
        if index >= len {
            return Err(out_of_range(index, len));
        }
        // SAFETY: the host's scratch covers every buffer; this one begins at `start`.
        let first = unsafe { ptr.add(start) }.cast::<T>();
        // SAFETY: the element is within the bytes of this buffer.
        Ok(unsafe { first.add(index) })
    }

    /// Reads element `index` of input `port`.
    ///
    /// # Errors
    /// No such input or element, or another type.
    pub fn get<T: Element>(&self, port: usize, index: usize) -> Result<T, ExecError> {
        let element = locate::<T>(self.io.inputs.raw(port)?, index)?;
        // SAFETY: `element` is an aligned element of an input, which nothing writes to during the launch.
        Ok(unsafe { element.read() })
    }

    /// Returns all elements of input `port`.
    ///
    /// # Errors
    /// No such input, or another type.
    pub fn input<T: Element>(&self, port: usize) -> Result<&[T], ExecError> {
        self.io.inputs.get(port)
    }

    /// Reads the bits of element `index` of input `port`, for any type of that width.
    ///
    /// # Errors
    /// No such input or element, or another width.
    pub fn get_bits<B: Bits>(&self, port: usize, index: usize) -> Result<B, ExecError> {
        let bits = self.io.inputs.get_bits::<B>(port)?;
        let missing = out_of_range(index, bits.len());
        bits.get(index).copied().ok_or(missing)
    }

    /// Reads element `index` of output `port` as last written by any work item.
    ///
    /// # Errors
    /// No such output or element, or another type.
    pub fn get_output<T: Element>(&self, port: usize, index: usize) -> Result<T, ExecError> {
        let element = locate::<T>(self.output(port)?, index)?;
        // SAFETY: `element` is an aligned element of an output, which is only accessed with atomics.
        Ok(unsafe { atomic_read(element) })
    }

    /// Writes element `index` of output `port`.
    ///
    /// # Errors
    /// No such output or element, or another type.
    pub fn set<T: Element>(&self, port: usize, index: usize, value: T) -> Result<(), ExecError> {
        let element = locate::<T>(self.output(port)?, index)?;
        // SAFETY: `element` is an aligned element of an output, which is only accessed with atomics.
        unsafe { atomic_write(element, value) };
        Ok(())
    }

    /// Writes the bits of element `index` of output `port`, for any type of that width.
    ///
    /// # Errors
    /// No such output or element, or another width.
    pub fn set_bits<B: Bits>(&self, port: usize, index: usize, bits: B) -> Result<(), ExecError> {
        let arg = self.output(port)?;
        check_width::<B>(arg)?;
        let element = locate_bits::<B>(arg, index)?;
        // SAFETY: `element` is an aligned element of an output, which is only accessed with atomics.
        unsafe { atomic_write(element, bits) };
        Ok(())
    }

    /// Reads element `index` of scratch buffer `scratch` as last written by any work item of the call.
    ///
    /// # Errors
    /// No such buffer or element.
    pub fn get_scratch<T: Element>(&self, scratch: usize, index: usize) -> Result<T, ExecError> {
        let element = self.scratch::<T>(scratch, index)?;
        // SAFETY: `element` is an element of scratch, aligned to 64 bytes, which is only accessed with atomics.
        Ok(unsafe { atomic_read(element) })
    }

    /// Writes element `index` of scratch buffer `scratch`.
    ///
    /// # Errors
    /// No such buffer or element.
    pub fn set_scratch<T: Element>(
        &self,
        scratch: usize,
        index: usize,
        value: T,
    ) -> Result<(), ExecError> {
        let element = self.scratch::<T>(scratch, index)?;
        // SAFETY: `element` is an element of scratch, aligned to 64 bytes, which is only accessed with atomics.
        unsafe { atomic_write(element, value) };
        Ok(())
    }

    /// Returns the elements of a packed constant.
    ///
    /// # Errors
    /// The handle belongs to another kernel.
    pub fn packed<T: Element>(&self, packed: Packed<T>) -> Result<&[T], ExecError> {
        self.io.packed.get(packed)
    }

    /// Reads element `index` of floating-point input `port`, in any storage type.
    ///
    /// # Errors
    /// No such input or element, or not a floating-point type.
    pub fn load(&self, port: usize, index: usize) -> Result<f32, ExecError> {
        match self.io.inputs.raw(port)?.dtype() {
            Some(DType::F16) => self.get::<F16>(port, index).map(F16::to_f32),
            Some(DType::Bf16) => self.get::<Bf16>(port, index).map(Bf16::to_f32),
            _ => self.get::<f32>(port, index),
        }
    }

    /// Reads element `index` of floating-point output `port` as last written, in any storage type.
    ///
    /// # Errors
    /// No such output or element, or not a floating-point type.
    pub fn load_output(&self, port: usize, index: usize) -> Result<f32, ExecError> {
        match self.output(port)?.dtype() {
            Some(DType::F16) => self.get_output::<F16>(port, index).map(F16::to_f32),
            Some(DType::Bf16) => self.get_output::<Bf16>(port, index).map(Bf16::to_f32),
            _ => self.get_output::<f32>(port, index),
        }
    }

    /// Writes element `index` of floating-point output `port`, rounded to its storage type.
    ///
    /// # Errors
    /// No such output or element, or not a floating-point type.
    pub fn store(&self, port: usize, index: usize, value: f32) -> Result<(), ExecError> {
        match self.output(port)?.dtype() {
            Some(DType::F16) => self.set(port, index, F16::from_f32(value)),
            Some(DType::Bf16) => self.set(port, index, Bf16::from_f32(value)),
            _ => self.set(port, index, value),
        }
    }
}

/// # Safety
/// `element` must be valid and aligned for `T`, and only accessed with atomics.
unsafe fn atomic_read<T: Element>(element: *mut T) -> T {
    macro_rules! read {
        ($atomic:ty) => {{
            // SAFETY: `element` is valid, aligned and only accessed with atomics; the atomic has the size of `T`.
            let bits = unsafe { &*element.cast::<$atomic>() }.load(Ordering::Relaxed);
            // SAFETY: `T` is plain old data of the same size.
            unsafe { std::mem::transmute_copy(&bits) }
        }};
    }
    match size_of::<T>() {
        1 => read!(AtomicU8),
        2 => read!(AtomicU16),
        4 => read!(AtomicU32),
        _ => read!(AtomicU64),
    }
}

/// # Safety
/// `element` must be valid and aligned for `T`, and only accessed with atomics.
unsafe fn atomic_write<T: Element>(element: *mut T, value: T) {
    macro_rules! write {
        ($atomic:ty) => {{
            // SAFETY: `T` is plain old data of the same size.
            let bits = unsafe { std::mem::transmute_copy(&value) };
            // SAFETY: `element` is valid, aligned and only accessed with atomics; the atomic has the size of `T`.
            unsafe { &*element.cast::<$atomic>() }.store(bits, Ordering::Relaxed);
        }};
    }
    match size_of::<T>() {
        1 => write!(AtomicU8),
        2 => write!(AtomicU16),
        4 => write!(AtomicU32),
        _ => write!(AtomicU64),
    }
}
