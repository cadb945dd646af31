//! Executes a plan: its memory, and the calls of its steps.

mod bound;
mod call_jump;
mod calls;
mod carried;
mod exchange;
mod extents;
mod geometry;
mod host_cache;
mod memory;
mod parts;
mod ports;
mod shared;
mod stop;
mod trace;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use udo_api::abi::{ExecArgs, TensorArg};
use udo_api::guard::{LibraryGuard, OWN_GUARD};
use udo_api::{Core, DType, ExecError, Status};
use udo_host::{ExecuteFn, failure};

use udo_compile::place::Pitch;
use udo_compile::plan::{
    Largest, Operand, Place, Plan, PlanLayout, Progress, Purpose, Report, ShapeId, Step,
    WindowPlace, subnet_name,
};
use udo_engine::cores::opencl::Arena;
use udo_engine::cores::{Memory, PerMemory};
use udo_engine::device;
use udo_engine::exit_guard;
use udo_engine::thread_pool::Pool;
use udo_graph::memory::{Budget, Buffer, Limit, OutOfMemory};

use bound::Moved;
use call_jump::CallJump;
pub(crate) use carried::Carried;
use exchange::Exchanged;
use extents::{Extents, SharedArg, pass_shapes};
use geometry::StepGeometry;
use host_cache::HostCache;
pub(crate) use memory::MemorySource;
use memory::{Charges, PlanMemory};
use parts::Part;
use shared::Replaced;
use stop::Stoppable;
pub use trace::{Span, SpanKind, Trace};

/// The failure of a step. The session can run again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node:?}: package {package}'s {op} on {core}{} {reason}", in_subnet(.subnet.as_deref()))]
pub struct StepError {
    /// The node.
    pub node: Box<str>,
    /// Its operator type.
    pub op: Box<str>,
    /// The kernel's package.
    pub package: Box<str>,
    /// The core that it ran on.
    pub core: Core,
    /// The name of its subnet, if the model has several.
    pub subnet: Option<Box<str>>,
    /// The kernel's error.
    pub error: ExecError,
    /// The error message.
    pub reason: Box<str>,
}

fn in_subnet(subnet: Option<&str>) -> String {
    subnet.map_or_else(String::new, |name| format!(" ({name})"))
}

/// The reason why a session cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session {memory}; {largest}")]
pub struct SessionError {
    /// The memory that the whole session needs.
    pub memory: OutOfMemory,
    /// Its largest part.
    pub largest: Largest,
}

/// The reason why there is no memory for a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanMemoryError {
    /// The model's budget or the system is out of memory.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A device is out of memory.
    #[error(transparent)]
    Device(#[from] device::Error),
}

impl SessionError {
    /// Checks whether a session of this plan could be created now.
    pub(crate) fn look_ahead(plan: &Plan, budget: &Budget) -> Result<(), Self> {
        budget.allows(plan.session_bytes()).map_err(|memory| Self::new(plan, memory))
    }

    fn new(plan: &Plan, memory: OutOfMemory) -> Self {
        let memory = OutOfMemory { wanted: plan.session_bytes(), ..memory };
        Self { memory, largest: plan.largest().clone() }
    }
}

/// The reason why a tensor cannot be set or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The model has no such input or output.
    #[error("the model has no {side} {name:?}, it has {}", .known.join(", "))]
    NoSuchPort {
        /// `input` or `output`.
        side: &'static str,
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The tensor has another type or shape.
    #[error("{side} {name:?} is {found}, expected {wanted}")]
    WrongTensor {
        /// `input` or `output`.
        side: &'static str,
        /// The port's name.
        name: String,
        /// The tensor's type and shape.
        found: String,
        /// The port's type and shape.
        wanted: String,
    },
    /// The model has open shapes, and the session has not prepared any.
    #[error("{side} {name:?} has no shape yet, expected prepared shapes, or inputs and a run")]
    NoShapes {
        /// `input` or `output`.
        side: &'static str,
        /// The port's name.
        name: String,
    },
}

impl PortError {
    pub(crate) fn no_such<'a>(
        side: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known = known.map(|name| format!("{name:?}")).collect();
        Self::NoSuchPort { side, name: name.to_owned(), known }
    }
}

