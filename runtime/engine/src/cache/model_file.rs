//! Model files with prepacked weights: those in the folder of a cache, from which models are restored without the original,
//! precompiled ones, and exported ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{Stored, StoredError};
use super::key::Key;
use super::source::sanitized;
use super::write::{self, PackedWeights};
use super::{
    Cache, CacheError, CacheOptions, CacheOutcome, ModelSource, OpenedCache, Storage, check_folder,
};
use udo_graph::container::{
    BoundStage, Container, Contents, Extent, Network, Provenance, Section, Stage, StoredGraph,
};
use udo_graph::graph::{DimSpec, Graph, Source};
use udo_graph::memory::ModelBytes;

/// The file name extension of model files in the folder of a cache.
const SUFFIX: &str = "udm";

/// The ranges of named dimensions.
type Ranges = BTreeMap<String, std::ops::RangeInclusive<usize>>;

impl Cache {
    /// Opens the cache of a graph: a model file in the folder of `options`, or in memory without options. `prepared` are the
    /// bytes of the model file that the graph comes from, if any.
    ///
    /// # Errors
    /// Fails as [`Cache::for_model`] does.
    pub fn for_graph(
        options: Option<&CacheOptions>,
        graph: &Graph,
        ranges: &Ranges,
        prepared: Option<&ModelBytes>,
    ) -> Result<Arc<Self>, CacheError> {
        let version = options.map_or(0, |options| options.version);
        let contents = contents(graph, ranges);
        let (code, key) = Key::now(version, contents.content()?, None)?;
        let (path, found) = match options {
            Some(CacheOptions { dir, .. }) => {
                refuse_unsafe(dir)?;
                let name = sanitized(&graph.name);
                let path = dir.join(format!("{name}-{:032x}.{SUFFIX}", key.content));
                let found = OpenedCache::new(open(&path), &path, &key)?;
                (Some(path), found)
            }
            None => (None, OpenedCache { stored: None, outcome: CacheOutcome::Miss }),
        };
        let of_file = match prepared.filter(|_| found.stored.is_none()) {
            Some(bytes) => stored_in(bytes).map_err(|why| damaged(why.to_string()))?,
            None => None,
        };
        let any = |version| Key { version, ..key.clone() };
        let of_file = of_file.filter(|of| of.key.differs(&any(of.key.version)).is_none());
        let is_of_file = of_file.is_some();
        let found = match of_file {
            Some(stored) => OpenedCache { stored: Some(stored), outcome: CacheOutcome::Hit },
            None => found,
        };
        let home = Storage::Model(Box::new(contents), path);
        let cache = Self::new(home, (code, key), ModelSource::by_content(), found);
        // The folder does not have it yet.
        cache.lock().is_stale |= is_of_file;
        Ok(cache)
    }

    /// Creates the cache of a model file that is to be written. It is kept in memory; [`Cache::section`] returns the section to
    /// add.
    ///
    /// # Errors
    /// Fails if the contents are too large, or this system does not support caches.
    pub fn for_contents(contents: Contents) -> Result<Arc<Self>, CacheError> {
        let key = Key::now(0, contents.content()?, None)?;
        let home = Storage::Model(Box::new(contents), None);
        let found = OpenedCache { stored: None, outcome: CacheOutcome::Miss };
        Ok(Self::new(home, key, ModelSource::by_content(), found))
    }

    /// Returns the prepacked weights of a model file, if it has any.
    pub(super) fn prepared(container: &Container) -> Result<Option<Arc<Self>>, CacheError> {
        let Some(section) = container.prepared() else { return Ok(None) };
        let stored = Stored::read(Arc::new(section)).map_err(|why| damaged(why.to_string()))?;
        // Prepacked weights are useless if functions cannot be identified.
        let Ok((code, key)) = Key::now(stored.key.version, container.content(), None) else {
            return Ok(None);
        };
        let found = match stored.key.differs(&key) {
            None => OpenedCache { stored: Some(stored), outcome: CacheOutcome::Hit },
            Some(what) => OpenedCache {
                stored: None,
                outcome: CacheOutcome::Unfit(format!("it belongs to {what}")),
            },
        };
        let source = ModelSource::by_content();
        Ok(Some(Self::new(Storage::Prepared, (code, key), source, found)))
    }

