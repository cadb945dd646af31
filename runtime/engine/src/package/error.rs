//! Errors of opening packages, and their remedies.

use std::io;
use std::path::{Path, PathBuf};

use udo_api::Core;
use udo_api::abi::{ABI_VERSION, AbiVersion};

use super::PackageId;
use crate::device::{Error, ErrorCode};
use udo_graph::error::{Coded, ErrorContext};

/// The reason why a package cannot be opened. A failed attempt has no side effects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file or folder cannot be read.
    #[error("cannot read {path:?}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path:?}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a shared library.
    #[error("{path:?} is {found}, expected a shared library")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// A description of the file.
        found: String,
    },
    /// The library is truncated or corrupt.
    #[error("library {path:?} is damaged: {reason}")]
    Damaged {
        /// The library.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The library is for another processor or system.
    #[error("library {path:?} is built for {found}, expected {expected}")]
    Target {
        /// The library.
        path: PathBuf,
        /// The target that it was built for.
        found: String,
        /// The target of this runtime.
        expected: String,
    },
    /// The library does not belong to this SDK.
    #[error(
        "library {path:?} is not a udo package: it has no manifest and exports no {symbol}",
        symbol = udo_api::abi::C_QUERY_SYMBOL
    )]
    NotAPackage {
        /// The library.
        path: PathBuf,
    },
    /// The library's manifest cannot be read.
    #[error("library {path:?} has a manifest that cannot be read: {reason}")]
    Manifest {
        /// The library.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The library was built for another version of the ABI.
    #[error("library {path:?} has ABI version {found}, expected {}", ABI_VERSION)]
    AbiVersion {
        /// The library.
        path: PathBuf,
        /// Its version.
        found: AbiVersion,
    },
    /// The library was built with different structure layouts.
    #[error("library {path:?} has layout fingerprint {found:016x}, expected {expected:016x}")]
    Layouts {
        /// The library.
        path: PathBuf,
        /// Its fingerprint.
        found: u64,
        /// The fingerprint of its ABI version.
        expected: u64,
    },
    /// The library requires a feature that this runtime does not have.
    #[error("library {path:?} requires {need:?}, which this runtime does not have")]
    Need {
        /// The library.
        path: PathBuf,
        /// The feature.
        need: String,
    },
    /// The library aborts on panic, which would end the process.
    #[error("library {path:?} is built with panic = \"abort\", expected \"unwind\"")]
    Aborts {
        /// The library.
        path: PathBuf,
    },
    /// The system's loader cannot load the library.
    #[error("library {path:?} cannot be loaded")]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        source: LoadReport,
    },
    /// The library does not export a package that this runtime can read.
    #[error("library {path:?} does not provide a package: {reason}")]
    Door {
        /// The library.
        path: PathBuf,
        /// The reason, in one line.
        reason: String,
        /// The full report.
        source: LoadReport,
    },
    /// The C package has no table for an ABI version that this runtime supports.
    #[error(
        "library {path:?} has no table for ABI version {expected}",
        expected = ABI_VERSION
    )]
    NoTable {
        /// The library.
        path: PathBuf,
    },
    /// The package's table violates the contract.
    #[error("{place}: {reason}")]
    Table {
        /// The library, or the linked-in package.
        place: String,
        /// The violation.
        reason: String,
    },
    /// The library's table does not match its manifest.
    #[error("library {path:?} has {what} {table} in its table, but {manifest} in its manifest")]
    ManifestDiffers {
        /// The library.
        path: PathBuf,
        /// The entry that differs.
        what: &'static str,
        /// The value in the table.
        table: String,
        /// The value in the manifest.
        manifest: String,
    },
    /// An implementation library was opened as a package.
    #[error("library {path:?} contains only kernels for {cores}, expected a registration library")]
    Implementation {
        /// The library.
        path: PathBuf,
        /// The cores of its kernels.
        cores: String,
        /// The path of the registration library that it belongs to.
        registration: PathBuf,
    },
    /// The folder contains no registration library.
    #[error("folder {folder:?} contains no registration library, expected {expected}")]
    NoRegistration {
        /// The folder.
        folder: PathBuf,
        /// The file that was looked for.
        expected: &'static str,
    },
    /// The folder contains several registration libraries.
    #[error("folder {folder:?} contains {found}, expected one registration library")]
    SeveralRegistrations {
        /// The folder.
        folder: PathBuf,
        /// The libraries.
        found: String,
    },
    /// A package's index cannot be read.
    #[error("index {path:?} cannot be used: {reason}")]
    Index {
        /// The index.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The library's digest does not match the index.
    #[error(
        "library {path:?} has SHA-256 {}, expected {} from its folder's index.json",
        short(.found), short(.expected)
    )]
    Digest {
        /// The library.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// The digest in the index.
        expected: String,
    },
    /// The folder's index does not list the library.
    #[error("library {path:?} is not listed in {index:?}")]
    Unlisted {
        /// The library.
        path: PathBuf,
        /// The index.
        index: PathBuf,
    },
    /// A package of the same name is already open.
    #[error("package {name:?} is already open from {open}, found another one in {found}")]
    NameTaken {
        /// The name.
        name: String,
        /// The place of the open package.
        open: String,
        /// The place of the refused package.
        found: String,
    },
    /// A library was modified after its package was opened.
    #[error("library {path:?} has changed since package {name:?} was opened from it")]
    Changed {
        /// The package.
        name: String,
        /// The library.
        path: PathBuf,
    },
    /// An implementation library does not exist.
    #[error("package {package:?} has no library for {core} at {path:?}")]
    MissingLibrary {
        /// The package.
        package: String,
        /// The core.
        core: Core,
        /// The expected path of the library.
        path: PathBuf,
        /// The package's folder.
        folder: PathBuf,
    },
    /// An implementation library belongs to another package, or to another build of this one.
    #[error(
        "library {path:?} has {what} {found}, expected {expected} as in its registration library"
    )]
    Stray {
        /// The library.
        path: PathBuf,
        /// The property that differs.
        what: &'static str,
        /// The value in the library.
        found: String,
        /// The value in the registration library.
        expected: String,
    },
    /// An implementation library contains a kernel for another core than its package states.
    #[error("library {path:?} has a kernel of {op} for {found}, expected kernels for {expected}")]
    WrongCore {
        /// The library.
        path: PathBuf,
        /// The kernel's operator.
        op: String,
        /// The kernel's core.
        found: Core,
        /// The core that the package states for the library.
        expected: Core,
    },
    /// Packages must be signed or locked, and this one has no index.
    #[error(
        "package {name:?} in {folder:?} has no index.json, which signatures and lock files refer to"
    )]
    Unsealed {
        /// The package, or its file.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// The package is not signed with a trusted key.
    #[error("package {name:?} in {folder:?} is not trusted: {reason}")]
    Untrusted {
        /// The package.
        name: String,
        /// Its folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The package is not in the project's lock file.
    #[error("package {name:?} is not in {lock:?}")]
    NotLocked {
        /// The package.
        name: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// The package is not the locked build.
    #[error(
        "package {name:?} has an index.json with SHA-256 {found}, expected {expected} from {lock:?}"
    )]
    OtherThanLocked {
        /// The package.
        name: String,
        /// The digest of its index.
        found: String,
        /// The digest in the lock file.
        expected: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// The worker process of a contained package cannot open the library.
    #[error("library {path:?} cannot be opened in a worker: {reason}")]
    Contained {
        /// The library.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The program for the worker process of a contained package was not found.
    #[error("library {path:?} cannot be opened in a worker: {reason}")]
    NoWorker {
        /// The library.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The id does not belong to an open package.
    #[error("package {} does not exist", .id.0)]
    NoSuchPackage {
        /// The number.
        id: PackageId,
    },
}

/// A full report of the system's loader or the layout check.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadReport(pub(super) String);

impl LoadReport {
    /// Formats `error` and its chain of sources.
    pub(super) fn from_error(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Self(text)
    }
}

/// Returns the name of the library at `path` for messages.
pub(crate) fn library(path: &Path) -> String {
    format!("library \"{}\"", path.display())
}

/// Returns the name of the linked-in package `name` for messages.
pub(crate) fn linked(name: &str) -> String {
    format!("linked-in package {name:?}")
}

/// Shortens a digest for messages.
fn short(digest: &str) -> String {
    format!("{}..", digest.get(..16).unwrap_or(digest))
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Self::from_source(error.code(), &error).then(&error.help())
    }
}

impl OpenError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    /// Returns the suggested next step.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } | Self::Unwritable { .. } => {
                "check that the path exists and is accessible".to_owned()
            }
            Self::NotALibrary { .. } | Self::NotAPackage { .. } => {
                "give a package folder, its dist folder or its registration library".to_owned()
            }
            Self::Target { expected, .. } => format!("rebuild the package on {expected}: `udo build`"),
            Self::AbiVersion { found, .. } if *found > ABI_VERSION => {
                "use a newer runtime, or rebuild the package with this SDK: `udo build`".to_owned()
            }
            Self::Need { .. } => "use a newer runtime".to_owned(),
            Self::Damaged { .. }
            | Self::Manifest { .. }
            | Self::AbiVersion { .. }
            | Self::Layouts { .. }
            | Self::Door { .. }
            | Self::NoTable { .. }
            | Self::ManifestDiffers { .. }
            | Self::Index { .. }
            | Self::Digest { .. }
            | Self::Unlisted { .. }
            | Self::Stray { .. } => "rebuild the package with this SDK: `udo build`".to_owned(),
            Self::Aborts { .. } => {
                "remove `panic = \"abort\"` from the profile in the package's Cargo.toml and rebuild it: `udo build`".to_owned()
            }
            Self::Load { .. } => {
                "check with `ldd` that the libraries that it depends on are installed".to_owned()
            }
            Self::Table { .. } => "correct the package's table and rebuild it".to_owned(),
            Self::Implementation { registration, .. } => {
                format!("open \"{}\" instead", registration.display())
            }
            Self::NoRegistration { folder, .. } => {
                format!("build the package first: `udo build {}`", folder.display())
            }
            Self::SeveralRegistrations { .. } => "give the path of the one to open".to_owned(),
            Self::NameTaken { .. } => "rename one of the two packages".to_owned(),
            Self::Changed { .. } => "restart the program to use the new build".to_owned(),
            Self::MissingLibrary { core, folder, .. } => {
                format!("build it for {core}: `udo build {}`", folder.display())
            }
            Self::WrongCore { expected, .. } => {
                format!("move the kernel to its core's library, or register it for {expected}")
            }
            Self::Unsealed { folder, .. } => format!(
                "build it with `udo build`, or run `udo sign {} --key KEYFILE`; both write an index",
                folder.display()
            ),
            Self::Untrusted { folder, .. } => format!(
                "sign it with a trusted key, `udo sign {} --key KEYFILE`, or allow its index in the file given with --trust",
                folder.display()
            ),
            Self::NotLocked { .. } => "`udo lock PACKAGE` adds it".to_owned(),
            Self::OtherThanLocked { .. } => {
                "if the change is intended, update the lock file with `udo lock PACKAGE`".to_owned()
            }
            Self::Contained { .. } => {
                "check that udo-worker has the same version as this runtime; `udo inspect` shows problems of a library".to_owned()
            }
            Self::NoWorker { .. } => {
                "put udo-worker next to the program, or give its path".to_owned()
            }
            Self::NoSuchPackage { .. } => {
                "use the id with the operators that it came from".to_owned()
            }
        }
    }
}

impl Coded for OpenError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable { .. } | Self::Unwritable { .. } | Self::NoWorker { .. } => {
                ErrorCode::InvalidPath
            }
            Self::NameTaken { .. } => ErrorCode::AlreadyExists,
            _ => ErrorCode::InvalidFile,
        }
    }
}
