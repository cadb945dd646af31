//! The report of a plan, for `udo explain` and profiles: where each node runs with the reasons, the steps, and the
//! memory in bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use udo_api::{Arithmetic, Core, Encoding, Encodings, TensorDesc};

use super::arena::Arenas;
use super::crossings::{Crossing, Endpoints};
use super::lowered::Lowered;
use super::lowering::TRANSFER;
use super::subnets::{Origins, Subnet, Subnets};
use super::{Place, Step};
use crate::compiler::Compiler;
use crate::place::{Choice, CoreRefusal, Operand, PlacedKernel, Placement};
use crate::resolve::{BoundNode, Control, TypedGraph};
use udo_engine::cores::{Memory, PerMemory};
use udo_graph::graph::{GraphValue, Links, Node, Origin, ValueId};

/// The report of a plan: where nodes run and why, and how much memory the plan uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Notes for the user.
    pub notices: Vec<String>,
    /// The parts that run on one core each, in execution order.
    pub subnets: Vec<Subnet>,
    /// The values that cross between subnets, or between a subnet and the caller.
    pub crossings: Vec<Crossing>,
    /// The modelled time of nodes and transfers in microseconds, if cores were chosen by cost.
    pub modelled_us: Option<f64>,
    /// One entry per node, in the order of the graph.
    pub nodes: Vec<NodeReport>,
    /// One entry per kernel call, in execution order.
    pub steps: Vec<StepReport>,
    /// One entry per memory that the plan uses.
    pub memories: Vec<CoreMemory>,
}

/// Returns the name of a subnet of a report by its index.
pub fn subnet_name(report: &Report, subnet: Option<usize>) -> Option<&str> {
    report.subnets.get(subnet?).map(|subnet| subnet.name.as_str())
}

impl Report {
    /// Returns the steps that transfer a value from one memory to another, with the names of both.
    pub fn exchanges(&self) -> impl Iterator<Item = (&StepReport, [&'static str; 2])> {
        self.steps.iter().filter_map(|step| Some((step, step.between?)))
    }
}

/// The core of a node, and the reasons of the cores that refused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The ids of the model's nodes that it computes.
    pub ids: Origin,
    /// The index of its subnet in [`Report::subnets`]; `None` if no step computes it.
    pub subnet: Option<usize>,
    /// The node's name.
    pub name: String,
    /// Its operator type.
    pub op: String,
    /// The package of its kernel.
    pub package: String,
    /// The core that runs it.
    pub core: Core,
    /// The backend of a GPU kernel: `opencl: <device>` or `work items on host threads`.
    pub backend: Option<String>,
    /// Why the kernel's OpenCL C does not run; `None` if it runs or the kernel has no OpenCL C.
    pub opencl_unused: Option<String>,
    /// The types and shapes of its inputs on the core.
    pub inputs: Vec<String>,
    /// The types and shapes of its outputs on the core.
    pub outputs: Vec<String>,
    /// The names of its inputs.
    pub reads: Vec<String>,
    /// The names of its outputs.
    pub makes: Vec<String>,
    /// The encodings of these values, by name.
    pub encodings: Vec<(String, String)>,
    /// The cores that were tried before this one.
    pub refusals: Vec<CoreRefusal>,
    /// Whether the core is a fallback.
    pub fell_back: bool,
    /// Whether no step computes it because its output has its input's bytes.
    pub is_view: bool,
    /// The node whose kernel computes it, if it is fused.
    pub fused_into: Option<String>,
    /// Whether it was computed on the CPU when the model was compiled.
    pub is_folded: bool,
    /// Its role, if it is a control-flow node.
    pub control: Option<&'static str>,
    /// The number of subgraphs around it.
    pub depth: usize,
}

