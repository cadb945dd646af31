//! What is checked: a table of cases, by category.

mod behaviour;
mod beside;
mod binary;
mod config;
mod contract;
mod defaults;
pub(crate) mod device;
mod graphs;
mod ignored;
mod memory;
mod numbers;
mod opencl;
mod schema;
mod shapes;

use crate::context::{OpContext, PackageContext};
use crate::node::Node;

use contract::encoded;
pub(crate) use numbers::{compared, differs};
pub(crate) use schema::attrs;

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// The libraries as files, and how they open.
    Binary,
    /// What operators and kernels take and refuse before any run.
    Contract,
    /// Extents of outputs.
    Shapes,
    /// What calls read and write.
    Memory,
    /// What calls depend on, and what they change.
    Behaviour,
    /// The numbers that calls compute.
    Numbers,
    /// Models in which the operator has others around it.
    Graphs,
}

impl Category {
    /// Every category, in the order of the cases.
    pub const ALL: [Self; 7] = [
        Self::Binary,
        Self::Contract,
        Self::Shapes,
        Self::Memory,
        Self::Behaviour,
        Self::Numbers,
        Self::Graphs,
    ];

    /// The word for it, with which the names of its cases begin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Contract => "contract",
            Self::Shapes => "shapes",
            Self::Memory => "memory",
            Self::Behaviour => "behaviour",
            Self::Numbers => "numbers",
            Self::Graphs => "graphs",
        }
    }
}

/// What a case looks at, and the function that does.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A package as a whole.
    Package(fn(&PackageContext) -> Outcome),
    /// One operator on one core.
    Op(fn(&OpContext) -> Outcome),
}

/// One thing that holds for every package.
pub struct Case {
    /// Its name after that of its category.
    pub name: &'static str,
    /// What it is about.
    pub category: Category,
    /// The lowest level at which it is tried.
    pub level: u8,
    /// What holds, in one sentence.
    pub doc: &'static str,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.full_name())
    }
}

impl Case {
    /// Its name with that of its category, as in `memory/heap`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.category.name(), self.name)
    }

    /// Whether it looks at a package as a whole.
    pub fn is_of_package(&self) -> bool {
        matches!(self.run, Run::Package(_))
    }
}

/// What a case found.
pub(crate) type Outcome = Result<(), Finding>;

/// Why a case has not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The package is wrong.
    Failed(String),
    /// It may be wrong.
    Warning(String),
    /// The case applies, and this machine cannot try it.
    Unchecked(String),
    /// The case applies, and nothing is there to try it with.
    Skipped(String),
    /// The case does not apply: the operator has no such core, type or port.
    NotApplicable(String),
}

/// A finding that the package is wrong.
pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Failed(why.into()))
}

/// A finding that this machine cannot try the case.
pub(crate) fn unchecked<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Unchecked(why.into()))
}

/// A finding that the case does not apply.
pub(crate) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::NotApplicable(why.into()))
}

/// A finding that the case applies, and that nothing is there to try it with.
pub(crate) fn skipped<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Skipped(why.into()))
}

/// The nodes that the operator takes; without any a case is skipped.
fn known(cx: &OpContext) -> Result<&[Node], Finding> {
    match cx.found().nodes.as_slice() {
        [] => skipped("no node is known"),
        nodes => Ok(nodes),
    }
}

/// What an error says, and what each of those behind it says.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

const fn package(
    category: Category,
    name: &'static str,
    level: u8,
    doc: &'static str,
    run: fn(&PackageContext) -> Outcome,
) -> Case {
    Case { name, category, level, doc, run: Run::Package(run) }
}

const fn op(
    category: Category,
    name: &'static str,
    level: u8,
    doc: &'static str,
    run: fn(&OpContext) -> Outcome,
) -> Case {
    Case { name, category, level, doc, run: Run::Op(run) }
}

use Category::{Behaviour, Binary, Contract, Graphs, Memory, Numbers, Shapes};

