//! Compiles the OpenCL C of a package, which cargo only copies, and reports what the compiler says.

use std::path::Path;

use serde_json::{Value, json};
use udo_check::opencl_c::{self, Compiled, SourceFile};

use crate::output::{Failure, note, warn};

/// The sources of a package in OpenCL C, compiled where this machine can compile them.
pub(crate) struct Sources(Vec<SourceFile>);

impl Sources {
    /// A package whose GPU library is not built.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Compiles the sources of the package in `dir`; warns of those that do not compile, and of those that were not compiled.
    pub(crate) fn compile(dir: &Path) -> Result<Self, Failure> {
        let sources = Self(opencl_c::compile_package(dir)?);
        sources.say();
        Ok(sources)
    }

    fn say(&self) {
        for SourceFile { name, compiled } in &self.0 {
            match compiled {
                Compiled::Yes | Compiled::Unchecked(_) => {}
                Compiled::Unwritten => {
                    note(format_args!("{name} is not written yet; the GPU refuses the operator"));
                }
                Compiled::No(said) => warn(
                    format_args!(
                        "{name} does not compile, so devices refuse the operator:\n{said}"
                    ),
                    "line numbers are those of the file; the work items in src/ops are not affected",
                ),
            }
        }
        let unchecked = self.unchecked();
        if let Some((_, why)) = unchecked.first() {
            let names: Vec<&str> = unchecked.iter().map(|(name, _)| *name).collect();
            let (names, verb) = (names.join(", "), if names.len() == 1 { "was" } else { "were" });
            warn(
                format_args!(
                    "{names} {verb} not compiled, and errors in the OpenCL C were not found: {why}"
                ),
                "`udo doctor` says how to get an OpenCL device or clang",
            );
        }
    }

    /// The sources that were not compiled, and why.
    pub(crate) fn unchecked(&self) -> Vec<(&str, &str)> {
        let sources = self.0.iter().filter_map(|source| match &source.compiled {
            Compiled::Unchecked(why) => Some((source.name.as_str(), why.as_str())),
            Compiled::Yes | Compiled::No(_) | Compiled::Unwritten => None,
        });
        sources.collect()
    }

    /// Whether a source does not compile.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|source| matches!(source.compiled, Compiled::No(_)))
    }

    /// The state of all of them in a word, the worst one first; null without any source.
    pub(crate) fn state(&self) -> Value {
        let is = |wanted: &str| self.0.iter().any(|source| source.compiled.word() == wanted);
        let words = ["does not compile", "not compiled", "not written", "compiled"];
        json!(words.into_iter().find(|word| is(word)))
    }

    /// Each source with its state.
    pub(crate) fn to_json(&self) -> Value {
        let of = |SourceFile { name, compiled }: &SourceFile| json!({ "file": name, "state": compiled.word(), "why": compiled.message() });
        self.0.iter().map(of).collect()
    }
}
