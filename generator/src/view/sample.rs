//! The test of a printed kernel: a small node, and what the reference says of it.

mod node;

use node::{SCALE, ends, found, reals, whole, zero_point};
use udo_reference::{Argument, Arguments, Elements, Evaluated, Extent, Tensor, Value};

use super::{
    SampleView, test,
    types::{is_encoded, own_type, type_on},
};
use crate::{
    code::{Expr, binding, import},
    config::{self, Core, Op},
    reference,
};

/// The statements of a test of the printed kernel, if the reference takes a small node.
pub(super) fn sample(op: &Op, core: Core) -> Option<SampleView> {
    let program = reference::program(op).ok().flatten()?;
    let signature = reference::signature(op);
    let (arguments, outputs) = found(op, core, &program, &signature)?;
    let shapes = program.infer(&arguments).ok()?;
    let mut types = Vec::new();
    let kernel = Expr::call("Bench::kernel", [Expr::atom("KERNEL")]);
    let mut bench = given(op, core, &arguments, kernel, &mut types)?;
    let mut lines = Vec::new();
    if op.outputs.len() > 1 {
        bench = bench.then("outputs", [Expr::atom(op.outputs.len().to_string())]);
    }
    for (port, (output, shape)) in op.outputs.iter().zip(&shapes).enumerate() {
        let of = type_on(output, core);
        types.extend(own_type(of));
        if shape.iter().any(|extent| matches!(extent, Extent::UpTo(_))) {
            types.extend(["DType", "Dim", "Shape"]);
            let dims: Vec<String> = shape.iter().map(|extent| format!("Dim::{extent:?}")).collect();
            let dims = format!("Shape::of_dims(&[{}]).unwrap()", dims.join(", "));
            let dtype = match of {
                "Bool" => "DType::Bool".to_owned(),
                of => format!("DType::{}", of.to_ascii_uppercase()),
            };
            bench = bench.then("output", [Expr::atom(dtype), Expr::atom(dims)]);
        } else {
            let dims: Vec<usize> = shape.iter().map(|extent| extent.bound()).collect();
            bench = bench.then(test::output_of(of), [extents(&dims)]);
        }
        if is_encoded(output, core) {
            let encoding = [port.to_string(), SCALE.to_string(), zero_point(of).to_string()];
            bench = bench.then("output_encoding", encoding.map(Expr::atom));
        }
    }
    lines.push(binding("outputs", &bench.then("all", []), 2));
    for (port, (output, evaluated)) in op.outputs.iter().zip(&outputs).enumerate() {
        lines.push(compared(port, type_on(output, core), is_encoded(output, core), evaluated)?);
    }
    let types = if types.is_empty() { String::new() } else { import("udo_api", &types) };
    let body = lines.join("\n");
    let mut helpers = vec!["Bench", "tensor"];
    if body.contains("assert_near(") {
        helpers.push("assert_near");
    }
    Some(SampleView { types, helpers: import("udo_testing", &helpers), body })
}

/// The statements of a test of shape inference, if the reference takes a small node.
pub(super) fn shapes(op: &Op) -> Option<SampleView> {
    let core = *op.cores.first()?;
    // Shapes do not follow from codes, whose encoding is not known with them.
    if op.inputs.iter().any(|input| input.is_static && is_encoded(input, core)) {
        return None;
    }
    let program = reference::program(op).ok().flatten()?;
    let (arguments, _) = found(op, core, &program, &reference::signature(op))?;
    let shapes = program.infer(&arguments).ok()?;
    let mut types = vec!["Dim"];
    let node = Expr::call("Bench::op", ["OP", "&[]"].map(Expr::atom));
    let mut bench = given(op, core, &arguments, node, &mut types)?;
    if op.outputs.len() > 1 {
        bench = bench.then("outputs", [Expr::atom(op.outputs.len().to_string())]);
    }
    let mut lines =
        vec![binding("node", &bench, 2), "        let outputs = node.infer().unwrap();".to_owned()];
    for (port, shape) in shapes.iter().enumerate() {
        let dims = shape.iter().map(|extent| Expr::atom(format!("Dim::{extent:?}")));
        lines.push(binding(&format!("wanted_{port}: &[Dim]"), &Expr::Array(dims.collect()), 2));
        lines.push(format!(
            "        assert!(outputs[{port}].full_shape().iter().eq(wanted_{port}.iter().copied()));"
        ));
    }
    let helpers = import("udo_testing", &["Bench", "tensor"]);
    Some(SampleView { types: import("udo_api", &types), helpers, body: lines.join("\n") })
}

