//! From a graph to something that runs: resolve, place, plan, for the shapes that are known and for those that are met.

mod plans;
mod ports;
mod stage;
mod stages;
mod support;
mod survey;

use std::sync::Arc;

use udo_api::{CoreKind, Encoding};
use udo_compile::pass::PassResult;
use udo_compile::plan::{Plan, Report};
use udo_compile::resolve::{Input, Ranges};
use udo_engine::cache::{Cache, CacheError, CacheReport};
use udo_graph::graph::TensorType;
use udo_graph::memory::Budget;

pub(crate) use plans::{Facts, Planned, Planner, Plans};
pub(crate) use stage::{Shared, Stage, kinds};
pub(crate) use stages::Stages;
pub use support::support;
pub use survey::{Surveyed, survey};
use udo_compile::options::{CompileOptions, first_core};

/// A model ready to run; sessions share it, and so do clones.
///
/// One that leaves extents of its inputs open has a plan for each of the shapes that sessions met last. A network of a model file
/// may have several stages, each of which is a graph for some shapes: runs take the one for the shapes of their inputs, and it is compiled
/// when the first of them does. What is said of the model as a whole is then what all stages have in common.
#[derive(Clone, Debug)]
pub struct Model(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    /// With extents as far as they are known, and the same in all stages.
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<String>,
    pub(crate) stages: Stages,
    pub(crate) shared: Shared,
    /// The kinds of devices that runs use.
    kinds: Vec<CoreKind>,
    /// The report of a model whose stages have reports of their own.
    report: Report,
}

impl Model {
    /// The model of one graph.
    pub(crate) fn of_stage(stage: Arc<Stage>, shared: Shared) -> Self {
        let (inputs, outputs) = (stage.inputs.clone(), stage.outputs.clone());
        let (kinds, report) = (stage.kinds(), Report::default());
        let stages = Stages::only(stage);
        Self(Arc::new(Inner { inputs, outputs, stages, shared, kinds, report }))
    }

    /// The model of several graphs, with inputs as they all have them, whose runs use devices of these kinds.
    pub(crate) fn of_stages(
        stages: Stages,
        (inputs, outputs): (Vec<Input>, Vec<String>),
        kinds: Vec<CoreKind>,
        shared: Shared,
    ) -> Self {
        let notice = format!(
            "{} stages, each of which is compiled when a run first has inputs of its shapes",
            stages.count()
        );
        let report = Report { notices: vec![notice], ..Report::default() };
        Self(Arc::new(Inner { inputs, outputs, stages, shared, kinds, report }))
    }

    /// The compiled graph, if there is only one.
    fn sole(&self) -> Option<&Stage> {
        self.0.stages.sole().map(Arc::as_ref)
    }

    /// How many stages it has: graphs for other shapes each.
    pub fn stage_count(&self) -> usize {
        self.0.stages.count()
    }

    /// The inputs, with extents as far as they are known.
    pub fn inputs(&self) -> &[Input] {
        &self.0.inputs
    }

    /// The ranges of named dimensions that one plan runs.
    pub fn ranges(&self) -> &Ranges {
        static NONE: Ranges = Ranges::new();
        self.sole().map_or(&NONE, |stage| &stage.ranges.ranges)
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> &[String] {
        &self.0.outputs
    }

    /// The names of inputs and outputs that a run may have in one place.
    pub fn in_place(&self) -> impl Iterator<Item = (&str, &str)> {
        let Inner { inputs, outputs, .. } = &*self.0;
        let in_place = self.sole().map_or(&[][..], |stage| &stage.in_place);
        let name = |&(input, output): &(usize, usize)| {
            Some((inputs.get(input)?.name.as_str(), outputs.get(output)?.as_str()))
        };
        in_place.iter().filter_map(name)
    }

    /// The declared type of an output, if the model has one; a plan has the exact type.
    pub fn declared_output(&self, index: usize) -> Option<&TensorType> {
        let [_, outputs] = &self.sole()?.said;
        outputs.get(index)?.of.as_ref()
    }

    /// The encoding of an integer input that a node dequantizes with one scale and zero point.
    pub fn input_encoding(&self, index: usize) -> Option<Encoding> {
        let [inputs, _] = &self.sole()?.said;
        inputs.get(index)?.encoding
    }

    /// The encoding of an integer output that a node quantizes with one scale and zero point.
    pub fn output_encoding(&self, index: usize) -> Option<Encoding> {
        let [_, outputs] = &self.sole()?.said;
        outputs.get(index)?.encoding
    }

    /// The plan, where there is one for good, of all that can be planned before a run;
    /// [`Session::plans`](crate::Session::plans) has those for the shapes and elements at hand.
    pub fn plan(&self) -> Option<&Plan> {
        self.sole()?.plans.one()
    }

    /// The options that it was compiled with.
    pub fn options(&self) -> &CompileOptions {
        &self.0.shared.options
    }

    /// Returns the result of each pass, in execution order; empty while extents are open.
    pub fn passes(&self) -> &[PassResult] {
        self.sole().map_or(&[], |stage| &stage.fired)
    }

    /// Reports where each node runs and why, and how much memory the plan takes. If extents are open, or shapes depend
    /// on computed values, the report names them, and each plan has its own report.
    pub fn report(&self) -> &Report {
        self.sole().and_then(Stage::report).unwrap_or(&self.0.report)
    }

    /// The bytes of a model file with the graph and its prepacked weights, for `Runtime::load` of another process.
    ///
    /// # Errors
    /// The model was not loaded or compiled as one that can be exported, or is too large for such a file.
    pub fn export(&self) -> Result<Vec<u8>, CacheError> {
        self.constants_cache().ok_or(CacheError::NotExportable)?.export()
    }

    /// The memory that it and its sessions take, and the limit of that. Its file does not count.
    pub fn budget(&self) -> &Budget {
        &self.0.shared.budget
    }

    /// Returns the state of the cache of the runtime's file, if it has a cache.
    pub fn cache(&self) -> Option<CacheReport> {
        self.constants_cache().map(|cache| cache.report())
    }

    fn constants_cache(&self) -> Option<&Arc<Cache>> {
        self.sole()?.kit.resources.constants.cache()
    }
}

impl Inner {
    /// The kind of the device whose queue runs wait in.
    pub(crate) fn first_kind(&self) -> CoreKind {
        first_core(&self.shared.options.place).kind().unwrap_or(CoreKind::Cpu)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = CoreKind> {
        self.kinds.iter().copied()
    }

    /// For how many shapes of its inputs a session has memory at once.
    pub(crate) fn max_plans(&self) -> usize {
        self.shared.options.max_plans.get().max(self.stages.count())
    }

    /// Whether the plan of a run depends on what it runs over.
    pub(crate) fn has_several_plans(&self) -> bool {
        self.stages.sole().is_none_or(|stage| stage.has_several_plans())
    }

    /// Lets a plan go that sessions may make again; whether there was one.
    pub(crate) fn forget(&self) -> bool {
        self.stages.compiled().any(|stage| stage.forget())
    }
}
