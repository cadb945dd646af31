//! Code that integration tests and benchmarks of several crates share, one helper per module.
//!
//! Only integration tests and benchmarks depend on this crate. For unit tests it would bring the crate under test a second time.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

#[cfg(feature = "runtime")]
pub mod checkout;
pub mod close;
#[cfg(feature = "runtime")]
pub mod command;
#[cfg(feature = "runtime")]
pub mod compile;
#[cfg(feature = "runtime")]
pub mod desk;
#[cfg(feature = "runtime")]
pub mod doubles;
#[cfg(feature = "runtime")]
pub mod fixture;
#[cfg(feature = "runtime")]
pub mod graph_files;
#[cfg(feature = "runtime")]
pub mod graphs;
#[cfg(feature = "runtime")]
pub mod guide;
pub mod language;
#[cfg(feature = "runtime")]
pub mod lists;
#[cfg(feature = "runtime")]
pub mod number;
#[cfg(feature = "runtime")]
pub mod packages;
#[cfg(feature = "runtime")]
pub mod page;
#[cfg(feature = "runtime")]
pub mod planned;
#[cfg(feature = "runtime")]
pub mod positive;
#[cfg(feature = "runtime")]
pub mod proto;
pub mod random;
#[cfg(feature = "runtime")]
pub mod small;
#[cfg(feature = "runtime")]
pub mod varied;
