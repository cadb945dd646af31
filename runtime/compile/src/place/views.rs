//! Places views (nodes that only change the shape) next to their neighbors: a view needs no copy if its input and
//! output are in the same memory.

use std::collections::HashMap;

use udo_api::abi::ties;
use udo_api::{Core, Encodings, Facts, TensorDesc};

use super::constraints::Constraints;
use super::{Choice, CoreRefusal, PlaceOptions, PlacedKernel, Placing};
use crate::resolve::{BoundNode, TypedGraph};
use udo_engine::cores::{Memory, PerMemory};
use udo_graph::graph::{Node, NodeId, NodeReads, Source, ValueId};

/// The memories in which each value is read, also through views. Outputs of the model are read on the host.
pub(crate) struct Readers(HashMap<ValueId, PerMemory<bool>>);

impl Readers {
    /// Collects the readers of a placed graph.
    pub(crate) fn new(graph: &TypedGraph, choices: &[Choice]) -> Self {
        let mut readers = Self(HashMap::new());
        for &output in &graph.outputs {
            readers.add(output, Memory::Host);
        }
        for (bound, choice) in graph.nodes.iter().zip(choices).rev() {
            match choice {
                Choice::Kernel(placed) => {
                    if let Some([x, y]) = placed.view(bound) {
                        readers.share(x, y);
                    } else {
                        let read = placed.inputs.iter().filter_map(|operand| operand.value);
                        read.for_each(|value| readers.add(value, Memory::for_core(placed.core)));
                    }
                }
                Choice::Alias => {
                    if let (Some(x), Some(y)) = (bound.node.input(0), bound.node.output(0)) {
                        readers.share(x, y);
                    }
                }
                Choice::Control => {
                    let read = bound.node.reads();
                    read.for_each(|(_, value)| readers.add(value, Memory::Host));
                }
                Choice::Epilogue { .. } | Choice::Folded => {}
            }
        }
        readers
    }

    /// Returns whether a value is read in a memory.
    fn is_read_in(&self, value: ValueId, memory: Memory) -> bool {
        self.0.get(&value).is_some_and(|memories| memories[memory])
    }

    /// Returns whether a value is read only in this memory.
    pub(crate) fn are_all_in(&self, value: ValueId, memory: Memory) -> bool {
        let others = Memory::ALL.into_iter().filter(|other| *other != memory);
        self.is_read_in(value, memory)
            && others.into_iter().all(|other| !self.is_read_in(value, other))
    }

    fn add(&mut self, value: ValueId, memory: Memory) {
        self.0.entry(value).or_default()[memory] = true;
    }

    /// Adds the readers of `y` to those of `x`.
    fn share(&mut self, x: ValueId, y: ValueId) {
        let memories_of_y = self.0.get(&y).copied().unwrap_or_default();
        let memories_of_x = self.0.entry(x).or_default();
        for memory in Memory::ALL {
            memories_of_x[memory] |= memories_of_y[memory];
        }
    }
}

impl PlacedKernel {
    /// Returns the input and output of a node that only changes the shape.
    pub(crate) fn view(&self, bound: &BoundNode) -> Option<[ValueId; 2]> {
        let input = self.inputs.first()?;
        let [output] = self.outputs.as_slice() else { return None };
        let is_whole = |kind: u32| matches!(kind, ties::SAME | ties::OUTPUT_IN_INPUT);
        let mut ties = self.kernel.ties().iter();
        let is_tied = ties.any(|tie| is_whole(tie.kind) && (tie.input, tie.output) == (0, 0));
        let is_view = is_tied || bound.op.schema().known_facts().has(Facts::VIEW);
        let [from, to] = [&input.format.desc, &output.format.desc];
        let does_epilogue = !self.epilogue.is_empty();
        (is_view && !does_epilogue && are_same_bytes(from, to)).then_some(())?;
        Some([input.value?, output.value?])
    }
}

/// Returns whether the bytes of one tensor are also those of the other, with the same meaning.
fn are_same_bytes(from: &TensorDesc, to: &TensorDesc) -> bool {
    let is_per_axis = |desc: &TensorDesc| matches!(desc.encodings(), Some(Encodings::PerAxis(_)));
    let are_fixed = from.full_shape().is_fixed() && to.full_shape().is_fixed();
    let are_alike = from.dtype() == to.dtype() && from.encodings() == to.encodings();
    are_fixed && are_alike && !is_per_axis(from) && from.size_bytes() == to.size_bytes()
}

impl Placing<'_> {
    /// Places views where their input is produced if it is also read there; elsewhere it would be transferred to the
    /// view and back. Returns whether a view has moved.
    pub(super) fn gather_views(&self, choices: &[Choice], constraints: &mut Constraints) -> bool {
        let Self { graph, options, .. } = *self;
        let readers = Readers::new(graph, choices);
        let mut producing_core: HashMap<ValueId, Core> = HashMap::new();
        let mut has_moved = false;
        for (id, (bound, choice)) in graph.node_ids().zip(graph.nodes.iter().zip(choices)) {
            let node = &bound.node;
            let (core, is_moved) = match choice {
                Choice::Kernel(placed) => {
                    let better = self.better_core(placed, bound, &producing_core, &readers);
                    let preference = better.map(|core| (core, refusals(core, options)));
                    let is_moved = preference.is_some_and(|(core, refusals)| {
                        constraints.prefer_if_allowed(id, core, refusals)
                    });
                    (better.filter(|_| is_moved).unwrap_or(placed.core), is_moved)
                }
                Choice::Epilogue { of } => (core_of_node(choices, *of), false),
                Choice::Alias => {
                    (core_of_input(graph, node, &producing_core).unwrap_or(Core::CPU), false)
                }
                Choice::Folded | Choice::Control => (Core::CPU, false),
            };
            has_moved |= is_moved;
            producing_core.extend(node.outputs.iter().flatten().map(|&output| (output, core)));
        }
        has_moved
    }

    /// Returns the core that a view should move to, if there is a better one.
    fn better_core(
        &self,
        placed: &PlacedKernel,
        bound: &BoundNode,
        producing_core: &HashMap<ValueId, Core>,
        readers: &Readers,
    ) -> Option<Core> {
        let Self { graph, options, .. } = *self;
        let [_, y] = placed.view(bound).filter(|_| bound.node.pin.is_none())?;
        let core = core_of_input(graph, &bound.node, producing_core)?;
        let memory = Memory::for_core(core);
        let is_better = memory != Memory::for_core(placed.core) && readers.is_read_in(y, memory);
        (is_better && options.cores.contains(&core)).then_some(core)
    }
}

/// Returns the core that produces a node's first input: the CPU for an input of the model.
fn core_of_input(
    graph: &TypedGraph,
    node: &Node,
    producing_core: &HashMap<ValueId, Core>,
) -> Option<Core> {
    let x = node.input(0)?;
    let is_input =
        || matches!(graph.value(x).ok()?.value.source, Source::Input(_)).then_some(Core::CPU);
    producing_core.get(&x).copied().or_else(is_input)
}

fn core_of_node(choices: &[Choice], node: NodeId) -> Core {
    match choices.get(node.index()) {
        Some(Choice::Kernel(placed)) => placed.core,
        _ => Core::CPU,
    }
}

/// Returns why a view is not on the cores before `core`.
fn refusals(core: Core, options: &PlaceOptions) -> Vec<CoreRefusal> {
    let before = options.cores.iter().take_while(|other| **other != core);
    let reason = format!("it only reshapes a value that {core} has and reads again");
    before.map(|&core| CoreRefusal { core, reason: reason.clone() }).collect()
}
