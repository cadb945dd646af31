//! Tensors in a device's memory.

use super::Device;
use super::alloc::AllocOptions;
use super::cache::Coherence;
use super::lease::{Lease, LeaseSet};
use super::memory::MemoryView;
use super::packing::Packing;
use super::spec::TensorSpec;
use crate::device::{AllocMemory, SpecDetails};
use udo_graph::error::{Error, ErrorCode, Result, invalid};
use udo_graph::memory::{Buffer, Tensor, TensorStorage};

/// A tensor in a device's memory: what it is, and the bytes where it lies, of which there may be more than it takes.
///
/// It is a handle: clones lie in the same memory, each with a shape of its own, so that what one run finds out about its
/// output changes nobody else's.
///
/// ```
/// use udo_api::{CoreKind, DType};
/// use udo_engine::device::{DeviceTensor, Devices, ErrorCode, TensorSpec};
///
/// let cpu = Devices::default().get(CoreKind::Cpu, 0)?;
/// let mut tensor = DeviceTensor::new(&cpu, TensorSpec::fixed(DType::U8, &[2, 2])?)?;
/// tensor.write(&[1, 2, 3, 4])?;
/// tensor.reshape(&[3])?;
/// assert_eq!(tensor.to_host()?.bytes(), [1, 2, 3]);
/// assert_eq!(tensor.reshape(&[5]).unwrap_err().code(), ErrorCode::OutOfMemory);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    /// The specification at its creation, whose shape may be dynamic.
    declared: TensorSpec,
    spec: TensorSpec,
    memory: MemoryView,
}

impl DeviceTensor {
    /// A tensor in memory of its own, as large as it takes.
    ///
    /// # Errors
    /// An open dimension, or no memory.
    pub fn new(device: &Device, spec: TensorSpec) -> Result<Self> {
        Self::alloc(device, spec, spec.storage_size()?)
    }

    /// A tensor in memory of its own of `capacity_bytes`. Where a dimension is open, [`DeviceTensor::reshape`] says it
    /// later.
    ///
    /// # Errors
    /// Fewer bytes than the tensor takes, or no memory.
    pub fn with_capacity(device: &Device, spec: TensorSpec, capacity_bytes: u64) -> Result<Self> {
        if !spec.is_open() {
            check_room(&spec, capacity_bytes)?;
        }
        Self::alloc(device, spec, capacity_bytes)
    }

    fn alloc(device: &Device, spec: TensorSpec, len: u64) -> Result<Self> {
        let options = AllocOptions { owner: "tensors", ..AllocOptions::default() };
        Self::from_memory(spec, device.alloc_with(len, &options)?.all())
    }

    /// A tensor in these bytes, which stay their owners'. They may be more than it takes.
    ///
    /// # Errors
    /// They are fewer, or do not begin where an element may.
    pub fn from_memory(spec: TensorSpec, memory: MemoryView) -> Result<Self> {
        if !spec.is_open() {
            check_room(&spec, memory.len())?;
        }
        let element = u64::try_from(spec.dtype().size_bytes()).unwrap_or(u64::MAX);
        if !memory.is_empty() && memory.align_bytes() < element {
            return Err(invalid(format!(
                "{spec} in {memory}, which begins at a multiple of {}; expected one of {element}",
                memory.align_bytes()
            )));
        }
        Ok(Self { declared: spec, spec, memory })
    }

    /// Copies a host tensor to a device.
    ///
    /// # Errors
    /// No memory.
    pub fn from_tensor(device: &Device, tensor: &Tensor) -> Result<Self> {
        let made = Self::new(device, TensorSpec::from_desc(*tensor.desc())?)?;
        made.write(tensor.bytes())?;
        Ok(made)
    }

    /// A copy of it on the host: its type, shape and elements.
    ///
    /// # Errors
    /// An open dimension, no memory on the host, or somebody is writing the elements.
    pub fn to_host(&self) -> Result<Tensor> {
        let desc = self.spec.desc()?;
        let mut elements = Buffer::zeroed(desc.size_bytes())?;
        self.read(elements.bytes_mut())?;
        Tensor::from_buffer(self.spec.dtype(), desc.full_shape(), elements)
            .map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
    }

    /// Returns the current specification.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The bytes that it lies in, and those behind it.
    pub fn memory(&self) -> &MemoryView {
        &self.memory
    }

    /// The bytes that it takes, for leases and mappings.
    ///
    /// # Errors
    /// A dimension is open.
    pub(crate) fn bytes(&self) -> Result<MemoryView> {
        self.memory.view(0..self.spec.storage_size()?)
    }

    /// Gives it another shape; its bytes stay as they are. One that was made with open dimensions takes those that its
    /// ranges allow, another any that fits its memory.
    ///
    /// # Errors
    /// A shape that it may not have; an empty one, which says nothing, unless it has no dimensions; one that takes more bytes
    /// than there are.
    pub fn reshape(&mut self, dims: &[usize]) -> Result<()> {
        if dims.is_empty() && self.declared.rank() != 0 {
            return Err(invalid(format!(
                "{} is given an empty shape; expected its extents",
                self.spec
            )));
        }
        let spec = if self.declared.is_open() {
            self.declared.with_shape(dims)?
        } else {
            self.declared.reshaped(dims)?
        };
        let (wanted, found) = (spec.storage_size()?, self.memory.len());
        if wanted > found {
            return Err(Error::new(
                ErrorCode::OutOfMemory,
                format!(
                    "{spec} takes {wanted} bytes, and {} has {found}; make the tensor larger",
                    self.memory
                ),
            ));
        }
        self.spec = spec;
        Ok(())
    }

