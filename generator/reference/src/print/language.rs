//! What languages spell differently: the walk over a program is one, and asks its language for words.

use super::Printer;
use crate::{function::Binary, ir::Source, signature::Class};

/// What real numbers are worked out in: double precision where they are known with the shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Real {
    F32,
    F64,
}

impl Real {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// What a local value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number(Class, Real),
    List,
}

/// The end of a class of numbers at which a search for an extreme starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

/// The words of a language. Expressions are atoms, calls, or in brackets, so that they may stand anywhere.
pub(super) trait Language {
    /// Whether a name may be given anew in the block that has it, with its old value on the right.
    fn shadows(&self) -> bool;
    /// An integer of 64 bits.
    fn int(&self, value: i64) -> String;
    fn float(&self, value: f64, real: Real) -> String;
    fn end(&self, class: Class, end: End, real: Real) -> String;
    /// Between classes that differ.
    fn cast(&self, to: Class, from: Class, operand: &str, real: Real) -> String;
    /// A function of [`UNARY`](crate::function::UNARY) by its name.
    fn unary(&self, name: &str, class: Class, x: &str, real: Real) -> String;
    fn binary(&self, op: Binary, class: Class, operands: [&str; 2], real: Real) -> String;
    /// An integer held between two.
    fn clamp(&self, x: &str, [low, high]: [&str; 2], real: Real) -> String {
        let above = self.binary(Binary::Max, Class::Int, [x, low], real);
        self.binary(Binary::Min, Class::Int, [&above, high], real)
    }
    /// The statement that does a function of two numbers to the first, where the language has one for it.
    fn assign(&self, op: Binary, class: Class, operands: [&str; 2]) -> Option<String>;
    fn is_nan(&self, x: &str) -> String;
    /// A call of a printed function of numbers in single precision.
    fn helper(&self, name: &str, arguments: &[&str]) -> String;
    /// A call that may be refused.
    fn fallible(&self, call: String) -> String;
    fn list_of(&self, items: &[String]) -> String;
    fn no_list(&self) -> &'static str;
    /// A list that a function adds to.
    fn changed(&self, list: &str) -> String;
    /// The number of elements of a tensor of these extents, as a bound of a loop.
    fn size(&self, dims: &str) -> String;
    /// A number of an element, as an integer.
    fn counted(&self, number: &str) -> String;
    /// A field of the plan, as a number of this precision.
    fn field(&self, name: &str, class: Class, real: Real) -> String;
    fn bind(&self, kind: Kind, name: &str, value: &str) -> String;
    fn variable(&self, kind: Kind, name: &str, value: &str) -> String;
    fn when(&self, condition: &str) -> String;
    fn each(&self, name: &str, bound: &str) -> String;
    /// The head of a choice that gives `result` a value.
    fn choose(&self, kind: Kind, result: &str, condition: &str) -> String;
    /// The head of a block that gives `result` a value.
    fn block(&self, kind: Kind, result: &str) -> String;
    /// The last line of either.
    fn give(&self, result: &str, value: &str) -> String;
    /// What closes either.
    fn close(&self) -> &'static str;
    /// The last line of the function that gives an element.
    fn result(&self, class: Class, value: &str) -> String;
    /// The last line of one that is refused.
    fn refuse(&self, kind: Kind, result: &str, wanted: &str) -> String;
    /// The statements that refuse if the condition holds, where that can be.
    fn refuse_if(&self, condition: &str, wanted: &str) -> Option<[String; 3]>;
    /// Adds 1 to an integer if the condition holds.
    fn count(&self, all: &str, condition: &str) -> String;
    /// The element of this number, as a number.
    fn load(&self, printer: &Printer<'_>, source: Source, place: &str, real: Real) -> String;
}