    /// Restores the model called `name`, or the only one, that an earlier process left in the folder. Returns its cache and its
    /// graph.
    ///
    /// # Errors
    /// Fails if there is no such model or several, or its file is damaged or has another version.
    pub fn restore(
        options: &CacheOptions,
        name: Option<&str>,
    ) -> Result<(Arc<Self>, BoundStage), CacheError> {
        let path = find(&options.dir, name)?;
        let what = || format!("the cache's file {}", path.display());
        let damaged = |reason: String| CacheError::Damaged { what: what(), reason };
        let bytes = read_safe(&path).map_err(|error| damaged(error.to_string()))?;
        let container = Container::read(&bytes).map_err(|error| damaged(error.to_string()))?;
        let stored = container.prepared().map(|section| Stored::read(Arc::new(section)));
        let stored = stored.transpose().map_err(|why| damaged(why.to_string()))?;
        let stored = stored.ok_or_else(|| damaged("it has no prepacked weights".to_owned()))?;
        let (found, expected) = (stored.key.version, options.version);
        if found < expected {
            return Err(CacheError::Older { path, found, expected });
        }
        let (code, key) = Key::now(expected, container.content(), None)?;
        let found = OpenedCache::new(Ok(Some(stored)), &path, &key)?;
        let of = |error: udo_graph::container::ContainerError| damaged(error.to_string());
        let network = container.network(None).map_err(of)?;
        let stage = network.stage(0).map_err(of)?;
        let bound = container.bound(stage, &network.name).map_err(of)?;
        let (shapes, source) = (stage.shapes.clone(), stage.source.clone());
        let stages = vec![Stage { shapes, source, graph: container.graph(stage).map_err(of)? }];
        let networks = vec![Network { name: network.name.clone(), stages }];
        let contents = Contents { networks, sections: Vec::new() };
        let home = Storage::Model(Box::new(contents), Some(path));
        Ok((Self::new(home, (code, key), ModelSource::by_content(), found), bound))
    }

    /// Returns a model file with the graph and its prepacked weights, for `Runtime::load`.
    ///
    /// # Errors
    /// Fails if the graph was not kept, or the file would be too large.
    pub fn export(&self) -> Result<Vec<u8>, CacheError> {
        let Storage::Model(contents, _) = &self.home else { return Err(CacheError::NotExportable) };
        let section = self.section()?;
        Ok(with(contents, section).to_bytes()?)
    }

    /// Returns the section of a model file with all prepacked weights.
    ///
    /// # Errors
    /// Fails if it would be too large.
    pub fn section(&self) -> Result<Section, CacheError> {
        let mut state = self.lock();
        let stored = state.stored.clone();
        let weights = write::with_earlier(&state.take_all(), stored.as_deref());
        drop(state);
        Ok(packed(&self.key, &weights)?)
    }
}

/// Creates the error for damaged prepacked weights in a model file.
pub(super) fn damaged(reason: String) -> CacheError {
    CacheError::Damaged { what: "the precompiled part of the model file".to_owned(), reason }
}

/// Converts a graph to the content of a model file.
fn contents(graph: &Graph, ranges: &Ranges) -> Contents {
    let extent = |dim: &DimSpec| match dim {
        DimSpec::Named(name) => ranges.get(name).map_or(Extent::Any, |range| Extent::Range {
            min: *range.start(),
            opt: None,
            max: *range.end(),
        }),
        DimSpec::Fixed(_) | DimSpec::Unknown => Extent::Any,
    };
    let mut shapes = BTreeMap::new();
    for &input in &graph.inputs {
        let Ok(value) = graph.value(input) else { continue };
        let Source::Input(of) = &value.source else { continue };
        let extents: Vec<Extent> = of.dims.iter().map(extent).collect();
        if extents.iter().any(|extent| *extent != Extent::Any) {
            shapes.insert(value.name.clone(), extents);
        }
    }
    let (source, graph_of) = (Provenance::default(), StoredGraph::new(graph.clone()));
    let stages = vec![Stage { shapes, source, graph: graph_of }];
    let name = if graph.name.is_empty() { "model" } else { &graph.name };
    let networks = vec![Network { name: name.to_owned(), stages }];
    Contents { networks, sections: Vec::new() }
}

