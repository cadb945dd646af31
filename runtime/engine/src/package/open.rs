//! Loads one library. Everything that can be checked is checked before any of its code runs.
//!
//! `copy` copies its tables. These two files have the unsafe code of the module.

use std::fmt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use udo_api::abi::{ABI_VERSION, C_QUERY_SYMBOL, PackageV1, QueryFn};
use udo_api::export::open_rust_door;

use super::copy::{TableError, Tables};
use super::elf::Elf;
use super::error::{LoadReport, library};
use super::{Manifest, OpenError};
use crate::exit_guard::{self, CallOwner};

/// A library that was checked but not loaded.
pub(crate) struct Candidate {
    pub(super) path: PathBuf,
    /// `None` for a C package without a manifest.
    pub(super) manifest: Option<Manifest>,
    door: Door,
}

#[derive(Clone, Copy)]
enum Door {
    Rust,
    C,
}

/// Names the library if it exits the process while it is loaded.
impl CallOwner for Candidate {
    fn say(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        write!(f, "{} {what} while it was opened", library(&self.path))
    }
}

impl Candidate {
    /// Reads the library at the absolute path `path`. Refuses one that this runtime cannot open.
    pub(super) fn read(path: &Path) -> Result<Self, OpenError> {
        let elf = Elf::read(path)?;
        let manifest = Manifest::from_elf(path, &elf)?;
        if let Some(manifest) = &manifest {
            manifest.check(path)?;
        }
        let door = if elf.exports_c_query { Door::C } else { Door::Rust };
        Ok(Self { path: path.to_owned(), manifest, door })
    }

    /// Loads the library with `load`. Refuses tables that do not match its manifest.
    pub(super) fn load_with(
        &self,
        load: impl FnOnce(&Self) -> Result<Tables, OpenError>,
    ) -> Result<Tables, OpenError> {
        let tables = load(self)?;
        self.compare(&tables)?;
        Ok(tables)
    }

    /// Runs the library's constructors and reads its table. The library is never unloaded.
    pub(super) fn load(&self) -> Result<Tables, OpenError> {
        let table = exit_guard::with_record(self, || self.table())?;
        if !table.is_aligned() {
            return Err(self.refuse("it is not aligned"));
        }
        // SAFETY: `table` is not null, as the doors see to, aligned, and static by the contract.
        unsafe { Tables::copy(table) }.map_err(|why| self.refuse(&why.to_string()))
    }

    /// Returns the path of the library.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn table(&self) -> Result<*const PackageV1, OpenError> {
        // SAFETY: the file is a library for this machine that calls itself a package, and whoever
        // opens a package trusts its code.
        let opened = unsafe { Library::open(Some(&self.path), RTLD_NOW | RTLD_LOCAL) };
        let handle = opened.map_err(|e| OpenError::Load {
            path: self.path.clone(),
            source: LoadReport::from_error(&e),
        })?;
        let table = match self.door {
            Door::Rust => self.rust_table(),
            Door::C => self.c_table(&handle),
        };
        // Tables and their functions are used for as long as the process lives.
        std::mem::forget(handle);
        table
    }

    fn refuse(&self, reason: &str) -> OpenError {
        OpenError::Table { place: library(&self.path), reason: reason.to_owned() }
    }

    fn rust_table(&self) -> Result<*const PackageV1, OpenError> {
        // SAFETY: the constructors have run already, and the manifest was written by the macro
        // that writes the header, for the same layouts.
        unsafe { open_rust_door(&self.path) }.map_err(|e| OpenError::Door {
            path: self.path.clone(),
            reason: e.reason.to_owned(),
            source: LoadReport(e.report),
        })
    }

    fn c_table(&self, handle: &Library) -> Result<*const PackageV1, OpenError> {
        // SAFETY: the contract gives the symbol of this name this type.
        let query = unsafe { handle.get::<QueryFn>(C_QUERY_SYMBOL) };
        let query = query.map_err(|e| OpenError::Load {
            path: self.path.clone(),
            source: LoadReport::from_error(&e),
        })?;
        // SAFETY: the function takes any version and touches nothing of ours.
        let table = unsafe { query(u32::from(ABI_VERSION.major)) };
        if table.is_null() {
            return Err(OpenError::NoTable { path: self.path.clone() });
        }
        Ok(table)
    }

    /// Refuses a library whose table does not match its manifest.
    fn compare(&self, table: &Tables) -> Result<(), OpenError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let names = |ops: &mut dyn Iterator<Item = String>| ops.collect::<Vec<_>>().join(", ");
        let entries = [
            ("package name", table.name.to_owned(), manifest.package.clone()),
            ("version", table.version.to_owned(), manifest.version.clone()),
            ("SDK version", table.sdk_version.to_owned(), manifest.sdk_version.clone()),
            (
                "operators",
                names(&mut table.ops.iter().map(|op| op.schema().name().to_owned())),
                names(&mut manifest.ops.iter().map(|op| op.name.clone())),
            ),
            (
                "kernels",
                names(&mut table.kernels.iter().map(|k| format!("{}:{}", k.op(), k.core()))),
                names(&mut manifest.kernels.iter().map(|k| format!("{}:{}", k.op, k.core))),
            ),
            (
                "libraries",
                names(&mut table.libraries.iter().map(|l| l.file().to_owned())),
                names(&mut manifest.libraries.iter().map(|l| l.file.clone())),
            ),
        ];
        for (what, table, manifest) in entries {
            if table != manifest {
                let path = self.path.clone();
                let [table, manifest] = [table, manifest].map(|t| format!("{t:?}"));
                return Err(OpenError::ManifestDiffers { path, what, table, manifest });
            }
        }
        Ok(())
    }
}

/// Copies the tables of a linked-in package.
pub(super) fn tables_of(package: &'static PackageV1) -> Result<Tables, TableError> {
    // SAFETY: `package` is a static table that this build made.
    unsafe { Tables::copy(package) }
}
