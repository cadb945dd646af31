//! What a package's library exports.

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
            // Asked here, in the package's own crate: only its settings decide what a panic does.
            const PANICS: $crate::abi::PanicStrategy = if cfg!(panic = "unwind") {
                $crate::abi::PanicStrategy::Unwind
            } else {
                $crate::abi::PanicStrategy::Abort
            };
            const MANIFEST_LEN: usize = $crate::abi::manifest_len(&PACKAGE, PANICS);
            static TABLE: $crate::PackageV1 = PACKAGE;

            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".udo.manifest")]
            pub static UDO_MANIFEST: [u8; MANIFEST_LEN] =
                $crate::abi::manifest_bytes(&PACKAGE, PANICS);

            fn root() -> $crate::abi::PackageRoot_Ref {
                $crate::guard::install_panic_hook();
                $crate::abi::PackageRoot::leak(&TABLE)
            }

            extern "C" fn erased_root() -> $crate::abi::abi_stable::library::RootModuleResult {
                $crate::abi::abi_stable::library::__call_root_module_loader(root)
            }

            // The name that abi_stable gives the header of a root module.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            // SAFETY: `erased_root` makes a `PackageRoot_Ref`.
            pub static UDO_ROOT_MODULE: $crate::abi::abi_stable::library::LibHeader = unsafe {
                $crate::abi::abi_stable::library::LibHeader::from_constructor::<
                    $crate::abi::PackageRoot_Ref,
                >(erased_root, $crate::abi::abi_stable::library::CheckTypeLayout::Yes)
            };
        };
    };
}
