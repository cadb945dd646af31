//! What programs begin with: operators and devices, of which models are made.

mod error;
mod report;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use udo_api::Core;

use crate::builtin;
use crate::model::{CompileError, CompileOptions, Model};
use crate::quant;
use udo_compile::compiler::Resources;
use udo_compile::hta::{self, HtaError, HtaReport, PrepareHta};
use udo_compile::place;
use udo_compile::resolve::{self, BindOptions, Coverage, MissingOp, ResolveError};
use udo_engine::cache::{Cache, CacheError, CacheOptions, ModelSource};
use udo_engine::constants::Constants;
use udo_engine::contain::Containment;
use udo_engine::device::{self, Device, DeviceSpec, Devices, ErrorCode};
use udo_engine::exit_guard::PerProcess;
use udo_engine::operators::Operators;
use udo_engine::package::{Build, OpenError, Trust};
use udo_engine::run::Queues;
use udo_graph::container::{Container, Contents, Section};
use udo_graph::graph::{Graph, Source};
use udo_graph::import::{self, ImportError, ImportOptions, PackagedOp};
use udo_graph::memory::{Derived, ModelBytes};

pub use error::LoadError;
pub use report::{DeviceReport, RuntimeReport};

/// Operators, built in and of packages, and devices. Clones share them, and any thread may use them; what is made of a
/// runtime lives on by itself.
///
/// ```no_run
/// use udo_runtime::runtime::Runtime;
///
/// let runtime = Runtime::builder().package("SoftmaxUdoPackage").build()?;
/// let model = runtime.load("model.onnx")?;
/// let mut session = model.session()?;
/// session.input_mut::<f32>("image")?.fill(0.5);
/// session.run()?;
/// let probabilities = session.output::<f32>("probabilities")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Models are compiled with clones of it, which share what they pack of constants.
    resources: Resources,
    queues: Arc<Queues>,
    /// Constants of models, and what is made of them: one that another model of the process has is the same.
    derived: Derived,
}

/// What a runtime is to be made of.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    packages: Vec<(PathBuf, Option<Containment>)>,
    /// How packages are contained that ask for nothing else.
    contain_others: Option<Containment>,
    devices: Vec<DeviceSpec>,
    trust: Trust,
}

impl Builder {
    /// With a package of operators: its folder, `dist` folder or registration library.
    #[must_use]
    pub fn package(mut self, path: impl Into<PathBuf>) -> Self {
        self.packages.push((path.into(), None));
        self
    }

    /// With a package whose code runs in a process of its own: what it does wrong there is an error here. It does so as well where
    /// the same package is named by [`Builder::package`].
    #[must_use]
    pub fn contained(mut self, path: impl Into<PathBuf>, containment: Containment) -> Self {
        self.packages.push((path.into(), Some(containment)));
        self
    }

    /// Contains packages of [`Builder::package`] as well that nobody signed whom [`Builder::trust`] names, instead of refusing them; which of the three
    /// functions comes first does not matter.
    #[must_use]
    pub fn contain_unsigned(mut self, containment: Containment) -> Self {
        self.contain_others = Some(containment);
        self
    }

    /// Takes packages alone that are signed or locked as this says; none of the others is loaded.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// With these devices; where none are asked for there is one of each kind.
    #[must_use]
    pub fn devices(mut self, specs: impl IntoIterator<Item = DeviceSpec>) -> Self {
        self.devices.extend(specs);
        self
    }

    /// Opens the packages and makes the devices.
    ///
    /// # Errors
    /// A package is refused, or a device cannot be as asked.
    pub fn build(self) -> Result<Runtime, LoadError> {
        let devices = match self.devices.as_slice() {
            [] => Devices::default(),
            specs => Devices::new(specs)?,
        };
        let mut operators = builtin::operators()?;
        operators.set_trust(self.trust);
        let contained = self.packages.iter().filter_map(|(path, containment)| {
            // One that cannot be read is refused where it is opened.
            Some((Build::of(path).ok()?, containment.as_ref()?))
        });
        let contained: Vec<(Build, &Containment)> = contained.collect();
        for (path, containment) in &self.packages {
            // Who names a package twice, once to be contained, gets it contained, however it is spelt.
            let build = if contained.is_empty() { None } else { Build::of(path).ok() };
            let same = |build: Build| contained.iter().find(|(known, _)| known.is_same(&build));
            let known = build.and_then(same).map(|(_, containment)| *containment);
            match (containment.as_ref().or(known), &self.contain_others) {
                (Some(containment), _) => operators.open_contained(path, containment)?,
                (None, Some(containment)) => operators.open_as_signed(path, containment)?,
                (None, None) => operators.open(path)?,
            };
        }
        Ok(Runtime::of(operators, devices))
    }
}

