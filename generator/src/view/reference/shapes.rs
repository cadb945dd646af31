//! Prints shape inference in Rust from an operator's reference, for the packages that `udo new` generates.

use super::{OpFormula, ReferenceView, Uses, comment, indented, module, node};
use crate::{
    config::{DataType, Op, Tensor},
    view::types::dtype,
};

/// The names of `udo-api` that the printed module may import.
const NAMES: &[&str] = &["Error", "InferCx", "Node", "Shape"];

/// Prints the shape inference of an operator.
pub(in crate::view) fn inference(op: &Op) -> Option<ReferenceView> {
    let source = OpFormula::new(op)?;
    let mut lines = vec!["let shapes = shapes::outputs(cx)?;".to_owned()];
    for (index, output) in op.outputs.iter().enumerate() {
        let statements = [
            format!("let of = {};", output_type(op, output)),
            format!("cx.set_output({index}, TensorDesc::new(of, shapes[{index}]))?;"),
        ];
        if output.is_optional {
            lines.push(format!("if cx.output_count() > {index} {{"));
            lines.extend(statements.map(|line| format!("    {line}")));
            lines.push("}".to_owned());
        } else {
            lines.extend(statements);
        }
    }
    lines.push("Ok(())".to_owned());
    let uses = Uses::with_formula(&source, NAMES).and("inference", ["integers", "reals", "shape"]);
    Some(ReferenceView {
        comment: comment(source.text),
        code: module("shapes", &uses, &[&outputs(&source)]),
        inference: lines.join("\n        "),
        opencl: String::new(),
        is_bounded: source.formula.is_bounded,
    })
}

/// Prints the function that returns the shapes of all outputs, and the functions that it calls.
fn outputs(source: &OpFormula<'_>) -> String {
    let plan = node::plan(source, "false", None);
    let mut lines = vec![format!("let plan = {}?;", plan.call)];
    let bounded_plan = if source.formula.is_bounded {
        let least = node::plan(source, "true", None).call;
        let comment_line =
            "// Dimensions that elements determine differ between the upper bound and zero.";
        lines.extend([comment_line.to_owned(), format!("let least = {least}?;")]);
        "least"
    } else {
        "plan"
    };
    lines.push("Ok([".to_owned());
    let extents = &source.formula.extents;
    lines.extend(
        extents.iter().map(|dims| format!("    shape(cx, plan.{dims}, {bounded_plan}.{dims})?,")),
    );
    lines.push("])".to_owned());
    let function = format!(
        "/// Returns the shapes of the outputs.\npub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; {}], Error> {{\n{}}}\n",
        extents.len(),
        indented(&lines, 1)
    );
    if plan.function.is_empty() { function } else { [function, plan.function].join("\n") }
}

/// Prints the expression of an output's type: the type of the first input that has the same types on every core, or the
/// type in the config if there is no such input.
pub(in crate::view) fn output_type(op: &Op, output: &Tensor) -> String {
    let config_type =
        format!("DType::{}", dtype(output.types.first().map_or(DataType::Float32, |t| t.dtype)));
    let input_of_same_type =
        op.inputs.iter().position(|input| input.types == output.types && !input.may_be_absent());
    match input_of_same_type {
        Some(input) => format!("cx.input({input})?.dtype().unwrap_or({config_type})"),
        None => config_type,
    }
}
