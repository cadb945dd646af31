//! The cache file: a safetensors file whose tensors are prepacked weights, named by their ids. It is memory-mapped, and its
//! content is used in place.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use udo_host::{Buffer, PackedBytes, SharedBytes};

use super::key::Key;
use udo_graph::container::ContainerError;
use udo_graph::container::checksum::{PART_BYTES, sum128, sum128_of_parts};
use udo_graph::container::safetensors::{self, MAX_HEADER_BYTES, START};
use udo_graph::memory::FileBytes;

/// The version of the format.
pub(super) const FORMAT: u32 = 2;

/// Verifying fewer bytes takes less time than starting a thread.
const AHEAD_BYTES: usize = 2 << 20;

/// The keys of the cache's metadata and of its checksum.
pub(super) const METADATA_KEY: &str = "udo.cache";
pub(super) const SUM: &str = "udo.checksum";

/// The metadata.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    pub(super) format: u32,
    pub(super) key: Key,
    /// The checksums of the tensors, by their names.
    pub(super) sums: BTreeMap<String, String>,
}

/// The reason why a file, or the prepacked weights in a model file, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Number(#[from] ParseIntError),
    #[error("{0} may write it")]
    Writable(&'static str),
    #[error("it is truncated")]
    Short,
    #[error("it is not a cache file")]
    NoCache,
    #[error("it has no prepacked weights")]
    NothingPacked,
    #[error("its metadata is damaged")]
    Metadata,
    #[error("it has format version {found}, expected {FORMAT}")]
    Format { found: u32 },
    #[error("it has no tensor {0}")]
    NoTensor(String),
    #[error("its tensor {0} is damaged")]
    Tensor(String),
}

/// An open file with a valid header.
pub(super) struct Stored {
    pub(super) key: Key,
    file: SharedBytes,
    packed: BTreeMap<u128, Blob>,
    /// Whether verification in advance was started.
    is_verification_started: AtomicBool,
}

/// A tensor of the file.
#[derive(Debug)]
struct Blob {
    at: Range<usize>,
    sum: u128,
    /// The actual checksums of its parts, computed on first use.
    parts: Vec<OnceLock<u128>>,
}

/// The progress of verification in advance.
#[derive(Debug, Default)]
pub(super) struct Verification {
    next: AtomicUsize,
    is_over: AtomicBool,
}

impl Verification {
    /// Makes all threads stop after their current part.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("key", &self.key)
            .field("packed", &self.packed)
            .finish_non_exhaustive()
    }
}

impl Stored {
    /// Opens the file at `path`, if it exists.
    ///
    /// # Errors
    /// Fails if the file cannot be used.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StoredError> {
        let mut file = match udo_files::open_no_link(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if let Some(writers) = udo_files::writable_by(&file.metadata()?) {
            return Err(StoredError::Writable(writers));
        }
        let bytes = FileBytes::open(&mut file)?;
        Self::read(Arc::new(bytes)).map(Some)
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// Fails if the bytes cannot be used.
    pub(super) fn read(file: SharedBytes) -> Result<Self, StoredError> {
        let (header, data_len) = header((*file).as_ref())?;
        let header = safetensors::parse(header, data_len)?;
        let text = header.metadata.get(METADATA_KEY).ok_or(StoredError::NoCache)?;
        let sum = name(sum128(text.as_bytes()));
        if header.metadata.get(SUM) != Some(&sum) {
            return Err(StoredError::Metadata);
        }
        let form: Metadata = serde_json::from_str(text)?;
        if form.format != FORMAT {
            return Err(StoredError::Format { found: form.format });
        }
        let number = |text: &str| u128::from_str_radix(text, 16);
        let mut packed = BTreeMap::new();
        for (name, sum) in &form.sums {
            let entry =
                header.tensors.get(name).ok_or_else(|| StoredError::NoTensor(name.clone()))?;
            let (at, sum) = (entry.bytes.clone(), number(sum)?);
            let parts = (0..at.len().div_ceil(PART_BYTES)).map(|_| OnceLock::new()).collect();
            packed.insert(number(name)?, Blob { at, sum, parts });
        }
        Ok(Self { key: form.key, file, packed, is_verification_started: AtomicBool::default() })
    }

    /// Returns whether the file has the id with this size.
    pub(super) fn has(&self, id: u128, len: usize) -> bool {
        self.packed.get(&id).is_some_and(|blob| blob.at.len() == len)
    }

    /// Returns all ids and their sizes.
    pub(super) fn all(&self) -> impl Iterator<Item = (u128, usize)> {
        self.packed.iter().map(|(id, blob)| (*id, blob.at.len()))
    }

    /// Returns whether the file is large enough for verification by several threads, and that was not started before.
    pub(super) fn start_verification(&self) -> bool {
        let bytes = self.packed.values().map(|blob| blob.at.len()).sum::<usize>();
        bytes >= AHEAD_BYTES && !self.is_verification_started.swap(true, Ordering::Relaxed)
    }

    /// Computes checksums of parts. Threads that share `ahead` divide the parts among themselves.
    pub(super) fn verify(&self, ahead: &Verification) {
        let parts = |blob| self.parts(blob);
        let all: Vec<(&[u8], &OnceLock<u128>)> = self.packed.values().flat_map(parts).collect();
        while let Some((part, sum)) = all.get(ahead.next.fetch_add(1, Ordering::Relaxed)) {
            if ahead.is_over.load(Ordering::Relaxed) {
                return;
            }
            sum.get_or_init(|| sum128(part));
        }
    }

    /// Returns the parts of a tensor and their checksums, as far as computed.
    fn parts<'a>(&'a self, blob: &'a Blob) -> impl Iterator<Item = (&'a [u8], &'a OnceLock<u128>)> {
        self.bytes(blob).chunks(PART_BYTES).zip(&blob.parts)
    }

