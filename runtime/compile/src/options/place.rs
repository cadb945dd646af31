//! How nodes find their cores.

use std::sync::Arc;

use udo_api::{Core, CoreKind};
use udo_engine::cores::Profile;
use udo_graph::graph::Origin;
use udo_hta::Soc;

use super::affinity::Affinity;
use super::costs::Costs;

/// What happens to a node that none of the cores asked for takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The model is refused.
    #[default]
    Off,
    /// It runs on this core, and the report says so.
    To(Core),
}

/// What the user decides about placement.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// The cores to use, the preferred one first.
    pub cores: Vec<Core>,
    /// What happens to a node that none of them takes.
    pub fallback: Fallback,
    /// The properties of the cores.
    pub profile: Profile,
    /// Whether nodes that work in any layout take channels last on the host though none of their inputs comes so.
    /// No result depends on it; tests that compare plans set it.
    pub prefers_channels_last: bool,
    /// Nodes that run on a core, whichever are preferred; of several that speak of a node the last one counts. A model's file may
    /// have such as well, which come before.
    pub affinity: Vec<Affinity>,
    /// The fewest nodes that follow each other on a core which is not the last of those asked for: fewer run on one behind it.
    pub min_subnet: usize,
    /// The SoC whose HTA there is: programs for others do not run.
    pub soc: &'static Soc,
    /// Whether HTA and DSP are one runtime, AIP: what the HTA has no program for, or none that is right, runs on the DSP, which is
    /// said, and models that compute with numbers are refused.
    pub aip: bool,
    /// The ids of nodes that the HTA takes and that no program of the model's file is for: whoever prepared it left them out.
    pub hta_left_out: Origin,
    /// What work costs on the cores: nodes run where the whole costs least. Where nothing is said, cores go by preference.
    pub costs: Option<Arc<Costs>>,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        Self {
            cores: vec![Core::CPU],
            fallback: Fallback::Off,
            profile: Profile::default(),
            prefers_channels_last: false,
            affinity: Vec::new(),
            min_subnet: 1,
            soc: Soc::DEFAULT,
            aip: false,
            hta_left_out: Origin::default(),
            costs: None,
        }
    }
}

/// Returns the core that was asked for first. Runs wait in its queue.
pub fn first_core(options: &PlaceOptions) -> Core {
    options.cores.first().copied().unwrap_or(Core::CPU)
}

/// Returns the core that nodes are prepared for: the first one that runs kernels. The HTA runs programs, which are left alone.
pub fn preferred_core(options: &PlaceOptions) -> Core {
    let mut cores = options.cores.iter().copied();
    cores.find(|core| core.kind() != Some(CoreKind::Hta)).unwrap_or(Core::CPU)
}