/// A kernel call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The index of its subnet in [`Report::subnets`]; `None` for a step between two subnets.
    pub subnet: Option<usize>,
    /// The node's name, or the value's if the step transfers one.
    pub name: String,
    /// The operator type; `Transfer` for a step that transfers or converts a value.
    pub op: String,
    /// The package of the kernel; empty for a step that transfers a value.
    pub package: String,
    /// The core that runs it.
    pub core: Core,
    /// The types and shapes of the inputs.
    pub inputs: Vec<String>,
    /// The types and shapes of the outputs.
    pub outputs: Vec<String>,
    /// The memories that it transfers a value between, if that is all it does.
    pub between: Option<[&'static str; 2]>,
    /// The pairs of an input and an output that share memory.
    pub in_place: Vec<(u16, usize)>,
    /// Its scratch memory in bytes.
    pub scratch_bytes: usize,
    /// Bytes that it reads and writes, at the upper bounds of bounded tensors: as the kernel states, else those of
    /// inputs, outputs and packed constants.
    pub bytes: u64,
    /// Multiplications and additions of the kernel's algorithm; 0 if the kernel does not state them.
    pub operations: u64,
    /// The arithmetic of these operations.
    pub arithmetic: Arithmetic,
    /// The algorithm, if the kernel has several and states it.
    pub method: String,
    /// The number of subgraphs around it.
    pub depth: usize,
}

impl StepReport {
    /// Returns whether it only transfers or converts a value.
    pub fn is_transfer(&self) -> bool {
        self.op == TRANSFER
    }
}

/// The use of a memory, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreMemory {
    /// The memory's name.
    pub memory: &'static str,
    /// The arena of activations.
    pub arena_bytes: usize,
    /// Activations that are live at once, at the worst step.
    pub live_bytes: usize,
    /// Scratch.
    pub scratch_bytes: usize,
    /// Constants as the model or the core stores them.
    pub constant_bytes: usize,
    /// Packed constants; shared buffers count once.
    pub packed_bytes: usize,
    /// Data that kernels derived from the shapes of their tensors.
    pub geometry_bytes: usize,
}

/// The part of a report that is known from the placement.
#[expect(clippy::struct_field_names, reason = "the nodes are most of it")]
pub(super) struct Nodes {
    notices: Vec<String>,
    nodes: Vec<NodeReport>,
    origins: Origins,
    endpoints: Endpoints,
    aip: bool,
    modelled_us: Option<f64>,
}

impl Nodes {
    pub(super) fn new(placement: &Placement, compiler: &Compiler<'_>) -> Self {
        let graph = &placement.resolved.graph;
        let mut nodes: Vec<NodeReport> = Vec::with_capacity(graph.nodes.len());
        let mut depth = 0usize;
        for (bound, choice) in graph.nodes.iter().zip(&placement.choices) {
            let node = match choice {
                Choice::Kernel(placed) => computed(&bound.node, placed, (compiler, graph)),
                Choice::Epilogue { of } => fused(&bound.node, nodes.get(of.index()), graph),
                Choice::Folded => folded(bound, graph, compiler),
                Choice::Alias => {
                    let producer = bound.node.input(0).and_then(|x| graph.producer(x));
                    fused(&bound.node, producer.and_then(|id| nodes.get(id.index())), graph)
                }
                Choice::Control => controlled(bound, graph, compiler),
            };
            let control = bound.control.as_ref();
            let is_between = control.is_some_and(|control| control.parts() || control.ends());
            nodes.push(NodeReport { depth: depth.saturating_sub(usize::from(is_between)), ..node });
            depth += usize::from(control.is_some_and(Control::opens));
            depth = depth.saturating_sub(usize::from(control.is_some_and(Control::ends)));
        }
        let origins = Origins::new(placement);
        let notices = placement.resolved.notices.clone();
        let (endpoints, aip) = (Endpoints::new(placement), placement.aip);
        let modelled_us = placement.modelled_us;
        Self { notices, nodes, origins, endpoints, aip, modelled_us }
    }

