//! A kernel, finalized for a node, and its calls over memory that is watched.

use std::sync::Mutex;

use udo_api::abi::TensorArg;
use udo_api::{Core, CoreKind, FastMath, Isa, Layout, PortRule, Side, TensorDesc, Workspace};
use udo_host::{
    ConstantId, Failure, FinalizedKernel, Machine, NodeDesc, PackStore, PlacedNode, Refusal,
    Source, finalize,
};
use udo_runtime::operators::KernelEntry;

use crate::node::Node;
use crate::raw::call::{Caller, Order, execute};
use crate::raw::heap::Use;
use crate::raw::memory::{CANARY, Flush, Region, What};
use crate::record;
use crate::subject::rule;
use crate::values::{Fill, Seen};

/// The fast memory of a DSP.
const VTCM_BYTES: usize = 4 << 20;

/// How tensors lie in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Apart,
    InPlace,
    Pitched,
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) mode: Mode,
    /// What outputs and scratch hold at first.
    pub(crate) poison: u8,
    pub(crate) flush: Flush,
    pub(crate) width: u32,
    pub(crate) order: Order,
    /// Whether inputs lie in memory that nobody may write to.
    pub(crate) is_sealed: bool,
    /// Whether nobody wants the results any more, so that the call may fail.
    pub(crate) is_cancelled: bool,
}

impl Default for How {
    fn default() -> Self {
        let (mode, flush, order) = (Mode::Apart, Flush::Start, Order::Forwards);
        Self { mode, poison: 0xff, flush, width: 1, order, is_sealed: false, is_cancelled: false }
    }
}

/// An output that a call made: its extents, and its dense elements as the operator orders them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) dims: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Made {
    /// Of a tensor with this description.
    pub(crate) fn seen<'a>(&'a self, desc: &'a TensorDesc) -> Seen<'a> {
        Seen { desc, dims: &self.dims, bytes: &self.bytes }
    }
}

/// What a call left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outputs: Vec<Made>,
    pub(crate) heap: Use,
}

/// Why a call did not go well.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The kernel says so.
    Failed(Failure),
    /// It did what it must not; what that is.
    Broken(String),
}

impl Fault {
    /// Whether the kernel says that it cannot work with an element.
    pub(crate) fn is_of_value(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.error.status == udo_api::Status::BAD_VALUE)
    }

    pub(crate) fn said(&self) -> String {
        match self {
            Self::Failed(failure) => format!("execute answers: {failure}"),
            Self::Broken(what) => what.clone(),
        }
    }
}

/// A kernel that is finalized for a node.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    node: &'a Node,
    entry: &'a KernelEntry,
    kernel: FinalizedKernel,
    inputs: Vec<TensorDesc>,
    outputs: Vec<TensorDesc>,
    // What was packed lives as long as the store.
    _store: PackStore,
    is_recorded: bool,
}

fn is_last(entry: &KernelEntry, side: Side, port: usize, desc: &TensorDesc) -> bool {
    desc.rank() == 4 && rule(entry, side, port).is_some_and(PortRule::is_channels_last)
}

/// The description as the kernel gets it.
fn seen(entry: &KernelEntry, side: Side, port: usize, desc: &TensorDesc) -> TensorDesc {
    if is_last(entry, side, port, desc) {
        return desc.transposed(&Layout::NHWC_AXES).unwrap_or(*desc);
    }
    *desc
}

impl<'a> Trial<'a> {
    /// Finalizes the kernel for the node. Its calls are those that a capture is about.
    pub(crate) fn new(
        node: &'a Node,
        entry: &'a KernelEntry,
        core: Core,
        threads: u32,
    ) -> Result<Self, Refusal> {
        if record::is_ahead() {
            record::begins(node, &node.values(Fill::Random, 0));
        }
        Self::of(node, entry, core, threads)
    }

    /// The same for calls of who vouches for results.
    pub(crate) fn unrecorded(
        node: &'a Node,
        entry: &'a KernelEntry,
        core: Core,
    ) -> Result<Self, Refusal> {
        Ok(Self { is_recorded: false, ..Self::of(node, entry, core, 1)? })
    }

