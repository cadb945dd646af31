//! From a graph to something that runs: resolve, place, plan, for the shapes that are known and for those that are met.

mod behind;
mod code;
mod last;
mod launch;
mod options;
mod plans;
mod pool;
mod ports;
mod session;
mod support;
mod survey;

use std::num::NonZero;
use std::sync::Arc;

use udo_api::{Core, CoreKind, Encoding, FastMath, Shape};

use crate::cache::{Cache, CacheError, CacheReport};
use crate::device::{self, Coherence, Device, Devices};
use crate::graph::{Graph, InPlaceError, NoSuchValue, TensorType};
use crate::hta::{self, HtaError};
use crate::memory::{Budget, Limit, TensorError};
use crate::pass::{Fired, PassError};
use crate::place::{self, AffinityError, Fallback, PlaceError, PlaceOptions};
use crate::plan::{Plan, PlanError, Report};
use crate::registry::Registry;
use crate::resolve::{self, Behind, BindOptions, Input, Ranges, ResolveError};
use crate::run::{Priority, Queues};
use crate::session::{SessionError, StepError};
use crate::thread_pool::{Pool, PoolError};

pub use launch::{IoTensors, SessionOptions, Workspace};
pub use options::{InputSet, Options, Performance, RangesOf};
use plans::{Facts, Planned, Planner, Plans, plan};
pub use pool::SessionPool;
use ports::Said;
pub use session::Session;
pub use support::{OpSupport, support};
pub use survey::{Surveyed, survey};

