//! The stages of a model that runs meet, each compiled when a run first wants it.

use std::path::Path;

use serde_json::{Value, json};
use udo_api::Shape;
use udo_runtime::cache::{CacheOutcome, CacheReport};
use udo_runtime::container::Container;
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Model, Session, SessionOptions};
use udo_runtime::resolve::Input;

use crate::model_flags::{
    Loaded, ModelFlags, container_failure, open_container, say_notices, session,
};
use crate::output::Failure;
use crate::tensors;

/// The shapes of a run's inputs, by name.
pub(crate) type Shapes = Vec<(String, Vec<usize>)>;

/// The stages of a model; one of another format than a model file is one stage.
pub(crate) struct Stages<'a> {
    flags: &'a ModelFlags,
    /// The file, if the shapes of inputs say which of its stages runs.
    file: Option<Container>,
    ready: Vec<Ready>,
    options: SessionOptions,
}

/// A stage that is compiled, and memory for its runs.
pub(crate) struct Ready {
    stage: Option<usize>,
    pub(crate) loaded: Loaded,
    pub(crate) session: Session,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(flags: &'a ModelFlags) -> Result<Self, Failure> {
        let mut file = None;
        if let (Some((container, _)), None) = (open_container(&flags.model)?, flags.stage) {
            let network = container.network(flags.network.as_deref());
            let network = network.map_err(|error| container_failure(&flags.model, error))?;
            file = (network.stages.len() > 1).then_some(container);
        }
        Ok(Self { flags, file, ready: Vec::new(), options: SessionOptions::default() })
    }

    /// With sessions of such options.
    pub(crate) fn with_options(self, options: SessionOptions) -> Self {
        Self { options, ..self }
    }

    /// The stage for inputs of these shapes; nothing is asked for them where there is no choice. Names are those of inputs.
    pub(crate) fn pick(
        &self,
        shapes: impl FnOnce(&[String]) -> Result<Shapes, Failure>,
    ) -> Result<Option<usize>, Failure> {
        let Some(file) = &self.file else { return Ok(self.flags.stage) };
        let (inputs, _) = self.names(file)?;
        let mut given = shapes(&inputs)?;
        given.extend(self.flags.shape.iter().cloned());
        let picked = file
            .network(self.flags.network.as_deref())
            .and_then(|network| file.stage_for(network, &given));
        picked.map(Some).map_err(|error| container_failure(&self.flags.model, error))
    }

    /// The model for a run over inputs of these shapes.
    pub(crate) fn load(
        flags: &'a ModelFlags,
        shapes: impl FnOnce(&[String]) -> Result<Shapes, Failure>,
    ) -> Result<Loaded, Failure> {
        flags.load_stage(Self::new(flags)?.pick(shapes)?)
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
            let loaded = self.flags.load_stage(stage)?;
            say_notices(loaded.model.report());
            let session = session(&loaded.model, &loaded.registry, &self.options)?;
            self.ready.push(Ready { stage, loaded, session });
        }
        self.ready.get_mut(at).ok_or_else(|| Failure::new("no stage is ready"))
    }

    /// What the cache did for all that are compiled, if there is one.
    pub(crate) fn cache(&self) -> Option<Value> {
        caches(self.ready.iter().map(|ready| &ready.loaded.model))
    }

    /// The names of inputs and outputs, which all stages have.
    pub(crate) fn ports(&mut self) -> Result<(Vec<String>, Vec<String>), Failure> {
        if let Some(file) = &self.file {
            return self.names(file);
        }
        let model = &self.at(|_| Ok(Shapes::new()))?.loaded.model;
        let inputs = model.inputs().iter().map(|input| input.name.clone());
        Ok((inputs.collect(), model.outputs().to_vec()))
    }

    fn names(&self, file: &Container) -> Result<(Vec<String>, Vec<String>), Failure> {
        let names = file.network(self.flags.network.as_deref()).and_then(|network| {
            let stage = network.stage(0)?;
            let inputs = file.inputs(stage)?.into_iter().map(|(name, _)| name).collect();
            Ok((inputs, file.outputs(stage)?))
        });
        names.map_err(|error| container_failure(&self.flags.model, error))
    }
}

/// What caches did for models; nothing where there is none.
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
    };
    Some(json!({
        "path": first.path, "outcome": outcome, "reason": reason, "restored": restored,
        "packed": packed, "not_saved": first.not_saved,
    }))
}

/// The shapes of recorded inputs: `input_0.pb` and so on of a folder.
pub(crate) fn shapes_of_set(folder: &Path, inputs: &[String]) -> Result<Shapes, Failure> {
    let of = inputs.iter().enumerate().map(|(at, name)| {
        let tensor = tensors::read(&folder.join(format!("input_{at}.pb")), None)?;
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

impl Loaded {
    /// A tensor as `input` takes it: the only stage of a model file takes as many elements in any shape.
    pub(crate) fn fitting(&self, input: &Input, tensor: Tensor) -> Tensor {
        let shape =
            input.shape().filter(|shape| self.is_only_stage && shape.dims() != tensor.dims());
        let reshaped = shape.and_then(|shape: Shape| tensor.reshaped(shape).ok());
        reshaped.unwrap_or(tensor)
    }
}
