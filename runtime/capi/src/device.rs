//! Devices.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::argument::need;
use crate::born::live;
use crate::codes::{DeviceKind, kind, kind_code};
use crate::error::Error;
use crate::ffi::{guard, hand_out, release};
use crate::handles::{Device, Runtime};

/// Statistics of a device's memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryStats {
    /// Limit of the bytes in use.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub current_bytes: u64,
    /// Highest number of bytes in use so far.
    pub peak_bytes: u64,
    /// Number of memories.
    pub memories: u64,
    /// Bytes of imported memories, which the other fields do not include.
    pub imported_bytes: u64,
}

/// Returns the device of a kind with this number, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_open(
    runtime: Option<&Runtime>,
    kind: DeviceKind,
    index: u32,
    out: Option<&mut MaybeUninit<Option<Box<Device>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        hand_out(out, Device::new(runtime.0.devices().get(self::kind(kind)?, index)?));
        Ok(())
    })
}

/// Returns the name of a device. The string lives as long as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_name(
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        out.write(device.name.as_ptr());
        Ok(())
    })
}

/// Returns the kind of a device.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_kind(
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<DeviceKind>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        out.write(kind_code(device.inner.kind()));
        Ok(())
    })
}

/// Returns the number of a device among those of its kind.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_index(
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<u32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        out.write(device.inner.id().index);
        Ok(())
    })
}

/// Returns the statistics of a device's memory.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_memory_stats(
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<MemoryStats>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        let stats = device.inner.heap_stats();
        out.write(MemoryStats {
            limit_bytes: stats.limit_bytes,
            current_bytes: stats.total.current_bytes,
            peak_bytes: stats.total.peak_bytes,
            memories: stats.total.memories,
            imported_bytes: stats.imported.current_bytes,
        });
        Ok(())
    })
}

/// Releases a handle of a device. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_release(device: Option<Box<Device>>) {
    release(device);
}
