//! What is wrong with a source, and where.

use std::fmt;

use thiserror::Error;

/// A place in a source, both counted from 1. Columns count characters.
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

/// One fault of a source: `line:column: what was found, what was wanted`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {message}")]
pub struct Fault {
    /// Where it is.
    pub at: Position,
    /// What is wrong there.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(at: Position, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Every fault of a source, in its order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// Why shapes or values cannot be worked out for some arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The arguments do not fit the signature.
    #[error("{0}")]
    Arguments(String),
    /// The program refuses them, or cannot go on.
    #[error("{0}")]
    Program(#[from] Fault),
    /// More steps are asked for than the limit allows.
    #[error("{at}: this takes more than {limit} steps; try smaller inputs or a higher limit")]
    Work {
        /// What was worked out when they were used up.
        at: Position,
        /// The limit.
        limit: u64,
    },
}