/// The time and the heap calls of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepProfile {
    /// Its duration.
    pub time: Duration,
    /// Calls of the program's allocator during the step, by any thread; needs [`udo_api::GuardAlloc`]. A package's own
    /// allocator returns `HEAP_USE` instead.
    pub heap_calls: u64,
}

/// A step's call, and the bounded shapes that are passed on after it.
#[derive(Clone, Copy)]
struct Call {
    execute: ExecuteFn,
    args: *const ExecArgs,
    shapes_end: u32,
    /// 1 + the index of the step's geometry, if extents change from run to run; else 0.
    geometry: u32,
}

/// A plan with its own memory. It runs one call after another, and belongs to one thread at a time.
pub(crate) struct Executor {
    plan: Arc<Plan>,
    // Kernels hold pointers into these. They are neither moved nor freed before the session is dropped.
    arenas: PerMemory<Buffer>,
    /// The GPU memory, if it is on a device.
    device: Option<Arena>,
    scratch: PerMemory<Buffer>,
    /// The host's cached copies of non-coherent arenas.
    cached: HostCache,
    /// The session's own memory for inputs and outputs, if arenas are shared.
    ports: Option<Buffer>,
    geometry: Vec<StepGeometry>,
    tensors: Vec<SharedArg>,
    /// The index of the first tensor of the graph's inputs, after those of the steps.
    first_input: usize,
    args: Vec<ExecArgs>,
    calls: Vec<Call>,
    jumps: Vec<CallJump>,
    /// The parts of a run that can be interrupted.
    parts: Vec<Part>,
    stoppable: Option<Stoppable>,
    exchanged: Vec<Exchanged>,
    /// Inputs and outputs whose memory can change.
    moved: Vec<Moved>,
    /// The own extents of inputs for which a run lends others.
    own_dims: Vec<Option<Extents>>,
    /// Steps that work in place if a run binds an input and an output to the same memory.
    replaced: Vec<Replaced>,
    /// The tensors of the steps that set each shape. The first one holds what the last of them set.
    said_by: BTreeMap<ShapeId, Vec<usize>>,
    /// The producer and consumer of each bounded value, in the order of the steps.
    shapes: Vec<(usize, usize)>,
    /// The same for the graph's inputs.
    input_shapes: Vec<(usize, usize)>,
    /// Each bounded tensor, with its extents at the upper bounds.
    bounds: Vec<(usize, Extents)>,
    /// The same for the bounded outputs of all steps.
    output_bounds: Vec<(usize, Extents)>,
    first_tensor: Vec<usize>,
    guards: Vec<Guard>,
    thread: u64,
    pool: Arc<Pool>,
    /// Dropped last, because it counts the memory above.
    _charges: Charges,
}

/// A library's guard of a thread, and the steps that use it.
struct Guard {
    of_library: LibraryGuard,
    steps: Vec<usize>,
}

// SAFETY: every pointer leads into memory that the session owns or shares immutably, or that is leased by the run it is
// bound to, and the guards of a thread are looked up again when another thread runs the session.
unsafe impl Send for Executor {}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executor({} steps)", self.calls.len())
    }
}