/// What the runtimes of a process share.
#[derive(Clone, Debug, Default)]
struct Shared {
    /// What is packed of constants.
    packed: Constants,
    /// Constants of models, and what is made of them: equal ones are there once.
    derived: Derived,
}

impl Shared {
    fn of_process() -> Self {
        static SHARED: PerProcess<OnceLock<Shared>> = PerProcess::new(OnceLock::new());
        SHARED.get().get_or_init(Self::default).clone()
    }
}

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// How its file is read.
    pub import: ImportOptions,
    /// How it is compiled.
    pub compile: CompileOptions,
    /// Where what is packed of its constants is kept for the next process; nowhere unless said.
    pub cache: Option<CacheOptions>,
    /// Whether the model holds its graph, so that [`Model::export`] can write it, and a cache holds it as well, so that
    /// [`Runtime::restore`] can make the model of that alone. A graph that is compiled with a cache is held in any case.
    pub is_exportable: bool,
}

/// Has what is packed looked for in a cache, if there is one.
fn look_in(
    resources: &mut Resources,
    cache: Result<Option<Arc<Cache>>, CacheError>,
) -> Result<(), CacheError> {
    if let Some(cache) = cache? {
        resources.constants.use_cache(&cache);
    }
    Ok(())
}

impl AsRef<Resources> for Runtime {
    fn as_ref(&self) -> &Resources {
        &self.resources
    }
}

impl Runtime {
    /// The built-in operators, and one device of each kind.
    ///
    /// # Errors
    /// The built-in operators break the contract, which is a fault of this library.
    pub fn new() -> Result<Self, LoadError> {
        Self::builder().build()
    }

    /// What says of what a runtime is made.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// These operators and devices.
    pub fn of(operators: Operators, devices: Devices) -> Self {
        let Shared { packed, derived } = Shared::of_process();
        let resources = Resources { operators, constants: packed };
        Self { resources, queues: Queues::new(devices), derived }
    }

    /// The operators.
    pub fn operators(&self) -> &Operators {
        &self.resources.operators
    }

    /// The operators that nobody describes, of the graph and of its subgraphs.
    pub fn missing(&self, graph: &Graph, options: &BindOptions) -> Vec<MissingOp> {
        resolve::missing(self.operators(), graph, options)
    }

    /// What the packages and the built-in operators run on these cores, by name.
    ///
    /// # Errors
    /// An implementation library cannot be opened.
    pub fn coverage(&self, cores: &[Core]) -> Result<Vec<Coverage>, OpenError> {
        resolve::coverage(self.operators(), cores)
    }

    /// Brings all nodes of ONNX's own operators into the form of the newest operator set that one of them is of. Types and shapes
    /// that a newer form asks for are those of the graph; extents that it leaves open are asked of `bind`.
    ///
    /// # Errors
    /// The graph cannot be resolved, or a node has no newer form, as one of a subgraph that would have to change.
    pub fn raise(&self, graph: &mut Graph, bind: &BindOptions) -> Result<(), ResolveError> {
        let options = CompileOptions { bind: bind.clone(), ..CompileOptions::default() };
        resolve::raise(&self.resources.compiler(&options), graph)
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        self.queues.devices()
    }

    /// What the devices are at now.
    pub fn report(&self) -> RuntimeReport {
        RuntimeReport::of(&self.queues)
    }

    /// Has a device go away: runs on it fail, and those that are submitted to it, until [`Runtime::reset_device`]. For
    /// tests of programs that have to live with that.
    pub fn lose_device(&self, device: &Device) {
        self.queues.lose(device);
    }

    /// Brings a device that was lost back. What lies in its memory is as before.
    pub fn reset_device(&self, device: &Device) {
        self.queues.reset(device);
    }

