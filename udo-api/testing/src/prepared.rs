//! A kernel under test, finalized for one node, and calls of it that check its writes.

use std::borrow::Cow;
use std::fmt;

use udo_api::abi::TensorArg;
use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_api::{
    Core, CoreKind, FastMath, Isa, Layout, PortRule, Side, Status, TensorDesc, Workspace,
};
use udo_host::memory::ALIGN_BYTES;
use udo_host::{
    ConstantId, Failure, FinalizedKernel, Machine, NodeDesc, PackStore, ParamSetting, PlacedNode,
    Refusal, Source, accept, finalize,
};

use crate::call::{Caller, Order, execute};
use crate::candidate::Candidate;
use crate::epilogue::{self, Step};
use crate::host::{HeapUse, Host, Memory, MemoryError, Role, allocated};
use crate::port::Port;

/// The size of a DSP's fast memory in bytes; a kernel that requests all of it gets this much.
pub const VTCM_BYTES: usize = 4 << 20;

/// Gaps between strided rows in elements; they differ, so that a kernel that confuses the strides fails.
const INPUT_GAP: usize = 3;
const OUTPUT_GAP: usize = 5;

/// A node, with the tensors in the operator's layout.
#[derive(Clone, Copy, Debug)]
pub struct NodeSpec<'a> {
    /// The inputs.
    pub inputs: &'a [NodeInput<'a>],
    /// The parameters, in the order of the schema.
    pub params: &'a [(&'static str, ParamSetting)],
    /// The outputs.
    pub outputs: &'a [TensorDesc],
    /// The operator set version of the node.
    pub opset: u32,
}

/// An input of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeInput<'a> {
    /// Type, shape and encoding; absent for an omitted input.
    pub desc: TensorDesc,
    /// The dimensions in a run.
    pub dims: &'a [usize],
    /// The elements of a constant.
    pub constant: Option<&'a [u8]>,
}

/// The placement of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The core.
    pub core: Core,
    /// The number of threads that finalize sees.
    pub threads: u32,
    /// The precision that may be traded for speed.
    pub fast_math: FastMath,
}

/// The memory layout of a call's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Separate memory, with contiguous rows.
    Apart,
    /// Outputs in place of inputs, for the pairs that the kernel declares.
    InPlace,
    /// Strided rows, where the kernel's rules accept them.
    Pitched,
}

/// Options of a call.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The memory layout of its tensors.
    pub mode: Mode,
    /// The byte that fills outputs and scratch before the call.
    pub poison: u8,
    /// The number of threads of the parallel-for; 1 passes none.
    pub width: u32,
    /// The order of its calls.
    pub order: Order,
    /// Whether inputs are in read-only memory, if the host supports that.
    pub is_sealed: bool,
    /// Whether the run is cancelled, so that the call may fail.
    pub is_cancelled: bool,
}

impl Default for How {
    fn default() -> Self {
        let (mode, order) = (Mode::Apart, Order::Forwards);
        Self { mode, poison: 0xff, width: 1, order, is_sealed: false, is_cancelled: false }
    }
}

/// An output of a call: its dimensions, and its dense elements in the operator's layout. Both are empty for an omitted
/// output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The dimensions in this call.
    pub dims: Vec<usize>,
    /// The elements.
    pub bytes: Vec<u8>,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct Run {
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The heap use of its threads.
    pub heap: HeapUse,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The kernel returned an error.
    Failed(Failure),
    /// The kernel broke the contract, as the message says; or the host has no memory for the call.
    Broken(String),
}

