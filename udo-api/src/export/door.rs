//! The Rust entry point: the only file that uses `abi_stable`, and only to open a library.
#![expect(
    non_camel_case_types,
    missing_debug_implementations,
    clippy::pedantic,
    reason = "abi_stable's derive names and writes these items"
)]

use std::fmt;
use std::path::Path;

use abi_stable::StableAbi;
use abi_stable::library::{LibraryError, RootModule, lib_header_from_path};
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;

use crate::abi::PackageV1;

/// The root module of a Rust package: one reference to its table.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PackageRoot_Ref)))]
#[sabi(missing_field(panic))]
pub struct PackageRoot {
    /// The table. Its layout is checked by fingerprint, so `abi_stable` need not inspect it.
    #[sabi(last_prefix_field)]
    #[sabi(unsafe_opaque_field)]
    pub package: TablePtr,
}

/// The address of a package's table, not a reference, since the package may be of another version with another layout.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct TablePtr(pub *const PackageV1);

// SAFETY: the table is static and immutable.
unsafe impl Send for TablePtr {}
// SAFETY: as for `Send`.
unsafe impl Sync for TablePtr {}

/// The version of root modules: the ABI's major one.
const ROOT_VERSION: &str = "2.0.0";

impl RootModule for PackageRoot_Ref {
    abi_stable::declare_root_module_statics! {PackageRoot_Ref}
    const BASE_NAME: &'static str = "udo_package";
    const NAME: &'static str = "udo_package";
    // abi_stable treats 0.1 and 0.2 as incompatible, and this crate's version is unrelated to the ABI: only the
    // major version of the ABI is compared here, the rest by the loader.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new(ROOT_VERSION);
}

impl PackageRoot {
    /// Creates the root module of `package`; it is leaked, as libraries are never unloaded.
    pub fn leak(package: &'static PackageV1) -> PackageRoot_Ref {
        Self { package: TablePtr(package) }.leak_into_prefix()
    }
}

/// Why a library does not open through the Rust entry point.
#[derive(Debug)]
pub struct DoorError {
    /// One line for the user.
    pub reason: &'static str,
    /// The detailed report, for a log.
    pub report: String,
}

impl fmt::Display for DoorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for DoorError {}

/// Loads the library at `path` and returns its table. The library is never unloaded.
///
/// # Errors
/// The library does not have a root module of this SDK, or has one of another layout or version.
///
/// # Safety
/// Runs the library's constructors, and relies on the header of its root module.
pub unsafe fn open_rust_door(path: &Path) -> Result<*const PackageV1, DoorError> {
    let header = lib_header_from_path(path).map_err(|e| DoorError::new(&e))?;
    let root = header.init_root_module::<PackageRoot_Ref>().map_err(|e| DoorError::new(&e))?;
    Ok(root.package().0)
}

impl DoorError {
    fn new(error: &LibraryError) -> Self {
        let reason = match error {
            LibraryError::OpenError { .. } => "the system cannot load it",
            LibraryError::GetSymbolError { .. } => "it exports no package",
            LibraryError::InvalidAbiHeader(_) => "it was built with another version of abi_stable",
            LibraryError::IncompatibleVersionNumber { .. } | LibraryError::ParseVersionError(_) => {
                "it was built with another version of the SDK"
            }
            LibraryError::AbiInstability(_) => "its layouts differ from those of this SDK",
            LibraryError::RootModule { .. } => "its root module failed to start",
            _ => "its root module cannot be read",
        };
        Self { reason, report: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ABI_VERSION;

    #[test]
    fn root_modules_have_the_major_version_of_the_abi() {
        assert_eq!(ROOT_VERSION, format!("{}.0.0", ABI_VERSION.major));
    }
}
