//! The networks of a model's file and their stages, each of which is compiled once somebody asks for it.

mod pool;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Model, Session, SessionOptions};
use crate::runtime::{LoadError, LoadOptions, Runtime};
use udo_compile::resolve::Input;
use udo_engine::cache::{Cache, ModelSource};
use udo_engine::device::{self, DeviceTensor, Error, ErrorCode, Extent, TensorSpec, quoted};
use udo_engine::run::{Launch, Run, RunOptions};
use udo_graph::container::{self, Container, ContainerError};
use udo_graph::graph::{DimSpec, Graph, TensorType};
use udo_graph::import::{self, MODEL_FILE, ModelBytes};

pub use pool::NetworkPool;

/// The networks of a model's file; one of another format than a model file is one network with one stage. Clones share
/// what is compiled.
#[derive(Clone, Debug)]
pub struct Networks(Arc<Inner>);

struct Inner {
    /// What to call the file in messages.
    name: String,
    runtime: Runtime,
    options: LoadOptions,
    bytes: ModelSource,
    /// What all stages have, if there is one.
    cache: Option<Arc<Cache>>,
    source: Source,
    /// By network and stage.
    models: Mutex<BTreeMap<(usize, usize), Model>>,
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

/// What is in a file of another format than a model file.
struct Single {
    name: String,
    inputs: Vec<Input>,
    outputs: Vec<String>,
    /// As it was read to say that; the model is made of it.
    graph: Mutex<Option<Graph>>,
}

impl Single {
    fn of(graph: Graph) -> Self {
        let values = graph.outputs.iter().filter_map(|&id| graph.value(id).ok());
        let outputs = values.map(|value| value.name.clone()).collect();
        let (name, inputs) = (graph.name.clone(), Input::all(&graph));
        Self { name, inputs, outputs, graph: Mutex::new(Some(graph)) }
    }
}

impl Runtime {
    /// The networks of a model's file, which is read alone and has to stay as it is for as long as they are there.
    ///
    /// # Errors
    /// The file cannot be read, or is of no known format.
    pub fn networks(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Networks, LoadError> {
        let path = path.as_ref();
        let import = self.reading_for(options).of_file(path);
        let bytes = ModelSource::of(path, |path| import.reading.bytes(path))?;
        let options = LoadOptions { import, ..options.clone() };
        self.networks_of(bytes, &import::name_of(path), options)
    }

    /// The networks in the bytes of such a file, which are copied.
    ///
    /// # Errors
    /// They are of no known format.
    pub fn networks_of_bytes(
        &self,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Networks, LoadError> {
        let import = self.reading_for(options);
        let bytes = ModelSource::of_bytes(ModelBytes::copy_of(bytes));
        self.networks_of(bytes, "model", LoadOptions { import, ..options.clone() })
    }

    fn networks_of(
        &self,
        bytes: ModelSource,
        name: &str,
        options: LoadOptions,
    ) -> Result<Networks, LoadError> {
        let (runtime, name, models) = (self.clone(), name.to_owned(), Mutex::default());
        let is_file = import::importer(bytes.bytes(), &name)?.name == MODEL_FILE;
        let file = is_file.then(|| Container::read(bytes.bytes())).transpose();
        let file = file.map_err(|error| at(&name, error))?;
        let cache = Self::cache_of(&bytes, file.as_ref(), &options)?;
        let read = || import::model_bytes(bytes.bytes(), &name, &options.import);
        let source = match (file, &cache) {
            (Some(file), _) => Source::File(file),
            (None, Some(cache)) => {
                Source::Single(Single::of(cache.looking_ahead(options.compile.threads, read)?))
            }
            (None, None) => Source::Single(Single::of(read()?)),
        };
        Ok(Networks(Arc::new(Inner { name, runtime, options, bytes, cache, source, models })))
    }
}

fn at(name: &str, reason: ContainerError) -> LoadError {
    LoadError::ModelFile { name: name.to_owned(), reason: Box::new(reason) }
}

/// An argument that is wrong.
fn invalid(why: String) -> LoadError {
    Error::new(ErrorCode::InvalidArgument, why).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Networks {
    /// How many there are.
    pub fn count(&self) -> usize {
        match &self.0.source {
            Source::File(file) => file.networks().len(),
            Source::Single(_) => 1,
        }
    }

    /// Whether they are of a model file: one of another format is one network with one stage.
    pub fn is_model_file(&self) -> bool {
        matches!(self.0.source, Source::File(_))
    }

    /// All of them, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = Network> {
        let of = |at| Network { of: Arc::clone(&self.0), at };
        (0..self.count()).map(of)
    }

    /// The network of this name; the only one there is, if none is given.
    ///
    /// # Errors
    /// There is none of this name, or several and no name.
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
                "{file}: there is no network {name:?}, wanted one of {}",
                quoted(&known)
            ))
        })
    }
}