/// Why a graph cannot be made to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A node has no operator, or does not fit it.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass broke the graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// Nodes cannot be pinned to cores.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// The HTA has no programs for the model, or none that are right.
    #[error(transparent)]
    Hta(Box<HtaError>),
    /// A node has no core.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// An input and an output cannot be in one place.
    #[error(transparent)]
    InPlace(#[from] InPlaceError),
    /// A value that is asked for is not there.
    #[error(transparent)]
    Output(#[from] NoSuchValue),
    /// The placed graph cannot be laid out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are not as many threads as were asked for.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// The machine does not compute as inexactly as was asked for.
    #[error(
        "products of bf16 want a processor with AVX512-BF16, and an instruction set in use that has it: found {found}"
    )]
    FastMath {
        /// The instruction set in use.
        found: String,
    },
    /// There would be no memory for a session.
    #[error(transparent)]
    Memory(#[from] SessionError),
    /// What its file was prepared with is damaged.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// There is no memory for the elements that what is behind a plan wants to know.
    #[error(transparent)]
    Elements(#[from] TensorError),
}

impl From<HtaError> for CompileError {
    fn from(error: HtaError) -> Self {
        Self::Hta(Box::new(error))
    }
}

/// Why a run failed. The session can run again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no plan for the shapes of the inputs.
    #[error(transparent)]
    Prepare(#[from] CompileError),
    /// A kernel failed.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl RunError {
    /// The step that failed, if it came so far.
    pub fn step(&self) -> Option<&StepError> {
        match self {
            Self::Step(error) => Some(error),
            Self::Prepare(_) => None,
        }
    }
}

/// A graph ready to run; sessions share it, and so do clones.
///
/// One that leaves extents of its inputs open has a plan for each of the shapes that sessions met last.
#[derive(Clone, Debug)]
pub struct Model(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// With extents as far as they are known.
    inputs: Vec<Input>,
    /// The ranges of those that vary from run to run of one plan.
    ranges: BindOptions,
    outputs: Vec<String>,
    /// Inputs and outputs, by their places, that a run may have in one place.
    in_place: Vec<(usize, usize)>,
    /// What the graph says of inputs, and of outputs.
    said: [Vec<Said>; 2],
    plans: Plans,
    shapes_kept: NonZero<usize>,
    priority: Priority,
    /// What there is to say but what the plan says, or with that.
    report: Option<Report>,
    cache: Option<Arc<Cache>>,
    fired: Vec<Fired>,
    pool: Arc<Pool>,
    budget: Budget,
    /// The kinds of devices that runs use.
    kinds: Vec<CoreKind>,
    /// The cores that were asked for, and what becomes of what none of them takes.
    cores: Vec<Core>,
    fallback: Fallback,
    /// The kind whose cores come first.
    preferred: CoreKind,
    /// What submitted runs go through.
    queues: Arc<Queues>,
}

impl Model {
    /// Binds, places and plans `graph`. What it leaves open of its inputs' extents, sessions plan for.
    ///
    /// # Errors
    /// The first step that fails says why.
    pub fn compile(
        graph: Graph,
        registry: &mut Registry,
        options: &Options,
    ) -> Result<Self, CompileError> {
        Self::compile_for(graph, registry, options, &Queues::new(Devices::default()))
    }

    /// As [`Model::compile`], for runs on these devices.
    ///
    /// # Errors
    /// As there.
    pub fn compile_for(
        mut graph: Graph,
        registry: &mut Registry,
        options: &Options,
        queues: &Arc<Queues>,
    ) -> Result<Self, CompileError> {
        let own_outputs = graph.outputs.len();
        graph.add_outputs(&options.more_outputs)?;
        graph.add_in_place(&options.in_place);
        let in_place = graph.pairs()?;
        check_fast_math(options.place.profile.fast_math)?;
        let mut options = options.clone();
        options.place.affinity = place::pin(&mut graph, &options.place.affinity)?;
        let programs = install_programs(&mut graph, registry, &options, own_outputs)?;
        let notices = programs.notices;
        options.place.hta_left_out = programs.left_out;
        let options = &with_coherence(options, queues.devices());
        let pool = Arc::new(Pool::spinning(options.threads, options.spin)?);
        let budget = Budget::new(options.max_memory.map_or_else(Limit::of_machine, Limit::Asked));
        registry.charge(budget.clone());
        let inputs = resolve::bind(&Input::all(&graph), &options.bind)?;
        let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs = values.map(|value| value.name.clone()).collect();
        let said = [ports::inputs(&graph), ports::outputs(&graph)];
        let mut ranges = options.bind.ranges.clone();
        ranges.retain(|name, _| !options.bind.dims.contains_key(name));
        let ranges = BindOptions { ranges, ..BindOptions::default() };
        let is_open = |input: &&Input| input.planned(input, &ranges).is_err();
        let open: Vec<String> = inputs.iter().filter(is_open).map(described).collect();
        let (plans, mut report, fired) = if open.is_empty() {
            let mut made = plan(Behind::nothing(graph), registry, options, (&pool, &budget))?;
            let fired = std::mem::take(&mut made.fired);
            (Plans::One(made.shared(registry, (options, &pool, &budget))?), None, fired)
        } else {
            registry.find_operators(&graph, &options.bind)?;
            let notice = format!("each new shape of {} is planned when it is met", open.join(", "));
            let report = Some(Report { notices: vec![notice], ..Report::default() });
            let of = (options.clone(), Arc::clone(&pool), budget.clone());
            let planner = Planner::new(graph, inputs.clone(), registry, of);
            (Plans::PerShapes(Box::new(planner)), report, Vec::new())
        };
        if let Some(cache) = registry.cache() {
            cache.check()?;
            let notices: Vec<String> = cache.report().notices().collect();
            if !notices.is_empty() {
                let of_plan = || plans.one().map(|plan| plan.report().clone());
                report = report.or_else(of_plan);
                report.get_or_insert_default().notices.extend(notices);
            }
        }
        let (shapes_kept, priority) = (options.shapes_kept, options.priority);
        let (kinds, queues) = (kinds(&options.place), Arc::clone(queues));
        let preferred = options.place.cores.iter().copied().find_map(Core::kind);
        let mut model = Self(Arc::new(Inner {
            inputs,
            ranges,
            outputs,
            in_place,
            said,
            plans,
            shapes_kept,
            priority,
            report,
            cache: registry.cache().cloned(),
            fired,
            pool,
            budget,
            kinds,
            cores: options.place.cores.clone(),
            fallback: options.place.fallback,
            preferred: preferred.unwrap_or(CoreKind::Cpu),
            queues,
        }));
        for notice in notices.into_iter().rev() {
            model.note(notice);
        }
        Ok(model)
    }

    /// Has the report say this as well of a model that nobody shares yet.
    pub(crate) fn note(&mut self, notice: String) {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            let of_plan = || inner.plans.one().map(|plan| plan.report().clone());
            let mut report = inner.report.take().or_else(of_plan).unwrap_or_default();
            report.notices.insert(0, notice);
            inner.report = Some(report);
        }
    }

    /// Memory for one stream of runs.
    ///
    /// # Errors
    /// [`Options::max_memory`], the machine or the system has no such memory.
    pub fn session(&self) -> Result<Session, CompileError> {
        self.session_with(&SessionOptions::default())
    }

    /// As [`Model::session`], with options.
    ///
    /// # Errors
    /// As there, or there is no such device.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session, CompileError> {
        Session::new(Arc::clone(&self.0), options)
    }

    /// The inputs, with extents as far as they are known.
    pub fn inputs(&self) -> &[Input] {
        &self.0.inputs
    }

    /// The shape for which an input is planned, extents of a range at their most; nothing where only a run says it.
    pub fn planned_shape(&self, input: &Input) -> Option<Shape> {
        input.planned(input, &self.0.ranges).ok()
    }

    /// The ranges of named dimensions that one plan runs.
    pub fn ranges(&self) -> &Ranges {
        &self.0.ranges.ranges
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> &[String] {
        &self.0.outputs
    }

    /// The names of inputs and outputs that a run may have in one place.
    pub fn in_place(&self) -> impl Iterator<Item = (&str, &str)> {
        let Inner { inputs, outputs, in_place, .. } = &*self.0;
        let name = |&(input, output): &(usize, usize)| {
            Some((inputs.get(input)?.name.as_str(), outputs.get(output)?.as_str()))
        };
        in_place.iter().filter_map(name)
    }

    /// What the model declares an output to be, where it does; a plan knows better.
    pub fn declared_output(&self, index: usize) -> Option<&TensorType> {
        let [_, outputs] = &self.0.said;
        outputs.get(index)?.of.as_ref()
    }

    /// What the integers of an input stand for, where a node makes numbers of them with one scale and zero point.
    pub fn input_encoding(&self, index: usize) -> Option<Encoding> {
        let [inputs, _] = &self.0.said;
        inputs.get(index)?.encoding
    }

    /// What the integers of an output stand for, where a node makes them of numbers with one scale and zero point.
    pub fn output_encoding(&self, index: usize) -> Option<Encoding> {
        let [_, outputs] = &self.0.said;
        outputs.get(index)?.encoding
    }

    /// The plan, where there is one for good, of all that can be planned before a run; [`Session::plans`] has those
    /// for the shapes and elements at hand.
    pub fn plan(&self) -> Option<&Plan> {
        self.0.plans.one()
    }

    /// How many threads its kernels may use.
    pub fn threads(&self) -> usize {
        self.0.pool.width()
    }

    /// What matters most among its submitted runs that do not say.
    pub fn priority(&self) -> Priority {
        self.0.priority
    }

    /// The cores that were asked for, the preferred one first.
    pub fn cores(&self) -> &[Core] {
        &self.0.cores
    }

    /// What becomes of nodes that none of [`Model::cores`] takes.
    pub fn fallback(&self) -> Fallback {
        self.0.fallback
    }

    /// What each pass did, in the order in which they ran; nothing where extents are open.
    pub fn passes(&self) -> &[Fired] {
        &self.0.fired
    }

    /// What runs where and why, and how much memory it takes. Where extents are open, or elements are wanted that only a
    /// run says, it says which, and plans have reports of their own.
    pub fn report(&self) -> &Report {
        static NOTHING: Report = Report::new();
        let of_plan = || self.plan().map(Plan::report);
        self.0.report.as_ref().or_else(of_plan).unwrap_or(&NOTHING)
    }

    /// The bytes of a model file with the graph and all that is packed for it by now, for
    /// [`Runtime::load_bytes`](crate::runtime::Runtime::load_bytes) of another process.
    ///
    /// # Errors
    /// The model was not loaded or compiled as one that can be exported, or is too large for such a file.
    pub fn export(&self) -> Result<Vec<u8>, CacheError> {
        self.0.cache.as_ref().ok_or(CacheError::NotExportable)?.export()
    }

    /// The limit of what it and its sessions may take, once somebody was refused memory for that.
    pub fn refused_by(&self) -> Option<Limit> {
        let budget = &self.0.budget;
        budget.has_refused().then(|| budget.limit())
    }

    /// What the cache of its runtime's file did so far, if it has one.
    pub fn cache(&self) -> Option<CacheReport> {
        self.0.cache.as_ref().map(|cache| cache.report())
    }
}

