//! A stage of a model: a graph that is resolved, placed and planned for known shapes, and later for new ones.

use std::sync::Arc;

use udo_api::{Core, CoreKind, FastMath, Shape};
use udo_compile::compiler::Resources;
use udo_compile::hta;
use udo_compile::options::{CompileOptions, memory_budget};
use udo_compile::pass::PassResult;
use udo_compile::place::{self, Fallback, PlaceOptions};
use udo_compile::plan::{Plan, Report};
use udo_compile::resolve::{self, BindOptions, Input, InputShapes, Part};
use udo_engine::device::{Coherence, Device, Devices};
use udo_engine::run::Queues;
use udo_engine::thread_pool::Pool;
use udo_graph::graph::{Graph, InPlace};
use udo_graph::memory::Budget;

use super::plans::{Facts, Kit, Planned, Planner, Plans};
use super::ports::{self, Declared};
use crate::pipeline::{self, CompileError, Compiled};

/// The resources that all stages of a model share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// The options as requested.
    pub(crate) options: CompileOptions,
    pub(crate) pool: Arc<Pool>,
    /// The budget of everything that is made for the model.
    pub(crate) budget: Budget,
    /// The queues of submitted runs.
    pub(crate) queues: Arc<Queues>,
}

impl Shared {
    pub(crate) fn new(
        options: &CompileOptions,
        queues: &Arc<Queues>,
    ) -> Result<Self, CompileError> {
        check_fast_math(options.place.profile.fast_math)?;
        let pool = Arc::new(Pool::spinning(options.threads, options.spin)?);
        let (options, budget, queues) =
            (options.clone(), memory_budget(options), Arc::clone(queues));
        Ok(Self { options, pool, budget, queues })
    }
}

/// A compiled graph.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The inputs, with the extents that are known.
    pub(crate) inputs: Vec<Input>,
    /// The ranges of extents that vary from run to run of one plan.
    pub(crate) ranges: BindOptions,
    pub(crate) outputs: Vec<String>,
    /// Pairs of an input and an output, by index, that a run may bind to the same memory.
    pub(crate) in_place: Vec<(usize, usize)>,
    /// The declarations of inputs and of outputs.
    pub(super) said: [Vec<Declared>; 2],
    pub(crate) plans: Plans,
    /// A report that replaces the plan's, if there is more to say.
    report: Option<Report>,
    pub(super) fired: Vec<PassResult>,
    /// The resources of this compilation and of later plans.
    pub(super) kit: Kit,
}

impl Stage {
    /// Compiles a graph whose nodes are already pinned. Sessions make plans for extents that it leaves open.
    ///
    /// # Errors
    /// A step of the compilation failed.
    pub(crate) fn compile(
        mut graph: Graph,
        resources: Resources,
        options: &CompileOptions,
        shared: &Shared,
    ) -> Result<Self, CompileError> {
        let own_outputs = graph.outputs.len();
        graph.add_outputs(&options.more_outputs)?;
        graph.add_in_place(&options.in_place);
        let in_place = graph.pairs()?;
        let mut options = options.clone();
        let programs = hta::install(&resources.compiler(&options), &mut graph, own_outputs)?;
        options.place.hta_left_out = programs.left_out;
        let options = with_coherence(options, shared.queues.devices());
        let inputs = resolve::bind(&Input::all(&graph), &options.bind)?;
        let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs = values.map(|value| value.name.clone()).collect();
        let said = [ports::inputs(&graph), ports::outputs(&graph)];
        let mut ranges = options.bind.ranges.clone();
        ranges.retain(|name, _| !options.bind.dims.contains_key(name));
        let ranges = BindOptions { ranges, ..BindOptions::default() };
        let kit = Kit { resources, options, pool: Arc::clone(&shared.pool) };
        let CompiledGraph { plans, report, fired } =
            CompiledGraph::new(graph, &inputs, &ranges, &kit)?;
        let mut stage = Self { inputs, ranges, outputs, in_place, said, plans, report, fired, kit };
        if let Some(cache) = stage.kit.resources.constants.cache() {
            cache.check()?;
            let notices: Vec<String> = cache.report().notices().collect();
            if !notices.is_empty() {
                stage.own_report().notices.extend(notices);
            }
        }
        for notice in programs.notices.into_iter().rev() {
            stage.note(notice);
        }
        Ok(stage)
    }