impl CallError {
    /// Whether the kernel reports an element that it cannot process.
    pub fn is_bad_value(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.error.status == Status::BAD_VALUE)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "execute returns: {failure}"),
            Self::Broken(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CallError {}

impl From<MemoryError> for CallError {
    fn from(error: MemoryError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// A tensor of the node, in the operator's and in the kernel's layout.
#[derive(Debug)]
struct Slot {
    /// The operator's layout.
    node: TensorDesc,
    /// The kernel's layout.
    kernel: TensorDesc,
    /// Whether the kernel's layout has the channels last (NHWC).
    is_channels_last: bool,
    /// Whether the kernel accepts strided rows.
    takes_pitched: bool,
}

impl Slot {
    fn new(candidate: Candidate<'_>, side: Side, port: usize, desc: TensorDesc) -> Self {
        let is_channels_last = candidate.rule(side, port).is_some_and(PortRule::is_channels_last);
        Self::with_order(candidate, (side, port), desc, is_channels_last)
    }

    /// Creates a slot for a tensor with channels last if `is_channels_last`.
    fn with_order(
        candidate: Candidate<'_>,
        (side, port): (Side, usize),
        desc: TensorDesc,
        is_channels_last: bool,
    ) -> Self {
        let is_channels_last = is_channels_last && desc.rank() == 4;
        let channels_last = desc.transposed(&Layout::NHWC_AXES).filter(|_| is_channels_last);
        let takes_pitched = candidate.rule(side, port).is_some_and(PortRule::takes_pitched);
        Self { node: desc, kernel: channels_last.unwrap_or(desc), is_channels_last, takes_pitched }
    }

    /// Converts dense elements to the kernel's layout.
    fn to_kernel<'v>(&self, bytes: &'v [u8]) -> Cow<'v, [u8]> {
        if !self.is_channels_last {
            return Cow::Borrowed(bytes);
        }
        let size = self.node.dtype().map_or(1, udo_api::DType::size_bytes);
        Cow::Owned(permuted(bytes, self.node.shape(), Layout::NHWC_AXES, size))
    }

    /// Whether rows of the tensor have gaps in calls of this mode.
    fn is_pitched(&self, mode: Mode) -> bool {
        mode == Mode::Pitched && self.takes_pitched && self.kernel.full_shape().is_fixed()
    }
}

#[derive(Debug)]
struct InputSlot {
    slot: Slot,
    /// The dimensions in a run, in the kernel's layout.
    dims: Vec<usize>,
    is_constant: bool,
}

/// An input of a call, with its elements.
struct CallInput<'v> {
    port: Port,
    dense: Cow<'v, [u8]>,
}

/// A kernel that is finalized for one node, with packed constants, ready for concurrent calls.
///
/// [`Bench`](crate::Bench) creates these for tests of operators. Use one with a [`Host`] to control or watch single
/// calls.
#[derive(Debug)]
pub struct PreparedKernel {
    kernel: FinalizedKernel,
    guard: Option<LibraryGuard>,
    inputs: Vec<InputSlot>,
    outputs: Vec<Slot>,
    epilogue_steps: usize,
    // Packed constants live as long as the store.
    _store: PackStore,
}

impl PreparedKernel {
    /// Finalizes the kernel for the node and packs its constants, which are in memory of the host meanwhile.
    ///
    /// # Errors
    /// The kernel refuses the node, or memory for the constants is exhausted.
    pub fn new(
        candidate: Candidate<'_>,
        node: &NodeSpec<'_>,
        placement: Placement,
        host: &dyn Host,
    ) -> Result<Self, Refusal> {
        Self::with_epilogue(candidate, node, &[], placement, host)
    }

