//! Options for placement.

use std::sync::Arc;

use udo_api::{Core, CoreKind};
use udo_engine::cores::Profile;
use udo_graph::graph::Origin;
use udo_hta::Soc;

use super::affinity::Affinity;
use super::costs::Costs;

/// The treatment of a node that no requested core accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The model is refused.
    #[default]
    Off,
    /// The node runs on this core, and the report says so.
    To(Core),
}

/// The user's options for placement.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// The cores to use, preferred first.
    pub cores: Vec<Core>,
    /// The treatment of a node that none of them accepts.
    pub fallback: Fallback,
    /// The properties of the cores.
    pub profile: Profile,
    /// Whether nodes that support any layout use channels-last on the host even if none of their inputs does. Results
    /// do not depend on it; tests that compare plans set it.
    pub prefers_channels_last: bool,
    /// Nodes that are pinned to a core. If several entries match a node, the last one counts. Entries of the model's
    /// file come first.
    pub affinity: Vec<Affinity>,
    /// The smallest number of consecutive nodes (a subnet) that is worth a core other than the last requested one.
    /// Smaller groups run on a later core.
    pub min_subnet: usize,
    /// The SoC of the device: programs for other SoCs do not run.
    pub soc: &'static Soc,
    /// Whether HTA and DSP form one runtime, called AIP as in SNPE. Nodes without a valid HTA program then run on the
    /// DSP, with a notice, and float models are refused.
    pub aip: bool,
    /// The ids of nodes that the HTA supports but that were left out when the model was prepared.
    pub hta_left_out: Origin,
    /// The costs for cost-based placement. If `None`, nodes run on the first core that accepts them.
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

/// Returns the first requested core. Runs wait in its queue.
pub fn first_core(options: &PlaceOptions) -> Core {
    options.cores.first().copied().unwrap_or(Core::CPU)
}

/// Returns the first requested core that runs kernels, for which passes prepare nodes. The HTA is skipped: it runs
/// precompiled programs, which passes do not change.
pub fn preferred_core(options: &PlaceOptions) -> Core {
    let mut cores = options.cores.iter().copied();
    cores.find(|core| core.kind() != Some(CoreKind::Hta)).unwrap_or(Core::CPU)
}
