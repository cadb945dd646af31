//! The test of a printed kernel: a small node, and what the reference says of it.

use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, Evaluated, Extent, ParamKind, Program,
    Settings, Signature, Storage, Tensor, Value,
};

use super::{
    SampleView,
    test::{self, is_encoded, type_on},
};
use crate::{
    code::{Expr, binding, import},
    config::{self, Core, Op},
    reference,
};

/// What inputs may look like; the first combination that the operator takes is the sample.
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

/// What the inputs of operators whose second input says where to look, or a number of each row, may look like.
const TIED: &[[&[usize]; 2]] = &[
    [&[2, 4], &[2]],
    [&[4, 4], &[4]],
    [&[1, 2, 2, 1], &[1, 1, 2, 2]],
    [&[1, 1, 2, 2], &[1, 1, 2, 2]],
];

/// The most combinations that are tried.
const TRIES: usize = 1000;

/// Steps that an evaluation may take, which small tensors stay far below.
const STEPS: u64 = 1 << 20;

/// The real numbers of samples, each exact in half precision.
const REALS: &[f64] = &[1.5, -0.5, 0.25, 2.0, -1.25, 0.75, 3.0, -2.5];

/// Indices and truth values, which most tensors have; then other integers.
const INTEGERS: &[&[i64]] = &[&[1, 0, 1, 1, 0], &[3, 1, 2, 5, 4], &[0]];

/// Real numbers that are steps of [`SCALE`], none below 0.
const STEPS_OF_SCALE: &[f64] = &[1.5, 0.5, 2.0, 0.0, 3.0];

/// Lists that are given as parameters without a default: axes, extents, widths of paddings.
const LISTS: &[&[f64]] = &[&[0.0], &[1.0, 1.0], &[2.0, 2.0], &[0.0, 0.0, 1.0, 1.0]];

