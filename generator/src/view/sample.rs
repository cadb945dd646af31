//! The test of a printed kernel: the first small node that the operator accepts, with its results by the reference.

use std::{cell::LazyCell, iter};

use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, Evaluated, Extent, ParamKind, Program,
    Settings, Signature, Storage, Tensor, Value,
};

use super::{
    SampleView, test,
    types::{is_encoded, own_type, type_on},
};
use crate::{
    Pattern,
    code::{Expr, binding, import},
    config::{self, Core, Op},
    reference,
};

/// Prints a test of the printed kernel, if the reference accepts a small node.
pub(super) fn sample(op: &Op, core: Core) -> Option<SampleView> {
    let program = reference::program(op).ok().flatten()?;
    let signature = reference::signature(op);
    let (arguments, outputs) = find_node(op, core, &program, &signature)?;
    let shapes = program.infer(&arguments).ok()?;
    let mut types = Vec::new();
    let kernel = Expr::call("Bench::kernel", [Expr::atom("KERNEL")]);
    let mut bench = print_bench(op, core, &arguments, kernel, &mut types)?;
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
        lines.push(print_comparison(
            port,
            type_on(output, core),
            is_encoded(output, core),
            evaluated,
        )?);
    }
    let types = if types.is_empty() { String::new() } else { import("udo_api", &types) };
    let body = lines.join("\n");
    let mut helpers = vec!["Bench", "tensor"];
    if body.contains("assert_near(") {
        helpers.push("assert_near");
    }
    Some(SampleView { types, helpers: import("udo_testing", &helpers), body })
}

