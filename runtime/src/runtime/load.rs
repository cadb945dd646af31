//! Loads models: sources, options, and everything that is done once for a model.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use udo_compile::compiler::Resources;
use udo_compile::hta::{self, HtaError, HtaReport, PrepareHta};
use udo_compile::options::CompileOptions;
use udo_compile::place;
use udo_engine::cache::{Cache, CacheError, CacheOptions, ModelSource};
use udo_engine::device::{self, Coded, ErrorCode};
use udo_graph::container::{Container, Contents, Section};
use udo_graph::graph::{Graph, InPlace, Source};
use udo_graph::import::{self, ImportError, ImportOptions, PackagedOp};
use udo_graph::memory::{ModelBytes, TensorStorage};

use super::networks::Networks;
use super::{LoadError, Runtime};
use crate::model::{Model, Shared, Stage};
use crate::pipeline::CompileError;
use crate::quant;

/// The options of loading a model.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// How the file is imported.
    pub import: ImportOptions,
    /// How the model is compiled.
    pub compile: CompileOptions,
    /// A cache on disk for packed constants; none by default.
    pub cache: Option<CacheOptions>,
    /// Whether the model keeps its graph, so that [`Model::export`] can write it, and the cache stores the graph for
    /// [`LoadSource::Cached`]. A graph that is loaded with a cache is always kept.
    pub is_exportable: bool,
}

impl From<CompileOptions> for LoadOptions {
    fn from(compile: CompileOptions) -> Self {
        Self { compile, ..Self::default() }
    }
}

/// The source of a model.
#[derive(Clone, Debug)]
pub enum LoadSource<'a> {
    /// A file: ONNX, a model file of `udo convert`, or a printed graph. Only this file is read, and it must not change
    /// while the model exists.
    File(PathBuf),
    /// The bytes of such a file, which are copied.
    Bytes(&'a [u8]),
    /// A graph.
    Graph(Box<Graph>),
    /// A model that an earlier process left in the cache of the options: it was loaded from a graph or with
    /// `is_exportable`. The name is needed if there are several.
    Cached(Option<&'a str>),
}

impl From<&str> for LoadSource<'_> {
    fn from(path: &str) -> Self {
        Self::File(path.into())
    }
}

impl From<&Path> for LoadSource<'_> {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<&PathBuf> for LoadSource<'_> {
    fn from(path: &PathBuf) -> Self {
        Self::File(path.clone())
    }
}

impl From<PathBuf> for LoadSource<'_> {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl<'a> From<&'a [u8]> for LoadSource<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for LoadSource<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for LoadSource<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Graph> for LoadSource<'_> {
    fn from(graph: Graph) -> Self {
        Self::Graph(Box::new(graph))
    }
}

/// Attaches a cache, if there is one.
fn look_in(
    resources: &mut Resources,
    cache: Result<Option<Arc<Cache>>, CacheError>,
) -> Result<(), CacheError> {
    if let Some(cache) = cache? {
        resources.constants.use_cache(&cache);
    }
    Ok(())
}

