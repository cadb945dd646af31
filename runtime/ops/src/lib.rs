//! Built-in operators: an ordinary package that happens to be linked in.
//!
//! Nothing here can do what a user's package cannot: it rests on `udo_api` and the compute primitives of
//! `udo_simd` alone, which packages may use as well. An operator is
//! one file under `ops`; what several of them share lies under `family`.
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

/// Every operator of the package.
pub const OPS: &[OpDef] = ops::OPS;

/// Every kernel of the package.
pub const KERNELS: &[KernelDef] = ops::KERNELS;

/// The package's table; a host that links it in adds its guard.
pub const PACKAGE: PackageV1 =
    PackageV1::new("builtin", env!("CARGO_PKG_VERSION")).ops(OPS).kernels(KERNELS);