    /// Copies all elements to the device; packed, if it is.
    ///
    /// # Errors
    /// Not as many bytes as the elements have, an open dimension, or somebody has a lease of some.
    pub fn write(&self, elements: &[u8]) -> Result<()> {
        let bytes = self.sized(elements.len())?;
        if self.spec.packing() == Packing::N1 {
            return bytes.write(0, elements);
        }
        let mut stored = host_bytes(bytes.len())?;
        self.spec.pack(elements, &mut stored)?;
        bytes.write(0, &stored)
    }

    /// Copies all elements to the host, one batch behind the other, however they are packed.
    ///
    /// # Errors
    /// Not room for as many bytes as the elements have, an open dimension, or somebody is writing some.
    pub fn read(&self, elements: &mut [u8]) -> Result<()> {
        let bytes = self.sized(elements.len())?;
        match self.spec.packing() {
            Packing::N1 => bytes.read(0, elements),
            Packing::N2 | Packing::N4 => self.spec.unpack(&bytes.read_all()?, elements),
        }
    }

    /// As [`DeviceTensor::read`], to memory of its own.
    ///
    /// # Errors
    /// As there, or the host has no room.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>> {
        let mut elements = host_bytes(self.spec.byte_size()?)?;
        self.read(&mut elements)?;
        Ok(elements)
    }

    /// Copies all elements of another tensor of the same type and shape, on whichever device, packed as either is.
    ///
    /// # Errors
    /// Another type or shape, an open dimension, or somebody has a lease that is in the way.
    pub fn copy_from(&self, source: &Self) -> Result<()> {
        let (to, from) = (self.spec.desc()?, source.spec.desc()?);
        if (to.dtype(), to.shape()) != (from.dtype(), from.shape()) {
            return Err(Error::new(
                ErrorCode::ShapeMismatch,
                format!(
                    "{} is copied to {}; expected the same type and shape",
                    source.spec, self.spec
                ),
            ));
        }
        if self.spec.layout() != source.spec.layout() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!("{} is copied to {}; expected the same layout", source.spec, self.spec),
            ));
        }
        if self.spec.packing() != source.spec.packing() {
            return self.write(&source.read_all()?);
        }
        let bytes = source.bytes()?;
        self.bytes()?.copy_from(0, &bytes, 0, bytes.len())
    }

    /// Becomes what a run gives: elements of its type, in a shape that it has room for.
    pub(crate) fn take_result(&mut self, result: &TensorSpec) -> Result<()> {
        if self.spec.dtype() != result.dtype() {
            let found = &self.spec;
            return Err(invalid(format!("a tensor of {found} is given, expected {result}")));
        }
        let dims = result.dims()?;
        if self.spec.dims().is_ok_and(|mine| mine == dims) {
            return Ok(());
        }
        if dims.is_empty() && self.declared.rank() != 0 {
            self.spec = self.declared.reshaped(dims)?;
            return Ok(());
        }
        self.reshape(dims)
    }

    /// Whether a run may give it this.
    pub(crate) fn may_take(&self, result: &TensorSpec) -> bool {
        self.clone().take_result(result).is_ok()
    }

    /// Whether its elements lie as those of runs do: one batch behind the other, where host and device see the same.
    pub(crate) fn lies_as_runs_do(&self) -> bool {
        self.spec.packing() == Packing::N1
            && self.memory.device().coherence() == Coherence::Coherent
    }

    /// As [`DeviceTensor::read`], by somebody who has a lease of at least its bytes.
    pub(crate) fn read_leased(&self, lease: &Lease, elements: &mut [u8]) -> Result<()> {
        self.sized(elements.len())?;
        if self.spec.packing() == Packing::N1 {
            return lease.read(0, elements);
        }
        let mut stored = host_bytes(self.spec.storage_size()?)?;
        lease.read(0, &mut stored)?;
        self.spec.unpack(&stored, elements)
    }

    /// As [`DeviceTensor::write`], by somebody who has a lease of at least its bytes at this place of a set.
    pub(crate) fn write_leased(
        &self,
        leases: &mut LeaseSet,
        place: usize,
        elements: &[u8],
    ) -> Result<()> {
        self.sized(elements.len())?;
        if self.spec.packing() == Packing::N1 {
            return leases.write(place, 0, elements);
        }
        let mut stored = host_bytes(self.spec.storage_size()?)?;
        self.spec.pack(elements, &mut stored)?;
        leases.write(place, 0, &stored)
    }

    /// Its bytes, if its elements have as many as given.
    fn sized(&self, found: usize) -> Result<MemoryView> {
        let wanted = self.spec.byte_size()?;
        if u64::try_from(found) != Ok(wanted) {
            return Err(invalid(format!("{found} bytes for {}; expected {wanted}", self.spec)));
        }
        self.bytes()
    }
}

fn check_room(spec: &TensorSpec, found: u64) -> Result<()> {
    let wanted = spec.storage_size()?;
    if found < wanted {
        return Err(invalid(format!(
            "{spec} takes {wanted} bytes, given {found}; give it more memory"
        )));
    }
    Ok(())
}

/// Zeros on the host.
fn host_bytes(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = usize::try_from(len).ok().filter(|&count| bytes.try_reserve_exact(count).is_ok());
    let Some(count) = count else {
        return Err(Error::new(
            ErrorCode::OutOfMemory,
            format!("the host has no room for {len} bytes"),
        ));
    };
    bytes.resize(count, 0);
    Ok(bytes)
}