fn with(contents: &Contents, section: Section) -> Contents {
    Contents { networks: contents.networks.clone(), sections: vec![section] }
}

fn packed(
    key: &Key,
    weights: &PackedWeights,
) -> Result<Section, udo_graph::container::ContainerError> {
    let mut bytes = Vec::new();
    // Writing to memory fails only if sizes overflow.
    let written = write::write_to(&mut bytes, key, weights);
    written.map_err(|source| {
        let path = PathBuf::from("memory");
        udo_graph::container::ContainerError::Write { path, source }
    })?;
    Section::prepared(bytes)
}

/// Writes the model file of a graph with its prepacked weights.
pub(super) fn write(
    contents: &Contents,
    path: &Path,
    key: &Key,
    weights: &PackedWeights,
    earlier: Option<&Stored>,
) -> Result<(), String> {
    let section =
        packed(key, &write::with_earlier(weights, earlier)).map_err(|error| error.to_string())?;
    let bytes = with(contents, section).to_bytes().map_err(|error| error.to_string())?;
    udo_files::remove_abandoned(path);
    udo_files::write_with(path, udo_files::Access::Owner, |out| io::Write::write_all(out, &bytes))
        .map_err(|error| error.to_string())
}

/// Maps a file of a cache, unless it is a link or another user may write it.
fn read_safe(path: &Path) -> io::Result<ModelBytes> {
    let file = udo_files::open_no_link(path)?;
    if let Some(writers) = udo_files::writable_by(&file.metadata()?) {
        return Err(io::Error::other(format!("{writers} may write it")));
    }
    ModelBytes::map(file)
}

/// Opens the prepacked weights in a model file, if it exists.
pub(super) fn open(path: &Path) -> Result<Option<Stored>, StoredError> {
    match read_safe(path) {
        Ok(bytes) => stored_in(&bytes)?.map(Some).ok_or(StoredError::NothingPacked),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the prepacked weights in the bytes of a model file, if any.
fn stored_in(bytes: &ModelBytes) -> Result<Option<Stored>, StoredError> {
    if !Container::is_prepared(bytes) {
        return Ok(None);
    }
    let container = Container::read(bytes)?;
    container.prepared().map(|section| Stored::read(Arc::new(section))).transpose()
}

/// Returns the path of the model called `name`, or of the only one.
/// Refuses a folder that does not exist or that another user may write: the graph itself would come from it.
fn refuse_unsafe(dir: &Path) -> Result<(), CacheError> {
    match check_folder(dir)? {
        Some(_) => {
            let reason = "other users may write it".to_owned();
            Err(CacheError::NoFolder { dir: dir.to_owned(), reason })
        }
        None => Ok(()),
    }
}

fn find(dir: &Path, name: Option<&str>) -> Result<PathBuf, CacheError> {
    refuse_unsafe(dir)?;
    let entries = fs::read_dir(dir)
        .map_err(|error| CacheError::NoFolder { dir: dir.to_owned(), reason: error.to_string() })?;
    let is_model = |path: &PathBuf| path.extension() == Some(OsStr::new(SUFFIX));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_model).collect();
    paths.sort();
    let name_of = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned())
    };
    paths.retain(|path| name.is_none_or(|name| name_of(path) == sanitized(name)));
    match paths.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CacheError::NoModel { dir: dir.to_owned(), name: name.map(str::to_owned) }),
        several => {
            let known = several.iter().map(name_of).collect();
            Err(CacheError::SeveralModels { dir: dir.to_owned(), known })
        }
    }
}
