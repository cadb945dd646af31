//! Faults of a source in the reference language, with their positions, and errors of its evaluation.

use std::fmt;

use thiserror::Error;

/// A position in a source. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One fault of a source. Prints as `line:column: found .., expected ..; help`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Fault {
    /// The place in the source.
    pub at: Position,
    /// The text at this position; or the complete description of the problem if `expected` is `None`.
    pub found: String,
    /// The allowed content, if it can be listed.
    pub expected: Option<String>,
    /// The next step.
    pub help: Option<String>,
    /// Whether another fault causes this one: it is then not reported.
    pub(crate) is_consequence: bool,
}

impl Fault {
    /// Creates a fault that `problem` describes completely.
    pub(crate) fn new(at: Position, problem: impl Into<String>) -> Self {
        Self { at, found: problem.into(), expected: None, help: None, is_consequence: false }
    }

    /// Creates a fault where the source has `found` but the language allows `expected`.
    pub(crate) fn unexpected(
        at: Position,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { expected: Some(expected.into()), ..Self::new(at, found) }
    }

    /// Creates the fault of a name whose definition has a fault.
    pub(crate) fn consequence(at: Position) -> Self {
        Self { is_consequence: true, ..Self::new(at, "the definition of this name has a fault") }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, found, expected, help, is_consequence: _ } = self;
        match expected {
            Some(expected) => write!(f, "{at}: found {found}, expected {expected}")?,
            None => write!(f, "{at}: {found}")?,
        }
        help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

/// Every fault of a source, in source order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// Why shapes or values cannot be computed for some arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The arguments do not fit the signature.
    #[error("{0}")]
    Arguments(String),
    /// The program rejects the arguments: a `require` fails, or a read is out of bounds.
    #[error("{0}")]
    Program(#[from] Fault),
    /// The evaluation needs more steps than the limit allows.
    #[error(
        "{at}: the evaluation takes more than {limit} steps; use smaller inputs or a higher limit"
    )]
    Work {
        /// The statement that was evaluated when the steps ran out.
        at: Position,
        /// The limit.
        limit: u64,
    },
}
