//! The networks of a model file and their stages, which are compiled when they are first needed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{LoadError, LoadOptions, LoadSource, Runtime};
use crate::model::{Model, Shared, Stage, Stages, kinds};
use crate::pipeline::CompileError;
use udo_compile::resolve::{Input, InputShapes};
use udo_engine::cache::{Cache, ModelSource};
use udo_engine::device::{self, Error, ErrorCode, Extent, TensorSpec, quoted};
use udo_graph::container::{self, Container, ContainerError};
use udo_graph::graph::{DimSpec, Graph, TensorType, promote_defaults};
use udo_graph::import::{self, MODEL_FILE, options_for_file};
use udo_graph::memory::ModelBytes;

/// The networks of a model file. A file of another format is one network with one stage. Clones share compiled stages.
#[derive(Clone, Debug)]
pub struct Networks(Arc<Inner>);

struct Inner {
    /// The name of the file in messages.
    name: String,
    runtime: Runtime,
    options: LoadOptions,
    bytes: ModelSource,
    /// The cache of all stages, if there is one.
    cache: Option<Arc<Cache>>,
    source: Source,
    /// The compiled stages, by network.
    made: Mutex<BTreeMap<usize, CompiledNetwork>>,
}

/// The compiled stages of a network.
struct CompiledNetwork {
    /// The resources that its stages share.
    shared: Shared,
    /// The stages, by index.
    stages: BTreeMap<usize, Arc<Stage>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Networks").field("of", &self.name).finish_non_exhaustive()
    }
}

enum Source {
    File(Container),
    Single(Single),
}

/// The contents of a file of another format.
struct Single {
    name: String,
    inputs: Vec<Input>,
    outputs: Vec<String>,
    /// The graph as it was imported for the description; loading the model uses it.
    graph: Mutex<Option<Graph>>,
}

impl Single {
    fn new(graph: Graph) -> Self {
        let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs = values.map(|value| value.name.clone()).collect();
        let (name, inputs) = (graph.name.clone(), Input::all(&graph));
        Self { name, inputs, outputs, graph: Mutex::new(Some(graph)) }
    }
}

impl Runtime {
    /// Opens the networks of a model file or of its bytes, which are copied. Only this file is read, and it must not
    /// change while the networks exist. A graph or a cached model has no file.
    ///
    /// # Errors
    /// The file cannot be read, or its format is unknown.
    pub fn networks<'a>(
        &self,
        source: impl Into<LoadSource<'a>>,
        options: &LoadOptions,
    ) -> Result<Networks, LoadError> {
        match source.into() {
            LoadSource::File(path) => self.networks_of_file(&path, options),
            LoadSource::Bytes(bytes) => self.networks_of_bytes(bytes, options),
            LoadSource::Graph(_) | LoadSource::Cached(_) => {
                let why = "networks of a graph or a cache; expected a file or its bytes";
                Err(Error::new(ErrorCode::InvalidArgument, why).into())
            }
        }
    }

    pub(super) fn networks_of_file(
        &self,
        path: &Path,
        options: &LoadOptions,
    ) -> Result<Networks, LoadError> {
        let import = options_for_file(&self.reading_for(options), path);
        let bytes = ModelSource::read(path, |path| import.reading.bytes(path))?;
        let options = LoadOptions { import, ..options.clone() };
        self.networks_of(bytes, &import::name_of(path), options)
    }

    pub(super) fn networks_of_bytes(
        &self,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Networks, LoadError> {
        let import = self.reading_for(options);
        let bytes = ModelSource::from_bytes(ModelBytes::copy_of(bytes));
        self.networks_of(bytes, "model", LoadOptions { import, ..options.clone() })
    }

    fn networks_of(
        &self,
        bytes: ModelSource,
        name: &str,
        options: LoadOptions,
    ) -> Result<Networks, LoadError> {
        let (runtime, name, made) = (self.clone(), name.to_owned(), Mutex::default());
        let is_file = import::importer(bytes.bytes(), &name)?.name == MODEL_FILE;
        let file = is_file.then(|| Container::read(bytes.bytes())).transpose();
        let file = file.map_err(|error| at(&name, error))?;
        let cache = Self::cache_of(&bytes, file.as_ref(), &options)?;
        let read = || import::model_bytes(bytes.bytes(), &name, &options.import);
        let source = match (file, &cache) {
            (Some(file), _) => Source::File(file),
            (None, Some(cache)) => Source::Single(Single::new(
                cache.with_background_verification(options.compile.threads, read)?,
            )),
            (None, None) => Source::Single(Single::new(read()?)),
        };
        Ok(Networks(Arc::new(Inner { name, runtime, options, bytes, cache, source, made })))
    }
}

