//! The emulated devices: their cores, their memory, and what they can do.

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::device::Coherence;
use udo_runtime::{Device, Runtime};

use crate::commands::Run;
use crate::output::Column::{Left, Right};
use crate::output::{Outcome, print_json, table};
use udo_engine::device::versions;

/// List the emulated devices
///
/// The same as the table of devices in `udo doctor`. A program can create a runtime with other
/// devices: any number of each kind, with a memory limit, or with memory that is not coherent with
/// the host.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo devices
  udo devices --json")]
pub(crate) struct Devices {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Devices {
    fn run(self) -> Outcome {
        let runtime = Runtime::new()?;
        if self.json {
            print_json(&json!({ "devices": json(&runtime) }));
        } else {
            list(&runtime);
        }
        Ok(())
    }
}

/// Prints the table of devices, and the versions that they have in common.
pub(super) fn list(runtime: &Runtime) {
    let columns = [
        Left("device"),
        Left("name"),
        Left("kernels for"),
        Right("cores"),
        Right("memory MiB"),
        Left("maps"),
        Left("shares"),
        Left("coherent"),
    ];
    let devices = runtime.devices();
    outln!("{}", table(columns, devices.iter().map(row).collect()));
    if let Some(versions) = devices.iter().next().map(|_| versions()) {
        outln!("runtime {}, package ABI {}", versions.runtime, versions.abi);
    }
}

/// The same as a list of JSON objects.
pub(super) fn json(runtime: &Runtime) -> Value {
    runtime.devices().iter().map(to_json).collect()
}

fn is_coherent(device: &Device) -> bool {
    device.coherence() == Coherence::Coherent
}

fn row(device: &Device) -> [String; 8] {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let can = device.capabilities();
    [
        device.to_string(),
        device.name().to_owned(),
        device.core().to_string(),
        device.core_count().to_string(),
        (device.heap_stats().limit_bytes >> 20).to_string(),
        yes(can.can_map),
        yes(can.can_share),
        yes(is_coherent(device)),
    ]
}

fn to_json(device: &Device) -> Value {
    let (can, versions, id) = (device.capabilities(), versions(), device.id());
    json!({
        "device": device.to_string(), "kind": id.kind.name(), "index": id.index, "name": device.name(),
        "core": device.core().to_string(), "cores": device.core_count(),
        "memory_bytes": device.heap_stats().limit_bytes, "can_map": can.can_map, "can_share": can.can_share,
        "is_coherent": is_coherent(device), "runtime": versions.runtime, "abi": versions.abi.to_string(),
    })
}
