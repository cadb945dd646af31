//! Planning: turns a placed graph into a [`Plan`], which a session executes: a flat list of steps (calls of kernels)
//! over planned memory.
//!
//! A window is the place of a value in an arena. `Plan::build` lowers nodes to steps and windows (`lower`), makes
//! windows share memory (`unify`), and lays them out in arenas (`arena`).

mod arena;
mod blocks;
mod cache_maintenance;
mod control;
mod crossings;
mod gap;
mod in_place;
mod jump;
mod largest;
mod lower;
mod lowered;
mod lowering;
mod pack;
mod ports;
mod region;
mod report;
mod states;
mod subnets;
mod tie;
mod unify;
mod windows;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use udo_api::abi::Tie;
use udo_api::guard::LibraryGuard;
use udo_api::{Core, DType, TensorDesc};
use udo_host::FinalizedKernel;

use crate::compiler::Compiler;
use crate::place::{Pitch, Placement};
use udo_engine::cores::opencl::{ClDevice, CopyThere, OpenClError, Region};
use udo_engine::cores::{Memory, PerMemory, Profile, fast_memory, machine};
use udo_engine::device::Coherence;
use udo_engine::exit_guard::{self, CallOwner, PackageCall};
use udo_engine::thread_pool::Pool;
use udo_graph::graph::InPlaceError;
use udo_graph::memory::{ALIGN_BYTES, Tensor};

pub use crate::options::PlanOptions;
pub use crossings::{Crossing, Passage};
pub use in_place::SharedPlace;
pub use jump::Jump;
pub use largest::Largest;
pub use report::{CoreMemory, NodeReport, Report, StepReport, subnet_name};
pub use subnets::Subnet;
pub(crate) use windows::WindowId;

/// Where a tensor's elements are stored.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a window of the plan.
    Window(WindowId),
    /// In the model.
    Constant(Tensor),
    /// A constant of the model on the device.
    Device(Arc<Region>),
}

/// The view through which an operand accesses non-coherent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The memory itself.
    Device,
    /// The host's cached view.
    Host,
    /// The contents of the host's view when it was last equal to the memory. Lines that differ from it are dirty.
    Clean,
}

/// An id for the extents of a bounded value, which a step sets in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeId(pub usize);

/// One tensor of a step.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The description of the tensor.
    pub desc: TensorDesc,
    /// Where it is stored; `None` if the node omits it.
    pub place: Option<Place>,
    /// The other port of an in-place pair.
    pub in_place: Option<u16>,
    /// The extents in the current run, if dimensions are bounded.
    pub shape: Option<ShapeId>,
    /// Whether its rows may be strided.
    pub pitch: Pitch,
    /// The view through which the step accesses it.
    pub view: View,
}

impl Operand {
    const ABSENT: Self = Self {
        desc: TensorDesc::ABSENT,
        place: None,
        in_place: None,
        shape: None,
        pitch: Pitch::Refused,
        view: View::Device,
    };

    /// Returns its window, if it is stored in one.
    pub fn window(&self) -> Option<WindowId> {
        match self.place {
            Some(Place::Window(window)) => Some(window),
            Some(Place::Constant(_) | Place::Device(_)) | None => None,
        }
    }
}

/// The purpose of a step.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// It computes a node.
    Node {
        /// The node's index in the graph.
        index: usize,
    },
    /// It fails if the run takes a branch that could not be compiled.
    Check {
        /// The node's index in the graph.
        index: usize,
        /// The branch, and why it could not be compiled.
        reason: Box<str>,
    },
    /// It moves a value to another core's memory, converts its format, or copies it to where the next iteration reads
    /// it.
    Transfer,
    /// It flushes or invalidates the host's cache of an accelerator's memory.
    CacheMaintenance,
    /// It copies the result of a branch to the place where both branches leave it.
    Merge {
        /// The first step of the branch.
        since: usize,
    },
}

