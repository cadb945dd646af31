//! The inputs of a compilation: the operators, the cache of constants, and the user's options.

use udo_engine::constants::Constants;
use udo_engine::operators::Operators;

use crate::options::{BindOptions, CompileOptions};

/// The resources that compilations share. A clone has the same packages, which stay loaded, and shares packed
/// constants.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// The operators that nodes may be bound to, with their kernels.
    pub operators: Operators,
    /// The cache of constants.
    pub constants: Constants,
}

impl Resources {
    /// Returns resources with these operators and no constants yet.
    pub fn new(operators: Operators) -> Self {
        Self { operators, constants: Constants::new() }
    }

    /// Returns a compilation with these options.
    pub fn compiler<'a>(&'a self, options: &'a CompileOptions) -> Compiler<'a> {
        Compiler { operators: &self.operators, constants: &self.constants, options }
    }
}

impl AsRef<Self> for Resources {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The inputs of a compilation. Every step from a graph to its plan reads them, and none changes them.
#[derive(Clone, Copy, Debug)]
pub struct Compiler<'a> {
    /// The operators that nodes may be bound to, with their kernels.
    pub operators: &'a Operators,
    /// The cache of packed and converted constants. Its budget limits the memory of the model and its sessions.
    pub constants: &'a Constants,
    /// The user's options.
    pub options: &'a CompileOptions,
}

impl<'a> Compiler<'a> {
    /// Returns the compilation with other options.
    #[must_use]
    pub(crate) fn with<'b>(self, options: &'b CompileOptions) -> Compiler<'b>
    where
        'a: 'b,
    {
        Compiler { options, ..self }
    }

    /// Returns the options for binding.
    pub fn bind(&self) -> &'a BindOptions {
        &self.options.bind
    }
}
