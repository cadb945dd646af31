//! The table of conformance cases, by category.

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

/// The subject of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// The library files, and opening them.
    Binary,
    /// Checks of operators and kernels before a run.
    Contract,
    /// Output shapes.
    Shapes,
    /// Memory that calls read and write.
    Memory,
    /// Determinism, and side effects on the process.
    Behaviour,
    /// The values that calls compute.
    Numbers,
    /// Models with other operators around this one.
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

    /// The name of the category, which is the first part of its cases' names.
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

/// The scope of a case, and the function that runs it.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// A package as a whole.
    Package(fn(&PackageContext) -> Outcome),
    /// One operator on one core.
    Op(fn(&OpContext) -> Outcome),
}

/// One requirement that every package has to meet.
pub struct Case {
    /// The name without the category.
    pub name: &'static str,
    /// The category.
    pub category: Category,
    /// The lowest level that runs the case.
    pub level: u8,
    /// The requirement, in one sentence.
    pub doc: &'static str,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.full_name())
    }
}

impl Case {
    /// Returns the name with the category, such as `memory/heap`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.category.name(), self.name)
    }

    /// Whether the case checks a package as a whole.
    pub fn is_of_package(&self) -> bool {
        matches!(self.run, Run::Package(_))
    }
}

/// The result of a case.
pub(crate) type Outcome = Result<(), Finding>;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The package violates the requirement.
    Failed(String),
    /// The package may violate the requirement.
    Warning(String),
    /// The case applies, but this machine cannot run it.
    Unchecked(String),
    /// The case applies, but there is no input to run it with.
    Skipped(String),
    /// The case does not apply: the operator does not have such a core, type or port.
    NotApplicable(String),
}

/// Returns a finding that the package violates the requirement.
pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Failed(why.into()))
}

/// Returns a finding that this machine cannot run the case.
pub(crate) fn unchecked<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Unchecked(why.into()))
}

/// Returns a finding that the case does not apply.
pub(crate) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::NotApplicable(why.into()))
}

/// Returns a finding that the case applies but has no input to run with.
pub(crate) fn skipped<T>(why: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Skipped(why.into()))
}

/// Returns the nodes that the operator accepts. A case without any is skipped.
fn known(cx: &OpContext) -> Result<&[Node], Finding> {
    match cx.search_result().nodes.as_slice() {
        [] => skipped("no valid node was found"),
        nodes => Ok(nodes),
    }
}

/// Joins an error's message with those of its sources.
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

