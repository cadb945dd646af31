//! Operators and kernels, built in or from packages. Everything above this module treats both alike.
//!
//! Choosing an operator and a kernel for a node is not done here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use udo_api::abi::PackageV1;
use udo_api::guard::LibraryGuard;
use udo_api::{Core, KernelDef, OpDef};

use crate::contain::{self, Containment, Worker};
use crate::package::{
    self, Candidate, ClosedPackage, OpenError, OperatorIndex, Package, PackageId, PackageLibrary,
    Tables, Trust,
};
use udo_graph::graph::domain_of;

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
    /// The operator that it implements.
    pub op: &'static OpDef,
    /// The kernel.
    pub def: &'static KernelDef,
    /// The heap guard of the kernel's library, if it has one.
    pub guard: Option<LibraryGuard>,
}

/// All operators that models may use, and the packages that they come from.
///
/// Clones share the packages. Opened packages stay loaded until the process ends.
///
/// ```no_run
/// use std::path::Path;
/// use udo_engine::operators::Operators;
///
/// # fn main() -> Result<(), udo_engine::package::OpenError> {
/// let mut operators = Operators::new();
/// let package = operators.open(Path::new("SoftmaxUdoPackage"))?;
/// assert_eq!(operators.package_name(package), "SoftmaxUdoPackage");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Operators {
    slots: Vec<Slot>,
    ops: Vec<OpEntry>,
    /// The indexes of operators by name. Reading a name from a table validates it, so they are read once.
    named: Arc<HashMap<&'static str, Vec<usize>>>,
    /// The packages that may be opened.
    trust: Trust,
}

/// A package and its opened libraries.
#[derive(Clone, Debug)]
struct Slot {
    package: Package,
    tables: Tables,
    /// The table of a linked-in package.
    linked: Option<&'static PackageV1>,
    /// The worker of a contained package.
    worker: Option<&'static Worker>,
    /// Kernels of implementation libraries by path. Each library is checked and opened once for all clones.
    opened: Arc<Mutex<BTreeMap<PathBuf, Vec<KernelEntry>>>>,
    /// Kernels by core, shared by all clones.
    kernels: Arc<Mutex<BTreeMap<Core, Arc<[KernelEntry]>>>>,
}

