//! How work items reach the elements of tensors, in both languages.

use crate::ir::Source;

/// How work items reach the elements of tensors. In texts `{at}` stands for the number of an element. What is said in Rust is a
/// `Result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accesses {
    /// The inputs.
    pub inputs: Vec<PortAccess>,
    /// The outputs, of which `load` is not used.
    pub outputs: Vec<PortAccess>,
    /// Of each parameter that is a tensor an element in Rust; nothing for the others.
    pub params: Vec<String>,
    /// An element of scratch in Rust, where `{scratch}` stands for the number of the scratch, and `{element}` for its type.
    pub scratch_load: String,
    /// What names of kernels in OpenCL C begin with.
    pub prefix: String,
}

/// How work items reach the elements of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAccess {
    /// An element as a number, in Rust.
    pub load: String,
    /// The same in OpenCL C.
    pub opencl: OpenClAccess,
}

/// How OpenCL C reaches the elements of a port, where `{name}` stands for the port's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClAccess {
    /// The type of the buffer's elements.
    pub element: String,
    /// An element as a number.
    pub load: String,
    /// The statement that stores the number `{value}`.
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

/// What is read, and where it is.
pub(super) struct Reads<'a> {
    pub(super) accesses: &'a Accesses,
    /// The tensors that are kept between two launches.
    pub(super) scratch: Vec<usize>,
}

impl Reads<'_> {
    /// How a work item in Rust gives a tensor to the function of an element.
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
                // Not every byte is a truth value, so scratch holds none.
                if stored == "u8" { load + ".map(|byte| byte != 0)" } else { load }
            }
        };
        format!("|at| {}", element.replace("{at}", "at"))
    }

    pub(super) fn scratch_of(&self, def: usize) -> Option<usize> {
        self.scratch.iter().position(|kept| *kept == def)
    }
}
