//! Why a package cannot be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use udo_api::Core;
use udo_api::abi::{ABI_VERSION, AbiVersion};

use super::PackageId;
use crate::device::{Error, ErrorCode};
use udo_graph::error::{Coded, ErrorContext};

/// Why a package cannot be opened. A refused package leaves nothing behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file or folder cannot be read.
    #[error("cannot read {path:?}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path:?}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no shared library.
    #[error("{path:?} is {found}, wanted a shared library")]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// The library is cut short or broken.
    #[error("library {path:?} is damaged: {reason}")]
    Damaged {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The library is for another processor or system.
    #[error("library {path:?} is built for {found}, wanted {wanted}")]
    Target {
        /// The library.
        path: PathBuf,
        /// What it is built for.
        found: String,
        /// What this runtime is built for.
        wanted: String,
    },
    /// The library has nothing to do with this SDK.
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
        /// What is wrong with it.
        reason: String,
    },
    /// The library speaks another version of the binary contract.
    #[error("library {path:?} has ABI version {found}, wanted {wanted}", wanted = ABI_VERSION)]
    AbiVersion {
        /// The library.
        path: PathBuf,
        /// Its version.
        found: AbiVersion,
    },
    /// The library was built against other layouts.
    #[error("library {path:?} has layouts that hash to {found:016x}, wanted {wanted:016x}")]
    Layouts {
        /// The library.
        path: PathBuf,
        /// Its fingerprint.
        found: u64,
        /// The fingerprint of its version.
        wanted: u64,
    },
    /// The library needs what this runtime does not have.
    #[error("library {path:?} needs {need:?} of its host, which this runtime lacks")]
    Need {
        /// The library.
        path: PathBuf,
        /// What it needs.
        need: String,
    },
    /// A panic in the library would end the process.
    #[error("library {path:?} is built with panic = \"abort\", wanted \"unwind\"")]
    Aborts {
        /// The library.
        path: PathBuf,
    },
    /// The system's loader refuses the library.
    #[error("library {path:?} cannot be loaded")]
    Load {
        /// The library.
        path: PathBuf,
        /// What the loader says.
        source: LoadReport,
    },
    /// The library exports no package, or one that this runtime cannot read.
    #[error("library {path:?} opens no package: {reason}")]
    Door {
        /// The library.
        path: PathBuf,
        /// One line.
        reason: String,
        /// The long report.
        source: LoadReport,
    },
    /// The C package has no table of a version that this runtime reads.
    #[error(
        "library {path:?} has no table of ABI version {wanted}",
        wanted = ABI_VERSION
    )]
    NoTable {
        /// The library.
        path: PathBuf,
    },
    /// The package's table breaks the contract.
    #[error("{place}: {reason}")]
    Table {
        /// The library, or the linked-in package.
        place: String,
        /// What is wrong with the table.
        reason: String,
    },
    /// The library's table is not what its manifest says.
    #[error("library {path:?} has the {what} {table} in its table, and {manifest} in its manifest")]
    ManifestDiffers {
        /// The library.
        path: PathBuf,
        /// The entry that differs.
        what: &'static str,
        /// What the table says.
        table: String,
        /// What the manifest says.
        manifest: String,
    },
    /// An implementation library was opened as a package.
    #[error("library {path:?} holds kernels for {cores} only, wanted a registration library")]
    Implementation {
        /// The library.
        path: PathBuf,
        /// The cores that it has kernels for.
        cores: String,
        /// The registration library that it belongs to, where it was found.
        registration: PathBuf,
    },
    /// The folder holds no registration library.
    #[error("folder {folder:?} holds no registration library, wanted {wanted}")]
    NoRegistration {
        /// The folder.
        folder: PathBuf,
        /// The file looked for.
        wanted: &'static str,
    },
    /// The folder holds several registration libraries.
    #[error("folder {folder:?} holds {found}, wanted one registration library")]
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
        /// What is wrong with it.
        reason: String,
    },
    /// The library is not the one that was built.
    #[error(
        "library {path:?} has the SHA-256 {}, wanted {} as in its folder's index.json",
        short(.found), short(.wanted)
    )]
    Digest {
        /// The library.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// The digest in the index.
        wanted: String,
    },
    /// The folder's index does not know the library.
    #[error("library {path:?} is not among those in {index:?}")]
    Unlisted {
        /// The library.
        path: PathBuf,
        /// The index.
        index: PathBuf,
    },
    /// Another package of that name is open.
    #[error("package {name:?} is open already from {open}, found another in {found}")]
    NameTaken {
        /// The name.
        name: String,
        /// Where the open package is from.
        open: String,
        /// Where the refused package is from.
        found: String,
    },
    /// A library changed after it was opened.
    #[error("library {path:?} has changed since package {name:?} was opened from it")]
    Changed {
        /// The package.
        name: String,
        /// The library.
        path: PathBuf,
    },
    /// An implementation library is not where its package says.
    #[error("package {package:?} has no library for {core} at {path:?}")]
    MissingLibrary {
        /// The package.
        package: String,
        /// The core.
        core: Core,
        /// Where the library should be.
        path: PathBuf,
        /// The package's folder.
        folder: PathBuf,
    },
    /// An implementation library belongs to another package, or another build of it.
    #[error(
        "library {path:?} has the {what} {found}, wanted {wanted} as in its registration library"
    )]
    Stray {
        /// The library.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the library has.
        found: String,
        /// What the registration library has.
        wanted: String,
    },
    /// An implementation library has kernels for another core than its package says.
    #[error("library {path:?} has a kernel of {op} for {found}, wanted kernels for {wanted}")]
    WrongCore {
        /// The library.
        path: PathBuf,
        /// The kernel's operator.
        op: String,
        /// The kernel's core.
        found: Core,
        /// The core that the package names the library for.
        wanted: Core,
    },
    /// Packages are to be signed or locked, and this one has no index that could be.
    #[error("package {name:?} in {folder:?} has no index.json that could be signed or locked")]
    Unsealed {
        /// The package, or its file.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// The package is signed by nobody who is trusted.
    #[error("package {name:?} in {folder:?} is not trusted: {reason}")]
    Untrusted {
        /// The package.
        name: String,
        /// Its folder.
        folder: PathBuf,
        /// Why not.
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
    /// The package is not the one that was locked.
    #[error(
        "package {name:?} has an index.json of SHA-256 {found}, wanted {wanted} as in {lock:?}"
    )]
    OtherThanLocked {
        /// The package.
        name: String,
        /// The digest of its index.
        found: String,
        /// The digest in the lock file.
        wanted: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// The worker that a contained package's code runs in does not open the library.
    #[error("library {path:?} is not opened in a worker: {reason}")]
    Contained {
        /// The library.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no program for the worker that a contained package's code runs in.
    #[error("library {path:?} has no worker to be opened in: {reason}")]
    NoWorker {
        /// The library.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The number stands for no package that is open here.
    #[error("there is no package {}", .id.0)]
    NoSuchPackage {
        /// The number.
        id: PackageId,
    },
}

/// What the system's loader, or the layout check, had to say in full.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadReport(pub(super) String);

impl LoadReport {
    /// `error` and all that caused it.
    pub(super) fn of(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Self(text)
    }
}

/// The library at `path`, as messages call it.
pub(crate) fn library(path: &Path) -> String {
    format!("library \"{}\"", path.display())
}

/// The linked-in package called `name`, as messages call it.
pub(crate) fn linked(name: &str) -> String {
    format!("linked-in package {name:?}")
}

/// Enough of a digest to tell it from another.
fn short(digest: &str) -> String {
    format!("{}..", digest.get(..16).unwrap_or(digest))
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Self::of(error.code(), &error).then(&error.help())
    }
}

impl OpenError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } | Self::Unwritable { .. } => {
                "check that the path exists and that you may use it".to_owned()
            }
            Self::NotALibrary { .. } | Self::NotAPackage { .. } => {
                "give a package folder, its dist folder or its registration library".to_owned()
            }
            Self::Target { wanted, .. } => format!("rebuild the package on {wanted}: `udo build`"),
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
                "take `panic = \"abort\"` out of the profile in the package's Cargo.toml and rebuild it: `udo build`".to_owned()
            }
            Self::Load { .. } => {
                "check with `ldd` that everything the library needs is installed".to_owned()
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
            Self::Changed { .. } => "start again to use the new build".to_owned(),
            Self::MissingLibrary { core, folder, .. } => {
                format!("build it for {core}: `udo build {}`", folder.display())
            }
            Self::WrongCore { wanted, .. } => {
                format!("move the kernel to its core's library, or register it for {wanted}")
            }
            Self::Unsealed { folder, .. } => format!(
                "build it with `udo build`, which writes one, or sign what is built otherwise, `udo sign {} --key KEYFILE`, which does as well",
                folder.display()
            ),
            Self::Untrusted { folder, .. } => format!(
                "have it signed by somebody you trust, `udo sign {} --key KEYFILE`, or allow its index in the file that --trust names",
                folder.display()
            ),
            Self::NotLocked { .. } => "`udo lock PACKAGE` adds it".to_owned(),
            Self::OtherThanLocked { .. } => {
                "if it is to be another one than before, `udo lock PACKAGE` takes the new one".to_owned()
            }
            Self::Contained { .. } => {
                "check that it is the udo-worker of this version that runs; `udo inspect` tells what is wrong with a library".to_owned()
            }
            Self::NoWorker { .. } => {
                "build udo-worker beside the program, or say where it is".to_owned()
            }
            Self::NoSuchPackage { .. } => {
                "use the number with the operators that gave it".to_owned()
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
