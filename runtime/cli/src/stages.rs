//! The stages of a model that runs meet, each compiled when a run first wants it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use udo_runtime::cache::{CacheOutcome, CacheReport};
use udo_runtime::compile::Input;
use udo_runtime::run::SessionOptions;
use udo_runtime::{LoadError, Model, Network, Report, Runtime, Session};

use crate::failures::load_failure;
use crate::loaded::Loaded;
use crate::model_flags::ModelFlags;
use crate::output::Failure;
use crate::required;
use crate::tensors::{self, Recorded, planned_shape};
use udo_compile::resolve::InputShapes;

/// The shapes of a run's inputs, by name.
pub(crate) type Shapes = Vec<(String, Vec<usize>)>;

/// The stages of a model; one of another format than a model file is one stage.
pub(crate) struct Stages<'a> {
    flags: &'a ModelFlags,
    runtime: Runtime,
    network: Network,
    is_model_file: bool,
    started: Instant,
    /// How long it took to open the packages and the file.
    open_time: Duration,
    ready: Vec<Ready>,
    options: SessionOptions,
}

/// A stage that is compiled, and memory for its runs.
pub(crate) struct Ready {
    stage: usize,
    pub(crate) loaded: Loaded,
    pub(crate) session: Session,
    /// How long it took to compile it, and to take that memory.
    times: [Duration; 2],
}

impl<'a> Stages<'a> {
    pub(crate) fn new(flags: &'a ModelFlags) -> Result<Self, Failure> {
        let started = Instant::now();
        let runtime = flags.runtime()?;
        let refused = |error: LoadError| load_failure(error, &flags.model, &runtime);
        let networks = runtime.networks(&flags.model, &flags.load_options()).map_err(refused)?;
        let is_model_file = networks.is_model_file();
        if !is_model_file && (flags.network.is_some() || flags.stage.is_some()) {
            let text = format!("{} has one network and no stages", flags.model.display());
            return Err(Failure::usage(text).help("leave --network and --stage out"));
        }
        let network = networks.get(flags.network.as_deref()).map_err(refused)?;
        let (open_time, ready, options) =
            (started.elapsed(), Vec::new(), SessionOptions::default());
        Ok(Self { flags, runtime, network, is_model_file, started, open_time, ready, options })
    }

    /// With sessions of such options.
    pub(crate) fn with_options(self, options: SessionOptions) -> Self {
        Self { options, ..self }
    }

    fn failure(&self, error: LoadError) -> Failure {
        load_failure(error, &self.flags.model, &self.runtime)
    }

    /// Whether the shapes of inputs say which stage runs.
    fn has_choice(&self) -> bool {
        self.flags.stage.is_none() && self.network.stage_count() > 1
    }

    /// Returns the stage for inputs of these shapes. `shapes` gets the names of the inputs, and is called only if there are
    /// several stages to choose from.
    pub(crate) fn pick(
        &self,
        shapes: impl FnOnce(&[String]) -> Result<Shapes, Failure>,
    ) -> Result<usize, Failure> {
        if let Some(stage) = self.flags.stage {
            return Ok(stage);
        }
        let mut given = if self.has_choice() { shapes(&self.names()?.0)? } else { Shapes::new() };
        given.extend(self.flags.shape.iter().cloned());
        self.network.stage_for(&given).map_err(|error| self.failure(error))
    }

    fn load_stage(&self, stage: usize) -> Result<Loaded, Failure> {
        let start = Instant::now();
        let model = self.network.stage(stage).map_err(|error| self.failure(error))?;
        required::check(&self.flags.require, model.report())?;
        Ok(Loaded {
            model,
            runtime: self.runtime.clone(),
            started: self.started,
            load_time: self.open_time + start.elapsed(),
            is_only_stage: self.is_model_file && self.network.stage_count() == 1,
            required: self.flags.require.clone(),
        })
    }

    /// The model for a run over inputs of these shapes.
    pub(crate) fn load(
        flags: &'a ModelFlags,
        shapes: impl FnOnce(&[String]) -> Result<Shapes, Failure>,
    ) -> Result<Loaded, Failure> {
        let stages = Self::new(flags)?;
        stages.load_stage(stages.pick(shapes)?)
    }

