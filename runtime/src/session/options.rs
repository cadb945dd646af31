//! Options of a session: memory, devices, cores, and tensors for inputs and outputs.

use std::num::NonZero;
use std::sync::Arc;

use udo_api::CoreKind;

use crate::executor::MemorySource;
use crate::model::Inner;
use udo_engine::cores::{Memory, PerMemory};
use udo_engine::device::{
    CoreSet, Device, DeviceId, DeviceTensor, Error, ErrorCode, Result, TensorSpec, check_cores,
};
use udo_engine::run::{RunLog, RunOptions, SharedWorkspace};

/// Where the arenas and scratch of a session's runs are.
///
/// ```
/// use udo_api::CoreKind;
/// use udo_runtime::graph::Graph;
/// use udo_runtime::run::{SessionOptions, Workspace};
/// use udo_runtime::run::SharedWorkspace;
/// use udo_runtime::{LoadOptions, Runtime};
///
/// let runtime = Runtime::new()?;
/// let graph = Graph::parse("graph g\n  input x: f32[64]\n  a = Relu@14(x)\n  y = Neg@13(a)\n  output y\n")?;
/// let model = runtime.load(graph, &LoadOptions::default())?;
/// let shared = SharedWorkspace::default();
/// let options = SessionOptions { workspace: Workspace::Shared(shared.clone()), ..SessionOptions::default() };
/// let (mut one, two) = (model.session_with(&options)?, model.session_with(&options)?);
/// one.run()?;
/// let cpu = runtime.devices().get(CoreKind::Cpu, 0)?;
/// let both = shared.bytes(&cpu);
/// drop(two);
/// assert_eq!(shared.bytes(&cpu), both);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workspace {
    /// The session and each of its frames have their own; runs of several sessions are concurrent.
    #[default]
    Private,
    /// Several sessions share one workspace in turns, which takes only the memory of the largest. A session still has
    /// its own inputs and outputs. A plan whose loops exchange an output with another value has a workspace of its own,
    /// and so does memory on an OpenCL device. A run on its caller's thread waits for its turn, and is refused in
    /// callbacks.
    Shared(SharedWorkspace),
}

impl Workspace {
    pub(super) fn shared(&self) -> Option<SharedWorkspace> {
        match self {
            Self::Private => None,
            Self::Shared(workspace) => Some(workspace.clone()),
        }
    }
}

/// Tensors for the inputs and outputs of a session, in the model's order.
#[derive(Clone, Debug)]
pub struct IoTensors {
    /// The inputs.
    pub inputs: Vec<DeviceTensor>,
    /// The outputs.
    pub outputs: Vec<DeviceTensor>,
}

impl IoTensors {
    /// Makes the input and output of each pair one tensor.
    pub(super) fn join(&mut self, pairs: &[(usize, usize)]) {
        for &(input, output) in pairs {
            if let (Some(from), Some(to)) = (self.inputs.get(input), self.outputs.get_mut(output))
                && from.spec() == to.spec()
            {
                *to = from.clone();
            }
        }
    }

    pub(super) fn is_of(&self, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> bool {
        self.inputs.iter().map(DeviceTensor::spec).eq(inputs)
            && self.outputs.iter().map(DeviceTensor::spec).eq(outputs)
    }
}

/// Options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The number of runs that may be concurrent, each with memory of its own in addition to that of `Session::run`.
    /// The memory is allocated by the first submission or by `Session::reserve`.
    pub frames: NonZero<usize>,
    /// The number of runs that may wait for a frame; further submissions are refused as busy.
    pub depth: usize,
    /// The device whose memory holds allocated outputs; the first CPU by default.
    pub home: Option<Device>,
    /// Where the arenas and scratch of runs are.
    pub workspace: Workspace,
    /// The devices that runs use. For a kind without an entry it is the home if that is of this kind, else the first
    /// device of the kind.
    pub devices: Vec<DeviceId>,
    /// The cores of the session's device for submitted runs that state none; the session's device is that of the
    /// model's preferred core. A run on its caller's thread runs there and occupies no core.
    pub cores: CoreSet,
    /// Where submitted runs are logged, if at all.
    pub log: Option<Arc<RunLog>>,
}

/// The largest number of runs in flight, for which memory is allocated in advance.
const MOST_IN_FLIGHT: usize = 1 << 16;

