//! Lowers a placed graph to steps: inputs and constants, then nodes in order, then outputs. `lowering` has the state
//! and adds transfers, `control` lowers control-flow nodes.

use udo_api::{Core, Facts, Layout};

use super::lowered::Lowered;
use super::lowering::{InMemory, Lowering};
use super::windows::Windows;
use super::{Operand, Place, PlanError, Port, Purpose, Step, tie};
use crate::compiler::Compiler;
use crate::place::{Choice, PlacedKernel, Placement, Readers};
use crate::resolve::{BoundNode, TypedValue};
use udo_engine::cores::opencl::{self, ClDevice};
use udo_engine::cores::{Format, Memory, machine};
use udo_graph::graph::{Source, ValueId};

/// Returns whether a kernel consists of work items and runs on a core of `memory`.
fn runs_in(placed: &PlacedKernel, memory: Memory) -> bool {
    placed.backend.is_some() && Memory::for_core(placed.core) == memory
}

/// Lowers all nodes.
pub(super) fn lower(
    placement: Placement,
    compiler: &Compiler<'_>,
    threads: usize,
) -> Result<Lowered, PlanError> {
    let Placement { resolved, choices, profile, .. } = placement;
    let is_on_gpu =
        |choice: &Choice| matches!(choice, Choice::Kernel(placed) if runs_in(placed, Memory::Gpu));
    let device =
        choices.iter().any(is_on_gpu).then(|| opencl::device_for(profile.opencl).ok()).flatten();
    let align_bytes = device.map_or(1, ClDevice::align_bytes);
    let windows = Windows::on_gpu_aligned_to(align_bytes);
    let lowered = Lowered { windows, device, ..Lowered::default() };
    let machine = machine(Core::CPU, &profile, threads);
    let readers = Readers::new(&resolved.graph, &choices);
    let mut lowering = Lowering::new(&resolved.graph, compiler, machine, lowered);
    lowering.sources();
    for (index, choice) in choices.into_iter().enumerate() {
        match choice {
            Choice::Kernel(placed) => lowering.node(index, *placed, &readers)?,
            Choice::Alias => lowering.alias(index),
            Choice::Control => lowering.control(index)?,
            Choice::Epilogue { .. } | Choice::Folded => {}
        }
    }
    lowering.graph_outputs()?;
    let mut lowered = lowering.lowered;
    lowered.record_lives();
    Ok(lowered)
}

