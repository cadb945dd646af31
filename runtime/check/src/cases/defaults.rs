//! Defaults of omitted parameters.

use udo_api::ValueKind;
use udo_generator::config::{DefaultValue, Op, Scalar};

use super::{Outcome, failed, skipped};
use crate::context::OpContext;

pub(super) fn as_the_config_says(cx: &OpContext) -> Outcome {
    let op = match &cx.config {
        Ok(Some(op)) => op,
        Ok(None) => return skipped("the operator does not have a config"),
        Err(fault) => return failed(format!("the config cannot be read: {fault}")),
    };
    let schema = cx.subject.op.schema();
    for (name, wanted) in params(op) {
        let Some(own) = schema.params().iter().find(|own| own.name() == name) else {
            return failed(format!("the config's parameter {name:?} is missing in the operator"));
        };
        check_equal(&format!("parameter {name:?}"), &of_schema(own.default_value()), &wanted)?;
    }
    for (said, own) in op.inputs.iter().zip(schema.inputs()) {
        // An empty list is an absent input.
        let said_of = said.default.as_ref().map(of_config);
        let wanted = said_of.filter(|said| *said != Default::Ints(Vec::new()));
        let wanted = wanted.unwrap_or(Default::None);
        check_equal(&format!("input {:?}", said.name), &of_schema(own.default_value()), &wanted)?;
    }
    Ok(())
}

fn check_equal(what: &str, found: &Default, wanted: &Default) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    failed(format!("{what} is {found} if a node omits it, expected {wanted} as in the config"))
}

/// Iterates over the config's parameters and their defaults.
fn params(op: &Op) -> impl Iterator<Item = (&str, Default)> {
    let scalars = op.scalar_params.iter().map(|param| {
        let default = param.default.clone().map(DefaultValue::Scalar);
        (param.name.as_str(), default.as_ref().map_or(Default::None, of_config))
    });
    let tensors = op.tensor_params.iter().map(|param| {
        (param.name.as_str(), param.default.as_ref().map_or(Default::None, of_config))
    });
    scalars.chain(tensors)
}

/// A default from the config or from the package.
#[derive(Debug)]
enum Default {
    None,
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
}

impl PartialEq for Default {
    /// Integers compare exactly; floats may have been rounded to `f32`.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Ints(a), Self::Ints(b)) => a == b,
            (Self::Floats(a), Self::Floats(b)) => are_close(a, b),
            (Self::Ints(ints), Self::Floats(floats)) | (Self::Floats(floats), Self::Ints(ints)) => {
                are_close(&as_floats(ints), floats)
            }
            (Self::Texts(a), Self::Texts(b)) => a == b,
            (Self::None | Self::Ints(_) | Self::Floats(_) | Self::Texts(_), _) => false,
        }
    }
}

fn are_close(a: &[f64], b: &[f64]) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "what is compared")]
    let is_equal = |(a, b): (&f64, &f64)| (*a as f32).to_bits() == (*b as f32).to_bits();
    a.len() == b.len() && a.iter().zip(b).all(is_equal)
}

#[expect(clippy::cast_precision_loss, reason = "the comparison needs fewer digits")]
fn as_floats(ints: &[i64]) -> Vec<f64> {
    ints.iter().map(|&int| int as f64).collect()
}

impl std::fmt::Display for Default {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("refused"),
            Self::Ints(ints) => match ints[..] {
                [int] => write!(f, "{int}"),
                _ => write!(f, "{ints:?}"),
            },
            Self::Floats(floats) => match floats[..] {
                [float] => write!(f, "{float}"),
                _ => write!(f, "{floats:?}"),
            },
            Self::Texts(texts) => write!(f, "{texts:?}"),
        }
    }
}

fn of_schema(value: ValueKind) -> Default {
    match value {
        ValueKind::None => Default::None,
        ValueKind::Int(number) => Default::Ints(vec![number]),
        ValueKind::Float(number) => Default::Floats(vec![number]),
        ValueKind::Ints(numbers) => Default::Ints(numbers.to_vec()),
        ValueKind::Floats(numbers) => Default::Floats(numbers.to_vec()),
        ValueKind::Str(text) => Default::Texts(vec![text.to_owned()]),
        ValueKind::Strs(texts) => {
            Default::Texts(texts.iter().map(|text| text.get().to_owned()).collect())
        }
    }
}

fn of_config(value: &DefaultValue) -> Default {
    let values = match value {
        DefaultValue::Scalar(value) => std::slice::from_ref(value),
        DefaultValue::List(values) => values,
    };
    let (mut ints, mut texts) = (Vec::new(), Vec::new());
    let mut floats = Vec::new();
    for value in values {
        match value {
            Scalar::Int(number) => {
                ints.push(*number);
                floats.extend(as_floats(&[*number]));
            }
            Scalar::Float(number) => floats.push(*number),
            Scalar::Text(text) => texts.push(text.clone()),
        }
    }
    match values.iter().find(|value| !matches!(value, Scalar::Int(_))) {
        None => Default::Ints(ints),
        Some(Scalar::Text(_)) => Default::Texts(texts),
        Some(_) => Default::Floats(floats),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_config_and_package_are_compared() {
        let of = |value| of_config(&DefaultValue::Scalar(value));
        assert_eq!(of_schema(ValueKind::Float(0.1f32.into())), of(Scalar::Float(0.1)));
        assert_eq!(of_schema(ValueKind::Int(1)), of(Scalar::Int(1)));
        assert_eq!(of_schema(ValueKind::Str("a")), of(Scalar::Text("a".to_owned())));
        let list = DefaultValue::List(vec![Scalar::Int(1), Scalar::Int(2)]);
        assert_eq!(of_schema(ValueKind::Ints(&[1, 2])), of_config(&list));
        assert_eq!(of_schema(ValueKind::Floats(&[])), of_config(&DefaultValue::List(Vec::new())));
        let mixed = DefaultValue::List(vec![Scalar::Int(1), Scalar::Float(2.5)]);
        assert_eq!(of_schema(ValueKind::Floats(&[1.0, 2.5])), of_config(&mixed));
        assert_ne!(of_schema(ValueKind::Int(16_777_216)), of(Scalar::Int(16_777_217)));
        assert_ne!(of_schema(ValueKind::Float(1.0)), of(Scalar::Float(1.5)));
        assert_ne!(of_schema(ValueKind::None), of(Scalar::Float(1.5)));
        assert_ne!(of_schema(ValueKind::Ints(&[1, 2])), of(Scalar::Int(1)));
    }
}