    fn of(
        node: &'a Node,
        entry: &'a KernelEntry,
        core: Core,
        threads: u32,
    ) -> Result<Self, Refusal> {
        let of = |side: Side, descs: &[TensorDesc]| -> Vec<TensorDesc> {
            descs.iter().enumerate().map(|(port, d)| seen(entry, side, port, d)).collect()
        };
        let inputs = of(Side::Input, &node.input_descs());
        let outputs = of(Side::Output, &node.outputs);
        let constants = Self::constants(node, entry)?;
        let seen = NodeDesc {
            inputs: inputs.clone(),
            constants: constants.iter().map(|c| c.as_ref().map(Region::bytes)).collect(),
            ..node.desc()
        };
        let placed = PlacedNode::new(seen, core, &outputs);
        let has_fast_memory = core.kind().is_some_and(CoreKind::has_fast_memory);
        let fast_memory_bytes = if has_fast_memory { VTCM_BYTES } else { 0 };
        let (isa, fast_math) = (Isa::Portable, FastMath::None);
        let machine = Machine { threads, isa, fast_memory_bytes, fast_math, memory_price: 0 };
        let mut kernel = finalize(entry.def, &placed, machine)?;
        let store = PackStore::default();
        let source = |port: usize| {
            let bytes = constants.get(port)?.as_ref()?.bytes();
            // Inputs of one node are told apart by their ports.
            let id = ConstantId { tensor: u64::try_from(port).ok()?, format: 0 };
            Some(Source { id, desc: *inputs.get(port)?, bytes, stable: None })
        };
        kernel.pack(source, &store, None)?;
        let guard = entry.guard.unwrap_or(udo_api::guard::OWN_GUARD);
        kernel.prepare(store.budget(), guard)?;
        Ok(Self { node, entry, kernel, inputs, outputs, _store: store, is_recorded: true })
    }

    /// The constants as the kernel gets them, which it may only read.
    fn constants(node: &Node, entry: &KernelEntry) -> Result<Vec<Option<Region>>, Refusal> {
        let refused = |message| Refusal { status: udo_api::Status::FAILED, message };
        let of = |(port, input): (usize, &crate::node::Input)| {
            let Some(bytes) = &input.constant else { return Ok(None) };
            let mut region = Region::new(What::Constant(port), bytes.len(), 64, Flush::Start)?;
            let turned = turned(entry, Side::Input, port, &input.desc, bytes.bytes());
            region.bytes_mut().copy_from_slice(turned.as_deref().unwrap_or(bytes.bytes()));
            region.seal()?;
            Ok(Some(region))
        };
        let regions: Result<Vec<_>, String> = node.inputs.iter().enumerate().map(of).collect();
        regions.map_err(refused)
    }

    /// The scratch that it asks for.
    pub(crate) fn workspace(&self) -> Workspace {
        self.kernel.workspace()
    }

    pub(crate) fn kernel(&self) -> &FinalizedKernel {
        &self.kernel
    }

    /// Whether rows of some port may lie apart.
    pub(crate) fn takes_pitched(&self) -> bool {
        self.entry.def.port_rules().iter().any(PortRule::takes_pitched)
    }

    /// Runs the kernel on these elements of its inputs.
    pub(crate) fn run(&self, values: &[Vec<u8>], how: How) -> Result<Run, Fault> {
        if self.is_recorded {
            record::begins(self.node, values);
        }
        let run = self.call(values, how)?;
        if self.is_recorded {
            record::made(&run.outputs);
        }
        Ok(run)
    }

    fn call(&self, values: &[Vec<u8>], how: How) -> Result<Run, Fault> {
        let mut ports = Vec::new();
        for (port, desc) in self.inputs.iter().enumerate() {
            ports.push(self.input_port(port, desc, values, how).map_err(Fault::Broken)?);
        }
        for (port, desc) in self.outputs.iter().enumerate() {
            ports.push(self.output_port(port, desc, how).map_err(Fault::Broken)?);
        }
        let pairs = if how.mode == Mode::InPlace { self.pair(&mut ports) } else { Vec::new() };
        let paired = |port: usize| pairs.iter().any(|&(input, _)| input == port);
        for (at, port) in ports.iter().enumerate().take(self.inputs.len()) {
            if let (Some(region), false, true) = (&port.region, paired(at), how.is_sealed) {
                region.seal().map_err(Fault::Broken)?;
            }
        }
        let mut args: Vec<TensorArg> = ports.iter_mut().map(Port::arg).collect();
        for &(input, output) in &pairs {
            self.share(&mut args, input, output);
        }
        let workspace = self.kernel.workspace();
        let bytes = if workspace.wants_all_vtcm() { VTCM_BYTES } else { workspace.bytes() };
        let scratch = Lent(Some(Self::scratch(What::Scratch, bytes, how).map_err(Fault::Broken)?));
        let Some(scratch) = &scratch.0 else { return Err(Fault::Broken("no scratch".to_owned())) };
        let geometry = match self.kernel.prepare_fn() {
            Some(_) => {
                let how = How { poison: 0, ..how };
                Some(
                    Self::scratch(What::Geometry, self.kernel.geometry_bytes(), how)
                        .map_err(Fault::Broken)?,
                )
            }
            None => None,
        };
        let caller = Caller {
            guard: self.entry.guard,
            width: how.width,
            order: how.order,
            is_cancelled: how.is_cancelled,
            scratch,
            geometry: geometry.as_ref(),
        };
        let heap =
            execute(&self.kernel, &mut args, self.inputs.len(), &caller).map_err(Fault::Failed)?;
        let regions = ports.iter().filter_map(|port| port.region.as_ref());
        if let Some(stray) =
            regions.chain([scratch]).chain(geometry.as_ref()).find_map(Region::stray)
        {
            return Err(Fault::Broken(stray));
        }
        if let Some(port) = self.changed(&ports, values, &pairs) {
            return Err(Fault::Broken(format!("the kernel changes input {port}")));
        }
        let outputs = self.collect(&ports, &args, how)?;
        Ok(Run { outputs, heap })
    }