/// The bench with inputs and parameters.
fn given(
    op: &Op,
    core: Core,
    arguments: &Arguments,
    mut bench: Expr,
    types: &mut Vec<&'static str>,
) -> Option<Expr> {
    for (input, argument) in op.inputs.iter().zip(&arguments.inputs) {
        let Argument::Tensor(tensor) = argument else {
            bench = bench.then("absent", []);
            continue;
        };
        let method = if input.is_static { "constant" } else { "input" };
        let mut given = Expr::call("tensor", [extents(&tensor.dims), stored(input, core, tensor)]);
        if is_encoded(input, core) {
            let zero_point = zero_point(type_on(input, core)).to_string();
            given = given.then("encoded", [SCALE.to_string(), zero_point].map(Expr::atom));
        }
        types.extend(own_type(type_on(input, core)));
        bench = bench.then(method, [given]);
    }
    for (param, value) in op.scalar_params.iter().zip(&arguments.params) {
        let (method, said) = match value.as_ref()? {
            Value::Float(value) => ("float", format!("{value:?}")),
            Value::Int(value) => ("int", value.to_string()),
            Value::Text(value) => ("text", format!("{value:?}")),
            Value::Bool(value) => ("int", u8::from(*value).to_string()),
            Value::Tensor(_) => return None,
        };
        bench = bench.then(method, [Expr::text(&param.name), Expr::atom(said)]);
    }
    for (param, value) in
        op.tensor_params.iter().zip(arguments.params.iter().skip(op.scalar_params.len()))
    {
        let Value::Tensor(tensor) = value.as_ref()? else { return None };
        let (method, said) = match &tensor.elements {
            Elements::Float(values) => ("floats", format!("&{values:?}")),
            Elements::Int(values) => ("ints", format!("&{values:?}")),
            Elements::Bool(_) => return None,
        };
        bench = bench.then(method, [Expr::text(&param.name), Expr::atom(said)]);
    }
    Some(bench)
}

/// The comparison of an output with what the reference says.
fn compared(port: usize, of: &str, is_encoded: bool, evaluated: &Evaluated) -> Option<String> {
    let wanted = reals(&evaluated.tensor);
    if wanted.iter().chain(&evaluated.allowed).any(|value| !value.is_finite()) {
        return None;
    }
    let dims = match evaluated.tensor.dims.as_slice() {
        [] => format!("        assert!(outputs[{port}].dims().is_empty());"),
        dims => format!("        assert_eq!(outputs[{port}].dims(), {dims:?});"),
    };
    let each = wanted.iter().copied().zip(evaluated.allowed.iter().copied());
    let Comparison { wanted, values } = match of {
        _ if is_encoded => within(port, of, each),
        "i64" | "Bool" => exact(port, of, &evaluated.tensor),
        _ => near(port, of, &wanted, each),
    };
    Some([wanted, dims, values].join("\n"))
}

/// The statements that compare the elements of an output.
struct Comparison {
    /// What is wanted, under a name.
    wanted: String,
    values: String,
}

/// That numbers are near to others.
fn near(
    port: usize,
    of: &str,
    wanted: &[f64],
    each: impl Iterator<Item = (f64, f64)>,
) -> Comparison {
    let worst =
        each.fold(1e-7, |worst: f64, (wanted, allowed)| worst.max(allowed / wanted.abs().max(1.0)));
    // The next power of ten: the numbers are for people.
    let tolerance = format!("1e{}", worst.log10().ceil());
    let items = wanted.iter().map(|value| Expr::atom(format!("{value:?}")));
    let binding = binding(&format!("wanted_{port}"), &Expr::Array(items.collect()), 2);
    let values = if of == "F16" {
        // Crates for the DSP have no lists that grow.
        format!(
            "        let mut found_{port} = [0.0; {}];\n        \
             for (to, half) in found_{port}.iter_mut().zip(&outputs[{port}].values::<F16>()) {{\n            \
             *to = half.to_f32();\n        \
             }}\n        \
             assert_near(&found_{port}, wanted_{port}, {tolerance});",
            wanted.len()
        )
    } else {
        format!(
            "        assert_near(&outputs[{port}].values::<{of}>(), wanted_{port}, {tolerance});"
        )
    };
    Comparison { wanted: binding, values }
}

