//! Pseudo-random test inputs, and comparisons of results with a tolerance.

/// Returns deterministic noise between -1 and 1.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
pub fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Whether a number is within `allowed` of the expected one. NaN matches only NaN, and an infinity only itself.
pub fn is_near(actual: f64, expected: f64, allowed: f64) -> bool {
    let is_same = actual.total_cmp(&expected).is_eq() || actual.is_nan() && expected.is_nan();
    let distance = (actual - expected).abs();
    is_same || distance.is_finite() && distance <= allowed
}

/// Asserts that every number is within `tolerance` of the expected one, relative to it if that is above 1.
///
/// # Panics
/// A number is out of tolerance.
#[track_caller]
pub fn assert_near<T: Copy + Into<f64>>(actual: &[T], expected: &[f64], tolerance: f64) {
    all_near(actual, expected, tolerance);
}

/// Asserts as [`assert_near`] does, for numbers that vary by more than the tolerance, since a comparison that a
/// constant passes shows little. Use [`assert_near_constant`] for results that are constant for a reason.
///
/// # Panics
/// A number is out of tolerance, or a constant passes.
#[track_caller]
pub fn assert_near_varied<T: Copy + Into<f64>>(actual: &[T], expected: &[f64], tolerance: f64) {
    let constant = passing_constant(expected, tolerance);
    assert!(
        constant.is_none(),
        "the constant {} is within {tolerance} of all {} expected numbers: choose inputs whose results vary, or call \
         assert_near_constant",
        constant.unwrap_or_default(),
        expected.len()
    );
    all_near(actual, expected, tolerance);
}

/// Asserts as [`assert_near`] does, for results that are constant `because` of something.
///
/// # Panics
/// A number is out of tolerance, the reason is empty, or the expected numbers vary.
#[track_caller]
pub fn assert_near_constant<T: Copy + Into<f64>>(
    actual: &[T],
    expected: &[f64],
    tolerance: f64,
    because: &str,
) {
    assert!(!because.trim().is_empty(), "expected a reason for constant results");
    let is_constant = expected.len() < 2 || passing_constant(expected, tolerance).is_some();
    assert!(is_constant, "the expected numbers vary; use assert_near_varied");
    all_near(actual, expected, tolerance);
}

/// Returns a constant within `tolerance` of all numbers, if there is one.
fn passing_constant(expected: &[f64], tolerance: f64) -> Option<f64> {
    let first = *expected.first().filter(|_| expected.len() > 1)?;
    if expected.iter().all(|number| number.total_cmp(&first).is_eq()) {
        return Some(first);
    }
    if expected.iter().any(|number| !number.is_finite()) {
        return None;
    }
    // Each number allows the constants in a range around it; some constant passes if all ranges overlap.
    let allowed = |number: f64| tolerance * number.abs().max(1.0);
    let low =
        expected.iter().map(|&number| number - allowed(number)).fold(f64::NEG_INFINITY, f64::max);
    let high =
        expected.iter().map(|&number| number + allowed(number)).fold(f64::INFINITY, f64::min);
    (low <= high).then_some(f64::midpoint(low, high))
}

#[track_caller]
fn all_near<T: Copy + Into<f64>>(actual: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "elements");
    for (i, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let actual: f64 = actual.into();
        assert!(
            is_near(actual, expected, tolerance * expected.abs().max(1.0)),
            "element {i} is {actual}, expected {expected} within {tolerance}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_is_relative_above_one() {
        assert_near(&[100.0f32, f32::NAN], &[100.001, f64::NAN], 1e-4);
        let caught = std::panic::catch_unwind(|| assert_near(&[0.5f32], &[0.6], 0.01));
        let message = *caught.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, "element 0 is 0.5, expected 0.6 within 0.01");
    }

    #[test]
    fn an_infinity_is_near_only_itself() {
        let inf = f64::INFINITY;
        assert!(is_near(inf, inf, 0.0) && is_near(f64::NAN, -f64::NAN, 0.0));
        for (actual, expected) in [(inf, -inf), (1.0, inf), (inf, 1.0), (f64::NAN, 1.0)] {
            assert!(!is_near(actual, expected, inf), "{actual} {expected}");
        }
    }

    fn panic_message(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        *std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap()
    }

    #[test]
    fn a_comparison_that_a_constant_passes_is_refused() {
        for (expected, tolerance) in [
            (vec![0.0; 4], 0.0),
            (vec![f64::NAN; 3], 1e-3),
            (vec![1e-4, -1e-4, 5e-5], 1e-3),
            (vec![100.0, 100.5, 101.0], 0.01),
        ] {
            let actual = expected.clone();
            let message = panic_message(move || assert_near_varied(&actual, &expected, tolerance));
            assert!(message.contains("choose inputs whose results vary"), "{message}");
        }
        assert_near_varied(&[7.0f32], &[7.0], 1e-6);
        assert_near_varied(&[100.0f32, 103.0], &[100.0, 103.0], 0.01);
        assert_near_varied(&[f64::INFINITY, 1.0], &[f64::INFINITY, 1.0], 2.0);
    }

    #[test]
    fn constant_results_need_a_reason() {
        assert_near_constant(&[0.0f32; 3], &[0.0; 3], 0.0, "every element is clipped");
        assert_panics(|| assert_near_constant(&[0.0f32; 3], &[0.0; 3], 0.0, " "));
        assert_panics(|| assert_near_constant(&[0.0f32, 1.0], &[0.0, 1.0], 0.1, "none"));
    }

    fn assert_panics(run: impl FnOnce() + std::panic::UnwindSafe) {
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