    fn scratch(what: What, bytes: usize, how: How) -> Result<Region, String> {
        let kept = if bytes >= KEPT_BYTES { kept(bytes, how.flush) } else { None };
        let mut region = kept.map_or_else(|| Region::new(what, bytes, 64, how.flush), Ok)?;
        region.bytes_mut().fill(how.poison);
        Ok(region)
    }

    fn input_port(
        &self,
        port: usize,
        desc: &TensorDesc,
        values: &[Vec<u8>],
        how: How,
    ) -> Result<Port, String> {
        let given =
            self.node.inputs.get(port).filter(|_| !desc.is_absent() && self.kernel.reads(port));
        let (Some(input), Some(dense)) = (given, values.get(port)) else { return Ok(Port::ABSENT) };
        let turned = turned(self.entry, Side::Input, port, &input.desc, dense);
        let dense = turned.as_deref().unwrap_or(dense);
        let dims = if turned.is_some() { desc.shape().to_vec() } else { input.dims.clone() };
        let is_pitched = how.mode == Mode::Pitched
            && input.constant.is_none()
            && desc.full_shape().is_fixed()
            && rule(self.entry, Side::Input, port).is_some_and(PortRule::takes_pitched);
        let mut made =
            Port::new(What::Input(port), *desc, dims, how.flush, if is_pitched { 3 } else { 0 })?;
        made.scatter(dense);
        Ok(made)
    }

    fn output_port(&self, port: usize, desc: &TensorDesc, how: How) -> Result<Port, String> {
        if desc.is_absent() {
            return Ok(Port::ABSENT);
        }
        let is_pitched = how.mode == Mode::Pitched
            && desc.full_shape().is_fixed()
            && rule(self.entry, Side::Output, port).is_some_and(PortRule::takes_pitched);
        let extra = if is_pitched { 5 } else { 0 };
        let mut made =
            Port::new(What::Output(port), *desc, desc.shape().to_vec(), how.flush, extra)?;
        let dense = vec![how.poison; desc.size_bytes()];
        made.scatter(&dense);
        Ok(made)
    }

