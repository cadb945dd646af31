//! A graph while it is lowered: its values, each in each memory and format that some step needs, and the steps that bring it there.

use std::collections::HashMap;

use udo_api::{Core, DType, KernelDef, Layout, TensorDesc};
use udo_host::{FinalizedKernel, Machine, NodeDesc, PlacedNode, Refusal, finalize};

use super::lowered::Lowered;
use super::region::Region;
use super::{Operand, Place, PlanError, PlanOptions, Purpose, ShapeId, Step, WindowId};
use crate::compiler::Compiler;
use crate::resolve::TypedGraph;
use udo_engine::cores::opencl::{ClDevice, Download, Upload};
use udo_engine::cores::relayout::relayout;
use udo_engine::cores::{Format, Memory, convert};
use udo_graph::graph::ValueId;
use udo_graph::memory::TensorStorage;

/// What steps are called that bring a value into another memory or type.
pub(super) const TRANSFER: &str = convert::TRANSFER.op();

/// A value in a memory, of a type, in a layout.
type Key = (ValueId, Memory, Option<DType>, Layout);

/// A graph while it is lowered.
pub(super) struct Lowering<'a> {
    pub(super) graph: &'a TypedGraph,
    pub(super) compiler: &'a Compiler<'a>,
    /// What transfers are told of where they run.
    pub(super) machine: Machine,
    pub(super) options: &'a PlanOptions,
    /// How many flushes and invalidations there are so far.
    pub(super) cache_steps: usize,
    /// Windows of memory that is not coherent which the host has seen as they are.
    pub(super) seen: Vec<WindowId>,
    materialized: HashMap<Key, Operand>,
    /// What steps materialized, in order.
    steps_made: Vec<Key>,
    /// What the nodes that are lowered now are in, the outermost first.
    pub(super) frames: Vec<Frame>,
    /// How each value is produced.
    pub(super) origin: HashMap<ValueId, InMemory>,
    pub(super) lowered: Lowered,
}

/// A value in a memory, in a layout.
#[derive(Clone)]
pub(super) struct InMemory {
    pub(super) memory: Memory,
    pub(super) layout: Layout,
    pub(super) operand: Operand,
}

impl InMemory {
    fn format(&self) -> Format {
        Format::with_layout(self.operand.desc, self.layout)
    }
}

/// Where a step needs a value, and in which format.
#[derive(Clone, Copy)]
struct Need<'a> {
    memory: Memory,
    format: &'a Format,
}

/// What nodes are in while they are lowered.
pub(super) enum Frame {
    Branches {
        /// The number of the jump to the second branch, or past it.
        jump: usize,
        /// The first step of the branch.
        since: usize,
        /// Where both branches leave their results.
        results: Vec<Operand>,
        mark: usize,
    },
    Trips {
        /// The number of the jump past all trips.
        jump: usize,
        /// The first step of a trip.
        first: usize,
        /// How many there are at most, and the number of the one that runs.
        ends: Box<[Operand; 2]>,
        states: Vec<Operand>,
        mark: usize,
    },
}

impl<'a> Lowering<'a> {
    /// Nothing of the graph is lowered.
    pub(super) fn new(
        graph: &'a TypedGraph,
        compiler: &'a Compiler<'a>,
        machine: Machine,
        lowered: Lowered,
    ) -> Self {
        Self {
            graph,
            compiler,
            machine,
            options: &compiler.options.plan,
            cache_steps: 0,
            seen: Vec::new(),
            materialized: HashMap::new(),
            steps_made: Vec::new(),
            frames: Vec::new(),
            origin: HashMap::new(),
            lowered,
        }
    }

    pub(super) fn window(&mut self, memory: Memory, desc: &TensorDesc) -> Place {
        Place::Window(self.lowered.windows.add(memory, Region::of(desc)))
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
        let made = || InMemory { memory, layout, operand: operand.clone() };
        self.origin.entry(value).or_insert_with(made);
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
        let Some(source) = self.origin.get(&id).cloned() else {
            return Err(fail("nothing produces it".to_owned()));
        };
        let operand = match &source.operand.place {
            Some(Place::Constant(tensor)) => {
                let desc = &source.operand.desc;
                let tensor = self.compiler.constants.constant(tensor, desc, format);
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
                let need = Need { memory, format };
                match self.lowered.device {
                    Some(device) if memory == Memory::Gpu => {
                        self.uploaded(id, &name, format, device)?
                    }
                    Some(device) if source.memory == Memory::Gpu => {
                        self.downloaded(id, &name, need, &source, device)?
                    }
                    Some(_) | None => self.brought(id, &name, need, &source)?,
                }
            }
        };
        self.keep(id, memory, format.layout(), operand.clone());
        Ok(operand)
    }

