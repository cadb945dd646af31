//! The code compiled into each library of a package: the functions behind the tables, which connect an author's
//! traits to the binary contract, and the entry points through which a host gets the tables.
//!
//! Authors use [`export_package!`](crate::export_package) and nothing else of it.

mod door;
mod gpu;
mod manifest;
mod package;
mod shim;
#[cfg_attr(udo_unguarded, path = "bare.rs")]
mod watch;

#[doc(hidden)]
pub use abi_stable;

pub use door::{DoorError, PackageRoot, PackageRoot_Ref, open_rust_door};
pub use gpu::send;
pub use manifest::{manifest_bytes, manifest_len};
pub use shim::kernel_vtable;
