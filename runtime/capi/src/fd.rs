//! Memory of other processes, by file descriptor, and memory for them. On Linux.

use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;

use udo_engine::device::{ImportOptions, Sharing};

use crate::argument::{invalid, need};
use crate::born::{Born, live};
use crate::codes::{self, SharingCode};
use crate::error::Error;
use crate::ffi::{FileDescriptor, guard, hand_out};
use crate::handles::Device;
use crate::memory::Memory;

/// Creates memory of a device from the bytes of a file, from `offset`, a multiple of the page size,
/// to `size`. The caller keeps the descriptor. If the file is truncated while it is in use, the
/// next access to the missing bytes ends the process. Others may write to the file at any time, so
/// runs copy it. Linux only.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_import_fd(
    device: Option<&Device>,
    fd: FileDescriptor,
    size: u64,
    offset: u64,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        let options = ImportOptions { size_bytes: size, offset_bytes: offset, is_exclusive: false };
        hand_out(out, Memory(fd.import(&device.inner, options)?.all(), Born::here()));
        Ok(())
    })
}

/// Like `udo_memory_import_fd`, with a statement about other users of the file.
/// `UDO_SHARING_EXCLUSIVE` promises that nobody accesses the bytes while this library does, so runs
/// use them in place. Other codes have no effect. Linux only.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_import_fd_as(
    device: Option<&Device>,
    fd: FileDescriptor,
    size: u64,
    offset: u64,
    sharing: SharingCode,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        let is_exclusive = codes::sharing(sharing)? == Sharing::Exclusive;
        let options = ImportOptions { size_bytes: size, offset_bytes: offset, is_exclusive };
        hand_out(out, Memory(fd.import(&device.inner, options)?.all(), Born::here()));
        Ok(())
    })
}

/// Returns a descriptor of the file that backs a memory, for another process. The caller closes it.
/// The memory must have been allocated with `UDO_SHARING_EXPORTABLE` or `UDO_SHARING_EXCLUSIVE`, or
/// imported. Without the promise of exclusive use, the first export is refused with
/// `UDO_ERROR_BUSY` while the memory is in use. Linux only.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_export_fd(
    memory: Option<&Memory>,
    out: Option<&mut MaybeUninit<i32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (live(memory, "memory")?, need(out, "out")?);
        let whole = memory.0.memory();
        if whole.len() != memory.0.len() {
            return Err(invalid(format!(
                "a descriptor of {}, which is a part; ask for that of the whole memory",
                memory.0
            )));
        }
        out.write(FileDescriptor::export(&whole)?.into_raw_fd());
        Ok(())
    })
}
