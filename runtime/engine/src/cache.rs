//! Packed constants in files, for the next process that loads the model.
//!
//! A model has one file in the folder of a cache. It answers packers and nobody else: models are read, placed and planned
//! as without it, and ask for what they pack by what it is made of, so that a file can be useless but not wrong. Nothing
//! that it says is trusted: what is restored has the bytes that the kernel asked for, and the sum that was noted.
//!
//! `docs/ARCHITECTURE.md` says what stands for a packed constant in all processes.
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
use file::{Ahead, Stored, StoredError};
use key::Key;
pub use report::{CacheError, CacheOptions, CacheOutcome, CacheReport};
pub use source::ModelSource;
use udo_graph::container::checksum::sum128;
use udo_graph::container::{Container, Contents};
use udo_graph::memory::{SharedBytes, Tensor, TensorStorage};
use write::Held;

/// The cache of one model.
#[derive(Debug)]
pub struct Cache {
    home: Home,
    key: Key,
    /// Its bytes stay where they are, so that nothing else can seem to lie in the file.
    source: ModelSource,
    code: Code,
    state: Mutex<State>,
    restored: AtomicUsize,
    packed: AtomicUsize,
}

/// Where what is made is kept.
#[derive(Debug)]
enum Home {
    /// A file of its own.
    File(PathBuf),
    /// A model file, with the graph; in memory alone where it has no path.
    Model(Box<Contents>, Option<PathBuf>),
    /// A model file that was prepared, and stays as it is.
    Prepared,
}

#[derive(Debug)]
struct State {
    outcome: CacheOutcome,
    not_saved: Option<String>,
    /// The file, as it was at first or as it was written.
    stored: Option<Arc<Stored>>,
    /// What somebody has, or had.
    made: BTreeMap<u128, Weak<PackedBytes>>,
    /// Constants that others were computed of, held until they are saved.
    kept: BTreeMap<u128, Tensor>,
    /// Whether the file lacks something.
    is_stale: bool,
}

impl Cache {
    /// The cache of the model of `source`: a file in the folder of the options, or what the model file itself was prepared with, which
    /// `read` gives where it was read before.
    ///
    /// # Errors
    /// There is no such folder, somebody with a newer version wrote in it, this system has no caches, or what a model file was
    /// prepared with is damaged.
    pub fn of(
        options: Option<&CacheOptions>,
        source: &ModelSource,
        read: Option<&Container>,
    ) -> Result<Option<Arc<Self>>, CacheError> {
        match (options, read) {
            (Some(options), _) => Self::open(options, source.clone()).map(Some),
            (None, Some(container)) => Self::prepared(container),
            (None, None) if Container::is_prepared(source.bytes()) => {
                // Who reads the file says what is wrong with it.
                Container::read(source.bytes())
                    .map_or(Ok(None), |container| Self::prepared(&container))
            }
            (None, None) => Ok(None),
        }
    }

    /// The cache of the model of `source`, in a folder.
    fn open(options: &CacheOptions, source: ModelSource) -> Result<Arc<Self>, CacheError> {
        check_folder(&options.dir)?;
        let path = options.dir.join(source.file_name());
        let found = Stored::open(&path);
        let known = found.as_ref().ok().and_then(Option::as_ref).map(|stored| &stored.key);
        let content = source.content(known);
        let (code, key) = Key::now(options.version, content, source.stamp())?;
        let found = Found::of(found, &path, &key)?;
        Ok(Self::new(Home::File(path), (code, key), source, found))
    }

    fn new(home: Home, (code, key): (Code, Key), source: ModelSource, found: Found) -> Arc<Self> {
        let Found { stored, outcome } = found;
        // A file that was too young to go by its times may be old enough now.
        let is_stale = stored.as_ref().is_none_or(|s| s.key.stamp.is_none() && key.stamp.is_some());
        let (stored, (made, kept)) = (stored.map(Arc::new), Default::default());
        let state = Mutex::new(State { outcome, not_saved: None, stored, made, kept, is_stale });
        let (restored, packed) = Default::default();
        Arc::new(Self { home, key, source, code, state, restored, packed })
    }

    /// Does `work`, the loading of a model that has so many threads, while the others look at what the file has, so that who
    /// restores something of it need not.
    pub fn looking_ahead<T>(&self, threads: NonZero<usize>, work: impl FnOnce() -> T) -> T {
        let others = threads.get() - 1;
        let stored = self.stored().filter(|stored| others > 0 && stored.wants_ahead());
        let Some(stored) = stored else { return work() };
        let ahead = Ahead::default();
        thread::scope(|scope| {
            for _ in 0..others {
                let look = thread::Builder::new().name("udo-cache".to_owned());
                if look.spawn_scoped(scope, || stored.look_ahead(&ahead)).is_err() {
                    // Who restores something looks at it himself.
                    break;
                }
            }
            let _over = Over(&ahead);
            work()
        })
    }

    /// What stands for a constant in all processes.
    pub fn stands_for(&self, tensor: &Tensor) -> u128 {
        tensor.stable().unwrap_or_else(|| sum128(&self.source.place(tensor.stored())))
    }

