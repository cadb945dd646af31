//! What the operators' tests use.

use udo_api::{GuardAlloc, PackageV1};
pub(crate) use udo_testing::{Bench, Tensor, assert_near, noise, tensor};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// One node of operator `op`, to be run by every kernel that takes it.
#[track_caller]
pub(crate) fn bench(op: &str) -> Bench {
    const GUARDED: PackageV1 = crate::PACKAGE.guarded();
    Bench::of(&GUARDED, op)
}