/// One call of a kernel.
#[derive(Debug)]
pub struct Step {
    /// The kernel.
    pub kernel: FinalizedKernel,
    /// The pairs of an input and an output that hold the same elements.
    ties: Vec<Tie>,
    /// The purpose.
    pub purpose: Purpose,
    /// The number of subgraphs around it.
    depth: usize,
    /// The name of its node, or of the value that it transfers.
    pub name: String,
    /// The operator's type.
    pub op: String,
    /// The package of the operator.
    pub package: String,
    /// The core that it runs on.
    pub core: Core,
    /// Whether all its tensors are in the GPU device's memory.
    is_on_device: bool,
    /// The heap guard of the kernel's library, if it has one.
    pub guard: Option<LibraryGuard>,
    /// The inputs by port.
    pub inputs: Vec<Operand>,
    /// The outputs by port.
    pub outputs: Vec<Operand>,
}

impl Step {
    /// Describes a call of its kernel, for reports of faults in packages.
    pub(crate) fn call(&self, function: &'static str) -> PackageCall<'_> {
        let core = Some(self.core);
        PackageCall { node: &self.name, package: &self.package, op: &self.op, core, function }
    }

    /// Returns the index of the node that it computes.
    fn node(&self) -> Option<usize> {
        match self.purpose {
            Purpose::Node { index } | Purpose::Check { index, .. } => Some(index),
            Purpose::Transfer | Purpose::CacheMaintenance | Purpose::Merge { .. } => None,
        }
    }

    /// Returns whether it copies the result of a branch to the place that both branches share.
    fn is_merge(&self) -> bool {
        matches!(self.purpose, Purpose::Merge { .. })
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().chain(&self.outputs)
    }
}

/// The current step of a run, for reports of faults that end the process during it.
#[derive(Debug)]
pub struct Progress<'a> {
    steps: &'a [Step],
    step: AtomicUsize,
}

impl<'a> Progress<'a> {
    /// Returns the progress of a run that has not begun.
    pub fn new(steps: &'a [Step]) -> Self {
        Self { steps, step: AtomicUsize::new(0) }
    }

    /// Records the step that is about to run.
    pub fn set_step(&self, step: usize) {
        self.step.store(step, Ordering::Relaxed);
    }
}

impl CallOwner for Progress<'_> {
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let Some(step) = self.steps.get(self.progress()) else { return Ok(()) };
        step.call("execute").say(f, what)
    }

    fn advice(&self) -> &'static str {
        self.steps.get(self.progress()).map_or("", |step| step.call("execute").advice())
    }

    fn progress(&self) -> usize {
        self.step.load(Ordering::Relaxed)
    }
}

/// A graph input or output as the session sees it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name in the model.
    pub name: String,
    /// The tensor and its place in memory.
    pub operand: Operand,
    /// The index of the movable buffer that it fills, if any. See [`Plan::movable`].
    pub moves: Option<usize>,
}

impl Port {
    fn new(name: String, operand: Operand) -> Self {
        Self { name, operand, moves: None }
    }
}

/// A window's place in its memory's arena.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlace {
    /// The memory.
    pub memory: Memory,
    /// Its offset in the memory's arena, in bytes.
    pub offset: usize,
    /// The row pitch in bytes, if the rows are strided.
    pub pitch: Option<usize>,
    /// The index of the exchanged place that it is in, if any. See [`Exchange`].
    pub exchanged: Option<usize>,
    /// The index of the movable buffer that it is in, if any. See [`Plan::movable`].
    pub moves: Option<usize>,
}

/// A buffer in the host's arena that an input or output fills, and that a run may replace by other memory.
#[derive(Clone, Copy, Debug)]
pub struct Movable {
    /// Its offset in the arena, in bytes.
    pub start: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Two places that are exchanged after a step: from then on, each has the contents of the other. No bytes move; loops
/// use this to pass states to the next iteration.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// The step.
    pub after: usize,
    /// The indices of the places, in [`Plan::place_starts`].
    pub places: [usize; 2],
}

