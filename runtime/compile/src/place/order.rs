//! Reorders nodes so that nodes of one core follow each other where possible, which saves transfers and subnets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use udo_api::Core;

use super::{Choice, Placement};
use crate::resolve::TypedGraph;
use udo_graph::graph::{Links, NodeId, NodeReads, PerValue};

/// Consecutive nodes on one core, by their indices in the graph.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) core: Core,
    pub(super) nodes: Vec<usize>,
}

/// Splits the nodes of a graph where the core changes. Control-flow graphs keep their order.
pub(super) fn runs(graph: &TypedGraph, choices: &[Choice]) -> Vec<Run> {
    let cores = cores(graph, choices);
    let has_no_control = choices.iter().all(|choice| !matches!(choice, Choice::Control));
    let order = if has_no_control { grouped(graph, choices, &cores) } else { None };
    let order = order.unwrap_or_else(|| (0..choices.len()).collect());
    let mut runs: Vec<Run> = Vec::new();
    for index in order {
        let core = cores.get(index).copied().flatten();
        match (runs.last_mut(), core) {
            (Some(run), None) => run.nodes.push(index),
            (Some(run), Some(core)) if run.core == core => run.nodes.push(index),
            (_, core) => runs.push(Run { core: core.unwrap_or(Core::CPU), nodes: vec![index] }),
        }
    }
    runs
}

/// Returns the core of each node; `None` for a node that does nothing in a run.
fn cores(graph: &TypedGraph, choices: &[Choice]) -> Vec<Option<Core>> {
    let producers = graph.producers();
    let mut cores: Vec<Option<Core>> = Vec::with_capacity(choices.len());
    for (bound, choice) in graph.nodes.iter().zip(choices) {
        let core = match choice {
            Choice::Kernel(placed) => Some(placed.core),
            Choice::Epilogue { of } => cores.get(of.index()).copied().flatten(),
            Choice::Control => Some(Core::CPU),
            Choice::Folded => None,
            Choice::Alias => {
                let source = bound.node.input(0).and_then(|value| *producers.get(value)?);
                source.and_then(|id: NodeId| cores.get(id.index()).copied().flatten())
            }
        };
        cores.push(core);
    }
    cores
}

/// Returns an order in which nodes of one core follow each other where possible; `None` if the dependencies are cyclic.
fn grouped(graph: &TypedGraph, choices: &[Choice], cores: &[Option<Core>]) -> Option<Vec<usize>> {
    let sources = sources(graph, choices);
    let mut waits_for: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); sources.len()];
    for (reader, nodes) in sources.iter().enumerate() {
        for &node in nodes {
            readers.get_mut(node)?.push(reader);
        }
    }
    let mut ready: Vec<(Option<Core>, BinaryHeap<Reverse<usize>>)> = Vec::new();
    let add = |index: usize, ready: &mut Vec<(Option<Core>, BinaryHeap<Reverse<usize>>)>| {
        let core = cores.get(index).copied().flatten();
        match ready.iter_mut().find(|(queue_core, _)| *queue_core == core) {
            Some((_, heap)) => heap.push(Reverse(index)),
            None => ready.push((core, BinaryHeap::from([Reverse(index)]))),
        }
    };
    for (index, _) in waits_for.iter().enumerate().filter(|(_, waits)| **waits == 0) {
        add(index, &mut ready);
    }
    let (mut order, mut current) = (Vec::with_capacity(sources.len()), None);
    loop {
        // Nodes without a core come first, then those of the current core, then those of the core with the earliest
        // node.
        let is_next = |(core, heap): &&mut (Option<Core>, BinaryHeap<Reverse<usize>>)| {
            (core.is_none() || *core == current) && !heap.is_empty()
        };
        let next = ready.iter_mut().find(is_next).and_then(|(_, heap)| heap.pop());
        let next = next.or_else(|| {
            let first = ready.iter_mut().max_by_key(|(_, heap)| heap.peek().copied());
            first.and_then(|(_, heap)| heap.pop())
        });
        let Some(Reverse(index)) = next else { break };
        current = cores.get(index).copied().flatten().or(current);
        order.push(index);
        for &reader in readers.get(index)? {
            let waits = waits_for.get_mut(reader)?;
            *waits -= 1;
            if *waits == 0 {
                add(reader, &mut ready);
            }
        }
    }
    (order.len() == sources.len()).then_some(order)
}

/// Returns, for each node, the nodes that must run before it, once for each dependency.
fn sources(graph: &TypedGraph, choices: &[Choice]) -> Vec<Vec<usize>> {
    let producers: PerValue<Option<NodeId>> = graph.producers();
    let producer = |value| producers.get(value).copied().flatten().map(NodeId::index);
    let sources_of = |(index, choice): (usize, &Choice)| {
        let reads = graph.nodes.get(index).into_iter().flat_map(|bound| bound.node.reads());
        let inputs = reads.filter_map(|(_, value)| producer(value));
        match choice {
            // The epilogue reads the outputs of further nodes.
            Choice::Kernel(placed) => {
                let operands = placed.inputs.iter().filter_map(|operand| operand.value);
                inputs
                    .chain(operands.filter_map(producer))
                    .filter(|source| *source != index)
                    .collect()
            }
            Choice::Epilogue { of } => inputs.chain([of.index()]).collect(),
            Choice::Alias | Choice::Folded | Choice::Control => inputs.collect(),
        }
    };
    choices.iter().enumerate().map(sources_of).collect()
}

impl Placement {
    /// Makes nodes of one core follow each other where possible, if several cores are used.
    pub fn gather(&mut self) {
        let mut cores = self.choices.iter().filter_map(|choice| match choice {
            Choice::Kernel(placed) => Some(placed.core),
            Choice::Epilogue { .. } | Choice::Alias | Choice::Folded | Choice::Control => None,
        });
        let first = cores.next();
        if cores.all(|core| Some(core) == first) {
            return;
        }
        let runs = runs(&self.resolved.graph, &self.choices);
        let order: Vec<usize> = runs.into_iter().flat_map(|run| run.nodes).collect();
        let mut new_indices = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = new_indices.get_mut(old) {
                *slot = new;
            }
        }
        let nodes = std::mem::take(&mut self.resolved.graph.nodes);
        self.resolved.graph.nodes = ordered(nodes, &order);
        self.choices = ordered(std::mem::take(&mut self.choices), &order);
        for choice in &mut self.choices {
            if let Choice::Epilogue { of } = choice {
                *of = NodeId::new(new_indices.get(of.index()).copied().unwrap_or_default());
            }
        }
    }
}

fn ordered<T>(items: Vec<T>, order: &[usize]) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    order.iter().filter_map(|&index| items.get_mut(index).and_then(Option::take)).collect()
}
