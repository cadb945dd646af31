//! What is printed from an operator's reference: shape inference, and a first kernel on each core.

mod formula;
mod items;
mod kept;
mod node;
mod shapes;
mod slices;
mod table;

use serde::Serialize;
use udo_reference::{Class, Formula, Program, has_call, has_word};

use super::types::{element, is_quantized};
use crate::{
    code::import,
    config::{Core, DataType, Op, Tensor},
    names, reference,
};

pub(crate) use formula::formula;
pub(super) use shapes::{inference, output_type};

/// What a file shows of its operator's reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReferenceView {
    /// The source, as lines of a comment that documents the file.
    pub(crate) comment: String,
    /// The module that is printed from it.
    pub(crate) code: String,
    /// The statements of `infer` that use it.
    pub(crate) inference: String,
    /// What stands in the file of OpenCL C.
    pub(crate) opencl: String,
    /// Whether elements decide extents of outputs.
    pub(crate) is_bounded: bool,
}

/// Why an operator with a reference has no first kernel on a core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKernel {
    #[error("a node may leave out the output {0}")]
    OptionalOutput(String),
    /// Shapes follow from elements that are not stored as what they are.
    #[error(
        "extents follow from elements of the input {0}, which is stored as codes or halves there"
    )]
    ConvertedExtents(String),
    #[error("elements decide how large an output is, which a kernel of a GPU cannot say")]
    BoundedOnGpu,
}

/// An operator with what its reference says, whichever core runs it.
struct OpFormula<'a> {
    op: &'a Op,
    /// The reference as the config has it.
    text: &'a str,
    program: Program,
    formula: Formula,
}

impl<'a> OpFormula<'a> {
    /// That of an operator with a reference. It was read with the config, so that it reads again.
    fn of(op: &'a Op) -> Option<Self> {
        let program = reference::program(op).ok().flatten()?;
        let formula = program.formula();
        Some(Self { op, text: op.reference.as_deref()?, program, formula })
    }
}

/// What is printed of a kernel.
struct Kernel {
    /// Its module.
    code: String,
    opencl: String,
}

/// The first kernel of an operator with a reference on a core.
pub(super) fn kernel(op: &Op, core: Core) -> Option<Result<ReferenceView, NoKernel>> {
    OpFormula::of(op).map(|source| source.kernel(core))
}

impl OpFormula<'_> {
    fn kernel(&self, core: Core) -> Result<ReferenceView, NoKernel> {
        if let Some(output) = self.op.outputs.iter().find(|output| output.is_optional) {
            return Err(NoKernel::OptionalOutput(output.name.clone()));
        }
        let reads = self.op.inputs.iter().zip(&self.formula.reads_static);
        let mut read = reads.filter(|(port, is_read)| **is_read && port.is_static);
        if let Some((port, _)) = read.find(|(port, _)| is_converted(port, core)) {
            return Err(NoKernel::ConvertedExtents(port.name.clone()));
        }
        let Kernel { code, opencl } = match core {
            Core::Gpu => items::printed(self)?,
            Core::Cpu | Core::Dsp(_) => slices::printed(self, core),
        };
        Ok(ReferenceView {
            comment: comment(self.text),
            code,
            inference: String::new(),
            opencl,
            is_bounded: self.formula.is_bounded,
        })
    }
}

/// The source as lines of a comment.
fn comment(source: &str) -> String {
    let line = |line: &str| format!("//!     {line}").trim_end().to_owned();
    source.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What a printed text may use: names of `udo-api`, and modules of its crate with types and functions.
struct Uses<'a> {
    names: &'a [&'a str],
    modules: Vec<Module<'a>>,
}

/// A module of a crate that printed texts use.
struct Module<'a> {
    path: String,
    types: &'a [&'a str],
    functions: Vec<&'a str>,
}

impl<'a> Uses<'a> {
    /// Of a kernel or of shape inference: those of the operator's formula as well.
    fn beside(OpFormula { op, formula, .. }: &'a OpFormula<'_>, names: &'a [&'a str]) -> Self {
        let functions = functions(&formula.text).chain(["of_node"]).collect();
        let path = format!("formulas::{}", names::module_name(&op.name));
        let formula = Module { path, types: &["Plan"], functions };
        Self { names, modules: vec![formula] }
    }

    /// With what all printed Rust uses, of this text.
    fn and_support(mut self, support: &'a str) -> Self {
        let functions = functions(support).chain(["extents", "wanted"]).collect();
        let path = "reference".to_owned();
        self.modules.push(Module { path, types: &["Fault", "List"], functions });
        self
    }

    fn and(mut self, path: &str, functions: impl IntoIterator<Item = &'a str>) -> Self {
        let functions = functions.into_iter().collect();
        self.modules.push(Module { path: path.to_owned(), types: &[], functions });
        self
    }

    /// The `use` lines of a text.
    fn imports(&self, body: &str) -> String {
        let used = |names: &[&'a str]| -> Vec<&'a str> {
            names.iter().copied().filter(|name| has_word(body, name)).collect()
        };
        let mut imports = vec![import("udo_api", &used(self.names))];
        for Module { path, types, functions } in &self.modules {
            let mut names = used(types);
            // A function is called, or handed on.
            let calls = functions.iter().copied();
            let handed = |of: &str| body.contains(&format!("map_err({of})"));
            names.extend(calls.filter(|of| has_call(body, of) || handed(of)));
            if !names.is_empty() {
                imports.push(import(&format!("crate::{path}"), &names));
            }
        }
        imports.join("\n")
    }
}

/// The module of that name that holds these texts.
fn module(name: &str, uses: &Uses<'_>, parts: &[&str]) -> String {
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
    };
    let body = parts.join("\n");
    let body = format!("{}\n\n{body}", uses.imports(&body));
    let body: String = body.trim_end().lines().map(line).collect();
    // It is no code to be read line by line before somebody works on it.
    format!("#[rustfmt::skip]\nmod {name} {{\n{body}}}")
}

/// The functions that a text makes public.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split(['(', '<']).next())
}

/// The lines so many blocks deep.
fn indented(lines: &[String], depth: usize) -> String {
    let margin = "    ".repeat(depth);
    let each: Vec<String> = lines.iter().map(|line| format!("{margin}{line}\n")).collect();
    each.concat()
}

/// How the elements of a port are stored on a core.
fn stored(port: &Tensor, core: Core) -> &'static str {
    element(port.type_on(core).unwrap_or(DataType::Float32))
}

/// Whether the elements of a port stand for other numbers on a core.
fn is_encoded(port: &Tensor, core: Core) -> bool {
    is_quantized(port) && !matches!(stored(port, core), "f32" | "F16")
}

/// The encoding of what stands for itself: so is what a node leaves without one.
const PLAIN: &str = "Encoding { scale: 1.0, zero_point: 0 }";

/// Whether a kernel of single precision has to convert what is stored.
fn is_converted(port: &Tensor, core: Core) -> bool {
    stored(port, core) == "F16" || is_encoded(port, core)
}

/// What kernels keep the elements of a parameter that is a tensor as.
fn list_element(param: &Tensor) -> &'static str {
    match reference::class(param) {
        Class::Float => "f32",
        Class::Int | Class::Bool => "i64",
    }
}
