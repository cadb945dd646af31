//! The operations of `NNRt`: one table of their numbers, names, tensors and parameters, and of what each is in operators of ours.
//!
//! Images have their channels last, unless a tensor's description says otherwise. An attribute that is left out has the
//! default of the table.

mod image;
mod math;
mod movement;
mod order;
mod recurrent;
mod reduce;
mod table;

use std::fmt;

use super::finished::said;
use super::lower::Lower;
use super::{Result, TensorId, invalid};
use udo_graph::graph::{Attr, ValueId};

pub use table::OPS;

/// An operation of `NNRt`.
#[derive(Debug)]
pub struct NnrtOp {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The least and the most tensors that it reads.
    pub inputs: [usize; 2],
    /// The least and the most tensors that it makes.
    pub outputs: [usize; 2],
    /// Its parameters.
    pub params: &'static [Param],
    form: Form,
}

/// What an operation is in operators of ours.
#[derive(Debug)]
enum Form {
    /// This one.
    Same(&'static str),
    /// This one, and the activation that the operation asks for.
    Active(&'static str),
    /// What a function makes.
    By(fn(&mut Lower<'_>) -> Result<()>),
}

/// A parameter of an operation.
#[derive(Debug)]
pub struct Param {
    /// Its name, and an attribute's.
    pub name: &'static str,
    /// What it takes.
    pub of: Kind,
    /// Its value where an operation does not say it; nothing where it has to, or where nothing is another meaning.
    pub default: Option<Value>,
}

/// What a parameter takes.
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
    /// One of these texts, or its number.
    Choice(&'static [&'static str]),
}

/// A default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer, a truth or the number of a choice.
    Int(i64),
    /// A number.
    Float(f64),
    /// Integers.
    Ints(&'static [i64]),
}

/// How many tensors an operation may have where there is no other bound.
const MOST: usize = 200;

/// The operation of this name.
pub(super) fn named(name: &str) -> Result<&'static NnrtOp> {
    let found = OPS.iter().find(|op| op.name == name);
    found.ok_or_else(|| {
        let nearest = OPS.iter().max_by(|a, b| {
            let [a, b] = [a, b].map(|op| strsim::jaro_winkler(op.name, name));
            a.total_cmp(&b)
        });
        let nearest = nearest.map_or("", |op| op.name);
        invalid(format!(
            "there is no operation {name:?}; wanted one of the {} of NNRt, as is {nearest:?}",
            OPS.len()
        ))
    })
}

/// The operation of this number.
pub(super) fn numbered(number: u32) -> Result<&'static NnrtOp> {
    let found = OPS.iter().find(|op| op.number == number);
    found.ok_or_else(|| {
        invalid(format!("there is no operation {number}; wanted 1 to {} of NNRt", OPS.len()))
    })
}

impl NnrtOp {
    /// Refuses what the operation does not have.
    pub(super) fn check(
        &self,
        attrs: &[(String, Attr)],
        inputs: &[Option<TensorId>],
        outputs: &[Option<TensorId>],
    ) -> Result<()> {
        let name = self.name;
        let count = |side: &str, found: usize, [least, most]: [usize; 2]| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let wanted = match most {
                MOST => format!("at least {least}, and at most {MOST}"),
                most if most == least => least.to_string(),
                most => format!("{least} to {most}"),
            };
            Err(invalid(format!("{name}: it has {found} {side}; wanted {wanted}")))
        };
        count("inputs", inputs.len(), self.inputs)?;
        count("outputs", outputs.len(), self.outputs)?;
        if let Some(port) = inputs.iter().position(Option::is_none) {
            return Err(invalid(format!("{name}: input {port} is left out; wanted a tensor")));
        }
        for (attr, value) in attrs {
            let param = self.param(attr).ok_or_else(|| {
                let known: Vec<_> = self.params.iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                invalid(format!("{name} has no attribute {attr:?}; wanted {known}"))
            })?;
            if !param.takes(value) {
                let (found, wanted) = (said(value), param.of);
                return Err(invalid(format!(
                    "{name}: attribute {attr:?} is {found}; wanted {wanted}"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn lower(&self, lower: &mut Lower<'_>) -> Result<()> {
        match self.form {
            Form::Same(op) => {
                let y = all(lower, op)?;
                lower.give(0, y)
            }
            Form::Active(op) => {
                let y = all(lower, op)?;
                lower.give_active(y)
            }
            Form::By(make) => make(lower),
        }
    }
}

/// The operator of all inputs.
fn all(lower: &mut Lower<'_>, op: &str) -> Result<ValueId> {
    let inputs = (0..lower.count()).map(|port| lower.x(port)).collect::<Result<Vec<_>>>()?;
    Ok(lower.node(op, &inputs, &[]))
}

impl Param {
    fn takes(&self, attr: &Attr) -> bool {
        match (self.of, attr) {
            (Kind::Truth, Attr::Int(value)) => matches!(value, 0 | 1),
            (Kind::Int | Kind::Float | Kind::Ints, Attr::Int(_))
            | (Kind::Float, Attr::Float(_))
            | (Kind::Ints, Attr::Ints(_))
            | (Kind::Floats, Attr::Floats(_)) => true,
            (Kind::Choice(of), Attr::Int(value)) => {
                usize::try_from(*value).is_ok_and(|value| value < of.len())
            }
            (Kind::Choice(_), Attr::Text(text)) => self.choice(text).is_some(),
            _ => false,
        }
    }

    /// The number of one of the texts that it takes.
    pub(super) fn choice(&self, text: &str) -> Option<i64> {
        let Kind::Choice(of) = self.of else { return None };
        i64::try_from(of.iter().position(|own| *own == text)?).ok()
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
            Self::Choice(of) => {
                for (number, text) in of.iter().enumerate() {
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
