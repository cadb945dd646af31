//! Compilation of graphs: operator upgrades, constant folding, fusion, dynamic shapes and control flow.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod computed;
mod control;
mod dynamic;
mod folds;
mod fusion;
mod passes;
mod ranges;
mod upgrades;
mod windows;

use udo_api::GuardAlloc;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
