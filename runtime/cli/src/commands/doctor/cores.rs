//! The cores of this machine: what their kernels run on, trials, and measured costs.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use udo_api::{Core, CoreKind};
use udo_compile::place::{DSP_ARCHS, core_named};
use udo_engine::cores::{opencl, takes_packages};
use udo_runtime::compile::Coverage;
use udo_runtime::{Device, Runtime};
use udo_simd::Isa;

use super::check::{self, Checked};
use super::measure;
use crate::commands::Run;
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, print_json, table};

/// Flags that try the cores, or measure what work costs on them.
#[derive(Args, Debug)]
pub(super) struct CoreFlags {
    /// Run a small model on this core and check its results
    ///
    /// CORE is cpu, gpu, hta, dsp (the same as dsp:v68) or dsp:vNN. Prints only the cores. The
    /// command fails if a result is wrong or a core cannot run the model. May be given several
    /// times.
    #[arg(long = "runtime", value_name = "CORE", value_parser = core_named)]
    runtimes: Vec<Core>,
    /// Measure the costs of each core and write them to this file
    ///
    /// The --costs flag of other commands reads the file (docs/placement.md).
    #[arg(long, value_name = "FILE", conflicts_with = "runtimes")]
    measure: Option<PathBuf>,
    /// Run --runtime and --measure on N threads
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZero<usize>,
}

/// List the cores of this machine, test them, or measure their costs
///
/// The same as the table of cores in `udo doctor`, which has the same flags.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo platform
  udo platform --runtime gpu --runtime dsp
  udo platform --measure costs.json")]
pub(crate) struct Platform {
    #[command(flatten)]
    cores: CoreFlags,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A row of the table of cores.
struct Row {
    core: Core,
    kind: CoreKind,
    is_emulated: bool,
    /// The hardware or emulation that runs its kernels.
    backend: String,
    cores: u32,
    /// How many built-in operators have a kernel for it.
    operators: usize,
    checked: Option<Checked>,
}

impl Run for Platform {
    fn run(self) -> Outcome {
        self.cores.run(self.json)
    }
}

impl CoreFlags {
    /// Whether they ask for a trial or a measurement.
    pub(super) fn is_set(&self) -> bool {
        self.measure.is_some() || !self.runtimes.is_empty()
    }

