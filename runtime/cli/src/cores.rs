//! `--cores` and what else says which core runs which nodes.

use std::fs;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use udo_api::Core;
use udo_runtime::place::{Affinity, Costs, Fallback, PlaceOptions, core_named};

/// What stands before cores among which costs decide.
const AUTO: &str = "auto:";

/// Which cores run which nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceFlags {
    /// The cores to use, the preferred one first: cpu, gpu, dsp (v68) or dsp:vNN (docs/dsp.md has the versions). With auto:
    /// before them nodes run where the whole costs least, as --costs has it
    #[arg(long, value_name = "[auto:]CORES", default_value = "cpu", value_parser = Cores::parse)]
    pub(crate) cores: Cores,
    /// What happens to a node that none of the cores takes
    #[arg(long, value_enum, default_value = "off")]
    pub(crate) fallback: FallbackFlag,
    /// Nodes that run on a core whichever is preferred, by id, name or operator (all: *); of several that speak of a node the
    /// last one counts
    #[arg(long, value_name = "0-11,177|NODE|OP|*=CORE")]
    pub(crate) affinity: Vec<Affinity>,
    /// The fewest nodes that follow each other on a core; fewer run on one named behind it, or where they fall back to
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) min_subnet: usize,
    /// What work and crossings cost under auto:, as docs/placement.md has it; figures of no machine, unless given
    #[arg(long, value_name = "FILE", value_parser = read_costs)]
    pub(crate) costs: Option<Arc<Costs>>,
}

/// `--cores`.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    pub(crate) all: Vec<Core>,
    /// Whether costs decide among them.
    by_cost: bool,
}

/// `--fallback`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FallbackFlag {
    /// The model is refused
    Off,
    /// It runs on the CPU, and the report says so
    Cpu,
}

impl Cores {
    fn parse(text: &str) -> Result<Self, String> {
        let by_cost = text.starts_with(AUTO);
        let names = text.strip_prefix(AUTO).unwrap_or(text);
        let all = names.split(',').map(core_named).collect::<Result<_, _>>()?;
        Ok(Self { all, by_cost })
    }
}

impl PlaceFlags {
    /// These cores by preference, and the CPU for what none of them takes.
    pub(crate) fn on(all: Vec<Core>) -> Self {
        let (cores, fallback) = (Cores { all, by_cost: false }, FallbackFlag::Cpu);
        Self { cores, fallback, affinity: Vec::new(), min_subnet: 1, costs: None }
    }

    /// What they say of placement.
    pub(crate) fn options(&self) -> PlaceOptions {
        let fallback = match self.fallback {
            FallbackFlag::Off => Fallback::Off,
            FallbackFlag::Cpu => Fallback::CPU,
        };
        let given = || self.costs.clone().unwrap_or_default();
        PlaceOptions {
            cores: self.cores.all.clone(),
            fallback,
            affinity: self.affinity.clone(),
            min_subnet: self.min_subnet,
            costs: self.cores.by_cost.then(given),
            ..PlaceOptions::default()
        }
    }
}

fn read_costs(path: &str) -> Result<Arc<Costs>, String> {
    let json = fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Costs::read(&json).map(Arc::new).map_err(|error| error.to_string())
}
