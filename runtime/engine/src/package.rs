//! Finds, inspects, verifies and opens packages.
//!
//! Opening a package validates its files and tables completely before any part of it is used. The
//! modules above this one decide what its operators and kernels are used for.

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
    ClosedPackage, built_in, implementation, libraries_of, linked_in, load_here, load_library,
};
pub(crate) use open::Candidate;
pub(crate) use table::OperatorIndex;

/// The name of the package that is linked into the runtime. Only its operators may run graphs.
pub const BUILT_IN: &str = "builtin";

/// Identifies an open package within one set of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackageId(pub(crate) u32);

/// An open package.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its id.
    pub id: PackageId,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of the SDK that it was built with.
    pub sdk_version: String,
    /// How strictly heap use is checked in its registration library.
    pub tier: Tier,
    /// The path of its registration library; `None` for a linked-in package.
    pub path: Option<PathBuf>,
    /// The SHA-256 digest that its registration library had when it was opened.
    pub sha256: Option<String>,
    /// Its implementation libraries, loaded or not.
    pub libraries: Vec<PackageLibrary>,
    /// Whether its code runs in a worker process.
    pub is_contained: bool,
    /// The folder of its index, if it has one; `None` for a linked-in package.
    pub(crate) folder: Option<PathBuf>,
    /// The SHA-256 digest that its index had when it was opened, if it has one.
    pub index_sha256: Option<String>,
    /// Whether its libraries matched the sources next to them when it was opened.
    pub sources: Sources,
}

impl Package {
    /// Returns a warning for users of the package if its libraries may not match its sources.
    pub fn notice(&self) -> Option<String> {
        self.sources.notice(&self.name, self.folder.as_deref()?)
    }
}

/// An implementation library of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageLibrary {
    /// The core that its kernels run on.
    pub core: Core,
    /// Its absolute path.
    pub path: PathBuf,
}