fn at(name: &str, reason: ContainerError) -> LoadError {
    LoadError::ModelFile { name: name.to_owned(), reason: Box::new(reason) }
}

/// Returns an error for an invalid argument.
fn invalid(why: String) -> LoadError {
    Error::new(ErrorCode::InvalidArgument, why).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Networks {
    fn count(&self) -> usize {
        match &self.0.source {
            Source::File(file) => file.networks().len(),
            Source::Single(_) => 1,
        }
    }

    /// Returns whether they come from a model file. A file of another format is one network with one stage.
    pub fn is_model_file(&self) -> bool {
        matches!(self.0.source, Source::File(_))
    }

    /// Returns all networks, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Network> {
        let of = |at| Network { of: Arc::clone(&self.0), at };
        (0..self.count()).map(of)
    }

    /// Returns the network of this name, or the only one if `name` is `None`.
    ///
    /// # Errors
    /// No network has this name, or there are several and no name is given.
    pub fn get(&self, name: Option<&str>) -> Result<Network, LoadError> {
        let name = match (&self.0.source, name) {
            (Source::File(file), _) => {
                &file.network(name).map_err(|error| at(&self.0.name, error))?.name
            }
            (Source::Single(only), name) => name.unwrap_or(&only.name),
        };
        let found = self.iter().find(|network| network.name() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.iter().map(|network| network.name().to_owned()).collect();
            let file = &self.0.name;
            invalid(format!(
                "{file}: there is no network {name:?}, expected one of {}",
                quoted(&known)
            ))
        })
    }
}

/// A stage of a network with its source.
enum StageSource<'a> {
    Stage(&'a Container, &'a container::Stage<usize>),
    Single(&'a Single),
}

/// A network of a model file, which programs refer to by name. Clones are interchangeable.
#[derive(Clone, Debug)]
pub struct Network {
    of: Arc<Inner>,
    at: usize,
}

impl Network {
    /// Returns its name.
    pub fn name(&self) -> &str {
        match &self.of.source {
            Source::File(_) => self.stored().map_or("", |network| &network.name),
            Source::Single(only) => &only.name,
        }
    }

    fn stored(&self) -> Option<&container::Network<usize>> {
        match &self.of.source {
            Source::File(file) => file.networks().get(self.at),
            Source::Single(_) => None,
        }
    }

