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
mod source;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use udo_api::TensorDesc;
use udo_host::{PackCache, PackOf, PackedBytes, PackedFrom};

use crate::container::checksum::sum128;
use crate::device::ErrorCode;
use crate::memory::{SharedBytes, Tensor};
use crate::thread_pool::Pool;
use code::Code;
use file::{Key, Stored};
pub use source::ModelSource;
use write::Held;

/// Where packed constants are kept between processes.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// A folder, which is there.
    pub dir: PathBuf,
    /// The caller's own count: what an older one left is made again, and what a newer one left is not touched.
    pub version: u32,
}

/// Why a cache cannot be used at all. Everything else is a reason to pack, and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// There is no such folder.
    #[error("the cache's folder {} cannot be used: {reason}; make it, or name another", dir.display())]
    NoFolder {
        /// The folder.
        dir: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Somebody with a newer version wrote the file.
    #[error(
        "the cache's file {} is of version {found}, wanted {wanted} or older; ask for that version, or name another folder",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version asked for.
        wanted: u32,
    },
    /// Nothing can stand for a packer in another process.
    #[error(
        "this system does not say where functions lie in their files, which a cache has to know; load without one"
    )]
    Unsupported,
}

impl CacheError {
    /// What kind of refusal it is.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoFolder { .. } => ErrorCode::InvalidPath,
            Self::Newer { .. } => ErrorCode::InvalidState,
            Self::Unsupported => ErrorCode::Unsupported,
        }
    }
}

/// What a cache had for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// Nothing.
    Miss,
    /// A file of this model.
    Hit,
    /// A file that is of no use, or not in whole, for this reason.
    Rebuilt(String),
}

/// What a cache did for a model so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// The model's file in the folder.
    pub path: PathBuf,
    /// What it was.
    pub outcome: CacheOutcome,
    /// How many packed constants came from it.
    pub restored: usize,
    /// How many had to be packed.
    pub packed: usize,
    /// Why the file could not be written, if it had to be and could not.
    pub not_saved: Option<String>,
}

impl CacheReport {
    /// What the user should know.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let path = self.path.display();
        let rebuilt = match &self.outcome {
            CacheOutcome::Rebuilt(why) => {
                Some(format!("the cache's file {path} is made again: {why}"))
            }
            CacheOutcome::Miss | CacheOutcome::Hit => None,
        };
        let not_saved = self
            .not_saved
            .as_ref()
            .map(|why| format!("the cache's file {path} is not saved: {why}"));
        rebuilt.into_iter().chain(not_saved)
    }
}

/// The cache of one model.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    key: Key,
    /// Its bytes stay where they are, so that nothing else can seem to lie in the file.
    source: ModelSource,
    code: Code,
    state: Mutex<State>,
    restored: AtomicUsize,
    packed: AtomicUsize,
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
    /// The cache of the model of `source`.
    ///
    /// # Errors
    /// There is no such folder, somebody with a newer version wrote in it, or this system has no caches.
    pub fn open(options: &CacheOptions, source: ModelSource) -> Result<Arc<Self>, CacheError> {
        let CacheOptions { dir, version } = options;
        let no_folder = |reason: String| CacheError::NoFolder { dir: dir.clone(), reason };
        let found = dir.metadata().map_err(|error| no_folder(error.to_string()))?;
        if !found.is_dir() {
            return Err(no_folder("it is no folder".to_owned()));
        }
        let code = Code::loaded();
        let own = code.file_of(code::anchor()).ok_or(CacheError::Unsupported)?;
        let path = dir.join(source.file_name());
        let found = Stored::open(&path);
        let known = found.as_ref().ok().and_then(Option::as_ref).map(|stored| &stored.key);
        let key = Key {
            version: *version,
            sdk: env!("CARGO_PKG_VERSION").to_owned(),
            isa: format!("{:?}", udo_simd::isa()),
            code: own,
            content: source.content(known),
            stamp: source.stamp(),
        };
        let (stored, outcome) = match found {
            Ok(None) => (None, CacheOutcome::Miss),
            Err(reason) => (None, CacheOutcome::Rebuilt(reason)),
            Ok(Some(stored)) => match stored.key.differs(&key) {
                None => (Some(stored), CacheOutcome::Hit),
                Some(_) if stored.key.version > *version => {
                    let found = stored.key.version;
                    return Err(CacheError::Newer { path, found, wanted: *version });
                }
                Some(what) => (None, CacheOutcome::Rebuilt(format!("it is of {what}"))),
            },
        };
        // A file that was too young to go by its times may be old enough now.
        let is_stale = stored.as_ref().is_none_or(|s| s.key.stamp.is_none() && key.stamp.is_some());
        let (stored, (made, kept)) = (stored.map(Arc::new), Default::default());
        let state = Mutex::new(State { outcome, not_saved: None, stored, made, kept, is_stale });
        let (restored, packed) = Default::default();
        Ok(Arc::new(Self { path, key, source, code, state, restored, packed }))
    }

    /// Looks at all that the file has, by all threads: what is damaged is made again.
    pub(crate) fn look_at_all(&self, pool: &Pool) {
        if let Some(stored) = self.stored() {
            stored.look_at_all(|look| pool.on_every_thread(look));
        }
    }

    /// What stands for a constant in all processes.
    pub(crate) fn stands_for(&self, tensor: &Tensor) -> u128 {
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

    /// Writes the file, if it lacks something that was made. What goes wrong is said in the report.
    pub fn save(&self) {
        let mut state = self.lock();
        let kept = std::mem::take(&mut state.kept);
        if !std::mem::take(&mut state.is_stale) {
            return;
        }
        let held = |(id, packed): (&u128, &Weak<PackedBytes>)| Some((*id, packed.upgrade()?));
        let mut held: Held = state.made.iter().filter_map(held).collect();
        held.extend(kept.into_iter().filter_map(|(id, tensor)| {
            let bytes = tensor.size_bytes();
            let of: SharedBytes = Arc::new(tensor);
            Some((id, Arc::new(PackedBytes::shared(&of, 0..bytes)?)))
        }));
        let written = write::write(&self.path, &self.key, &held, state.stored.as_deref());
        drop(held);
        if written.is_ok() {
            state.stored = Stored::open(&self.path).ok().flatten().map(Arc::new);
        }
        state.not_saved = written.err().map(|error| error.to_string());
    }

    /// What it did so far.
    pub fn report(&self) -> CacheReport {
        let state = self.lock();
        CacheReport {
            path: self.path.clone(),
            outcome: state.outcome.clone(),
            restored: self.restored.load(Ordering::Relaxed),
            packed: self.packed.load(Ordering::Relaxed),
            not_saved: state.not_saved.clone(),
        }
    }

    /// The model's file in the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn stored(&self) -> Option<Arc<Stored>> {
        self.lock().stored.clone()
    }

    /// What the file has of so many bytes, if that is there and sound.
    fn find(&self, id: u128, len: usize) -> Option<PackedBytes> {
        self.stored()?.get(id, len).unwrap_or_else(|reason| {
            let mut state = self.lock();
            state.outcome = CacheOutcome::Rebuilt(reason);
            state.is_stale = true;
            None
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
