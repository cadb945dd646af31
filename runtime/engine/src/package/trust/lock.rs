//! `udo.lock`: the packages of a project and the digests of their indexes.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::IndexFile;
use crate::device::{Error, ErrorCode};
use crate::package::OpenError;
use crate::package::dist;
use udo_graph::error::ErrorContext;

/// The name of a project's lock file.
pub const LOCK_FILE: &str = "udo.lock";

/// The version of the file format.
const FORMAT: u32 = 1;

/// The reason why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("lock file {path:?} cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a lock file, or has another format version.
    #[error("lock file {path:?} cannot be read: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

impl LockError {
    /// Returns the code of the error.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::File { .. } => ErrorCode::InvalidPath,
            Self::Form { .. } => ErrorCode::InvalidFile,
        }
    }

    /// Returns the suggested next step.
    pub fn help(&self) -> &'static str {
        "`udo lock PACKAGE` creates one"
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        Self::from_error(error.code(), &error).then(error.help())
    }
}

/// The packages of a project, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: u32,
    /// The packages.
    pub packages: Vec<LockedPackage>,
}

/// A locked package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Its name.
    pub package: String,
    /// The SHA-256 digest of its `index.json`, which covers its libraries.
    pub index_sha256: String,
}

impl Default for Lock {
    fn default() -> Self {
        Self { format: FORMAT, packages: Vec::new() }
    }
}

impl Lock {
    /// Returns the path of the lock file of a project: `udo.lock` in `folder` or in the nearest folder above it, as for
    /// `Cargo.lock`. `None` without one.
    pub fn find(folder: &Path) -> Option<PathBuf> {
        folder.ancestors().map(|folder| folder.join(LOCK_FILE)).find(|path| path.is_file())
    }

    /// Reads the lock file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File { path: path.to_owned(), source };
        let bytes = udo_files::read(path, udo_files::TEXT_BYTES).map_err(failed)?;
        let wrong = |reason: String| LockError::Form { path: path.to_owned(), reason };
        let lock: Self =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if lock.format != FORMAT {
            return Err(wrong(format!("it has format version {}, expected {FORMAT}", lock.format)));
        }
        Ok(lock)
    }

    /// Adds the package at `path`, replacing an entry of the same name. Returns the new entry.
    ///
    /// # Errors
    /// Fails if there is no built package, or one of its libraries does not match its index.
    pub fn add(&mut self, path: &Path) -> Result<LockedPackage, OpenError> {
        let dist::Located { path, folder, index } = dist::registration(path)?;
        let (Some(index), Some(sealed)) = (index, IndexFile::read(&folder)?) else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(OpenError::Unsealed { name, folder });
        };
        for library in &index.libraries {
            index.check_file(&folder, &folder.join(&library.file))?;
        }
        let locked = LockedPackage { package: index.package, index_sha256: sealed.sha256 };
        self.packages.retain(|known| known.package != locked.package);
        self.packages.push(locked.clone());
        self.packages.sort();
        Ok(locked)
    }

    /// Writes the lock file to `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        udo_files::write(path, text.as_bytes())
            .map_err(|source| LockError::File { path: path.to_owned(), source })
    }

    /// Checks a package against this lock file, which is at `path`.
    pub(super) fn check(&self, name: &str, sha256: &str, path: &Path) -> Result<(), OpenError> {
        match self.packages.iter().find(|known| known.package == name) {
            Some(known) if known.index_sha256 == sha256 => Ok(()),
            Some(known) => Err(OpenError::OtherThanLocked {
                name: name.to_owned(),
                found: sha256.to_owned(),
                expected: known.index_sha256.clone(),
                lock: path.to_owned(),
            }),
            None => Err(OpenError::NotLocked { name: name.to_owned(), lock: path.to_owned() }),
        }
    }
}