/// Returns a unique number of the calling thread; never 0.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl Executor {
    /// Allocates the memory of `plan` from `budget` and from the devices of `room`. Nothing is allocated afterwards.
    ///
    /// # Errors
    /// The budget, a device or the system is out of memory.
    pub(crate) fn new(
        plan: Arc<Plan>,
        pool: Arc<Pool>,
        budget: &Budget,
        room: &MemorySource,
    ) -> Result<Self, PlanMemoryError> {
        SessionError::look_ahead(&plan, budget)?;
        let PlanMemory { arenas, scratch, ports, held } = room.take(&plan, budget)?;
        let cached = HostCache::take(&plan, budget)?;
        let device = plan.device.map(|(device, bytes)| {
            let arena = Arena::new(device, (bytes, plan.fill), plan.regions());
            arena.map_err(|_| {
                let refused = OutOfMemory { wanted: bytes, taken: 0, limit: Limit::None };
                SessionError::new(&plan, refused)
            })
        });
        let mut session = Self {
            arenas,
            device: device.transpose()?,
            scratch,
            cached,
            ports,
            geometry: Vec::new(),
            tensors: Vec::new(),
            first_input: 0,
            args: Vec::with_capacity(plan.steps.len()),
            calls: Vec::with_capacity(plan.steps.len()),
            jumps: Vec::new(),
            parts: Part::all(&plan),
            stoppable: None,
            exchanged: Vec::new(),
            moved: Vec::new(),
            own_dims: vec![None; plan.inputs.len()],
            replaced: Vec::new(),
            said_by: BTreeMap::new(),
            shapes: Vec::new(),
            input_shapes: Vec::new(),
            bounds: Vec::new(),
            output_bounds: Vec::new(),
            first_tensor: Vec::with_capacity(plan.steps.len()),
            guards: Vec::new(),
            thread: 0,
            pool,
            plan,
            _charges: held,
        };
        session.lay_tensors();
        session.lay_replaced();
        session.lay_geometry(budget)?;
        session.lay_calls();
        Ok(session)
    }

    /// Allocates memory for what steps derive from variable extents.
    fn lay_geometry(&mut self, budget: &Budget) -> Result<(), SessionError> {
        let plan = Arc::clone(&self.plan);
        for (index, bytes) in plan.geometry() {
            let buffer = budget.zeroed(bytes).map_err(|memory| SessionError::new(&plan, memory))?;
            let (Some(step), Some(&first)) = (plan.steps.get(index), self.first_tensor.get(index))
            else {
                continue;
            };
            let inputs = first..first + step.inputs.len();
            if let Some(prepare) = step.kernel.prepare_fn() {
                self.geometry.push(StepGeometry::new(prepare, inputs, buffer));
            }
        }
        Ok(())
    }

    fn lay_tensors(&mut self) {
        let plan = Arc::clone(&self.plan);
        for step in &plan.steps {
            self.first_tensor.push(self.tensors.len());
            for (port, operand) in step.inputs.iter().chain(&step.outputs).enumerate() {
                let data = self.address(operand);
                let mut arg = TensorArg::new(&operand.desc, data);
                let element = operand.desc.dtype().map_or(1, DType::size_bytes);
                if let Some(pitch) = self.place(operand).and_then(|place| place.pitch) {
                    arg = arg.with_row_stride(pitch / element);
                    if operand.pitch == Pitch::Alone {
                        arg = arg.alone();
                    }
                }
                if let Some(other) = operand.in_place {
                    arg = arg.paired_with(other);
                }
                if arg.bounded != 0 {
                    let bounds = (self.tensors.len(), Extents::from_arg(&arg));
                    self.bounds.push(bounds);
                    self.output_bounds.extend((port >= step.inputs.len()).then_some(bounds));
                }
                self.tensors.push(SharedArg::new(arg));
            }
        }
        self.first_input = self.tensors.len();
        for port in &plan.inputs {
            let arg = TensorArg::new(&port.operand.desc, self.address(&port.operand));
            self.tensors.push(SharedArg::new(arg));
        }
        let of_steps = plan.steps.iter().flat_map(|step| step.inputs.iter().chain(&step.outputs));
        let operands = of_steps.chain(plan.inputs.iter().map(|port| &port.operand));
        let places: Vec<_> =
            operands.map(|operand| plan.windows.get(operand.window()?.0)).collect();
        self.exchanged = Exchanged::all(&plan.place_starts, places.iter().copied());
        let (arena, home) = (self.arenas[Memory::Host].as_ptr(), self.ports.as_ref());
        self.moved = Moved::all(&plan.movable, places, (arena, home.map(Buffer::as_ptr)));
        self.unbind();
    }

    /// Returns the place of an operand in an arena.
    fn place(&self, operand: &Operand) -> Option<&WindowPlace> {
        self.plan.windows.get(operand.window()?.0)
    }

    /// Returns the address of an operand, or its handle on the device; null if it is omitted.
    fn address(&self, operand: &Operand) -> *mut u8 {
        match &operand.place {
            None => std::ptr::null_mut(),
            Some(Place::Constant(tensor)) => tensor.bytes().as_ptr().cast_mut(),
            Some(Place::Device(region)) => region.address(),
            Some(Place::Window(window)) => {
                let Some(place) = self.plan.windows.get(window.0) else {
                    return std::ptr::null_mut();
                };
                if let (Some(arena), Some((offset, bytes))) =
                    (&self.device, self.plan.region(operand))
                {
                    return arena.address(offset, bytes);
                }
                let arena = self.arenas[place.memory].as_ptr();
                let side = self.cached.side(place.memory, operand.view, arena);
                side.wrapping_add(self.offset(place))
            }
        }
    }

    fn lay_calls(&mut self) {
        let plan = Arc::clone(&self.plan);
        // The cell has the layout of its contents.
        let tensors = self.tensors.as_ptr().cast_mut().cast::<TensorArg>();
        let mut guards: BTreeMap<usize, Guard> = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            let first = self.first_tensor[index] + step.inputs.len();
            let outputs = self.tensors.get(first..).unwrap_or_default().iter();
            let owed = ExecArgs::owed(outputs.take(step.outputs.len()).map(SharedArg::at_rest));
            self.args.push(step.kernel.exec_args(
                tensors.wrapping_add(self.first_tensor[index]),
                (step.inputs.len(), step.outputs.len()),
                owed,
                &self.scratch[Memory::for_core(step.core)],
                self.pool.table(),
            ));
            let of_library = step.guard.unwrap_or(OWN_GUARD);
            let guard = guards.entry(of_library.id());
            guard.or_insert_with(|| Guard { of_library, steps: Vec::new() }).steps.push(index);
        }
        self.guards = guards.into_values().collect();
        self.link_shapes(&plan);
        let outputs: Vec<usize> = self.output_bounds.iter().map(|(output, _)| *output).collect();
        self.jumps = CallJump::all(&plan, &self.first_tensor, &outputs);
        let mut shapes_end = 0;
        let mut geometry = (1u32..).zip(&self.geometry);
        for (index, step) in plan.steps.iter().enumerate() {
            let own = step.kernel.prepare_fn().and_then(|_| geometry.next());
            if let (Some((_, own)), Some(args)) = (own, self.args.get_mut(index)) {
                (args.geometry, args.geometry_bytes) = own.bytes();
            }
            let produced = self.shapes[shapes_end..]
                .iter()
                .take_while(|(from, _)| self.step_of(*from) == index);
            shapes_end += produced.count();
            self.calls.push(Call {
                execute: step.kernel.execute_fn(),
                args: &raw const self.args[index],
                shapes_end: u32::try_from(shapes_end).unwrap_or(u32::MAX),
                geometry: own.map_or(0, |(number, _)| number),
            });
        }
    }

    fn step_of(&self, tensor: usize) -> usize {
        self.first_tensor.partition_point(|&first| first <= tensor).saturating_sub(1)
    }

    /// Records where each bounded shape is passed on after its step.
    fn link_shapes(&mut self, plan: &Plan) {
        for (port, at) in plan.inputs.iter().zip(self.first_input..) {
            if let Some(shape) = port.operand.shape {
                self.said_by.entry(shape).or_default().push(at);
            }
        }
        let all = || plan.steps.iter().zip(&self.first_tensor);
        for (step, first) in all() {
            let outputs = step.outputs.iter().zip(first + step.inputs.len()..);
            for (shape, at) in outputs.filter_map(|(output, at)| Some((output.shape?, at))) {
                self.said_by.entry(shape).or_default().push(at);
            }
        }
        for (step, &first) in all() {
            for (input, at) in step.inputs.iter().zip(first..) {
                let said_by = input.shape.and_then(|shape| self.said_by.get(&shape));
                self.shapes.extend(said_by.into_iter().flatten().map(|&says| (says, at)));
            }
        }
        for said_by in self.said_by.values() {
            let Some((&first, others)) = said_by.split_first() else { continue };
            self.shapes.extend(others.iter().map(|&says| (says, first)));
        }
        self.shapes.sort_unstable();
        let of_inputs = self.shapes.partition_point(|&(says, _)| says < self.first_input);
        self.input_shapes = self.shapes.split_off(of_inputs);
    }

    /// Runs the model once with the current inputs. Uses no heap unless it fails.
    ///
    /// # Errors
    /// A kernel failed. The outputs are unspecified; the session can run again.
    pub(crate) fn run(&mut self) -> Result<(), StepError> {
        self.enter_thread();
        self.reset_bounds();
        let progress = Progress::new(&self.plan.steps);
        exit_guard::with_record(&progress, || {
            if self.cached.evicts() {
                return self.walk(|calls| self.run_and_evict(calls, &progress));
            }
            self.walk(|calls| self.run_calls(calls, &progress))
        })
    }

    /// Prepares a step for the extents of this run.
    fn prepare(&self, index: usize, call: &Call) -> Result<(), StepError> {
        let Some(geometry) = self.geometry.get(call.geometry as usize - 1) else { return Ok(()) };
        // SAFETY: the arguments are this step's, and point into `tensors`.
        match unsafe { geometry.update(&self.tensors, call.args) } {
            status if status == Status::OK.code() => Ok(()),
            status => Err(self.failure(index, status)),
        }
    }

    /// Runs the model once and adds to the profile of each step.
    ///
    /// # Errors
    /// The same as for [`Executor::run`].
    pub(crate) fn run_profiled(&mut self, profile: &mut [StepProfile]) -> Result<(), StepError> {
        self.enter_thread();
        self.reset_bounds();
        let progress = Progress::new(&self.plan.steps);
        profile.fill(StepProfile::default());
        exit_guard::with_record(&progress, || {
            self.walk(|calls| self.profile_calls(calls, &progress, profile))
        })
    }

    /// Runs the model once and records in `trace` when each thread worked at which step. Uses no heap unless it fails.
    ///
    /// # Errors
    /// The same as for [`Executor::run`].
    pub(crate) fn run_traced(&mut self, trace: &mut Trace) -> Result<(), StepError> {
        self.enter_thread();
        self.reset_bounds();
        let progress = Progress::new(&self.plan.steps);
        exit_guard::with_record(&progress, || {
            self.walk(|calls| self.trace_calls(calls, &progress, trace))
        })
    }

    /// Resets every bounded tensor to its bounds at the start of a run, and the inputs to their extents.
    fn reset_bounds(&mut self) {
        self.cached.settle();
        self.to_bounds(&self.bounds);
        let to = u32::try_from(self.input_shapes.len()).unwrap_or(u32::MAX);
        let is_passed = pass_shapes(&self.tensors, &self.input_shapes, 0, to);
        debug_assert!(is_passed, "inputs were set within their bounds");
    }

    fn to_bounds(&self, bounds: &[(usize, Extents)]) {
        for &(tensor, extents) in bounds {
            if let Some(arg) = self.tensors.get(tensor) {
                arg.write(extents);
            }
        }
    }

    /// Looks up the thread's guards if the session is on a new thread.
    fn enter_thread(&mut self) {
        let thread = this_thread();
        if self.thread == thread {
            return;
        }
        self.thread = thread;
        for guard in &self.guards {
            let cell = guard.of_library.cell();
            for &step in &guard.steps {
                if let Some(args) = self.args.get_mut(step) {
                    args.guard = cell;
                }
            }
        }
        self.point_calls();
    }

    /// The pointers into `args` were taken before it was written to.
    fn point_calls(&mut self) {
        let args = self.args.as_ptr();
        for (index, call) in self.calls.iter_mut().enumerate() {
            call.args = args.wrapping_add(index);
        }
    }

    #[cold]
    fn failure(&self, index: usize, status: u32) -> StepError {
        let step = self.plan.steps.get(index);
        let failure = failure(status, step.and_then(|step| step.guard).unwrap_or(OWN_GUARD));
        let name = |pick: fn(&Step) -> &str| step.map_or("", pick).into();
        StepError {
            node: name(|s| &s.name),
            op: name(|s| &s.op),
            package: name(|s| &s.package),
            core: step.map_or(Core::CPU, |s| s.core),
            subnet: subnet_of(self.plan.report(), index).map(Into::into),
            reason: match step.map(|step| &step.purpose) {
                Some(Purpose::Check { reason, .. }) => reason.clone(),
                _ => failure.to_string().into(),
            },
            error: failure.error,
        }
    }

    /// Returns the plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the plan for callers that outlive the executor.
    pub(crate) fn shared_plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}

/// The name of the subnet that a step belongs to, if the plan has several.
fn subnet_of(report: &Report, step: usize) -> Option<&str> {
    let step = report.steps.get(step).filter(|_| report.subnets.len() > 1)?;
    subnet_name(report, step.subnet)
}
