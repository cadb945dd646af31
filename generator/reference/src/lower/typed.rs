//! Typed expressions, the results of lowering the syntax tree, and their conversions between classes.

use crate::{
    fault::{Fault, Position},
    ir::{List, Scalar, Source, Text},
    signature::Class,
};

/// A typed expression.
#[derive(Debug)]
pub(super) enum Typed {
    Scalar(Class, Scalar),
    List(List),
    Tensor(Whole),
    Text(Text),
}

impl Typed {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Scalar(Class::Int, _) => "an int scalar".to_owned(),
            Self::Scalar(class, _) => format!("a {} scalar", class.word()),
            Self::List(_) => "a list".to_owned(),
            Self::Tensor(whole) if whole.class == Class::Int => "an int tensor".to_owned(),
            Self::Tensor(whole) => format!("a {} tensor", whole.class.word()),
            Self::Text(_) => "a string".to_owned(),
        }
    }
}

/// A tensor used without indices, as in `x + 1`: its dimensions, and the expression of its element at the position
/// [`HERE`](crate::ir::HERE).
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) class: Class,
    pub(super) shape: List,
    pub(super) body: Scalar,
    /// The input, parameter or definition that stores its elements, if one does.
    pub(super) source: Option<Source>,
}

/// Converts a scalar to another class if that needs no explicit cast.
pub(super) fn coerced(
    scalar: Scalar,
    found: Class,
    expected: Class,
    at: Position,
) -> Result<Scalar, Fault> {
    match (found, expected) {
        _ if found == expected => Ok(scalar),
        (Class::Int, Class::Float) => Ok(match scalar {
            Scalar::Int(value) => Scalar::Float(crate::number::real(value)),
            scalar => Scalar::Cast(Class::Float, Box::new(scalar)),
        }),
        _ => {
            let expected = expected.word();
            Err(Fault::unexpected(at, found.word(), expected)
                .with_help(format!("convert it with `{expected}(..)`")))
        }
    }
}

pub(super) fn class_of(typed: &Typed, at: Position) -> Result<Class, Fault> {
    match typed {
        Typed::Scalar(class, _) => Ok(*class),
        Typed::Tensor(whole) => Ok(whole.class),
        Typed::List(_) | Typed::Text(_) => Err(no_number(typed, at)),
    }
}

/// Returns the fault of an expression that is neither a scalar nor a tensor.
fn no_number(found: &Typed, at: Position) -> Fault {
    let fault = Fault::unexpected(at, found.describe(), "a scalar or a tensor");
    match found {
        Typed::List(_) => fault
            .with_help("`l[k]` reads one item; `all[k < len(l)](l[k] == m[k])` compares two lists"),
        _ => fault,
    }
}

/// Converts a scalar or tensor to the class `wanted` if that needs no explicit cast.
pub(super) fn of_class(typed: Typed, expected: Class, at: Position) -> Result<Typed, Fault> {
    match typed {
        Typed::Scalar(class, scalar) => {
            Ok(Typed::Scalar(expected, coerced(scalar, class, expected, at)?))
        }
        Typed::Tensor(whole) if whole.class == expected => Ok(Typed::Tensor(whole)),
        Typed::Tensor(whole) => {
            let body = coerced(whole.body, whole.class, expected, at)?;
            Ok(Typed::Tensor(Whole { class: expected, body, shape: whole.shape, source: None }))
        }
        Typed::List(_) | Typed::Text(_) => Err(no_number(&typed, at)),
    }
}

/// Applies a function to a scalar, or to each element of a tensor; `class` is the class of the results.
pub(super) fn each(
    operand: Typed,
    class: Class,
    at: Position,
    function: impl FnOnce(Scalar) -> Scalar,
) -> Result<Typed, Fault> {
    match operand {
        Typed::Scalar(_, scalar) => Ok(Typed::Scalar(class, function(scalar))),
        Typed::Tensor(whole) => Ok(Typed::Tensor(Whole {
            class,
            body: function(whole.body),
            shape: whole.shape,
            source: None,
        })),
        Typed::List(_) | Typed::Text(_) => Err(no_number(&operand, at)),
    }
}
