//! The node of a test: the first small one that the operator takes.

use std::{cell::LazyCell, iter};

use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, Evaluated, ParamKind, Program, Settings,
    Signature, Storage, Tensor, Value,
};

use crate::{
    Pattern,
    config::{self, Core, Op},
    reference,
    view::types::{is_encoded, type_on},
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

/// The most inputs of which all combinations are tried; of more there are fewer by the square, and none of patterns.
const FEW: usize = 32;

/// Steps that an evaluation may take, which small tensors stay far below.
const STEPS: u64 = 1 << 20;

/// The real numbers of samples, each exact in half precision; then some above 0 alone.
const REALS: &[&[f64]] = &[
    &[1.5, -0.5, 0.25, 2.0, -1.25, 0.75, 3.0, -2.5],
    &[1.5, 0.5, 0.25, 2.0, 1.25, 0.75, 3.0, 2.5],
];

/// Indices and truth values, which most tensors have; then other integers.
const INTEGERS: &[&[i64]] = &[&[1, 0, 1, 1, 0], &[3, 1, 2, 5, 4], &[0]];

/// The same where numbers are steps of [`SCALE`], none too far below 0 for an unsigned type.
const STEPS_OF_SCALE: &[&[f64]] = &[&[1.5, -0.5, 2.0, 0.0, 3.0, -2.5], &[1.5, 0.5, 2.0, 1.0, 3.0]];

/// Lists that are given as parameters without a default: axes, extents, widths of paddings.
const LISTS: &[&[f64]] = &[&[0.0], &[1.0, 1.0], &[2.0, 2.0], &[0.0, 0.0, 1.0, 1.0]];

/// The encoding that tests give fixed-point tensors.
pub(super) const SCALE: f64 = 0.5;

/// What stands for 0: something with room on both sides.
pub(super) fn zero_point(of: &str) -> i64 {
    if of.starts_with('u') { 10 } else { 0 }
}

/// The first small node that the operator takes, and its outputs.
pub(super) fn found(
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

/// Shapes for so many inputs: the same for all, then every mixture as far as there is time for it, then those for two.
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

/// Shapes that have some extents in common.
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

/// Numbers that the input's storage on the core holds.
#[expect(clippy::cast_precision_loss, reason = "they are small")]
fn numbers(input: &config::Tensor, core: Core, number: usize, integers: &[i64]) -> Vec<f64> {
    let of = |all: &[&[f64]]| all.get(number).copied().unwrap_or_default().to_vec();
    match (reference::class(input), type_on(input, core)) {
        (Class::Float, "f32" | "F16") => of(REALS),
        (Class::Float, _) if is_encoded(input, core) => of(STEPS_OF_SCALE),
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
        Class::Int => Elements::Int(numbers.map(whole).collect()),
        Class::Bool => Elements::Bool(numbers.map(|number| number != 0.0).collect()),
    };
    Tensor { dims: dims.to_vec(), elements }
}

/// A small whole number as an integer.
#[expect(clippy::cast_possible_truncation, reason = "it is small and whole")]
pub(super) fn whole(value: f64) -> i64 {
    value as i64
}

#[expect(clippy::cast_precision_loss, reason = "samples are small")]
pub(super) fn reals(tensor: &Tensor) -> Vec<f64> {
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

/// The ends of a type of integers.
pub(super) fn ends(of: &str) -> (i64, i64) {
    match of {
        "u8" => (0, 0xff),
        "u16" => (0, 0xffff),
        "u32" => (0, 0xffff_ffff),
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        _ => (i32::MIN.into(), i32::MAX.into()),
    }
}
