//! What a plan says of itself: placement with reasons, and memory to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use udo_api::{Arithmetic, Core, Encoding, Encodings, TensorDesc};

use super::arena::Arenas;
use super::crossings::{Crossing, Ends};
use super::lowered::Lowered;
use super::lowering::TRANSFER;
use super::subnets::{Origins, Subnet, Subnets};
use super::{Place, Step};
use crate::compiler::Compiler;
use crate::place::{Choice, CoreRefusal, Operand, PlacedKernel, Placement};
use crate::resolve::{BoundNode, Control, TypedGraph};
use udo_engine::cores::{Memory, PerMemory};
use udo_graph::graph::{GraphValue, Links, Node, Origin, ValueId};

/// What runs where and why, and how much memory it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What the user should know about binding.
    pub notices: Vec<String>,
    /// The parts that run on one core each, in the order of a run.
    pub subnets: Vec<Subnet>,
    /// What goes from one of them to another, or between one and the caller.
    pub crossings: Vec<Crossing>,
    /// Microseconds that the nodes, and what crosses between cores, take by the costs that cores were chosen by; nothing where they
    /// were not.
    pub modelled_us: Option<f64>,
    /// One entry per node, in the order of the graph.
    pub nodes: Vec<NodeReport>,
    /// One entry per call of a kernel, in the order of a run.
    pub steps: Vec<StepReport>,
    /// One entry per memory that the plan uses.
    pub memories: Vec<CoreMemory>,
}

/// Returns the name of a subnet of a report by its index.
pub fn subnet_name(report: &Report, subnet: Option<usize>) -> Option<&str> {
    report.subnets.get(subnet?).map(|subnet| subnet.name.as_str())
}

impl Report {
    /// The steps that bring a value from the memory of a device into another one's, and these memories' names.
    pub fn exchanges(&self) -> impl Iterator<Item = (&StepReport, [&'static str; 2])> {
        self.steps.iter().filter_map(|step| Some((step, step.between?)))
    }
}

/// Where one node runs, and why not elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The ids of the model's nodes that it does the work of.
    pub ids: Origin,
    /// The place in [`Report::subnets`] of the one that it is of; nothing where no step computes it.
    pub subnet: Option<usize>,
    /// The node's name.
    pub name: String,
    /// Its operator type.
    pub op: String,
    /// The package of its kernel.
    pub package: String,
    /// The core that runs it.
    pub core: Core,
    /// What a GPU kernel runs on: `opencl: <device>` or `work items on host threads`.
    pub backend: Option<String>,
    /// Why the kernel's OpenCL C does not run; nothing where it does, or the kernel has none.
    pub opencl_unused: Option<String>,
    /// The types and shapes of its inputs there.
    pub inputs: Vec<String>,
    /// The types and shapes of its outputs there.
    pub outputs: Vec<String>,
    /// The names of what it reads.
    pub reads: Vec<String>,
    /// The names of what it makes.
    pub makes: Vec<String>,
    /// What integers stand for among these, by the value's name, in words.
    pub encodings: Vec<(String, String)>,
    /// The cores asked for before this one.
    pub refusals: Vec<CoreRefusal>,
    /// Whether the core was not asked for.
    pub fell_back: bool,
    /// Whether no step computes it, because its output is its inputs' bytes.
    pub is_view: bool,
    /// The node whose kernel does its work, where that is another one's.
    pub fused_into: Option<String>,
    /// Whether no step computes it, because it was computed when the model was compiled, on the CPU.
    pub is_folded: bool,
    /// What it says of the nodes behind it, if the host runs them as it says.
    pub control: Option<&'static str>,
    /// How many subgraphs it is in.
    pub depth: usize,
}

