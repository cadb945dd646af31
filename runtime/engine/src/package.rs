//! Packages as files: found, looked at, checked and opened.
//!
//! Opening a package checks everything that its files and tables say before anything of it is used.
//! What becomes of its operators and kernels is decided above.

mod copy;
mod discover;
mod dist;
mod elf;
mod error;
pub mod index;
mod inspect;
mod json;
mod library;
mod manifest;
mod open;
mod sealing;
mod sources;
mod table;
mod trust;

use std::path::PathBuf;

use udo_api::Core;

pub use discover::{Discovery, Found, Skipped, discover};
pub use dist::{DIST_FOLDER, implementation_file, registration_file, source_folder};
pub use error::{LoadReport, OpenError};
pub use inspect::{Contents, InspectedLibrary, Inspection, Listing, inspect};
pub use library::Build;
pub use manifest::{
    Manifest, ManifestKernel, ManifestLibrary, ManifestOp, ManifestParam, ManifestPort,
    ManifestRule, Tier, host_target,
};

pub use sealing::seal;
pub use sources::Sources;
pub use trust::{
    KeyError, LOCK_FILE, Lock, LockError, LockedPackage, PublicKey, SIGNATURE_FILE, SecretKey,
    Trust, sign,
};

pub(crate) use copy::Tables;
pub(crate) use error::{library, linked};
pub(crate) use library::{
    Closed, built_in, implementation, libraries_of, linked_in, load_here, load_library,
};
pub(crate) use open::Candidate;
pub(crate) use table::OwnOperators;

/// The name of the package that the runtime has linked in. Its operators alone may run graphs.
pub const BUILT_IN: &str = "builtin";

/// Stands for a package of one registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackageId(pub(crate) u32);

/// A package that is open.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its number.
    pub id: PackageId,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SDK that it was built with.
    pub sdk_version: String,
    /// How closely the heap is watched in its registration library.
    pub tier: Tier,
    /// Its registration library; nothing for a package that is linked in.
    pub path: Option<PathBuf>,
    /// The SHA-256 of its registration library as it was when opened.
    pub sha256: Option<String>,
    /// Its implementation libraries, opened or not.
    pub libraries: Vec<PackageLibrary>,
    /// Whether its code runs in a process of its own.
    pub is_contained: bool,
    /// Where its index lies, if it has one; nothing for a package that is linked in.
    pub(crate) folder: Option<PathBuf>,
    /// The SHA-256 of its index as it was when opened, if it has one.
    pub index_sha256: Option<String>,
    /// What its libraries are to the sources that lie beside them, when it was opened.
    pub sources: Sources,
}

impl Package {
    /// What who runs it should know of its libraries.
    pub fn notice(&self) -> Option<String> {
        self.sources.notice(&self.name, self.folder.as_deref()?)
    }
}

/// An implementation library of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageLibrary {
    /// The core that its kernels are for.
    pub core: Core,
    /// Its absolute path.
    pub path: PathBuf,
}
