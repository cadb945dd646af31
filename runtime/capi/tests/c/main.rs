//! The library as programs in C and C++ have it: its header, its symbols, and programs that use it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod compile;
mod coverage;
mod declared;
mod header;
mod library;
mod matrix;
mod packages;
mod programs;
