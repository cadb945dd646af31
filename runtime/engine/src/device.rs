//! Emulated devices and their memory, which programs allocate, fill, map, share and bind to runs.
//!
//! [`Devices`] creates emulated devices, any number of each kind. A [`Device`] has a heap, from which [`Memory`] is
//! allocated. A [`MemoryView`] is a part of a memory, and a [`DeviceTensor`] describes the elements in a view. All of them are
//! reference-counted handles that any thread may use: the last handle releases the object.
//!
//! Every access needs a [`Lease`], the right to read or write a range of bytes: any number of readers, or one writer. A
//! conflicting lease fails at once with `Busy`; nothing waits for one. During a run the program therefore cannot change the
//! inputs or access the outputs, and `bytes` of a lease are ordinary slices.
//!
//! This module knows bytes and their descriptions. Computation is in the modules above it.
//!
//! ```
//! use udo_api::{CoreKind, DType};
//! use udo_engine::device::{DeviceTensor, Devices, ErrorCode, TensorSpec};
//!
//! let devices = Devices::default();
//! let dsp = devices.get(CoreKind::Dsp, 0)?;
//! let memory = dsp.alloc(256)?;
//! memory.write(0, &[1, 2, 3])?;
//! let error = memory.write(254, &[1, 2, 3]).unwrap_err();
//! assert_eq!(error.code(), ErrorCode::InvalidArgument);
//!
//! let spec = TensorSpec::fixed(DType::F32, &[2, 3])?;
//! let tensor = DeviceTensor::from_memory(spec, memory.view(64..256)?)?;
//! assert_eq!(tensor.spec().byte_size()?, 24);
//! # Ok::<(), udo_engine::device::Error>(())
//! ```

mod alloc;
mod bytes;
mod cache;
mod copy;
mod cores;
#[cfg(target_os = "linux")]
mod fd;
mod heap;
mod lease;
mod lease_table;
mod map;
mod memory;
mod packing;
mod range;
mod set;
mod shared;
mod spec;
mod tensor;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use udo_api::abi::{ABI_VERSION, AbiVersion};
use udo_api::{Core, CoreKind};

pub use alloc::{AllocMemory, AllocOptions, Contents, Sharing};
pub use bytes::Peers;
pub use cache::Coherence;
pub use cache::Random;
pub use cores::{CoreList, CoreSet, check_cores};
#[cfg(target_os = "linux")]
pub use fd::{ImportMemory, ImportOptions};
use heap::Heap;
pub use heap::{Charge, SharedCharges};
pub use heap::{HeapStats, Usage};
pub use lease::{Cause, Conflict, Lease, LeaseSet};
pub use lease_table::Access;
pub use map::{ReadMap, WriteMap};
pub use memory::{Memory, MemoryView};
pub use packing::Packing;
pub use range::{ByteRange, LINE_BYTES};
pub use set::Used;
pub use set::{DeviceSpec, Devices, MOST_CORES, default_specs};
pub use shared::{Share, SharedMemory};
pub use spec::{Extent, SpecDetails, TensorSpec};
pub use tensor::DeviceTensor;
pub use udo_graph::error::{Coded, Error, ErrorCode, ErrorContext, Result, quoted};

/// The identity of a device: its kind, and its index among the devices of that kind. Prints as `dsp:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// The kind of its cores.
    pub kind: CoreKind,
    /// The index, from 0.
    pub index: u32,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.index)
    }
}

/// The capabilities of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the host may map its memory. If not, the memory is behind a bus, and the host can only copy.
    pub can_map: bool,
    /// Whether its memory may be shared with other processes.
    pub can_share: bool,
}

/// The versions of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The version of this library, which emulates the device.
    pub runtime: &'static str,
    /// The ABI version of the tables with its kernels.
    pub abi: AbiVersion,
}

/// Returns the versions of the emulation and of the ABI, which are the same for all devices.
pub fn versions() -> Versions {
    Versions { runtime: env!("CARGO_PKG_VERSION"), abi: ABI_VERSION }
}

/// A device: cores of one kind, and memory. Clones are the same device.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_engine::device::Devices;
///
/// let gpu = Devices::default().get(CoreKind::Gpu, 0)?;
/// assert_eq!((gpu.id().to_string(), gpu.name()), ("gpu:0".to_owned(), "emulated gpu"));
/// assert_eq!(gpu.heap_stats().total.current_bytes, 0);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: DeviceId,
    core: Core,
    name: String,
    cores: u32,
    capabilities: Capabilities,
    coherence: Coherence,
    heap: Heap,
    /// The number of memories allocated so far. Each memory derives its own seed from it.
    memories: AtomicU64,
    /// The number of losses and resets so far: odd while the device is lost.
    changes: AtomicU64,
}

impl Device {
    /// Returns its kind and index.
    pub fn id(&self) -> DeviceId {
        self.0.id
    }

    /// Returns the kind of its cores.
    pub fn kind(&self) -> CoreKind {
        self.0.id.kind
    }

    /// Returns the core that kernels target.
    pub fn core(&self) -> Core {
        self.0.core
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns its number of cores.
    pub fn core_count(&self) -> u32 {
        self.0.cores
    }

    /// Returns the capabilities of its memory.
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    /// Returns whether the host and the device see each other's writes without cache maintenance.
    pub fn coherence(&self) -> Coherence {
        self.0.coherence
    }

    /// Returns the size of its memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0.heap.limit_bytes()
    }

    /// Returns the memory in use, by owner, and the peak.
    pub fn heap_stats(&self) -> HeapStats {
        self.0.heap.stats()
    }

    /// Resets the peaks of its statistics to the current use, and removes owners without memory.
    pub fn reset_heap_peaks(&self) {
        self.0.heap.reset_peaks();
    }

    /// Returns whether the device is lost, as an accelerator is after a failure of its driver or power. An emulated device is lost
    /// only by request, for tests ([`crate::run::Queues::lose`]).
    pub fn is_lost(&self) -> bool {
        is_loss(self.changes())
    }

    /// Returns the number of losses and resets so far. If it changes during a run, the run is affected by a loss.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::SeqCst)
    }

    /// Checks that the device is not lost.
    ///
    /// # Errors
    /// Fails if it is lost.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.is_lost() { Err(self.loss()) } else { Ok(()) }
    }

    /// Returns the error of a run on a lost device. It applies even if the device is back by now.
    pub(crate) fn loss(&self) -> Error {
        let why = format!("device {self} was lost; reset it, then submit again");
        Error::new(ErrorCode::DeviceLost, why)
    }

    pub(crate) fn set_lost(&self, is_lost: bool) {
        let next = |changes: u64| (is_loss(changes) != is_lost).then(|| changes.wrapping_add(1));
        // An error means that the state is already `is_lost`.
        let _unchanged = self.0.changes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    fn heap(&self) -> &Heap {
        &self.0.heap
    }

    /// Returns the seed for the emulated cache of the next memory, if this device has a seed.
    fn next_seed(&self) -> Option<u64> {
        let ordinal = self.0.memories.fetch_add(1, Ordering::Relaxed);
        match self.0.coherence {
            Coherence::Coherent | Coherence::NonCoherent { seed: None } => None,
            Coherence::NonCoherent { seed: Some(seed) } => Some(seed.wrapping_add(ordinal)),
        }
    }
}

/// Returns whether a device with this number of losses and resets is lost.
fn is_loss(changes: u64) -> bool {
    !changes.is_multiple_of(2)
}

/// Two handles of one device are equal.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.id, f)
    }
}
