//! What programs begin with: operators and devices, of which models are made.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::cache::{Cache, CacheOptions, ModelSource};
use crate::device::{Device, DeviceSpec, Devices, Error, ErrorCode, Result};
use crate::graph::{Graph, Source};
use crate::import::{self, ImportOptions, PackagedOp};
use crate::memory::{Derived, ModelBytes};
use crate::model::{Model, Options};
use crate::registry::Registry;
use crate::run::Queues;

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
    registry: Registry,
    queues: Arc<Queues>,
    /// Constants of models: one that another model has is the same.
    constants: Derived,
}

/// What a runtime is to be made of.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    packages: Vec<PathBuf>,
    devices: Vec<DeviceSpec>,
}

impl Builder {
    /// With a package of operators: its folder, `dist` folder or registration library.
    #[must_use]
    pub fn package(mut self, path: impl Into<PathBuf>) -> Self {
        self.packages.push(path.into());
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
    pub fn build(self) -> Result<Runtime> {
        let devices = match self.devices.as_slice() {
            [] => Devices::default(),
            specs => Devices::new(specs)?,
        };
        let mut registry = built_in()?;
        for path in &self.packages {
            registry.open(path)?;
        }
        Ok(Runtime::of(registry, devices))
    }
}

/// The built-in operators. Their tables stay for the life of the process, so that all runtimes have one copy.
fn built_in() -> Result<Registry> {
    static BUILT_IN: OnceLock<Registry> = OnceLock::new();
    if let Some(registry) = BUILT_IN.get() {
        return Ok(registry.clone());
    }
    let made = Registry::builtin()?;
    Ok(BUILT_IN.get_or_init(|| made).clone())
}

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// How its file is read.
    pub import: ImportOptions,
    /// How it is compiled.
    pub compile: Options,
    /// Where what is packed of its constants is kept for the next process; nowhere unless said.
    pub cache: Option<CacheOptions>,
}

/// Has what is packed of the model of `source` looked for in the cache, if one is asked for.
fn look_in_cache(
    registry: &mut Registry,
    source: &ModelSource,
    options: &LoadOptions,
) -> Result<()> {
    let Some(options) = &options.cache else { return Ok(()) };
    let cache = Cache::open(options, source.clone());
    registry.use_cache(&cache.map_err(|error| Error::of(error.code(), &error))?);
    Ok(())
}

impl Runtime {
    /// The built-in operators, and one device of each kind.
    ///
    /// # Errors
    /// The built-in operators break the contract, which is a fault of this library.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// What says of what a runtime is made.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// These operators and devices.
    pub fn of(registry: Registry, devices: Devices) -> Self {
        Self { registry, queues: Queues::new(devices), constants: Derived::default() }
    }

    /// The operators.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        self.queues.devices()
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

    /// The model in a file: ONNX, a model file of `udo convert`, or a printed graph. The file is read alone, and has to stay as it is
    /// for as long as the model is there.
    ///
    /// # Errors
    /// The file cannot be read, or its model not be made to run.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model> {
        self.load_with(path, &LoadOptions::default())
    }

    /// As [`Runtime::load`], with options.
    ///
    /// # Errors
    /// As there, or the cache cannot be used: its folder is not there, or a newer version wrote in it. A file of the cache that
    /// is damaged, or cannot be written, is no error: [`Model::cache`] and the report say so.
    pub fn load_with(&self, path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model> {
        let (path, reading) = (path.as_ref(), self.reading(options));
        let source = ModelSource::of(path, |path| reading.reading.bytes(path))?;
        let mut registry = self.registry.clone();
        look_in_cache(&mut registry, &source, options)?;
        let mut graph = import::read(source.bytes(), path, &reading)?;
        self.share(&mut graph, &source);
        self.compile_with(graph, registry, &options.compile)
    }

    /// The model in the bytes of such a file, which are copied.
    ///
    /// # Errors
    /// They are no such file, or its model cannot be made to run.
    pub fn load_bytes(&self, bytes: &[u8], options: &LoadOptions) -> Result<Model> {
        let source = ModelSource::of_bytes(ModelBytes::copy_of(bytes));
        let mut registry = self.registry.clone();
        look_in_cache(&mut registry, &source, options)?;
        let mut graph = import::model_bytes(source.bytes(), "model", &self.reading(options))?;
        self.share(&mut graph, &source);
        self.compile_with(graph, registry, &options.compile)
    }

    /// Has constants that another model has, or had, be the same, so that what is packed of them is.
    fn share(&self, graph: &mut Graph, source: &ModelSource) {
        for value in &mut graph.values {
            let Source::Constant(tensor) = &mut value.source else { continue };
            let key = format!("{} {}", tensor.desc(), source.key(tensor.stored()));
            let found = self.constants.get(key, || Ok::<_, Infallible>(vec![Some(tensor.clone())]));
            if let Ok([Some(found)]) = found.as_deref() {
                *tensor = found.clone();
            }
        }
    }

    /// The model of a graph.
    ///
    /// # Errors
    /// The first step that fails says why.
    pub fn compile(&self, graph: Graph, options: &Options) -> Result<Model> {
        self.compile_with(graph, self.registry.clone(), options)
    }

    fn compile_with(
        &self,
        graph: Graph,
        mut registry: Registry,
        options: &Options,
    ) -> Result<Model> {
        let compiled = Model::compile_for(graph, &mut registry, options, &self.queues);
        compiled.map_err(|error| {
            let is_of_memory = registry.packs().budget().has_refused();
            let code = if is_of_memory { ErrorCode::OutOfMemory } else { error.code() };
            Error::of(code, &error)
        })
    }

    /// How files are read: operators of packages go before functions that a model has for them.
    pub(crate) fn reading(&self, options: &LoadOptions) -> ImportOptions {
        let mut reading = options.import.clone();
        let of = |(name, domain): (&str, Option<&str>)| PackagedOp {
            name: name.to_owned(),
            domain: domain.map(str::to_owned),
        };
        reading.packaged.extend(self.registry.packaged_ops().map(of));
        reading
    }
}
