//! Kernels of many operators next to their references, and many bugs that `udo check` finds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod kernels;
mod mutants;