/// All cases, in the order in which they run.
pub const CASES: &[Case] = &[
    package(
        Binary,
        "opens",
        1,
        "The package's libraries open for every core that it declares.",
        binary::opens,
    ),
    package(Binary, "digests", 1, "The libraries match the digests in the index.", binary::digests),
    package(
        Binary,
        "manifest",
        1,
        "The manifest matches the tables of the library.",
        binary::manifest,
    ),
    package(Binary, "config", 1, "The built package matches its config.", config::as_built),
    package(
        Binary,
        "constructors",
        1,
        "Opening a library does not run its code.",
        binary::constructors,
    ),
    package(
        Binary,
        "anywhere",
        2,
        "The package opens twice and from any folder.",
        binary::anywhere,
    ),
    package(
        Binary,
        "quiet",
        1,
        "Opening does not change files, signal handlers, the current folder or the environment.",
        binary::quiet,
    ),
    op(
        Contract,
        "kernels",
        1,
        "Each core that the operator declares has a kernel.",
        contract::kernels,
    ),
    op(
        Contract,
        "written",
        1,
        "No function returns NOT_IMPLEMENTED, and no source is an unwritten skeleton.",
        contract::written,
    ),
    op(
        Contract,
        "nodes",
        1,
        "The operator and each of its kernels accept at least one node.",
        contract::nodes,
    ),
    op(
        Contract,
        "offers",
        1,
        "The tested nodes cover each optional input and a second value of each parameter (warning).",
        contract::offers,
    ),
    op(
        Contract,
        "ignored",
        1,
        "Each optional input and each parameter affects a result (warning).",
        ignored::changes_nothing,
    ),
    op(
        Contract,
        "refusals",
        1,
        "Invalid nodes are refused with a reason and without a panic.",
        contract::refusals,
    ),
    op(
        Contract,
        "schema",
        1,
        "Missing and mistyped inputs and attributes of a model are refused by name.",
        schema::refused_by_name,
    ),
    op(
        Contract,
        "defaults",
        1,
        "Omitted parameters have the defaults of the config.",
        defaults::as_the_config_says,
    ),
    op(Contract, "parameters", 1, "No parameter value causes a panic.", contract::parameters),
    op(
        Contract,
        "finalize",
        1,
        "Repeatedly finalizing and freeing a kernel does not leak memory.",
        contract::finalize,
    ),
    op(
        Contract,
        "constants",
        2,
        "A constant input gives the same results as a run-time input.",
        contract::constants,
    ),
    op(Shapes, "runs", 1, "Every accepted node runs.", shapes::runs),
    op(
        Shapes,
        "inferred",
        1,
        "Shape inference is repeatable and agrees with the reference and the kernels.",
        shapes::inferred,
    ),
    op(
        Shapes,
        "bounds",
        1,
        "Dimensions that a run determines depend on the elements only.",
        shapes::bounds,
    ),
    op(
        Memory,
        "written",
        1,
        "Every output element is written and does not depend on previous memory contents.",
        memory::written,
    ),
    op(
        Memory,
        "guards",
        1,
        "Calls stay within their tensors and do not write to inputs.",
        memory::guards,
    ),
    op(Memory, "heap", 1, "Calls do not use the heap, in any language.", memory::heap),
    op(
        Memory,
        "workspace",
        1,
        "Workspace use stays within the declared size, and that size is reasonable.",
        memory::workspace,
    ),
    op(
        Behaviour,
        "twice",
        1,
        "The same inputs give the same bits again, whatever runs in between.",
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
        "Any number of worker threads gives the same bits, in any order of work.",
        behaviour::widths,
    ),
    op(
        Behaviour,
        "in-place",
        1,
        "Writing an output in place of an input gives the same bits.",
        behaviour::in_place,
    ),
    op(Behaviour, "pitched", 1, "Strided rows give the same bits.", behaviour::pitched),
    op(
        Behaviour,
        "after-error",
        1,
        "A failed call does not affect the next one.",
        behaviour::after_error,
    ),
    op(
        Behaviour,
        "beside",
        2,
        "A second copy of the package in the same process gives the same results.",
        beside::second_copy,
    ),
    op(
        Behaviour,
        "numbers",
        1,
        "Denormal numbers, infinities and NaN do not make calls fail.",
        behaviour::special,
    ),
    op(
        Behaviour,
        "surroundings",
        1,
        "Calls do not use files or change signal handlers, the folder, the environment or rounding.",
        behaviour::surroundings,
    ),
    op(
        Behaviour,
        "time",
        1,
        "The time per element does not grow with their number.",
        behaviour::time,
    ),
    op(
        Numbers,
        "reference",
        1,
        "The config has a reference, and results match it.",
        numbers::reference,
    ),
    op(Numbers, "random", 1, "Results match the operator's oracles.", numbers::random),
    op(
        Numbers,
        "large",
        1,
        "Results of large, small and equal elements match the oracles.",
        numbers::large,
    ),
    op(
        Numbers,
        "special",
        1,
        "NaN and infinities appear in the expected results.",
        numbers::special,
    ),
    op(
        Numbers,
        "steps",
        1,
        "Results of every quantized value are within one step.",
        numbers::steps,
    ),
    op(Numbers, "encodings", 2, "Results match under other encodings.", numbers::encodings),
    // Runs after the cases that compare the process's state, which an OpenCL driver changes.
    op(
        Contract,
        "opencl",
        1,
        "The OpenCL C of a GPU kernel compiles with this machine's OpenCL device or with clang.",
        opencl::compiles,
    ),
    op(
        Numbers,
        "device",
        2,
        "An OpenCL device gives the same results as emulated work items.",
        device::device,
    ),
    op(
        Graphs,
        "neighbours",
        10,
        "Random models around the operator give the results of their separate parts.",
        graphs::neighbours,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cases_have_unique_names_and_descriptions() {
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