    /// Adds a notice at the start of the report.
    pub(crate) fn note(&mut self, notice: String) {
        self.own_report().notices.insert(0, notice);
    }

    /// Returns a report that can be changed, separate from the plan's.
    fn own_report(&mut self) -> &mut Report {
        let of_plan = || self.plans.one().map(|plan| plan.report().clone());
        if self.report.is_none() {
            self.report = of_plan();
        }
        self.report.get_or_insert_default()
    }

    /// Returns the report.
    pub(super) fn report(&self) -> Option<&Report> {
        self.report.as_ref().or_else(|| self.plans.one().map(Plan::report))
    }

    /// Returns the shapes that the stage is planned for, if all are known.
    pub(crate) fn known_shapes(&self) -> Option<Vec<Shape>> {
        self.inputs.iter().map(|input| input.planned(input, &self.ranges).ok()).collect()
    }

    pub(crate) fn plan_for(&self, facts: &Facts) -> Result<Planned, CompileError> {
        match &self.plans {
            Plans::One(planned) => Ok(planned.clone()),
            Plans::PerShapes(planner) => planner.plan_for(facts),
        }
    }

    /// Drops a plan that can be made again; returns whether there was one.
    pub(crate) fn forget(&self) -> bool {
        match &self.plans {
            Plans::One(_) => false,
            Plans::PerShapes(planner) => planner.forget(),
        }
    }

    /// Returns whether the plan depends on the inputs of a run.
    pub(crate) fn has_several_plans(&self) -> bool {
        match &self.plans {
            Plans::One(planned) => planned.rest.is_some(),
            Plans::PerShapes(_) => true,
        }
    }

    /// Returns the kinds of the devices that its runs may use.
    pub(super) fn kinds(&self) -> Vec<CoreKind> {
        kinds(&self.kit.options.place)
    }
}

/// Sets the coherence of memory from the devices of the model's cores. If they differ, non-coherent memory counts.
fn with_coherence(mut options: CompileOptions, devices: &Devices) -> CompileOptions {
    let kinds = kinds(&options.place);
    let used = devices.iter().filter(|device| kinds.contains(&device.kind()));
    let mut found = used.map(Device::coherence).filter(|found| *found != Coherence::Coherent);
    if options.plan.coherence == Coherence::Coherent {
        options.plan.coherence = found.next().unwrap_or_default();
    }
    options
}

/// Refuses fast math that this machine does not support.
fn check_fast_math(asked: FastMath) -> Result<(), CompileError> {
    match asked {
        FastMath::Bf16 if !udo_simd::gemm_bf16::is_available() => {
            Err(CompileError::FastMath { found: format!("{:?}", udo_simd::isa()) })
        }
        FastMath::None | FastMath::Bf16 => Ok(()),
    }
}

/// Returns the kinds of the devices that a model may run on: those of its cores and its fallback, and the host's.
pub(crate) fn kinds(options: &PlaceOptions) -> Vec<CoreKind> {
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

/// A compiled graph, without what the stage adds.
struct CompiledGraph {
    plans: Plans,
    /// A report for a graph whose plans are made later.
    report: Option<Report>,
    fired: Vec<PassResult>,
}

impl CompiledGraph {
    fn new(
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
        let notice = format!("each new shape of {} is planned at its first run", open.join(", "));
        let report = Some(Report { notices: vec![notice], ..Report::default() });
        let plans = Plans::PerShapes(Box::new(Planner::new(graph, inputs.to_vec(), kit)));
        Ok(Self { plans, report, fired: Vec::new() })
    }
}

fn described(input: &Input) -> String {
    format!("input {:?}, {}", input.name, input.of)
}