/// The encoding that tests give fixed-point tensors.
const SCALE: f64 = 0.5;

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
        if of == "F16" {
            types.push("F16");
        }
        if shape.iter().any(|extent| matches!(extent, Extent::UpTo(_))) {
            types.extend(["DType", "Dim", "Shape"]);
            let dims: Vec<String> = shape.iter().map(|extent| format!("Dim::{extent:?}")).collect();
            let dims = format!("Shape::of_dims(&[{}]).unwrap()", dims.join(", "));
            let dtype = format!("DType::{}", of.to_ascii_uppercase());
            bench = bench.then("output", [Expr::atom(dtype), Expr::atom(dims)]);
        } else {
            let dims: Vec<usize> = shape.iter().map(|extent| extent.bound()).collect();
            bench = bench.then(test::output_of(of), [extents(&dims)]);
        }
        if is_encoded(output, core) {
            let encoding = [port.to_string(), "0.5".to_owned(), "0".to_owned()];
            bench = bench.then("output_encoding", encoding.map(Expr::atom));
        }
    }
    lines.push(binding("outputs", &bench.then("all", []), 2));
    for (port, (output, evaluated)) in op.outputs.iter().zip(&outputs).enumerate() {
        lines.push(compared(port, type_on(output, core), is_encoded(output, core), evaluated)?);
    }
    let types = if types.is_empty() { String::new() } else { import("udo_api", &types) };
    Some(SampleView { types, body: lines.join("\n") })
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
    Some(SampleView { types: import("udo_api", &types), body: lines.join("\n") })
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
            given = given.then("encoded", ["0.5", "0"].map(Expr::atom));
        }
        if type_on(input, core) == "F16" {
            types.push("F16");
        }
        bench = bench.then(method, [given]);
    }
    for (param, value) in op.scalar_params.iter().zip(&arguments.params) {
        let (method, said) = match value.as_ref()? {
            Value::Float(value) => ("float", format!("{value:?}")),
            Value::Int(value) => ("int", value.to_string()),
            Value::Text(value) => ("text", format!("{value:?}")),
            Value::Bool(_) | Value::Tensor(_) => return None,
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
    let scale = if is_encoded { SCALE } else { 1.0 };
    let wanted: Vec<f64> = reals(&evaluated.tensor).iter().map(|value| value / scale).collect();
    let allowed = evaluated.allowed.iter().zip(&wanted);
    let worst = allowed.fold(1e-7, |worst: f64, (allowed, wanted)| {
        worst.max(allowed / scale / wanted.abs().max(1.0))
    });
    if !worst.is_finite() || wanted.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // The next power of ten: the numbers are for people.
    let tolerance = format!("1e{}", worst.log10().ceil());
    let items = wanted.iter().map(|value| Expr::atom(format!("{value:?}")));
    let wanted = binding(&format!("wanted_{port}"), &Expr::Array(items.collect()), 2);
    let dims = format!("        assert_eq!(outputs[{port}].dims(), {:?});", evaluated.tensor.dims);
    let dims = if evaluated.tensor.dims.is_empty() {
        format!("        assert!(outputs[{port}].dims().is_empty());")
    } else {
        dims
    };
    let values = if of == "F16" {
        format!(
            "        let values_{port} = outputs[{port}].values::<F16>();\n        \
             let found: Vec<f32> = values_{port}.iter().map(|v| v.to_f32()).collect();\n        \
             assert_near(&found, wanted_{port}, {tolerance});"
        )
    } else {
        format!(
            "        assert_near(&outputs[{port}].values::<{of}>(), wanted_{port}, {tolerance});"
        )
    };
    Some([wanted, dims, values].join("\n"))
}

/// The first small node that the operator takes, and its outputs.
fn found(
    op: &Op,
    core: Core,
    program: &Program,
    signature: &Signature,
) -> Option<(Arguments, Vec<Evaluated>)> {
    let storage =
        op.outputs.iter().map(|output| storage(type_on(output, core), is_encoded(output, core)));
    let mut settings = Settings::new(Arithmetic::F32, storage.collect());
    settings.limit = STEPS;
    let mixtures =
        INTEGERS.iter().flat_map(|integers| LISTS.iter().map(move |list| (integers, list)));
    for (integers, list) in mixtures {
        let params = params(signature, integers, list);
        for shapes in combinations(op.inputs.len()) {
            let ports = op.inputs.iter().zip(&signature.inputs).zip(shapes);
            let inputs = ports.map(|((input, port), dims)| {
                let numbers = numbers(input, core, integers);
                Argument::Tensor(values(dims, port.class, &numbers))
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

/// Shapes for so many inputs: the same for all, then every mixture as far as there is time for it, then those for two.
fn combinations(count: usize) -> impl Iterator<Item = Vec<&'static [usize]>> {
    let same = SHAPES.iter().map(move |dims| vec![*dims; count]);
    let mixed = (0..TRIES).map(move |number| {
        let mut rest = number;
        let next = (0..count).map(|_| {
            let place = rest % SHAPES.len();
            rest /= SHAPES.len();
            SHAPES.get(place).copied().unwrap_or_default()
        });
        next.collect()
    });
    let tied = TIED.iter().filter(move |_| count == 2).map(|pair| pair.to_vec());
    same.chain(mixed).chain(tied)
}

/// Numbers that the input's storage on the core holds.
#[expect(clippy::cast_precision_loss, reason = "they are small")]
fn numbers(input: &config::Tensor, core: Core, integers: &[i64]) -> Vec<f64> {
    match (reference::class(input), type_on(input, core)) {
        (Class::Float, "f32" | "F16") => REALS.to_vec(),
        (Class::Float, _) if is_encoded(input, core) => STEPS_OF_SCALE.to_vec(),
        _ => integers.iter().map(|value| *value as f64).collect(),
    }
}

/// The parameters: their defaults, else something small.
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
        Class::Int | Class::Bool => Elements::Int(numbers.map(whole).collect()),
    };
    Tensor { dims: dims.to_vec(), elements }
}

/// A small whole number as an integer.
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

/// What the core stores an output as.
fn storage(of: &str, is_encoded: bool) -> Storage {
    let (bits, signed) = match of {
        "f32" => return Storage::F32,
        "F16" => return Storage::F16,
        "u8" => (8, false),
        "u16" => (16, false),
        "u32" => (32, false),
        "i8" => (8, true),
        "i16" => (16, true),
        _ => (32, true),
    };
    if !is_encoded {
        return Storage::Int { bits, signed };
    }
    let span = 1_i64 << bits;
    let min = if signed { -span / 2 } else { 0 };
    Storage::Quantized { scale: SCALE, zero_point: 0, min, max: min + span - 1 }
}

fn extents(dims: &[usize]) -> Expr {
    Expr::atom(format!("&{dims:?}"))
}

/// The elements of an input as the core stores them.
fn stored(input: &config::Tensor, core: Core, tensor: &Tensor) -> Expr {
    let of = type_on(input, core);
    let scale = if is_encoded(input, core) { SCALE } else { 1.0 };
    let mut items: Vec<String> = reals(tensor)
        .into_iter()
        .map(|value| match of {
            "f32" | "F16" => format!("{value:?}"),
            _ => whole(value / scale).to_string(),
        })
        .collect();
    if let (Some(first), false) = (items.first_mut(), of == "F16") {
        first.push_str(of);
    }
    let list = items.join(", ");
    Expr::atom(if of == "F16" {
        format!("&[{list}].map(F16::from_f32)")
    } else {
        format!("&[{list}]")
    })
}
