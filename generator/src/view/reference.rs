//! What is printed from an operator's reference: shape inference, and a first kernel on each core.

mod items;
mod node;
mod shapes;
mod slices;
mod table;

use serde::Serialize;
use udo_reference::{Class, Program, has_call, has_word};

use super::{element, schema::is_quantized};
use crate::{
    code::import,
    config::{Core, DataType, Op, Tensor},
    reference,
};

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

/// A first kernel, or why there is none.
pub(super) type Printed = Result<ReferenceView, String>;

/// The first kernel of an operator with a reference on a core.
pub(super) fn kernel(op: &Op, core: Core) -> Option<Printed> {
    let (program, source) = program(op)?;
    if let Some(output) = op.outputs.iter().find(|output| output.is_optional) {
        return Some(Err(format!("a node may leave out the output {}", output.name)));
    }
    let printed = match core {
        Core::Gpu => items::printed(op, &program),
        Core::Cpu | Core::Dsp(_) => slices::printed(op, core, &program),
    };
    Some(printed.map(|(code, opencl, is_bounded)| ReferenceView {
        comment: comment(source),
        code,
        inference: String::new(),
        opencl,
        is_bounded,
    }))
}

/// Why there is no first kernel where shapes follow from elements that are not stored as what they are.
fn odd_static(op: &Op, core: Core, reads_static: &[bool]) -> Result<(), String> {
    let odd = op.inputs.iter().zip(reads_static);
    let mut odd =
        odd.filter(|(port, is_read)| **is_read && port.is_static && is_converted(port, core));
    match odd.next() {
        None => Ok(()),
        Some((port, _)) => Err(format!(
            "extents follow from elements of the input {}, which is stored as codes or halves there",
            port.name
        )),
    }
}

/// The source as lines of a comment.
fn comment(source: &str) -> String {
    let line = |line: &str| format!("//!     {line}").trim_end().to_owned();
    source.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The module of that name that holds these texts, and uses those of `udo-api`'s names that are in them, and what it needs of
/// the modules that its crate has.
fn module(name: &str, names: &[&str], modules: &[&str], parts: &[&str]) -> String {
    let line = |line: &str| {
        if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
    };
    let body = parts.join("\n");
    let used: Vec<&str> = names.iter().copied().filter(|name| has_word(&body, name)).collect();
    let mut imports = vec![import("udo_api", &used)];
    let support = udo_reference::support();
    let constants = functions(udo_reference::constants_support());
    let shared: Vec<&str> = functions(&support).chain(["extents"]).collect();
    for (module, types, functions) in [
        ("constants", &[][..], constants.collect()),
        ("inference", &[], vec!["integers", "reals", "shape"]),
        ("reference", &["Fault", "List"], shared),
    ] {
        if !modules.contains(&module) {
            continue;
        }
        let mut used: Vec<&str> = types.iter().copied().filter(|of| has_word(&body, of)).collect();
        used.extend(functions.into_iter().filter(|function| has_call(&body, function)));
        if module == "reference" {
            used.push("wanted");
        }
        if !used.is_empty() {
            imports.push(import(&format!("crate::{module}"), &used));
        }
    }
    let body = format!("{}\n\n{body}", imports.join("\n"));
    let body: String = body.trim_end().lines().map(line).collect();
    // It is no code to be read line by line before somebody works on it.
    format!("#[rustfmt::skip]\nmod {name} {{\n{body}}}")
}

/// The functions that a text makes public.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split('(').next())
}

/// The program of an operator with a reference. It was read with the config, so that it reads again.
fn program(op: &Op) -> Option<(Program, &str)> {
    let program = reference::program(op).ok().flatten()?;
    Some((program, op.reference.as_deref()?))
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
