//! Lowers a placed graph to steps: each value in each format and memory that some step needs.

use std::collections::HashMap;

use udo_api::{Core, DType, Facts, KernelDef, Layout, TensorDesc};
use udo_host::{FinalizedKernel, Machine, NodeDesc, PlacedNode, Refusal, finalize};

use super::control::Frame;
use super::jump::Jump;
use super::region::{Life, Region};
use super::states::{Exchange, Renewal};
use super::windows::Windows;
use super::{Operand, Place, PlanError, PlanOptions, Port, Purpose, ShapeId, Step, WindowId, tie};
use crate::compiler::Compiler;
use crate::place::{Choice, Pitch, PlacedKernel, Placement, Readers};
use crate::resolve::{BoundNode, TypedGraph, TypedValue};
use udo_engine::cores::opencl::{self, Device, Download, Upload};
use udo_engine::cores::relayout::relayout;
use udo_engine::cores::{Format, Memory, convert, machine};
use udo_graph::graph::{Source, ValueId};

/// Steps and windows, before windows have places.
#[derive(Default)]
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) windows: Windows,
    /// Where a run may go on elsewhere than with the next step, in order.
    pub(super) jumps: Vec<Jump>,
    /// Steps that run again and again, inner ones first.
    pub(super) repeated: Vec<Life>,
    /// How states of trips get the elements for the next one, trip by trip, inner ones first.
    pub(super) renewals: Vec<Renewal>,
    /// What is exchanged behind steps instead, in order.
    pub(super) exchanges: Vec<Exchange>,
    /// The device that the memory of the GPU is on, if there is one and it is used.
    pub(super) device: Option<&'static Device>,
    /// How many bounded values there are.
    shapes: usize,
}

/// What steps are called that bring a value into another memory or type.
pub(super) const TRANSFER: &str = convert::TRANSFER.op();

/// A value in a memory, of a type, in a layout.
type Key = (ValueId, Memory, Option<DType>, Layout);

pub(super) struct Lowering<'a> {
    pub(super) graph: &'a TypedGraph,
    pub(super) compiler: &'a Compiler<'a>,
    /// What transfers are told of where they run.
    pub(super) machine: Machine,
    pub(super) options: &'a PlanOptions,
    /// How many flushes and invalidations there are so far.
    pub(super) upkeeps: usize,
    /// Windows of memory that is not coherent which the host has seen as they are.
    pub(super) seen: Vec<WindowId>,
    materialized: HashMap<Key, Operand>,
    /// What steps materialized, in order.
    steps_made: Vec<Key>,
    /// What the nodes that are lowered now are in, the outermost first.
    pub(super) frames: Vec<Frame>,
    /// In which memories each value is read.
    readers: Readers,
    /// How each value is produced.
    origin: HashMap<ValueId, (Memory, Layout, Operand)>,
    pub(super) lowered: Lowered,
}

/// Whether a kernel is one of work items, for cores of `memory`.
fn runs_in(placed: &PlacedKernel, memory: Memory) -> bool {
    placed.backend.is_some() && Memory::of(placed.core) == memory
}

/// Lowers all nodes.
pub(super) fn lower(
    placement: Placement,
    compiler: &Compiler<'_>,
    (threads, options): (usize, &PlanOptions),
) -> Result<Lowered, PlanError> {
    let Placement { resolved, choices, profile, .. } = placement;
    let is_on_gpu =
        |choice: &Choice| matches!(choice, Choice::Kernel(placed) if runs_in(placed, Memory::Gpu));
    let device = choices.iter().any(is_on_gpu).then(|| opencl::of(profile.opencl).ok()).flatten();
    let align_bytes = device.map_or(1, Device::align_bytes);
    let windows = Windows::on_gpu_aligned_to(align_bytes);
    let lowered = Lowered { windows, device, ..Lowered::default() };
    let mut lowering = Lowering {
        graph: &resolved.graph,
        compiler,
        machine: machine(Core::CPU, &profile, threads),
        options,
        upkeeps: 0,
        seen: Vec::new(),
        materialized: HashMap::new(),
        steps_made: Vec::new(),
        frames: Vec::new(),
        readers: Readers::of(&resolved.graph, &choices),
        origin: HashMap::new(),
        lowered,
    };
    lowering.sources();
    for (index, choice) in choices.into_iter().enumerate() {
        match choice {
            Choice::Kernel(placed) => lowering.node(index, *placed)?,
            Choice::Alias => lowering.alias(index),
            Choice::Control => lowering.control(index)?,
            Choice::Epilogue { .. } | Choice::Folded => {}
        }
    }
    lowering.graph_outputs()?;
    let mut lowered = lowering.lowered;
    lowered.note_lives();
    Ok(lowered)
}

