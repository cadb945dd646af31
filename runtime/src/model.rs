//! From a graph to something that runs: resolve, place, plan, for the shapes that are known and for those that are met.

mod behind;
mod code;
mod last;
mod launch;
mod plans;
mod pool;
mod ports;
mod session;
mod session_options;
mod support;
mod survey;

use std::sync::Arc;

use udo_api::{Core, CoreKind, Encoding, FastMath, Shape};
use udo_compile::compiler::Resources;
use udo_compile::hta;
use udo_compile::pass::Fired;
use udo_compile::place::{self, Fallback, PlaceOptions};
use udo_compile::plan::{Plan, Report};
use udo_compile::resolve::{self, BindOptions, Input, Part, Ranges};
use udo_engine::cache::{CacheError, CacheReport};
use udo_engine::device::{Coherence, Device, Devices};
use udo_engine::run::{Priority, Queues};
use udo_engine::thread_pool::Pool;
use udo_graph::graph::{Graph, TensorType};
use udo_graph::memory::Limit;

use crate::pipeline::{self, Compiled};
use crate::session::StepError;

pub use crate::pipeline::CompileError;
use plans::{Facts, Kit, Planned, Planner, Plans};
pub use pool::SessionPool;
use ports::Said;
pub use session::Session;
pub use session_options::{IoTensors, SessionOptions, Workspace};
pub use support::{OpSupport, support};
pub use survey::{Surveyed, survey};
pub use udo_compile::options::CompileOptions as Options;
pub use udo_compile::options::{CompileOptions, InputSet, Performance, RangesOf};

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
    /// What there is to say but what the plan says, or with that.
    report: Option<Report>,
    fired: Vec<Fired>,
    /// The kinds of devices that runs use.
    kinds: Vec<CoreKind>,
    /// What it was compiled with, and later plans are.
    kit: Kit,
    /// What submitted runs go through.
    queues: Arc<Queues>,
}

impl Model {
    /// Compiles a graph whose nodes are pinned as they shall be. What it leaves open of its inputs' extents, sessions plan for.
    ///
    /// # Errors
    /// The first step that fails says why.
    pub(crate) fn compile(
        mut graph: Graph,
        resources: Resources,
        options: &CompileOptions,
        queues: &Arc<Queues>,
    ) -> Result<Self, CompileError> {
        let own_outputs = graph.outputs.len();
        graph.add_outputs(&options.more_outputs)?;
        graph.add_in_place(&options.in_place);
        let in_place = graph.pairs()?;
        check_fast_math(options.place.profile.fast_math)?;
        let mut options = options.clone();
        let programs = hta::install(&resources.compiler(&options), &mut graph, own_outputs)?;
        options.place.hta_left_out = programs.left_out;
        let options = with_coherence(options, queues.devices());
        let pool = Arc::new(Pool::spinning(options.threads, options.spin)?);
        let inputs = resolve::bind(&Input::all(&graph), &options.bind)?;
        let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs = values.map(|value| value.name.clone()).collect();
        let said = [ports::inputs(&graph), ports::outputs(&graph)];
        let mut ranges = options.bind.ranges.clone();
        ranges.retain(|name, _| !options.bind.dims.contains_key(name));
        let ranges = BindOptions { ranges, ..BindOptions::default() };
        let kit = Kit { resources, options, pool };
        let Made { plans, mut report, fired } = Made::of(graph, &inputs, &ranges, &kit)?;
        if let Some(cache) = kit.resources.constants.cache() {
            cache.check()?;
            let notices: Vec<String> = cache.report().notices().collect();
            if !notices.is_empty() {
                let of_plan = || plans.one().map(|plan| plan.report().clone());
                report = report.or_else(of_plan);
                report.get_or_insert_default().notices.extend(notices);
            }
        }
        let mut model = Self(Arc::new(Inner {
            inputs,
            ranges,
            outputs,
            in_place,
            said,
            plans,
            report,
            fired,
            kinds: kinds(&kit.options.place),
            kit,
            queues: Arc::clone(queues),
        }));
        for notice in programs.notices.into_iter().rev() {
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
        self.0.kit.pool.width()
    }

    /// What matters most among its submitted runs that do not say.
    pub fn priority(&self) -> Priority {
        self.0.kit.options.priority
    }

    /// The cores that were asked for, the preferred one first.
    pub fn cores(&self) -> &[Core] {
        &self.0.kit.options.place.cores
    }

    /// What becomes of nodes that none of [`Model::cores`] takes.
    pub fn fallback(&self) -> Fallback {
        self.0.kit.options.place.fallback
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

    /// The bytes of a model file with the graph and its prepacked weights, for `Runtime::load` of another process.
    ///
    /// # Errors
    /// The model was not loaded or compiled as one that can be exported, or is too large for such a file.
    pub fn export(&self) -> Result<Vec<u8>, CacheError> {
        self.0.kit.resources.constants.cache().ok_or(CacheError::NotExportable)?.export()
    }

    /// The bytes that it and its sessions take now, its file not counted.
    pub fn taken_bytes(&self) -> usize {
        self.0.kit.budget().taken()
    }

    /// The limit of what it and its sessions may take, once somebody was refused memory for that.
    pub fn refused_by(&self) -> Option<Limit> {
        let budget = self.0.kit.budget();
        budget.has_refused().then(|| budget.limit())
    }

    /// What the cache of its runtime's file did so far, if it has one.
    pub fn cache(&self) -> Option<CacheReport> {
        self.0.kit.resources.constants.cache().map(|cache| cache.report())
    }
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

/// What a graph is compiled to.
struct Made {
    plans: Plans,
    /// Where plans are made later, why.
    report: Option<Report>,
    fired: Vec<Fired>,
}

impl Made {
    fn of(
        graph: Graph,
        inputs: &[Input],
        ranges: &BindOptions,
        kit: &Kit,
    ) -> Result<Self, CompileError> {
        let is_open = |input: &&Input| input.planned(input, ranges).is_err();
        let open: Vec<String> = inputs.iter().filter(is_open).map(described).collect();
        if open.is_empty() {
            let compiled = pipeline::compile(&kit.compiler(), Part::whole(graph), &kit.pool)?;
            let Compiled { plan, fired, rest } = compiled;
            let rest = rest.map(|part| Planner::of_rest(part, kit)).transpose()?;
            let planned = Planned { plan: Arc::new(plan), rest: rest.map(Arc::new) };
            return Ok(Self { plans: Plans::One(planned), report: None, fired });
        }
        resolve::find_operators(&kit.resources.operators, &graph, &kit.options.bind)?;
        let notice = format!("each new shape of {} is planned when it is met", open.join(", "));
        let report = Some(Report { notices: vec![notice], ..Report::default() });
        let plans = Plans::PerShapes(Box::new(Planner::new(graph, inputs.to_vec(), kit)));
        Ok(Self { plans, report, fired: Vec::new() })
    }
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
            Plans::One(planned) => planned.rest.is_some(),
            Plans::PerShapes(_) => true,
        }
    }

    /// The kind of the device whose queue runs wait in.
    fn first_kind(&self) -> CoreKind {
        self.kit.options.place.first().kind().unwrap_or(CoreKind::Cpu)
    }

    fn kinds(&self) -> impl Iterator<Item = CoreKind> {
        self.kinds.iter().copied()
    }

    fn shapes_kept(&self) -> usize {
        self.kit.options.shapes_kept.get()
    }
}
