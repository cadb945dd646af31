//! How models are loaded: what of, with which options, and all that is done once for each.

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
    /// [`LoadSource::Cached`] is the model of that alone. A graph that is loaded with a cache is held in any case.
    pub is_exportable: bool,
}

impl From<CompileOptions> for LoadOptions {
    fn from(compile: CompileOptions) -> Self {
        Self { compile, ..Self::default() }
    }
}

/// What a model is loaded of.
#[derive(Clone, Debug)]
pub enum LoadSource<'a> {
    /// A file: ONNX, a model file of `udo convert`, or a printed graph. It is read alone, and has to stay as it is for as long as
    /// the model is there.
    File(PathBuf),
    /// The bytes of such a file, which are copied.
    Bytes(&'a [u8]),
    /// A graph.
    Graph(Box<Graph>),
    /// The model that an earlier process left in the folder of the options' cache: one that was loaded of a graph, or asked to be
    /// exportable. The name says which, where there are several.
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

impl Runtime {
    /// The model of a source.
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
    /// The source cannot be read, or its model not be made to run; or the cache cannot be used: its folder is not there, a newer
    /// version wrote in it, or it has no such model. A file of the cache that is damaged, or cannot be written, is no error:
    /// [`Model::cache`] and the report say so.
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

    /// The network that the options name, or its stage; the only stage there is, is compiled at once.
    fn one_of(networks: &Networks, options: &LoadOptions) -> Result<Model, LoadError> {
        let ImportOptions { network, stage, .. } = &options.import;
        let network = networks.get(network.as_deref())?;
        match stage {
            Some(stage) => network.stage(*stage),
            None if network.stage_count() == 1 => network.stage(0),
            None => network.model(),
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

    /// A graph that was read of a file, compiled with the file's cache.
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
            let own = Cache::of_graph(cache, &graph, ranges, Some(source.bytes()));
            look_in(&mut resources, own.map(Some))?;
        } else if options.cache.is_none() {
            // A cache knows constants by where they lie in their own file.
            self.share(&mut graph, source);
        }
        if let Some(cache) = cache {
            resources.constants.use_cache(cache);
        }
        self.compile_by(graph, resources, &options.compile, shared)
    }

    /// The model that an earlier process left in the folder of the options' cache.
    fn restore(&self, name: Option<&str>, options: &LoadOptions) -> Result<Model, LoadError> {
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
        self.model_of(stage.graph, resources, &compile)
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

    /// The model of a graph, with a cache where one is asked for.
    fn load_graph(&self, mut graph: Graph, options: &LoadOptions) -> Result<Model, LoadError> {
        let mut resources = self.resources.clone();
        if options.cache.is_some() || options.is_exportable {
            graph.add_in_place(&options.compile.in_place);
            let ranges = &options.compile.bind.ranges;
            let cache = Cache::of_graph(options.cache.as_ref(), &graph, ranges, None);
            look_in(&mut resources, cache.map(Some))?;
        }
        self.model_of(graph, resources, &options.compile)
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
    fn prepare_with(
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
                models.push(self.model_of(bound.graph, resources.clone(), &options)?);
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

    /// A graph, compiled with such resources: what comes before the steps of the pipeline is done here, once.
    fn compile_by(
        &self,
        mut graph: Graph,
        mut resources: Resources,
        options: &CompileOptions,
        shared: &Shared,
    ) -> Result<Stage, LoadError> {
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
        let budget = &shared.budget;
        // Another stage of the model may have been refused memory before.
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
        if let Some(notice) = notice {
            stage.note(notice);
        }
        Ok(stage)
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
