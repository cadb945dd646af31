//! Prepacked weights in files, for the next process that loads the model.
//!
//! A cache has one file per model in its folder. Only packers read it: a model is read, placed and planned as without a cache,
//! and looks up prepacked weights by an id of everything that they depend on. So a file can be useless, but not wrong. Files are
//! not trusted: restored weights must have the size that the kernel expects and the recorded checksum.
//!
//! `docs/ARCHITECTURE.md` describes the ids of prepacked weights.
#![deny(clippy::as_conversions)]

mod code;
mod file;
mod key;
mod model_file;
mod report;
mod source;
mod stamp;
mod write;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use udo_api::TensorDesc;
use udo_host::{PackCache, PackOf, PackedBytes, PackedFrom};

use code::Code;
use file::{Stored, StoredError, Verification};
use key::Key;
pub use report::{CacheError, CacheOptions, CacheOutcome, CacheReport};
pub use source::ModelSource;
use udo_graph::container::checksum::sum128;
use udo_graph::container::{Container, Contents};
use udo_graph::memory::{SharedBytes, Tensor, TensorStorage};
use write::PackedWeights;

/// The cache of one model.
#[derive(Debug)]
pub struct Cache {
    home: Storage,
    key: Key,
    /// The cache holds the bytes, so that no other bytes can have their addresses.
    source: ModelSource,
    code: Code,
    state: Mutex<State>,
    restored: AtomicUsize,
    packed: AtomicUsize,
}

/// The place where prepacked weights are stored.
#[derive(Debug)]
enum Storage {
    /// A separate cache file.
    File(PathBuf),
    /// A model file with the graph; only in memory if it has no path.
    Model(Box<Contents>, Option<PathBuf>),
    /// A precompiled model file, which is not modified.
    Prepared,
    /// A folder that another user may write.
    Unsafe(PathBuf),
}

#[derive(Debug)]
struct State {
    outcome: CacheOutcome,
    not_saved: Option<String>,
    /// The file as it was opened or last written.
    stored: Option<Arc<Stored>>,
    /// The prepacked weights that are or were in use.
    made: BTreeMap<u128, Weak<PackedBytes>>,
    /// Computed constants, kept until they are saved.
    constants: BTreeMap<u128, Tensor>,
    /// Whether the file is incomplete.
    is_stale: bool,
}

impl Cache {
    /// Opens the cache of the model `source`: a file in the folder of `options`, or the prepacked weights in the model file
    /// itself. `read` is the model file if it was read before.
    ///
    /// # Errors
    /// Fails if the folder does not exist, its file has a newer version, this system does not support caches, or the prepacked
    /// weights in a model file are damaged.
    pub fn for_model(
        options: Option<&CacheOptions>,
        source: &ModelSource,
        read: Option<&Container>,
    ) -> Result<Option<Arc<Self>>, CacheError> {
        match (options, read) {
            (Some(options), _) => Self::open(options, source.clone()).map(Some),
            (None, Some(container)) => Self::prepared(container),
            (None, None) if Container::is_prepared(source.bytes()) => {
                // Readers of the file report what is wrong with it.
                Container::read(source.bytes())
                    .map_or(Ok(None), |container| Self::prepared(&container))
            }
            (None, None) => Ok(None),
        }
    }

    /// Opens the cache of the model `source` in a folder.
    fn open(options: &CacheOptions, source: ModelSource) -> Result<Arc<Self>, CacheError> {
        let path = options.dir.join(source.file_name());
        if let Some(why) = check_folder(&options.dir)? {
            let key = Key::now(options.version, source.content(None), source.stamp())?;
            let found = OpenedCache { stored: None, outcome: CacheOutcome::NotUsed(why) };
            return Ok(Self::new(Storage::Unsafe(path), key, source, found));
        }
        let found = Stored::open(&path);
        let known = found.as_ref().ok().and_then(Option::as_ref).map(|stored| &stored.key);
        let content = source.content(known);
        let (code, key) = Key::now(options.version, content, source.stamp())?;
        let found = OpenedCache::new(found, &path, &key)?;
        Ok(Self::new(Storage::File(path), (code, key), source, found))
    }

    fn new(
        home: Storage,
        (code, key): (Code, Key),
        source: ModelSource,
        found: OpenedCache,
    ) -> Arc<Self> {
        let OpenedCache { stored, outcome } = found;
        // A file that was too new to be identified by its times may be old enough now.
        let is_stale = stored.as_ref().is_none_or(|s| s.key.stamp.is_none() && key.stamp.is_some());
        let (stored, (made, constants)) = (stored.map(Arc::new), Default::default());
        let state =
            Mutex::new(State { outcome, not_saved: None, stored, made, constants, is_stale });
        let (restored, packed) = Default::default();
        Arc::new(Self { home, key, source, code, state, restored, packed })
    }

