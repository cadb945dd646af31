//! Devices.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::argument::need;
use crate::born::live;
use crate::codes::{DeviceKind, kind, kind_code};
use crate::error::Error;
use crate::ffi::{guard, hand_out, release};
use crate::handles::{Device, Runtime};

/// What of a device's memory is in use, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryStats {
    /// The most bytes that may be in use at once.
    pub limit_bytes: u64,
    /// Bytes in use now.
    pub current_bytes: u64,
    /// The most bytes that were in use at once.
    pub peak_bytes: u64,
    /// How many memories there are now.
    pub memories: u64,
    /// Bytes of imported memories, which the others do not count.
    pub imported_bytes: u64,
}

/// Opens the device of a kind with this number among those of the kind, from 0 on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_open(
    runtime: Option<&Runtime>,
    kind: DeviceKind,
    index: u32,
    out: Option<&mut MaybeUninit<Option<Box<Device>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        hand_out(out, Device::of(runtime.0.devices().get(self::kind(kind)?, index)?));
        Ok(())
    })
}

/// What people call a device; the text is the handle's and goes with it.
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

/// The kind of a device.
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

/// The number of a device among those of its kind.
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

/// What of a device's memory is in use.
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

/// Releases a handle of a device; NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_release(device: Option<Box<Device>>) {
    release(device);
}