impl Runtime {
    /// Loads a model from a source.
    ///
    /// ```
    /// use udo_runtime::{CompileOptions, LoadOptions, Runtime};
    /// use udo_runtime::graph::Graph;
    ///
    /// let runtime = Runtime::new()?;
    /// let graph = Graph::parse("graph g\n  input x: f32[2]\n  y = Relu@14(x)\n  output y\n")?;
    /// let model = runtime.load(graph, &LoadOptions::from(CompileOptions::default()))?;
    /// let mut session = model.session()?;
    /// session.input_mut::<f32>("x")?.copy_from_slice(&[-1.0, 2.0]);
    /// session.run()?;
    /// assert_eq!(session.output::<f32>("y")?, [0.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The source cannot be read, its model cannot be compiled, or the cache cannot be used: the folder does not exist,
    /// was written by a newer version, or lacks the model. A cache file that is damaged or cannot be written is not an
    /// error; [`Model::cache`] and the report mention it.
    pub fn load<'a>(
        &self,
        source: impl Into<LoadSource<'a>>,
        options: &LoadOptions,
    ) -> Result<Model, LoadError> {
        match source.into() {
            LoadSource::File(path) => {
                Self::one_of(&self.networks_of_file(&path, options)?, options)
            }
            LoadSource::Bytes(bytes) => {
                Self::one_of(&self.networks_of_bytes(bytes, options)?, options)
            }
            LoadSource::Graph(graph) => self.load_graph(*graph, options),
            LoadSource::Cached(name) => self.restore(name, options),
        }
    }

    /// Returns the network that the options name, or its stage. A single stage is compiled at once.
    fn one_of(networks: &Networks, options: &LoadOptions) -> Result<Model, LoadError> {
        let ImportOptions { network, stage, .. } = &options.import;
        let network = networks.get(network.as_deref())?;
        match stage {
            Some(stage) => network.stage(*stage),
            None if network.stage_count() == 1 => network.stage(0),
            None => network.model(),
        }
    }

    /// Returns the cache of a file's graphs. A model that may be exported has a cache of its own. `read` is the model
    /// file, if it has been read already.
    pub(crate) fn cache_of(
        source: &ModelSource,
        read: Option<&Container>,
        options: &LoadOptions,
    ) -> Result<Option<Arc<Cache>>, LoadError> {
        if options.is_exportable {
            return Ok(None);
        }
        Ok(Cache::for_model(options.cache.as_ref(), source, read)?)
    }

    /// Compiles a graph from a file, with the file's cache.
    pub(crate) fn compile_of(
        &self,
        mut graph: Graph,
        (source, cache): (&ModelSource, Option<&Arc<Cache>>),
        options: &LoadOptions,
        shared: &Shared,
    ) -> Result<Stage, LoadError> {
        let mut resources = self.resources.clone();
        if options.is_exportable {
            graph.add_in_place(&options.compile.in_place);
            let (cache, ranges) = (options.cache.as_ref(), &options.compile.bind.ranges);
            let own = Cache::for_graph(cache, &graph, ranges, Some(source.bytes()));
            look_in(&mut resources, own.map(Some))?;
        } else if options.cache.is_none() {
            // The cache identifies constants by their position in their own file.
            self.share(&mut graph, source);
        }
        if let Some(cache) = cache {
            resources.constants.use_cache(cache);
        }
        self.compile_by(graph, resources, &options.compile, shared)
    }

    /// Returns the model that an earlier process left in the cache of the options.
    fn restore(&self, name: Option<&str>, options: &LoadOptions) -> Result<Model, LoadError> {
        let none = || {
            let why = "there is no cache folder; expected one";
            device::Error::new(ErrorCode::InvalidArgument, why)
        };
        let asked = options.cache.as_ref().ok_or_else(none)?;
        let (cache, stage) = Cache::restore(asked, name)?;
        let (mut resources, mut compile) = (self.resources.clone(), options.compile.clone());
        for (name, range) in stage.ranges {
            compile.bind.ranges.entry(name).or_insert(range);
        }
        resources.constants.use_cache(&cache);
        self.model_of(stage.graph, resources, &compile)
    }

    /// Replaces constants by equal ones of other models, so that they share packed constants.
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

    /// Loads a model from a graph, with a cache if one is requested.
    fn load_graph(&self, mut graph: Graph, options: &LoadOptions) -> Result<Model, LoadError> {
        let mut resources = self.resources.clone();
        if options.cache.is_some() || options.is_exportable {
            graph.add_in_place(&options.compile.in_place);
            let ranges = &options.compile.bind.ranges;
            let cache = Cache::for_graph(options.cache.as_ref(), &graph, ranges, None);
            look_in(&mut resources, cache.map(Some))?;
        }
        self.model_of(graph, resources, &options.compile)
    }

    /// Returns a section with the constants that kernels of this machine pack for all stages of a model file. Loads on
    /// machines of this kind then skip packing.
    ///
    /// # Errors
    /// A stage cannot be compiled, or the file would be too large.
    pub fn prepare(&self, contents: &Contents) -> Result<Section, LoadError> {
        self.prepare_with(contents, &CompileOptions::default())
    }

    /// Does the same as [`Runtime::prepare`] for models that are compiled with these options.
    ///
    /// # Errors
    /// The same as for [`Runtime::prepare`].
    fn prepare_with(
        &self,
        contents: &Contents,
        options: &CompileOptions,
    ) -> Result<Section, LoadError> {
        let failed =
            |reason| LoadError::ModelFile { name: "model".to_owned(), reason: Box::new(reason) };
        let bytes = contents.to_bytes().map_err(failed)?;
        let container = Container::read(&ModelBytes::copy_of(&bytes)).map_err(failed)?;
        let cache = Cache::for_contents(contents.clone())?;
        let mut resources = self.resources.clone();
        resources.constants.use_cache(&cache);
        let mut models = Vec::new();
        for network in container.networks() {
            for stage in &network.stages {
                let bound = container.bound(stage, &network.name).map_err(failed)?;
                let mut options = options.clone();
                options.bind.ranges = bound.ranges;
                models.push(self.model_of(bound.graph, resources.clone(), &options)?);
            }
        }
        Ok(cache.section()?)
    }

    /// Compiles parts of a quantized model for the HTA of a SoC: the requested nodes, or everything that the SoC
    /// supports. Replaces the programs for that SoC in `contents`, and adds the constants that kernels of this machine
    /// pack for the other nodes on the DSP.
    ///
    /// # Errors
    /// The model is a float model, requested nodes cannot be one program, or no node can; or the same as for
    /// [`Runtime::prepare`].
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

    /// Compiles a model from a graph, with resources of its own or shared ones.
    fn model_of(
        &self,
        graph: Graph,
        resources: Resources,
        options: &CompileOptions,
    ) -> Result<Model, LoadError> {
        let shared = Shared::new(options, &self.queues)?;
        let stage = self.compile_by(graph, resources, options, &shared)?;
        Ok(Model::of_stage(Arc::new(stage), shared))
    }

    /// Compiles a graph with these resources, after the steps that come before the pipeline.
    fn compile_by(
        &self,
        mut graph: Graph,
        mut resources: Resources,
        options: &CompileOptions,
        shared: &Shared,
    ) -> Result<Stage, LoadError> {
        let constants = &mut resources.constants;
        // A file that is being written needs everything that its own model packs.
        if constants.cache().is_none_or(|cache| !cache.writes()) {
            constants.derive_in(&self.derived);
        }
        let mut options = options.clone();
        let affinity = place::pin(&mut graph, &options.place.affinity);
        options.place.affinity = affinity.map_err(CompileError::from)?;
        if options.place.aip && !quant::has_encodings(&graph) {
            return Err(CompileError::from(HtaError::Numbers).into());
        }
        let mut notices = Vec::new();
        if let Some(converted) = quant::at_load(&graph, &self.resources, &options)? {
            // The outputs have been added to the graph.
            options.more_outputs.clear();
            (graph, notices) = converted;
        }
        let budget = &shared.budget;
        // Another stage of the model may have run out of memory before.
        let had_refused = budget.has_refused();
        resources.constants.charge(budget.clone());
        let compiled = Stage::compile(graph, resources, &options, shared);
        let mut stage = compiled.map_err(|reason: CompileError| {
            let is_refused = budget.has_refused() && !had_refused;
            if is_refused || reason.code() == ErrorCode::OutOfMemory {
                LoadError::OutOfMemory { limit: budget.limit(), reason: Box::new(reason) }
            } else {
                reason.into()
            }
        })?;
        for notice in notices.into_iter().rev() {
            stage.note(notice);
        }
        Ok(stage)
    }

    /// Imports the graph of a file like [`import::file`], except that operators of packages take precedence over
    /// functions that the model has for them.
    ///
    /// # Errors
    /// The same as for [`import::file`].
    pub fn import(&self, path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
        import::file(path, &self.reading(options))
    }

    /// Returns import options with which operators of packages take precedence over model functions.
    fn reading(&self, options: &ImportOptions) -> ImportOptions {
        let mut reading = options.clone();
        let of = |(name, domain): (&str, &str)| PackagedOp {
            name: name.to_owned(),
            domain: Some(domain.to_owned()),
        };
        reading.packaged.extend(self.resources.operators.packaged_ops().map(of));
        reading
    }

    /// Does the same for a model that is compiled: its inputs are those that runs set.
    pub(crate) fn reading_for(&self, options: &LoadOptions) -> ImportOptions {
        let mut reading = self.reading(&options.import);
        let bind = &options.compile.bind;
        reading.given.extend(bind.overridden.iter().cloned());
        // A bound operator runs in its package, even if the model has a function for it.
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

    /// Returns the address of a constant's elements in a graph that a runtime loads from these bytes.
    fn constant(runtime: &Runtime, text: &str) -> (Graph, usize) {
        let mut graph = Graph::parse(text).unwrap();
        let source = ModelSource::from_bytes(ModelBytes::copy_of(text.as_bytes()));
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
        // They stay as long as anything uses them, whichever runtime created them.
        let [maker, user] = runtimes;
        drop((maker, first));
        assert_eq!(constant(&user, &text(0.375)).1, second.1);
    }
}