/// A stage of a network, and what it is in.
enum Found<'a> {
    Stage(&'a Container, &'a container::Stage<usize>),
    Single(&'a Single),
}

/// A network of a model's file: what a program names. Clones are the same.
#[derive(Clone, Debug)]
pub struct Network {
    of: Arc<Inner>,
    at: usize,
}

impl Network {
    /// Its name.
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

    fn stage(&self, index: usize) -> Result<Found<'_>, LoadError> {
        match (&self.of.source, self.stored()) {
            (Source::File(file), Some(network)) => {
                let stage = network.stage(index).map_err(|error| at(&self.of.name, error))?;
                Ok(Found::Stage(file, stage))
            }
            (Source::Single(only), _) if index == 0 => Ok(Found::Single(only)),
            (Source::Single(_), _) | (Source::File(_), None) => {
                let name = self.name();
                let why = format!("network {name:?} has no stage {index}: it has one, stage 0");
                Err(invalid(why))
            }
        }
    }

    /// How many stages it has.
    pub fn stage_count(&self) -> usize {
        self.stored().map_or(1, |network| network.stages.len())
    }

    /// The names of a stage's inputs and what each takes.
    ///
    /// # Errors
    /// There is no such stage.
    pub fn inputs(&self, stage: usize) -> Result<Vec<(String, TensorSpec)>, LoadError> {
        let said: Vec<(String, TensorType, Vec<container::Extent>)> = match self.stage(stage)? {
            Found::Stage(file, stage) => {
                let given = &self.of.options.compile.bind.given;
                let inputs = file.inputs(stage, |name| given.contains(name));
                let inputs = inputs.map_err(|error| at(&self.of.name, error))?;
                let of = |(name, of): (String, TensorType)| {
                    let shape = stage.shapes.get(&name).cloned();
                    (name, of, shape.unwrap_or_default())
                };
                inputs.into_iter().map(of).collect()
            }
            Found::Single(only) => {
                let inputs = only.inputs.iter();
                inputs.map(|input| (input.name.clone(), input.of.clone(), Vec::new())).collect()
            }
        };
        said.into_iter().map(|(name, of, shape)| Ok((name, spec(&of, &shape)?))).collect()
    }

    /// The names of the inputs, and what all stages agree on of each: dimensions that differ are open.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn agreed_inputs(&self) -> Result<Vec<(String, TensorSpec)>, LoadError> {
        let mut agreed = self.inputs(0)?;
        for stage in 1..self.stage_count() {
            for ((_, spec), (_, other)) in agreed.iter_mut().zip(self.inputs(stage)?) {
                let extent = |(a, b): (Extent, Extent)| if a == b { a } else { Extent::Open };
                let extents: Vec<_> = spec.extents().zip(other.extents()).map(extent).collect();
                *spec = TensorSpec::new(spec.dtype(), &extents)?;
            }
        }
        Ok(agreed)
    }

    /// The names of the outputs.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn outputs(&self) -> Result<Vec<String>, LoadError> {
        match self.stage(0)? {
            Found::Stage(file, stage) => {
                file.outputs(stage).map_err(|error| at(&self.of.name, error))
            }
            Found::Single(only) => Ok(only.outputs.clone()),
        }
    }

    /// The stage that runs inputs of these shapes: one for exactly them, else the tightest whose ranges have them; the only one
    /// there is also takes as many elements in another shape.
    ///
    /// # Errors
    /// No stage does.
    pub fn stage_for(&self, shapes: &[(String, Vec<usize>)]) -> Result<usize, LoadError> {
        match (&self.of.source, self.stored()) {
            (Source::File(file), Some(network)) => {
                file.stage_for(network, shapes).map_err(|error| at(&self.of.name, error))
            }
            _ => Ok(0),
        }
    }

    /// The model of a stage, compiled for its shapes when it is first asked for.
    ///
    /// # Errors
    /// There is no such stage, or it cannot be made to run.
    pub fn model(&self, stage: usize) -> Result<Model, LoadError> {
        let found = self.stage(stage)?;
        let Inner { name, runtime, options, bytes, cache, models, .. } = &*self.of;
        let mut models = lock(models);
        if let Some(model) = models.get(&(self.at, stage)) {
            return Ok(model.clone());
        }
        let mut options = options.clone();
        let graph = match found {
            Found::Stage(file, stage) => {
                let bound = file.bound(stage, name).map_err(|error| at(name, error))?;
                let bind = &mut options.compile.bind;
                for (name, range) in bound.ranges {
                    if !bind.dims.contains_key(&name) {
                        bind.ranges.entry(name).or_insert(range);
                    }
                }
                let mut graph = bound.graph;
                graph.give(&bind.given);
                graph
            }
            Found::Single(only) => match lock(&only.graph).take() {
                Some(graph) => graph,
                // A model that could not be compiled took it along.
                None => import::model_bytes(bytes.bytes(), name, &options.import)?,
            },
        };
        let compile = || runtime.compile_of(graph, (bytes, cache.as_ref()), &options);
        let model = match cache {
            Some(cache) => cache.looking_ahead(options.compile.threads, compile),
            None => compile(),
        }?;
        models.insert((self.at, stage), model.clone());
        Ok(model)
    }

    /// The stage for inputs of these dimensions, and the dimensions as it takes them.
    fn fit(&self, mut dims: Vec<Vec<usize>>) -> device::Result<(usize, Vec<Vec<usize>>)> {
        let specs = self.inputs(0)?;
        if specs.len() != dims.len() {
            let names: Vec<_> = specs.iter().map(|(name, _)| format!("{name:?}")).collect();
            let (found, wanted, names) = (dims.len(), specs.len(), names.join(", "));
            let why = format!("{found} inputs, wanted {wanted}: {names}");
            return Err(Error::new(ErrorCode::InvalidArgument, why));
        }
        let shapes = specs.iter().zip(&dims).map(|((name, _), dims)| (name.clone(), dims.clone()));
        let index = self.stage_for(&shapes.collect::<Vec<_>>())?;
        if self.stage_count() == 1 {
            let count = |dims: &[usize]| dims.iter().product::<usize>();
            for ((_, spec), given) in
                specs.iter().zip(&mut dims).filter(|((_, of), _)| !of.is_open())
            {
                let wanted = spec.dims()?;
                if count(given) == count(wanted) {
                    wanted.clone_into(given);
                }
            }
        }
        Ok((index, dims))
    }

    /// The stage for these inputs, and they as it takes them.
    fn fit_tensors(&self, inputs: &[DeviceTensor]) -> device::Result<(usize, Vec<DeviceTensor>)> {
        let dims = inputs.iter().map(|input| Ok(input.spec().dims()?.to_vec()));
        let (index, dims) = self.fit(dims.collect::<device::Result<_>>()?)?;
        let mut inputs = inputs.to_vec();
        for (input, dims) in inputs.iter_mut().zip(&dims) {
            if input.spec().dims()? != dims {
                input.reshape(dims)?;
            }
        }
        Ok((index, inputs))
    }

    /// Sessions of all stages, each of which is made when a run first wants it.
    pub fn session(&self, options: &SessionOptions) -> NetworkSession {
        let (network, options) = (self.clone(), options.clone());
        NetworkSession { network, options, stages: BTreeMap::new(), last: None }
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

/// What a stage's input takes: what the graph says, and what the stage says of its extents.
fn spec(of: &TensorType, shape: &[container::Extent]) -> device::Result<TensorSpec> {
    let extent = |(axis, dim): (usize, &DimSpec)| match (shape.get(axis), dim) {
        (Some(&container::Extent::Range { min, max, .. }), _) => Extent::Range { min, max },
        (Some(&container::Extent::Fixed(n)), _) | (_, &DimSpec::Fixed(n)) => Extent::Fixed(n),
        (_, DimSpec::Named(_) | DimSpec::Unknown) => Extent::Open,
    };
    let extents: Vec<_> = of.dims.iter().enumerate().map(extent).collect();
    TensorSpec::new(of.dtype, &extents)
}

/// Runs of a network, of whose stages each run takes the one for the shapes of its inputs.
#[derive(Debug)]
pub struct NetworkSession {
    network: Network,
    options: SessionOptions,
    stages: BTreeMap<usize, Session>,
    /// The stage of the last run.
    last: Option<usize>,
}

impl NetworkSession {
    /// How many stages the network has.
    pub fn stage_count(&self) -> usize {
        self.network.stage_count()
    }

    /// The session of the stage that the last run took.
    ///
    /// # Errors
    /// There was none.
    pub fn last(&self) -> device::Result<&Session> {
        let session = self.last.and_then(|index| self.stages.get(&index));
        session.ok_or_else(|| {
            let name = self.network.name();
            let why = format!("no stage of network {name:?} ran yet; run one first");
            Error::new(ErrorCode::InvalidState, why)
        })
    }

    /// The session of a stage, for runs that are to take that one.
    ///
    /// # Errors
    /// There is no such stage, it cannot be compiled, or there is no memory.
    pub fn stage(&mut self, index: usize) -> device::Result<&mut Session> {
        if !self.stages.contains_key(&index) {
            let session = self.network.model(index)?.session_with(&self.options)?;
            self.stages.insert(index, session);
        }
        let none = || Error::new(ErrorCode::Internal, "a session that was made is not there");
        self.stages.get_mut(&index).ok_or_else(none)
    }

    /// As [`Session::run_on`].
    ///
    /// # Errors
    /// As there, or no stage takes the shapes of the inputs.
    pub fn run_on(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
    ) -> device::Result<Vec<DeviceTensor>> {
        let (session, inputs) = self.pick(inputs)?;
        session.run_on(&inputs, outputs)
    }

    /// As [`Session::submit`].
    ///
    /// # Errors
    /// As there, or no stage takes the shapes of the inputs.
    pub fn submit(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> device::Result<Run> {
        let (session, inputs) = self.pick(inputs)?;
        session.submit(&inputs, outputs, options)
    }

    /// As [`Session::record`].
    ///
    /// # Errors
    /// As there, or no stage takes the shapes of the inputs.
    pub fn record(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> device::Result<Launch> {
        let (session, inputs) = self.pick(inputs)?;
        session.record(&inputs, outputs, options)
    }

    /// The session of the stage for inputs of these dimensions, and the dimensions as it takes them: the only stage there is has as
    /// many elements in its own. The next run is its.
    ///
    /// # Errors
    /// No stage takes them, or it cannot be made to run.
    pub fn for_dims(
        &mut self,
        dims: Vec<Vec<usize>>,
    ) -> device::Result<(&mut Session, Vec<Vec<usize>>)> {
        let (index, dims) = self.network.fit(dims)?;
        self.last = Some(index);
        Ok((self.stage(index)?, dims))
    }

    /// The session of the stage for these inputs, and they as it takes them.
    fn pick(
        &mut self,
        inputs: &[DeviceTensor],
    ) -> device::Result<(&mut Session, Vec<DeviceTensor>)> {
        let (index, inputs) = self.network.fit_tensors(inputs)?;
        self.last = Some(index);
        Ok((self.stage(index)?, inputs))
    }
}
