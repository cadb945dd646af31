//! Operators and kernels, built in or loaded from packages; from here on nobody can tell which.
//!
//! Opening a package checks everything that its files and tables say before any of it is
//! registered. Which kernel a node gets is decided elsewhere.

mod channel_last;
mod choose;
mod defaults;
mod discover;
mod dist;
mod elf;
mod error;
pub mod index;
mod inspect;
mod json;
mod manifest;
mod open;
mod params;
mod resolve;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use udo_api::abi::PackageV1;
use udo_api::guard::GuardCell;
use udo_api::{Core, KernelDef, OpDef};

pub use discover::{Discovery, Found, Skipped};
pub use dist::{DIST_FOLDER, implementation_file, registration_file};
pub use error::{LoadReport, OpenError};
pub use inspect::{Contents, InspectedLibrary, Inspection, Listing, inspect};
pub use manifest::{
    Manifest, ManifestKernel, ManifestLibrary, ManifestOp, ManifestParam, ManifestPort,
    ManifestRule, Tier, host_target,
};

pub(crate) use params::ACTIVATION;
pub use params::Params;
pub use resolve::{BindOptions, Binding, ResolveError, Resolved};

pub use udo_host::{FinalizedKernel, PackStore, ParamSetting, Refusal};

use index::Index;
use open::Candidate;

/// Stands for a package of one registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackageId(u32);

/// The function that gives the calling thread's heap guard of one library.
pub type ThreadGuard = extern "C" fn() -> *mut GuardCell;

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
}

/// An implementation library of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageLibrary {
    /// The core that its kernels are for.
    pub core: Core,
    /// Its absolute path.
    pub path: PathBuf,
}

/// An operator of an open package.
#[derive(Clone, Copy, Debug)]
pub struct OpEntry {
    /// The package.
    pub package: PackageId,
    /// The operator.
    pub def: &'static OpDef,
}

/// A kernel of an open package.
#[derive(Clone, Copy, Debug)]
pub struct KernelEntry {
    /// The package.
    pub package: PackageId,
    /// The kernel.
    pub def: &'static KernelDef,
    /// The heap guard of the library that holds the kernel, if it has one.
    pub thread_guard: Option<ThreadGuard>,
}

/// All operators that a model may use, and the packages they come from.
#[derive(Debug, Default)]
pub struct Registry {
    slots: Vec<Slot>,
    ops: Vec<OpEntry>,
    packs: PackStore,
}

/// A package and what has been opened of it.
#[derive(Debug)]
struct Slot {
    package: Package,
    table: &'static PackageV1,
    /// Where its index lies, if it has one; nothing for a package that is linked in.
    folder: Option<PathBuf>,
    /// Kernels of implementation libraries by path.
    opened: BTreeMap<PathBuf, Vec<KernelEntry>>,
    /// Kernels by the core asked for.
    kernels: BTreeMap<Core, Vec<KernelEntry>>,
}

/// Where a package was opened from.
struct Origin {
    path: PathBuf,
    sha256: String,
    /// The folder that its index's paths start from.
    folder: PathBuf,
}

impl Registry {
    /// A registry with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry with the built-in operators in it.
    ///
    /// # Errors
    /// The built-in table breaks the contract.
    pub fn builtin() -> Result<Self, OpenError> {
        static BUILT_IN: PackageV1 = udo_ops::PACKAGE.guarded();
        let mut registry = Self::new();
        registry.add_static(&BUILT_IN)?;
        Ok(registry)
    }

    /// Adds a package that is linked in. Adding one twice changes nothing.
    ///
    /// # Errors
    /// Its table breaks the contract, or its name is taken.
    pub fn add_static(&mut self, table: &'static PackageV1) -> Result<PackageId, OpenError> {
        let known = self.slots.iter().find(|s| std::ptr::eq(s.table, table));
        if let Some(slot) = known {
            return Ok(slot.package.id);
        }
        let place = format!("linked-in package {:?}", table.name());
        if let Some(reason) = table.refusal() {
            return Err(OpenError::Table { place, reason });
        }
        self.check_name(table.name(), &place)?;
        table::check(table, table.op_table())
            .map_err(|reason| OpenError::Table { place, reason })?;
        Ok(self.register(table, None))
    }

