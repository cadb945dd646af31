//! Device memory: the arenas of sessions with their tensors, and constants that all sessions share.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, PoisonError, Weak};

use opencl3::command_queue::{enqueue_copy_buffer, enqueue_read_buffer, enqueue_write_buffer};
use opencl3::error_codes::ClError;
use opencl3::event::Event;
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_BLOCKING, cl_event, cl_mem};
use udo_api::{ExecError, Status};

use super::{ClDevice, OpenClError, from};
use udo_graph::memory::{Tensor, TensorStorage};

/// The device memory of a tensor. The data pointer of a tensor on the device points to a region instead of elements.
#[derive(Debug)]
pub struct Region {
    root: Arc<Buffer<u8>>,
    offset: usize,
    own: Own,
}

/// The buffer that covers exactly a region.
#[derive(Debug)]
enum Own {
    Root,
    Part(Buffer<u8>),
    /// None: the region's offset is not aligned for a sub-buffer, so kernels cannot use it.
    Unaligned,
}

impl Region {
    /// Returns the buffer to pass to a kernel.
    pub(super) fn handle(&self) -> Result<cl_mem, ExecError> {
        match &self.own {
            Own::Root => Ok(self.root.get()),
            Own::Part(part) => Ok(part.get()),
            Own::Unaligned => Err(ExecError::new(Status::BAD_CALL)),
        }
    }

    /// Returns a buffer and the region's offset in it.
    fn place(&self) -> (cl_mem, usize) {
        match &self.own {
            Own::Part(part) => (part.get(), 0),
            Own::Root | Own::Unaligned => (self.root.get(), self.offset),
        }
    }

    /// Copies bytes from the host to the device after all enqueued commands.
    pub(super) fn write(&self, device: &ClDevice, bytes: &[u8]) -> Result<(), ClError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (queue, (buffer, at)) = (device.queue.get(), self.place());
        let (len, from) = (bytes.len(), bytes.as_ptr().cast());
        // SAFETY: the buffer is alive, OpenCL checks that it has `len` bytes from `at` on, and those at `from` are read when the
        // call returns.
        let done = unsafe {
            enqueue_write_buffer(queue, buffer, CL_BLOCKING, at, len, from, 0, std::ptr::null())
        };
        noted(done)
    }

    /// Copies bytes to the host after all enqueued commands.
    pub(super) fn read(&self, device: &ClDevice, bytes: &mut [u8]) -> Result<(), ClError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (queue, (buffer, at)) = (device.queue.get(), self.place());
        let (len, to) = (bytes.len(), bytes.as_mut_ptr().cast());
        // SAFETY: the buffer is alive, OpenCL checks that it has `len` bytes from `at` on, and those at `to` are written when
        // the call returns.
        let done = unsafe {
            enqueue_read_buffer(queue, buffer, CL_BLOCKING, at, len, to, 0, std::ptr::null())
        };
        noted(done)
    }

    /// Enqueues a copy of `bytes` bytes from offset `at` to offset `there` of `to`.
    pub(super) fn copy(
        &self,
        device: &ClDevice,
        (at, to, there): (usize, &Self, usize),
        bytes: usize,
    ) -> Result<(), ClError> {
        if bytes == 0 {
            return Ok(());
        }
        let (queue, (source, from), (target, into)) =
            (device.queue.get(), self.place(), to.place());
        let (from, into) = (from + at, into + there);
        // SAFETY: both buffers are alive, and OpenCL checks that they have as many bytes there, apart from each other.
        let done = unsafe {
            enqueue_copy_buffer(queue, source, target, from, into, bytes, 0, std::ptr::null())
        };
        noted(done)
    }

    /// Returns the data pointer of tensors in this region.
    pub fn address(self: &Arc<Self>) -> *mut u8 {
        Arc::as_ptr(self).cast_mut().cast()
    }
}

/// Returns the result of a command and releases its event.
fn noted(done: Result<cl_event, i32>) -> Result<(), ClError> {
    done.map(|event| drop(Event::new(event))).map_err(ClError)
}

/// A session's memory on the device.
#[derive(Debug)]
pub struct Arena {
    /// By offset and size.
    regions: BTreeMap<(usize, usize), Arc<Region>>,
}

impl Arena {
    /// Allocates an arena of `bytes` bytes, each set to `fill`, with regions at these offsets and sizes.
    ///
    /// # Errors
    /// Fails if the device cannot allocate the memory.
    pub fn new(
        device: &ClDevice,
        (bytes, fill): (usize, u8),
        regions: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Self, OpenClError> {
        let root = Arc::new(device.filled(bytes, fill, CL_MEM_READ_WRITE)?);
        let mut arena = Self { regions: BTreeMap::new() };
        for (offset, bytes) in regions {
            if let Entry::Vacant(place) = arena.regions.entry((offset, bytes)) {
                place.insert(Arc::new(region(device, &root, offset, bytes)?));
            }
        }
        device.queue.finish().map_err(from("clFinish"))?;
        Ok(arena)
    }

    /// Returns the data pointer of the tensor with this offset and size; null if there is no such region.
    pub fn address(&self, offset: usize, bytes: usize) -> *mut u8 {
        self.regions.get(&(offset, bytes)).map_or(std::ptr::null_mut(), Region::address)
    }
}

fn region(
    device: &ClDevice,
    root: &Arc<Buffer<u8>>,
    offset: usize,
    bytes: usize,
) -> Result<Region, OpenClError> {
    let own = if bytes == 0 {
        // Never read, and OpenCL has no empty buffers.
        Own::Root
    } else if offset.is_multiple_of(device.align_bytes) {
        // SAFETY: the device checks that the range lies in the buffer.
        let part = unsafe { root.create_sub_buffer(CL_MEM_READ_WRITE, offset, bytes) };
        Own::Part(part.map_err(from("clCreateSubBuffer"))?)
    } else {
        Own::Unaligned
    };
    Ok(Region { root: Arc::clone(root), offset, own })
}

impl ClDevice {
    /// Returns a constant on the device. It is copied there unless a plan has it there already.
    ///
    /// # Errors
    /// Fails if the device cannot allocate the memory.
    pub fn constant(&self, tensor: &Tensor) -> Result<Arc<Region>, OpenClError> {
        let mut all = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = all.get(&tensor.id()).and_then(Weak::upgrade) {
            return Ok(region);
        }
        all.retain(|_, region| region.strong_count() > 0);
        let bytes = tensor.bytes();
        let root = Arc::new(self.filled(bytes.len(), 0, CL_MEM_READ_ONLY)?);
        let region = Arc::new(Region { root, offset: 0, own: Own::Root });
        region.write(self, bytes).map_err(from("clEnqueueWriteBuffer"))?;
        all.insert(tensor.id(), Arc::downgrade(&region));
        Ok(region)
    }
}
