//! Work items of the emulated GPU, and the buffers that all of them may touch.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::io::{Inputs, Io, check_width};
use super::pack::{Packed, PackedConstants};
use crate::abi::{TensorArg, Workspace};
use crate::dtype::DType;
use crate::element::{Bf16, Bits, Element, F16};
use crate::error::{ExecError, Status};

/// Which work item a call is, and how many there are, along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// As OpenCL's `get_global_id`.
    pub global_id: [usize; 3],
    /// As OpenCL's `get_global_size`.
    pub global_size: [usize; 3],
}

/// The buffers of a call, in the order of the node's inputs and outputs, and what else its launches share.
///
/// All work items may touch all elements, so each access is one relaxed atomic: work items that
/// write to one element race as they would on a device, but never break the program.
pub struct Buffers<'a> {
    io: &'a SharedBuffers<'a>,
}

/// What the work items of all launches of a call share.
pub(crate) struct SharedBuffers<'a> {
    inputs: Inputs<'a>,
    outputs: [TensorArg; MAX_OUTPUTS],
    output_count: usize,
    packed: PackedConstants<'a>,
    /// The host's scratch, of as many bytes as `scratch` says.
    scratch_ptr: *mut u8,
    scratch: &'a ScratchBuffers,
    marker: PhantomData<&'a mut [u8]>,
}

/// The most outputs that the emulated GPU hands to a kernel.
pub(crate) const MAX_OUTPUTS: usize = 8;

// SAFETY: inputs and packed constants are read only, outputs and scratch are reached through atomics alone.
unsafe impl Sync for SharedBuffers<'_> {}

impl<'a> SharedBuffers<'a> {
    /// The buffers of a call, all of whose outputs are taken.
    ///
    /// # Errors
    /// The call has more outputs than [`MAX_OUTPUTS`], rows that lie apart, or too little scratch.
    pub(crate) fn of(io: Io<'a>, scratch: &'a ScratchBuffers) -> Result<Self, ExecError> {
        let Io { inputs, mut outputs, scratch: mut room, packed, .. } = io;
        let output_count = outputs.len();
        if output_count > MAX_OUTPUTS {
            let counts = [output_count as u64, MAX_OUTPUTS as u64];
            return Err(ExecError::with(Status::NO_SUCH_PORT, counts));
        }
        let mut taken = [const { TensorArg::ABSENT }; MAX_OUTPUTS];
        for (port, slot) in taken.iter_mut().take(output_count).enumerate() {
            if outputs.has(port) {
                *slot = outputs.take_raw(port)?;
            }
        }
        let scratch_ptr = room.take::<u8>(scratch.bytes)?.as_mut_ptr();
        let marker = PhantomData;
        Ok(Self { inputs, outputs: taken, output_count, packed, scratch_ptr, scratch, marker })
    }

    /// What a work item gets of them.
    pub(crate) const fn buffers(&self) -> Buffers<'_> {
        Buffers { io: self }
    }
}

/// Where each scratch buffer of a GPU kernel lies in the scratch of a call.
pub(crate) struct ScratchBuffers {
    /// Where each starts, and its bytes.
    places: Vec<[usize; 2]>,
    bytes: usize,
}

impl ScratchBuffers {
    /// Buffers of these sizes in bytes; none where memory has no such addresses.
    pub(crate) fn of(sizes: &[usize]) -> Option<Self> {
        let (mut places, mut end) = (Vec::with_capacity(sizes.len()), 0_usize);
        for &bytes in sizes {
            let start = end.checked_next_multiple_of(Workspace::ALIGN_BYTES)?;
            places.push([start, bytes]);
            end = start.checked_add(bytes)?;
        }
        Some(Self { places, bytes: end })
    }

    /// Room for all of them.
    pub(crate) const fn workspace(&self) -> Workspace {
        Workspace::of::<u8>(self.bytes)
    }
}

impl fmt::Debug for Buffers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("outputs", &self.io.output_count).finish_non_exhaustive()
    }
}

/// What a work item is told that asks for element `index` of `len`: the first that is none.
const fn beyond(index: usize, len: usize) -> ExecError {
    ExecError::bad_value((index as u64).cast_signed(), len)
}

