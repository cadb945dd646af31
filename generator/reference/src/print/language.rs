//! The trait that printers of Rust and OpenCL C implement: `emit` walks a program once for both, and the language
//! provides the syntax.

use super::Printer;
use crate::{function::Binary, ir::Source, signature::Class};

/// The precision of printed floats. Values that depend on shapes only use double precision.
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

/// The kind of a local value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number(Class, Real),
    List,
}

/// The start value of a search for a maximum or minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

/// The syntax of a language. Printed expressions are atoms, calls, or in brackets, so that they can be operands
/// without further brackets.
pub(super) trait Language {
    /// Whether a declaration may shadow a variable whose old value its initializer uses, as in `let x = x + 1`.
    fn shadows(&self) -> bool;
    /// Prints an integer of 64 bits.
    fn int(&self, value: i64) -> String;
    fn float(&self, value: f64, real: Real) -> String;
    /// Prints the lowest or highest value of a class.
    fn end(&self, class: Class, end: End, real: Real) -> String;
    /// Converts between different classes.
    fn cast(&self, to: Class, from: Class, operand: &str, real: Real) -> String;
    /// Calls a function of [`UNARY`](crate::function::UNARY) by name.
    fn unary(&self, name: &str, class: Class, x: &str, real: Real) -> String;
    fn binary(&self, op: Binary, class: Class, operands: [&str; 2], real: Real) -> String;
    /// Clamps an integer.
    fn clamp(&self, x: &str, [low, high]: [&str; 2], real: Real) -> String {
        let above = self.binary(Binary::Max, Class::Int, [x, low], real);
        self.binary(Binary::Min, Class::Int, [&above, high], real)
    }
    /// Prints the statement that applies a function of two numbers to the first, if the language has one.
    fn assign(&self, op: Binary, class: Class, operands: [&str; 2]) -> Option<String>;
    fn is_nan(&self, x: &str) -> String;
    /// Calls a printed single-precision function.
    fn helper(&self, name: &str, arguments: &[&str]) -> String;
    /// Marks a call that may fail, as `?` does in Rust.
    fn fallible(&self, call: String) -> String;
    /// Prints a list of these items.
    fn list_of(&self, items: &[String]) -> String;
    /// Prints an empty list.
    fn no_list(&self) -> &'static str;
    /// Prints the argument for a list that a function appends to, as `&mut list`.
    fn changed(&self, list: &str) -> String;
    /// Prints the number of elements of a tensor with these dimensions, as a loop bound.
    fn size(&self, dims: &str) -> String;
    /// Converts an element's index to an integer.
    fn counted(&self, index: &str) -> String;
    /// Reads a field of the plan in this precision.
    fn field(&self, name: &str, class: Class, real: Real) -> String;
    /// Declares an immutable local.
    fn bind(&self, kind: Kind, name: &str, value: &str) -> String;
    /// Declares a mutable local.
    fn variable(&self, kind: Kind, name: &str, value: &str) -> String;
    /// Prints the head of a conditional block.
    fn when(&self, condition: &str) -> String;
    /// Prints the head of a loop below `bound`.
    fn each(&self, name: &str, bound: &str) -> String;
    /// Prints the head of a choice that sets `result`.
    fn choose(&self, kind: Kind, result: &str, condition: &str) -> String;
    /// Prints the head of a block that sets `result`.
    fn block(&self, kind: Kind, result: &str) -> String;
    /// Prints the last line of a choice's branch or of a block, which sets `result`.
    fn give(&self, result: &str, value: &str) -> String;
    /// Closes a choice or a block.
    fn close(&self) -> &'static str;
    /// Prints the last line of an element function.
    fn result(&self, class: Class, value: &str) -> String;
    /// Prints the last line of a failing branch.
    fn refuse(&self, kind: Kind, result: &str, requirement: &str) -> String;
    /// Prints the statements that fail if the condition holds, if the language can fail.
    fn refuse_if(&self, condition: &str, requirement: &str) -> Option<[String; 3]>;
    /// Adds 1 to an integer if the condition holds.
    fn count(&self, counter: &str, condition: &str) -> String;
    /// Reads the element with this index.
    fn load(&self, printer: &Printer<'_>, source: Source, index: &str, real: Real) -> String;
}
