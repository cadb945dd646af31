//! What the tests of primitives share: guarded memory, numbers without a pattern, and comparisons.

mod guarded;

pub(crate) use guarded::{Edge, Guarded};

#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;

/// Numbers between -1 and 1 without a pattern, the same in every run.
pub(crate) fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Asserts that every number lies within `tolerance` of the one wanted, relative to it where it is above 1. The wanted numbers vary by more
/// than that, so that no constant passes.
#[track_caller]
pub(crate) fn assert_near(found: &[f32], wanted: &[f64], tolerance: f64) {
    let reach = |of: f64| tolerance * of.abs().max(1.0);
    let low = wanted.iter().map(|&of| of - reach(of)).fold(f64::NEG_INFINITY, f64::max);
    let high = wanted.iter().map(|&of| of + reach(of)).fold(f64::INFINITY, f64::min);
    assert!(wanted.len() < 2 || low > high, "a constant is within {tolerance} of {wanted:?}");
    assert_eq!(found.len(), wanted.len(), "elements");
    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let found = f64::from(found);
        let same = found.total_cmp(&wanted).is_eq() || found.is_nan() && wanted.is_nan();
        let apart = (found - wanted).abs() / wanted.abs().max(1.0);
        assert!(
            same || apart <= tolerance,
            "element {i} is {found}, wanted {wanted} within {tolerance}"
        );
    }
}
