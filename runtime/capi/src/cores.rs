//! Cores of devices.

use std::mem::MaybeUninit;

use udo_engine::device::{MOST_CORES, Result};
use udo_runtime::device::CoreSet;

use crate::argument::{invalid, need};
use crate::born::live;
use crate::error::Error;
use crate::ffi::{Indices, guard};
use crate::handles::{Device, Runtime};

/// The cores that options list; none is for whichever are free.
pub(crate) fn listed(cores: Indices, count: usize) -> Result<Option<CoreSet>> {
    if count == 0 {
        return Ok(None);
    }
    let most = usize::try_from(MOST_CORES).unwrap_or(usize::MAX);
    if count > most {
        return Err(invalid(format!("{count} elements of options.cores; expected at most {most}")));
    }
    CoreSet::try_from(cores.get(count, "options.cores")?).map(Some)
}

/// Returns the number of cores of a device. Cores are numbered from 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_core_count(
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<u32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        out.write(device.inner.core_count());
        Ok(())
    })
}

/// Waits until the submitted runs that requested a core of a device, or execute on it, have ended
/// or left it. It does not wait for runs that are submitted meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn udo_device_sync_core(
    runtime: Option<&Runtime>,
    device: Option<&Device>,
    core: u32,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, device) = (live(runtime, "runtime")?, live(device, "device")?);
        runtime.0.sync_core(&device.inner, core)
    })
}