    fn found(&self, index: usize) -> Result<StageSource<'_>, LoadError> {
        match (&self.of.source, self.stored()) {
            (Source::File(file), Some(network)) => {
                let stage = network.stage(index).map_err(|error| at(&self.of.name, error))?;
                Ok(StageSource::Stage(file, stage))
            }
            (Source::Single(only), _) if index == 0 => Ok(StageSource::Single(only)),
            (Source::Single(_), _) | (Source::File(_), None) => {
                let name = self.name();
                let why = format!("network {name:?} has no stage {index}: it has one, stage 0");
                Err(invalid(why))
            }
        }
    }

    /// Returns the number of its stages.
    pub fn stage_count(&self) -> usize {
        self.stored().map_or(1, |network| network.stages.len())
    }

    /// Returns the names and types of a stage's inputs.
    ///
    /// # Errors
    /// The stage does not exist.
    pub fn inputs(&self, stage: usize) -> Result<Vec<(String, TensorSpec)>, LoadError> {
        let found = self.found(stage)?;
        let specs = self.typed(&found)?.into_iter().map(|Input { name, of }| {
            let shape = match found {
                StageSource::Stage(_, stage) => stage.shapes.get(&name),
                StageSource::Single(_) => None,
            };
            let spec = spec(&of, shape.map_or(&[], Vec::as_slice))?;
            Ok((name, spec))
        });
        specs.collect()
    }

    /// Returns the inputs of a stage as its graph declares them.
    fn typed(&self, stage: &StageSource<'_>) -> Result<Vec<Input>, LoadError> {
        match stage {
            StageSource::Stage(file, stage) => {
                let given = &self.of.options.compile.bind.overridden;
                let inputs = file.inputs(stage, |name| given.contains(name));
                let inputs = inputs.map_err(|error| at(&self.of.name, error))?;
                Ok(inputs.into_iter().map(|(name, of)| Input { name, of }).collect())
            }
            StageSource::Single(only) => Ok(only.inputs.clone()),
        }
    }

    /// The names of the outputs.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn outputs(&self) -> Result<Vec<String>, LoadError> {
        match self.found(0)? {
            StageSource::Stage(file, stage) => {
                file.outputs(stage).map_err(|error| at(&self.of.name, error))
            }
            StageSource::Single(only) => Ok(only.outputs.clone()),
        }
    }

    /// Returns the stage for inputs of these shapes: one with exactly these shapes, else the one with the tightest
    /// ranges. A single stage also accepts another shape with the same number of elements.
    ///
    /// # Errors
    /// No stage accepts the shapes.
    pub fn stage_for(&self, shapes: &[(String, Vec<usize>)]) -> Result<usize, LoadError> {
        match (&self.of.source, self.stored()) {
            (Source::File(file), Some(network)) => {
                file.stage_for(network, shapes).map_err(|error| at(&self.of.name, error))
            }
            _ => Ok(0),
        }
    }

    /// Returns the model of one stage, compiled for its shapes at the first call.
    ///
    /// # Errors
    /// The stage does not exist or cannot be compiled.
    pub fn stage(&self, index: usize) -> Result<Model, LoadError> {
        let (shared, stage) = self.compiled(index)?;
        Ok(Model::of_stage(stage, shared))
    }

    /// Returns the model with all stages. Each is compiled when a run first has inputs of its shapes, or when it is
    /// requested.
    ///
    /// # Errors
    /// The file is damaged, or the options do not fit the model.
    pub fn model(&self) -> Result<Model, LoadError> {
        let agreed = (self.agreed()?, self.outputs()?);
        let shared = self.shared(&mut lock(&self.of.made))?;
        let options = &self.of.options.compile;
        let mut place = options.place.clone();
        let choice = match (&self.of.source, self.stored()) {
            (Source::File(file), Some(network)) => {
                let failed = |error| at(&self.of.name, error);
                for stage in &network.stages {
                    let own = file.affinity(stage).map_err(failed)?;
                    let own = own.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>();
                    place.affinity.extend(own.map_err(CompileError::from)?);
                }
                let given = &options.bind.overridden;
                let choice = file.stage_choice(network, |name| given.contains(name));
                Some(choice.map_err(failed)?)
            }
            _ => None,
        };
        let network = self.clone();
        let compile = move |index| Ok(network.compiled(index).map_err(Error::from)?.1);
        let stages = Stages::with_choice(&self.of.name, self.stage_count(), choice, compile);
        Ok(Model::of_stages(stages, agreed, kinds(&place), shared))
    }

    fn shared(&self, made: &mut BTreeMap<usize, CompiledNetwork>) -> Result<Shared, LoadError> {
        let Inner { runtime, options, .. } = &*self.of;
        if let Some(made) = made.get(&self.at) {
            return Ok(made.shared.clone());
        }
        let shared = Shared::new(&options.compile, &runtime.queues)?;
        made.insert(self.at, CompiledNetwork { shared: shared.clone(), stages: BTreeMap::new() });
        Ok(shared)
    }

    /// Returns a stage, compiled at the first call, and the resources that it shares.
    fn compiled(&self, index: usize) -> Result<(Shared, Arc<Stage>), LoadError> {
        let found = self.found(index)?;
        let Inner { name, runtime, options, bytes, cache, made, .. } = &*self.of;
        let mut made = lock(made);
        let shared = self.shared(&mut made)?;
        let known = made.get(&self.at).and_then(|made| made.stages.get(&index));
        if let Some(stage) = known {
            return Ok((shared, Arc::clone(stage)));
        }
        let mut options = options.clone();
        let graph = match found {
            StageSource::Stage(file, stage) => {
                let bound = file.bound(stage, name).map_err(|error| at(name, error))?;
                let bind = &mut options.compile.bind;
                for (name, range) in bound.ranges {
                    if !bind.dims.contains_key(&name) {
                        bind.ranges.entry(name).or_insert(range);
                    }
                }
                let mut graph = bound.graph;
                promote_defaults(&mut graph, &bind.overridden);
                graph
            }
            StageSource::Single(only) => match lock(&only.graph).take() {
                Some(graph) => graph,
                // A model that failed to compile has consumed the graph.
                None => import::model_bytes(bytes.bytes(), name, &options.import)?,
            },
        };
        let compile = || runtime.compile_of(graph, (bytes, cache.as_ref()), &options, &shared);
        let stage = match cache {
            Some(cache) => cache.with_background_verification(options.compile.threads, compile),
            None => compile(),
        }?;
        self.check_ports(index, &stage)?;
        let stage = Arc::new(stage);
        if let Some(made) = made.get_mut(&self.at) {
            made.stages.insert(index, Arc::clone(&stage));
        }
        Ok((shared, stage))
    }

    /// Refuses a stage whose inputs or outputs differ from those of the first stage.
    fn check_ports(&self, index: usize, stage: &Stage) -> Result<(), LoadError> {
        if self.stage_count() == 1 {
            return Ok(());
        }
        let inputs: Vec<_> = self.inputs(0)?.into_iter().map(|(name, _)| name).collect();
        let outputs = self.outputs()?;
        let own: Vec<_> = stage.inputs.iter().map(|input| input.name.clone()).collect();
        // A model may have additional outputs.
        if own == inputs && stage.outputs.starts_with(&outputs) {
            return Ok(());
        }
        let (file, network) = (&self.of.name, self.name());
        let why = format!(
            "{file}: stage {index} of network {network:?} has the inputs {} and the outputs {}, expected those of stage 0: {} and {}",
            quoted(&own),
            quoted(&stage.outputs),
            quoted(&inputs),
            quoted(&outputs)
        );
        Err(Error::new(ErrorCode::InvalidFile, why).into())
    }

    /// Returns the inputs of all stages; extents that differ are open.
    fn agreed(&self) -> Result<Vec<Input>, LoadError> {
        let mut agreed = self.typed(&self.found(0)?)?;
        for stage in 1..self.stage_count() {
            for (input, other) in agreed.iter_mut().zip(self.typed(&self.found(stage)?)?) {
                let dims = input.of.dims.iter_mut().zip(other.of.dims);
                let differ = dims.filter(|(dim, other)| *dim != other);
                differ.for_each(|(dim, _)| *dim = DimSpec::Unknown);
            }
        }
        Ok(agreed)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network {:?}", self.name())?;
        for stage in 0..self.stage_count() {
            write!(f, "\n  stage {stage}")?;
            for (name, spec) in self.inputs(stage).unwrap_or_default() {
                write!(f, "\n    input {name}: {spec}")?;
            }
        }
        for name in self.outputs().unwrap_or_default() {
            write!(f, "\n  output {name}")?;
        }
        Ok(())
    }
}

/// Returns the type of a stage's input: the graph's type with the stage's extents.
fn spec(of: &TensorType, shape: &[container::Extent]) -> device::Result<TensorSpec> {
    let extent = |(axis, dim): (usize, &DimSpec)| match (shape.get(axis), dim) {
        (Some(&container::Extent::Range { min, max, .. }), _) => Extent::Range { min, max },
        (Some(&container::Extent::Fixed(n)), _) | (_, &DimSpec::Fixed(n)) => Extent::Fixed(n),
        (_, DimSpec::Named(_) | DimSpec::Unknown) => Extent::Open,
    };
    let extents: Vec<_> = of.dims.iter().enumerate().map(extent).collect();
    TensorSpec::new(of.dtype, &extents)
}
