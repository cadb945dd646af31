//! Allocates memory of a device.

use super::Device;
use super::bytes::{Pages, Peers, Storage, page_bytes};
use super::cache::{Cache, Coherence};
use super::heap::Charge;
use super::lease_table::Access;
use super::memory::Memory;
use udo_graph::error::{Error, ErrorCode, Result, invalid};
use udo_graph::memory::ALIGN_BYTES;

/// The fill byte of uninitialized memory in debug builds: NaN in floating-point types, -1 in signed integers.
const POISON: u8 = 0xff;

/// The initial contents of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Unspecified. Debug builds fill it with bytes of 255, which are NaN in floating-point types, so that uses are noticed.
    #[default]
    Unset,
    /// Zeros.
    Zeros,
}

/// Whether memory may be given to other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It may not.
    #[default]
    Private,
    /// It may, as a file descriptor. From the first export, kernels receive copies of its bytes instead of references.
    Exportable,
    /// It may, and the caller promises that no other process accesses the bytes while this process has a lease of them, such as a
    /// run's. Kernels therefore use the bytes in place ([`Memory::export_fd_exclusive`]).
    Exclusive,
}

/// Options of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocOptions<'a> {
    /// The alignment of the first byte, a power of two. It is at least 64 in any case.
    pub align_bytes: u64,
    /// The initial contents.
    pub contents: Contents,
    /// Whether it may be shared with other processes.
    pub sharing: Sharing,
    /// The owner in the heap's statistics. Each label has an entry, so use few labels.
    pub owner: &'a str,
}

impl Default for AllocOptions<'_> {
    fn default() -> Self {
        let (contents, sharing) = (Contents::Unset, Sharing::Private);
        Self { align_bytes: ALIGN_BYTES as u64, contents, sharing, owner: "program" }
    }
}

impl Device {
    /// Allocates `len` bytes, aligned to 64. `len` may be 0.
    ///
    /// # Errors
    /// Fails if the heap's limit or the system does not allow it.
    pub fn alloc(&self, len: u64) -> Result<Memory> {
        self.alloc_with(len, &AllocOptions::default())
    }

    /// Checks that `len` bytes of its memory may be shared.
    pub(super) fn check_sharing(&self, len: u64) -> Result<()> {
        if !self.capabilities().can_share {
            let why = format!("{self} does not share its memory; copy through the host");
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        if len == 0 {
            return Err(invalid(format!("0 bytes of {self} to be shared, expected at least 1")));
        }
        Ok(())
    }
}

/// Allocates memory of a device with options.
pub trait AllocMemory {
    /// Allocates `len` bytes with options; see [`Device::alloc`].
    ///
    /// # Errors
    /// Fails if the heap's limit or the system does not allow it; if the alignment is not a power of two or, for shared memory,
    /// exceeds a page; or if the device or the system does not support the sharing.
    fn alloc_with(&self, len: u64, options: &AllocOptions<'_>) -> Result<Memory>;
}

impl AllocMemory for Device {
    fn alloc_with(&self, len: u64, options: &AllocOptions<'_>) -> Result<Memory> {
        let align =
            usize::try_from(options.align_bytes).ok().filter(|align| align.is_power_of_two());
        let align = align.ok_or_else(|| {
            let found = options.align_bytes;
            invalid(format!("an alignment of {found} bytes on {self}; expected a power of two"))
        })?;
        let charge = Charge::take(self, len, options.owner)?;
        let bytes = usize::try_from(len).map_err(|_| {
            let why = format!("{len} bytes of {self} are more than an address can count");
            Error::new(ErrorCode::OutOfMemory, why)
        })?;
        let storage = match options.sharing {
            Sharing::Private => Storage::own(bytes, align)?,
            Sharing::Exportable | Sharing::Exclusive => {
                self.check_sharing(len)?;
                if align > page_bytes() {
                    let most = page_bytes();
                    return Err(invalid(format!(
                        "an alignment of {align} bytes on {self}, expected at most {most} of memory that is shared"
                    )));
                }
                let is_promised = options.sharing == Sharing::Exclusive;
                let peers = if is_promised { Peers::Promised } else { Peers::None };
                Storage::shared(Pages::anonymous(bytes)?, 0, bytes, peers)
            }
        };
        let memory = memory_of(storage, charge)?;
        if cfg!(debug_assertions) && options.contents == Contents::Unset {
            memory.fill(POISON)?;
        }
        Ok(memory)
    }
}

/// Creates a memory with this storage. The host's emulated cache starts with the current bytes.
pub(super) fn memory_of(storage: Storage, charge: Charge) -> Result<Memory> {
    let device = charge.device();
    let cache = match device.coherence() {
        Coherence::Coherent => None,
        Coherence::NonCoherent { .. } => Some(Cache::new(storage.len(), device.next_seed())?),
    };
    let memory = Memory::new(storage, cache, charge)?;
    if let Some(cache) = memory.cache() {
        cache.invalidate(&memory.lease(Access::Read)?, memory.range())?;
    }
    Ok(memory)
}
