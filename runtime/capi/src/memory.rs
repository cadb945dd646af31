//! Memory of devices, and mappings of it.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;

use udo_engine::device::{self, AllocMemory, MemoryView, ReadMap, Result, WriteMap};

use crate::argument::need;
use crate::born::{Born, handles, live};
use crate::codes::{
    Access, CacheMaintenance, ContentsCode, MapAccess, MapMaintenance, SharingCode, access,
    cache_maintenance, contents, sharing,
};
use crate::error::Error;
use crate::ffi::{
    Bytes, BytesMut, Options, OptionsAt, Text, guard, hand_out, named_pointers, release,
};
use crate::handles::Device;

/// Bytes of a device's memory, or a part of them. Threads may share it. The bytes are freed with
/// their last handle, view, mapping or tensor. An access that conflicts with a write in progress,
/// or a write that conflicts with an access, is refused with `UDO_ERROR_BUSY`.
#[derive(Debug)]
pub struct Memory(pub(crate) MemoryView, pub(crate) Born);

/// Options of an allocation. NULL or zeros select the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct AllocOptions {
    /// `sizeof(udo_alloc_options_t)`.
    pub size: usize,
    /// Alignment of the first byte, a power of two; 0 means 64.
    pub align_bytes: u64,
    /// The initial contents.
    pub contents: ContentsCode,
    /// Whether other processes may use it.
    pub sharing: SharingCode,
    /// Its owner in statistics; NULL means "program".
    pub owner: Text,
}

/// A mapping of memory to the host. It counts as an access to the bytes until it is released.
#[derive(Debug)]
pub struct Map(Mapped, pub(crate) Born);

handles! {
    Map, 1;
    Memory, 1;
}

named_pointers! {
    /// Options, or NULL.
    AllocOptionsAt(OptionsAt<AllocOptions>);
}

// SAFETY: its fields are a size, numbers and a pointer.
unsafe impl Options for AllocOptions {}

#[derive(Debug)]
enum Mapped {
    Read(ReadMap),
    Write(WriteMap),
}

/// The range of `len` bytes from `offset` on; as far as can be counted, which is beyond any memory.
fn span(offset: u64, len: u64) -> Range<u64> {
    offset..offset.saturating_add(len)
}

fn alloc(device: &device::Device, size: u64, options: AllocOptionsAt) -> Result<Memory> {
    let options = options.get()?;
    let defaults = device::AllocOptions::default();
    let asked = device::AllocOptions {
        align_bytes: match options.align_bytes {
            0 => defaults.align_bytes,
            align_bytes => align_bytes,
        },
        contents: contents(options.contents)?,
        sharing: sharing(options.sharing)?,
        owner: options.owner.option("options.owner")?.unwrap_or(defaults.owner),
    };
    device.alloc_with(size, &asked).map(|memory| Memory(memory.all(), Born::here()))
}

/// Allocates memory of a device.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_alloc(
    device: Option<&Device>,
    size: u64,
    options: AllocOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        hand_out(out, alloc(&device.inner, size, options)?);
        Ok(())
    })
}

/// Returns the number of bytes of a memory or view.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_size(
    memory: Option<&Memory>,
    out: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (live(memory, "memory")?, need(out, "out")?);
        out.write(memory.0.len());
        Ok(())
    })
}

/// Returns the device of a memory, as a new handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_device(
    memory: Option<&Memory>,
    out: Option<&mut MaybeUninit<Option<Box<Device>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (live(memory, "memory")?, need(out, "out")?);
        hand_out(out, Device::new(memory.0.device().clone()));
        Ok(())
    })
}

/// Copies bytes of a memory, starting at `offset`, to the host. The copy is complete when the
/// function returns.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_read(
    memory: Option<&Memory>,
    offset: u64,
    mut into: BytesMut,
    len: usize,
) -> Option<Box<Error>> {
    guard(|| live(memory, "memory")?.0.read(offset, into.get(len, "into")?))
}

/// Copies bytes of the host to a memory, starting at `offset`. The copy is complete when the
/// function returns.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_write(
    memory: Option<&Memory>,
    offset: u64,
    from: Bytes,
    len: usize,
) -> Option<Box<Error>> {
    guard(|| live(memory, "memory")?.0.write(offset, from.get(len, "from")?))
}

/// Sets all bytes of a memory to a value.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_fill(memory: Option<&Memory>, value: u8) -> Option<Box<Error>> {
    guard(|| live(memory, "memory")?.0.fill(value))
}