    /// Finalizes the kernel with an epilogue, whose tensors are the last inputs of the node; the kernel accepts the
    /// first few steps.
    pub(crate) fn with_epilogue(
        candidate: Candidate<'_>,
        node: &NodeSpec<'_>,
        steps: &[Step],
        placement: Placement,
        host: &dyn Host,
    ) -> Result<Self, Refusal> {
        let output =
            |(port, desc): (usize, &TensorDesc)| Slot::new(candidate, Side::Output, port, *desc);
        let mut outputs: Vec<Slot> = node.outputs.iter().enumerate().map(output).collect();
        let is_channels_last = outputs.first().is_some_and(|output| output.is_channels_last);
        let layout = if is_channels_last { Layout::Nhwc } else { Layout::AsGiven };
        let first_operand = node.inputs.len().saturating_sub(epilogue::operands(steps).count());
        let mut inputs = input_slots(candidate, node, first_operand, (steps, is_channels_last));
        let constants = constants(&inputs, node, host)?;
        let mut descs = outputs.iter().map(|output| output.kernel).collect::<Vec<_>>();
        let desc = NodeDesc {
            inputs: inputs.iter().map(|input| input.slot.kernel).collect(),
            constants: constants
                .iter()
                .map(|memory| memory.as_ref().map(|memory| memory.bytes()))
                .collect(),
            params: node.params,
            output_count: descs.len(),
            opset: node.opset,
        };
        let mut placed = PlacedNode::new(desc, placement.core, &descs);
        placed.epilogue = epilogue::placed(steps, first_operand, descs.first().copied(), layout);
        let epilogue_steps = accept(candidate.def, &placed)?;
        epilogue::take(&mut placed, epilogue_steps, &mut descs);
        let input_count = first_operand + epilogue::operands(&steps[..epilogue_steps]).count();
        inputs.truncate(input_count);
        placed.node.inputs.truncate(input_count);
        placed.node.constants.truncate(input_count);
        for (slot, desc) in outputs.iter_mut().zip(descs) {
            // A step changes the type of an output but not its shape.
            let node = if slot.is_channels_last {
                desc.transposed(&Layout::NCHW_AXES)
            } else {
                Some(desc)
            };
            (slot.node, slot.kernel) = (node.unwrap_or(desc), desc);
        }
        let mut kernel = finalize(candidate.def, &placed, placement.machine())?;
        let node = placed.node;
        let source = |port: usize| {
            let (desc, bytes) = (*node.inputs.get(port)?, (*node.constants.get(port)?)?);
            // The port identifies an input of the node.
            let id = ConstantId { tensor: u64::try_from(port).ok()?, format: 0 };
            Some(Source { id, desc, bytes, stable: None })
        };
        let store = PackStore::default();
        kernel.pack(source, &store, None)?;
        kernel.prepare(store.budget(), candidate.guard.unwrap_or(OWN_GUARD))?;
        let guard = candidate.guard;
        Ok(Self { kernel, guard, inputs, outputs, epilogue_steps, _store: store })
    }

    /// Returns the finalized kernel.
    pub fn kernel(&self) -> &FinalizedKernel {
        &self.kernel
    }

    /// Returns the scratch that the kernel requests.
    pub fn workspace(&self) -> Workspace {
        self.kernel.workspace()
    }

    /// Returns the number of accepted epilogue steps.
    pub(crate) fn epilogue_steps(&self) -> usize {
        self.epilogue_steps
    }