    /// Lists, tries or measures the cores.
    ///
    /// # Errors
    /// A core that fails its trial, or costs that cannot be measured or written.
    pub(super) fn run(&self, is_json: bool) -> Outcome {
        let runtime = Runtime::new()?;
        if let Some(path) = &self.measure {
            return measure::write(&runtime, path, self.threads, is_json);
        }
        let rows = rows(&runtime, &self.runtimes, self.threads)?;
        if is_json {
            print_json(&json!({
                "isa": isa(), "cores": rows.iter().map(to_json).collect::<Vec<_>>(),
                "runtime": env!("CARGO_PKG_VERSION"),
            }));
        } else {
            say(&rows, !self.runtimes.is_empty());
        }
        let is_bad = |row: &&Row| row.checked.as_ref().is_some_and(|of| of.why.is_some());
        let failed: Vec<String> =
            rows.iter().filter(is_bad).map(|of| of.core.to_string()).collect();
        match failed.as_slice() {
            [] => Ok(()),
            failed => {
                let count = failed.len();
                let text = format!("{count} of {} cores failed: {}", rows.len(), failed.join(", "));
                Err(Failure::new(text)
                    .help("`udo ops --core CORE` lists what a core has kernels for"))
            }
        }
    }
}

/// Prints the table of cores, one of each kind.
pub(super) fn list(runtime: &Runtime) -> Outcome {
    say(&rows(runtime, &[], NonZero::<usize>::MIN)?, false);
    Ok(())
}

/// The same as a list of JSON objects.
pub(super) fn json(runtime: &Runtime) -> Result<Value, Failure> {
    Ok(rows(runtime, &[], NonZero::<usize>::MIN)?.iter().map(to_json).collect())
}

/// Returns the rows of the cores to try, or of one core of each kind.
fn rows(runtime: &Runtime, tried: &[Core], threads: NonZero<usize>) -> Result<Vec<Row>, Failure> {
    let all: Vec<Core> = match tried {
        [] => CoreKind::ALL.iter().filter_map(|kind| Core::from_name(kind.name())).collect(),
        tried => tried.to_vec(),
    };
    let coverage = runtime.coverage(&all).map_err(Failure::new)?;
    let row = |(at, &core): (usize, &Core)| {
        let kind = core.kind()?;
        let has = |op: &&Coverage| op.types.get(at).is_some_and(|(_, types)| !types.is_empty());
        let operators = coverage.iter().filter(has).count();
        let devices = runtime.devices().iter().filter(|device| device.kind() == kind);
        let cores = devices.map(Device::core_count).sum();
        let (is_emulated, backend) = backend(kind);
        let checked = (!tried.is_empty()).then(|| check::check(runtime, core, threads));
        Some(Row { core, kind, is_emulated, backend, cores, operators, checked })
    };
    Ok(all.iter().enumerate().filter_map(row).collect())
}

/// Whether cores of a kind are emulated, and what runs their kernels.
fn backend(kind: CoreKind) -> (bool, String) {
    match kind {
        CoreKind::Cpu => (false, format!("instruction set {}", isa())),
        CoreKind::Gpu => match opencl::find() {
            Ok(device) => {
                let driver = device.driver_version();
                (false, format!("opencl: {}, driver {driver}", device.name()))
            }
            Err(error) => (true, format!("work items on host threads ({error})")),
        },
        CoreKind::Dsp | CoreKind::Hta => (true, "host threads".to_owned()),
    }
}

/// The instruction set that kernels of the CPU use.
pub(super) fn isa() -> &'static str {
    match udo_simd::isa() {
        Isa::Portable { .. } => "portable",
        Isa::Avx2 { .. } => "avx2",
        Isa::Avx512 { .. } => "avx512",
        Isa::Amx { .. } => "amx",
    }
}

/// The versions of a kind that differ in what they run.
fn versions(kind: CoreKind) -> Vec<String> {
    let archs = if kind.has_archs() { DSP_ARCHS } else { &[] };
    archs.iter().map(|arch| format!("v{arch}")).collect()
}

fn say(rows: &[Row], is_tried: bool) {
    let word = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no }.to_owned();
    let cells = |row: &Row| {
        [
            row.core.to_string(),
            word(row.is_emulated, "emulated", "real"),
            row.backend.clone(),
            row.cores.to_string(),
            row.operators.to_string(),
            word(takes_packages(row.kind), "yes", "no"),
            versions(row.kind).join(" "),
        ]
    };
    let columns = [
        Left("core"),
        Left("kind"),
        Left("runs on"),
        Right("cores"),
        Right("operators"),
        Left("packages"),
        Left("versions"),
    ];
    outln!("{}", table(columns, rows.iter().map(cells).collect()));
    if !is_tried {
        return;
    }
    for row in rows {
        let Some(Checked { micros, why }) = &row.checked else { continue };
        match why {
            None => outln!("{}: passed, a run takes {micros:.1} us", row.core),
            Some(why) => outln!("{}: failed: {why}", row.core),
        }
    }
}

fn to_json(row: &Row) -> Value {
    let mut json = json!({
        "core": row.core.to_string(), "kind": row.kind.name(), "is_emulated": row.is_emulated, "backend": row.backend,
        "cores": row.cores, "operators": row.operators, "takes_packages": takes_packages(row.kind),
        "versions": versions(row.kind),
    });
    if let Some(Checked { micros, why }) = &row.checked {
        json["check"] = json!({ "passed": why.is_none(), "us": micros, "why": why });
    }
    json
}
