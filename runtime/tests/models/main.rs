//! Models from files, from caches and from calls.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cache;
mod loading;
mod networks;
mod nnrt;
mod prepared;

use udo_api::GuardAlloc;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;
