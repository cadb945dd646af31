//! What the user decides about a session: its memory, its devices and their cores, and tensors for its ports.

use std::num::NonZero;
use std::sync::Arc;

use udo_api::CoreKind;

use crate::executor::Room;
use crate::model::Inner;
use udo_engine::cores::{Memory, PerMemory};
use udo_engine::device::{
    CoreSet, Device, DeviceId, DeviceTensor, Error, ErrorCode, Result, TensorSpec, check_cores,
};
use udo_engine::run::{RunLog, RunOptions, SharedWorkspace};

/// Whose arenas and scratch the runs of a session use.
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
    /// The session's own, and each of its frames': runs of several sessions are at work at once.
    #[default]
    Private,
    /// Those of others as well, in turns: as much memory as the largest wants, and not as all together. A session has its inputs
    /// and outputs for itself. A plan whose loops exchange an output with another value has a workspace of its own all
    /// the same, and so has memory on an OpenCL device. A run on its caller's thread waits for its turn there, and is
    /// refused in callbacks.
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
    /// Those of the inputs.
    pub inputs: Vec<DeviceTensor>,
    /// Those of the outputs.
    pub outputs: Vec<DeviceTensor>,
}

impl IoTensors {
    /// Has both of each pair be one tensor.
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

/// How a session runs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How many runs may be at work at once, each in memory of its own beside that of `Session::run`. That memory is taken
    /// with the first submission, or by `Session::reserve`.
    pub frames: NonZero<usize>,
    /// How many runs more may wait for a frame; a submission beyond them is refused as busy.
    pub depth: usize,
    /// In whose memory outputs lie that runs make; the first CPU's where nothing is said.
    pub home: Option<Device>,
    /// Whose arenas and scratch runs use.
    pub workspace: Workspace,
    /// Which devices runs use. Of a kind that is not named here that is the home, if it is of the kind, else the first of the kind.
    pub devices: Vec<DeviceId>,
    /// On which cores of the session's device submitted runs are that do not say: that is the device of the core that the model
    /// prefers. A run on its caller's thread is there, and takes none.
    pub cores: CoreSet,
    /// Where submitted runs are noted, if they are to be.
    pub log: Option<Arc<RunLog>>,
}

/// There is a place for each of them from the start on.
const MOST_IN_FLIGHT: usize = 1 << 16;

/// Runs that may wait where nothing is said.
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
    /// Those of `count` sessions together.
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
            "a session with {in_flight} runs in flight, those that wait included; wanted at most {MOST_IN_FLIGHT}"
        );
        Err(Error::new(ErrorCode::InvalidArgument, why))
    }
}

/// What a session has decided about its devices.
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
        // Steps for the kind of the session's device run there, unless somebody says otherwise.
        if chosen.iter().all(|id| id.kind != home.kind()) {
            chosen.push(home.id());
        }
        let chosen = Self { home, chosen };
        chosen.check_cores(model, options.cores)?;
        Ok(chosen)
    }

    /// Nothing, if runs of the model may be on these cores.
    ///
    /// # Errors
    /// They may not.
    pub(super) fn check_cores(&self, model: &Inner, cores: CoreSet) -> Result<()> {
        let preferred = self.of(model.first_kind());
        let device = model.shared.queues.devices().get(preferred.kind, preferred.index)?;
        check_cores(cores, &device, model.shared.pool.width())
    }

    /// Says for a run what it leaves to its session.
    ///
    /// # Errors
    /// It may not be on its cores.
    pub(super) fn complete(
        &self,
        model: &Inner,
        session: &SessionOptions,
        run: &mut RunOptions,
    ) -> Result<()> {
        run.priority.get_or_insert(model.shared.options.priority);
        self.check_cores(model, *run.cores.get_or_insert(session.cores))
    }

    /// Where the memory of sessions comes from.
    pub(super) fn room(&self, model: &Inner, options: &SessionOptions) -> Result<Room> {
        let all = model.shared.queues.devices();
        let is_used = |kind: CoreKind| model.kinds().any(|used| used == kind);
        let device = |memory: Memory| {
            let kind = match memory {
                Memory::Host => CoreKind::Cpu,
                Memory::Gpu => CoreKind::Gpu,
                Memory::Dsp if is_used(CoreKind::Hta) && !is_used(CoreKind::Dsp) => CoreKind::Hta,
                Memory::Dsp => CoreKind::Dsp,
            };
            // What is not used takes no bytes, wherever that is.
            let id = self.of(if is_used(kind) { kind } else { CoreKind::Cpu });
            all.get(id.kind, id.index)
        };
        let devices = PerMemory::of(device).try_map(|device| device)?;
        Ok(Room { devices, workspace: options.workspace.shared() })
    }

    pub(super) fn of(&self, kind: CoreKind) -> DeviceId {
        let chosen = self.chosen.iter().find(|id| id.kind == kind);
        chosen.copied().unwrap_or(DeviceId { kind, index: 0 })
    }
}
