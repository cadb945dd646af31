//! `udo doctor`, and its parts under their older names: `udo platform` and `udo devices`.

mod chain;
mod check;
mod cores;
mod devices;
mod measure;
mod tools;

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::Runtime;

use super::Run;
use crate::output::{Failure, Outcome, print_json};
pub(super) use cores::Platform;
pub(super) use devices::Devices;
pub(super) use tools::versions;

/// Check the tools, cores and devices of this machine
///
/// Lists the tools that building packages needs. The command fails if a tool that all packages need
/// is missing.
///
/// The table of cores shows whether each core is real or emulated, what its kernels run on, and how
/// many built-in operators it supports. The table of devices shows the memory of each emulated
/// device, and whether the host can map and share it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo doctor
  udo doctor --runtime gpu --runtime dsp    runs a small model on these cores
  udo doctor --measure costs.json           for `udo run --cores auto:gpu,cpu --costs costs.json`")]
pub(crate) struct Doctor {
    #[command(flatten)]
    cores: cores::CoreFlags,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Doctor {
    fn run(self) -> Outcome {
        if self.cores.is_set() {
            return self.cores.run(self.json);
        }
        let tools = tools::findings();
        let missing = tools::missing(&tools);
        if self.json {
            print_json(&report(&tools, missing.is_empty())?);
        } else {
            tools.iter().for_each(tools::say);
            let runtime = Runtime::new()?;
            outln!("\nCores");
            cores::list(&runtime)?;
            outln!("\nDevices");
            devices::list(&runtime);
        }
        match missing.as_slice() {
            [] => Ok(()),
            missing => Err(Failure::new(format!("not there: {}", missing.join(", ")))
                .help("the lines marked `missing` explain how to get them")),
        }
    }
}

/// The object of `--json`: the tools, and what the cores and devices report.
fn report(tools: &[tools::Finding], has_passed: bool) -> Result<Value, Failure> {
    let runtime = Runtime::new()?;
    let findings: Vec<Value> = tools.iter().map(tools::to_json).collect();
    Ok(json!({
        "passed": has_passed, "findings": findings, "isa": cores::isa(), "cores": cores::json(&runtime)?,
        "devices": devices::json(&runtime), "runtime": env!("CARGO_PKG_VERSION"),
    }))
}