impl Operators {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set with the built-in operators, the package called [`package::BUILT_IN`], from these tables.
    ///
    /// # Errors
    /// Fails if a table violates the contract, which is a bug of the program that links it.
    pub fn with_built_in(tables: &[&'static PackageV1]) -> Result<Self, OpenError> {
        let mut operators = Self::new();
        if let [first, others @ ..] = tables {
            let mut all = package::built_in(first)?;
            for table in others {
                all.join(&package::built_in(table)?);
            }
            operators.register(all, Some(first), None);
        }
        Ok(operators)
    }

    /// Adds a linked-in package. Adding it again has no effect.
    ///
    /// # Errors
    /// Fails if its table violates the contract, or its name is taken.
    pub fn add_static(&mut self, table: &'static PackageV1) -> Result<PackageId, OpenError> {
        let known = self.slots.iter().find(|s| s.linked.is_some_and(|l| std::ptr::eq(l, table)));
        if let Some(slot) = known {
            return Ok(slot.package.id);
        }
        let tables = package::linked_in(table)?;
        self.check_name(tables.name, &package::linked(tables.name))?;
        Ok(self.register(tables, Some(table), None))
    }

    /// Restricts the packages that may be opened from now on.
    pub fn set_trust(&mut self, trust: Trust) {
        self.trust = trust;
    }

    /// Opens the package at `path`: its folder, its `dist` folder, or its registration library.
    ///
    /// A library is checked before any of its code runs. A failed attempt has no side effects. Opening a package again has no
    /// effect.
    ///
    /// # Errors
    /// Fails if no package is found, or it cannot be opened together with the packages that are open.
    pub fn open(&mut self, path: &Path) -> Result<PackageId, OpenError> {
        let closed = ClosedPackage::read(path)?;
        closed.check_trust(&self.trust)?;
        self.open_closed(closed, None)
    }

    /// Opens the package at `path` as [`Operators::open`] does, but runs its code in a worker process. Faults of its code become
    /// errors, and its libraries are never mapped into this process.
    ///
    /// # Errors
    /// Fails as [`Operators::open`] does, and if the worker cannot be started.
    pub fn open_contained(
        &mut self,
        path: &Path,
        containment: &Containment,
    ) -> Result<PackageId, OpenError> {
        let closed = ClosedPackage::read(path)?;
        closed.check_trust(&self.trust)?;
        self.open_closed(closed, Some(containment))
    }

    /// Opens the package at `path`: as [`Operators::open`] does if it is signed with a trusted key, otherwise as
    /// [`Operators::open_contained`] does.
    ///
    /// # Errors
    /// Fails as these functions do.
    pub fn open_as_signed(
        &mut self,
        path: &Path,
        containment: &Containment,
    ) -> Result<PackageId, OpenError> {
        let closed = ClosedPackage::read(path)?;
        let is_signed = closed.is_trusted(&self.trust)?;
        self.open_closed(closed, (!is_signed).then_some(containment))
    }

    fn open_closed(
        &mut self,
        closed: ClosedPackage,
        containment: Option<&Containment>,
    ) -> Result<PackageId, OpenError> {
        let known = self.slots.iter().find(|s| s.package.sha256.as_ref() == Some(&closed.sha256));
        if let Some(slot) = known {
            return Ok(slot.package.id);
        }
        let known = self.slots.iter().find(|s| s.package.path.as_deref() == Some(closed.path()));
        if let Some(slot) = known {
            let (name, path) = (slot.package.name.clone(), closed.path().to_owned());
            return Err(OpenError::Changed { name, path });
        }
        if let Some(name) = closed.name() {
            self.check_name(name, &closed.place())?;
        }
        let worker = containment.map(|of| contain::worker(closed.path(), closed.build(), of));
        let worker = worker.transpose()?;
        let table = closed.load(loading(worker))?;
        self.check_name(table.name, &closed.place())?;
        let id = self.register(table, None, Some(closed));
        if let Some(slot) = self.slots.last_mut() {
            (slot.worker, slot.package.is_contained) = (worker, worker.is_some());
        }
        Ok(id)
    }

    /// Returns the kernels of `package` that run on `core`, opening the libraries with them if necessary. For a DSP, these are
    /// the kernels of each operator for the highest architecture that `core` can run. The result is empty if the package has no
    /// kernels for the core.
    ///
    /// # Errors
    /// Fails if a library is missing, invalid, or not of this build of the package.
    pub fn kernels_for(
        &self,
        package: PackageId,
        core: Core,
    ) -> Result<Arc<[KernelEntry]>, OpenError> {
        let slot = usize::try_from(package.0).ok().and_then(|at| self.slots.get(at));
        let slot = slot.ok_or(OpenError::NoSuchPackage { id: package })?;
        let mut kernels = slot.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kernels.get(&core) {
            return Ok(Arc::clone(known));
        }
        let found: Arc<[KernelEntry]> = slot.collect(core)?.into();
        kernels.insert(core, Arc::clone(&found));
        Ok(found)
    }

    /// Returns the operators called `op_type`, in the order in which their packages were opened.
    pub fn ops_named(&self, op_type: &str) -> impl Iterator<Item = &OpEntry> {
        let places = self.named.get(op_type).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|&at| self.ops.get(at))
    }

    /// Returns all operators, in the order in which their packages were opened.
    pub fn ops(&self) -> &[OpEntry] {
        &self.ops
    }

    /// Returns the name of each operator of packages with each domain of the nodes that it implements: its own, its package's
    /// name, and ONNX's.
    pub fn packaged_ops(&self) -> impl Iterator<Item = (&str, &str)> {
        let packaged = self.ops().iter().filter(|entry| !self.is_builtin(entry.package));
        packaged.flat_map(|entry| {
            let (schema, package) = (entry.def.schema(), self.package_name(entry.package));
            let own = domain_of(schema.domain());
            [own, package, ""].map(|domain| (schema.name(), domain))
        })
    }