/// The default number of waiting runs.
const DEPTH: usize = 64;

impl Default for SessionOptions {
    fn default() -> Self {
        let (frames, depth) = (NonZero::<usize>::MIN, DEPTH);
        let workspace = Workspace::Private;
        let (devices, cores) = (Vec::new(), CoreSet::Auto);
        Self { frames, depth, home: None, workspace, devices, cores, log: None }
    }
}

impl SessionOptions {
    /// Returns the options of `count` sessions together.
    ///
    /// # Errors
    /// There would be too many runs in flight.
    pub(crate) fn times(&self, count: NonZero<usize>) -> Result<Self> {
        let frames = self.frames.saturating_mul(count);
        let depth = self.depth.saturating_mul(count.get());
        let all = Self { frames, depth, ..self.clone() };
        all.check_in_flight().map(|()| all)
    }

    pub(super) fn check_in_flight(&self) -> Result<()> {
        let in_flight = self.frames.get().saturating_add(self.depth);
        if in_flight <= MOST_IN_FLIGHT {
            return Ok(());
        }
        let why = format!(
            "a session with {in_flight} runs in flight, including waiting ones; expected at most {MOST_IN_FLIGHT}"
        );
        Err(Error::new(ErrorCode::InvalidArgument, why))
    }
}

/// A session's devices.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    pub(super) home: Device,
    /// The device of each kind.
    chosen: Vec<DeviceId>,
}

impl Devices {
    pub(super) fn choose(model: &Inner, options: &SessionOptions) -> Result<Self> {
        let devices = model.shared.queues.devices();
        options.check_in_flight()?;
        for &DeviceId { kind, index } in &options.devices {
            devices.get(kind, index)?;
        }
        let host = || devices.get(CoreKind::Cpu, 0);
        let home = options.home.clone().map_or_else(host, Ok)?;
        let mut chosen = options.devices.clone();
        // Steps of the home's kind run there unless the options name another device.
        if chosen.iter().all(|id| id.kind != home.kind()) {
            chosen.push(home.id());
        }
        let chosen = Self { home, chosen };
        chosen.check_cores(model, options.cores)?;
        Ok(chosen)
    }

    /// Checks whether runs of the model may use these cores.
    ///
    /// # Errors
    /// The device does not have these cores.
    pub(super) fn check_cores(&self, model: &Inner, cores: CoreSet) -> Result<()> {
        let preferred = self.of(model.first_kind());
        let device = model.shared.queues.devices().get(preferred.kind, preferred.index)?;
        check_cores(cores, &device, model.shared.pool.width())
    }

    /// Fills in what a run leaves to its session.
    ///
    /// # Errors
    /// The run may not use its cores.
    pub(super) fn complete(
        &self,
        model: &Inner,
        session: &SessionOptions,
        run: &mut RunOptions,
    ) -> Result<()> {
        run.priority.get_or_insert(model.shared.options.priority);
        self.check_cores(model, *run.cores.get_or_insert(session.cores))
    }

    /// Returns the sources of the session's memory.
    pub(super) fn room(&self, model: &Inner, options: &SessionOptions) -> Result<MemorySource> {
        let all = model.shared.queues.devices();
        let is_used = |kind: CoreKind| model.kinds().any(|used| used == kind);
        let device = |memory: Memory| {
            let kind = match memory {
                Memory::Host => CoreKind::Cpu,
                Memory::Gpu => CoreKind::Gpu,
                Memory::Dsp if is_used(CoreKind::Hta) && !is_used(CoreKind::Dsp) => CoreKind::Hta,
                Memory::Dsp => CoreKind::Dsp,
            };
            // An unused memory takes no bytes, so any device will do.
            let id = self.of(if is_used(kind) { kind } else { CoreKind::Cpu });
            all.get(id.kind, id.index)
        };
        let devices = PerMemory::from_fn(device).try_map(|device| device)?;
        Ok(MemorySource { devices, workspace: options.workspace.shared() })
    }

    pub(super) fn of(&self, kind: CoreKind) -> DeviceId {
        let chosen = self.chosen.iter().find(|id| id.kind == kind);
        chosen.copied().unwrap_or(DeviceId { kind, index: 0 })
    }
}