    /// As [`Lowering::need`], with where that is.
    fn needed(
        &mut self,
        id: ValueId,
        memory: Memory,
        format: &Format,
    ) -> Result<InMemory, PlanError> {
        let operand = self.need(id, memory, format)?;
        Ok(InMemory { memory, layout: format.layout(), operand })
    }

    /// The value on the device. Types and layouts are converted on the host.
    fn uploaded(
        &mut self,
        id: ValueId,
        name: &str,
        format: &Format,
        device: &'static ClDevice,
    ) -> Result<Operand, PlanError> {
        let here = self.needed(id, Memory::Host, format)?;
        let kernel = FinalizedKernel::hosted(Upload(device));
        let there = Need { memory: Memory::Gpu, format };
        self.transferred(name, there, &here, kernel, TRANSFER)
    }

    /// The value in a memory that the host reaches, which is produced on the device.
    fn downloaded(
        &mut self,
        id: ValueId,
        name: &str,
        need: Need<'_>,
        source: &InMemory,
        device: &'static ClDevice,
    ) -> Result<Operand, PlanError> {
        let produced = source.format();
        let is_same = produced.desc.dtype() == need.format.desc.dtype()
            && produced.layout() == need.format.layout();
        if need.memory != Memory::Host || !is_same {
            let here = self.needed(id, Memory::Host, &produced)?;
            return self.brought(id, name, need, &here);
        }
        let kernel = FinalizedKernel::hosted(Download(device));
        self.transferred(name, need, source, kernel, TRANSFER)
    }

    /// The value in another memory or format than it is produced in, both of which the host reaches.
    fn brought(
        &mut self,
        id: ValueId,
        name: &str,
        need: Need<'_>,
        source: &InMemory,
    ) -> Result<Operand, PlanError> {
        let odd = || PlanError::Transfer {
            value: name.to_owned(),
            reason: format!("{} has no other layout", source.operand.desc),
        };
        let Need { memory, format } = need;
        if source.layout == format.layout() {
            return self.converted(name, need, source, &convert::TRANSFER);
        }
        // Layouts are converted where a value is made, if it is wanted there and the host reaches that, else on the host.
        let stays = memory == source.memory && memory != Memory::Gpu;
        if memory != Memory::Host && !stays {
            let here = source.format().in_layout(format.layout()).ok_or_else(odd)?;
            let here = self.needed(id, Memory::Host, &here)?;
            return self.converted(name, need, &here, &convert::TRANSFER);
        }
        let other = format.in_layout(source.layout).ok_or_else(odd)?;
        let other = self.needed(id, memory, &other)?;
        if format.has_same_bytes() {
            return Ok(Operand { desc: format.desc, ..other.operand });
        }
        self.converted(name, need, &other, relayout(format.layout()))
    }

    /// Adds the step that brings a value into another memory or format, by one of the host's own kernels.
    fn converted(
        &mut self,
        value: &str,
        need: Need<'_>,
        source: &InMemory,
        by: &KernelDef,
    ) -> Result<Operand, PlanError> {
        let kernel = finalized(by, &source.operand.desc, &need.format.desc, self.machine);
        let kernel = kernel.map_err(|refusal| PlanError::Transfer {
            value: value.to_owned(),
            reason: refusal.to_string(),
        })?;
        self.transferred(value, need, source, kernel, by.op())
    }

    /// Adds the step that brings a value into another memory or format.
    fn transferred(
        &mut self,
        value: &str,
        Need { memory, format }: Need<'_>,
        source: &InMemory,
        kernel: FinalizedKernel,
        op: &str,
    ) -> Result<Operand, PlanError> {
        let source = self.read_by_host(value, source.memory, &source.operand)?;
        let desc = &format.desc;
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
}

/// The kernel that copies a tensor, which may be strided.
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