/// That integers and truth values are those.
fn exact(port: usize, of: &str, tensor: &Tensor) -> Comparison {
    let items: Vec<String> = match &tensor.elements {
        Elements::Float(values) => values.iter().map(|value| whole(*value).to_string()).collect(),
        Elements::Int(values) => values.iter().map(i64::to_string).collect(),
        Elements::Bool(values) => values.iter().map(bool::to_string).collect(),
    };
    let items = items.into_iter().map(Expr::atom).collect();
    let binding = binding(&format!("wanted_{port}"), &Expr::Array(items), 2);
    let wanted = if of == "Bool" { ".map(Bool::from)" } else { "" };
    let values =
        format!("        assert_eq!(outputs[{port}].values::<{of}>(), wanted_{port}{wanted});");
    Comparison { wanted: binding, values }
}

/// That stored values are those nearest to the numbers, or the next to them.
fn within(port: usize, of: &str, each: impl Iterator<Item = (f64, f64)>) -> Comparison {
    let (min, max) = ends(of);
    let range = |(place, (wanted, allowed)): (usize, (f64, f64))| {
        // A hair more, as the reference counts steps in real numbers.
        let steps = |value: f64| value / SCALE;
        let low = whole((steps(wanted - allowed) - 1e-6).ceil()).saturating_add(zero_point(of));
        let high = whole((steps(wanted + allowed) + 1e-6).floor()).saturating_add(zero_point(of));
        let suffix = if place == 0 { of } else { "" };
        Expr::atom(format!("{}{suffix}..={}", low.clamp(min, max), high.clamp(min, max)))
    };
    let items: Vec<Expr> = each.enumerate().map(range).collect();
    let binding = binding(&format!("wanted_{port}"), &Expr::Array(items), 2);
    let values = format!(
        "        for (found, wanted) in outputs[{port}].values::<{of}>().iter().zip(wanted_{port}) {{\n            \
         assert!(wanted.contains(found), \"{{found}}, wanted one of {{wanted:?}}\");\n        \
         }}"
    );
    Comparison { wanted: binding, values }
}

fn extents(dims: &[usize]) -> Expr {
    Expr::atom(format!("&{dims:?}"))
}

/// The elements of an input as the core stores them.
fn stored(input: &config::Tensor, core: Core, tensor: &Tensor) -> Expr {
    let of = type_on(input, core);
    let (scale, zero) = if is_encoded(input, core) { (SCALE, zero_point(of)) } else { (1.0, 0) };
    let mut items: Vec<String> = reals(tensor)
        .into_iter()
        .map(|value| match of {
            "f32" | "F16" => format!("{value:?}"),
            "Bool" => (value != 0.0).to_string(),
            _ => (whole(value / scale) + zero).to_string(),
        })
        .collect();
    if let (Some(first), false) = (items.first_mut(), own_type(of).is_some()) {
        first.push_str(of);
    }
    let list = items.join(", ");
    Expr::atom(match of {
        "F16" => format!("&[{list}].map(F16::from_f32)"),
        "Bool" => format!("&[{list}].map(Bool::from)"),
        _ => format!("&[{list}]"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Mode, Source, read};

    #[test]
    fn an_operator_of_thousands_of_inputs_is_soon_known_to_have_no_sample() {
        let input = |at| format!("{{\"name\": \"x{at}\", \"data_type\": \"FLOAT_32\"}}");
        let inputs: Vec<String> = (0..2000).map(input).collect();
        let text = format!(
            r#"{{"p": {{"UDO_PACKAGE_NAME": "P", "Operators": [{{"type": "Wide", "core_types": ["CPU"],
                "inputs": [{}], "outputs": [{{"name": "y", "data_type": "FLOAT_32"}}],
                "reference": ["require rank(x0) == 7, \"seven axes\"", "y = x0 + x1999"]}}]}}}}"#,
            inputs.join(", ")
        );
        let of = |text: &str| {
            let source = Source { path: Path::new("c.json"), text };
            let (config, _) = read(&[source], Mode::Strict).unwrap();
            sample(&config.packages[0].ops[0], Core::Cpu)
        };
        assert!(of(&text).is_none());
        assert!(of(&text.replace("== 7", "== 2")).is_some());
    }
}