    /// Iterates over the outputs in the operator's layout, after the epilogue.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = TensorDesc> {
        self.outputs.iter().map(|output| output.node)
    }

    /// Calls the kernel on the dense elements of each input, constants included.
    ///
    /// # Errors
    /// The kernel returns an error; it writes outside of its outputs and scratch, changes an input, or sets invalid
    /// dimensions; or the host has no memory.
    pub fn call<V: AsRef<[u8]>>(
        &self,
        values: &[V],
        how: How,
        host: &dyn Host,
    ) -> Result<Run, CallError> {
        self.call_with(values, how, host, |_| ())
    }

    /// Calls the kernel and passes the scratch to `inspect` afterwards.
    pub(crate) fn call_with<V: AsRef<[u8]>>(
        &self,
        values: &[V],
        how: How,
        host: &dyn Host,
        inspect: impl FnOnce(&[u8]),
    ) -> Result<Run, CallError> {
        let mut inputs = self.call_inputs(values, how, host)?;
        let mut outputs = self.call_outputs(how, host)?;
        let pairs =
            if how.mode == Mode::InPlace { self.pair(&inputs, &mut outputs) } else { Vec::new() };
        let is_paired = |input: usize| pairs.iter().any(|pair| pair.input == input);
        let is_filled = |output: usize| pairs.iter().any(|pair| pair.output == output);
        let mut args: Vec<TensorArg> = Vec::with_capacity(inputs.len() + outputs.len());
        let arg = |port: Option<&mut Port>| port.map_or(TensorArg::ABSENT, Port::arg);
        args.extend(
            inputs.iter_mut().map(|input| arg(input.as_mut().map(|input| &mut input.port))),
        );
        args.extend(outputs.iter_mut().map(|output| arg(output.as_mut())));
        // Nothing requests these bytes for writing from here on.
        for (port, input) in inputs.iter().enumerate() {
            if let (Some(input), true, false) = (input, how.is_sealed, is_paired(port)) {
                input.port.memory.seal()?;
            }
        }
        for pair in &pairs {
            pair.share(&mut args, inputs.len());
        }
        let workspace = self.kernel.workspace();
        let bytes = if workspace.wants_all_vtcm() { VTCM_BYTES } else { workspace.bytes() };
        let mut scratch = filled(host, Role::Scratch, bytes, how.poison)?;
        let geometry_bytes = self.kernel.prepare_fn().map(|_| self.kernel.geometry_bytes());
        let mut geometry =
            geometry_bytes.map(|bytes| filled(host, Role::Geometry, bytes, 0)).transpose()?;
        let caller = Caller {
            host,
            guard: self.guard,
            width: how.width,
            order: how.order,
            is_cancelled: how.is_cancelled,
            scratch: scratch.as_mut(),
            geometry: geometry.as_deref_mut(),
        };
        let heap =
            execute(&self.kernel, &mut args, inputs.len(), caller).map_err(CallError::Failed)?;
        let input_memory = inputs.iter().flatten().map(|input| &input.port.memory);
        let output_memory = outputs.iter().flatten().map(|output| &output.memory);
        let mut memories = input_memory.chain(output_memory).chain([&scratch]).chain(&geometry);
        if let Some(stray) = memories.find_map(|memory| memory.stray()) {
            return Err(CallError::Broken(stray));
        }
        let is_changed = |input: &CallInput<'_>| {
            let elements = input.port.gather();
            elements.get(..input.dense.len()).is_some_and(|elements| elements != &*input.dense)
        };
        let changed = inputs.iter().enumerate().find(|(port, input)| {
            input.as_ref().is_some_and(|input| !is_paired(*port) && is_changed(input))
        });
        if let Some((port, _)) = changed {
            return Err(CallError::Broken(format!("the kernel changes input {port}")));
        }
        let args = args.get(inputs.len()..).unwrap_or_default();
        let mut collected = Vec::with_capacity(outputs.len());
        for (index, (port, arg)) in outputs.iter().zip(args).enumerate() {
            let poison = (!is_filled(index)).then_some(how.poison);
            collected.push(self.collected(index, port.as_ref(), arg.shape(), poison)?);
        }
        inspect(scratch.bytes());
        Ok(Run { outputs: collected, heap })
    }

    /// Creates the inputs that the kernel reads, in memory of their own.
    fn call_inputs<'v, V: AsRef<[u8]>>(
        &self,
        values: &'v [V],
        how: How,
        host: &dyn Host,
    ) -> Result<Vec<Option<CallInput<'v>>>, MemoryError> {
        let create = |(index, input): (usize, &InputSlot)| {
            let InputSlot { slot, dims, is_constant } = input;
            let is_read = !slot.node.is_absent() && self.kernel.reads(index);
            let Some(values) = values.get(index).filter(|_| is_read) else { return Ok(None) };
            let dense = slot.to_kernel(values.as_ref());
            let gap = if !is_constant && slot.is_pitched(how.mode) { INPUT_GAP } else { 0 };
            let mut port = Port::new(host, Role::Input(index), slot.kernel, dims.clone(), gap)?;
            port.scatter(&dense);
            Ok(Some(CallInput { port, dense }))
        };
        self.inputs.iter().enumerate().map(create).collect()
    }

    /// Creates the outputs, in memory of their own.
    fn call_outputs(&self, how: How, host: &dyn Host) -> Result<Vec<Option<Port>>, MemoryError> {
        let create = |(index, slot): (usize, &Slot)| {
            if slot.kernel.is_absent() {
                return Ok(None);
            }
            let gap = if slot.is_pitched(how.mode) { OUTPUT_GAP } else { 0 };
            let dims = slot.kernel.shape().to_vec();
            let mut port = Port::new(host, Role::Output(index), slot.kernel, dims, gap)?;
            port.scatter(&vec![how.poison; slot.kernel.size_bytes()]);
            Ok(Some(port))
        };
        self.outputs.iter().enumerate().map(create).collect()
    }

    /// Returns the pairs that share the output's memory, which gets the input's elements. As in the runtime, neither is
    /// bounded.
    fn pair(&self, inputs: &[Option<CallInput<'_>>], outputs: &mut [Option<Port>]) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = Vec::new();
        for pair in self.kernel.in_place_pairs() {
            let pair = Pair { input: usize::from(pair.input), output: usize::from(pair.output) };
            let is_constant = self.inputs.get(pair.input).is_none_or(|input| input.is_constant);
            let from = inputs.get(pair.input).and_then(Option::as_ref);
            let to = outputs.get_mut(pair.output).and_then(Option::as_mut);
            let (Some(CallInput { port: from, .. }), Some(to)) = (from, to) else { continue };
            let fits = from.desc().dtype() == to.desc().dtype()
                && from.desc().size_bytes() == to.desc().size_bytes()
                && from.desc().full_shape().is_fixed()
                && to.desc().full_shape().is_fixed();
            let is_taken =
                pairs.iter().any(|other| other.input == pair.input || other.output == pair.output);
            if is_constant || !fits || is_taken {
                continue;
            }
            to.scatter(from.memory.bytes());
            pairs.push(pair);
        }
        pairs
    }

    /// Returns output `index` of a call that set these dimensions; `poison` is its initial byte, unless it shares an
    /// input's memory.
    fn collected(
        &self,
        index: usize,
        port: Option<&Port>,
        dims: &[usize],
        poison: Option<u8>,
    ) -> Result<Output, CallError> {
        let broken = |message: String| Err(CallError::Broken(message));
        let (Some(port), Some(slot)) = (port, self.outputs.get(index)) else {
            return Ok(Output { dims: Vec::new(), bytes: Vec::new() });
        };
        let bound = port.desc().shape();
        if dims.len() != bound.len() || dims.iter().zip(bound).any(|(dim, bound)| dim > bound) {
            return broken(format!(
                "the kernel sets {dims:?} for output {index}, whose bounds are {bound:?}"
            ));
        }
        if !port.has_intact_gaps() {
            return broken(format!("the kernel writes between the rows of output {index}"));
        }
        let size = port.element_bytes();
        let mut bytes = port.gather();
        let tail = bytes.split_off((dims.iter().product::<usize>() * size).min(bytes.len()));
        let is_bounded = !port.desc().full_shape().is_fixed();
        let is_written = |poison| tail.iter().any(|&byte| byte != poison);
        if is_bounded && poison.is_some_and(is_written) {
            return broken(format!(
                "the kernel writes beyond the dimensions {dims:?} that it sets for output {index}"
            ));
        }
        if slot.is_channels_last {
            let bytes = permuted(&bytes, dims, Layout::NCHW_AXES, size);
            return Ok(Output { dims: slot.node.shape().to_vec(), bytes });
        }
        Ok(Output { dims: dims.to_vec(), bytes })
    }
}

