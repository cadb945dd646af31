//! Checks default values against their data types.

use crate::{
    config::{DataType, DefaultValue, Family, Scalar},
    diagnostic::Kind,
    draft::{At, Literal},
    report::{Report, problem},
    spelling::quote,
};

/// The allowed values of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    /// Numbers up to this magnitude.
    Real(f64),
    /// Integers in this range.
    Integer(i64, i64),
    Text,
}

/// Returns the allowed defaults of a scalar parameter.
pub(super) fn allowed_scalar(dtype: DataType) -> Allowed {
    match dtype.family() {
        Family::Float(max) => Allowed::Real(max),
        Family::Integer(min, max) => Allowed::Integer(min, max),
        Family::Truth => Allowed::Integer(0, 1),
        Family::Fixed => Allowed::Real(f64::MAX),
        Family::Text => Allowed::Text,
    }
}

/// Returns the allowed defaults of a tensor: floats if it is a float tensor on some core, since its integer types are
/// then quantized; otherwise integers that fit every type.
pub(super) fn allowed_tensor(types: &[DataType], is_encoded: IsEncoded) -> Allowed {
    let mut real_limit = match is_encoded {
        IsEncoded::Yes => Some(f64::MAX),
        IsEncoded::No => None,
    };
    let (mut low, mut high) = (i64::MIN, i64::MAX);
    for dtype in types {
        match dtype.family() {
            Family::Float(max) => real_limit = Some(real_limit.map_or(max, |other| other.min(max))),
            Family::Fixed => real_limit = Some(real_limit.unwrap_or(f64::MAX)),
            Family::Integer(min, max) => (low, high) = (low.max(min), high.min(max)),
            Family::Truth => (low, high) = (low.max(0), high.min(1)),
            Family::Text => {}
        }
    }
    real_limit.map_or(Allowed::Integer(low, high), Allowed::Real)
}

/// Whether the config gives a tensor an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsEncoded {
    Yes,
    No,
}

/// Checks the default of a tensor: a scalar or a list.
pub(super) fn tensor(
    literal: &At<Literal>,
    allowed: Allowed,
    report: &mut Report<'_>,
) -> Option<DefaultValue> {
    let Literal::List(items) = &literal.value else {
        return scalar(literal, allowed, report).map(DefaultValue::Scalar);
    };
    let items: Vec<_> = items.iter().map(|item| scalar(item, allowed, report)).collect();
    items.into_iter().collect::<Option<_>>().map(DefaultValue::List)
}

/// Checks the default of a scalar, or one item of a list.
pub(super) fn scalar(
    literal: &At<Literal>,
    allowed: Allowed,
    report: &mut Report<'_>,
) -> Option<Scalar> {
    let At { value, spot } = literal;
    match (value, allowed) {
        (Literal::Text(text), Allowed::Text) => return Some(Scalar::Text(text.clone())),
        (Literal::Bool(value), Allowed::Integer(..)) => {
            return Some(Scalar::Int(i64::from(*value)));
        }
        (Literal::Int(value), Allowed::Integer(min, max)) if (min..=max).contains(value) => {
            return Some(Scalar::Int(*value));
        }
        (Literal::Int(_) | Literal::Float(_), Allowed::Real(max)) => {
            let real = real(value);
            if real.abs() <= max {
                return Some(Scalar::Float(real));
            }
        }
        _ => {}
    }
    let kind = match (value, allowed) {
        (Literal::Int(_), Allowed::Integer(..))
        | (Literal::Int(_) | Literal::Float(_), Allowed::Real(_)) => Kind::DefaultRange,
        _ => Kind::DefaultType,
    };
    let (expected, help) = match allowed {
        Allowed::Real(max) => {
            (format!("one number up to {max:e}"), "write a number, or another data type")
        }
        Allowed::Integer(min, max) => (
            format!("one integer from {min} to {max}"),
            "write an integer in range, or another data type",
        ),
        Allowed::Text => ("one string".to_owned(), "put the value in double quotes"),
    };
    report.error(spot, problem(kind, describe(value), expected, help));
    None
}

#[expect(clippy::cast_precision_loss, reason = "a float default is the nearest float anyway")]
fn real(value: &Literal) -> f64 {
    match value {
        Literal::Int(value) => *value as f64,
        Literal::Float(value) => *value,
        Literal::Bool(_) | Literal::Text(_) | Literal::List(_) => f64::NAN,
    }
}

fn describe(value: &Literal) -> String {
    match value {
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Float(value) => format!("{value:?}"),
        Literal::Text(text) => quote(text),
        Literal::List(_) => "a list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use DataType::{Fixed8, Float16, Float32, Int8, Int32, Uint8};

    use super::*;

    #[test]
    fn defaults_are_floats_if_one_core_has_floats() {
        let cases: &[(&[DataType], IsEncoded, Allowed)] = &[
            (&[Float32], IsEncoded::No, Allowed::Real(f64::from(f32::MAX))),
            (&[Float32, Float16], IsEncoded::No, Allowed::Real(65504.0)),
            (&[Float32, Uint8], IsEncoded::No, Allowed::Real(f64::from(f32::MAX))),
            (&[Fixed8], IsEncoded::No, Allowed::Real(f64::MAX)),
            (&[Uint8], IsEncoded::Yes, Allowed::Real(f64::MAX)),
            (&[Uint8], IsEncoded::No, Allowed::Integer(0, 255)),
            (&[Uint8, Int8, Int32], IsEncoded::No, Allowed::Integer(0, 127)),
        ];
        for (types, encoded, expected) in cases {
            assert_eq!(allowed_tensor(types, *encoded), *expected, "{types:?} {encoded:?}");
        }
    }
}