/// One call of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The place in [`Report::subnets`] of the one that it is of; nothing between two.
    pub subnet: Option<usize>,
    /// The node's name, or the value's where the step transfers one.
    pub name: String,
    /// The operator type; `Transfer` for a step that brings a value into another memory or type.
    pub op: String,
    /// The package of the kernel; empty for a step that transfers a value.
    pub package: String,
    /// The core that runs it.
    pub core: Core,
    /// The types and shapes of the inputs.
    pub inputs: Vec<String>,
    /// The types and shapes of the outputs.
    pub outputs: Vec<String>,
    /// The memories that it brings a value from and to, where it does that alone.
    pub between: Option<[&'static str; 2]>,
    /// The inputs that outputs take the place of.
    pub in_place: Vec<(u16, usize)>,
    /// Bytes of scratch that it takes.
    pub scratch_bytes: usize,
    /// Bytes that it reads and writes, at the bounds of tensors that are bounded: as the kernel says, else those of its inputs,
    /// outputs and packed constants.
    pub bytes: u64,
    /// Multiplications and additions of products, as the kernel's algorithm does them; 0 where it does not say.
    pub operations: u64,
    /// What those are done with.
    pub arithmetic: Arithmetic,
    /// How the kernel computes, where it might in several ways and says so.
    pub method: String,
    /// How many subgraphs it is in.
    pub depth: usize,
}

impl StepReport {
    /// Whether it brings a value into another memory or type, and is no node's.
    pub fn is_transfer(&self) -> bool {
        self.op == TRANSFER
    }
}

/// What one memory holds, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreMemory {
    /// The memory's name.
    pub memory: &'static str,
    /// The arena of activations.
    pub arena_bytes: usize,
    /// Activations that are alive at once, at the worst step.
    pub live_bytes: usize,
    /// Scratch.
    pub scratch_bytes: usize,
    /// Constants as the model has them, or as the core stores them.
    pub constant_bytes: usize,
    /// Constants that kernels packed; each shared buffer counts once.
    pub packed_bytes: usize,
    /// What kernels derived from the shapes of their tensors.
    pub geometry_bytes: usize,
}

/// The part that is known from the placement.
pub(super) struct Nodes {
    notices: Vec<String>,
    all: Vec<NodeReport>,
    origins: Origins,
    ends: Ends,
    aip: bool,
    modelled_us: Option<f64>,
}

impl Nodes {
    pub(super) fn of(placement: &Placement, compiler: &Compiler<'_>) -> Self {
        let graph = &placement.resolved.graph;
        let mut nodes: Vec<NodeReport> = Vec::with_capacity(graph.nodes.len());
        let mut depth = 0usize;
        for (bound, choice) in graph.nodes.iter().zip(&placement.choices) {
            let node = match choice {
                Choice::Kernel(placed) => computed(&bound.node, placed, (compiler, graph)),
                Choice::Epilogue { of } => fused(&bound.node, nodes.get(of.index()), graph),
                Choice::Folded => folded(bound, graph, compiler),
                Choice::Alias => {
                    let before = bound.node.input(0).and_then(|x| graph.producer(x));
                    fused(&bound.node, before.and_then(|id| nodes.get(id.index())), graph)
                }
                Choice::Control => controlled(bound, graph, compiler),
            };
            let control = bound.control.as_ref();
            let is_between = control.is_some_and(|control| control.parts() || control.ends());
            nodes.push(NodeReport { depth: depth.saturating_sub(usize::from(is_between)), ..node });
            depth += usize::from(control.is_some_and(Control::opens));
            depth = depth.saturating_sub(usize::from(control.is_some_and(Control::ends)));
        }
        let origins = Origins::of(placement);
        let notices = placement.resolved.notices.clone();
        let (ends, aip) = (Ends::of(placement), placement.aip);
        let modelled_us = placement.modelled_us;
        Self { notices, all: nodes, origins, ends, aip, modelled_us }
    }