/// Puts the HTA's programs into a graph, if they are asked for.
fn install_programs(
    graph: &mut Graph,
    registry: &Registry,
    options: &Options,
    own_outputs: usize,
) -> Result<hta::Installed, HtaError> {
    let PlaceOptions { soc, aip, cores, affinity, .. } = &options.place;
    let pinned = place::pinned(affinity);
    let asked = hta::Asked { soc, may_fall_back: *aip, cores, pinned: &pinned, own_outputs };
    hta::install(graph, &asked, (registry, &options.bind))
}

/// The options, for memory as the devices have it that the model's cores are of; where several have it otherwise, the one that
/// is not coherent counts.
fn with_coherence(mut options: Options, devices: &Devices) -> Options {
    let kinds = kinds(&options.place);
    let used = devices.iter().filter(|device| kinds.contains(&device.kind()));
    let mut found = used.map(Device::coherence).filter(|found| *found != Coherence::Coherent);
    if options.plan.coherence == Coherence::Coherent {
        options.plan.coherence = found.next().unwrap_or_default();
    }
    options
}

/// Refuses what would be computed exactly all the same.
fn check_fast_math(asked: FastMath) -> Result<(), CompileError> {
    match asked {
        FastMath::Bf16 if !udo_simd::gemm_bf16::is_available() => {
            Err(CompileError::FastMath { found: format!("{:?}", udo_simd::isa()) })
        }
        FastMath::None | FastMath::Bf16 => Ok(()),
    }
}

