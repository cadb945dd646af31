//! Helpers for the operators' tests.

use udo_api::{GuardAlloc, PackageV1, QuantizedType};
pub(crate) use udo_testing::{Bench, Tensor, assert_near_constant, noise, tensor};
// The default comparison: expected values must vary, so that a constant output does not pass.
pub(crate) use udo_testing::assert_near_varied as assert_near;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc; // reports heap use in kernels

/// Returns a bench for one node of operator `op`; it runs every kernel that accepts the node.
#[track_caller]
pub(crate) fn bench(op: &str) -> Bench {
    const GUARDED: PackageV1 = crate::PACKAGE.guarded();
    Bench::for_op(&GUARDED, op)
}

/// Returns `len` quantized values spread over the range of their type, `step` apart.
pub(crate) fn spread<T: QuantizedType>(len: usize, step: usize) -> Vec<T> {
    // Conversion saturates.
    let least = T::from_f32(f32::NEG_INFINITY).to_i32() as f32;
    let count = 1 << (8 * size_of::<T>());
    (0..len).map(|i| T::from_f32((i * step % count) as f32 + least)).collect()
}
