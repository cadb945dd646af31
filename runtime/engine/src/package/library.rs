//! Opens the libraries of a package one by one: the registration library first, the others when a core needs them.

use std::path::{Path, PathBuf};

use udo_api::abi::PackageV1;
use udo_api::{Core, KernelDef, OpDef};

use super::copy::Tables;
use super::index::{self, INDEX_FILE, Index};
use super::open::{self, Candidate};
use super::sources::Sources;
use super::trust::{IndexFile, Trust, TrustRequest};
use super::{OpenError, Package, PackageLibrary, dist, error, table};

/// A registration library that passed the checks before loading. None of its code has run.
pub(crate) struct ClosedPackage {
    candidate: Candidate,
    pub(crate) sha256: String,
    /// The folder that the paths in its index are relative to.
    pub(crate) folder: PathBuf,
    /// Its index file, and the package name in it.
    sealed: Option<IndexFile>,
    indexed: Option<String>,
    /// Whether its libraries match the sources next to them.
    pub(crate) sources: Sources,
}

/// Identifies the build of the package at a path.
#[derive(Debug)]
pub struct Build {
    sha256: String,
    path: PathBuf,
}

impl Build {
    /// Identifies the package at `path` without running its code.
    ///
    /// # Errors
    /// Fails if the library cannot be read, or is not part of a package.
    pub fn identify(path: &Path) -> Result<Self, OpenError> {
        let dist::Located { path, .. } = dist::registration(path)?;
        let sha256 = index::sha256(&path)?;
        let path = path.canonicalize().map_err(|error| OpenError::unreadable(&path, error))?;
        Ok(Self { sha256, path })
    }

    /// Returns whether both are the same package: the same file, or files with the same content.
    pub fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 || self.path == other.path
    }
}

impl ClosedPackage {
    /// Reads the package at `path`: its folder, its `dist` folder, or its registration library.
    pub(crate) fn read(path: &Path) -> Result<Self, OpenError> {
        let dist::Located { path, folder, index } = dist::registration(path)?;
        let sealed = IndexFile::read(&folder)?;
        // Signatures and lock files cover this index, so libraries are checked against the same bytes.
        let index = match &sealed {
            Some(sealed) => Some(Index::from_bytes(&folder.join(INDEX_FILE), &sealed.bytes)?),
            None => index,
        };
        let candidate = Candidate::read(&path)?;
        let sha256 = index::sha256(&path)?;
        if let Some(index) = &index {
            index.check(&folder, &path, &sha256)?;
        }
        if let Some(manifest) = candidate.manifest.as_ref().filter(|m| m.is_implementation()) {
            let cores = manifest.kernels.iter().map(|k| k.core);
            return Err(not_a_registration(&path, &manifest.package, cores));
        }
        let sources = Sources::compare(&folder, index.as_ref());
        let indexed = index.map(|index| index.package);
        Ok(Self { candidate, sha256, folder, sealed, indexed, sources })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.candidate.path
    }

    /// Returns the SHA-256 digest of its index, if it has one.
    pub(crate) fn index_sha256(&self) -> Option<&str> {
        self.sealed.as_ref().map(|sealed| sealed.sha256.as_str())
    }

    /// Returns a digest that identifies this build of the package: that of its index, which covers all its libraries, or else
    /// that of its registration library.
    pub(crate) fn build(&self) -> &str {
        self.index_sha256().unwrap_or(&self.sha256)
    }

    /// Checks that the package is signed and locked as `trust` requires.
    pub(crate) fn check_trust(&self, trust: &Trust) -> Result<(), OpenError> {
        trust.check(&self.trust_request())
    }

    /// Returns whether the package is signed with a trusted key. Fails if it does not match the lock file.
    pub(crate) fn is_trusted(&self, trust: &Trust) -> Result<bool, OpenError> {
        trust.is_trusted(&self.trust_request())
    }

    fn trust_request(&self) -> TrustRequest<'_> {
        let file = || self.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.name().or(self.indexed.as_deref()).map_or_else(file, str::to_owned);
        TrustRequest { name, folder: &self.folder, index: self.sealed.as_ref() }
    }

    /// Returns the name of the library for messages.
    pub(crate) fn place(&self) -> String {
        error::library(self.path())
    }

    /// Returns the package's name, if the file states it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.candidate.manifest.as_ref().map(|manifest| manifest.package.as_str())
    }

    /// Loads the library with `load` and checks its table.
    pub(crate) fn load(&self, load: impl Load) -> Result<Tables, OpenError> {
        let table = self.candidate.load_with(|candidate| load(candidate, &self.sha256))?;
        let reject = |reason| OpenError::Table { place: self.place(), reason };
        let holds_kernels_only = table.ops.is_empty() && table.libraries.is_empty();
        if holds_kernels_only && !table.kernels.is_empty() {
            let cores = table.kernels.iter().map(KernelDef::core);
            return Err(not_a_registration(self.path(), table.name, cores));
        }
        if table.ops.is_empty() {
            return Err(reject("it has no operators, expected at least one".to_owned()));
        }
        table::check(&table, table.ops).map_err(|breach| reject(breach.to_string()))?;
        Ok(table)
    }
}

