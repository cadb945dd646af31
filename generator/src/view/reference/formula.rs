//! Prints the formula file of an operator with a reference, which the kernels of all cores share: the computation of
//! the plan, which is the data that depends on the node's shapes, and the computation of an element.

use udo_reference::Class;

use super::{OpFormula, ReferenceView, Uses, comment, indented, node};
use crate::{
    config::{Op, Tensor},
    reference,
    stamp::Stamp,
    view::OpView,
};

/// The names of `udo-api` that the printed file may import.
const NAMES: &[&str] = &["Error", "Node"];

/// Prints the formula file; `None` for an operator without a reference.
pub(crate) fn formula(op: &Op) -> Option<OpView> {
    let source = OpFormula::new(op)?;
    let text = [of_node(&source), source.formula.text.clone()].join("\n");
    let support = udo_reference::support();
    let uses = Uses { names: NAMES, modules: Vec::new() }.and_support(&support);
    let mut view = OpView::new(op, None);
    view.config = Stamp::for_formula(op).fingerprint();
    view.imports = uses.imports(&text);
    view.reference = Some(ReferenceView {
        comment: comment(source.text),
        code: text.trim_end().to_owned(),
        inference: String::new(),
        opencl: String::new(),
        is_bounded: source.formula.is_bounded,
    });
    Some(view)
}

/// Prints the function that creates a node's plan. A static input whose elements determine dimensions is passed as a
/// function of an element's index.
fn of_node(source: &OpFormula<'_>) -> String {
    let mut parameters = vec!["cx: &Node<'_>".to_owned()];
    let (mut lines, mut arguments) = (Vec::new(), Vec::new());
    if source.formula.is_bounded {
        parameters.push("least: bool".to_owned());
        arguments.push("least".to_owned());
    }
    for (index, port) in source.op.inputs.iter().enumerate() {
        let name = &port.name;
        lines.push(format!("let extents_{index} = extents(cx, {index}, {name:?})?;"));
        arguments.push(format!("extents_{index}.as_ref().map(List::items)"));
        let (element_type, absent_value) = number(port);
        if source.reads(index) {
            parameters.push(format!("elements_{index}: Option<impl Fn(usize) -> {element_type}>"));
            lines.push(format!("if extents_{index}.is_some() && elements_{index}.is_none() {{"));
            lines.push(format!("    return Err(Error::new(\"input {name} is not a constant\"));"));
            lines.push("}".to_owned());
            arguments.push(format!(
                "|at| elements_{index}.as_ref().map_or({absent_value}, |element| element(at))"
            ));
        } else if port.is_static {
            arguments.push(format!("|_| {absent_value}"));
        }
    }
    let param_reads = node::params(source.op);
    lines.extend(param_reads.lines);
    arguments.extend(param_reads.arguments);
    let (lines, arguments) = (indented(&lines, 1), arguments.join(", "));
    let mut declaration =
        format!("pub fn of_node({}) -> Result<Plan, Error> {{", parameters.join(", "));
    if declaration.len() > crate::code::WIDTH {
        let parameters = parameters.join(",\n    ");
        declaration = format!("pub fn of_node(\n    {parameters},\n) -> Result<Plan, Error> {{");
    }
    format!(
        "/// Returns the plan of a node.\n{declaration}\n{lines}    plan({arguments})\n        .map_err(wanted)\n}}\n"
    )
}

/// Returns the type of a port's element in `plan`, and its value if a node omits the port.
fn number(port: &Tensor) -> (&'static str, &'static str) {
    match reference::class(port) {
        Class::Float => ("f64", "0.0"),
        Class::Int => ("i64", "0"),
        Class::Bool => ("bool", "false"),
    }
}

impl OpFormula<'_> {
    /// Whether the plan depends on the elements of an input.
    pub(super) fn reads(&self, input: usize) -> bool {
        let is_static = self.op.inputs.get(input).is_some_and(|port| port.is_static);
        is_static && self.formula.reads_static.get(input) == Some(&true)
    }
}
