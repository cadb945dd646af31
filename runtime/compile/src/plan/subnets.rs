//! Divides the steps of a plan into subnets that run on one core each, and names them. Reports and profiles group steps
//! by subnet.

use std::collections::BTreeMap;
use std::ops::Range;

use udo_api::{Core, CoreKind};

use super::lowered::Lowered;
use super::{Purpose, Step};
use crate::place::{Choice, Placement};
use udo_graph::graph::{Links, Origin};

/// Consecutive nodes on one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its name, for example `CPU Subnet 0` or `DSP Subnet 1`; the number is its index in the model.
    pub name: String,
    /// The name of its AIP subnet, if HTA and DSP form one runtime.
    pub within: Option<String>,
    /// The core.
    pub core: Core,
    /// The ids of the model's nodes in it.
    pub nodes: Origin,
    /// The range of its steps.
    pub steps: Range<usize>,
}

impl Subnet {
    /// Returns a subnet of one step.
    fn new(index: usize, core: Core, step: usize, aip: bool) -> Self {
        let kind = match core.kind() {
            // The name that the AIP runtime uses for its DSP part.
            Some(CoreKind::Dsp) if aip => "HNN".to_owned(),
            kind => kind.map_or("Core", CoreKind::name).to_ascii_uppercase(),
        };
        let name = format!("{kind} Subnet {index}");
        Self { name, within: None, core, nodes: Origin::default(), steps: step..step + 1 }
    }

    /// Returns the names of the enclosing subnet, if any, and its own.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.within.as_deref().into_iter().chain([self.name.as_str()])
    }
}

/// The subnets of a plan, and the subnet of each node.
pub(super) struct Subnets {
    pub(super) all: Vec<Subnet>,
    by_node: BTreeMap<usize, usize>,
}

impl Subnets {
    pub(super) fn new(lowered: &Lowered, origins: &Origins, aip: bool) -> Self {
        let mut subnets = Self { all: Vec::new(), by_node: BTreeMap::new() };
        for (index, step) in lowered.steps.iter().enumerate().filter(|(_, step)| computes(step)) {
            match subnets.all.last_mut().filter(|last| last.core == step.core) {
                Some(last) => last.steps.end = index + 1,
                None => subnets.all.push(Subnet::new(subnets.all.len(), step.core, index, aip)),
            }
            let subnet = subnets.all.len() - 1;
            let Some(node) = step.node() else { continue };
            for &node in origins.done_by.get(&node).into_iter().flatten().chain([&node]) {
                subnets.by_node.insert(node, subnet);
                if let (Some(last), Some(origin)) = (subnets.all.last_mut(), origins.all.get(node))
                {
                    last.nodes.add(origin);
                }
            }
        }
        if aip {
            subnets.join_aip();
        }
        subnets
    }

    /// Joins consecutive subnets on HTA and DSP into AIP subnets.
    fn join_aip(&mut self) {
        let (mut count, mut is_open) = (0, false);
        for subnet in &mut self.all {
            let is_aip = matches!(subnet.core.kind(), Some(CoreKind::Hta | CoreKind::Dsp));
            count += usize::from(is_aip && !is_open);
            is_open = is_aip;
            subnet.within = is_aip.then(|| format!("AIP Subnet {}", count - 1));
        }
    }

    /// Returns the subnet of a node, if a step computes it.
    pub(super) fn of_node(&self, node: usize) -> Option<usize> {
        self.by_node.get(&node).copied()
    }

    /// Returns the subnet of a step; `None` for a step between two subnets.
    pub(super) fn of_step(&self, step: usize) -> Option<usize> {
        self.all.iter().position(|subnet| subnet.steps.contains(&step))
    }
}

fn computes(step: &Step) -> bool {
    matches!(step.purpose, Purpose::Node { .. } | Purpose::Check { .. })
}

/// The ids of the model's nodes that each node of a placed graph stands for, and the nodes whose work other nodes do.
pub(super) struct Origins {
    pub(super) all: Vec<Origin>,
    /// The nodes without a kernel of their own, by the node that computes them.
    done_by: BTreeMap<usize, Vec<usize>>,
}

impl Origins {
    pub(super) fn new(placement: &Placement) -> Self {
        let nodes = &placement.resolved.graph.nodes;
        let producers = placement.resolved.graph.producers();
        // The node that computes each node.
        let mut computed_by: Vec<usize> = Vec::with_capacity(nodes.len());
        let mut done_by: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, (bound, choice)) in nodes.iter().zip(&placement.choices).enumerate() {
            let by = match choice {
                Choice::Epilogue { of } => computed_by.get(of.index()).copied(),
                Choice::Alias => {
                    let producer = bound.node.input(0).and_then(|value| *producers.get(value)?);
                    producer.and_then(|id| computed_by.get(id.index()).copied())
                }
                Choice::Kernel(_) | Choice::Folded | Choice::Control => None,
            };
            computed_by.push(by.unwrap_or(at));
            if let Some(by) = by {
                done_by.entry(by).or_default().push(at);
            }
        }
        Self { all: nodes.iter().map(|bound| bound.node.origin.clone()).collect(), done_by }
    }
}