/// The kinds of the devices that a model may run on: those of its cores, of the one that it falls back to, and the host's.
fn kinds(options: &PlaceOptions) -> Vec<CoreKind> {
    let fallback = match options.fallback {
        Fallback::Off => None,
        Fallback::To(core) => Some(core),
    };
    let cores = options.cores.iter().copied().chain(place::pinned(&options.affinity));
    let cores = cores.chain(fallback);
    let mut kinds: Vec<_> = cores.filter_map(Core::kind).collect();
    kinds.push(CoreKind::Cpu);
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn described(input: &Input) -> String {
    format!("input {:?}, {}", input.name, input.of)
}

impl Inner {
    fn plan_for(&self, facts: &Facts) -> Result<Planned, CompileError> {
        match &self.plans {
            Plans::One(planned) => Ok(planned.clone()),
            Plans::PerShapes(planner) => planner.plan_for(facts),
        }
    }

    /// Lets a plan go that sessions may make again; whether there was one.
    fn forget(&self) -> bool {
        match &self.plans {
            Plans::One(_) => false,
            Plans::PerShapes(planner) => planner.forget(),
        }
    }

    /// Whether the plan of a run depends on what it runs over.
    fn has_several_plans(&self) -> bool {
        match &self.plans {
            Plans::One(planned) => planned.behind.is_some(),
            Plans::PerShapes(_) => true,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = CoreKind> {
        self.kinds.iter().copied()
    }

    fn shapes_kept(&self) -> usize {
        self.shapes_kept.get()
    }
}