    /// The same, with memory for runs; it is kept for the next run of such shapes.
    pub(crate) fn at(
        &mut self,
        shapes: impl FnOnce(&[String]) -> Result<Shapes, Failure>,
    ) -> Result<&mut Ready, Failure> {
        let stage = self.pick(shapes)?;
        let known = self.ready.iter().position(|ready| ready.stage == stage);
        let at = known.unwrap_or(self.ready.len());
        if known.is_none() {
            let loaded = self.load_stage(stage)?;
            loaded.look_at(loaded.model.report())?;
            let start = Instant::now();
            let session = loaded.session(&self.options)?;
            let times = [loaded.load_time.saturating_sub(self.open_time), start.elapsed()];
            self.ready.push(Ready { stage, loaded, session, times });
        }
        self.ready.get_mut(at).ok_or_else(|| Failure::new("no stage is ready"))
    }

    /// How long it took to open the packages and the file, to compile what is ready, and to take memory for runs.
    pub(crate) fn times(&self) -> [Duration; 3] {
        let sum = |at: fn(&Ready) -> Duration| self.ready.iter().map(at).sum();
        [self.open_time, sum(|ready| ready.times[0]), sum(|ready| ready.times[1])]
    }

    /// Returns the runtime that the stages run on.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the results of the cache for all compiled stages; `None` without a cache.
    pub(crate) fn cache(&self) -> Option<Value> {
        caches(self.models())
    }

    /// Returns the reports of the compiled stages. For a stage that is planned in a run, it is the report for the last
    /// shapes.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.ready.iter().map(|Ready { loaded, session, .. }| {
            session.plans().next().map_or_else(|| loaded.model.report(), |plan| plan.report())
        })
    }

    /// All that are compiled.
    fn models(&self) -> impl Iterator<Item = &Model> {
        self.ready.iter().map(|ready| &ready.loaded.model)
    }

    /// The names of inputs and outputs, which all stages have.
    pub(crate) fn ports(&mut self) -> Result<(Vec<String>, Vec<String>), Failure> {
        if self.has_choice() {
            return self.names();
        }
        let model = &self.at(|_| Ok(Shapes::new()))?.loaded.model;
        let inputs = model.inputs().iter().map(|input| input.name.clone());
        Ok((inputs.collect(), model.outputs().to_vec()))
    }

    fn names(&self) -> Result<(Vec<String>, Vec<String>), Failure> {
        let inputs = self.network.inputs(0).map_err(|error| self.failure(error))?;
        let outputs = self.network.outputs().map_err(|error| self.failure(error))?;
        Ok((inputs.into_iter().map(|(name, _)| name).collect(), outputs))
    }
}

/// The model, for commands that have no inputs to take shapes from.
pub(crate) fn load_with_shapes(flags: &ModelFlags) -> Result<Loaded, Failure> {
    let loaded = Stages::load(flags, |_| Ok(Shapes::new()))?;
    let is_open = |input: &&Input| planned_shape(&loaded.model, input).is_none();
    let open = loaded.model.inputs().iter().find(is_open);
    match open.and_then(|input| input.required().err()) {
        Some(error) => Err(loaded.compile_failure(error.into())),
        None => Ok(loaded),
    }
}

/// Returns the results of the cache for models; `None` without a cache.
pub(crate) fn caches<'a>(models: impl Iterator<Item = &'a Model>) -> Option<Value> {
    let mut reports = models.filter_map(Model::cache);
    let first = reports.next()?;
    let (mut restored, mut packed) = (first.restored, first.packed);
    for CacheReport { restored: more, packed: others, .. } in reports {
        (restored, packed) = (restored + more, packed + others);
    }
    let (outcome, reason) = match &first.outcome {
        CacheOutcome::Miss => ("miss", None),
        CacheOutcome::Hit => ("hit", None),
        CacheOutcome::Rebuilt(reason) => ("rebuilt", Some(reason)),
        CacheOutcome::Unfit(reason) => ("unfit", Some(reason)),
        CacheOutcome::NotUsed(reason) => ("not used", Some(reason)),
    };
    Some(json!({
        "path": first.path.to_string_lossy(), "outcome": outcome, "reason": reason, "restored": restored,
        "packed": packed, "not_saved": first.not_saved,
    }))
}

/// The shapes of recorded inputs of a folder.
pub(crate) fn shapes_of_set(folder: &Path, inputs: &[String]) -> Result<Shapes, Failure> {
    let of = inputs.iter().enumerate().map(|(at, name)| {
        let tensor = tensors::read(&Recorded::input(at).file(folder)?)?;
        Ok((name.clone(), tensor.dims().to_vec()))
    });
    of.collect()
}

/// The same of the first recorded set of a folder.
pub(crate) fn shapes_of_data(data: Option<&Path>, inputs: &[String]) -> Result<Shapes, Failure> {
    let Some(data) = data else { return Ok(Shapes::new()) };
    let sets = tensors::sets(data)?;
    sets.first().map_or_else(|| Ok(Shapes::new()), |set| shapes_of_set(set, inputs))
}
