//! Reports the values that cross between subnets (consecutive steps on one core), or between a subnet and the caller,
//! and how they are transferred.

use std::collections::{BTreeMap, BTreeSet};

use udo_api::Core;

use super::subnets::Subnets;
use crate::place::{Choice, Operand, Placement};
use udo_engine::cores::{Format, Memory};
use udo_graph::graph::{Source, ValueId};

/// A value that one subnet produces and another one reads. The caller produces the model's inputs and reads its
/// outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The value's name.
    pub value: String,
    /// The index in [`Report::subnets`](super::Report::subnets) of its producer; `None` for the caller.
    pub from: Option<usize>,
    /// The index of its consumer; `None` for the caller.
    pub to: Option<usize>,
    /// The type, shape and layout in which it is produced.
    pub made: String,
    /// The type, shape and layout in which it is read.
    pub read: String,
    /// Its size where it is read.
    pub bytes: u64,
    /// How it is transferred.
    pub passage: Passage,
}

/// How a value gets from its producer to its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Both use the same bytes.
    Shared,
    /// It is copied to another memory.
    Copied,
    /// It is converted to another type or layout.
    Converted,
}

impl Passage {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Copied => "copied",
            Self::Converted => "converted",
        }
    }
}

/// A value where it is produced or read.
#[derive(Clone, Copy)]
struct End {
    value: ValueId,
    format: Format,
    memory: Memory,
}

/// The values that nodes produce and read, before lowering.
pub(super) struct Endpoints {
    /// The values that each node reads.
    reads: Vec<Vec<End>>,
    /// The node that produces each value, and the value's format and memory there.
    produced: BTreeMap<ValueId, (usize, End)>,
    /// The input of each node that computes nothing, by its output.
    elided: BTreeMap<ValueId, ValueId>,
    /// The graph's inputs.
    inputs: BTreeMap<ValueId, End>,
    /// The graph's outputs.
    outputs: Vec<End>,
    names: BTreeMap<ValueId, String>,
}

impl Endpoints {
    pub(super) fn new(placement: &Placement) -> Self {
        let graph = &placement.resolved.graph;
        let mut ends = Self {
            reads: Vec::with_capacity(graph.nodes.len()),
            produced: BTreeMap::new(),
            elided: BTreeMap::new(),
            inputs: BTreeMap::new(),
            outputs: Vec::new(),
            names: BTreeMap::new(),
        };
        let on_host = |value: ValueId| {
            let format = Format::from_desc(graph.desc(Some(value)));
            End { value, format, memory: Memory::Host }
        };
        for (index, value) in graph.values.iter().enumerate() {
            let id = ValueId::new(index);
            if matches!(value.value.source, Source::Input(_)) && graph.known(Some(id)).is_none() {
                ends.inputs.insert(id, on_host(id));
            }
            ends.names.insert(id, value.value.name.clone());
        }
        for (node, (bound, choice)) in graph.nodes.iter().zip(&placement.choices).enumerate() {
            let mut reads = Vec::new();
            if let Choice::Kernel(placed) = choice {
                let end = |operand: &Operand| end(operand, placed.core);
                let is_variable = |end: &End| graph.known(Some(end.value)).is_none();
                reads.extend(placed.inputs.iter().filter_map(end).filter(is_variable));
                for output in placed.outputs.iter().filter_map(end) {
                    ends.produced.insert(output.value, (node, output));
                }
            }
            if let (Some(x), Some(y)) = (bound.node.input(0), bound.node.output(0)) {
                ends.elided.insert(y, x);
            }
            ends.reads.push(reads);
        }
        ends.outputs.extend(graph.outputs.iter().map(|&output| on_host(output)));
        ends
    }

    /// Returns the crossings in the order in which they are read. Repeated reads in one format count once.
    pub(super) fn crossings(&self, subnets: &Subnets) -> Vec<Crossing> {
        let mut crossings = Vec::new();
        let mut seen = BTreeSet::new();
        let outputs = self.outputs.iter().map(|end| (None, end));
        let reads = self.reads.iter().enumerate().filter_map(|(node, reads)| {
            let subnet = subnets.of_node(node)?;
            Some(reads.iter().map(move |end| (Some(subnet), end)))
        });
        for (to, read) in reads.flatten().chain(outputs) {
            let Some((from, produced)) = self.producer(read.value, subnets) else { continue };
            let key = (produced.value, to, read.format.to_string());
            if from == to || !seen.insert(key) {
                continue;
            }
            let has_same_bytes = produced.format.desc.dtype() == read.format.desc.dtype()
                && (produced.format.layout() == read.format.layout()
                    || read.format.has_same_bytes());
            let passage = match (has_same_bytes, produced.memory == read.memory) {
                (true, true) => Passage::Shared,
                (true, false) => Passage::Copied,
                (false, _) => Passage::Converted,
            };
            crossings.push(Crossing {
                value: self.names.get(&produced.value).cloned().unwrap_or_default(),
                from,
                to,
                made: produced.format.to_string(),
                read: read.format.to_string(),
                bytes: read.format.desc.size_bytes() as u64,
                passage,
            });
        }
        crossings
    }

    /// Returns the subnet that produces a value, and the format; `None` for constants.
    fn producer(&self, mut value: ValueId, subnets: &Subnets) -> Option<(Option<usize>, End)> {
        loop {
            if let Some(end) = self.inputs.get(&value) {
                return Some((None, *end));
            }
            if let Some((node, end)) = self.produced.get(&value)
                && let Some(subnet) = subnets.of_node(*node)
            {
                return Some((Some(subnet), *end));
            }
            // Nodes are in topological order, so the loop ends.
            value = *self.elided.get(&value)?;
        }
    }
}

fn end(operand: &Operand, core: Core) -> Option<End> {
    let format = operand.format;
    operand.value.map(|value| End { value, format, memory: Memory::for_core(core) })
}
