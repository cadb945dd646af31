//! Built-in operators, as an ordinary package that is linked into the runtime.
//!
//! The crate depends on `udo_api` and the compute primitives of `udo_simd` only, so that it can do nothing that a
//! user's package cannot. Each operator is one file under `ops`; code shared by related operators is under `family`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "kernel arithmetic"
)]
#![expect(
    clippy::many_single_char_names,
    reason = "formulas keep the letters of the specification"
)]
#![expect(clippy::inline_always, reason = "formulas take on the instructions of their caller")]
#![forbid(unsafe_code)]

#[macro_use]
mod def;
#[macro_use]
mod number;
mod family;
mod ops;

#[cfg(test)]
mod testing;

use udo_api::{KernelDef, OpDef, PackageV1};

pub(crate) use def::Def;

/// All operators of the package.
pub const OPS: &[OpDef] = ops::OPS;

/// All kernels of the package.
pub const KERNELS: &[KernelDef] = ops::KERNELS;

/// The package's registration table. A host that links it in adds its heap guard, which reports heap use in kernels.
pub const PACKAGE: PackageV1 =
    PackageV1::new("builtin", env!("CARGO_PKG_VERSION")).ops(OPS).kernels(KERNELS);
