//! `--cores` and what else says which core runs which nodes.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use udo_api::{Core, CoreKind};
use udo_compile::place::{Costs, core_named};
use udo_hta::{SOCS, Soc};
use udo_runtime::compile::{Affinity, Fallback, PlaceOptions};

/// The prefix of a list of cores for cost-based placement.
const AUTO: &str = "auto:";

/// The name of the HTA and the DSP as one runtime.
const AIP: &str = "aip";

/// Which cores run which nodes.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceFlags {
    /// Run nodes on these cores, in order of preference
    ///
    /// CORES is a comma-separated list of cpu, gpu, hta, dsp (the same as dsp:v68), dsp:vNN for
    /// another version (docs/dsp.md), and aip. aip stands for the HTA, with the DSP for all other
    /// nodes (docs/aip.md).
    ///
    /// Each node runs on the first core in the list that supports it. With the prefix `auto:`, the
    /// nodes are placed at the least total cost instead (see --costs and docs/placement.md).
    ///
    /// Example: `--cores dsp,cpu` or `--cores auto:gpu,cpu`
    #[arg(long, value_name = "CORES", default_value = "cpu", value_parser = Cores::parse)]
    pub(crate) cores: Cores,
    /// Set the fallback core
    ///
    /// Decides what happens to a node that no core in --cores supports.
    #[arg(long, value_name = "MODE", value_enum, default_value = "off")]
    pub(crate) fallback: FallbackFlag,
    /// Run these nodes on this core, whatever --cores prefers
    ///
    /// NODES is a list of node ids such as 0-11,177 (`udo explain` shows them), a node's name, an
    /// operator type, or `*` for all nodes. May be given several times; the last one that matches a
    /// node wins (docs/placement.md).
    ///
    /// Example: `--affinity Softmax=gpu`
    #[arg(long, value_name = "NODES=CORE")]
    pub(crate) affinity: Vec<Affinity>,
    /// Use a core only for at least N consecutive nodes
    ///
    /// Shorter sequences of nodes move to a later core in --cores, or to the fallback.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) min_subnet: usize,
    /// Run the HTA programs that were compiled for this SoC
    ///
    /// A model file can contain programs for several SoCs (see `udo prepare --hta --soc NAME`).
    #[arg(long, value_name = "NAME", default_value = Soc::DEFAULT.name, value_parser = soc_named)]
    pub(crate) soc: &'static Soc,
    /// Place nodes by the costs in this file
    ///
    /// Used with the prefix `auto:` of --cores. `udo doctor --measure FILE` measures this machine
    /// and writes such a file (docs/placement.md). The default costs describe no particular
    /// machine.
    #[arg(long, value_name = "FILE", value_parser = read_costs)]
    pub(crate) costs: Option<Arc<Costs>>,
}

/// `--cores`.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    pub(crate) all: Vec<Core>,
    /// Whether HTA and DSP are one runtime.
    aip: bool,
    /// Whether costs decide among them.
    by_cost: bool,
}

/// `--fallback`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FallbackFlag {
    /// Refuse the model
    Off,
    /// Run these nodes on the CPU, and report it
    Cpu,
}

impl Cores {
    fn parse(text: &str) -> Result<Self, String> {
        let by_cost = text.starts_with(AUTO);
        let names = text.strip_prefix(AUTO).unwrap_or(text);
        let mut all = Vec::new();
        let mut aip = false;
        for name in names.split(',') {
            match name.strip_prefix(AIP) {
                Some(version) if version.is_empty() || version.starts_with(':') => {
                    all.extend([Core::HTA, core_named(&format!("dsp{version}"))?]);
                    aip = true;
                }
                _ => all.push(core_named(name).map_err(|wanted| format!("{wanted} or {AIP}"))?),
            }
        }
        Ok(Self { all, aip, by_cost })
    }
}

/// The SoC with this name.
pub(crate) fn soc_named(name: &str) -> Result<&'static Soc, String> {
    let known = || SOCS.iter().map(|soc| soc.name).collect::<Vec<_>>().join(", ");
    Soc::from_name(name).ok_or_else(|| format!("expected {}", known()))
}

impl PlaceFlags {
    /// These cores by preference, and the CPU for what none of them takes.
    pub(crate) fn on(all: Vec<Core>) -> Self {
        let cores = Cores { all, aip: false, by_cost: false };
        let (fallback, soc) = (FallbackFlag::Cpu, Soc::DEFAULT);
        Self { cores, fallback, affinity: Vec::new(), min_subnet: 1, soc, costs: None }
    }

    /// The same with the DSP in the place of the HTA, whose programs have no nodes to look at.
    pub(crate) fn without_programs(mut self) -> Self {
        let is_hta = |core: Core| core.kind() == Some(CoreKind::Hta);
        self.cores.all.retain(|&core| !is_hta(core));
        if self.cores.all.is_empty() {
            self.cores.all.push(Core::DSP_V68);
        }
        for affinity in self.affinity.iter_mut().filter(|affinity| is_hta(affinity.core)) {
            affinity.core = Core::DSP_V68;
        }
        self.cores.aip = false;
        self
    }

    /// Returns the placement options that the flags specify.
    pub(crate) fn options(&self) -> PlaceOptions {
        let fallback = match self.fallback {
            FallbackFlag::Off => Fallback::Off,
            FallbackFlag::Cpu => Fallback::To(Core::CPU),
        };
        let given = || self.costs.clone().unwrap_or_default();
        PlaceOptions {
            cores: self.cores.all.clone(),
            fallback,
            affinity: self.affinity.clone(),
            min_subnet: self.min_subnet,
            soc: self.soc,
            aip: self.cores.aip,
            costs: self.cores.by_cost.then(given),
            ..PlaceOptions::default()
        }
    }
}

fn read_costs(path: &str) -> Result<Arc<Costs>, String> {
    let json = udo_files::read(Path::new(path), udo_files::TEXT_BYTES)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    Costs::read(&json).map(Arc::new).map_err(|error| error.to_string())
}