    /// Opens the package at `path`: its folder, its `dist` folder, or its registration library.
    ///
    /// The library is refused, where it is wrong, before any of its code runs; a refused package
    /// leaves nothing behind. Opening a package twice changes nothing.
    ///
    /// # Errors
    /// There is no package, or none that this runtime can open beside those that are open.
    pub fn open(&mut self, path: &Path) -> Result<PackageId, OpenError> {
        let dist::Located { path, folder, index } = dist::registration(path)?;
        let candidate = Candidate::read(&path)?;
        let sha256 = index::sha256(&path)?;
        if let Some(index) = &index {
            index.check(&folder, &path, &sha256)?;
        }
        let known = self.slots.iter().find(|s| s.package.sha256.as_ref() == Some(&sha256));
        if let Some(slot) = known {
            return Ok(slot.package.id);
        }
        let known = self.slots.iter().find(|s| s.package.path.as_ref() == Some(&path));
        if let Some(slot) = known {
            return Err(OpenError::Changed { name: slot.package.name.clone(), path });
        }

        let place = error::library(&path);
        if let Some(manifest) = &candidate.manifest {
            if manifest.is_implementation() {
                let cores = manifest.kernels.iter().map(|k| k.core);
                return Err(implementation(&path, &manifest.package, cores));
            }
            self.check_name(&manifest.package, &place)?;
        }
        let table = candidate.load()?;
        let reject = |reason| OpenError::Table { place: place.clone(), reason };
        let holds_kernels_only = table.op_table().is_empty() && table.library_table().is_empty();
        if holds_kernels_only && !table.kernel_table().is_empty() {
            let cores = table.kernel_table().iter().map(KernelDef::core);
            return Err(implementation(&path, table.name(), cores));
        }
        self.check_name(table.name(), &place)?;
        if table.op_table().is_empty() {
            return Err(reject("it has no operators, wanted at least one".to_owned()));
        }
        table::check(table, table.op_table()).map_err(reject)?;
        Ok(self.register(table, Some(Origin { path, sha256, folder })))
    }

    /// The kernels of `package` that run on `core`, opening the libraries that hold them if they
    /// are not open yet. For a DSP these are, operator by operator, the ones for the highest
    /// architecture that `core` can run. None is no error: the package has nothing for the core.
    ///
    /// # Errors
    /// A library is missing, wrong, or not of this build of the package.
    pub fn kernels_for(
        &mut self,
        package: PackageId,
        core: Core,
    ) -> Result<&[KernelEntry], OpenError> {
        let slot = usize::try_from(package.0).ok().and_then(|at| self.slots.get_mut(at));
        let slot = slot.ok_or(OpenError::NoSuchPackage { id: package })?;
        if !slot.kernels.contains_key(&core) {
            let found = slot.collect(core)?;
            slot.kernels.insert(core, found);
        }
        Ok(slot.kernels.get(&core).map_or(&[], Vec::as_slice))
    }

    /// The operators called `op_type`, in the order in which their packages were opened.
    pub fn ops_named(&self, op_type: &str) -> impl Iterator<Item = &OpEntry> {
        self.ops.iter().filter(move |op| op.def.schema().name() == op_type)
    }

    /// All operators, in the order in which their packages were opened.
    pub fn ops(&self) -> &[OpEntry] {
        &self.ops
    }

    /// All packages, in the order in which they were opened.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.slots.iter().map(|slot| &slot.package)
    }

    /// The package that `id` stands for; nothing for a number of another registry.
    pub fn package(&self, id: PackageId) -> Option<&Package> {
        let at = usize::try_from(id.0).ok()?;
        self.slots.get(at).map(|slot| &slot.package)
    }

    /// The name of the package that `id` stands for; empty for a number of another registry.
    pub fn package_name(&self, id: PackageId) -> &str {
        self.package(id).map_or("", |p| &p.name)
    }

    /// Whether the package is the runtime's own.
    pub fn is_builtin(&self, id: PackageId) -> bool {
        self.package_name(id) == udo_ops::PACKAGE.name()
    }

    /// The packed constants that models of this registry share.
    pub fn packs(&self) -> &PackStore {
        &self.packs
    }

    fn check_name(&self, name: &str, place: &str) -> Result<(), OpenError> {
        let Some(slot) = self.slots.iter().find(|s| s.package.name == name) else {
            return Ok(());
        };
        let open = match &slot.package.path {
            Some(path) => error::library(path),
            None => "the runtime itself".to_owned(),
        };
        Err(OpenError::NameTaken { name: name.to_owned(), open, found: place.to_owned() })
    }

    fn register(&mut self, table: &'static PackageV1, origin: Option<Origin>) -> PackageId {
        let id = PackageId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let folder = origin.as_ref().map_or(Path::new(""), |o| dist::folder_of(&o.path));
        let libraries = table.library_table().iter().map(|library| PackageLibrary {
            core: library.core(),
            path: folder.join(library.file()),
        });
        let package = Package {
            id,
            name: table.name().to_owned(),
            version: table.version().to_owned(),
            sdk_version: table.sdk_version().to_owned(),
            tier: Tier::of(table),
            libraries: libraries.collect(),
            path: origin.as_ref().map(|o| o.path.clone()),
            sha256: origin.as_ref().map(|o| o.sha256.clone()),
        };
        self.ops.extend(table.op_table().iter().map(|def| OpEntry { package: id, def }));
        let (opened, kernels) = (BTreeMap::new(), BTreeMap::new());
        let folder = origin.map(|o| o.folder);
        self.slots.push(Slot { package, table, folder, opened, kernels });
        id
    }
}

