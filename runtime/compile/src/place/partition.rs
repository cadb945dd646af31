//! Partitions a graph among the cores: by cost if the options have costs, else in the order of the cores. Nodes of
//! parts below the minimum size move to later cores.

use std::collections::{BTreeMap, BTreeSet};

use udo_api::Core;

use super::constraints::Constraints;
use super::cost_based::{Member, Problem, Shared};
use super::order::{self, Run};
use super::{Choice, CoreRefusal, Fallback, PlaceError, PlacedKernel, Placing};
use crate::compiler::Compiler;
use crate::options::Costs;
use udo_graph::graph::{Links, NodeId, Source, ValueId};

impl Placing<'_> {
    /// Returns the choice for each node, and the modelled time in microseconds if cores are chosen by cost.
    pub(super) fn partitioned(
        &self,
        compiler: &Compiler<'_>,
    ) -> Result<(Vec<Choice>, Option<f64>), PlaceError> {
        let (mut constraints, mut cost) = match &self.options.costs {
            None => (Constraints::none(self.graph.nodes.len()), None),
            Some(costs) => self.cost_based(compiler, costs)?,
        };
        loop {
            let choices = self.choices(compiler, &constraints)?;
            if self.gather_views(&choices, &mut constraints) {
                continue;
            }
            let mut is_stable = true;
            for run in self.small_runs(&choices) {
                let (count, min) = (self.count(&run), self.options.min_subnet);
                let reason =
                    format!("{count} nodes follow each other there, expected at least {min}");
                for index in run.nodes {
                    is_stable &= !constraints.refuse(NodeId::new(index), run.core, &reason);
                }
            }
            if is_stable {
                return Ok((choices, cost));
            }
            cost = None;
        }
    }

    /// Returns the runs that have too few nodes on a core, if a later core may take them.
    fn small_runs(&self, choices: &[Choice]) -> Vec<Run> {
        let Self { graph, options, .. } = *self;
        let last = match options.fallback {
            Fallback::To(core) => Some(core),
            Fallback::Off => options.cores.last().copied(),
        };
        if options.min_subnet < 2 || options.cores.first().copied() == last {
            return Vec::new();
        }
        let is_pinned =
            |index: &usize| graph.nodes.get(*index).is_some_and(|bound| bound.node.pin.is_some());
        let is_small = |run: &Run| {
            Some(run.core) != last
                && self.count(run) < options.min_subnet
                && !run.nodes.iter().any(is_pinned)
                && run
                    .nodes
                    .iter()
                    .any(|&index| matches!(choices.get(index), Some(Choice::Kernel(_))))
        };
        order::runs(graph, choices).into_iter().filter(is_small).collect()
    }

    /// Returns the number of the model's nodes that a run computes.
    fn count(&self, run: &Run) -> usize {
        let nodes = run.nodes.iter().filter_map(|&index| self.graph.nodes.get(index));
        let ids = nodes.filter(|bound| !bound.is_folded).flat_map(|bound| bound.node.origin.ids());
        ids.collect::<BTreeSet<u32>>().len()
    }

    /// Assigns each node to the core with which the total cost is minimal; returns that cost.
    fn cost_based(
        &self,
        compiler: &Compiler<'_>,
        costs: &Costs,
    ) -> Result<(Constraints, Option<f64>), PlaceError> {
        let cores = self.all_cores();
        costs.check(&cores).map_err(PlaceError::Costs)?;
        let count = self.graph.nodes.len();
        let mut placed = Vec::with_capacity(cores.len());
        for &core in &cores {
            let mut constraints = Constraints::none(count);
            if self.options.cores.contains(&core) {
                let nodes = self.graph.node_ids();
                nodes.for_each(|node| constraints.prefer(node, core, Vec::new()));
            }
            placed.push(self.choices(compiler, &constraints)?);
        }
        let groups = self.groups(&placed);
        let problem = self.problem(costs, (&cores, &placed), &groups);
        let Some((assignment, cost)) = problem.solve() else {
            return Ok((Constraints::none(count), None));
        };
        let mut constraints = Constraints::none(count);
        for ((members, place), group_costs) in
            groups.members.iter().zip(assignment).zip(&problem.groups)
        {
            let Some(&core) = cores.get(place) else { continue };
            let chosen_cost = group_costs.get(place).copied().flatten().unwrap_or_default();
            let others = cores.iter().zip(group_costs).filter(|(other, _)| **other != core);
            let refusals = others.filter_map(|(&other, cost)| {
                let cost = (*cost)?;
                let reason = format!(
                    "the total cost is higher: its nodes take {cost:.1} us there and {chosen_cost:.1} us on {core}, without transfers"
                );
                Some(CoreRefusal { core: other, reason })
            });
            let refusals: Vec<CoreRefusal> = refusals.collect();
            for &index in members {
                constraints.prefer(NodeId::new(index), core, refusals.clone());
            }
        }
        Ok((constraints, Some(cost)))
    }

    /// Returns all cores that a node may run on, and the CPU, where the caller's inputs and outputs are. The index of a
    /// core in this list is its place in a [`Problem`].
    fn all_cores(&self) -> Vec<Core> {
        let fallback = match self.options.fallback {
            Fallback::Off => None,
            Fallback::To(core) => Some(core),
        };
        let mut cores = self.options.cores.clone();
        for core in self.pinned.iter().copied().chain(fallback).chain([Core::CPU]) {
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
        cores
    }

    /// Groups the nodes that must be on one core, because one kernel computes them on some core.
    fn groups(&self, placed: &[Vec<Choice>]) -> Groups {
        let count = self.graph.nodes.len();
        let producers = self.graph.producers();
        let mut parents: Vec<usize> = (0..count).collect();
        for choices in placed {
            for (index, choice) in choices.iter().enumerate() {
                let merged_with = match choice {
                    Choice::Epilogue { of } => Some(of.index()),
                    Choice::Alias => {
                        let node = self.graph.nodes.get(index).map(|bound| &bound.node);
                        let input = node.and_then(|node| node.input(0));
                        input.and_then(|x| *producers.get(x)?).map(NodeId::index)
                    }
                    Choice::Kernel(_) | Choice::Folded | Choice::Control => None,
                };
                if let Some(merged_with) = merged_with {
                    let (a, b) = (find_root(&parents, index), find_root(&parents, merged_with));
                    if let Some(slot) = parents.get_mut(a.max(b)) {
                        *slot = a.min(b);
                    }
                }
            }
        }
        let mut numbers = BTreeMap::new();
        let mut groups = Groups { by_node: vec![None; count], members: Vec::new() };
        for index in 0..count {
            let is_work = |choices: &Vec<Choice>| {
                !matches!(choices.get(index), None | Some(Choice::Folded | Choice::Control))
            };
            if !placed.iter().any(is_work) {
                continue;
            }
            let number = *numbers.entry(find_root(&parents, index)).or_insert_with(|| {
                groups.members.push(Vec::new());
                groups.members.len() - 1
            });
            if let (Some(members), Some(group)) =
                (groups.members.get_mut(number), groups.by_node.get_mut(index))
            {
                members.push(index);
                *group = Some(number);
            }
        }
        groups
    }

    fn is_view(&self, choices: &[Choice], index: usize) -> bool {
        let bound = self.graph.nodes.get(index);
        let placed = match choices.get(index) {
            Some(Choice::Kernel(placed)) => Some(placed),
            _ => None,
        };
        placed.zip(bound).is_some_and(|(placed, bound)| placed.view(bound).is_some())
    }

    /// Returns the costs of the groups on each core, and the values that they exchange.
    fn problem(
        &self,
        costs: &Costs,
        (cores, placed): (&[Core], &[Vec<Choice>]),
        groups: &Groups,
    ) -> Problem {
        let group_costs = |members: &Vec<usize>| {
            let on_core = |(core, choices): (&Core, &Vec<Choice>)| {
                let node_cost = |&index: &usize| {
                    let cost = cost(costs, *core, choices, index)?;
                    // A view costs nothing.
                    Some(if self.is_view(choices, index) { 0.0 } else { cost })
                };
                members.iter().map(node_cost).sum()
            };
            let mut by_core: Vec<Option<f64>> = cores.iter().zip(placed).map(on_core).collect();
            // The fallback core is only for groups that no other core accepts.
            let regular = self.options.cores.len() + self.pinned.len();
            if by_core.iter().take(regular).any(Option::is_some) {
                by_core.iter_mut().skip(regular).for_each(|cost| *cost = None);
            }
            if by_core.iter().any(Option::is_some) {
                return by_core;
            }
            // No core runs all nodes of the group: the core of the first node counts.
            let first =
                members.iter().find_map(|&index| placed.first().and_then(|c| core_at(c, index)));
            cores.iter().map(|core| (Some(*core) == first).then_some(0.0)).collect()
        };
        let groups_costs = groups.members.iter().map(group_costs).collect();
        let caller = cores.iter().position(|core| *core == Core::CPU).unwrap_or_default();
        let (producers, consumers) = (self.graph.producers(), self.graph.consumers());
        let member = |id: &NodeId| {
            let group = groups.by_node.get(id.index()).copied().flatten();
            group.map_or(Member::Place(caller), Member::Group)
        };
        let shared = |id: ValueId| {
            let source = &self.graph.value(id).ok()?.value.source;
            let producer = match source {
                Source::Constant(_) | Source::Outer => return None,
                Source::Input(_) => Member::Place(caller),
                Source::Computed => member(&producers.get(id).copied().flatten()?),
            };
            if self.graph.known(Some(id)).is_some() {
                return None;
            }
            let readers = consumers.get(id).into_iter().flatten().map(|(id, _)| member(id));
            let mut readers: Vec<Member> = readers.collect();
            if self.graph.outputs.contains(&id) {
                readers.push(Member::Place(caller));
            }
            readers.retain(|reader| *reader != producer);
            let is_group = |member: &Member| matches!(member, Member::Group(_));
            let bytes = self.bytes(id);
            let crossing = |from: &Core| {
                let to = cores.iter().map(|to| costs.crossing(*from, *to, bytes).unwrap_or(0.0));
                to.collect()
            };
            let crossing = cores.iter().map(crossing).collect();
            let involves_groups = is_group(&producer) || readers.iter().any(is_group);
            (involves_groups && !readers.is_empty()).then_some(Shared {
                producer,
                readers,
                crossing,
            })
        };
        let values = self.graph.value_ids().filter_map(shared).collect();
        Problem { groups: groups_costs, values }
    }

    /// Returns the bytes of a value, quantized if it has an encoding.
    fn bytes(&self, id: ValueId) -> u64 {
        let typed = self.graph.value(id).ok();
        let desc = typed.map(|typed| typed.quantized_desc().unwrap_or(typed.desc));
        desc.map_or(0, |desc| desc.size_bytes() as u64)
    }
}