    /// Waits until the submitted runs that have named this core of a device, or are at work on it, have ended or left it; not for
    /// those that are submitted meanwhile.
    ///
    /// # Errors
    /// The device has no such core, or a callback waits.
    pub fn sync_core(&self, device: &Device, core: u32) -> device::Result<()> {
        self.queues.sync_core(device, core)
    }

    /// The model in a file: ONNX, a model file of `udo convert`, or a printed graph. The file is read alone, and has to stay as it is
    /// for as long as the model is there.
    ///
    /// # Errors
    /// The file cannot be read, or its model not be made to run.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model, LoadError> {
        self.load_with(path, &LoadOptions::default())
    }

    /// As [`Runtime::load`], with options.
    ///
    /// # Errors
    /// As there, or the cache cannot be used: its folder is not there, or a newer version wrote in it. A file of the cache that
    /// is damaged, or cannot be written, is no error: [`Model::cache`] and the report say so.
    pub fn load_with(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Model, LoadError> {
        let (path, reading) = (path.as_ref(), self.reading_for(options));
        let source = ModelSource::of(path, |path| reading.reading.bytes(path))?;
        self.load_of(&source, options, || import::read(source.bytes(), path, &reading))
    }

    /// The model in the bytes of such a file, which are copied.
    ///
    /// # Errors
    /// They are no such file, or its model cannot be made to run.
    pub fn load_bytes(&self, bytes: &[u8], options: &LoadOptions) -> Result<Model, LoadError> {
        let source = ModelSource::of_bytes(ModelBytes::copy_of(bytes));
        let reading = self.reading_for(options);
        self.load_of(&source, options, || import::model_bytes(source.bytes(), "model", &reading))
    }

    fn load_of(
        &self,
        source: &ModelSource,
        options: &LoadOptions,
        read: impl FnOnce() -> Result<Graph, ImportError>,
    ) -> Result<Model, LoadError> {
        let cache = Self::cache_of(source, None, options)?;
        let load = || self.compile_of(read()?, (source, cache.as_ref()), options);
        match &cache {
            Some(cache) => cache.looking_ahead(options.compile.threads, load),
            None => load(),
        }
    }

    /// Where what is packed for a file's graphs is looked for; one that is to be exported has a cache of its own. `read` is the model
    /// file, if it is one that was read before.
    pub(crate) fn cache_of(
        source: &ModelSource,
        read: Option<&Container>,
        options: &LoadOptions,
    ) -> Result<Option<Arc<Cache>>, LoadError> {
        if options.is_exportable {
            return Ok(None);
        }
        Ok(Cache::of(options.cache.as_ref(), source, read)?)
    }

    /// The model of a graph that was read of a file, with the file's cache.
    pub(crate) fn compile_of(
        &self,
        mut graph: Graph,
        (source, cache): (&ModelSource, Option<&Arc<Cache>>),
        options: &LoadOptions,
    ) -> Result<Model, LoadError> {
        let mut resources = self.resources.clone();
        if options.is_exportable {
            graph.add_in_place(&options.compile.in_place);
            let (cache, ranges) = (options.cache.as_ref(), &options.compile.bind.ranges);
            let own = Cache::of_graph(cache, &graph, ranges, Some(source.bytes()));
            look_in(&mut resources, own.map(Some))?;
        } else if options.cache.is_none() {
            // A cache knows constants by where they lie in their own file.
            self.share(&mut graph, source);
        }
        if let Some(cache) = cache {
            resources.constants.use_cache(cache);
        }
        self.compile_by(graph, resources, &options.compile)
    }

    /// The model that an earlier process left in the folder of the options' cache: one that was compiled of a graph, or asked to
    /// be exportable. `name` says which, where there are several.
    ///
    /// # Errors
    /// There is no such model, it is of another version or damaged, or it cannot be made to run.
    pub fn restore(&self, name: Option<&str>, options: &LoadOptions) -> Result<Model, LoadError> {
        let none = || {
            let why = "no folder of a cache is said; wanted one";
            device::Error::new(ErrorCode::InvalidArgument, why)
        };
        let asked = options.cache.as_ref().ok_or_else(none)?;
        let (cache, stage) = Cache::restore(asked, name)?;
        let (mut resources, mut compile) = (self.resources.clone(), options.compile.clone());
        for (name, range) in stage.ranges {
            compile.bind.ranges.entry(name).or_insert(range);
        }
        resources.constants.use_cache(&cache);
        self.compile_by(stage.graph, resources, &compile)
    }

    /// Has constants that another model has, or had, be the same, so that what is packed of them is.
    fn share(&self, graph: &mut Graph, source: &ModelSource) {
        for value in &mut graph.values {
            let Source::Constant(tensor) = &mut value.source else { continue };
            let key = format!("{} {}", tensor.desc(), source.key(tensor.stored()));
            let found = self.derived.get(key, || Ok::<_, Infallible>(vec![Some(tensor.clone())]));
            if let Ok([Some(found)]) = found.as_deref() {
                *tensor = found.clone();
            }
        }
    }

    /// The model of a graph.
    ///
    /// # Errors
    /// The first step that fails says why.
    pub fn compile(&self, graph: Graph, options: &CompileOptions) -> Result<Model, LoadError> {
        self.compile_by(graph, self.resources.clone(), options)
    }

    /// As [`Runtime::compile`], with a cache where one is asked for.
    ///
    /// # Errors
    /// As there and for [`Runtime::load_with`].
    pub fn compile_with(
        &self,
        mut graph: Graph,
        options: &LoadOptions,
    ) -> Result<Model, LoadError> {
        let mut resources = self.resources.clone();
        if options.cache.is_some() || options.is_exportable {
            graph.add_in_place(&options.compile.in_place);
            let ranges = &options.compile.bind.ranges;
            let cache = Cache::of_graph(options.cache.as_ref(), &graph, ranges, None);
            look_in(&mut resources, cache.map(Some))?;
        }
        self.compile_by(graph, resources, &options.compile)
    }

    /// What kernels of this machine pack for all stages of a model file, each of which is compiled for that: the section of the file
    /// that has it, so that loads on machines like this one need not.
    ///
    /// # Errors
    /// A stage cannot be made to run, or the file would be too large.
    pub fn prepare(&self, contents: &Contents) -> Result<Section, LoadError> {
        self.prepare_with(contents, &CompileOptions::default())
    }

    /// As [`Runtime::prepare`], for models that are compiled with these options.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_with(
        &self,
        contents: &Contents,
        options: &CompileOptions,
    ) -> Result<Section, LoadError> {
        let failed =
            |reason| LoadError::ModelFile { name: "model".to_owned(), reason: Box::new(reason) };
        let bytes = contents.to_bytes().map_err(failed)?;
        let container = Container::read(&ModelBytes::copy_of(&bytes)).map_err(failed)?;
        let cache = Cache::of_contents(contents.clone())?;
        let mut resources = self.resources.clone();
        resources.constants.use_cache(&cache);
        let mut models = Vec::new();
        for network in container.networks() {
            for stage in &network.stages {
                let bound = container.bound(stage, &network.name).map_err(failed)?;
                let mut options = options.clone();
                options.bind.ranges = bound.ranges;
                models.push(self.compile_by(bound.graph, resources.clone(), &options)?);
            }
        }
        Ok(cache.section()?)
    }

    /// Compiles parts of a quantized model for the HTA of a SoC, all that it takes unless nodes are said, and puts their programs
    /// into the contents, in the place of those for that SoC; and what kernels of this machine pack for the rest, on the DSP.
    ///
    /// # Errors
    /// The model computes with numbers, nodes asked for can be no program, or nothing can; or as for [`Runtime::prepare`].
    pub fn prepare_hta(
        &self,
        contents: &mut Contents,
        of: &PrepareHta,
    ) -> Result<HtaReport, LoadError> {
        let mut made = contents.clone();
        let report =
            hta::compile(&mut made, &self.resources.compiler(&CompileOptions::default()), of)
                .map_err(CompileError::from)?;
        made.drop_prepared();
        let section = self.prepare_with(&made, &CompileOptions::aip(of.soc))?;
        made.sections.push(section);
        *contents = made;
        Ok(report)
    }

    /// The model of a graph, with resources that are for it alone or for others that are packed with it.
    fn compile_by(
        &self,
        mut graph: Graph,
        mut resources: Resources,
        options: &CompileOptions,
    ) -> Result<Model, LoadError> {
        let constants = &mut resources.constants;
        // A file that is to be written wants all that its own model is made of.
        if constants.cache().is_none_or(|cache| !cache.writes()) {
            constants.derive_in(&self.derived);
        }
        let mut options = options.clone();
        let affinity = place::pin(&mut graph, &options.place.affinity);
        options.place.affinity = affinity.map_err(CompileError::from)?;
        if options.place.aip && !quant::speaks(&graph) {
            return Err(CompileError::from(HtaError::Numbers).into());
        }
        let mut notice = None;
        if let Some((made, said)) = quant::at_load(&graph, &self.resources, &options)? {
            // The graph gives them by now.
            options.more_outputs.clear();
            (graph, notice) = (made, Some(said));
        }
        let budget = options.budget();
        resources.constants.charge(budget.clone());
        let compiled = Model::compile(graph, resources, &options, &self.queues);
        let mut model = compiled.map_err(|reason: CompileError| {
            if budget.has_refused() {
                LoadError::OutOfMemory { limit: budget.limit(), reason: Box::new(reason) }
            } else {
                reason.into()
            }
        })?;
        if let Some(notice) = notice {
            model.note(notice);
        }
        Ok(model)
    }

    /// The graph in a model's file, as [`import::file`] reads it, but that operators of packages go before functions that the model has
    /// for them.
    ///
    /// # Errors
    /// As there.
    pub fn import(&self, path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
        import::file(path, &self.reading(options))
    }

    /// How files are read: operators of packages go before functions that a model has for them.
    fn reading(&self, options: &ImportOptions) -> ImportOptions {
        let mut reading = options.clone();
        let of = |(name, domain): (&str, &str)| PackagedOp {
            name: name.to_owned(),
            domain: Some(domain.to_owned()),
        };
        reading.packaged.extend(self.resources.operators.packaged_ops().map(of));
        reading
    }

    /// The same of a model that is compiled: its inputs are those that runs give.
    pub(crate) fn reading_for(&self, options: &LoadOptions) -> ImportOptions {
        let mut reading = self.reading(&options.import);
        let bind = &options.compile.bind;
        reading.given.extend(bind.given.iter().cloned());
        // What is bound to a package runs there, even if the model has a function for it.
        let bound = bind.bind.keys().map(|of| match of.rsplit_once(':') {
            Some((domain, name)) => (name, Some(domain.to_owned())),
            None => (of.as_str(), None),
        });
        reading
            .packaged
            .extend(bound.map(|(name, domain)| PackagedOp { name: name.to_owned(), domain }));
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the elements of the constant of a graph lie that a runtime loads of these bytes.
    fn constant(runtime: &Runtime, text: &str) -> (Graph, usize) {
        let mut graph = Graph::parse(text).unwrap();
        let source = ModelSource::of_bytes(ModelBytes::copy_of(text.as_bytes()));
        runtime.share(&mut graph, &source);
        let constants = graph.values.iter().find_map(|value| match &value.source {
            Source::Constant(tensor) => Some(tensor.bytes().as_ptr().addr()),
            Source::Input(_) | Source::Computed | Source::Outer => None,
        });
        let address = constants.unwrap();
        (graph, address)
    }

    #[test]
    fn weights_are_those_of_all_runtimes_of_the_process() {
        let text = |weight: f32| {
            format!(
                "graph g\n  input x: f32[777]\n  constant w: f32[777]{{{weight}}}\n  y = Mul@14(x, w)\n  output y\n"
            )
        };
        let runtimes = [0, 1].map(|_| Runtime::new().unwrap());
        let first = constant(&runtimes[0], &text(0.375));
        let second = constant(&runtimes[1], &text(0.375));
        assert_eq!(first.1, second.1, "equal ones lie in one place");
        let other = constant(&runtimes[1], &text(0.25));
        assert_ne!(first.1, other.1);
        // They stay for as long as anybody has them, whichever runtime made them.
        let [maker, user] = runtimes;
        drop((maker, first));
        assert_eq!(constant(&user, &text(0.375)).1, second.1);
    }
}