    /// The constant of which `of` says everything, as the file has it or as `make` computes it.
    pub(crate) fn kept(
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
        state.kept.insert(id, tensor.clone());
        state.is_stale |= !is_there;
        Some(tensor)
    }

    /// Lets go of a constant that nobody wants after all.
    pub fn let_go(&self, tensor: &Tensor) {
        if let Some(id) = tensor.stable() {
            self.lock().kept.remove(&id);
        }
    }

    /// Writes the file, if it lacks something that was made. What goes wrong is said in the report.
    pub fn save(&self) {
        let mut state = self.lock();
        if matches!(&self.home, Home::Model(_, None)) {
            return;
        }
        let held = state.held();
        if !std::mem::take(&mut state.is_stale) {
            return;
        }
        let written = match &self.home {
            Home::File(path) => write::write(path, &self.key, &held, state.stored.as_deref())
                .map_err(|error| error.to_string()),
            Home::Model(contents, Some(path)) => {
                model_file::write(contents, path, &self.key, &held, state.stored.as_deref())
            }
            Home::Model(_, None) | Home::Prepared => return,
        };
        drop(held);
        if written.is_ok() {
            state.stored = self.written();
        }
        state.not_saved = written.err();
    }

    /// The file as it is now.
    fn written(&self) -> Option<Arc<Stored>> {
        let stored = match &self.home {
            Home::File(path) => Stored::open(path).ok().flatten(),
            Home::Model(_, Some(path)) => model_file::open(path).ok().flatten(),
            Home::Model(_, None) | Home::Prepared => None,
        };
        stored.map(Arc::new)
    }

    /// Why the model cannot be used: what its file was prepared with is damaged.
    ///
    /// # Errors
    /// As it says.
    pub fn check(&self) -> Result<(), CacheError> {
        match (&self.home, &self.lock().outcome) {
            (Home::Prepared, CacheOutcome::Rebuilt(reason)) => {
                Err(model_file::damaged(reason.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a file of it is, or may be, written.
    pub fn writes(&self) -> bool {
        match &self.home {
            Home::File(_) | Home::Model(..) => true,
            Home::Prepared => false,
        }
    }

    /// What it did so far.
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

    /// The model's file in the folder; empty where there is none.
    fn path(&self) -> &Path {
        match &self.home {
            Home::File(path) | Home::Model(_, Some(path)) => path,
            Home::Model(_, None) | Home::Prepared => Path::new(""),
        }
    }

    fn stored(&self) -> Option<Arc<Stored>> {
        self.lock().stored.clone()
    }

    /// What the file has of so many bytes, if that is there and sound.
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

/// Ends those who look ahead, however the work ends that they look ahead for.
struct Over<'a>(&'a Ahead);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl State {
    /// All that is to be saved; what constants were computed of others is let go with it.
    fn held(&mut self) -> Held {
        let made = |(id, packed): (&u128, &Weak<PackedBytes>)| Some((*id, packed.upgrade()?));
        let mut held: Held = self.made.iter().filter_map(made).collect();
        held.extend(std::mem::take(&mut self.kept).into_iter().filter_map(|(id, tensor)| {
            let bytes = tensor.size_bytes();
            let of: SharedBytes = Arc::new(tensor);
            Some((id, Arc::new(PackedBytes::shared(&of, 0..bytes)?)))
        }));
        held
    }
}

/// What there was in a folder.
struct Found {
    stored: Option<Stored>,
    outcome: CacheOutcome,
}

impl Found {
    fn of(
        found: Result<Option<Stored>, StoredError>,
        path: &Path,
        key: &Key,
    ) -> Result<Self, CacheError> {
        let rebuilt = |reason| Self { stored: None, outcome: CacheOutcome::Rebuilt(reason) };
        let (path, wanted) = (path.to_owned(), key.version);
        Ok(match found {
            Ok(None) => Self { stored: None, outcome: CacheOutcome::Miss },
            Err(why) => rebuilt(why.to_string()),
            Ok(Some(stored)) => match stored.key.differs(key) {
                None => Self { stored: Some(stored), outcome: CacheOutcome::Hit },
                Some(_) if stored.key.version > wanted => {
                    return Err(CacheError::Newer { path, found: stored.key.version, wanted });
                }
                Some(what) => rebuilt(format!("it is of {what}")),
            },
        })
    }
}

fn check_folder(dir: &Path) -> Result<(), CacheError> {
    let no_folder = |reason: String| CacheError::NoFolder { dir: dir.to_owned(), reason };
    let found = dir.metadata().map_err(|error| no_folder(error.to_string()))?;
    if found.is_dir() { Ok(()) } else { Err(no_folder("it is no folder".to_owned())) }
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
        // What a packer had to make is not there, or damaged.
        state.is_stale |= match from {
            PackedFrom::Cache => false,
            PackedFrom::Packer => true,
            PackedFrom::Process => !is_stored,
        };
    }
}