    pub(super) fn finish(
        mut self,
        lowered: &Lowered,
        arenas: &Arenas,
        arena_bytes: PerMemory<usize>,
        scratch_bytes: PerMemory<usize>,
    ) -> Report {
        let computed: BTreeSet<usize> = lowered.steps.iter().filter_map(Step::node).collect();
        let subnets = Subnets::of(lowered, &self.origins, self.aip);
        for (index, node) in self.all.iter_mut().enumerate() {
            node.subnet = subnets.of_node(index);
            let is_elsewhere =
                node.is_folded || node.fused_into.is_some() || node.control.is_some();
            node.is_view = !is_elsewhere && !computed.contains(&index);
            if node.is_view {
                (node.backend, node.opencl_unused) = (None, None);
            }
        }
        let memories = Memory::ALL.into_iter().map(|memory| CoreMemory {
            memory: memory.name(),
            arena_bytes: arena_bytes[memory],
            live_bytes: arenas.largest_live_set(memory),
            scratch_bytes: scratch_bytes[memory],
            constant_bytes: constant_bytes(lowered, memory),
            packed_bytes: packed_bytes(lowered, memory),
            geometry_bytes: steps_of(lowered, memory)
                .map(|s| s.kernel.geometry_bytes())
                .fold(0, usize::saturating_add),
        });
        let used = |m: &CoreMemory| {
            m.memory == Memory::Host.name()
                || m.arena_bytes + m.scratch_bytes + m.constant_bytes + m.packed_bytes > 0
                || m.geometry_bytes > 0
        };
        let step = |(at, step): (usize, &Step)| StepReport {
            subnet: subnets.of_step(at),
            ..step_report(step, lowered)
        };
        let steps = lowered.steps.iter().enumerate().map(step).collect();
        Report {
            notices: self.notices,
            nodes: self.all,
            steps,
            crossings: self.ends.crossings(&subnets),
            modelled_us: self.modelled_us,
            subnets: subnets.all,
            memories: memories.filter(used).collect(),
        }
    }
}

/// A node that its own kernel computes.
fn computed(
    node: &Node,
    placed: &PlacedKernel,
    (compiler, graph): (&Compiler<'_>, &TypedGraph),
) -> NodeReport {
    let texts = |operands: &[Operand]| operands.iter().map(|o| o.format.to_string()).collect();
    NodeReport {
        ids: node.origin.clone(),
        subnet: None,
        name: node.name.clone(),
        op: node.op.clone(),
        package: compiler.operators.package_name(placed.package()).to_owned(),
        core: placed.core,
        backend: placed.backend.clone(),
        opencl_unused: placed.opencl_unused.clone(),
        inputs: texts(&placed.inputs),
        outputs: texts(&placed.outputs),
        reads: names(&node.inputs, graph),
        makes: names(&node.outputs, graph),
        encodings: encodings(
            node,
            graph,
            placed.inputs.iter().chain(&placed.outputs).map(|o| o.format.desc),
        ),
        refusals: placed.refusals.clone(),
        fell_back: placed.fell_back,
        is_view: false,
        fused_into: None,
        is_folded: false,
        control: None,
        depth: 0,
    }
}

/// A node that was computed with the model.
fn folded(bound: &BoundNode, graph: &TypedGraph, compiler: &Compiler<'_>) -> NodeReport {
    let package = compiler.operators.package_name(bound.package).to_owned();
    NodeReport { package, is_folded: true, ..fused(&bound.node, None, graph) }
}

/// A node that says what runs when.
fn controlled(bound: &BoundNode, graph: &TypedGraph, compiler: &Compiler<'_>) -> NodeReport {
    let control = bound.control.as_ref().map(Control::word);
    let package = compiler.operators.package_name(bound.package).to_owned();
    NodeReport { package, control, ..fused(&bound.node, None, graph) }
}

/// A node whose work is done where `by` is.
fn fused(node: &Node, by: Option<&NodeReport>, graph: &TypedGraph) -> NodeReport {
    let texts = |values: &[Option<ValueId>]| {
        values.iter().map(|&value| graph.desc(value).to_string()).collect()
    };
    // An alias of one that is fused is fused into the same.
    let into = by.map(|by| by.fused_into.as_ref().unwrap_or(&by.name).clone());
    NodeReport {
        ids: node.origin.clone(),
        subnet: None,
        name: node.name.clone(),
        op: node.op.clone(),
        package: by.map_or_else(String::new, |by| by.package.clone()),
        core: by.map_or(Core::CPU, |by| by.core),
        backend: None,
        opencl_unused: None,
        inputs: texts(&node.inputs),
        outputs: texts(&node.outputs),
        reads: names(&node.inputs, graph),
        makes: names(&node.outputs, graph),
        encodings: encodings(node, graph, values(node).map(|value| graph.desc(value))),
        refusals: Vec::new(),
        fell_back: false,
        is_view: false,
        fused_into: into,
        is_folded: false,
        control: None,
        depth: 0,
    }
}

fn names(values: &[Option<ValueId>], graph: &TypedGraph) -> Vec<String> {
    let values = values.iter().flatten().filter_map(|&id| graph.value(id).ok());
    values.map(|value| value.value().name.clone()).collect()
}

/// What it reads and makes, in order.
fn values(node: &Node) -> impl Iterator<Item = Option<ValueId>> {
    node.inputs.iter().chain(&node.outputs).copied()
}

/// The encodings of what it reads and makes, each value once.
fn encodings(
    node: &Node,
    graph: &TypedGraph,
    descs: impl Iterator<Item = TensorDesc>,
) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for (id, desc) in values(node).zip(descs) {
        let Some((id, of)) = id.zip(desc.encodings()) else { continue };
        let Ok(value) = graph.value(id) else { continue };
        let name = &value.value().name;
        if !known.iter().any(|(of, _)| of == name) {
            known.push((name.clone(), in_words(of)));
        }
    }
    known
}

