//! What parameters are where a node leaves them out.

use udo_api::ValueKind;
use udo_reference::{Elements, Value};

use super::{Outcome, failed, skipped};
use crate::context::OpContext;

pub(super) fn as_the_config_says(cx: &OpContext) -> Outcome {
    let Some(program) = cx.reference() else {
        return skipped("the config has no \"reference\", with which its parameters are read");
    };
    let known = cx.subject.op.schema().params();
    for param in &program.signature().params {
        let Some(own) = known.iter().find(|own| own.name() == param.name) else {
            return failed(format!("the operator has no parameter {:?} of the config", param.name));
        };
        let (found, wanted) = (of_schema(own.default_value()), of_config(param.default.as_ref()));
        if found != wanted {
            return failed(format!(
                "parameter {:?} is {found} where a node leaves it out, wanted {wanted} as the config says",
                param.name
            ));
        }
    }
    Ok(())
}

/// A default, in one form whoever says it.
#[derive(Debug)]
enum Default {
    None,
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

impl PartialEq for Default {
    /// Numbers may have gone through `f32`.
    fn eq(&self, other: &Self) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "what is compared")]
        let is_equal = |(a, b): (&f64, &f64)| (*a as f32).to_bits() == (*b as f32).to_bits();
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Numbers(a), Self::Numbers(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(is_equal)
            }
            (Self::Texts(a), Self::Texts(b)) => a == b,
            (Self::None | Self::Numbers(_) | Self::Texts(_), _) => false,
        }
    }
}

impl std::fmt::Display for Default {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("refused"),
            Self::Numbers(numbers) => match numbers[..] {
                [number] => write!(f, "{number}"),
                _ => write!(f, "{numbers:?}"),
            },
            Self::Texts(texts) => write!(f, "{texts:?}"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "what is compared has fewer digits")]
fn of_schema(value: ValueKind) -> Default {
    match value {
        ValueKind::None => Default::None,
        ValueKind::Int(number) => Default::Numbers(vec![number as f64]),
        ValueKind::Float(number) => Default::Numbers(vec![number]),
        ValueKind::Ints(numbers) => {
            Default::Numbers(numbers.iter().map(|&number| number as f64).collect())
        }
        ValueKind::Floats(numbers) => Default::Numbers(numbers.to_vec()),
        ValueKind::Str(text) => Default::Texts(vec![text.to_owned()]),
        ValueKind::Strs(texts) => {
            Default::Texts(texts.iter().map(|text| text.get().to_owned()).collect())
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "what is compared has fewer digits")]
fn of_config(value: Option<&Value>) -> Default {
    match value {
        None => Default::None,
        Some(Value::Float(number)) => Default::Numbers(vec![*number]),
        Some(Value::Int(number)) => Default::Numbers(vec![*number as f64]),
        Some(Value::Bool(truth)) => Default::Numbers(vec![f64::from(u8::from(*truth))]),
        Some(Value::Text(text)) => Default::Texts(vec![text.clone()]),
        Some(Value::Tensor(tensor)) => Default::Numbers(match &tensor.elements {
            Elements::Float(numbers) => numbers.clone(),
            Elements::Int(numbers) => numbers.iter().map(|&number| number as f64).collect(),
            Elements::Bool(truths) => {
                truths.iter().map(|truth| f64::from(u8::from(*truth))).collect()
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_compared_whoever_says_them() {
        let of = |value| of_config(Some(&value));
        assert_eq!(of_schema(ValueKind::Float(0.1f32.into())), of(Value::Float(0.1)));
        assert_eq!(of_schema(ValueKind::Int(1)), of(Value::Bool(true)));
        assert_eq!(of_schema(ValueKind::Str("a")), of(Value::Text("a".to_owned())));
        assert_eq!(of_schema(ValueKind::None), of_config(None));
        assert_ne!(of_schema(ValueKind::Float(1.0)), of(Value::Float(1.5)));
        assert_ne!(of_schema(ValueKind::None), of(Value::Float(1.5)));
        assert_ne!(of_schema(ValueKind::Ints(&[1, 2])), of(Value::Int(1)));
    }
}
