//! Memory of other processes, by file descriptor, and memory for them. On Linux.

use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;

use udo_runtime::device::ImportOptions;

use crate::device::Device;
use crate::error::{Error, invalid};
use crate::ffi::{FileDescriptor, guard, hand_out, need};
use crate::memory::Memory;

/// Makes memory of a device of the bytes of a file from `offset`, a multiple of the system's page, up to `size`. The
/// descriptor stays the caller's. A file that is cut short while it is memory ends the process at the next look at what is
/// gone. On Linux alone.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_import_fd(
    device: Option<&Device>,
    fd: FileDescriptor,
    size: u64,
    offset: u64,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (need(device, "device")?, need(out, "out")?);
        let options = ImportOptions { size_bytes: size, offset_bytes: offset };
        hand_out(out, Memory(fd.import(&device.device, options)?.all()));
        Ok(())
    })
}

/// A descriptor of the file that a memory lies in, for another process; the caller closes it. The memory was allocated with
/// `UDO_SHARING_EXPORTABLE`. On Linux alone.
#[unsafe(no_mangle)]
pub extern "C" fn udo_memory_export_fd(
    memory: Option<&Memory>,
    out: Option<&mut MaybeUninit<i32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (memory, out) = (need(memory, "memory")?, need(out, "out")?);
        let whole = memory.0.memory();
        if whole.len() != memory.0.len() {
            return Err(invalid(format!(
                "a descriptor of {}, which is a part; ask for that of the whole memory",
                memory.0
            )));
        }
        out.write(whole.export_fd()?.into_raw_fd());
        Ok(())
    })
}