/// A model that is ready to run: its steps, and the places of all values.
#[derive(Debug)]
pub struct Plan {
    /// The calls of kernels, in order.
    pub steps: Vec<Step>,
    /// The jumps between steps, in order.
    pub jumps: Vec<Jump>,
    /// The buffer exchanges after steps with a jump, in order.
    pub exchanges: Vec<Exchange>,
    /// The offset in the host's arena of each exchanged place, before the first run.
    pub place_starts: Vec<usize>,
    /// The graph's inputs.
    pub inputs: Vec<Port>,
    /// The graph's outputs.
    pub outputs: Vec<Port>,
    /// The buffers of inputs and outputs that a run may replace by other memory.
    pub movable: Vec<Movable>,
    /// Pairs of an input and an output that a run may bind to the same memory.
    pub shared: Vec<SharedPlace>,
    /// The places of values, indexed by window id.
    pub windows: Vec<WindowPlace>,
    /// The size of each memory's arena.
    pub arena_bytes: PerMemory<usize>,
    /// The device that holds the GPU's memory, if one is used, and the size of its arena in bytes.
    pub device: Option<(&'static ClDevice, usize)>,
    /// The size of the scratch in each memory.
    pub scratch_bytes: PerMemory<usize>,
    /// The coherence of the accelerators' arenas.
    pub coherence: Coherence,
    largest: Largest,
    /// The initial byte of the arenas and of scratch memory.
    pub fill: u8,
    report: Report,
}

impl Drop for Plan {
    fn drop(&mut self) {
        for step in self.steps.drain(..) {
            let Step { kernel, name, package, op, core, guard, .. } = step;
            let (node, core) = (&*name, Some(core));
            let call = PackageCall { node, package: &package, op: &op, core, function: "free" };
            exit_guard::with_record(&call, || {
                drop(kernel);
                let message = guard.map(|guard| guard.take_report().message()).unwrap_or_default();
                if !message.is_empty() {
                    exit_guard::note_fault("panicked", &message);
                }
            });
        }
    }
}

/// The reason why a placed graph cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A kernel fails to pack its constants, or refuses its shapes.
    #[error("node {node:?}: package {package}'s {op} {refusal} while it {during}")]
    Prepare {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The kernel's package.
        package: String,
        /// The phase that failed.
        during: &'static str,
        /// The kernel's error.
        refusal: udo_host::Refusal,
    },
    /// A value cannot be transferred or converted as a step needs it.
    #[error("value {value:?}: {reason}")]
    Transfer {
        /// The value.
        value: String,
        /// The reason.
        reason: String,
    },
    /// A node has more ports than a call supports.
    #[error("node {node:?} has {count} {what}, a call takes at most {PORTS_MAX}")]
    Ports {
        /// The node.
        node: String,
        /// Inputs, outputs or packed constants.
        what: &'static str,
        /// Their number.
        count: usize,
    },
    /// A bounded output has a port beyond those whose extents a call can set.
    #[error(
        "node {node:?}: output {port} is bounded, and only the first {BOUNDED_PORTS_MAX} outputs may be"
    )]
    BoundedPort {
        /// The node.
        node: String,
        /// The output.
        port: usize,
    },
    /// The arena of a memory is larger than the address space.
    #[error("the arena of the {memory} memory has more bytes than an address counts: {largest}")]
    TooLarge {
        /// The memory's name.
        memory: &'static str,
        /// The largest part.
        largest: Largest,
    },
    /// A constant does not fit on the device.
    #[error(
        "node {node:?}: input {port} is a constant of {bytes} bytes, for which {device} has no memory"
    )]
    Device {
        /// The node.
        node: String,
        /// The input.
        port: usize,
        /// Its size in bytes.
        bytes: usize,
        /// The device's name.
        device: String,
        /// The error of OpenCL.
        #[source]
        source: Box<OpenClError>,
    },
    /// An input and an output that should share memory have different types or shapes.
    #[error(transparent)]
    InPlace(#[from] InPlaceError),
    /// The placement does not match its graph.
    #[error("the placement is broken: {0}")]
    Broken(String),
}

/// The largest number of inputs, outputs or packed constants of one call: indices have 16 bits, and one index means
/// none.
const PORTS_MAX: usize = 65_534;

/// The number of outputs that have a bit in [`udo_api::abi::ExecArgs::unsaid`].
const BOUNDED_PORTS_MAX: usize = 64;

/// Plans a placed graph.
///
/// # Errors
/// A kernel needs more scratch than its core has or fails to pack its constants, or a value cannot be transferred to
/// where it is needed.
pub fn run(compiler: &Compiler<'_>, placement: Placement, pool: &Pool) -> Result<Plan, PlanError> {
    Plan::build(compiler, placement, pool)
}