fn in_words(encodings: Encodings) -> String {
    match encodings {
        Encodings::PerTensor(Encoding { scale, zero_point }) => {
            format!("scale {scale}, zero point {zero_point}")
        }
        Encodings::PerAxis(of) => {
            let least = of.scales().iter().copied().fold(f32::INFINITY, f32::min);
            let most = of.scales().iter().copied().fold(0.0, f32::max);
            format!("{} scales of {least} to {most} along axis {}", of.count(), of.axis())
        }
    }
}

/// The memories that a step brings a value from and to.
fn between(step: &Step, lowered: &Lowered) -> Option<[&'static str; 2]> {
    let memory = |operand: &super::Operand| match &operand.place {
        Some(Place::Window(id)) => lowered.windows.buffer_of(*id).map(|buffer| buffer.memory),
        Some(Place::Device(_)) => Some(Memory::Gpu),
        Some(Place::Constant(_)) => Some(Memory::Host),
        None => None,
    };
    let is_transfer = step.op == TRANSFER;
    let [from, to] = [step.inputs.first()?, step.outputs.first()?].map(memory);
    let [from, to] = [from?, to?];
    (is_transfer && from != to).then_some([from.name(), to.name()])
}

fn step_report(step: &Step, lowered: &Lowered) -> StepReport {
    let work = step.kernel.work();
    StepReport {
        subnet: None,
        name: step.name.clone(),
        op: step.op.clone(),
        package: step.package.clone(),
        core: step.core,
        inputs: step.inputs.iter().map(|o| o.desc.to_string()).collect(),
        outputs: step.outputs.iter().map(|o| o.desc.to_string()).collect(),
        between: between(step, lowered),
        in_place: step
            .outputs
            .iter()
            .enumerate()
            .filter_map(|(i, o)| Some((o.in_place?, i)))
            .collect(),
        scratch_bytes: step.kernel.workspace().bytes(),
        bytes: work.and_then(|work| work.bytes()).unwrap_or_else(|| bytes(step)),
        operations: work.map_or(0, |work| work.operations()),
        arithmetic: work.and_then(|work| work.arithmetic()).unwrap_or_default(),
        method: work.map_or("", |work| work.method()).to_owned(),
        depth: step.depth,
    }
}

fn bytes(step: &Step) -> u64 {
    let operands = step.operands().filter(|operand| operand.place.is_some());
    let tensors = operands.map(|operand| operand.desc.size_bytes());
    let packed = step.kernel.packed().iter().map(|buffer| buffer.len());
    tensors.chain(packed).fold(0, |sum: u64, bytes| sum.saturating_add(bytes as u64))
}

fn steps_of(lowered: &Lowered, memory: Memory) -> impl Iterator<Item = &Step> {
    lowered.steps.iter().filter(move |step| Memory::of(step.core) == memory)
}

/// Constants that several steps read count once.
fn constant_bytes(lowered: &Lowered, memory: Memory) -> usize {
    let mut sizes = BTreeMap::new();
    for operand in steps_of(lowered, memory).flat_map(Step::operands) {
        if let Some(Place::Constant(tensor)) = &operand.place {
            sizes.insert(tensor.bytes().as_ptr().addr(), tensor.bytes().len());
        }
    }
    sizes.values().sum()
}

fn packed_bytes(lowered: &Lowered, memory: Memory) -> usize {
    let mut sizes = BTreeMap::new();
    for step in steps_of(lowered, memory) {
        for buffer in step.kernel.packed() {
            sizes.insert(Arc::as_ptr(buffer).addr(), buffer.len());
        }
    }
    sizes.values().sum()
}