    /// Runs `work`, the loading of a model with `threads` threads, while the other threads verify checksums of the file in
    /// advance.
    pub fn with_background_verification<T>(
        &self,
        threads: NonZero<usize>,
        work: impl FnOnce() -> T,
    ) -> T {
        let others = threads.get() - 1;
        let stored = self.stored().filter(|stored| others > 0 && stored.start_verification());
        let Some(stored) = stored else { return work() };
        let ahead = Verification::default();
        thread::scope(|scope| {
            for _ in 0..others {
                let look = thread::Builder::new().name("udo-cache".to_owned());
                if look.spawn_scoped(scope, || stored.verify(&ahead)).is_err() {
                    // Restoring verifies what was not verified in advance.
                    break;
                }
            }
            let _over = EndOnDrop(&ahead);
            work()
        })
    }

    /// Returns an id of a constant that is the same in all processes.
    pub fn constant_id(&self, tensor: &Tensor) -> u128 {
        tensor.stable().unwrap_or_else(|| sum128(&self.source.place(tensor.stored())))
    }

    /// Returns the constant that the text `of` identifies, from the file or computed by `make`.
    pub(crate) fn cached_constant(
        &self,
        of: &str,
        desc: &TensorDesc,
        make: impl FnOnce() -> Option<Tensor>,
    ) -> Option<Tensor> {
        let id = sum128(of.as_bytes());
        let found = self.find(id, desc.size_bytes());
        let there = found.and_then(|bytes| Tensor::of_packed(desc, bytes));
        let is_there = there.is_some();
        let tensor = there.or_else(make)?.known_as(id);
        let mut state = self.lock();
        state.constants.insert(id, tensor.clone());
        state.is_stale |= !is_there;
        Some(tensor)
    }

    /// Drops a constant that turned out not to be needed.
    pub fn discard(&self, tensor: &Tensor) {
        if let Some(id) = tensor.stable() {
            self.lock().constants.remove(&id);
        }
    }

    /// Writes the file if it is incomplete. Failures are listed in the report.
    pub fn save(&self) {
        let mut state = self.lock();
        if matches!(&self.home, Storage::Model(_, None) | Storage::Unsafe(_)) {
            return;
        }
        let weights = state.take_all();
        if !std::mem::take(&mut state.is_stale) {
            return;
        }
        let written = match &self.home {
            Storage::File(path) => write::write(path, &self.key, &weights, state.stored.as_deref())
                .map_err(|error| error.to_string()),
            Storage::Model(contents, Some(path)) => {
                model_file::write(contents, path, &self.key, &weights, state.stored.as_deref())
            }
            Storage::Model(_, None) | Storage::Prepared | Storage::Unsafe(_) => return,
        };
        drop(weights);
        if written.is_ok() {
            state.stored = self.written();
        }
        state.not_saved = written.err();
    }

    /// Opens the file again after it was written.
    fn written(&self) -> Option<Arc<Stored>> {
        let stored = match &self.home {
            Storage::File(path) => Stored::open(path).ok().flatten(),
            Storage::Model(_, Some(path)) => model_file::open(path).ok().flatten(),
            Storage::Model(_, None) | Storage::Prepared | Storage::Unsafe(_) => None,
        };
        stored.map(Arc::new)
    }

