//! Prints float literals in Rust such that the code passes clippy: constants of the standard library by name, and
//! values close to a constant as quotients.

use std::f64::consts;

use super::language::Real;
use crate::number::{narrow, single};

/// The constants of the standard library; clippy's `approx_constant` requires their names instead of literals.
const CONSTANTS: &[(f64, &str)] = &[
    (consts::E, "E"),
    (consts::FRAC_1_PI, "FRAC_1_PI"),
    (consts::FRAC_1_SQRT_2, "FRAC_1_SQRT_2"),
    (consts::FRAC_2_PI, "FRAC_2_PI"),
    (consts::FRAC_2_SQRT_PI, "FRAC_2_SQRT_PI"),
    (consts::FRAC_PI_2, "FRAC_PI_2"),
    (consts::FRAC_PI_3, "FRAC_PI_3"),
    (consts::FRAC_PI_4, "FRAC_PI_4"),
    (consts::FRAC_PI_6, "FRAC_PI_6"),
    (consts::FRAC_PI_8, "FRAC_PI_8"),
    (consts::LN_2, "LN_2"),
    (consts::LN_10, "LN_10"),
    (consts::LOG10_2, "LOG10_2"),
    (consts::LOG10_E, "LOG10_E"),
    (consts::LOG2_10, "LOG2_10"),
    (consts::LOG2_E, "LOG2_E"),
    (consts::PI, "PI"),
    (consts::SQRT_2, "SQRT_2"),
    (consts::TAU, "TAU"),
];

/// Prints a finite number of this precision, in brackets if it is an expression of several tokens.
pub(super) fn literal(value: f64, real: Real) -> String {
    let word = real.word();
    let constant_name = CONSTANTS.iter().find_map(|(constant, name)| {
        let is_equal = match real {
            Real::F32 => single(value.abs()).to_bits() == single(*constant).to_bits(),
            Real::F64 => value.abs().to_bits() == constant.to_bits(),
        };
        is_equal.then_some(*name)
    });
    // Rounded first, so that no excess digits remain.
    let digits = match real {
        Real::F32 => format!("{:?}", narrow(value.abs())),
        Real::F64 => format!("{:?}", value.abs()),
    };
    let printed = match (constant_name, quotient(&digits, real)) {
        (Some(name), _) => format!("core::{word}::consts::{name}"),
        (None, Some([numerator, denominator])) => {
            format!("({numerator}.0_{word} / {denominator}.0_{word})")
        }
        (None, None) => format!("{digits}_{word}"),
    };
    if value.is_sign_negative() { format!("(-{printed})") } else { printed }
}

/// Returns two integers whose quotient rounds to the number, if clippy would take its literal for an imprecise
/// constant.
fn quotient(digits: &str, real: Real) -> Option<[String; 2]> {
    let (whole, decimals) = digits.split_once('.')?;
    let is_near = |(constant, _): &(f64, &str)| {
        let count = decimals.len();
        constant.to_string().starts_with(digits) || format!("{constant:.count$}") == digits
    };
    if digits.len() <= 3 || !CONSTANTS.iter().any(is_near) {
        return None;
    }
    let numerator: u64 = format!("{whole}{decimals}").parse().ok()?;
    let largest_exact = match real {
        Real::F32 => 1 << f32::MANTISSA_DIGITS,
        Real::F64 => 1 << f64::MANTISSA_DIGITS,
    };
    (numerator <= largest_exact)
        .then(|| [numerator.to_string(), format!("1{}", "0".repeat(decimals.len()))])
}

#[cfg(test)]
mod tests {
    use super::{Real, literal};

    #[test]
    fn constants_print_as_names_and_near_constants_as_quotients() {
        let cases = [
            (std::f64::consts::PI, "core::f32::consts::PI", "core::f64::consts::PI"),
            (-std::f64::consts::LN_2, "(-core::f32::consts::LN_2)", "(-core::f64::consts::LN_2)"),
            (
                "3.1416".parse().unwrap(),
                "(31416.0_f32 / 10000.0_f32)",
                "(31416.0_f64 / 10000.0_f64)",
            ),
            (
                "3.14159".parse().unwrap(),
                "(314159.0_f32 / 100000.0_f32)",
                "(314159.0_f64 / 100000.0_f64)",
            ),
            (0.693, "(693.0_f32 / 1000.0_f32)", "(693.0_f64 / 1000.0_f64)"),
            (0.5, "0.5_f32", "0.5_f64"),
            (-1.5, "(-1.5_f32)", "(-1.5_f64)"),
            (1e-9, "1e-9_f32", "1e-9_f64"),
        ];
        for (value, single, double) in cases {
            assert_eq!(literal(value, Real::F32), single);
            assert_eq!(literal(value, Real::F64), double);
        }
    }
}
