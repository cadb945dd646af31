//! Test numbers, and comparisons with a tolerance.

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
pub fn is_near(found: f64, wanted: f64, allowed: f64) -> bool {
    let is_same = found.total_cmp(&wanted).is_eq() || found.is_nan() && wanted.is_nan();
    let apart = (found - wanted).abs();
    is_same || apart.is_finite() && apart <= allowed
}

/// Asserts that every number is within `tolerance` of the expected one, relative to it if that is above 1.
///
/// # Panics
/// A number is out of tolerance.
#[track_caller]
pub fn assert_near<T: Copy + Into<f64>>(found: &[T], wanted: &[f64], tolerance: f64) {
    all_near(found, wanted, tolerance);
}

/// Asserts as [`assert_near`] does, for numbers that vary by more than the tolerance, since a comparison that a
/// constant passes shows little. Use [`assert_near_constant`] for results that are constant for a reason.
///
/// # Panics
/// A number is out of tolerance, or a constant passes.
#[track_caller]
pub fn assert_near_varied<T: Copy + Into<f64>>(found: &[T], wanted: &[f64], tolerance: f64) {
    let constant = passing_constant(wanted, tolerance);
    assert!(
        constant.is_none(),
        "the constant {} is within {tolerance} of all {} expected numbers: choose inputs whose results vary, or call \
         assert_near_constant",
        constant.unwrap_or_default(),
        wanted.len()
    );
    all_near(found, wanted, tolerance);
}

/// Asserts as [`assert_near`] does, for results that are constant `because` of something.
///
/// # Panics
/// A number is out of tolerance, the reason is empty, or the expected numbers vary.
#[track_caller]
pub fn assert_near_constant<T: Copy + Into<f64>>(
    found: &[T],
    wanted: &[f64],
    tolerance: f64,
    because: &str,
) {
    assert!(!because.trim().is_empty(), "expected a reason for constant results");
    let is_constant = wanted.len() < 2 || passing_constant(wanted, tolerance).is_some();
    assert!(is_constant, "the expected numbers vary; use assert_near_varied");
    all_near(found, wanted, tolerance);
}

/// Returns a constant within `tolerance` of all numbers, if there is one.
fn passing_constant(wanted: &[f64], tolerance: f64) -> Option<f64> {
    let first = *wanted.first().filter(|_| wanted.len() > 1)?;
    if wanted.iter().all(|of| of.total_cmp(&first).is_eq()) {
        return Some(first);
    }
    if wanted.iter().any(|of| !of.is_finite()) {
        return None;
    }
    // Each number leaves a range; a constant passes if all ranges overlap.
    let reach = |of: f64| tolerance * of.abs().max(1.0);
    let low = wanted.iter().map(|&of| of - reach(of)).fold(f64::NEG_INFINITY, f64::max);
    let high = wanted.iter().map(|&of| of + reach(of)).fold(f64::INFINITY, f64::min);
    (low <= high).then_some(f64::midpoint(low, high))
}

#[track_caller]
fn all_near<T: Copy + Into<f64>>(found: &[T], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "elements");
    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let found: f64 = found.into();
        assert!(
            is_near(found, wanted, tolerance * wanted.abs().max(1.0)),
            "element {i} is {found}, expected {wanted} within {tolerance}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_is_relative_above_one() {
        assert_near(&[100.0f32, f32::NAN], &[100.001, f64::NAN], 1e-4);
        let apart = std::panic::catch_unwind(|| assert_near(&[0.5f32], &[0.6], 0.01));
        let message = *apart.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, "element 0 is 0.5, expected 0.6 within 0.01");
    }

    #[test]
    fn infinities_are_near_themselves_alone() {
        let inf = f64::INFINITY;
        assert!(is_near(inf, inf, 0.0) && is_near(f64::NAN, -f64::NAN, 0.0));
        for (found, wanted) in [(inf, -inf), (1.0, inf), (inf, 1.0), (f64::NAN, 1.0)] {
            assert!(!is_near(found, wanted, inf), "{found} {wanted}");
        }
    }

    fn refusal(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        *std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap()
    }

    #[test]
    fn a_comparison_that_a_constant_passes_is_refused() {
        for (wanted, tolerance) in [
            (vec![0.0; 4], 0.0),
            (vec![f64::NAN; 3], 1e-3),
            (vec![1e-4, -1e-4, 5e-5], 1e-3),
            (vec![100.0, 100.5, 101.0], 0.01),
        ] {
            let found = wanted.clone();
            let message = refusal(move || assert_near_varied(&found, &wanted, tolerance));
            assert!(message.contains("this comparison shows little"), "{message}");
        }
        assert_near_varied(&[7.0f32], &[7.0], 1e-6);
        assert_near_varied(&[100.0f32, 103.0], &[100.0, 103.0], 0.01);
        assert_near_varied(&[f64::INFINITY, 1.0], &[f64::INFINITY, 1.0], 2.0);
    }

    #[test]
    fn constant_results_want_a_reason() {
        assert_near_constant(&[0.0f32; 3], &[0.0; 3], 0.0, "every element is clipped");
        refusal_str(|| assert_near_constant(&[0.0f32; 3], &[0.0; 3], 0.0, " "));
        refusal_str(|| assert_near_constant(&[0.0f32, 1.0], &[0.0, 1.0], 0.1, "none"));
    }

    fn refusal_str(run: impl FnOnce() + std::panic::UnwindSafe) {
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