impl Placement {
    fn machine(self) -> Machine {
        let Self { core, threads, fast_math } = self;
        let has_fast_memory = core.kind().is_some_and(CoreKind::has_fast_memory);
        let fast_memory_bytes = if has_fast_memory { VTCM_BYTES } else { 0 };
        // Only the instruction set of every machine is guaranteed.
        Machine { threads, isa: Isa::Portable, fast_memory_bytes, fast_math, memory_price: 0 }
    }
}

/// Returns the inputs; those from `first_operand` on are operands of epilogue steps.
fn input_slots(
    candidate: Candidate<'_>,
    node: &NodeSpec<'_>,
    first_operand: usize,
    (steps, is_channels_last): (&[Step], bool),
) -> Vec<InputSlot> {
    let mut operands = epilogue::operands(steps);
    let slot = |(port, input): (usize, &NodeInput<'_>)| {
        let slot = match (port >= first_operand).then(|| operands.next()).flatten() {
            // A residual has the layout of the output that it is added to.
            Some(step) => {
                let is_channels_last = is_channels_last && matches!(step, Step::Residual(_));
                Slot::with_order(candidate, (Side::Input, port), input.desc, is_channels_last)
            }
            None => Slot::new(candidate, Side::Input, port, input.desc),
        };
        let dims = if slot.is_channels_last { slot.kernel.shape() } else { input.dims }.to_vec();
        InputSlot { slot, dims, is_constant: input.constant.is_some() }
    };
    node.inputs.iter().enumerate().map(slot).collect()
}

