//! The shapes of an operator's outputs, as its reference says them.

use udo_reference::{Class, Ports, RustKernel};

use super::{
    ReferenceView, comment, indented, module,
    node::{self, Known},
    program,
};
use crate::{
    config::{DataType, Op, Tensor},
    reference,
    view::dtype,
};

/// The names of `udo-api` that a module of shapes may use.
const NAMES: &[&str] = &["Error", "InferCx", "Node", "Shape"];

/// What infers the shapes of an operator.
pub(in crate::view) fn inference(op: &Op) -> Option<ReferenceView> {
    let (program, source) = program(op)?;
    // The elements of inputs that are known are integers of any width here.
    let word = |port: &Tensor| match reference::class(port) {
        Class::Float => "f32".into(),
        Class::Int | Class::Bool => "i64".into(),
    };
    let ports = Ports {
        inputs: op.inputs.iter().map(word).collect(),
        outputs: op.outputs.iter().map(word).collect(),
    };
    let kernel = program.rust(&ports);
    let mut lines = vec!["let shapes = shapes::outputs(cx)?;".to_owned()];
    for (index, output) in op.outputs.iter().enumerate() {
        let set = [
            format!("let of = {};", output_type(op, output)),
            format!("cx.set_output({index}, TensorDesc::new(of, shapes[{index}]))?;"),
        ];
        if output.is_optional {
            lines.push(format!("if cx.output_count() > {index} {{"));
            lines.extend(set.map(|line| format!("    {line}")));
            lines.push("}".to_owned());
        } else {
            lines.extend(set);
        }
    }
    lines.push("Ok(())".to_owned());
    let known = Known { is_bounded: kernel.is_bounded, reads_static: &kernel.reads_static };
    let glue = [outputs(&kernel), node::of_node(op, &known, None)].join("\n");
    let shapes = kernel.shapes(&glue);
    Some(ReferenceView {
        comment: comment(source),
        code: module("shapes", NAMES, &["inference", "reference"], &[&glue, &shapes]),
        inference: lines.join("\n        "),
        opencl: String::new(),
        is_bounded: kernel.is_bounded,
    })
}

/// The function that gives the shapes of all outputs.
fn outputs(kernel: &RustKernel) -> String {
    let mut lines =
        vec![format!("let plan = of_node(cx{})?;", node::least(kernel.is_bounded, "false"))];
    let other = if kernel.is_bounded {
        let why = "// What the elements decide differs between as many as there may be and none.";
        lines.extend([
            why.to_owned(),
            format!("let least = of_node(cx{})?;", node::least(kernel.is_bounded, "true")),
        ]);
        "least"
    } else {
        "plan"
    };
    lines.push("Ok([".to_owned());
    let each = kernel.extents.iter();
    lines.extend(each.map(|dims| format!("    shape(cx, plan.{dims}, {other}.{dims})?,")));
    lines.push("])".to_owned());
    format!(
        "/// The shapes of the outputs.\npub fn outputs(cx: &InferCx<'_>) -> Result<[Shape; {}], Error> {{\n{}}}\n",
        kernel.extents.len(),
        indented(&lines, 1)
    )
}

/// The type of an output: that of the first input of the same types on every core, else the one that the config says.
pub(in crate::view) fn output_type(op: &Op, output: &Tensor) -> String {
    let said =
        format!("DType::{}", dtype(output.types.first().map_or(DataType::Float32, |t| t.dtype)));
    let twin =
        op.inputs.iter().position(|input| input.types == output.types && !input.may_be_absent());
    match twin {
        Some(input) => format!("cx.input({input})?.dtype().unwrap_or({said})"),
        None => said,
    }
}
