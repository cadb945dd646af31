//! Bugs that are put into good packages, one at a time, and the cases of `udo check` that must find each.
//!
//! A line replaces one text of one file of a good package. It is caught if one of `caught_by` does not pass on `core`; an empty
//! core stands for the package as a whole.

mod cores;
mod cpu;
mod examples;
mod late;
mod references;

/// A good package that bugs are put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    /// `blend.rs`: one operator on three cores.
    Blend,
    /// `examples/c-package`.
    Clip,
    /// `examples/softmax`.
    Softmax,
    /// `examples/selu`.
    Selu,
    /// `examples/topk`.
    TopK,
    /// `examples/selu` under a name that nothing else has, on the CPU alone, with a reference in its config.
    OwnSelu,
    /// `blend.rs` with a reference in its config.
    OwnBlend,
}

/// A bug.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) base: Base,
    /// The file of the package, as `sources` calls it.
    pub(crate) file: &'static str,
    pub(crate) find: &'static str,
    pub(crate) put: &'static str,
    pub(crate) core: &'static str,
    pub(crate) caught_by: &'static [&'static str],
}

pub(crate) const fn mutant(
    base: Base,
    (name, file): (&'static str, &'static str),
    (find, put): (&'static str, &'static str),
    (core, caught_by): (&'static str, &'static [&'static str]),
) -> Mutant {
    Mutant { name, base, file, find, put, core, caught_by }
}

pub(crate) const fn blend(
    name: &'static str,
    find: &'static str,
    put: &'static str,
    core: &'static str,
    caught_by: &'static [&'static str],
) -> Mutant {
    mutant(Base::Blend, (name, "lib"), (find, put), (core, caught_by))
}

/// Every bug.
pub(crate) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    let frozen = [cpu::MUTANTS, cores::MUTANTS, examples::MUTANTS, references::MUTANTS];
    frozen.into_iter().flatten().chain(late())
}

/// Those that were written after all cases.
pub(crate) fn late() -> impl Iterator<Item = &'static Mutant> {
    late::MUTANTS.iter()
}