impl Plan {
    fn build(
        compiler: &Compiler<'_>,
        mut placement: Placement,
        pool: &Pool,
    ) -> Result<Self, PlanError> {
        let options = &compiler.options.plan;
        pack::all(&mut placement, compiler, pool)?;
        let profile = placement.profile;
        let pairs = std::mem::take(&mut placement.resolved.graph.in_place);
        let report = report::Nodes::new(&placement, compiler);
        let threads = pool.width();
        let mut lowered = lower::lower(placement, compiler, threads)?;
        lowered.steps.iter().try_for_each(check_ports)?;
        let machine = machine(Core::CPU, &profile, threads);
        let device = lowered.device;
        unify::unify(&mut lowered, options, |desc, is_on_device| match device {
            Some(device) if is_on_device => Ok(FinalizedKernel::from_kernel(CopyThere(device))),
            Some(_) | None => lowering::copy(desc, machine),
        })?;
        gap::insert(&mut lowered, options.row_gap);
        let scratch_bytes = scratch(&lowered.steps, &profile);
        let arenas = arena::Arenas::new(&lowered);
        let largest = Largest::find(&lowered.inputs, &lowered.steps);
        let placed = arenas.place(&lowered.windows);
        let (mut windows, mut arena_bytes) = placed.map_err(|memory| PlanError::TooLarge {
            memory: memory.name(),
            largest: largest.clone(),
        })?;
        let report = report.finish(&lowered, &arenas, arena_bytes, scratch_bytes);
        let (exchanges, place_starts) = states::placed(&lowered, &mut windows);
        let movable = ports::movable(&mut lowered, &mut windows);
        let shared = in_place::shared(&lowered, &pairs)?;
        let lowered::Lowered { mut steps, jumps, inputs, outputs, .. } = lowered;
        let device = device.map(|device| (device, std::mem::take(&mut arena_bytes[Memory::Gpu])));
        if let Some((device, _)) = device {
            upload_constants(device, &mut steps)?;
        }
        let fill = options.fill;
        for memory in Memory::ALL {
            let is_cached = options.coherence != Coherence::Coherent && memory != Memory::Host;
            if is_cached {
                arena_bytes[memory] = arena_bytes[memory].next_multiple_of(ALIGN_BYTES);
            }
        }
        Ok(Self {
            steps,
            jumps,
            exchanges,
            place_starts,
            inputs,
            outputs,
            movable,
            shared,
            windows,
            arena_bytes,
            device,
            coherence: options.coherence,
            scratch_bytes,
            largest,
            fill,
            report,
        })
    }

    /// Returns the report: placement with reasons, and memory use.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the names, types and shapes of the graph's inputs.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorDesc)> {
        self.inputs.iter().map(|p| (p.name.as_str(), &p.operand.desc))
    }

    /// Returns the names, types and shapes of the graph's outputs.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorDesc)> {
        self.outputs.iter().map(|p| (p.name.as_str(), &p.operand.desc))
    }
}

/// The memory that runs of a plan need.
pub trait PlanLayout {
    /// Returns whether sessions may share the plan's arenas: all inputs and outputs are movable, so nothing has to stay
    /// in the arenas between runs.
    fn may_share(&self) -> bool;

    /// Returns the number of bytes of a memory that the host accesses through its cache.
    fn cached_bytes(&self, memory: Memory) -> usize;

    /// Returns the steps with geometry (data that a kernel derives from its extents) that each session computes,
    /// because extents differ between runs, and the geometry's size in bytes.
    fn geometry(&self) -> impl Iterator<Item = (usize, usize)>;

    /// Returns the regions of the device's arena that steps use: offset and size in bytes.
    fn regions(&self) -> impl Iterator<Item = (usize, usize)>;

    /// Returns the offset and the size in bytes of an operand in the device's arena, with the gaps between its rows.
    fn region(&self, operand: &Operand) -> Option<(usize, usize)>;

    /// Returns the largest use of memory.
    fn largest(&self) -> &Largest;

    /// Returns the size of a session's memory on the host in bytes: arenas, scratch and geometry.
    fn session_bytes(&self) -> usize;
}

impl PlanLayout for Plan {
    fn may_share(&self) -> bool {
        self.inputs.iter().chain(&self.outputs).all(|port| {
            let place = port.operand.window().and_then(|id| self.windows.get(id.0));
            place.is_none_or(|place| place.moves.is_some() || port.operand.desc.size_bytes() == 0)
        })
    }

