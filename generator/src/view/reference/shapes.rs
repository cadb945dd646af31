//! The shapes of an operator's outputs, as its reference says them.

use udo_reference::{Class, Ports, RustKernel};

use super::{
    ReferenceView, comment, has_word, indented, module,
    node::{self, Known},
    program,
};
use crate::{
    config::{DataType, Op, Tensor},
    reference,
    view::dtype,
};

/// The names of `udo-api` that a module of shapes may use.
const NAMES: &[&str] = &["DType", "Dim", "Error", "F16", "InferCx", "Node", "Shape"];

/// What infers the shapes of an operator.
pub(in crate::view) fn inference(op: &Op) -> Option<ReferenceView> {
    let (program, source) = program(op)?;
    // The elements of inputs that are known are integers of any width here.
    let word = |port: &Tensor| match reference::class(port) {
        Class::Float => "f32".to_owned(),
        Class::Int | Class::Bool => "i64".to_owned(),
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
    let mut glue = vec![
        outputs(&kernel),
        node::of_node(op, &known, None),
        node::EXTENTS.to_owned(),
        SHAPE.to_owned(),
    ];
    for (function, text) in [("reals", REALS), ("integers", INTEGERS)] {
        if has_word(&glue.concat(), function) {
            glue.push(text.to_owned());
        }
    }
    let glue = glue.join("\n");
    let texts = [glue.as_str(), &kernel.plan, &kernel.finalize, &kernel.shape_support];
    Some(ReferenceView {
        comment: comment(source),
        code: module("shapes", NAMES, &texts),
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
fn output_type(op: &Op, output: &Tensor) -> String {
    let said =
        format!("DType::{}", dtype(output.types.first().map_or(DataType::Float32, |t| t.dtype)));
    let twin =
        op.inputs.iter().position(|input| input.types == output.types && !input.may_be_absent());
    match twin {
        Some(input) => format!("cx.input({input})?.dtype().unwrap_or({said})"),
        None => said,
    }
}

const REALS: &str = r"/// The elements of an input that is known from the start.
fn reals(cx: &Node<'_>, index: usize) -> Result<Option<Vec<f32>>, Error> {
    if !cx.has_input(index) {
        return Ok(None);
    }
    if cx.input(index)?.dtype() == Some(DType::F16) {
        let halves = cx.constant::<F16>(index)?;
        return Ok(halves.map(|halves| halves.iter().map(|half| half.to_f32()).collect()));
    }
    Ok(cx.constant::<f32>(index)?.map(<[f32]>::to_vec))
}
";

const INTEGERS: &str = r"/// The elements of an input that is known from the start.
fn integers(cx: &Node<'_>, index: usize) -> Result<Option<Vec<i64>>, Error> {
    fn wide<T: Copy + Into<i64>>(values: Option<&[T]>) -> Option<Vec<i64>> {
        values.map(|values| values.iter().map(|value| (*value).into()).collect())
    }
    if !cx.has_input(index) {
        return Ok(None);
    }
    Ok(match cx.input(index)?.dtype() {
        Some(DType::U8) => wide(cx.constant::<u8>(index)?),
        Some(DType::U16) => wide(cx.constant::<u16>(index)?),
        Some(DType::U32) => wide(cx.constant::<u32>(index)?),
        Some(DType::I8) => wide(cx.constant::<i8>(index)?),
        Some(DType::I16) => wide(cx.constant::<i16>(index)?),
        _ => cx.constant_ints(index)?,
    })
}
";

const SHAPE: &str = r"/// The shape of an output: bounded where the elements decide, and open as soon as an input is.
fn shape(cx: &InferCx<'_>, most: List, least: List) -> Result<Shape, Error> {
    let mut is_open = false;
    for index in 0..cx.input_count() {
        is_open |= cx.has_input(index)
            && cx.input(index)?.full_shape().iter().any(|dim| matches!(dim, Dim::Open(_)));
    }
    let mut dims = [Dim::Fixed(0); 8];
    for (to, (&most, &least)) in dims.iter_mut().zip(most.items().iter().zip(least.items())) {
        *to = match most as usize {
            bound if most != least => Dim::UpTo(bound),
            extent if is_open => Dim::Open(extent),
            extent => Dim::Fixed(extent),
        };
    }
    Shape::of_dims(&dims[..most.items().len()])
}
";