    /// The pairs of an input and an output that the call has in one place, the output's, which gets the input's elements.
    fn pair(&self, ports: &mut [Port]) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for pair in self.entry.def.in_place_pairs() {
            let (input, output) = (usize::from(pair.input), usize::from(pair.output));
            let at = self.inputs.len() + output;
            let is_constant =
                self.node.inputs.get(input).is_none_or(|input| input.constant.is_some());
            let (Some(from), Some(to)) = (ports.get(input), ports.get(at)) else { continue };
            let fits = from.desc.dtype() == to.desc.dtype()
                && from.desc.size_bytes() == to.desc.size_bytes()
                && from.desc.full_shape().is_fixed()
                && to.desc.full_shape().is_fixed();
            let is_taken = pairs.iter().any(|&(i, o)| i == input || o == output);
            if is_constant || !fits || is_taken || from.region.is_none() || to.region.is_none() {
                continue;
            }
            let bytes =
                ports.get(input).and_then(|port| port.region.as_ref()).map(|r| r.bytes().to_vec());
            let to = ports.get_mut(at).and_then(|port| port.region.as_mut());
            if let (Some(bytes), Some(to)) = (bytes, to) {
                to.bytes_mut().copy_from_slice(&bytes);
                pairs.push((input, output));
            }
        }
        pairs
    }

    /// Has an input lie where an output does.
    fn share(&self, args: &mut [TensorArg], input: usize, output: usize) {
        let at = self.inputs.len() + output;
        let data = args.get(at).map(|arg| arg.data);
        let number = |port: usize| u16::try_from(port).unwrap_or(u16::MAX);
        for (at, other) in [(input, output), (at, input)] {
            let Some(arg) = args.get_mut(at) else { continue };
            let mut paired = std::mem::replace(arg, TensorArg::ABSENT).paired_with(number(other));
            if let (Some(data), true) = (data, at == input) {
                paired.data = data;
            }
            *arg = paired;
        }
    }

    /// The input that is not what it was, of those that have memory of their own.
    fn changed(
        &self,
        ports: &[Port],
        values: &[Vec<u8>],
        pairs: &[(usize, usize)],
    ) -> Option<usize> {
        (0..self.inputs.len()).find(|&at| {
            let is_paired = pairs.iter().any(|&(input, _)| input == at);
            let Some(port) = ports.get(at).filter(|port| port.region.is_some() && !is_paired)
            else {
                return false;
            };
            let (Some(dense), Some(input)) = (values.get(at), self.node.inputs.get(at)) else {
                return false;
            };
            let turned = turned(self.entry, Side::Input, at, &input.desc, dense);
            let dense = turned.as_deref().unwrap_or(dense);
            port.gather().get(..dense.len()).is_some_and(|now| now != dense)
        })
    }

    fn collect(&self, ports: &[Port], args: &[TensorArg], how: How) -> Result<Vec<Made>, Fault> {
        let mut made = Vec::new();
        let outputs = ports.iter().zip(args).skip(self.inputs.len());
        for (index, (port, arg)) in outputs.enumerate() {
            let Some(region) = &port.region else {
                made.push(Made { dims: Vec::new(), bytes: Vec::new() });
                continue;
            };
            let dims = arg.shape().to_vec();
            let bound = port.desc.shape();
            if dims.len() != bound.len() || dims.iter().zip(bound).any(|(dim, bound)| dim > bound) {
                return Err(Fault::Broken(format!(
                    "the kernel says {dims:?} of output {index}, whose bounds are {bound:?}"
                )));
            }
            if port.pitch != 0 && !port.is_whole_between() {
                return Err(Fault::Broken(format!(
                    "the kernel writes between the rows of output {index}"
                )));
            }
            let size = port.element();
            let len = dims.iter().product::<usize>() * size;
            let dense = port.gather();
            let behind = dense.get(len..).unwrap_or_default();
            if !port.desc.full_shape().is_fixed() && behind.iter().any(|&byte| byte != how.poison) {
                return Err(Fault::Broken(format!(
                    "the kernel writes behind the extents {dims:?} that it says of output {index}"
                )));
            }
            let bytes = dense.get(..len).unwrap_or(region.bytes()).to_vec();
            let desc = self.node.outputs.get(index).copied().unwrap_or(TensorDesc::ABSENT);
            if is_last(self.entry, Side::Output, index, &desc) {
                let bytes = permuted(&bytes, &dims, Layout::NCHW_AXES, size);
                made.push(Made { dims: desc.shape().to_vec(), bytes });
            } else {
                made.push(Made { dims, bytes });
            }
        }
        Ok(made)
    }
}

/// Scratch of as many bytes is kept from call to call: its pages take longer to come by than to fill.
const KEPT_BYTES: usize = 1 << 20;

/// Scratch that no call has.
static KEPT: Mutex<Vec<Region>> = Mutex::new(Vec::new());

fn kept(bytes: usize, flush: Flush) -> Option<Region> {
    let mut kept = KEPT.lock().ok()?;
    let at = kept.iter().position(|region| region.is_like(bytes, flush))?;
    Some(kept.swap_remove(at))
}

/// Scratch that a call has.
struct Lent(Option<Region>);

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(region) = self.0.take().filter(|region| region.bytes().len() >= KEPT_BYTES) else {
            return;
        };
        // What was written around it is a finding of its call, and would be one of the next.
        if region.stray().is_none()
            && let Ok(mut kept) = KEPT.lock()
            && kept.len() < 12
        {
            kept.push(region);
        }
    }
}

/// The elements in the order in which the kernel gets them, where that is another.
fn turned(
    entry: &KernelEntry,
    side: Side,
    port: usize,
    desc: &TensorDesc,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let element_bytes = desc.dtype()?.size_bytes();
    let comes_last = is_last(entry, side, port, desc);
    comes_last.then(|| permuted(bytes, desc.shape(), Layout::NHWC_AXES, element_bytes))
}