/// Every case, in the order in which they are tried.
pub const CASES: &[Case] = &[
    package(
        Binary,
        "opens",
        1,
        "All libraries of the package open, for every core that it names.",
        binary::opens,
    ),
    package(Binary, "digests", 1, "The libraries are those that the index lists.", binary::digests),
    package(Binary, "manifest", 1, "The manifest says what the tables say.", binary::manifest),
    package(Binary, "config", 1, "What was built is what the config says.", config::as_built),
    package(
        Binary,
        "constructors",
        1,
        "Opening a library runs no code of its own.",
        binary::constructors,
    ),
    package(
        Binary,
        "anywhere",
        2,
        "The package opens twice, and from any folder.",
        binary::anywhere,
    ),
    package(
        Binary,
        "quiet",
        1,
        "Opening leaves files, signals, folder and environment as they are.",
        binary::quiet,
    ),
    op(
        Contract,
        "kernels",
        1,
        "There is a kernel for each core that the operator names.",
        contract::kernels,
    ),
    op(
        Contract,
        "written",
        1,
        "Nothing answers that it is not implemented, and no source is a skeleton.",
        contract::written,
    ),
    op(
        Contract,
        "nodes",
        1,
        "The operator takes some node, and so does each of its kernels.",
        contract::nodes,
    ),
    op(
        Contract,
        "offers",
        1,
        "Every optional input, and another value of each parameter, is in some node that is tried (else a warning).",
        contract::offers,
    ),
    op(
        Contract,
        "ignored",
        1,
        "Every optional input and every parameter changes some result (else a warning).",
        ignored::changes_nothing,
    ),
    op(
        Contract,
        "refusals",
        1,
        "What is not taken is refused with a reason, and without a panic.",
        contract::refusals,
    ),
    op(
        Contract,
        "schema",
        1,
        "What a model must not say is refused by its name: each input and attribute, missing or of another type.",
        schema::refused_by_name,
    ),
    op(
        Contract,
        "defaults",
        1,
        "Parameters that a node leaves out are what the config says.",
        defaults::as_the_config_says,
    ),
    op(
        Contract,
        "parameters",
        1,
        "No value of a parameter leads to a panic.",
        contract::parameters,
    ),
    op(
        Contract,
        "finalize",
        1,
        "Finalizing and freeing a kernel again and again keeps no memory.",
        contract::finalize,
    ),
    op(
        Contract,
        "constants",
        2,
        "An input that is known before the run gives what one of the run gives.",
        contract::constants,
    ),
    op(Shapes, "runs", 1, "Every node that is taken runs.", shapes::runs),
    op(
        Shapes,
        "inferred",
        1,
        "Shape inference says the same each time, and what others say.",
        shapes::inferred,
    ),
    op(
        Shapes,
        "bounds",
        1,
        "Extents that a run says depend on the elements alone.",
        shapes::bounds,
    ),
    op(
        Memory,
        "written",
        1,
        "Every element of every output is written, and nothing depends on what was there.",
        memory::written,
    ),
    op(
        Memory,
        "guards",
        1,
        "Nothing is touched beyond the tensors, and inputs are only read.",
        memory::guards,
    ),
    op(
        Memory,
        "heap",
        1,
        "No call uses the heap, whatever language it is written in.",
        memory::heap,
    ),
    op(
        Memory,
        "workspace",
        1,
        "Scratch is used as far as it is declared, and declared as far as it makes sense.",
        memory::workspace,
    ),
    op(
        Behaviour,
        "twice",
        1,
        "The same inputs give the same bits again, whatever ran in between.",
        behaviour::twice,
    ),
    op(
        Behaviour,
        "sessions",
        1,
        "A second kernel for the same node gives the same bits.",
        behaviour::sessions,
    ),
    op(
        Behaviour,
        "threads",
        1,
        "Another thread, and eight at once, get the same bits.",
        behaviour::threads,
    ),
    op(
        Behaviour,
        "widths",
        1,
        "Any number of threads to share the work with gives the same bits, in any order.",
        behaviour::widths,
    ),
    op(
        Behaviour,
        "in-place",
        1,
        "Working in place of an input gives the same bits.",
        behaviour::in_place,
    ),
    op(Behaviour, "pitched", 1, "Rows that lie apart give the same bits.", behaviour::pitched),
    op(
        Behaviour,
        "after-error",
        1,
        "A call that failed leaves nothing behind for the next.",
        behaviour::after_error,
    ),
    op(
        Behaviour,
        "beside",
        2,
        "A copy of the package that is open beside it changes nothing, and computes the same.",
        beside::beside,
    ),
    op(
        Behaviour,
        "numbers",
        1,
        "Denormal numbers, infinities and NaN are computed with, not failed at.",
        behaviour::special,
    ),
    op(
        Behaviour,
        "surroundings",
        1,
        "No file is read or written, and signals, folder, environment and rounding stay as they are.",
        behaviour::surroundings,
    ),
    op(
        Behaviour,
        "time",
        1,
        "The time per element does not grow with the elements.",
        behaviour::time,
    ),
    op(
        Numbers,
        "reference",
        1,
        "The config says by a reference what results are, and they are that.",
        numbers::reference,
    ),
    op(Numbers, "random", 1, "Results are those of the operator's oracles.", numbers::random),
    op(Numbers, "large", 1, "So are those of large, small and equal elements.", numbers::large),
    op(Numbers, "special", 1, "NaN and infinities come out where they should.", numbers::special),
    op(
        Numbers,
        "steps",
        1,
        "Every quantized value gives the result within a step.",
        numbers::steps,
    ),
    op(
        Numbers,
        "encodings",
        2,
        "Results are right under other encodings as well.",
        numbers::encodings,
    ),
    // Behind those that look at the surroundings: a driver of OpenCL changes them.
    op(
        Contract,
        "opencl",
        1,
        "The OpenCL C of a GPU kernel compiles, by the OpenCL device of this machine or by clang.",
        opencl::compiles,
    ),
    op(
        Numbers,
        "device",
        2,
        "A device with OpenCL gives the results that work items do, where there is one.",
        device::device,
    ),
    op(
        Graphs,
        "neighbours",
        10,
        "In random models with other operators around it, results are those of each part alone.",
        graphs::neighbours,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cases_have_names_of_their_own_and_say_what_holds() {
        let names: BTreeSet<_> = CASES.iter().map(Case::full_name).collect();
        assert_eq!(names.len(), CASES.len());
        for case in CASES {
            assert!((1..=10).contains(&case.level), "{case:?}");
            assert!(case.doc.ends_with('.'), "{case:?}");
        }
        let categories: BTreeSet<_> = CASES.iter().map(|case| case.category).collect();
        assert_eq!(categories.len(), Category::ALL.len());
    }
}