    /// Returns all packages, in the order in which they were opened.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.slots.iter().map(|slot| &slot.package)
    }

    /// Returns a package; `None` if the id belongs to another set of operators.
    pub fn package(&self, id: PackageId) -> Option<&Package> {
        let at = usize::try_from(id.0).ok()?;
        self.slots.get(at).map(|slot| &slot.package)
    }

    /// Returns the name of a package; empty if the id belongs to another set of operators.
    pub fn package_name(&self, id: PackageId) -> &str {
        self.package(id).map_or("", |p| &p.name)
    }

    /// Returns whether the package is the built-in one.
    pub fn is_builtin(&self, id: PackageId) -> bool {
        self.package_name(id) == package::BUILT_IN
    }

    fn check_name(&self, name: &str, place: &str) -> Result<(), OpenError> {
        let Some(slot) = self.slots.iter().find(|s| s.package.name == name) else {
            return Ok(());
        };
        let open = match &slot.package.path {
            Some(path) => package::library(path),
            None => "the runtime itself".to_owned(),
        };
        Err(OpenError::NameTaken { name: name.to_owned(), open, found: place.to_owned() })
    }

    fn register(
        &mut self,
        tables: Tables,
        linked: Option<&'static PackageV1>,
        closed: Option<ClosedPackage>,
    ) -> PackageId {
        let id = PackageId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        let path = closed.as_ref().map(|closed| closed.path().to_owned());
        let index_sha256 =
            closed.as_ref().and_then(|closed| closed.index_sha256().map(str::to_owned));
        let sources = closed.as_ref().map(|closed| closed.sources.clone()).unwrap_or_default();
        let (sha256, folder) = closed.map(|closed| (closed.sha256, closed.folder)).unzip();
        let package = Package {
            id,
            name: tables.name.to_owned(),
            version: tables.version.to_owned(),
            sdk_version: tables.sdk_version.to_owned(),
            tier: tables.tier,
            is_contained: false,
            libraries: package::libraries_of(&tables, path.as_deref()),
            path,
            sha256,
            folder,
            index_sha256,
            sources,
        };
        let named = Arc::make_mut(&mut self.named);
        for (at, def) in (self.ops.len()..).zip(tables.ops) {
            named.entry(def.schema().name()).or_default().push(at);
        }
        self.ops.extend(tables.ops.iter().map(|def| OpEntry { package: id, def }));
        let (opened, kernels) = (Arc::default(), Arc::default());
        let worker = None;
        self.slots.push(Slot { package, tables, linked, worker, opened, kernels });
        id
    }
}

/// Returns the function that loads a library: into its worker, or into this process.
fn loading(
    worker: Option<&'static Worker>,
) -> impl FnOnce(&Candidate, &str) -> Result<Tables, OpenError> {
    move |candidate, sha256| match worker {
        Some(worker) => contain::open(worker, candidate.path(), sha256),
        None => package::load_here(candidate, sha256),
    }
}

impl Slot {
    fn collect(&self, core: Core) -> Result<Vec<KernelEntry>, OpenError> {
        let own = entries(self.package.id, &self.tables, self.tables.ops);
        // The built-in kernels run on every architecture.
        let is_own = self.package.name == package::BUILT_IN;
        let fits = |of: Core| of.runs_on(core) || (is_own && of.kind() == core.kind());
        let mut found: Vec<KernelEntry> = own.filter(|k| fits(k.def.core())).collect();

        let fits = self.package.libraries.iter().filter(|l| l.core.runs_on(core));
        let best = fits.map(|l| l.core.arch()).max();
        let is_best = |l: &&PackageLibrary| l.core.runs_on(core) && Some(l.core.arch()) == best;
        let libraries: Vec<PackageLibrary> =
            self.package.libraries.iter().filter(is_best).cloned().collect();
        for library in libraries {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            if !opened.contains_key(&library.path) {
                let ops = self.tables.ops;
                let load = loading(self.worker);
                let tables = package::implementation(&self.package, &library, ops, load)?;
                let kernels = entries(self.package.id, &tables, ops).collect();
                opened.insert(library.path.clone(), kernels);
            }
            found.extend(opened.get(&library.path).into_iter().flatten());
        }

        let key = |kernel: &KernelEntry| std::ptr::from_ref(kernel.op);
        let mut highest = BTreeMap::new();
        for kernel in &found {
            let arch = highest.entry(key(kernel)).or_insert(0);
            *arch = kernel.def.core().arch().max(*arch);
        }
        found.retain(|k| highest.get(&key(k)) == Some(&k.def.core().arch()));
        Ok(found)
    }
}

/// Returns the kernels of a checked table, each with its operator among `ops`.
fn entries(
    package: PackageId,
    tables: &Tables,
    ops: &'static [OpDef],
) -> impl Iterator<Item = KernelEntry> + use<> {
    let (guard, ops) = (tables.guard, OperatorIndex::new(ops));
    tables.kernels.iter().filter_map(move |def| {
        let op = ops.find_for(def).ok()?;
        Some(KernelEntry { package, op, def, guard })
    })
}
