//! `udo.lock`: the packages of a project, with the digest of each one's index.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Sealed;
use crate::device::{Error, ErrorCode};
use crate::package::OpenError;
use crate::package::dist;
use udo_graph::error::ErrorContext;

/// The name of a project's lock file.
pub const LOCK_FILE: &str = "udo.lock";

/// The version of the file's form.
const FORMAT: u32 = 1;

/// Why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("lock file {path:?} cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is no lock file, or one of another form.
    #[error("lock file {path:?} cannot be read: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl LockError {
    /// What kind of refusal it is.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::File { .. } => ErrorCode::InvalidPath,
            Self::Form { .. } => ErrorCode::InvalidFile,
        }
    }

    /// What to do next.
    pub fn help(&self) -> &'static str {
        "`udo lock PACKAGE` writes one"
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        Self::of(error.code(), &error).then(error.help())
    }
}

/// The packages of a project, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: u32,
    /// The packages.
    pub packages: Vec<LockedPackage>,
}

/// A package as it was when it was locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Its name.
    pub package: String,
    /// The SHA-256 of its `index.json`, which has those of its libraries.
    pub index_sha256: String,
}

impl Default for Lock {
    fn default() -> Self {
        Self { format: FORMAT, packages: Vec::new() }
    }
}

impl Lock {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File { path: path.to_owned(), source };
        let bytes = fs::read(path).map_err(failed)?;
        let wrong = |reason: String| LockError::Form { path: path.to_owned(), reason };
        let lock: Self =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if lock.format != FORMAT {
            return Err(wrong(format!("its format is {}, wanted {FORMAT}", lock.format)));
        }
        Ok(lock)
    }

    /// Puts the package at `path` in, in the place of what there was of its name; gives it.
    ///
    /// # Errors
    /// There is no built package, or a library of it is not as its index says.
    pub fn add(&mut self, path: &Path) -> Result<LockedPackage, OpenError> {
        let dist::Located { path, folder, index } = dist::registration(path)?;
        let (Some(index), Some(sealed)) = (index, Sealed::read(&folder)?) else {
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

    /// Writes the file at `path`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        fs::write(path, text).map_err(|source| LockError::File { path: path.to_owned(), source })
    }

    /// Refuses a package that is not as this file, which lies at `path`, has it.
    pub(super) fn check(&self, name: &str, sha256: &str, path: &Path) -> Result<(), OpenError> {
        match self.packages.iter().find(|known| known.package == name) {
            Some(known) if known.index_sha256 == sha256 => Ok(()),
            Some(known) => Err(OpenError::OtherThanLocked {
                name: name.to_owned(),
                found: sha256.to_owned(),
                wanted: known.index_sha256.clone(),
                lock: path.to_owned(),
            }),
            None => Err(OpenError::NotLocked { name: name.to_owned(), lock: path.to_owned() }),
        }
    }
}
