//! Decides which packages may be opened: those signed with a trusted key, and those in a project's lock file.
//!
//! Signatures and lock files refer to a package's `index.json`, which has the digests of its libraries. They are checked before
//! any library is loaded. By default every package may be opened.

mod key;
mod lock;
mod signature;

use std::path::{Path, PathBuf};

pub use key::{KeyError, PublicKey, SecretKey};
pub use lock::{LOCK_FILE, Lock, LockError, LockedPackage};
pub use signature::{SIGNATURE_FILE, sign};

use super::OpenError;
use super::index::INDEX_FILE;
use signature::Signatures;

/// The keyword of lines in a file of trusted keys that allow one index, signed or not.
const INDEX: &str = "index-sha256";

/// The trusted keys and the lock file of a runtime.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    keys: Vec<PublicKey>,
    /// Digests of indexes that are allowed without a signature.
    indexes: Vec<String>,
    /// Whether packages must be signed or allowed.
    is_required: bool,
    lock: Option<(PathBuf, Lock)>,
}

impl Trust {
    /// Requires packages to be signed with one of the keys in the file at `path`, or to have an index that the file allows.
    /// Several calls add up.
    ///
    /// A line is a public key, or `index-sha256` and the digest of an `index.json`. A name may follow, and a comment after `#`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has an invalid line.
    pub fn add_key_file(&mut self, path: &Path) -> Result<(), KeyError> {
        let wrong = |line, reason| KeyError::Line { path: path.to_owned(), line, reason };
        self.add(&key::read(path)?, wrong)
    }

    /// Adds trusted keys from text in the format of such files.
    ///
    /// # Errors
    /// Fails if a line is invalid.
    pub fn add_keys(&mut self, text: &str) -> Result<(), KeyError> {
        self.add(text, |line, reason| KeyError::Text { line, reason })
    }

    fn add(
        &mut self,
        text: &str,
        wrong: impl Fn(usize, String) -> KeyError,
    ) -> Result<(), KeyError> {
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (kind, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let digits = rest.split_whitespace().next().unwrap_or_default();
            let wrong = |reason| wrong(number + 1, reason);
            if kind == INDEX {
                let _: [u8; 32] = key::bytes(digits).map_err(wrong)?;
                self.indexes.push(digits.to_ascii_lowercase());
            } else {
                self.keys.push(PublicKey::parse(line).map_err(wrong)?);
            }
        }
        self.is_required = true;
        Ok(())
    }

    /// Requires packages to match the lock file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is invalid.
    pub fn set_lock_file(&mut self, path: &Path) -> Result<(), LockError> {
        self.lock = Some((path.to_owned(), Lock::read(path)?));
        Ok(())
    }

    /// Refuses a package that must not be opened.
    pub(super) fn check(&self, package: &TrustRequest<'_>) -> Result<(), OpenError> {
        self.check_lock(package)?;
        if self.is_required { self.check_signers(package) } else { Ok(()) }
    }

    /// Returns whether a package is signed with a trusted key or has an allowed index. Fails if it does not match the lock file.
    pub(super) fn is_trusted(&self, package: &TrustRequest<'_>) -> Result<bool, OpenError> {
        self.check_lock(package)?;
        if !self.is_required {
            return Ok(false);
        }
        match self.check_signers(package) {
            Ok(()) => Ok(true),
            Err(OpenError::Untrusted { .. } | OpenError::Unsealed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check_lock(&self, package: &TrustRequest<'_>) -> Result<(), OpenError> {
        let Some((path, lock)) = &self.lock else { return Ok(()) };
        lock.check(&package.name, &package.index_file()?.sha256, path)
    }

    fn check_signers(&self, package: &TrustRequest<'_>) -> Result<(), OpenError> {
        let index = package.index_file()?;
        if self.indexes.contains(&index.sha256) {
            return Ok(());
        }
        let signatures = Signatures::read(package.folder)?;
        signatures.check(&index.bytes, &self.keys).map_err(|reason| OpenError::Untrusted {
            name: package.name.clone(),
            folder: package.folder.to_owned(),
            reason,
        })
    }
}

/// A package to be checked.
#[derive(Debug)]
pub(super) struct TrustRequest<'a> {
    pub(super) name: String,
    /// The folder of its index.
    pub(super) folder: &'a Path,
    pub(super) index: Option<&'a IndexFile>,
}

impl TrustRequest<'_> {
    fn index_file(&self) -> Result<&IndexFile, OpenError> {
        let unsealed =
            || OpenError::Unsealed { name: self.name.clone(), folder: self.folder.to_owned() };
        self.index.ok_or_else(unsealed)
    }
}

/// The content of an index file.
#[derive(Clone, Debug)]
pub(super) struct IndexFile {
    pub(super) bytes: Vec<u8>,
    pub(super) sha256: String,
}

impl IndexFile {
    /// Reads the index in `folder`. Returns `None` if there is no index.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, OpenError> {
        let path = folder.join(INDEX_FILE);
        match udo_files::read(&path, udo_files::TEXT_BYTES) {
            Ok(bytes) => Ok(Some(Self { sha256: super::index::sha256_of(&bytes), bytes })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::unreadable(&path, error)),
        }
    }
}