impl Lowered {
    /// Says of each window when it is touched, and by whom.
    fn note_lives(&mut self) {
        let Self { steps, inputs, outputs, windows, repeated, .. } = self;
        let end = steps.len();
        for (at, step) in steps.iter().enumerate() {
            let is_copied = tie::is_copied_by_rows(at, step);
            for operand in step.operands() {
                let Some(window) = operand.window() else { continue };
                let rows = windows.get(window).map(|window| window.region);
                let pitch = match operand.pitch {
                    _ if rows != Some(region(&operand.desc)) => Pitch::Refused,
                    Pitch::Refused if is_copied => Pitch::Taken,
                    pitch => pitch,
                };
                windows.touch(window, at, pitch);
                if matches!(step.purpose, Purpose::Upkeep) {
                    // Its lines are no other value's.
                    windows.set_port(window);
                }
            }
        }
        for window in inputs.iter().filter_map(|port| port.operand.window()) {
            // Inputs stay from run to run.
            windows.touch(window, 0, Pitch::Refused);
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        for window in outputs.iter().filter_map(|port| port.operand.window()) {
            windows.touch(window, end, Pitch::Refused);
            windows.set_port(window);
        }
        // What comes into a trip from before it, or leaves it, has to outlive all trips.
        for &trip in repeated.iter() {
            windows.outlive(trip);
        }
    }
}

impl Lowering<'_> {
    pub(super) fn window(&mut self, memory: Memory, desc: &TensorDesc) -> Place {
        Place::Window(self.lowered.windows.add(memory, region(desc)))
    }

    /// A number for the extents of a tensor, if it is bounded.
    pub(super) fn shape(&mut self, desc: &TensorDesc) -> Option<ShapeId> {
        let is_fixed = desc.full_shape().is_fixed();
        self.lowered.shapes += usize::from(!is_fixed);
        (!is_fixed).then_some(ShapeId(self.lowered.shapes))
    }

    pub(super) fn keep(
        &mut self,
        value: ValueId,
        memory: Memory,
        layout: Layout,
        operand: Operand,
    ) {
        self.origin.entry(value).or_insert_with(|| (memory, layout, operand.clone()));
        let key = (value, memory, operand.desc.dtype(), layout);
        if operand.window().is_some() {
            self.steps_made.push(key);
        }
        self.materialized.insert(key, operand);
    }

    /// How much has been materialized by now.
    pub(super) fn mark(&self) -> usize {
        self.steps_made.len()
    }

    /// Forgets what steps have materialized since `mark`, as they may not have run.
    pub(super) fn leave(&mut self, mark: usize) {
        for key in self.steps_made.drain(mark.min(self.steps_made.len())..) {
            self.materialized.remove(&key);
        }
        self.seen.clear();
    }

