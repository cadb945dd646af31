//! The state of lowering: each value in each memory and format that a step needs, and the steps that transfer it there.

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

/// The operator name of steps that transfer or convert a value.
pub(super) const TRANSFER: &str = convert::TRANSFER.op();

/// A value in a memory, of a type, in a layout.
type Key = (ValueId, Memory, Option<DType>, Layout);

/// A graph that is being lowered.
pub(super) struct Lowering<'a> {
    pub(super) graph: &'a TypedGraph,
    pub(super) compiler: &'a Compiler<'a>,
    /// The machine description for transfer kernels.
    pub(super) machine: Machine,
    pub(super) options: &'a PlanOptions,
    /// The number of cache-maintenance steps so far.
    pub(super) cache_steps: usize,
    /// Windows of non-coherent memory whose current contents the host has already read.
    pub(super) read_windows: Vec<WindowId>,
    /// The values that exist in a memory and format so far.
    materialized: HashMap<Key, Operand>,
    /// The entries of `materialized` that steps have written, in order.
    written: Vec<Key>,
    /// The control-flow nodes around the current node, outermost first.
    pub(super) frames: Vec<Frame>,
    /// Where each value is produced.
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

/// The memory and format in which a step needs a value.
#[derive(Clone, Copy)]
struct Need<'a> {
    memory: Memory,
    format: &'a Format,
}

/// A control-flow node that is being lowered.
pub(super) enum Frame {
    /// A conditional, in its first or second branch.
    Branches {
        /// The index of the jump to the second branch, or over it.
        jump: usize,
        /// The first step of the branch.
        since: usize,
        /// The place where both branches leave their results.
        results: Vec<Operand>,
        /// The mark at its begin; see [`Lowering::leave`].
        mark: usize,
    },
    /// A loop.
    Loop {
        /// The index of the jump past the loop.
        jump: usize,
        /// The first step of an iteration.
        first: usize,
        /// The maximum number of iterations, and the current iteration.
        ends: Box<[Operand; 2]>,
        /// The values that an iteration passes to the next one.
        states: Vec<Operand>,
        /// The mark at its begin; see [`Lowering::leave`].
        mark: usize,
    },
}