/// Prints a test of shape inference, if the reference accepts a small node.
pub(super) fn shapes(op: &Op) -> Option<SampleView> {
    let core = *op.cores.first()?;
    // Shapes must not depend on quantized values, whose encoding shape inference does not see.
    if op.inputs.iter().any(|input| input.is_static && is_encoded(input, core)) {
        return None;
    }
    let program = reference::program(op).ok().flatten()?;
    let (arguments, _) = find_node(op, core, &program, &reference::signature(op))?;
    let shapes = program.infer(&arguments).ok()?;
    let mut types = vec!["Dim"];
    let node = Expr::call("Bench::op", ["OP", "&[]"].map(Expr::atom));
    let mut bench = print_bench(op, core, &arguments, node, &mut types)?;
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

/// Prints the bench with inputs and parameters.
fn print_bench(
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

/// Prints the comparison of an output with the reference's results.
fn print_comparison(
    port: usize,
    of: &str,
    is_encoded: bool,
    evaluated: &Evaluated,
) -> Option<String> {
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
        _ if is_encoded => compare_within(port, of, each),
        "i64" | "Bool" => compare_exact(port, of, &evaluated.tensor),
        _ => compare_near(port, of, &wanted, each),
    };
    Some([wanted, dims, values].join("\n"))
}

/// The statements that compare the elements of an output.
struct Comparison {
    /// The expected values, under a name.
    wanted: String,
    values: String,
}

/// Compares floats with a tolerance.
fn compare_near(
    port: usize,
    of: &str,
    wanted: &[f64],
    each: impl Iterator<Item = (f64, f64)>,
) -> Comparison {
    let worst =
        each.fold(1e-7, |worst: f64, (wanted, allowed)| worst.max(allowed / wanted.abs().max(1.0)));
    // The next power of ten, for readability.
    let tolerance = format!("1e{}", worst.log10().ceil());
    let items = wanted.iter().map(|value| Expr::atom(format!("{value:?}")));
    let binding = binding(&format!("wanted_{port}"), &Expr::Array(items.collect()), 2);
    let values = if of == "F16" {
        // Crates for the DSP have no growable lists.
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

/// Compares integers and bools exactly.
fn compare_exact(port: usize, of: &str, tensor: &Tensor) -> Comparison {
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

/// Accepts the nearest quantized values and their neighbours.
fn compare_within(port: usize, of: &str, each: impl Iterator<Item = (f64, f64)>) -> Comparison {
    let (min, max) = ends(of);
    let range = |(place, (wanted, allowed)): (usize, (f64, f64))| {
        // A small margin, as the reference counts steps in real numbers.
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
         assert!(wanted.contains(found), \"{{found}}, not one of {{wanted:?}}\");\n        \
         }}"
    );
    Comparison { wanted: binding, values }
}

fn extents(dims: &[usize]) -> Expr {
    Expr::atom(format!("&{dims:?}"))
}

/// Prints the elements of an input as the core stores them.
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

/// Candidate input shapes; the first combination that the operator accepts is the sample.
const SHAPES: &[&[usize]] = &[
    &[4],
    &[2, 2],
    &[2, 3],
    &[1, 2, 3, 3],
    &[2, 2, 2],
    &[1],
    &[],
    &[2, 2, 1, 1],
    &[1, 1],
    &[2, 4],
];

/// Candidate shapes for operators whose second input holds indices, or one number per row.
const TIED: &[[&[usize]; 2]] = &[
    [&[2, 4], &[2]],
    [&[4, 4], &[4]],
    [&[1, 2, 2, 1], &[1, 1, 2, 2]],
    [&[1, 1, 2, 2], &[1, 1, 2, 2]],
];

/// The maximum number of combinations.
const TRIES: usize = 1000;

/// The maximum number of inputs with all combinations; beyond it there are quadratically fewer, and no patterns.
const FEW: usize = 32;

/// The step limit of an evaluation, which small tensors stay far below.
const STEPS: u64 = 1 << 20;

/// The floats of samples, each exact in f16; the second list is positive.
const REALS: &[&[f64]] = &[
    &[1.5, -0.5, 0.25, 2.0, -1.25, 0.75, 3.0, -2.5],
    &[1.5, 0.5, 0.25, 2.0, 1.25, 0.75, 3.0, 2.5],
];

/// Indices and bools, which suit most integer tensors; then other integers.
const INTEGERS: &[&[i64]] = &[&[1, 0, 1, 1, 0], &[3, 1, 2, 5, 4], &[0]];

/// Floats in steps of [`SCALE`], slightly below 0 at most, for unsigned types.
const STEPS_OF_SCALE: &[&[f64]] = &[&[1.5, -0.5, 2.0, 0.0, 3.0, -2.5], &[1.5, 0.5, 2.0, 1.0, 3.0]];

/// Values of list parameters without a default: axes, dimensions, paddings.
const LISTS: &[&[f64]] = &[&[0.0], &[1.0, 1.0], &[2.0, 2.0], &[0.0, 0.0, 1.0, 1.0]];

/// The encoding of fixed-point tensors in tests.
const SCALE: f64 = 0.5;

/// Returns a zero point with values on both sides.
fn zero_point(of: &str) -> i64 {
    if of.starts_with('u') { 10 } else { 0 }
}

/// Returns the first small node that the operator accepts, and its outputs.
fn find_node(
    op: &Op,
    core: Core,
    program: &Program,
    signature: &Signature,
) -> Option<(Arguments, Vec<Evaluated>)> {
    let storage =
        op.outputs.iter().map(|output| storage(type_on(output, core), is_encoded(output, core)));
    let mut settings = Settings::new(Arithmetic::F32, storage.collect());
    settings.limit = STEPS;
    let mixtures = (0..REALS.len()).flat_map(|reals| {
        let of =
            INTEGERS.iter().flat_map(|integers| LISTS.iter().map(move |list| (integers, list)));
        of.map(move |(integers, list)| (reals, integers, list))
    });
    let count = op.inputs.len();
    let patterns = LazyCell::new(|| patterns(count));
    for (number, integers, list) in mixtures {
        let params = params(signature, integers, list);
        let drawn = iter::once_with(|| patterns.iter().cloned()).flatten();
        for shapes in combinations(count).chain(drawn) {
            let ports = op.inputs.iter().zip(&signature.inputs).zip(shapes);
            let inputs = ports.map(|((input, port), dims)| {
                let numbers = numbers(input, core, number, integers);
                Argument::Tensor(values(&dims, port.class, &numbers))
            });
            let arguments = Arguments { inputs: inputs.collect(), params: params.clone() };
            let Ok(outputs) = program.evaluate(&arguments, &settings) else { continue };
            let is_plain = |output: &Evaluated| {
                !output.extents_unsure
                    && output.allowed.iter().all(|allowed| allowed.is_finite())
                    && reals(&output.tensor).iter().all(|value| value.is_finite())
            };
            let has_elements = outputs.iter().any(|output| !output.allowed.is_empty());
            if outputs.iter().all(is_plain) && has_elements {
                return Some((arguments, outputs));
            }
        }
    }
    None
}

/// Iterates over shapes for this number of inputs: equal ones, then mixtures up to a limit, then those for two inputs.
fn combinations(count: usize) -> impl Iterator<Item = Vec<Vec<usize>>> {
    let same = SHAPES.iter().map(move |dims| vec![*dims; count]);
    let mixed = (0..TRIES * FEW * FEW / count.max(FEW).pow(2)).map(move |number| {
        let mut rest = number;
        let next = (0..count).map(|_| {
            let place = rest % SHAPES.len();
            rest /= SHAPES.len();
            SHAPES.get(place).copied().unwrap_or_default()
        });
        next.collect()
    });
    let tied = TIED.iter().filter(move |_| count == 2).map(|pair| pair.to_vec());
    same.chain(mixed).chain(tied).map(|all| all.iter().map(|of| of.to_vec()).collect())
}

/// Returns shapes that share dimensions.
fn patterns(count: usize) -> Vec<Vec<Vec<usize>>> {
    if count > FEW {
        return Vec::new();
    }
    let mut state = 1_u64;
    let mut below = move |end: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(state >> 40).unwrap_or(0).checked_rem(end).unwrap_or(0)
    };
    let drawn = (0..2 * TRIES).map(|_| {
        let pattern = Pattern::drawn(count, &mut below);
        (0..count).map(|port| pattern.dims(port, [2, 4, 3])).collect()
    });
    drawn.collect()
}

/// Returns numbers that the input's storage on the core can represent.
#[expect(clippy::cast_precision_loss, reason = "they are small")]
fn numbers(input: &config::Tensor, core: Core, number: usize, integers: &[i64]) -> Vec<f64> {
    let of = |all: &[&[f64]]| all.get(number).copied().unwrap_or_default().to_vec();
    match (reference::class(input), type_on(input, core)) {
        (Class::Float, "f32" | "F16") => of(REALS),
        (Class::Float, _) if is_encoded(input, core) => of(STEPS_OF_SCALE),
        _ => integers.iter().map(|value| *value as f64).collect(),
    }
}

/// Returns the parameters: their defaults, else small values.
fn params(signature: &Signature, integers: &[i64], list: &[f64]) -> Vec<Option<Value>> {
    let first = integers.first().copied().unwrap_or(1);
    let value = |kind| match kind {
        ParamKind::Scalar(Class::Float) => Value::Float(0.5),
        ParamKind::Scalar(Class::Int) => Value::Int(first),
        ParamKind::Scalar(Class::Bool) => Value::Bool(true),
        ParamKind::Text => Value::Text(String::new()),
        ParamKind::Tensor(class) => Value::Tensor(values(&[list.len()], class, list)),
    };
    signature
        .params
        .iter()
        .map(|param| Some(param.default.clone().unwrap_or_else(|| value(param.kind))))
        .collect()
}

fn values(dims: &[usize], class: Class, numbers: &[f64]) -> Tensor {
    let numbers = numbers.iter().copied().cycle().take(dims.iter().product());
    let elements = match class {
        Class::Float => Elements::Float(numbers.collect()),
        Class::Int => Elements::Int(numbers.map(whole).collect()),
        Class::Bool => Elements::Bool(numbers.map(|number| number != 0.0).collect()),
    };
    Tensor { dims: dims.to_vec(), elements }
}

/// Converts a small whole number to an integer.
#[expect(clippy::cast_possible_truncation, reason = "it is small and whole")]
fn whole(value: f64) -> i64 {
    value as i64
}

#[expect(clippy::cast_precision_loss, reason = "samples are small")]
fn reals(tensor: &Tensor) -> Vec<f64> {
    match &tensor.elements {
        Elements::Float(values) => values.clone(),
        Elements::Int(values) => values.iter().map(|value| *value as f64).collect(),
        Elements::Bool(values) => values.iter().map(|value| f64::from(u8::from(*value))).collect(),
    }
}

/// Returns the core's storage of an output.
fn storage(of: &str, is_encoded: bool) -> Storage {
    let (bits, signed) = match of {
        "f32" => return Storage::F32,
        "F16" => return Storage::F16,
        "u8" => (8, false),
        "u16" => (16, false),
        "u32" => (32, false),
        "i8" => (8, true),
        "i16" => (16, true),
        "i64" => (64, true),
        "Bool" => return Storage::Bool,
        _ => (32, true),
    };
    if !is_encoded {
        return Storage::Int { bits, signed };
    }
    let (min, max) = ends(of);
    Storage::Quantized { scale: SCALE, zero_point: zero_point(of), min, max }
}

/// Returns the limits of an integer type.
fn ends(of: &str) -> (i64, i64) {
    match of {
        "u8" => (0, 0xff),
        "u16" => (0, 0xffff),
        "u32" => (0, 0xffff_ffff),
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        _ => (i32::MIN.into(), i32::MAX.into()),
    }
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