    pub(super) fn finish(
        mut self,
        lowered: &Lowered,
        arenas: &Arenas,
        arena_bytes: PerMemory<usize>,
        scratch_bytes: PerMemory<usize>,
    ) -> Report {
        let computed: BTreeSet<usize> = lowered.steps.iter().filter_map(Step::node).collect();
        let subnets = Subnets::new(lowered, &self.origins, self.aip);
        for (index, node) in self.nodes.iter_mut().enumerate() {
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
        let step = |(index, step): (usize, &Step)| StepReport {
            subnet: subnets.of_step(index),
            ..step_report(step, lowered)
        };
        let steps = lowered.steps.iter().enumerate().map(step).collect();
        Report {
            notices: self.notices,
            nodes: self.nodes,
            steps,
            crossings: self.endpoints.crossings(&subnets),
            modelled_us: self.modelled_us,
            subnets: subnets.all,
            memories: memories.filter(used).collect(),
        }
    }
}

/// Reports a node with a kernel of its own.
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

/// Reports a folded node.
fn folded(bound: &BoundNode, graph: &TypedGraph, compiler: &Compiler<'_>) -> NodeReport {
    let package = compiler.operators.package_name(bound.package).to_owned();
    NodeReport { package, is_folded: true, ..fused(&bound.node, None, graph) }
}

/// Reports a control-flow node.
fn controlled(bound: &BoundNode, graph: &TypedGraph, compiler: &Compiler<'_>) -> NodeReport {
    let control = bound.control.as_ref().map(Control::word);
    let package = compiler.operators.package_name(bound.package).to_owned();
    NodeReport { package, control, ..fused(&bound.node, None, graph) }
}

/// Reports a node without a kernel of its own, which `host` computes, if any.
fn fused(node: &Node, host: Option<&NodeReport>, graph: &TypedGraph) -> NodeReport {
    let texts = |values: &[Option<ValueId>]| {
        values.iter().map(|&value| graph.desc(value).to_string()).collect()
    };
    // An alias of a fused node is fused into the same kernel.
    let into = host.map(|host| host.fused_into.as_ref().unwrap_or(&host.name).clone());
    NodeReport {
        ids: node.origin.clone(),
        subnet: None,
        name: node.name.clone(),
        op: node.op.clone(),
        package: host.map_or_else(String::new, |host| host.package.clone()),
        core: host.map_or(Core::CPU, |host| host.core),
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

/// Returns the inputs and outputs, in order.
fn values(node: &Node) -> impl Iterator<Item = Option<ValueId>> {
    node.inputs.iter().chain(&node.outputs).copied()
}

/// Describes the encodings of inputs and outputs, each value once.
fn encodings(
    node: &Node,
    graph: &TypedGraph,
    descs: impl Iterator<Item = TensorDesc>,
) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for (id, desc) in values(node).zip(descs) {
        let Some((id, encodings)) = id.zip(desc.encodings()) else { continue };
        let Ok(value) = graph.value(id) else { continue };
        let name = &value.value().name;
        if !known.iter().any(|(known_name, _)| known_name == name) {
            known.push((name.clone(), describe(encodings)));
        }
    }
    known
}

fn describe(encodings: Encodings) -> String {
    match encodings {
        Encodings::PerTensor(Encoding { scale, zero_point }) => {
            format!("scale {scale}, zero point {zero_point}")
        }
        Encodings::PerAxis(axis) => {
            let min = axis.scales().iter().copied().fold(f32::INFINITY, f32::min);
            let max = axis.scales().iter().copied().fold(0.0, f32::max);
            format!("{} scales of {min} to {max} along axis {}", axis.count(), axis.axis())
        }
    }
}

/// Returns the memories that a step transfers a value between.
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

/// Returns the bytes of a step's tensors and packed constants.
fn bytes(step: &Step) -> u64 {
    let operands = step.operands().filter(|operand| operand.place.is_some());
    let tensors = operands.map(|operand| operand.desc.size_bytes());
    let packed = step.kernel.packed().iter().map(|buffer| buffer.len());
    tensors.chain(packed).fold(0, |sum: u64, bytes| sum.saturating_add(bytes as u64))
}

fn steps_of(lowered: &Lowered, memory: Memory) -> impl Iterator<Item = &Step> {
    lowered.steps.iter().filter(move |step| Memory::for_core(step.core) == memory)
}

/// Returns the bytes of the constants that steps of a memory's cores read; shared ones count once.
fn constant_bytes(lowered: &Lowered, memory: Memory) -> usize {
    let mut sizes = BTreeMap::new();
    for operand in steps_of(lowered, memory).flat_map(Step::operands) {
        if let Some(Place::Constant(tensor)) = &operand.place {
            sizes.insert(tensor.bytes().as_ptr().addr(), tensor.bytes().len());
        }
    }
    sizes.values().sum()
}

/// Returns the bytes of packed constants; shared ones count once.
fn packed_bytes(lowered: &Lowered, memory: Memory) -> usize {
    let mut sizes = BTreeMap::new();
    for step in steps_of(lowered, memory) {
        for buffer in step.kernel.packed() {
            sizes.insert(Arc::as_ptr(buffer).addr(), buffer.len());
        }
    }
    sizes.values().sum()
}
