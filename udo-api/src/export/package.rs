//! The contents of a package's library, and their export.

use super::watch::LIBRARY_GUARD;
use crate::abi::{ABI_VERSION, FINGERPRINT, KernelDef, LibraryRef, OpDef, PackageV1, SDK_VERSION};
use crate::core::Core;
use crate::guard::LibraryGuard;
use crate::span::{RawStr, Table};

/// Exports a package from a library crate: its table, its manifest, its heap guard.
///
/// Used once, at the root of a `cdylib` crate. It installs [`GuardAlloc`](crate::GuardAlloc) as
/// the library's allocator, and adds the library's manifest in a linker section of its own.
///
/// ```no_run
/// use udo_api::PackageV1;
///
/// udo_api::export_package!(PackageV1::new("SoftmaxUdoPackage", "1.0.0"));
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_package {
    ($package:expr) => {
        #[global_allocator]
        static UDO_GUARD_ALLOC: $crate::GuardAlloc = $crate::GuardAlloc;

        const _: () = {
            const PACKAGE: $crate::PackageV1 = $package.guarded();
            // Evaluated in the package's own crate, whose settings decide what a panic does.
            const PANICS: $crate::abi::PanicStrategy = if cfg!(panic = "unwind") {
                $crate::abi::PanicStrategy::Unwind
            } else {
                $crate::abi::PanicStrategy::Abort
            };
            const MANIFEST_LEN: usize = $crate::export::manifest_len(&PACKAGE, PANICS);
            static TABLE: $crate::PackageV1 = PACKAGE;

            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".udo.manifest")]
            pub static UDO_MANIFEST: [u8; MANIFEST_LEN] =
                $crate::export::manifest_bytes(&PACKAGE, PANICS);

            fn root() -> $crate::export::PackageRoot_Ref {
                $crate::guard::install_panic_hook();
                $crate::export::PackageRoot::leak(&TABLE)
            }

            extern "C" fn erased_root() -> $crate::export::abi_stable::library::RootModuleResult {
                $crate::export::abi_stable::library::__call_root_module_loader(root)
            }

            // The name that abi_stable expects for the header of a root module.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            // SAFETY: `erased_root` creates a `PackageRoot_Ref`.
            pub static UDO_ROOT_MODULE: $crate::export::abi_stable::library::LibHeader = unsafe {
                $crate::export::abi_stable::library::LibHeader::from_constructor::<
                    $crate::export::PackageRoot_Ref,
                >(erased_root, $crate::export::abi_stable::library::CheckTypeLayout::Yes)
            };
        };
    };
}

impl PackageV1 {
    /// Creates an empty table for the package `name`.
    #[expect(clippy::cast_possible_truncation, reason = "the table has a few hundred bytes")]
    pub const fn new(name: &'static str, version: &'static str) -> Self {
        Self {
            abi_version: ABI_VERSION,
            size: size_of::<Self>() as u32,
            fingerprint: FINGERPRINT,
            needs: 0,
            name: RawStr::new(name),
            version: RawStr::new(version),
            sdk_version: RawStr::new(SDK_VERSION),
            ops: Table::new(&[]),
            kernels: Table::new(&[]),
            libraries: Table::new(&[]),
            guard_cell: None,
            guard_report: None,
            reserved: [0; 7],
        }
    }

    /// Sets the operators.
    #[must_use]
    pub const fn ops(mut self, ops: &'static [OpDef]) -> Self {
        self.ops = Table::new(ops);
        self
    }

    /// Sets the kernels.
    #[must_use]
    pub const fn kernels(mut self, kernels: &'static [KernelDef]) -> Self {
        self.kernels = Table::new(kernels);
        self
    }

    /// Sets the implementation libraries.
    #[must_use]
    pub const fn libraries(mut self, libraries: &'static [LibraryRef]) -> Self {
        self.libraries = Table::new(libraries);
        self
    }

    /// Adds the heap guard of the library or program that contains this code.
    #[must_use]
    pub const fn guarded(mut self) -> Self {
        if let Some(guard) = LIBRARY_GUARD {
            let (cell, report) = guard.parts();
            self.guard_cell = Some(cell);
            self.guard_report = Some(report);
        }
        self
    }

    /// Makes hosts that lack one of these [`NEEDS`](crate::abi::NEEDS) refuse the table.
    #[must_use]
    pub const fn needing(mut self, needs: u64) -> Self {
        self.needs = needs;
        self
    }

    /// Whether a reserved field is set.
    pub fn has_reserved(&self) -> bool {
        self.reserved.iter().any(|&r| r != 0)
    }

    /// Returns the package's name.
    pub const fn name(&self) -> &'static str {
        self.name.get()
    }

    /// Returns the package's version.
    pub const fn version(&self) -> &'static str {
        self.version.get()
    }

    /// Returns the version of this crate that the library was built with.
    pub const fn sdk_version(&self) -> &'static str {
        self.sdk_version.get()
    }

    /// Returns the operators, in a table of this build.
    pub const fn op_table(&self) -> &'static [OpDef] {
        self.ops.own()
    }

    /// Returns the operators of a table of any build.
    pub const fn raw_ops(&self) -> Table<OpDef> {
        self.ops
    }

    /// Returns the kernels, in a table of this build.
    pub const fn kernel_table(&self) -> &'static [KernelDef] {
        self.kernels.own()
    }

    /// Returns the kernels of a table of any build.
    pub const fn raw_kernels(&self) -> Table<KernelDef> {
        self.kernels
    }

    /// Returns the implementation libraries, in a table of this build.
    pub const fn library_table(&self) -> &'static [LibraryRef] {
        self.libraries.own()
    }

    /// Returns the implementation libraries of a table of any build.
    pub const fn raw_libraries(&self) -> Table<LibraryRef> {
        self.libraries
    }

    /// Returns the library's heap guard, if it has one.
    ///
    /// # Errors
    /// The table has only one of the guard's two functions.
    pub const fn guard(&self) -> Result<Option<LibraryGuard>, &'static str> {
        match (self.guard_cell, self.guard_report) {
            (Some(cell), Some(report)) => Ok(Some(LibraryGuard::new(cell, report))),
            (None, None) => Ok(None),
            _ => Err("the table has one of the two functions of a guard, expected both or none"),
        }
    }
}

impl LibraryRef {
    /// Names the library for `core`, by a path relative to the registration library.
    pub const fn new(core: Core, file: &'static str) -> Self {
        Self { core, reserved: 0, file: RawStr::new(file) }
    }

    /// Returns the core of the library's kernels.
    pub const fn core(&self) -> Core {
        self.core
    }

    /// Returns the path relative to the registration library.
    pub const fn file(&self) -> &'static str {
        self.file.get()
    }
}
