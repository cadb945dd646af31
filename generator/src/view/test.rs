//! Prints the test at the end of an operator's file, which runs the kernel on small tensors with `udo_testing::Bench`.

use super::{
    TestView,
    types::{is_encoded, list_element, own_type, type_on},
};
use crate::{
    code::{Expr, binding, import},
    config::{Core, Family, Op, Scalar, ScalarParam, Tensor},
};

/// Returns the test of `op` on `core`.
pub(super) fn test(op: &Op, core: Core) -> TestView {
    let mut bench = Expr::call("Bench::kernel", [Expr::atom("KERNEL")]);
    for input in &op.inputs {
        let method = if input.is_static { "constant" } else { "input" };
        bench = bench.then(method, [Expr::atom(tensor(input, core))]);
    }
    for param in &op.scalar_params {
        let (method, value) = scalar(param);
        bench = bench.then(method, [Expr::text(&param.name), Expr::atom(value)]);
    }
    for param in &op.tensor_params {
        let (method, values) = list(param);
        bench = bench.then(method, [Expr::text(&param.name), Expr::atom(values)]);
    }
    let first = op.inputs.first().map(|input| type_on(input, core));
    for (port, output) in op.outputs.iter().enumerate() {
        let element_type = type_on(output, core);
        if first == Some(element_type) {
            bench = bench.then("like_input", []);
            continue;
        }
        bench = bench.then(output_of(element_type), [Expr::atom("&[4]")]);
        if is_encoded(output, core) {
            let encoding = [port.to_string(), "0.5".to_owned(), "0".to_owned()];
            bench = bench.then("output_encoding", encoding.map(Expr::atom));
        }
    }
    let mut types = vec!["Status"];
    types.extend(op.inputs.iter().filter_map(|input| own_type(type_on(input, core))));
    TestView {
        types: import("udo_api", &types),
        bench: binding("bench", &bench, 2),
        wanted: example_assertion(op, core),
        sample: None,
    }
}

/// Prints an example tensor of four elements.
fn tensor(tensor: &Tensor, core: Core) -> String {
    let mut values = match type_on(tensor, core) {
        "F16" => "tensor(&[4], &[1.0, 2.0, 3.0, 4.0].map(F16::from_f32))".to_owned(),
        "f32" => "tensor(&[4], &[1f32, 2.0, 3.0, 4.0])".to_owned(),
        "Bool" => "tensor(&[4], &[true, false, true, true].map(Bool::from))".to_owned(),
        element_type => format!("tensor(&[4], &[1{element_type}, 2, 3, 4])"),
    };
    if is_encoded(tensor, core) {
        values.push_str(".encoded(0.5, 0)");
    }
    values
}

/// Returns the method that sets a parameter, and the value: the default, or 1.
fn scalar(param: &ScalarParam) -> (&'static str, String) {
    let default = param.default.as_ref();
    match param.dtype.family() {
        Family::Text => ("text", default.map_or_else(|| "\"\"".to_owned(), literal)),
        Family::Integer(..) | Family::Truth => {
            ("int", default.map_or_else(|| "1".to_owned(), literal))
        }
        Family::Float(_) | Family::Fixed => {
            ("float", default.map_or_else(|| "1.0".to_owned(), literal))
        }
    }
}

fn list(param: &Tensor) -> (&'static str, String) {
    let (method, one) =
        if list_element(param) == "f32" { ("floats", "1.0") } else { ("ints", "1") };
    let values = match &param.default {
        Some(default) => default.values().iter().map(literal).collect::<Vec<_>>().join(", "),
        None => one.to_owned(),
    };
    (method, format!("&[{values}]"))
}

fn literal(value: &Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => format!("{value:?}"),
        Scalar::Text(value) => format!("{value:?}"),
    }
}

/// Prints an example assertion on the first output.
fn example_assertion(op: &Op, core: Core) -> String {
    let element_type = op.outputs.first().map_or("f32", |output| type_on(output, core));
    let output = if op.outputs.len() == 1 { "bench.one()" } else { "bench.all()[0]" };
    match element_type {
        "f32" => format!("udo_testing::assert_near(&{output}.values::<f32>(), &[..], 1e-6);"),
        "F16" | "Bool" => {
            format!("assert_eq!({output}.values::<udo_api::{element_type}>(), [..]);")
        }
        _ => format!("assert_eq!({output}.values::<{element_type}>(), [..]);"),
    }
}

/// Returns the method of `Bench` that adds an output of this type.
pub(super) fn output_of(element_type: &'static str) -> &'static str {
    match element_type {
        "f32" => "output_of::<f32>",
        "F16" => "output_of::<udo_api::F16>",
        "u8" => "output_of::<u8>",
        "u16" => "output_of::<u16>",
        "u32" => "output_of::<u32>",
        "i8" => "output_of::<i8>",
        "i16" => "output_of::<i16>",
        "i64" => "output_of::<i64>",
        "Bool" => "output_of::<udo_api::Bool>",
        _ => "output_of::<i32>",
    }
}
