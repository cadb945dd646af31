//! What expressions are, and what they are taken as.

use crate::{
    fault::{Fault, Position},
    ir::{List, Scalar, Source, Text},
    signature::Class,
};

/// What an expression is.
#[derive(Debug)]
pub(super) enum Typed {
    Scalar(Class, Scalar),
    List(List),
    Tensor(Whole),
    Text(Text),
}

impl Typed {
    pub(super) fn said(&self) -> String {
        match self {
            Self::Scalar(class, _) => format!("{} number", class.word()),
            Self::List(_) => "list".to_owned(),
            Self::Tensor(whole) => format!("{} tensor", whole.class.word()),
            Self::Text(_) => "text".to_owned(),
        }
    }
}

/// A tensor as a whole: its extents, and its element at [`HERE`](crate::ir::HERE).
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) class: Class,
    pub(super) shape: List,
    pub(super) body: Scalar,
    /// Where its elements are, if it is one of those that have a name.
    pub(super) source: Option<Source>,
}

/// The number as one of another kind, if that needs no cast.
pub(super) fn coerced(
    scalar: Scalar,
    found: Class,
    wanted: Class,
    at: Position,
) -> Result<Scalar, Fault> {
    match (found, wanted) {
        _ if found == wanted => Ok(scalar),
        (Class::Int, Class::Float) => Ok(match scalar {
            Scalar::Int(value) => Scalar::Float(crate::number::real(value)),
            scalar => Scalar::Cast(Class::Float, Box::new(scalar)),
        }),
        _ => {
            let (found, wanted) = (found.word(), wanted.word());
            Err(Fault::new(
                at,
                format!("found {found}, wanted {wanted}; `{wanted}(..)` makes one of it"),
            ))
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

/// What is no number, nor a tensor of numbers.
fn no_number(found: &Typed, at: Position) -> Fault {
    let help = match found {
        Typed::List(_) => "; `l[k]` is an item, and `all[k < len(l)](l[k] == m[k])` compares two",
        _ => "",
    };
    Fault::new(at, format!("found a {}, wanted a number or a tensor{help}", found.said()))
}

pub(super) fn of_class(typed: Typed, wanted: Class, at: Position) -> Result<Typed, Fault> {
    match typed {
        Typed::Scalar(class, scalar) => {
            Ok(Typed::Scalar(wanted, coerced(scalar, class, wanted, at)?))
        }
        Typed::Tensor(whole) if whole.class == wanted => Ok(Typed::Tensor(whole)),
        Typed::Tensor(whole) => {
            let body = coerced(whole.body, whole.class, wanted, at)?;
            Ok(Typed::Tensor(Whole { class: wanted, body, shape: whole.shape, source: None }))
        }
        Typed::List(_) | Typed::Text(_) => Err(no_number(&typed, at)),
    }
}

/// A function of each element.
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
