//! Parameters of `NNRt`'s operations: their kinds and defaults. The table in `nnrt` lists them; calls set them as
//! attributes.

use std::fmt;

use udo_graph::graph::Attr;

/// A parameter of an operation.
#[derive(Debug)]
pub struct Param {
    /// Its name, which is also the attribute's.
    pub name: &'static str,
    /// Its kind.
    pub of: Kind,
    /// The default; `None` if the parameter is mandatory or its absence has a meaning of its own.
    pub default: Option<Value>,
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// 0 or 1.
    Truth,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// Integers.
    Ints,
    /// Numbers.
    Floats,
    /// One of these strings, or its index.
    Choice(&'static [&'static str]),
}

/// A default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer, a boolean or the index of a choice.
    Int(i64),
    /// A number.
    Float(f64),
    /// Integers.
    Ints(&'static [i64]),
}

impl Param {
    /// Returns the parameter of this name.
    pub(super) fn named(params: &'static [Self], name: &str) -> Option<&'static Self> {
        params.iter().find(|param| param.name == name)
    }

    /// Returns whether an attribute is a valid value.
    pub(super) fn takes(&self, attr: &Attr) -> bool {
        match (self.of, attr) {
            (Kind::Truth, Attr::Int(value)) => matches!(value, 0 | 1),
            (Kind::Int | Kind::Float | Kind::Ints, Attr::Int(_))
            | (Kind::Float, Attr::Float(_))
            | (Kind::Ints, Attr::Ints(_))
            | (Kind::Floats, Attr::Floats(_)) => true,
            (Kind::Choice(choices), Attr::Int(value)) => {
                usize::try_from(*value).is_ok_and(|value| value < choices.len())
            }
            (Kind::Choice(_), Attr::Text(text)) => self.choice(text).is_some(),
            _ => false,
        }
    }

    /// Returns the index of one of its choices.
    pub(super) fn choice(&self, text: &str) -> Option<i64> {
        let Kind::Choice(choices) = self.of else { return None };
        i64::try_from(choices.iter().position(|choice| *choice == text)?).ok()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth => f.write_str("0 or 1"),
            Self::Int => f.write_str("an integer"),
            Self::Float => f.write_str("a number"),
            Self::Ints => f.write_str("integers"),
            Self::Floats => f.write_str("numbers"),
            Self::Choice(choices) => {
                for (number, text) in choices.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}{number} {text}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Ints(values) => write!(f, "{values:?}"),
        }
    }
}

/// Describes an attribute in messages.
pub(super) fn describe(attr: &Attr) -> String {
    match attr {
        Attr::Tensor(tensor) => format!("a tensor {}", tensor.desc()),
        Attr::Graph(_) | Attr::Graphs(_) => "a graph".to_owned(),
        Attr::Int(_)
        | Attr::Float(_)
        | Attr::Text(_)
        | Attr::Ints(_)
        | Attr::Floats(_)
        | Attr::Texts(_) => attr.to_string(),
    }
}
