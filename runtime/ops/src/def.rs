//! What the table of operators holds.

use udo_api::{Facts, KernelDef, Op, OpDef};

/// An operator with its kernels.
#[derive(Clone, Copy)]
pub(crate) struct Def {
    pub(crate) op: OpDef,
    pub(crate) kernels: &'static [KernelDef],
    /// The tests that the members of a family share, given the operator's name.
    #[cfg(test)]
    pub(crate) test: Option<fn(&str)>,
}

impl Def {
    /// An operator of no family. Like all but those that draw random numbers, it is pure.
    pub(crate) const fn of<O: Op>(kernels: &'static [KernelDef]) -> Self {
        let Self { op, .. } = Self::drawn::<O>(kernels);
        Self {
            op: op.and_facts(Facts::PURE),
            kernels,
            #[cfg(test)]
            test: None,
        }
    }

    /// An operator that draws random numbers: two nodes that are alike are not the same, and none is computed before a
    /// run.
    pub(crate) const fn drawn<O: Op>(kernels: &'static [KernelDef]) -> Self {
        Self {
            op: OpDef::of::<O>(),
            kernels,
            #[cfg(test)]
            test: None,
        }
    }

    /// The same with the tests of its family.
    #[cfg(test)]
    pub(crate) const fn tested(mut self, test: fn(&str)) -> Self {
        self.test = Some(test);
        self
    }
}

/// Declares a module per operator of a domain, and `DEFS`, the table of what they define.
macro_rules! ops {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        pub(super) const DEFS: &[$crate::Def] = &[$($name::DEF),*];
    };
}
