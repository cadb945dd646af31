//! The elements of tensors as real numbers, and how far two tensors are apart.

use udo_api::DType;
use udo_runtime::Tensor;

/// The elements as real numbers.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    macro_rules! convert_all {
        ($($variant:ident $rust:ty, $convert:expr;)*) => {
            match tensor.dtype() {
                $(DType::$variant => {
                    let convert: fn($rust) -> f64 = $convert;
                    tensor.get::<$rust>().unwrap_or_default().iter().map(|&v| convert(v)).collect()
                })*
                DType::Str => Vec::new(),
            }
        };
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers are shown and compared with tolerances"
    )]
    let numbers = convert_all! {
        F32 f32, f64::from;
        F64 f64, |v| v;
        F16 udo_api::F16, |v| f64::from(v.to_f32());
        Bf16 udo_api::Bf16, |v| f64::from(v.to_f32());
        I8 i8, f64::from;
        I16 i16, f64::from;
        I32 i32, f64::from;
        I64 i64, |v| v as f64;
        U8 u8, f64::from;
        U16 u16, f64::from;
        U32 u32, f64::from;
        U64 u64, |v| v as f64;
        Bool udo_api::Bool, |v| f64::from(u8::from(v.get()));
    };
    numbers
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// The largest absolute difference.
    pub(crate) max_abs: f64,
    /// The largest difference relative to the wanted value.
    pub(crate) max_rel: f64,
    /// Elements that are further apart than allowed.
    pub(crate) mismatches: usize,
    /// The largest wanted value, without its sign.
    pub(crate) largest: f64,
    /// The sums of the squares of wanted values, and of the differences from them, where both are finite.
    squares: [f64; 2],
}

impl Difference {
    /// The ratio of the wanted values' power to that of the differences, in decibels; none where nothing differs.
    pub(crate) fn sqnr_db(&self) -> Option<f64> {
        let [wanted, apart] = self.squares;
        (apart > 0.0).then(|| 10.0 * (wanted / apart).log10())
    }
}

/// The tolerance for equal values: `|found - wanted| <= atol + rtol * |wanted|`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

/// Compares element by element; a NaN equals a NaN, and an infinity only itself.
pub(crate) fn compare(found: &[f64], wanted: &[f64], tolerance: Tolerance) -> Difference {
    let mut difference = Difference::default();
    for (&f, &w) in found.iter().zip(wanted) {
        let apart = (f - w).abs();
        if w.is_finite() {
            difference.largest = difference.largest.max(w.abs());
            difference.squares[0] += w * w;
        }
        if f.to_bits() == w.to_bits() || (f.is_nan() && w.is_nan()) || apart == 0.0 {
            continue;
        }
        // A NaN or infinity on one side only is a mismatch, and infinitely far.
        let apart = if apart.is_finite() { apart } else { f64::INFINITY };
        if apart.is_finite() {
            difference.squares[1] += apart * apart;
        }
        difference.max_abs = difference.max_abs.max(apart);
        difference.max_rel = difference.max_rel.max(if w == 0.0 { apart } else { apart / w.abs() });
        let allowed = tolerance.atol + tolerance.rtol * w.abs();
        difference.mismatches += usize::from(!apart.is_finite() || apart > allowed);
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { rtol: 0.1, atol: 0.01 };

    #[test]
    fn differences_count_what_is_too_far_apart() {
        let found = [1.0, 2.0, f64::NAN, f64::INFINITY, 0.0];
        let wanted = [1.05, 3.0, f64::NAN, f64::INFINITY, 0.005];
        let difference = compare(&found, &wanted, TOLERANCE);
        assert_eq!(difference.mismatches, 1);
        assert!((difference.max_abs - 1.0).abs() < 1e-12);
        assert_eq!(compare(&[f64::NAN], &[1.0], TOLERANCE).mismatches, 1);
        assert_eq!(compare(&[f64::INFINITY], &[f64::NEG_INFINITY], TOLERANCE).mismatches, 1);
    }
}
