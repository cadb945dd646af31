//! Numbers to compute with, and how near results must be.

/// Numbers between -1 and 1 without a pattern, the same in every run.
#[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
pub fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Every number lies within `tolerance` of the one wanted, relative to it where that is above 1.
///
/// # Panics
/// One does not.
#[track_caller]
pub fn assert_near<T: Copy + Into<f64>>(found: &[T], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "elements");
    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let found: f64 = found.into();
        let same = found.total_cmp(&wanted).is_eq() || found.is_nan() && wanted.is_nan();
        let apart = (found - wanted).abs() / wanted.abs().max(1.0);
        assert!(
            same || apart <= tolerance,
            "element {i} is {found}, wanted {wanted} within {tolerance}"
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
        assert_eq!(message, "element 0 is 0.5, wanted 0.6 within 0.01");
    }
}