    fn cached_bytes(&self, memory: Memory) -> usize {
        match (self.coherence, memory) {
            (Coherence::Coherent, _) | (_, Memory::Host) => 0,
            (Coherence::NonCoherent { .. }, Memory::Gpu | Memory::Dsp) => self.arena_bytes[memory],
        }
    }

    fn geometry(&self) -> impl Iterator<Item = (usize, usize)> {
        let has_geometry = |(_, step): &(usize, &Step)| step.kernel.prepare_fn().is_some();
        let steps = self.steps.iter().enumerate().filter(has_geometry);
        steps.map(|(index, step)| (index, step.kernel.geometry_bytes()))
    }

    fn regions(&self) -> impl Iterator<Item = (usize, usize)> {
        let operands = self.steps.iter().flat_map(Step::operands);
        operands.filter_map(|operand| self.region(operand))
    }

    fn region(&self, operand: &Operand) -> Option<(usize, usize)> {
        let place = self.windows.get(operand.window()?.0)?;
        if self.device.is_none() || place.memory != Memory::Gpu {
            return None;
        }
        let bytes = operand.desc.size_bytes();
        let row = operand.desc.shape().last().copied().unwrap_or(1)
            * operand.desc.dtype().map_or(0, DType::size_bytes);
        let rows = bytes.checked_div(row).unwrap_or(0);
        Some((
            place.offset,
            match place.pitch {
                Some(pitch) if rows > 0 => (rows - 1) * pitch + row,
                Some(_) | None => bytes,
            },
        ))
    }

    fn largest(&self) -> &Largest {
        &self.largest
    }

    fn session_bytes(&self) -> usize {
        let memories = self.arena_bytes.iter().chain(self.scratch_bytes.iter()).copied();
        // The host's view of a non-coherent memory, and its clean copy. See [`View`].
        let cached = Memory::ALL.map(|memory| self.cached_bytes(memory).saturating_mul(2));
        memories
            .chain(cached)
            .chain(self.geometry().map(|(_, bytes)| bytes))
            .fold(0, usize::saturating_add)
    }
}

/// Copies the constants of the device's steps to the device.
fn upload_constants(device: &ClDevice, steps: &mut [Step]) -> Result<(), PlanError> {
    for step in steps.iter_mut().filter(|step| step.is_on_device) {
        for (port, operand) in step.inputs.iter_mut().enumerate() {
            let Some(Place::Constant(tensor)) = &operand.place else { continue };
            let region = device.constant(tensor).map_err(|source| PlanError::Device {
                node: step.name.clone(),
                port,
                bytes: tensor.bytes().len(),
                device: device.name().to_owned(),
                source: Box::new(source),
            })?;
            operand.place = Some(Place::Device(region));
        }
    }
    Ok(())
}

/// Checks that a step has no more ports than a call supports.
fn check_ports(step: &Step) -> Result<(), PlanError> {
    let counts = [
        ("inputs", step.inputs.len()),
        ("outputs", step.outputs.len()),
        ("packed constants", step.kernel.pack_count()),
    ];
    if let Some((what, count)) = counts.into_iter().find(|&(_, count)| count > PORTS_MAX) {
        return Err(PlanError::Ports { node: step.name.clone(), what, count });
    }
    let is_bounded = |operand: &Operand| !operand.desc.full_shape().is_fixed();
    match step.outputs.iter().skip(BOUNDED_PORTS_MAX).position(is_bounded) {
        None => Ok(()),
        Some(index) => {
            let port = BOUNDED_PORTS_MAX + index;
            Err(PlanError::BoundedPort { node: step.name.clone(), port })
        }
    }
}

/// Returns the size of the scratch in each memory: the largest of its steps, because steps run one after the other.
fn scratch(steps: &[Step], profile: &Profile) -> PerMemory<usize> {
    let mut bytes = PerMemory::default();
    for step in steps {
        let workspace = step.kernel.workspace();
        let fast_bytes = fast_memory(step.core, profile).unwrap_or_default();
        let needed = if workspace.wants_all_vtcm() { fast_bytes } else { workspace.bytes() };
        let slot: &mut usize = &mut bytes[Memory::for_core(step.core)];
        *slot = needed.max(*slot);
    }
    bytes
}

/// A plan that sessions share.
pub type SharedPlan = Arc<Plan>;
