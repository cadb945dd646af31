//! Describes how printed kernels access the elements of tensors, in Rust and in OpenCL C.
//!
//! A kernel is printed as work items: each computes one element of an output. The caller supplies the expressions.

use crate::ir::Source;

/// The expressions by which work items access elements. In them `{at}` stands for an element's index. Rust expressions
/// evaluate to a `Result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accesses {
    /// The inputs.
    pub inputs: Vec<PortAccess>,
    /// The outputs; their `load` is unused.
    pub outputs: Vec<PortAccess>,
    /// The Rust expression of an element of each parameter; empty for parameters that are not tensors.
    pub params: Vec<String>,
    /// The Rust expression of an element of scratch memory, where `{scratch}` stands for its index and `{element}` for
    /// its type.
    pub scratch_load: String,
    /// The prefix of kernel names in OpenCL C.
    pub prefix: String,
}

/// The access to the elements of a port, which is an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAccess {
    /// The Rust expression of an element as a number.
    pub load: String,
    /// The same in OpenCL C.
    pub opencl: OpenClAccess,
}

/// The access to the elements of a port in OpenCL C, where `{name}` stands for the port's buffer.
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

/// The tensors that a work item reads, and their access.
pub(super) struct Reads<'a> {
    pub(super) accesses: &'a Accesses,
    /// The definitions whose tensors are stored in scratch memory between two launches.
    pub(super) scratch: Vec<usize>,
}

impl Reads<'_> {
    /// Prints the closure that a Rust work item passes to an element function to read a tensor with elements of type
    /// `element_type`.
    pub(super) fn function(&self, source: Source, element_type: &str) -> String {
        let element = match source {
            Source::Input(input) => {
                self.accesses.inputs.get(input).map_or(String::new(), |port| port.load.clone())
            }
            Source::Param(param) => self.accesses.params.get(param).cloned().unwrap_or_default(),
            Source::Def(def) => {
                let scratch = self.scratch_of(def).unwrap_or_default().to_string();
                let load = self.accesses.scratch_load.replace("{element}", element_type);
                let load = load.replace("{scratch}", &scratch);
                // Scratch stores bytes instead of bools, since not every byte is a valid bool.
                if element_type == "u8" { load + ".map(|byte| byte != 0)" } else { load }
            }
        };
        format!("|at| {}", element.replace("{at}", "at"))
    }

    /// Returns the index of a definition's scratch memory, if it has one.
    pub(super) fn scratch_of(&self, def: usize) -> Option<usize> {
        self.scratch.iter().position(|stored_def| *stored_def == def)
    }
}
