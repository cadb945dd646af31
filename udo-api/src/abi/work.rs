//! The emulated GPU's execute workflow: work items over buffers that all of them may touch.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Io, PackedConstants, Parallel, TensorArg};
use crate::{
    Bf16, DType, Element, Error, ExecError, F16, FinalizeCx, GpuKernel, KernelInfo, Packed, Status,
    WorkItemFn, Workspace,
};

/// Which work item a call is, and how many there are, along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// As OpenCL's `get_global_id`.
    pub global_id: [usize; 3],
    /// As OpenCL's `get_global_size`.
    pub global_size: [usize; 3],
}

/// A finalized GPU kernel.
pub(super) struct GpuState<K> {
    kernel: K,
    pub(super) info: KernelInfo,
    /// Where each scratch starts, and how many bytes it has.
    scratch: Vec<[usize; 2]>,
    scratch_bytes: usize,
}

impl<K: GpuKernel> GpuState<K> {
    pub(super) fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let kernel = K::operation(cx)?;
        if cx.output_count() > MAX_OUTPUTS {
            let count = cx.output_count();
            return Err(Error::new(format!(
                "it has {count} outputs, a GPU kernel at most {MAX_OUTPUTS}"
            )));
        }
        let mut info = KernelInfo::default();
        kernel.set_kernel_info(&mut info)?;
        for sizes in info.launches.iter().map(|launch| launch.global_size) {
            if sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)).is_none() {
                return Err(Error::new(format!("the global size {sizes:?} is too large")));
            }
        }
        let mut scratch = Vec::with_capacity(info.scratch.len());
        let mut end = 0usize;
        for &bytes in &info.scratch {
            let start = end.checked_next_multiple_of(Workspace::ALIGN_BYTES);
            let next = start.and_then(|start| start.checked_add(bytes));
            let (Some(start), Some(next)) = (start, next) else {
                return Err(Error::new(format!(
                    "its scratch, {:?} bytes, is too large",
                    info.scratch
                )));
            };
            scratch.push([start, bytes]);
            end = next;
        }
        Ok(Self { kernel, info, scratch, scratch_bytes: end })
    }

    /// Room for each scratch.
    pub(super) fn workspace(&self) -> Workspace {
        Workspace::of::<u8>(self.scratch_bytes)
    }
}

/// The buffers of a call, in the order of the node's inputs and outputs, and what else its launches share.
///
/// All work items may touch all elements, so each access is one relaxed atomic: work items that
/// write to one element race as they would on a device, but never break the program.
pub struct Buffers<'a> {
    io: &'a Shared<'a>,
}

struct Shared<'a> {
    inputs: super::Inputs<'a>,
    outputs: [TensorArg; MAX_OUTPUTS],
    output_count: usize,
    packed: PackedConstants<'a>,
    /// The host's scratch, in which each of `scratch` starts and ends.
    scratch_ptr: *mut u8,
    scratch: &'a [[usize; 2]],
    marker: PhantomData<&'a mut [u8]>,
}

/// The most outputs that the emulated GPU hands to a kernel.
const MAX_OUTPUTS: usize = 8;

// SAFETY: inputs and packed constants are read only, outputs and scratch are reached through atomics alone.
unsafe impl Sync for Shared<'_> {}

impl fmt::Debug for Buffers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("outputs", &self.io.output_count).finish_non_exhaustive()
    }
}

fn locate<T: Element>(arg: &TensorArg, index: usize) -> Result<*mut T, ExecError> {
    if arg.dtype != T::DTYPE.code() {
        return Err(ExecError::with(
            Status::WRONG_TYPE,
            [u64::from(T::DTYPE.code()), u64::from(arg.dtype)],
        ));
    }
    if index >= arg.capacity || arg.data.is_null() {
        return Err(ExecError::with(Status::BAD_VALUE, [index as u64, arg.capacity as u64]));
    }
    // SAFETY: the index is inside the host's buffer for `capacity` elements.
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
        let (all, ptr) = (self.io.scratch, self.io.scratch_ptr);
        let missing = ExecError::with(Status::NO_SUCH_PORT, [scratch as u64, all.len() as u64]);
        let &[start, bytes] = all.get(scratch).ok_or(missing)?;
        let len = bytes / size_of::<T>();
        if index >= len {
            return Err(ExecError::with(Status::BAD_VALUE, [index as u64, len as u64]));
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
            // SAFETY: as promised by the caller; the atomic has the size of `T`.
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
            // SAFETY: as promised by the caller; the atomic has the size of `T`.
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

/// Runs every work item of every launch, one launch after the other, each shared out over the host's threads.
pub(super) fn run_launches<K: GpuKernel>(state: &GpuState<K>, io: Io<'_>) -> Result<(), ExecError> {
    if K::WORK_ITEMS.is_empty() {
        return Err(ExecError::of(Status::NO_WORK_ITEM));
    }
    let Io { inputs, mut outputs, mut scratch, parallel, packed, .. } = io;
    let output_count = outputs.len();
    if output_count > MAX_OUTPUTS {
        return Err(ExecError::with(
            Status::NO_SUCH_PORT,
            [output_count as u64, MAX_OUTPUTS as u64],
        ));
    }
    let mut taken = [const { TensorArg::ABSENT }; MAX_OUTPUTS];
    for (port, slot) in taken.iter_mut().take(output_count).enumerate() {
        if outputs.has(port) {
            *slot = outputs.take_raw(port)?;
        }
    }
    let shared = Shared {
        inputs,
        outputs: taken,
        output_count,
        packed,
        scratch_ptr: scratch.take::<u8>(state.scratch_bytes)?.as_mut_ptr(),
        scratch: &state.scratch,
        marker: PhantomData,
    };
    let buffers = Buffers { io: &shared };
    for (launch, &work_item) in state.info.launches.iter().zip(K::WORK_ITEMS) {
        run_range(&state.kernel, work_item, launch.global_size, &buffers, parallel)?;
    }
    Ok(())
}

/// Runs every work item of a launch.
fn run_range<K: GpuKernel>(
    kernel: &K,
    work_item: WorkItemFn<K>,
    global_size: [usize; 3],
    buffers: &Buffers<'_>,
    parallel: Parallel<'_>,
) -> Result<(), ExecError> {
    let total: usize = global_size.iter().product();
    // A few grains per thread even out work items of unequal length.
    let grain = total.div_ceil(parallel.width() * 4).max(1);
    parallel.run(total.div_ceil(grain), |index| {
        for item in index * grain..total.min((index + 1) * grain) {
            let [width, height, _] = global_size;
            let global_id = [item % width, item / width % height, item / (width * height)];
            work_item(kernel, WorkItem { global_id, global_size }, buffers)?;
        }
        Ok(())
    })
}