/// Copies bytes of one memory to another, on any devices. If both ranges overlap, the original
/// bytes are copied.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_copy(
    to: Option<&Memory>,
    to_offset: u64,
    from: Option<&Memory>,
    from_offset: u64,
    len: u64,
) -> Option<Box<Error>> {
    guard(|| {
        let (to, from) = (live(to, "to")?, live(from, "from")?);
        to.0.copy_from(to_offset, &from.0, from_offset, len)
    })
}

/// Returns a view of a part of a memory, which the view keeps alive. Offsets of the view count from
/// its start.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_view(
    memory: Option<&Memory>,
    offset: u64,
    len: u64,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (live(memory, "memory")?, need(out, "out")?);
        hand_out(out, Memory(memory.0.view(span(offset, len))?, Born::here()));
        Ok(())
    })
}

/// Makes host writes through ended mappings visible to the device, in whole cache lines of 64
/// bytes.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_flush(
    memory: Option<&Memory>,
    offset: u64,
    len: u64,
) -> Option<Box<Error>> {
    guard(|| live(memory, "memory")?.0.flush(span(offset, len)))
}

/// Makes device writes visible to mappings of the host, in whole cache lines of 64 bytes. Host
/// writes that were not flushed are lost.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_invalidate(
    memory: Option<&Memory>,
    offset: u64,
    len: u64,
) -> Option<Box<Error>> {
    guard(|| live(memory, "memory")?.0.invalidate(span(offset, len)))
}

/// Maps bytes of a memory to the host.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_map(
    memory: Option<&Memory>,
    offset: u64,
    len: u64,
    access: MapAccess,
    maintenance: MapMaintenance,
    out: Option<&mut MaybeUninit<Option<Box<Map>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (live(memory, "memory")?, need(out, "out")?);
        let (memory, range) = (&memory.0, span(offset, len));
        let mapped = match (self::access(access)?, cache_maintenance(maintenance)?) {
            (Access::Read, CacheMaintenance::ByMap) => memory.map(range).map(Mapped::Read),
            (Access::Read, CacheMaintenance::ByProgram) => {
                memory.map_unsynced(range).map(Mapped::Read)
            }
            (Access::Write, CacheMaintenance::ByMap) => memory.map_mut(range).map(Mapped::Write),
            (Access::Write, CacheMaintenance::ByProgram) => {
                memory.map_mut_unsynced(range).map(Mapped::Write)
            }
        };
        hand_out(out, Map(mapped?, Born::here()));
        Ok(())
    })
}

/// Returns the address of a mapping's first byte. It is valid until the mapping is released. Do not
/// write to a read mapping.
#[unsafe(no_mangle)]
pub extern "C" fn udo_map_data(
    map: Option<&mut Map>,
    out: Option<&mut MaybeUninit<*mut c_void>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (map, out) = (live(map, "map")?, need(out, "out")?);
        let first = match &mut map.0 {
            Mapped::Read(map) => map.as_ptr().cast_mut(),
            Mapped::Write(map) => map.as_ptr(),
        };
        out.write(first.cast());
        Ok(())
    })
}

/// Makes host writes to bytes of a mapping visible to the device, in whole cache lines of 64 bytes.
/// The offset counts from the mapping's first byte.
#[unsafe(no_mangle)]
pub extern "C" fn udo_map_flush(
    map: Option<&mut Map>,
    offset: u64,
    len: u64,
) -> Option<Box<Error>> {
    guard(|| match &mut live(map, "map")?.0 {
        Mapped::Read(_) => Err(device::Error::new(
            device::ErrorCode::InvalidState,
            "a mapping to be read has nothing to flush; map the memory with UDO_MAP_WRITE",
        )),
        Mapped::Write(map) => map.flush(span(offset, len)),
    })
}

/// Makes device writes to bytes of a mapping visible to the host, in whole cache lines of 64 bytes.
/// The offset counts from the mapping's first byte. Writes to them that were not flushed are lost.
#[unsafe(no_mangle)]
pub extern "C" fn udo_map_invalidate(
    map: Option<&mut Map>,
    offset: u64,
    len: u64,
) -> Option<Box<Error>> {
    guard(|| match &mut live(map, "map")?.0 {
        Mapped::Read(map) => map.invalidate(span(offset, len)),
        Mapped::Write(map) => map.invalidate(span(offset, len)),
    })
}

/// Ends a mapping. NULL is allowed. A mapping that keeps caches coherent flushes its writes to the
/// device.
#[unsafe(no_mangle)]
pub extern "C" fn udo_map_release(map: Option<Box<Map>>) {
    release(map);
}

/// Releases a memory or view. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_release(memory: Option<Box<Memory>>) {
    release(memory);
}