    fn sources(&mut self) {
        for (index, value) in self.graph.values.iter().enumerate() {
            let id = ValueId::at(index);
            let desc = value.desc;
            let place = match (&value.value.source, self.graph.known(Some(id))) {
                (_, Some(tensor)) => Place::Constant(tensor.clone()),
                (Source::Computed | Source::Constant(_) | Source::Outer, None) => continue,
                (Source::Input(_), None) => self.window(Memory::Host, &desc),
            };
            let shape = self.shape(&desc);
            let operand = Operand { desc, place: Some(place), shape, ..Operand::ABSENT };
            self.keep(id, Memory::Host, Layout::AsGiven, operand);
        }
        for &id in &self.graph.inputs {
            if let Some((_, _, operand)) = self.origin.get(&id) {
                self.lowered.inputs.push(Port::new(self.name(id), operand.clone()));
            }
        }
    }

    pub(super) fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |v| v.value.name.clone())
    }

    /// The value in the format and the memory that a step needs: converted and transferred if need be.
    pub(super) fn need(
        &mut self,
        id: ValueId,
        memory: Memory,
        format: &Format,
    ) -> Result<Operand, PlanError> {
        if let Some(operand) =
            self.materialized.get(&(id, memory, format.desc.dtype(), format.layout()))
        {
            return Ok(operand.clone());
        }
        let name = self.name(id);
        let fail = |reason: String| PlanError::Transfer { value: name.clone(), reason };
        let Some((from, layout, source)) = self.origin.get(&id).cloned() else {
            return Err(fail("nothing produces it".to_owned()));
        };
        let operand = match &source.place {
            Some(Place::Constant(tensor)) => {
                let tensor = self.compiler.constants.constant(tensor, &source.desc, format);
                let tensor = tensor.map_err(|e| fail(e.to_string()))?;
                // Calls read it, and the file is the model's no longer than it is compiled.
                let tensor = tensor.apart().map_err(|e| fail(format!("its copy {e}")))?;
                Operand {
                    desc: format.desc,
                    place: Some(Place::Constant(tensor)),
                    ..Operand::ABSENT
                }
            }
            Some(Place::Window(_) | Place::Device(_)) | None => {
                let produced = Format::with_layout(source.desc, layout);
                match self.lowered.device {
                    Some(device) if memory == Memory::Gpu => {
                        self.uploaded(id, &name, format, device)?
                    }
                    Some(device) if from == Memory::Gpu => {
                        self.downloaded(id, &name, (memory, format), (&produced, &source), device)?
                    }
                    Some(_) | None => {
                        self.brought(id, &name, (memory, format), (&produced, from, &source))?
                    }
                }
            }
        };
        self.keep(id, memory, format.layout(), operand.clone());
        Ok(operand)
    }

    /// The value on the device. Types and layouts are converted on the host.
    fn uploaded(
        &mut self,
        id: ValueId,
        name: &str,
        format: &Format,
        device: &'static Device,
    ) -> Result<Operand, PlanError> {
        let here = self.need(id, Memory::Host, format)?;
        let kernel = FinalizedKernel::hosted(Upload(device));
        let here = (Memory::Host, &here);
        self.transferred(name, (Memory::Gpu, &format.desc), here, kernel, TRANSFER)
    }

    /// The value in a memory that the host reaches, which is produced on the device.
    fn downloaded(
        &mut self,
        id: ValueId,
        name: &str,
        (memory, format): (Memory, &Format),
        (produced, source): (&Format, &Operand),
        device: &'static Device,
    ) -> Result<Operand, PlanError> {
        let is_same =
            produced.desc.dtype() == format.desc.dtype() && produced.layout() == format.layout();
        if memory != Memory::Host || !is_same {
            let here = self.need(id, Memory::Host, produced)?;
            return self.brought(id, name, (memory, format), (produced, Memory::Host, &here));
        }
        let kernel = FinalizedKernel::hosted(Download(device));
        let there = (Memory::Gpu, source);
        self.transferred(name, (memory, &format.desc), there, kernel, TRANSFER)
    }

    /// The value in another memory or format than it is produced in, both of which the host reaches.
    fn brought(
        &mut self,
        id: ValueId,
        name: &str,
        (memory, format): (Memory, &Format),
        (produced, from, source): (&Format, Memory, &Operand),
    ) -> Result<Operand, PlanError> {
        let odd = || PlanError::Transfer {
            value: name.to_owned(),
            reason: format!("{} has no other layout", source.desc),
        };
        if produced.layout() == format.layout() {
            let source = (from, source);
            return self.converted(name, (memory, &format.desc), source, &convert::TRANSFER);
        }
        // Layouts are converted where a value is made, if it is wanted there and the host reaches that, else on the host.
        let stays = memory == from && memory != Memory::Gpu;
        if memory != Memory::Host && !stays {
            let here = produced.in_layout(format.layout()).ok_or_else(odd)?;
            let here = self.need(id, Memory::Host, &here)?;
            let here = (Memory::Host, &here);
            return self.converted(name, (memory, &format.desc), here, &convert::TRANSFER);
        }
        let other = format.in_layout(produced.layout()).ok_or_else(odd)?;
        let other = self.need(id, memory, &other)?;
        if format.has_same_bytes() {
            return Ok(Operand { desc: format.desc, ..other });
        }
        let other = (memory, &other);
        self.converted(name, (memory, &format.desc), other, relayout(format.layout()))
    }

    /// Adds the step that brings a value into another memory or format, by one of the host's own kernels.
    fn converted(
        &mut self,
        value: &str,
        to: (Memory, &TensorDesc),
        source: (Memory, &Operand),
        by: &KernelDef,
    ) -> Result<Operand, PlanError> {
        let kernel = finalized(by, &source.1.desc, to.1, self.machine).map_err(|refusal| {
            PlanError::Transfer { value: value.to_owned(), reason: refusal.to_string() }
        })?;
        self.transferred(value, to, source, kernel, by.op())
    }

    /// Adds the step that brings a value into another memory or format.
    fn transferred(
        &mut self,
        value: &str,
        (memory, desc): (Memory, &TensorDesc),
        (from, source): (Memory, &Operand),
        kernel: FinalizedKernel,
        op: &str,
    ) -> Result<Operand, PlanError> {
        let source = self.read_by_host(value, from, source)?;
        let place = Some(self.window(memory, desc));
        let shape = self.shape(desc);
        let operand = Operand { desc: *desc, place, shape, ..Operand::ABSENT };
        self.lowered.steps.push(Step {
            kernel,
            name: value.to_owned(),
            purpose: Purpose::Transfer,
            depth: self.frames.len(),
            ties: Vec::new(),
            op: op.to_owned(),
            package: String::new(),
            core: Core::CPU,
            is_on_device: false,
            guard: None,
            inputs: vec![source],
            outputs: vec![self.written_by_host(memory, &operand)],
        });
        self.flush(value, memory, &operand)?;
        Ok(operand)
    }

    /// A node whose output is its input, wherever that is.
    fn alias(&mut self, index: usize) {
        let Some(bound) = self.graph.nodes.get(index) else { return };
        let (x, y) = (bound.node.input(0), bound.node.output(0));
        let origin = x.and_then(|x| self.origin.get(&x).cloned());
        if let (Some(y), Some((memory, layout, operand))) = (y, origin) {
            self.keep(y, memory, layout, operand);
        }
    }

    /// A view of what lies and is read in another memory than that of its core: it stays there. Says whether it is one.
    fn stays_where_it_is(&mut self, bound: &BoundNode, placed: &PlacedKernel) -> bool {
        let Some([x, y]) = placed.view(bound) else { return false };
        let Some((memory, Layout::AsGiven, operand)) = self.origin.get(&x) else { return false };
        let (memory, source) = (*memory, operand);
        let of_y = self.graph.value(y).ok();
        let stored = of_y.and_then(TypedValue::quantized_desc);
        let means_the_same =
            stored.and_then(|stored| stored.encodings()) == source.desc.encodings();
        let is_elsewhere = memory != self.memory_of(placed);
        let lies_there = matches!(source.place, Some(Place::Window(_)));
        let shape = self.graph.desc(Some(y)).full_shape();
        let is_whole = shape.len() == source.desc.full_shape().len() && source.shape.is_none();
        let stays = is_elsewhere && lies_there && means_the_same && is_whole;
        if !stays || !self.readers.are_all_in(y, memory) {
            return false;
        }
        let operand = Operand { desc: source.desc.with_extents(shape), ..source.clone() };
        self.keep(y, memory, Layout::AsGiven, operand);
        true
    }

    /// The memory that the tensors of a kernel lie in.
    fn memory_of(&self, placed: &PlacedKernel) -> Memory {
        match Memory::of(placed.core) {
            // An ordinary kernel runs on the host, which does not reach what is on the device.
            Memory::Gpu if self.lowered.device.is_some() && placed.backend.is_none() => {
                Memory::Host
            }
            memory @ (Memory::Host | Memory::Gpu | Memory::Dsp) => memory,
        }
    }

    fn node(&mut self, index: usize, placed: PlacedKernel) -> Result<(), PlanError> {
        let graph = self.graph;
        let broken = || PlanError::Broken(format!("choice {index} has no node"));
        let bound = graph.nodes.get(index).ok_or_else(broken)?;
        let node = &bound.node;
        let core = placed.core;
        let memory = self.memory_of(&placed);
        if self.stays_where_it_is(bound, &placed) {
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
            self.keep(id, memory, output.format.layout(), view);
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
            self.keep(id, memory, output.format.layout(), operand.clone());
            outputs.push(Operand { pitch: output.pitch, ..operand });
        }
        self.lowered.steps.push(Step {
            guard: placed.entry.guard,
            package: self.compiler.operators.package_name(placed.package()).to_owned(),
            ties: tie::of(facts, placed.kernel.ties(), &inputs, &outputs),
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

    fn graph_outputs(&mut self) -> Result<(), PlanError> {
        let graph = self.graph;
        for &id in &graph.outputs {
            let desc = graph.desc(Some(id));
            let operand = self.need(id, Memory::Host, &Format::of(desc))?;
            self.lowered.outputs.push(Port::new(self.name(id), operand));
        }
        Ok(())
    }
}

/// The output of a node that only renames a constant's bytes, if the formats allow it.
fn constant_view(inputs: &[Operand], output: &Format) -> Option<Operand> {
    let (input, desc) = (inputs.first()?, output.desc);
    let Some(Place::Constant(tensor)) = &input.place else { return None };
    let same = input.desc.dtype() == desc.dtype() && input.desc.size_bytes() == desc.size_bytes();
    if !desc.full_shape().is_fixed() || !same || input.desc.encodings() != desc.encodings() {
        return None;
    }
    let place = Place::Constant(tensor.reshaped(desc.full_shape()).ok()?);
    Some(Operand { desc, place: Some(place), ..Operand::ABSENT })
}

/// A tensor's bytes in rows along its last axis.
pub(super) fn region(desc: &TensorDesc) -> Region {
    let row = desc.shape().last().copied().unwrap_or(1);
    let element = desc.dtype().map_or(0, DType::size_bytes);
    Region::dense(desc.size_bytes(), row.saturating_mul(element))
}

/// The kernel that copies a tensor, whose rows may lie apart.
pub(super) fn copy(desc: &TensorDesc, machine: Machine) -> Result<FinalizedKernel, PlanError> {
    finalized(&convert::COPY, desc, desc, machine).map_err(|refusal| PlanError::Transfer {
        value: desc.to_string(),
        reason: refusal.to_string(),
    })
}

/// One of the host's own kernels, from one tensor to another.
pub(super) fn finalized(
    by: &KernelDef,
    from: &TensorDesc,
    to: &TensorDesc,
    machine: Machine,
) -> Result<FinalizedKernel, Refusal> {
    let (inputs, constants) = (vec![*from], vec![None]);
    let node = NodeDesc { inputs, constants, params: &[], output_count: 1, opset: 0 };
    finalize(by, &PlacedNode::new(node, Core::CPU, &[*to]), machine)
}