fn implementation(path: &Path, package: &str, cores: impl Iterator<Item = Core>) -> OpenError {
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

impl Slot {
    fn collect(&mut self, core: Core) -> Result<Vec<KernelEntry>, OpenError> {
        let own = entries(self.package.id, self.table);
        let mut found: Vec<KernelEntry> = own.filter(|k| k.def.core().runs_on(core)).collect();

        let fits = self.package.libraries.iter().filter(|l| l.core.runs_on(core));
        let best = fits.map(|l| l.core.arch()).max();
        let is_best = |l: &&PackageLibrary| l.core.runs_on(core) && Some(l.core.arch()) == best;
        let libraries: Vec<PackageLibrary> =
            self.package.libraries.iter().filter(is_best).cloned().collect();
        for library in libraries {
            if !self.opened.contains_key(&library.path) {
                let kernels = self.open_implementation(&library)?;
                self.opened.insert(library.path.clone(), kernels);
            }
            found.extend(self.opened.get(&library.path).into_iter().flatten());
        }

        let mut highest: BTreeMap<&str, u16> = BTreeMap::new();
        for kernel in &found {
            let arch = highest.entry(kernel.def.op()).or_default();
            *arch = kernel.def.core().arch().max(*arch);
        }
        found.retain(|k| highest.get(k.def.op()) == Some(&k.def.core().arch()));
        Ok(found)
    }

    fn open_implementation(&self, library: &PackageLibrary) -> Result<Vec<KernelEntry>, OpenError> {
        let path = &library.path;
        if !path.exists() {
            let registration = self.package.path.as_deref().unwrap_or(path);
            return Err(OpenError::MissingLibrary {
                package: self.package.name.clone(),
                core: library.core,
                path: path.clone(),
                folder: dist::package_folder(registration),
            });
        }
        let candidate = Candidate::read(path)?;
        if let Some(manifest) = &candidate.manifest {
            let about = [&manifest.package, &manifest.version, &manifest.sdk_version];
            self.check_origin(path, about.map(String::as_str))?;
            let kernels = manifest.kernels.iter().map(|k| (k.op.as_str(), k.core));
            check_cores(library, kernels)?;
        }
        if let Some(folder) = &self.folder
            && let Some(index) = Index::read(folder)?
        {
            index.check(folder, path, &index::sha256(path)?)?;
        }
        let table = candidate.load()?;
        self.check_origin(path, [table.name(), table.version(), table.sdk_version()])?;
        check_cores(library, table.kernel_table().iter().map(|k| (k.op(), k.core())))?;
        let place = error::library(path);
        table::check(table, self.table.op_table())
            .map_err(|reason| OpenError::Table { place: place.clone(), reason })?;
        if table.kernel_table().is_empty() {
            let reason = format!("it has no kernels, wanted kernels for {}", library.core);
            return Err(OpenError::Table { place, reason });
        }
        Ok(entries(self.package.id, table).collect())
    }

    /// Refuses an implementation library that is not of this build of the package.
    fn check_origin(&self, path: &Path, found: [&str; 3]) -> Result<(), OpenError> {
        let package = &self.package;
        let wanted = [&package.name, &package.version, &package.sdk_version];
        let names = ["package name", "version", "SDK version"];
        for ((what, found), wanted) in names.into_iter().zip(found).zip(wanted) {
            if found != wanted {
                return Err(OpenError::Stray {
                    path: path.to_owned(),
                    what,
                    found: format!("{found:?}"),
                    wanted: format!("{wanted:?}"),
                });
            }
        }
        Ok(())
    }
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
            wanted: library.core,
        }),
    }
}

fn entries(package: PackageId, table: &'static PackageV1) -> impl Iterator<Item = KernelEntry> {
    let thread_guard = table.thread_guard();
    table.kernel_table().iter().map(move |def| KernelEntry { package, def, thread_guard })
}
