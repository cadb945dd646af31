//! What a library of a package hands out: one table, behind every door.

use super::{ABI_VERSION, AbiVersion, RawStr, Table};
use crate::Core;
use crate::guard::{CellFn, LibraryGuard, ReportFn};
use crate::kernel::KernelDef;
use crate::schema::OpDef;

/// The symbol that a C package exports: `const udo_package_v1 *udo_package_query(uint32_t major)`.
pub const C_QUERY_SYMBOL: &str = "udo_package_query";

/// The type of [`C_QUERY_SYMBOL`]: null when the package has no table of that major version.
// SAFETY: only a type; who calls through it keeps to what is written above.
pub type QueryFn = unsafe extern "C" fn(major: u32) -> *const PackageV1;

abi_struct! {
    /// Where an implementation library of a package lies.
    #[derive(Clone, Copy, Debug)]
    pub struct LibraryRef {
        core: Core,
        reserved: u32,
        file: RawStr,
    }
}

impl LibraryRef {
    /// The library for `core`, as a path relative to the registration library.
    pub const fn new(core: Core, file: &'static str) -> Self {
        Self { core, reserved: 0, file: RawStr::new(file) }
    }

    /// The core whose kernels the library holds.
    pub const fn core(&self) -> Core {
        self.core
    }

    /// The path relative to the registration library.
    pub const fn file(&self) -> &'static str {
        self.file.get()
    }
}

abi_struct! {
    /// The one table behind every door: what a library of a package holds.
    ///
    /// Registration libraries fill `ops` and `libraries`, implementation libraries `kernels`;
    /// a library may do both.
    #[derive(Clone, Copy, Debug)]
    pub struct PackageV1 {
        /// The version that the library was built for.
        pub abi_version: AbiVersion,
        /// Bytes of this structure in that version.
        pub size: u32,
        /// The hash of that version's layouts.
        pub fingerprint: u64,
        /// What the library needs of its host: a bit for each of [`NEEDS`](super::NEEDS).
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

impl PackageV1 {
    /// An empty table for the package `name`.
    #[expect(clippy::cast_possible_truncation, reason = "the table has a few hundred bytes")]
    pub const fn new(name: &'static str, version: &'static str) -> Self {
        Self {
            abi_version: ABI_VERSION,
            size: size_of::<Self>() as u32,
            fingerprint: super::FINGERPRINT,
            needs: 0,
            name: RawStr::new(name),
            version: RawStr::new(version),
            sdk_version: RawStr::new(crate::SDK_VERSION),
            ops: Table::new(&[]),
            kernels: Table::new(&[]),
            libraries: Table::new(&[]),
            guard_cell: None,
            guard_report: None,
            reserved: [0; 7],
        }
    }

    /// The same table with these operators.
    #[must_use]
    pub const fn ops(mut self, ops: &'static [OpDef]) -> Self {
        self.ops = Table::new(ops);
        self
    }

    /// The same table with these kernels.
    #[must_use]
    pub const fn kernels(mut self, kernels: &'static [KernelDef]) -> Self {
        self.kernels = Table::new(kernels);
        self
    }

    /// The same table with these implementation libraries.
    #[must_use]
    pub const fn libraries(mut self, libraries: &'static [LibraryRef]) -> Self {
        self.libraries = Table::new(libraries);
        self
    }

    /// The same table with the heap guard of the library or program that this is compiled into.
    #[must_use]
    pub const fn guarded(mut self) -> Self {
        if let Some(guard) = super::watch::LIBRARY_GUARD {
            let (cell, report) = guard.parts();
            self.guard_cell = Some(cell);
            self.guard_report = Some(report);
        }
        self
    }

    /// The same table, refused by hosts that lack one of these of [`NEEDS`](super::NEEDS).
    #[must_use]
    pub const fn needing(mut self, needs: u64) -> Self {
        self.needs = needs;
        self
    }

    /// Whether a reserved field is set.
    pub fn has_reserved(&self) -> bool {
        self.reserved.iter().any(|&r| r != 0)
    }

    /// The package's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// The package's version.
    pub const fn version(&self) -> &'static str {
        self.version.get()
    }

    /// The version of this crate that the library was built with.
    pub const fn sdk_version(&self) -> &'static str {
        self.sdk_version.get()
    }

    /// The operators that the library describes, in a table that this build made.
    pub const fn op_table(&self) -> &'static [OpDef] {
        self.ops.own()
    }

    /// The same as any build may have made them.
    pub const fn raw_ops(&self) -> Table<OpDef> {
        self.ops
    }

    /// The kernels that the library holds, in a table that this build made.
    pub const fn kernel_table(&self) -> &'static [KernelDef] {
        self.kernels.own()
    }

    /// The same as any build may have made them.
    pub const fn raw_kernels(&self) -> Table<KernelDef> {
        self.kernels
    }

    /// The implementation libraries that the package names, in a table that this build made.
    pub const fn library_table(&self) -> &'static [LibraryRef] {
        self.libraries.own()
    }

    /// The same as any build may have made them.
    pub const fn raw_libraries(&self) -> Table<LibraryRef> {
        self.libraries
    }

    /// How to reach the library's heap guard, if it has one.
    ///
    /// # Errors
    /// It names only one of the two functions for that.
    pub const fn guard(&self) -> Result<Option<LibraryGuard>, &'static str> {
        match (self.guard_cell, self.guard_report) {
            (Some(cell), Some(report)) => Ok(Some(LibraryGuard::new(cell, report))),
            (None, None) => Ok(None),
            _ => Err("its table has one of the two functions of a guard, wanted both or none"),
        }
    }
}
