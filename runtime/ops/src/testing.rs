//! What the operators' tests use.

use udo_api::{GuardAlloc, PackageV1, QuantizedType};
pub(crate) use udo_testing::{Bench, Tensor, assert_near_constant, noise, tensor};
// Tests of operators compare numbers that vary, or say why they do not.
pub(crate) use udo_testing::assert_near_varied as assert_near;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// One node of operator `op`, to be run by every kernel that takes it.
#[track_caller]
pub(crate) fn bench(op: &str) -> Bench {
    const GUARDED: PackageV1 = crate::PACKAGE.guarded();
    Bench::of(&GUARDED, op)
}

/// Quantized values all over the range of their type, `step` from one to the next.
pub(crate) fn spread<T: QuantizedType>(len: usize, step: usize) -> Vec<T> {
    let least = T::from_f32(f32::NEG_INFINITY).to_i32() as f32;
    let count = 1 << (8 * size_of::<T>());
    (0..len).map(|i| T::from_f32((i * step % count) as f32 + least)).collect()
}
