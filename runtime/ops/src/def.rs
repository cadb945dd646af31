//! Entries of the operator tables.

use udo_api::{Facts, KernelDef, Op, OpDef};

/// An operator with its kernels.
#[derive(Clone, Copy)]
pub(crate) struct Def {
    pub(crate) op: OpDef,
    pub(crate) kernels: &'static [KernelDef],
    /// The test that all operators of a family share; takes the operator's name.
    #[cfg(test)]
    pub(crate) test: Option<fn(&str)>,
}

impl Def {
    /// Defines an operator whose outputs depend on its inputs only.
    pub(crate) const fn new<O: Op>(kernels: &'static [KernelDef]) -> Self {
        let Self { op, .. } = Self::drawn::<O>(kernels);
        Self {
            op: op.and_facts(Facts::PURE),
            kernels,
            #[cfg(test)]
            test: None,
        }
    }

    /// Defines an operator that draws random values. Without the fact `PURE`, equal nodes are not merged, and no node
    /// is folded before a run.
    pub(crate) const fn drawn<O: Op>(kernels: &'static [KernelDef]) -> Self {
        Self {
            op: OpDef::of::<O>(),
            kernels,
            #[cfg(test)]
            test: None,
        }
    }

    /// Adds the test of the operator's family.
    #[cfg(test)]
    pub(crate) const fn tested(mut self, test: fn(&str)) -> Self {
        self.test = Some(test);
        self
    }
}

/// Declares a module per operator of a domain, and `DEFS`, the table of the modules' `DEF` constants.
macro_rules! ops {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        pub(super) const DEFS: &[$crate::Def] = &[$($name::DEF),*];
    };
}