impl<'a> Lowering<'a> {
    /// Starts with nothing lowered.
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
            read_windows: Vec::new(),
            materialized: HashMap::new(),
            written: Vec::new(),
            frames: Vec::new(),
            origin: HashMap::new(),
            lowered,
        }
    }

    /// Adds a window for a tensor.
    pub(super) fn window(&mut self, memory: Memory, desc: &TensorDesc) -> Place {
        Place::Window(self.lowered.windows.add(memory, Region::from_desc(desc)))
    }

    /// Returns an id for the extents of a tensor if it is bounded.
    pub(super) fn shape(&mut self, desc: &TensorDesc) -> Option<ShapeId> {
        let is_fixed = desc.full_shape().is_fixed();
        self.lowered.shapes += usize::from(!is_fixed);
        (!is_fixed).then_some(ShapeId(self.lowered.shapes))
    }

    /// Records that a value is materialized as `operand`. The first record of a value is its origin.
    pub(super) fn set_origin(
        &mut self,
        value: ValueId,
        memory: Memory,
        layout: Layout,
        operand: Operand,
    ) {
        let origin = || InMemory { memory, layout, operand: operand.clone() };
        self.origin.entry(value).or_insert_with(origin);
        let key = (value, memory, operand.desc.dtype(), layout);
        if operand.window().is_some() {
            self.written.push(key);
        }
        self.materialized.insert(key, operand);
    }

    /// Returns a mark for [`Lowering::leave`].
    pub(super) fn mark(&self) -> usize {
        self.written.len()
    }

    /// Forgets what steps have materialized since `mark`, because they may not run.
    pub(super) fn leave(&mut self, mark: usize) {
        for key in self.written.drain(mark.min(self.written.len())..) {
            self.materialized.remove(&key);
        }
        self.read_windows.clear();
    }

    /// Returns the name of a value.
    pub(super) fn name(&self, id: ValueId) -> String {
        self.graph.value(id).map_or_else(|_| String::new(), |v| v.value.name.clone())
    }

    /// Returns the value in the format and memory that a step needs; adds conversions and transfers if necessary.
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
                // Calls read it, and the file is only mapped while the model is compiled.
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
                    Some(_) | None => self.moved(id, &name, need, &source)?,
                }
            }
        };
        self.set_origin(id, memory, format.layout(), operand.clone());
        Ok(operand)
    }

    /// Returns the same as [`Lowering::need`], with the memory and layout.
    fn needed(
        &mut self,
        id: ValueId,
        memory: Memory,
        format: &Format,
    ) -> Result<InMemory, PlanError> {
        let operand = self.need(id, memory, format)?;
        Ok(InMemory { memory, layout: format.layout(), operand })
    }

    /// Returns the value on the device. The host converts types and layouts.
    fn uploaded(
        &mut self,
        id: ValueId,
        name: &str,
        format: &Format,
        device: &'static ClDevice,
    ) -> Result<Operand, PlanError> {
        let on_host = self.needed(id, Memory::Host, format)?;
        let kernel = FinalizedKernel::from_kernel(Upload(device));
        let on_device = Need { memory: Memory::Gpu, format };
        self.transferred(name, on_device, &on_host, kernel, TRANSFER)
    }

    /// Returns a value that is produced on the device in memory that the host can access.
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
            let on_host = self.needed(id, Memory::Host, &produced)?;
            return self.moved(id, name, need, &on_host);
        }
        let kernel = FinalizedKernel::from_kernel(Download(device));
        self.transferred(name, need, source, kernel, TRANSFER)
    }

    /// Returns the value in another memory or format; the host can access both memories.
    fn moved(
        &mut self,
        id: ValueId,
        name: &str,
        need: Need<'_>,
        source: &InMemory,
    ) -> Result<Operand, PlanError> {
        let no_layout = || PlanError::Transfer {
            value: name.to_owned(),
            reason: format!("{} has no other layout", source.operand.desc),
        };
        let Need { memory, format } = need;
        if source.layout == format.layout() {
            return self.converted(name, need, source, &convert::TRANSFER);
        }
        // A layout is converted in the memory of its producer if it is needed there and the host can access it, else on
        // the host.
        let stays = memory == source.memory && memory != Memory::Gpu;
        if memory != Memory::Host && !stays {
            let relaid = source.format().in_layout(format.layout()).ok_or_else(no_layout)?;
            let on_host = self.needed(id, Memory::Host, &relaid)?;
            return self.converted(name, need, &on_host, &convert::TRANSFER);
        }
        // First convert the type and move the value in the producer's layout, then convert the layout.
        let in_layout = format.in_layout(source.layout).ok_or_else(no_layout)?;
        let in_layout = self.needed(id, memory, &in_layout)?;
        if format.has_same_bytes() {
            return Ok(Operand { desc: format.desc, ..in_layout.operand });
        }
        self.converted(name, need, &in_layout, relayout(format.layout()))
    }

    /// Adds a step that transfers or converts a value with a built-in kernel.
    fn converted(
        &mut self,
        value: &str,
        need: Need<'_>,
        source: &InMemory,
        def: &KernelDef,
    ) -> Result<Operand, PlanError> {
        let kernel = finalized(def, &source.operand.desc, &need.format.desc, self.machine);
        let kernel = kernel.map_err(|refusal| PlanError::Transfer {
            value: value.to_owned(),
            reason: refusal.to_string(),
        })?;
        self.transferred(value, need, source, kernel, def.op())
    }

    /// Adds a step that transfers or converts a value.
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

/// Returns the kernel that copies a tensor, which may be strided.
pub(super) fn copy(desc: &TensorDesc, machine: Machine) -> Result<FinalizedKernel, PlanError> {
    finalized(&convert::COPY, desc, desc, machine).map_err(|refusal| PlanError::Transfer {
        value: desc.to_string(),
        reason: refusal.to_string(),
    })
}

/// Returns a built-in kernel from one tensor to another.
pub(super) fn finalized(
    def: &KernelDef,
    from: &TensorDesc,
    to: &TensorDesc,
    machine: Machine,
) -> Result<FinalizedKernel, Refusal> {
    let (inputs, constants) = (vec![*from], vec![None]);
    let node = NodeDesc { inputs, constants, params: &[], output_count: 1, opset: 0 };
    finalize(def, &PlacedNode::new(node, Core::CPU, &[*to]), machine)
}
