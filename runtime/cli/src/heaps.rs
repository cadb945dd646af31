//! The memory of devices that runs use.

use serde_json::{Value, json};
use udo_api::CoreKind;
use udo_runtime::device::{HeapStats, Usage};
use udo_runtime::{DeviceReport, Runtime};

use crate::output::note;

/// The devices in whose memories anything is or was: bytes now and at most, by owner as well.
pub(crate) fn to_json(runtime: &Runtime) -> Value {
    used(runtime).map(|used| of_device(&used)).collect()
}

fn used(runtime: &Runtime) -> impl Iterator<Item = DeviceReport> {
    runtime.report().devices.into_iter().filter(is_used)
}

/// Whether its memory was ever used, or was used since its peaks were reset.
fn is_used(of: &DeviceReport) -> bool {
    of.heap.total.peak_bytes > 0 || of.heap.imported.peak_bytes > 0
}

fn of_device(DeviceReport { device, heap, .. }: &DeviceReport) -> Value {
    let HeapStats { limit_bytes, total, owners, imported } = heap;
    let owner = |(name, usage): &(String, Usage)| {
        let mut of = bytes(usage);
        of["owner"] = name.as_str().into();
        of
    };
    let mut of = bytes(total);
    of["device"] = device.to_string().into();
    of["limit_bytes"] = (*limit_bytes).into();
    of["imported_bytes"] = imported.current_bytes.into();
    of["owners"] = owners.iter().map(owner).collect();
    of
}

fn bytes(usage: &Usage) -> Value {
    let Usage { current_bytes, peak_bytes, memories } = usage;
    json!({ "current_bytes": current_bytes, "peak_bytes": peak_bytes, "memories": memories })
}

/// Says what was taken of each device, where that is not the host alone.
pub(crate) fn say(runtime: &Runtime) {
    let used: Vec<_> = used(runtime).collect();
    if used.iter().all(|used| used.device.kind() == CoreKind::Cpu) {
        return;
    }
    let of = used.iter().map(|DeviceReport { device, heap, .. }| {
        let Usage { current_bytes, peak_bytes, .. } = heap.total;
        format!("{device} {current_bytes} bytes (peak {peak_bytes})")
    });
    note(format!("device memory: {}", of.collect::<Vec<_>>().join("; ")));
}