/// Returns the constants in the kernel's layout, read-only.
fn constants(
    inputs: &[InputSlot],
    node: &NodeSpec<'_>,
    host: &dyn Host,
) -> Result<Vec<Option<Box<dyn Memory>>>, Refusal> {
    let copy = |(port, (input, spec)): (usize, (&InputSlot, &NodeInput<'_>))| {
        let Some(bytes) = spec.constant else { return Ok(None) };
        let mut memory = allocated(host, Role::Constant(port), bytes.len(), ALIGN_BYTES)?;
        memory.bytes_mut().copy_from_slice(&input.slot.to_kernel(bytes));
        memory.seal()?;
        Ok(Some(memory))
    };
    let constants: Result<_, MemoryError> =
        inputs.iter().zip(node.inputs).enumerate().map(copy).collect();
    constants.map_err(|error| Refusal { status: Status::FAILED, message: error.to_string() })
}

/// An input and an output that share memory.
struct Pair {
    input: usize,
    output: usize,
}

impl Pair {
    /// Lets the input share the output's memory in arguments with this many inputs.
    fn share(&self, args: &mut [TensorArg], inputs: usize) {
        let output_arg = inputs + self.output;
        let data = args.get(output_arg).map(|arg| arg.data);
        let number = |port: usize| u16::try_from(port).unwrap_or(u16::MAX);
        for (index, other_port) in [(self.input, self.output), (output_arg, self.input)] {
            let Some(arg) = args.get_mut(index) else { continue };
            let mut paired =
                std::mem::replace(arg, TensorArg::ABSENT).paired_with(number(other_port));
            if let (Some(data), true) = (data, index == self.input) {
                paired.data = data;
            }
            *arg = paired;
        }
    }
}

/// Allocates memory of the host filled with a byte.
fn filled(
    host: &dyn Host,
    role: Role,
    bytes: usize,
    byte: u8,
) -> Result<Box<dyn Memory>, MemoryError> {
    let mut memory = allocated(host, role, bytes, ALIGN_BYTES)?;
    memory.bytes_mut().fill(byte);
    Ok(memory)
}

/// Returns the length up to the last byte that is not `poison`.
pub(crate) fn used_bytes(bytes: &[u8], poison: u8) -> usize {
    // Large blocks are compared first: scratch may have millions of bytes.
    const STEPS: [usize; 3] = [1 << 16, 1 << 8, 1];
    let untouched = vec![poison; STEPS[0].min(bytes.len())];
    let (mut start, mut end) = (0, bytes.len());
    for step in STEPS {
        let is_used = |block: &[u8]| block != &untouched[..block.len()];
        let Some(last) = bytes[start..end].chunks(step).rposition(is_used) else { return 0 };
        start += last * step;
        end = end.min(start + step);
    }
    end
}

/// Permutes the axes of a rank-4 tensor: axis `i` of the result is axis `order[i]` of `dims`.
fn permuted(bytes: &[u8], dims: &[usize], order: [usize; 4], size: usize) -> Vec<u8> {
    let extent = |axis: usize| dims.get(axis).copied().unwrap_or(1);
    let new_dims = order.map(extent);
    let mut result = Vec::with_capacity(bytes.len());
    for new_index in 0..new_dims.iter().product::<usize>() {
        let (mut remaining, mut position) = (new_index, [0; 4]);
        for (axis, extent) in order.into_iter().zip(new_dims).rev() {
            if let Some(coordinate) = position.get_mut(axis) {
                *coordinate = remaining % extent;
            }
            remaining /= extent;
        }
        let old_index = position
            .iter()
            .enumerate()
            .fold(0, |index, (axis, coordinate)| index * extent(axis) + coordinate);
        result.extend_from_slice(
            bytes.get(old_index * size..(old_index + 1) * size).unwrap_or_default(),
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use udo_api::{
        DType, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, Shape, input, output_like,
        types,
    };
    use udo_host::memory::bytes_of;

    use super::*;
    use crate::host::Plain;

    /// Doubles its input with threads, using scratch.
    struct Doubled;

    impl Kernel for Doubled {
        fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
            Ok(Self)
        }

        fn workspace(&self) -> Workspace {
            Workspace::for_elements::<f32>(4)
        }

        fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
            let x = io.inputs.get::<f32>(0)?;
            let (y, scratch) = (io.outputs.take::<f32>(0)?, io.scratch.take::<f32>(2)?);
            scratch.copy_from_slice(&x[..2]);
            io.parallel.chunks_mut(y, 1, |index, y| {
                y[0] = 2.0 * x[index];
                Ok(())
            })
        }
    }

    const DOUBLED: KernelDef = KernelDef::new::<Doubled>("Doubled", Core::CPU)
        .ports(&[input(0, types::F32), output_like(0, 0)]);

    /// Records the requested memory, and reports one allocation for every thread.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<(Role, usize)>>);

    impl Host for Recorder {
        fn memory(
            &self,
            role: Role,
            len: usize,
            align: usize,
        ) -> Result<Box<dyn Memory>, MemoryError> {
            self.0.lock().unwrap().push((role, len));
            Plain.memory(role, len, align)
        }

        fn watched(&self, body: &mut dyn FnMut()) -> HeapUse {
            body();
            HeapUse { calls: 1, first_bytes: 8 }
        }
    }

    #[test]
    fn the_host_provides_memory_and_counts_heap_calls() {
        let desc = TensorDesc::new(DType::F32, Shape::new(&[5]).unwrap());
        let inputs = [NodeInput { desc, dims: &[5], constant: None }];
        let node = NodeSpec { inputs: &inputs, params: &[], outputs: &[desc], opset: 21 };
        let placement = Placement { core: Core::CPU, threads: 4, fast_math: FastMath::None };
        let candidate = Candidate { def: &DOUBLED, op: None, guard: None };
        let host = Recorder::default();
        let kernel = PreparedKernel::new(candidate, &node, placement, &host).unwrap();
        assert!(host.0.lock().unwrap().is_empty(), "no input is constant");
        let x = bytes_of(&[1f32, -2.0, 0.5, 8.0, 0.0]);
        for (width, order) in
            [(1, Order::Forwards), (4, Order::Forwards), (4, Order::Backwards), (4, Order::Threads)]
        {
            let (how, mut used) = (How { width, order, ..How::default() }, 0);
            let inspect = |scratch: &[u8]| used = used_bytes(scratch, how.poison);
            let run = kernel.call_with(&[x], how, &host, inspect).unwrap();
            let expected = bytes_of(&[2f32, -4.0, 1.0, 16.0, 0.0]).to_vec();
            assert_eq!(run.outputs, [Output { dims: vec![5], bytes: expected }], "{order:?}");
            assert!(run.heap.calls >= 1 && run.heap.first_bytes == 8, "{:?}", run.heap);
            assert_eq!(used, 8);
            let requests = std::mem::take(&mut *host.0.lock().unwrap());
            assert_eq!(
                requests,
                [(Role::Input(0), 20), (Role::Output(0), 20), (Role::Scratch, 16)]
            );
        }
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        #[derive(Debug)]
        struct Short;
        impl Host for Short {
            fn memory(
                &self,
                role: Role,
                len: usize,
                align: usize,
            ) -> Result<Box<dyn Memory>, MemoryError> {
                Plain.memory(role, len - 1, align)
            }

            fn watched(&self, body: &mut dyn FnMut()) -> HeapUse {
                Plain.watched(body)
            }
        }
        let error = filled(&Short, Role::Scratch, 16, 0).unwrap_err().to_string();
        assert!(error.starts_with("the host has 15 bytes at 0x"), "{error}");
        assert!(error.ends_with(" for scratch, expected 16 bytes aligned to 64"), "{error}");
    }

    #[test]
    fn used_scratch_ends_with_the_last_byte_written() {
        let mut scratch = vec![7; 200_000];
        assert_eq!((used_bytes(&scratch, 7), used_bytes(&[], 7)), (0, 0));
        for index in [0, 255, 256, 65_535, 65_536, 199_999] {
            scratch[index] = 1;
            assert_eq!(used_bytes(&scratch, 7), index + 1);
        }
    }

    #[test]
    fn permuting_to_nhwc_and_back_restores_the_elements() {
        let bytes: Vec<u8> = (0..48).collect();
        let channels_last = permuted(&bytes, &[1, 2, 3, 4], Layout::NHWC_AXES, 2);
        assert_eq!(channels_last[..6], [0, 1, 24, 25, 2, 3]);
        assert_eq!(permuted(&channels_last, &[1, 3, 4, 2], Layout::NCHW_AXES, 2), bytes);
    }
}