/// Nodes that are placed together.
struct Groups {
    /// The group of each node that is computed in a run.
    by_node: Vec<Option<usize>>,
    /// The nodes of each group.
    members: Vec<Vec<usize>>,
}

/// Returns the representative of a node's group in a union-find forest: `parents` has the parent of each node, itself
/// for a representative.
fn find_root(parents: &[usize], mut node: usize) -> usize {
    while let Some(&parent) = parents.get(node).filter(|parent| **parent != node) {
        node = parent;
    }
    node
}

fn core_at(choices: &[Choice], index: usize) -> Option<Core> {
    match choices.get(index)? {
        Choice::Kernel(placed) => Some(placed.core),
        Choice::Epilogue { .. } | Choice::Alias | Choice::Folded | Choice::Control => None,
    }
}

/// Returns the cost of a node on `core` in microseconds; `None` if it runs elsewhere.
fn cost(costs: &Costs, core: Core, choices: &[Choice], index: usize) -> Option<f64> {
    match choices.get(index)? {
        Choice::Kernel(placed) if placed.core == core => {
            let work = placed.kernel.work();
            let operations =
                work.map(|work| (work.operations(), work.arithmetic().unwrap_or_default()));
            let bytes = work.and_then(|work| work.bytes()).unwrap_or_else(|| bytes(placed));
            costs.step(core, operations.unwrap_or_default(), bytes)
        }
        Choice::Kernel(_) => None,
        Choice::Epilogue { .. } | Choice::Alias | Choice::Folded | Choice::Control => Some(0.0),
    }
}

/// Returns the bytes of a kernel's tensors.
fn bytes(placed: &PlacedKernel) -> u64 {
    let operands = placed.inputs.iter().chain(&placed.outputs);
    operands.fold(0, |sum, operand| sum.saturating_add(operand.format.desc.size_bytes() as u64))
}
