//! Results next to what is expected of them.

/// Checks that each number is off by `tolerance` at most: of the one expected, or of 1 where that is less.
#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let is_close = (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(is_close, "element {at} is {a}, not {b}: {found:?}, expected {expected:?}");
    }
}
