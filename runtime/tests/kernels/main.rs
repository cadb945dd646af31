//! Tests of the contract between the runtime and the operators and kernels of packages.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod contract;
mod firewall;
mod geometry;
mod memory;
mod packing;
mod params;
mod per_axis;
mod plan_fuzz;
mod promises;

use udo_api::GuardAlloc;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
