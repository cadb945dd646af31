//! How work items access the elements of tensors, in both languages.

use crate::ir::Source;

/// How work items access the elements of tensors. In templates `{at}` stands for an element's index. Rust expressions are
/// `Result`s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accesses {
    /// The inputs.
    pub inputs: Vec<PortAccess>,
    /// The outputs, whose `load` is not used.
    pub outputs: Vec<PortAccess>,
    /// The Rust expression of an element of each tensor parameter; empty for others.
    pub params: Vec<String>,
    /// The Rust expression of an element of scratch, where `{scratch}` stands for its index and `{element}` for its
    /// type.
    pub scratch_load: String,
    /// The prefix of kernel names in OpenCL C.
    pub prefix: String,
}

/// How work items access the elements of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAccess {
    /// The Rust expression of an element as a number.
    pub load: String,
    /// The same in OpenCL C.
    pub opencl: OpenClAccess,
}

/// How OpenCL C accesses the elements of a port, where `{name}` stands for the port's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClAccess {
    /// The element type of the buffer.
    pub element: String,
    /// The expression of an element as a number.
    pub load: String,
    /// The statement that stores `{value}`.
    pub store: String,
}

impl OpenClAccess {
    pub(super) fn load(&self, name: &str, at: &str) -> String {
        self.load.replace("{name}", name).replace("{at}", at)
    }

    pub(super) fn store(&self, name: &str, value: &str) -> String {
        let store = self.store.replace("{name}", name).replace("{at}", "number");
        store.replace("{value}", value)
    }
}

/// The tensors of a work item, and their access.
pub(super) struct Reads<'a> {
    pub(super) accesses: &'a Accesses,
    /// The tensors that are stored between two launches.
    pub(super) scratch: Vec<usize>,
}

impl Reads<'_> {
    /// Prints how a Rust work item passes a tensor to an element function.
    pub(super) fn function(&self, source: Source, stored: &str) -> String {
        let element = match source {
            Source::Input(input) => {
                self.accesses.inputs.get(input).map_or(String::new(), |port| port.load.clone())
            }
            Source::Param(param) => self.accesses.params.get(param).cloned().unwrap_or_default(),
            Source::Def(def) => {
                let scratch = self.scratch_of(def).unwrap_or_default().to_string();
                let load = self.accesses.scratch_load.replace("{element}", stored);
                let load = load.replace("{scratch}", &scratch);
                // Scratch stores bytes instead of bools, since not every byte is a valid bool.
                if stored == "u8" { load + ".map(|byte| byte != 0)" } else { load }
            }
        };
        format!("|at| {}", element.replace("{at}", "at"))
    }

    pub(super) fn scratch_of(&self, def: usize) -> Option<usize> {
        self.scratch.iter().position(|kept| *kept == def)
    }
}
