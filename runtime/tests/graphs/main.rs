//! Compilation of graphs: operator upgrades, passes (constant folding, fusion), dynamic and computed shapes, ranges of
//! dimensions, parts of values as windows of one buffer, and control flow.
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

/// Counts heap calls, so that tests can check that a run makes none.
#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
