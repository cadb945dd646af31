//! Prints code from an operator's reference, the source in the language of `udo-reference` that defines its results:
//! shape inference, and a first kernel for each core. The author of the package may replace the kernels by faster ones.

mod formula;
mod items;
mod node;
mod shapes;
mod slices;
mod state;
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

/// The parts of a file printed from an operator's reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReferenceView {
    /// The source of the reference, as doc comments of the file.
    pub(crate) comment: String,
    /// The printed module.
    pub(crate) code: String,
    /// The statements of `infer`.
    pub(crate) inference: String,
    /// The content of the OpenCL C file.
    pub(crate) opencl: String,
    /// Whether elements determine dimensions of outputs.
    pub(crate) is_bounded: bool,
}

/// The reason why an operator with a reference gets no first kernel on a core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKernel {
    #[error("a node may leave out the output {0}")]
    OptionalOutput(String),
    /// Shapes depend on elements that the core does not store exactly.
    #[error("dimensions depend on elements of the input {0}, which is quantized or f16 there")]
    ConvertedExtents(String),
    #[error("elements determine the size of an output, which GPU kernels do not support")]
    BoundedOnGpu,
}

/// An operator with its formula, which is the same on every core.
struct OpFormula<'a> {
    op: &'a Op,
    /// The reference as in the config.
    text: &'a str,
    program: Program,
    formula: Formula,
}

impl<'a> OpFormula<'a> {
    /// Returns the formula of an operator with a reference. The reader has parsed it, so it is valid.
    fn new(op: &'a Op) -> Option<Self> {
        let program = reference::program(op).ok().flatten()?;
        let formula = program.formula();
        Some(Self { op, text: op.reference.as_deref()?, program, formula })
    }
}

/// A printed kernel.
struct Kernel {
    /// The Rust module.
    code: String,
    /// The OpenCL C source; empty except on the GPU.
    opencl: String,
}

/// Prints the first kernel of an operator with a reference on a core.
pub(super) fn kernel(op: &Op, core: Core) -> Option<Result<ReferenceView, NoKernel>> {
    OpFormula::new(op).map(|source| source.kernel(core))
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
            Core::Gpu => items::print(self)?,
            Core::Cpu | Core::Dsp(_) => slices::print(self, core),
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

/// Prints the source as comment lines.
fn comment(source: &str) -> String {
    let line = |line: &str| format!("//!     {line}").trim_end().to_owned();
    source.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The names that printed code may import: from `udo-api`, and from modules of its crate.
struct Uses<'a> {
    names: &'a [&'a str],
    modules: Vec<Module<'a>>,
}

/// A module of a crate that printed code uses.
struct Module<'a> {
    path: String,
    types: &'a [&'a str],
    functions: Vec<&'a str>,
}

impl<'a> Uses<'a> {
    /// Returns the names for a kernel or shape inference, including those of the operator's formula.
    fn with_formula(
        OpFormula { op, formula, .. }: &'a OpFormula<'_>,
        names: &'a [&'a str],
    ) -> Self {
        let functions = functions(&formula.text).chain(["of_node"]).collect();
        let path = format!("formulas::{}", names::module_name(&op.name));
        let formula = Module { path, types: &["Plan"], functions };
        Self { names, modules: vec![formula] }
    }

    /// Adds the names of the shared Rust code.
    fn and_support(mut self, support: &'a str) -> Self {
        let functions = functions(support).chain(["extents", "wanted"]).collect();
        let path = "reference".to_owned();
        self.modules.push(Module { path, types: &["Fault", "List"], functions });
        self
    }

    /// Adds functions of a module.
    fn and(mut self, path: &str, functions: impl IntoIterator<Item = &'a str>) -> Self {
        let functions = functions.into_iter().collect();
        self.modules.push(Module { path: path.to_owned(), types: &[], functions });
        self
    }

    /// Prints the `use` lines of a text.
    fn imports(&self, body: &str) -> String {
        let used = |names: &[&'a str]| -> Vec<&'a str> {
            names.iter().copied().filter(|name| has_word(body, name)).collect()
        };
        let mut imports = vec![import("udo_api", &used(self.names))];
        for Module { path, types, functions } in &self.modules {
            let mut names = used(types);
            // A function is used if it is called, or passed to `map_err`.
            let calls = functions.iter().copied();
            let is_passed = |function: &str| body.contains(&format!("map_err({function})"));
            names.extend(calls.filter(|function| has_call(body, function) || is_passed(function)));
            if !names.is_empty() {
                imports.push(import(&format!("crate::{path}"), &names));
            }
        }
        imports.join("\n")
    }
}

/// Prints the module with this code.
fn module(name: &str, uses: &Uses<'_>, parts: &[&str]) -> String {
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
    };
    let body = parts.join("\n");
    let body = format!("{}\n\n{body}", uses.imports(&body));
    let body: String = body.trim_end().lines().map(line).collect();
    // The module is not formatted, as it is not meant to be edited.
    format!("#[rustfmt::skip]\nmod {name} {{\n{body}}}")
}

/// Iterates over the public functions of a text.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split(['(', '<']).next())
}

/// Indents the lines by this block depth.
fn indented(lines: &[String], depth: usize) -> String {
    let indent = "    ".repeat(depth);
    let indented_lines: Vec<String> =
        lines.iter().map(|line| format!("{indent}{line}\n")).collect();
    indented_lines.concat()
}

/// Returns the stored type of a port's elements on a core.
fn stored_type(port: &Tensor, core: Core) -> &'static str {
    element(port.type_on(core).unwrap_or(DataType::Float32))
}

/// Whether the elements of a port are quantized on a core.
fn is_encoded(port: &Tensor, core: Core) -> bool {
    is_quantized(port) && !matches!(stored_type(port, core), "f32" | "F16")
}

/// The encoding of unquantized elements, and of tensors without an encoding.
const PLAIN: &str = "Encoding { scale: 1.0, zero_point: 0 }";

/// Whether a single-precision kernel has to convert the stored elements.
fn is_converted(port: &Tensor, core: Core) -> bool {
    stored_type(port, core) == "F16" || is_encoded(port, core)
}

/// Returns the element type in which kernels store a tensor parameter.
fn list_element(param: &Tensor) -> &'static str {
    match reference::class(param) {
        Class::Float => "f32",
        Class::Int | Class::Bool => "i64",
    }
}