    /// Verifies the checksum of a tensor.
    fn is_sound(&self, blob: &Blob) -> bool {
        let sum = |(part, sum): (&[u8], &OnceLock<u128>)| *sum.get_or_init(|| sum128(part));
        let sums: Vec<u128> = self.parts(blob).map(sum).collect();
        sum128_of_parts(&sums) == blob.sum
    }

    /// Returns the tensor in place, if the file has the id with this size.
    ///
    /// # Errors
    /// Fails if the tensor is damaged.
    pub(super) fn get(&self, id: u128, len: usize) -> Result<Option<PackedBytes>, StoredError> {
        let Some(blob) = self.packed.get(&id).filter(|blob| blob.at.len() == len) else {
            return Ok(None);
        };
        if !self.is_sound(blob) {
            return Err(StoredError::Tensor(name(id)));
        }
        let there = PackedBytes::shared(&self.file, blob.at.clone());
        // Bytes that were read into memory may not be aligned.
        Ok(there.or_else(|| Buffer::from_bytes(self.bytes(blob)).ok().map(PackedBytes::from)))
    }

    fn bytes(&self, blob: &Blob) -> &[u8] {
        (*self.file).as_ref().get(blob.at.clone()).unwrap_or_default()
    }
}

/// Splits off the header. Returns it and the number of bytes after it.
fn header(file: &[u8]) -> Result<(&[u8], usize), StoredError> {
    let split = || {
        let (len, rest) = file.split_first_chunk::<START>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (header, data) = rest.split_at_checked(len)?;
        (len <= MAX_HEADER_BYTES).then_some((header, data.len()))
    };
    split().ok_or(StoredError::Short)
}

/// Formats an id or a checksum.
pub(super) fn name(id: u128) -> String {
    format!("{id:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let (sdk, isa, code) = ("1".to_owned(), "I".to_owned(), "C".to_owned());
        Key { version: 3, sdk, isa, code, content: u128::MAX, stamp: Some("1-2".to_owned()) }
    }

    #[test]
    fn what_differs_is_said() {
        let other = |change: fn(&mut Key)| {
            let mut other = key();
            change(&mut other);
            other.differs(&key()).unwrap_or_default()
        };
        assert_eq!(other(|key| key.version = 2), "version 2, expected 3");
        assert_eq!(other(|key| key.sdk.clear()), "another version of the SDK");
        assert_eq!(other(|key| key.isa.clear()), "another instruction set");
        assert_eq!(other(|key| key.code.clear()), "another build of the runtime");
        assert_eq!(other(|key| key.content = 0), "another model");
        assert_eq!(other(|key| key.stamp = None), "", "the bytes were looked at");
    }
}
