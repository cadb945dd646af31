//! The table of a library, which every entry point returns.

use super::kernel::KernelDef;
use super::schema::OpDef;
use super::version::AbiVersion;
use crate::core::Core;
use crate::guard::{CellFn, ReportFn};
use crate::span::{RawStr, Table};

/// The symbol that a C package exports: `const udo_package_v1 *udo_package_query(uint32_t major)`.
pub const C_QUERY_SYMBOL: &str = "udo_package_query";

/// The type of [`C_QUERY_SYMBOL`]: returns null if the package has no table of that major version.
// SAFETY: only a type; callers follow the description above.
pub type QueryFn = unsafe extern "C" fn(major: u32) -> *const PackageV1;

/// The linker section that holds the manifest.
pub const MANIFEST_SECTION: &str = ".udo.manifest";

/// The effect of a panic in a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicStrategy {
    /// It unwinds and is caught before it reaches the host.
    Unwind,
    /// It ends the process.
    Abort,
}

impl PanicStrategy {
    /// Returns the name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unwind => "unwind",
            Self::Abort => "abort",
        }
    }
}

abi_struct! {
    /// The location of an implementation library of a package.
    #[derive(Clone, Copy, Debug)]
    pub struct LibraryRef {
        pub(crate) core: Core,
        pub(crate) reserved: u32,
        pub(crate) file: RawStr,
    }
}

abi_struct! {
    /// The table of a library of a package, which every entry point returns.
    ///
    /// Registration libraries fill `ops` and `libraries`, implementation libraries `kernels`;
    /// a library may do both.
    #[derive(Clone, Copy, Debug)]
    pub struct PackageV1 {
        /// The ABI version that the library was built for.
        pub abi_version: AbiVersion,
        /// The size of this structure in that version.
        pub size: u32,
        /// The hash of that version's layouts.
        pub fingerprint: u64,
        /// The host features that the library needs: one bit for each of [`NEEDS`](super::NEEDS).
        pub needs: u64,
        pub(crate) name: RawStr,
        pub(crate) version: RawStr,
        pub(crate) sdk_version: RawStr,
        pub(crate) ops: Table<OpDef>,
        pub(crate) kernels: Table<KernelDef>,
        pub(crate) libraries: Table<LibraryRef>,
        pub(crate) guard_cell: Option<CellFn>,
        pub(crate) guard_report: Option<ReportFn>,
        pub(crate) reserved: [u64; 7],
    }
}