    /// Checks whether the model can be used.
    ///
    /// # Errors
    /// Fails if the prepacked weights in the model file are damaged.
    pub fn check(&self) -> Result<(), CacheError> {
        match (&self.home, &self.lock().outcome) {
            (Storage::Prepared, CacheOutcome::Rebuilt(reason)) => {
                Err(model_file::damaged(reason.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the cache may write a file.
    pub fn writes(&self) -> bool {
        match &self.home {
            Storage::File(_) | Storage::Model(..) => true,
            Storage::Prepared | Storage::Unsafe(_) => false,
        }
    }

    /// Returns what the cache did so far.
    pub fn report(&self) -> CacheReport {
        let state = self.lock();
        CacheReport {
            path: self.path().to_owned(),
            outcome: state.outcome.clone(),
            restored: self.restored.load(Ordering::Relaxed),
            packed: self.packed.load(Ordering::Relaxed),
            not_saved: state.not_saved.clone(),
        }
    }

    /// Returns the path of the model's file; empty without a file.
    fn path(&self) -> &Path {
        match &self.home {
            Storage::File(path) | Storage::Model(_, Some(path)) | Storage::Unsafe(path) => path,
            Storage::Model(_, None) | Storage::Prepared => Path::new(""),
        }
    }

    fn stored(&self) -> Option<Arc<Stored>> {
        self.lock().stored.clone()
    }

    /// Returns the bytes with this id and size from the file, if they are there and intact.
    fn find(&self, id: u128, len: usize) -> Option<PackedBytes> {
        self.stored()?.get(id, len).unwrap_or_else(|why| {
            let mut state = self.lock();
            state.outcome = CacheOutcome::Rebuilt(why.to_string());
            state.is_stale = true;
            None
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the threads that verify in advance when the work ends, also by a panic.
struct EndOnDrop<'a>(&'a Verification);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl State {
    /// Collects everything to be saved, and drops the computed constants.
    fn take_all(&mut self) -> PackedWeights {
        let made = |(id, packed): (&u128, &Weak<PackedBytes>)| Some((*id, packed.upgrade()?));
        let mut weights: PackedWeights = self.made.iter().filter_map(made).collect();
        weights.extend(std::mem::take(&mut self.constants).into_iter().filter_map(
            |(id, tensor)| {
                let bytes = tensor.size_bytes();
                let of: SharedBytes = Arc::new(tensor);
                Some((id, Arc::new(PackedBytes::shared(&of, 0..bytes)?)))
            },
        ));
        weights
    }
}

/// The content of a folder for a model.
struct OpenedCache {
    stored: Option<Stored>,
    outcome: CacheOutcome,
}

impl OpenedCache {
    fn new(
        found: Result<Option<Stored>, StoredError>,
        path: &Path,
        key: &Key,
    ) -> Result<Self, CacheError> {
        let rebuilt = |reason| Self { stored: None, outcome: CacheOutcome::Rebuilt(reason) };
        let (path, expected) = (path.to_owned(), key.version);
        Ok(match found {
            Ok(None) => Self { stored: None, outcome: CacheOutcome::Miss },
            Err(why) => rebuilt(why.to_string()),
            Ok(Some(stored)) => match stored.key.differs(key) {
                None => Self { stored: Some(stored), outcome: CacheOutcome::Hit },
                Some(_) if stored.key.version > expected => {
                    return Err(CacheError::Newer { path, found: stored.key.version, expected });
                }
                Some(what) => rebuilt(format!("it belongs to {what}")),
            },
        })
    }
}

/// Returns the reason why a folder must not be used, although it exists: whoever may write it decides the weights of models.
///
/// # Errors
/// Fails if there is no folder.
fn check_folder(dir: &Path) -> Result<Option<String>, CacheError> {
    let no_folder = |reason: String| CacheError::NoFolder { dir: dir.to_owned(), reason };
    let metadata = dir.metadata().map_err(|error| no_folder(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(no_folder("it is not a folder".to_owned()));
    }
    Ok(udo_files::writable_by(&metadata).map(|_| {
        let dir = dir.display();
        format!(
            "cache folder {dir} is not used: other users may write it; `chmod go-w` your own folder"
        )
    }))
}

impl PackCache for Cache {
    fn id(&self, of: &PackOf<'_>) -> Option<u128> {
        let mut bytes = Vec::new();
        for address in of.code {
            bytes.extend(self.code.place(address)?);
        }
        bytes.extend(of.words.iter().flat_map(|word| word.to_le_bytes()));
        for source in of.sources {
            match source.stable {
                Some(stable) => bytes.extend(stable.to_le_bytes()),
                None => bytes.extend(self.source.place(source.bytes)),
            }
        }
        Some(sum128(&bytes))
    }

    fn restore(&self, id: u128, len: usize) -> Option<PackedBytes> {
        self.find(id, len)
    }

    fn note(&self, id: u128, packed: &Arc<PackedBytes>, from: PackedFrom) {
        match from {
            PackedFrom::Cache => self.restored.fetch_add(1, Ordering::Relaxed),
            PackedFrom::Packer => self.packed.fetch_add(1, Ordering::Relaxed),
            PackedFrom::Process => 0,
        };
        let mut state = self.lock();
        state.made.insert(id, Arc::downgrade(packed));
        let is_stored = state.stored.as_ref().is_some_and(|stored| stored.has(id, packed.len()));
        // A constant that had to be packed is missing or damaged in the file.
        state.is_stale |= match from {
            PackedFrom::Cache => false,
            PackedFrom::Packer => true,
            PackedFrom::Process => !is_stored,
        };
    }
}