fn locate<T: Element>(arg: &TensorArg, index: usize) -> Result<*mut T, ExecError> {
    if arg.dtype != T::DTYPE.code() {
        return Err(ExecError::with(
            Status::WRONG_TYPE,
            [u64::from(T::DTYPE.code()), u64::from(arg.dtype)],
        ));
    }
    locate_bits(arg, index)
}

/// Where element `index` lies, for a `T` of the width of the elements.
fn locate_bits<T: Element>(arg: &TensorArg, index: usize) -> Result<*mut T, ExecError> {
    if index >= arg.capacity || arg.data.is_null() {
        return Err(beyond(index, arg.capacity));
    }
    // SAFETY: the index is inside the host's buffer for `capacity` elements, each as wide as `T`.
    Ok(unsafe { arg.data.cast::<T>().add(index) })
}

impl Buffers<'_> {
    fn output(&self, port: usize) -> Result<&TensorArg, ExecError> {
        let count = self.io.output_count;
        let found = self.io.outputs.get(..count).and_then(|outputs| outputs.get(port));
        found.ok_or(ExecError::with(Status::NO_SUCH_PORT, [port as u64, count as u64]))
    }

    /// Where element `index` of scratch `scratch` lies.
    fn scratch<T: Element>(&self, scratch: usize, index: usize) -> Result<*mut T, ExecError> {
        let (all, ptr) = (&self.io.scratch.places, self.io.scratch_ptr);
        let missing = ExecError::with(Status::NO_SUCH_PORT, [scratch as u64, all.len() as u64]);
        let &[start, bytes] = all.get(scratch).ok_or(missing)?;
        let len = bytes / size_of::<T>();
        if index >= len {
            return Err(beyond(index, len));
        }
        // SAFETY: the host's scratch has room for every scratch, this one from `start` on.
        let first = unsafe { ptr.add(start) }.cast::<T>();
        // SAFETY: the element lies within the bytes of this one.
        Ok(unsafe { first.add(index) })
    }

    /// Element `index` of input `port`.
    ///
    /// # Errors
    /// No such input or element, or another type.
    pub fn get<T: Element>(&self, port: usize, index: usize) -> Result<T, ExecError> {
        let at = locate::<T>(self.io.inputs.raw(port)?, index)?;
        // SAFETY: `at` is an aligned element of an input, which nothing writes to during the launch.
        Ok(unsafe { at.read() })
    }

    /// All elements of input `port`.
    ///
    /// # Errors
    /// No such input, or another type.
    pub fn input<T: Element>(&self, port: usize) -> Result<&[T], ExecError> {
        self.io.inputs.get(port)
    }

    /// The bits of element `index` of input `port`, whatever type of that width it has.
    ///
    /// # Errors
    /// No such input or element, or another width.
    pub fn get_bits<B: Bits>(&self, port: usize, index: usize) -> Result<B, ExecError> {
        let bits = self.io.inputs.get_bits::<B>(port)?;
        let missing = beyond(index, bits.len());
        bits.get(index).copied().ok_or(missing)
    }

    /// Element `index` of output `port` as last written by any work item.
    ///
    /// # Errors
    /// No such output or element, or another type.
    pub fn get_output<T: Element>(&self, port: usize, index: usize) -> Result<T, ExecError> {
        let at = locate::<T>(self.output(port)?, index)?;
        // SAFETY: `at` is an aligned element of an output, which is reached through atomics alone.
        Ok(unsafe { atomic_read(at) })
    }

    /// Writes element `index` of output `port`.
    ///
    /// # Errors
    /// No such output or element, or another type.
    pub fn set<T: Element>(&self, port: usize, index: usize, value: T) -> Result<(), ExecError> {
        let at = locate::<T>(self.output(port)?, index)?;
        // SAFETY: `at` is an aligned element of an output, which is reached through atomics alone.
        unsafe { atomic_write(at, value) };
        Ok(())
    }

    /// Writes the bits of element `index` of output `port`, whatever type of that width it has.
    ///
    /// # Errors
    /// No such output or element, or another width.
    pub fn set_bits<B: Bits>(&self, port: usize, index: usize, bits: B) -> Result<(), ExecError> {
        let arg = self.output(port)?;
        check_width::<B>(arg)?;
        let at = locate_bits::<B>(arg, index)?;
        // SAFETY: `at` is an aligned element of an output, which is reached through atomics alone.
        unsafe { atomic_write(at, bits) };
        Ok(())
    }

    /// Element `index` of scratch `scratch` as last written by any work item of the call.
    ///
    /// # Errors
    /// No such scratch or element.
    pub fn get_scratch<T: Element>(&self, scratch: usize, index: usize) -> Result<T, ExecError> {
        let at = self.scratch::<T>(scratch, index)?;
        // SAFETY: `at` is an element of scratch, aligned to 64 bytes, which is reached through atomics alone.
        Ok(unsafe { atomic_read(at) })
    }

    /// Writes element `index` of scratch `scratch`.
    ///
    /// # Errors
    /// No such scratch or element.
    pub fn set_scratch<T: Element>(
        &self,
        scratch: usize,
        index: usize,
        value: T,
    ) -> Result<(), ExecError> {
        let at = self.scratch::<T>(scratch, index)?;
        // SAFETY: `at` is an element of scratch, aligned to 64 bytes, which is reached through atomics alone.
        unsafe { atomic_write(at, value) };
        Ok(())
    }

    /// The elements of a packed constant.
    ///
    /// # Errors
    /// Another kernel's packed constant.
    pub fn packed<T: Element>(&self, packed: Packed<T>) -> Result<&[T], ExecError> {
        self.io.packed.get(packed)
    }

    /// Element `index` of floating-point input `port`, whatever its storage.
    ///
    /// # Errors
    /// No such input or element, or no floating-point type.
    pub fn load(&self, port: usize, index: usize) -> Result<f32, ExecError> {
        match self.io.inputs.raw(port)?.dtype() {
            Some(DType::F16) => self.get::<F16>(port, index).map(F16::to_f32),
            Some(DType::Bf16) => self.get::<Bf16>(port, index).map(Bf16::to_f32),
            _ => self.get::<f32>(port, index),
        }
    }

    /// Element `index` of floating-point output `port` as last written, whatever its storage.
    ///
    /// # Errors
    /// No such output or element, or no floating-point type.
    pub fn load_output(&self, port: usize, index: usize) -> Result<f32, ExecError> {
        match self.output(port)?.dtype() {
            Some(DType::F16) => self.get_output::<F16>(port, index).map(F16::to_f32),
            Some(DType::Bf16) => self.get_output::<Bf16>(port, index).map(Bf16::to_f32),
            _ => self.get_output::<f32>(port, index),
        }
    }

    /// Writes element `index` of floating-point output `port`, rounded to its storage.
    ///
    /// # Errors
    /// No such output or element, or no floating-point type.
    pub fn store(&self, port: usize, index: usize, value: f32) -> Result<(), ExecError> {
        match self.output(port)?.dtype() {
            Some(DType::F16) => self.set(port, index, F16::from_f32(value)),
            Some(DType::Bf16) => self.set(port, index, Bf16::from_f32(value)),
            _ => self.set(port, index, value),
        }
    }
}

/// # Safety
/// `at` must be valid and aligned for `T`, and be reached through atomics alone.
unsafe fn atomic_read<T: Element>(at: *mut T) -> T {
    macro_rules! read {
        ($atomic:ty) => {{
            // SAFETY: `at` is valid, aligned and reached through atomics alone; the atomic has the size of `T`.
            let bits = unsafe { &*at.cast::<$atomic>() }.load(Ordering::Relaxed);
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
/// `at` must be valid and aligned for `T`, and be reached through atomics alone.
unsafe fn atomic_write<T: Element>(at: *mut T, value: T) {
    macro_rules! write {
        ($atomic:ty) => {{
            // SAFETY: `T` is plain old data of the same size.
            let bits = unsafe { std::mem::transmute_copy(&value) };
            // SAFETY: `at` is valid, aligned and reached through atomics alone; the atomic has the size of `T`.
            unsafe { &*at.cast::<$atomic>() }.store(bits, Ordering::Relaxed);
        }};
    }
    match size_of::<T>() {
        1 => write!(AtomicU8),
        2 => write!(AtomicU16),
        4 => write!(AtomicU32),
        _ => write!(AtomicU64),
    }
}
