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

/// Makes memory of a device of the bytes of a file from `offset`, a multiple of the system's page, up to `size`. The
/// descriptor stays the caller's. A file that is cut short while it is memory ends the process at the next look at what is
/// gone. Others may write the file at any time, so runs copy it. On Linux alone.
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
        let options = ImportOptions { size_bytes: size, offset_bytes: offset };
        hand_out(out, Memory(fd.import(&device.inner, options)?.all(), Born::here()));
        Ok(())
    })
}

/// The same with what the program says of the file's other users: by `UDO_SHARING_EXCLUSIVE` nobody else is at the bytes while this library
/// is, so that runs use them where they lie; by the other codes it is as `udo_memory_import_fd`. On Linux alone.
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
        let options = ImportOptions { size_bytes: size, offset_bytes: offset };
        let memory = match codes::sharing(sharing)? {
            Sharing::Exclusive => fd.import_exclusive(&device.inner, options)?,
            Sharing::Private | Sharing::Exportable => fd.import(&device.inner, options)?,
        };
        hand_out(out, Memory(memory.all(), Born::here()));
        Ok(())
    })
}

/// A descriptor of the file that a memory lies in, for another process; the caller closes it. The memory was allocated with
/// `UDO_SHARING_EXPORTABLE` or `UDO_SHARING_EXCLUSIVE`, or imported. The first descriptor of memory without that promise is refused with
/// `UDO_ERROR_BUSY` while somebody is at the memory. On Linux alone.
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