/// The elements of a tensor of rank 4 with its axes in another order.
fn permuted(bytes: &[u8], dims: &[usize], order: [usize; 4], size: usize) -> Vec<u8> {
    let extent = |axis: usize| dims.get(axis).copied().unwrap_or(1);
    let to = order.map(extent);
    let mut turned = Vec::with_capacity(bytes.len());
    for place in 0..to.iter().product::<usize>() {
        let (mut left, mut at) = (place, [0; 4]);
        for (axis, extent) in order.into_iter().zip(to).rev() {
            if let Some(at) = at.get_mut(axis) {
                *at = left % extent;
            }
            left /= extent;
        }
        let from = at.iter().enumerate().fold(0, |from, (axis, at)| from * extent(axis) + at);
        turned.extend_from_slice(bytes.get(from * size..(from + 1) * size).unwrap_or_default());
    }
    turned
}

/// A tensor of a call, in memory of its own.
struct Port {
    desc: TensorDesc,
    dims: Vec<usize>,
    region: Option<Region>,
    /// Elements from row to row; 0 where rows lie behind each other.
    pitch: usize,
}

impl Port {
    const ABSENT: Self =
        Self { desc: TensorDesc::ABSENT, dims: Vec::new(), region: None, pitch: 0 };

    fn new(
        what: What,
        desc: TensorDesc,
        dims: Vec<usize>,
        flush: Flush,
        extra: usize,
    ) -> Result<Self, String> {
        let size = desc.dtype().map_or(1, udo_api::DType::size_bytes);
        let cols = dims.last().copied().unwrap_or(1);
        let rows = dims.iter().product::<usize>().checked_div(cols).unwrap_or(0);
        let is_pitched = extra > 0 && rows > 1;
        let pitch = if is_pitched { cols + extra } else { 0 };
        let len = if is_pitched { ((rows - 1) * pitch + cols) * size } else { desc.size_bytes() };
        // Callers' tensors are aligned for their elements alone.
        let align = if flush == Flush::End { size } else { 64 };
        let region = Some(Region::new(what, len, align, flush)?);
        Ok(Self { desc, dims, region, pitch })
    }

    fn element(&self) -> usize {
        self.desc.dtype().map_or(1, udo_api::DType::size_bytes)
    }

    /// Bytes of a row, and from row to row.
    fn rows(&self) -> (usize, usize) {
        let cols = self.dims.last().copied().unwrap_or(1);
        (cols * self.element(), self.pitch * self.element())
    }

    fn scatter(&mut self, dense: &[u8]) {
        let (row, pitch) = self.rows();
        let is_dense = self.pitch == 0;
        let Some(region) = &mut self.region else { return };
        if is_dense {
            let to = region.bytes_mut();
            let len = dense.len().min(to.len());
            for (to, from) in to.iter_mut().zip(dense) {
                *to = *from;
            }
            // What a bounded tensor could hold beyond its extents is nothing that a kernel may read.
            if let Some(behind) = to.get_mut(len..) {
                behind.fill(0xff);
            }
            return;
        }
        for (to, from) in region.bytes_mut().chunks_mut(pitch).zip(dense.chunks(row.max(1))) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }

    fn gather(&self) -> Vec<u8> {
        let Some(region) = &self.region else { return Vec::new() };
        let (row, pitch) = self.rows();
        if self.pitch == 0 {
            return region.bytes().to_vec();
        }
        region
            .bytes()
            .chunks(pitch)
            .flat_map(|chunk| chunk.get(..row).unwrap_or(chunk))
            .copied()
            .collect()
    }

    fn is_whole_between(&self) -> bool {
        let Some(region) = &self.region else { return true };
        let (row, pitch) = self.rows();
        let mut between =
            region.bytes().chunks(pitch).flat_map(|chunk| chunk.get(row..).unwrap_or_default());
        between.all(|&byte| byte == CANARY)
    }

    fn arg(&mut self) -> TensorArg {
        let Some(region) = &self.region else { return TensorArg::ABSENT };
        let mut arg = TensorArg::new(&self.desc, region.as_ptr());
        arg.len = self.dims.iter().product();
        arg.dims.iter_mut().zip(&self.dims).for_each(|(to, from)| *to = *from);
        let stride =
            if self.pitch == 0 { self.dims.last().copied().unwrap_or(1) } else { self.pitch };
        arg.with_row_stride(stride).alone()
    }
}
