//! What one compilation works with.

use udo_engine::constants::Constants;
use udo_engine::operators::Operators;

use crate::options::{BindOptions, CompileOptions};

/// What models are compiled of besides their graphs. A clone has the same packages, which stay loaded, and shares packed
/// constants.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// The operators that nodes may be bound to, and their kernels.
    pub operators: Operators,
    /// What is made of constants.
    pub constants: Constants,
}

impl Resources {
    /// These operators, and no constants yet.
    pub fn of(operators: Operators) -> Self {
        Self { operators, constants: Constants::new() }
    }

    /// A compilation with these options.
    pub fn compiler<'a>(&'a self, options: &'a CompileOptions) -> Compiler<'a> {
        Compiler { operators: &self.operators, constants: &self.constants, options }
    }
}

impl AsRef<Self> for Resources {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// What one compilation works with: every step from a graph to its plan reads it, and none changes it.
#[derive(Clone, Copy, Debug)]
pub struct Compiler<'a> {
    /// The operators that nodes may be bound to, and their kernels.
    pub operators: &'a Operators,
    /// What is made of constants; its budget is what all of it counts in.
    pub constants: &'a Constants,
    /// What the user decides.
    pub options: &'a CompileOptions,
}

impl<'a> Compiler<'a> {
    /// The same for other options.
    #[must_use]
    pub(crate) fn with<'b>(self, options: &'b CompileOptions) -> Compiler<'b>
    where
        'a: 'b,
    {
        Compiler { options, ..self }
    }

    /// How nodes find their operators.
    pub fn bind(&self) -> &'a BindOptions {
        &self.options.bind
    }
}