/// Copies and checks the tables of a linked-in package.
pub(crate) fn linked_in(package: &'static PackageV1) -> Result<Tables, OpenError> {
    let reject = |reason| OpenError::Table { place: error::linked(package.name()), reason };
    let tables = open::tables_of(package).map_err(|why| reject(why.to_string()))?;
    table::check(&tables, tables.ops).map_err(|breach| reject(breach.to_string()))?;
    Ok(tables)
}

/// Returns the tables of the runtime's own package. Tests check them, so that no process has to.
pub(crate) fn built_in(package: &'static PackageV1) -> Result<Tables, OpenError> {
    let reject = |reason: &str| {
        let place = error::linked(package.name());
        OpenError::Table { place, reason: reason.to_owned() }
    };
    Tables::in_place(package).map_err(reject)
}

/// Returns the implementation libraries that `table` names, with paths relative to its library.
pub(crate) fn libraries_of(table: &Tables, registration: Option<&Path>) -> Vec<PackageLibrary> {
    let folder = registration.map_or(Path::new(""), dist::folder_of);
    let libraries = table
        .libraries
        .iter()
        .map(|library| PackageLibrary { core: library.core(), path: folder.join(library.file()) });
    libraries.collect()
}

fn not_a_registration(path: &Path, package: &str, cores: impl Iterator<Item = Core>) -> OpenError {
    let mut cores: Vec<Core> = cores.collect();
    cores.sort();
    cores.dedup();
    let names: Vec<String> = cores.iter().map(Core::to_string).collect();
    OpenError::Implementation {
        path: path.to_owned(),
        cores: names.join(" and "),
        registration: dist::registration_near(path, package),
    }
}

/// Loads a checked library; the text is its digest.
pub(crate) trait Load: FnOnce(&Candidate, &str) -> Result<Tables, OpenError> {}

impl<F: FnOnce(&Candidate, &str) -> Result<Tables, OpenError>> Load for F {}

/// Loads a library into this process.
pub(crate) fn load_here(candidate: &Candidate, _: &str) -> Result<Tables, OpenError> {
    candidate.load()
}

/// Loads the library at the absolute path `path` into this process, whatever its role in its package.
pub(crate) fn load_library(path: &Path) -> Result<Tables, OpenError> {
    let candidate = Candidate::read(path)?;
    candidate.load_with(Candidate::load)
}

/// Opens an implementation library of `package` with `load`. `ops` are the package's operators.
pub(crate) fn implementation(
    package: &Package,
    library: &PackageLibrary,
    ops: &[OpDef],
    load: impl Load,
) -> Result<Tables, OpenError> {
    let path = &library.path;
    if !path.exists() {
        let registration = package.path.as_deref().unwrap_or(path);
        return Err(OpenError::MissingLibrary {
            package: package.name.clone(),
            core: library.core,
            path: path.clone(),
            folder: dist::package_folder(registration),
        });
    }
    let candidate = Candidate::read(path)?;
    if let Some(manifest) = &candidate.manifest {
        let about = [&manifest.package, &manifest.version, &manifest.sdk_version];
        check_origin(package, path, about.map(String::as_str))?;
        let kernels = manifest.kernels.iter().map(|k| (k.op.as_str(), k.core));
        check_cores(library, kernels)?;
    }
    let sha256 = index::sha256(path)?;
    if let Some(folder) = &package.folder {
        let sealed = IndexFile::read(folder)?;
        let file = folder.join(INDEX_FILE);
        if package.index_sha256.as_ref() != sealed.as_ref().map(|sealed| &sealed.sha256) {
            return Err(OpenError::Changed { name: package.name.clone(), path: file });
        }
        if let Some(sealed) = sealed {
            Index::from_bytes(&file, &sealed.bytes)?.check(folder, path, &sha256)?;
        }
    }
    let table = candidate.load_with(|candidate| load(candidate, &sha256))?;
    check_origin(package, path, [table.name, table.version, table.sdk_version])?;
    check_cores(library, table.kernels.iter().map(|k| (k.op(), k.core())))?;
    let place = error::library(path);
    table::check(&table, ops)
        .map_err(|breach| OpenError::Table { place: place.clone(), reason: breach.to_string() })?;
    if table.kernels.is_empty() {
        let reason = format!("it has no kernels, expected kernels for {}", library.core);
        return Err(OpenError::Table { place, reason });
    }
    Ok(table)
}

/// Refuses an implementation library of another package or build.
fn check_origin(package: &Package, path: &Path, found: [&str; 3]) -> Result<(), OpenError> {
    let expected = [&package.name, &package.version, &package.sdk_version];
    let names = ["package name", "version", "SDK version"];
    for ((what, found), expected) in names.into_iter().zip(found).zip(expected) {
        if found != expected {
            return Err(OpenError::Stray {
                path: path.to_owned(),
                what,
                found: format!("{found:?}"),
                expected: format!("{expected:?}"),
            });
        }
    }
    Ok(())
}

fn check_cores<'a>(
    library: &PackageLibrary,
    mut kernels: impl Iterator<Item = (&'a str, Core)>,
) -> Result<(), OpenError> {
    match kernels.find(|&(_, core)| core != library.core) {
        None => Ok(()),
        Some((op, found)) => Err(OpenError::WrongCore {
            path: library.path.clone(),
            op: format!("{op:?}"),
            found,
            expected: library.core,
        }),
    }
}