impl Lowering<'_> {
    /// Adds the graph's inputs and constants.
    fn sources(&mut self) {
        for (index, value) in self.graph.values.iter().enumerate() {
            let id = ValueId::new(index);
            let desc = value.desc;
            let place = match (&value.value.source, self.graph.known(Some(id))) {
                (_, Some(tensor)) => Place::Constant(tensor.clone()),
                (Source::Computed | Source::Constant(_) | Source::Outer, None) => continue,
                (Source::Input(_), None) => self.window(Memory::Host, &desc),
            };
            let shape = self.shape(&desc);
            let operand = Operand { desc, place: Some(place), shape, ..Operand::ABSENT };
            self.set_origin(id, Memory::Host, Layout::AsGiven, operand);
        }
        for &id in &self.graph.inputs {
            if let Some(origin) = self.origin.get(&id) {
                self.lowered.inputs.push(Port::new(self.name(id), origin.operand.clone()));
            }
        }
    }

    /// Lowers a node whose output is its input.
    fn alias(&mut self, index: usize) {
        let Some(bound) = self.graph.nodes.get(index) else { return };
        let (x, y) = (bound.node.input(0), bound.node.output(0));
        let origin = x.and_then(|x| self.origin.get(&x).cloned());
        if let (Some(y), Some(InMemory { memory, layout, operand })) = (y, origin) {
            self.set_origin(y, memory, layout, operand);
        }
    }

    /// Lowers a view that needs no transfer although it was placed on another core: its input is in another core's
    /// memory, and its output is read only there. Returns whether the node is such a view.
    fn view_in_place(
        &mut self,
        bound: &BoundNode,
        placed: &PlacedKernel,
        readers: &Readers,
    ) -> bool {
        let Some([x, y]) = placed.view(bound) else { return false };
        let Some(&InMemory { memory, layout: Layout::AsGiven, operand: ref source }) =
            self.origin.get(&x)
        else {
            return false;
        };
        let output = self.graph.value(y).ok();
        let stored = output.and_then(TypedValue::quantized_desc);
        let has_same_encoding =
            stored.and_then(|stored| stored.encodings()) == source.desc.encodings();
        let is_elsewhere = memory != self.memory_of(placed);
        let is_in_window = matches!(source.place, Some(Place::Window(_)));
        let shape = self.graph.desc(Some(y)).full_shape();
        let is_whole = shape.len() == source.desc.full_shape().len() && source.shape.is_none();
        let stays = is_elsewhere && is_in_window && has_same_encoding && is_whole;
        if !stays || !readers.are_all_in(y, memory) {
            return false;
        }
        let operand = Operand { desc: source.desc.with_extents(shape), ..source.clone() };
        self.set_origin(y, memory, Layout::AsGiven, operand);
        true
    }

    /// Returns the memory of a kernel's tensors.
    fn memory_of(&self, placed: &PlacedKernel) -> Memory {
        match Memory::for_core(placed.core) {
            // An ordinary kernel runs on the host, which cannot access device memory.
            Memory::Gpu if self.lowered.device.is_some() && placed.backend.is_none() => {
                Memory::Host
            }
            memory @ (Memory::Host | Memory::Gpu | Memory::Dsp) => memory,
        }
    }

    /// Lowers a node with a kernel of its own.
    fn node(
        &mut self,
        index: usize,
        placed: PlacedKernel,
        readers: &Readers,
    ) -> Result<(), PlanError> {
        let graph = self.graph;
        let broken = || PlanError::Broken(format!("choice {index} has no node"));
        let bound = graph.nodes.get(index).ok_or_else(broken)?;
        let node = &bound.node;
        let core = placed.core;
        let memory = self.memory_of(&placed);
        if self.view_in_place(bound, &placed, readers) {
            return Ok(());
        }
        let mut inputs = Vec::with_capacity(placed.inputs.len());
        for (port, input) in placed.inputs.iter().enumerate() {
            inputs.push(match input.value.filter(|_| placed.kernel.reads(port)) {
                Some(id) => {
                    let operand = self.need(id, memory, &input.format)?;
                    Operand { pitch: input.pitch, ..operand }
                }
                None => Operand::ABSENT,
            });
        }
        let facts = bound.op.schema().known_facts();
        if facts.has(Facts::VIEW)
            && let [output] = placed.outputs.as_slice()
            && let Some(view) = constant_view(&inputs, &output.format)
            && let Some(id) = output.value
        {
            self.set_origin(id, memory, output.format.layout(), view);
            return Ok(());
        }
        let mut outputs = Vec::with_capacity(placed.outputs.len());
        for output in &placed.outputs {
            let Some(id) = output.value else {
                outputs.push(Operand::ABSENT);
                continue;
            };
            let desc = output.format.desc;
            let place = Some(self.window(memory, &desc));
            let shape = self.shape(&desc);
            let operand = Operand { desc, place, shape, ..Operand::ABSENT };
            self.set_origin(id, memory, output.format.layout(), operand.clone());
            outputs.push(Operand { pitch: output.pitch, ..operand });
        }
        self.lowered.steps.push(Step {
            guard: placed.entry.guard,
            package: self.compiler.operators.package_name(placed.package()).to_owned(),
            ties: tie::declared_and_implied(facts, placed.kernel.ties(), &inputs, &outputs),
            kernel: placed.kernel,
            purpose: Purpose::Node { index },
            depth: self.frames.len(),
            name: node.name.clone(),
            op: node.op.clone(),
            core,
            is_on_device: memory == Memory::Gpu && self.lowered.device.is_some(),
            inputs,
            outputs,
        });
        Ok(())
    }

    /// Adds the graph's outputs, in the model's format on the host.
    fn graph_outputs(&mut self) -> Result<(), PlanError> {
        let graph = self.graph;
        for &id in &graph.outputs {
            let desc = graph.desc(Some(id));
            let operand = self.need(id, Memory::Host, &Format::from_desc(desc))?;
            self.lowered.outputs.push(Port::new(self.name(id), operand));
        }
        Ok(())
    }
}

/// Returns the output of a node that only reshapes a constant, if the formats allow it.
fn constant_view(inputs: &[Operand], output: &Format) -> Option<Operand> {
    let (input, desc) = (inputs.first()?, output.desc);
    let Some(Place::Constant(tensor)) = &input.place else { return None };
    let has_same_bytes =
        input.desc.dtype() == desc.dtype() && input.desc.size_bytes() == desc.size_bytes();
    if !desc.full_shape().is_fixed()
        || !has_same_bytes
        || input.desc.encodings() != desc.encodings()
    {
        return None;
    }
    let place = Place::Constant(tensor.reshaped(desc.full_shape()).ok()?);
    Some(Operand { desc, place: Some(place), ..Operand::ABSENT })
}
