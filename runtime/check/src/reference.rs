//! Evaluates an operator's reference on nodes.

use udo_api::{DType, TensorDesc};
use udo_host::ParamSetting;
use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, EvalError, Evaluated, Extent, ParamKind,
    Program, Settings, Storage, Tensor, Value,
};

use crate::expected::Expected;
use crate::node::{Input, Node};
use crate::values::{integers, numbers};

/// The step limit of an evaluation: enough for thousands of elements of most operators. Larger nodes have no expected
/// results.
const STEPS: u64 = 1 << 22;

/// Computes the dimensions of the node's outputs.
///
/// # Errors
/// The reference refuses the node.
pub(crate) fn infer(
    program: &Program,
    node: &Node,
    values: &[Vec<u8>],
) -> Result<Vec<Vec<Extent>>, EvalError> {
    program.infer(&arguments(program, node, values))
}

/// Computes the expected results of the node on `values`, with tolerances; `None` if the reference does not cover it.
pub(crate) fn expected(
    program: &Program,
    node: &Node,
    values: &[Vec<u8>],
) -> Option<Vec<Expected>> {
    let made = evaluated(program, node, values)?.ok()?;
    let classes = program.signature().outputs.iter().map(|port| port.class);
    // A node may leave out the last outputs.
    Some(made.into_iter().zip(classes).take(node.outputs.len()).map(as_expected).collect())
}

/// Whether the evaluation exceeds the step limit, so that a correct kernel takes long too: a parameter may be a number
/// of iterations.
pub(crate) fn is_long(program: &Program, node: &Node, values: &[Vec<u8>]) -> bool {
    matches!(evaluated(program, node, values), Some(Err(EvalError::Work { .. })))
}

/// Whether the reference refuses these elements, for example for an out-of-range index. A kernel may then refuse them
/// too.
pub(crate) fn refuses(program: &Program, node: &Node, values: &[Vec<u8>]) -> bool {
    matches!(evaluated(program, node, values), Some(Err(EvalError::Program(_))))
}

/// Evaluates the node; `None` if an output has a type that the language does not support.
fn evaluated(
    program: &Program,
    node: &Node,
    values: &[Vec<u8>],
) -> Option<Result<Vec<Evaluated>, EvalError>> {
    let storage = program.signature().outputs.iter().enumerate().map(|(port, declared)| {
        let desc = node.outputs.get(port).copied().unwrap_or(TensorDesc::ABSENT);
        storage(&desc, declared.class)
    });
    let storage: Option<Vec<Storage>> = storage.collect();
    let settings = Settings { limit: STEPS, ..Settings::new(Arithmetic::F32, storage?) };
    Some(program.evaluate(&arguments(program, node, values), &settings))
}

#[expect(clippy::cast_precision_loss, reason = "the comparison needs fewer digits")]
fn as_expected((made, class): (Evaluated, Class)) -> Expected {
    let mut integers = None;
    let numbers = match made.tensor.elements {
        Elements::Float(values) => values,
        Elements::Int(values) if values.iter().any(|value| value.unsigned_abs() >> 53 > 0) => {
            let numbers = values.iter().map(|value| *value as f64).collect();
            integers = Some(values);
            numbers
        }
        Elements::Int(values) => values.into_iter().map(|value| value as f64).collect(),
        Elements::Bool(values) => {
            values.into_iter().map(|value| f64::from(u8::from(value))).collect()
        }
    };
    let any = |allowed: f64| made.extents_unsure || class == Class::Bool && allowed != 0.0;
    let allowed = made.allowed.into_iter().map(|own| if any(own) { f64::INFINITY } else { own });
    let dims = (!made.extents_unsure).then_some(made.tensor.dims);
    Expected { dims, numbers, allowed: Some(allowed.collect()), integers }
}

/// Returns the storage of an output; `None` for types that the language does not support.
fn storage(desc: &TensorDesc, class: Class) -> Option<Storage> {
    let int = |bits, signed| Some(Storage::Int { bits, signed });
    let Some(dtype) = desc.dtype() else {
        return Some(match class {
            Class::Float => Storage::F64,
            Class::Int => Storage::Int { bits: 64, signed: true },
            Class::Bool => Storage::Bool,
        });
    };
    if let (Some(encoding), Class::Float) = (desc.encoding(), class) {
        let (min, max) = crate::values::range_of(dtype)?;
        let (scale, zero_point) = (f64::from(encoding.scale), i64::from(encoding.zero_point));
        return Some(Storage::Quantized { scale, zero_point, min, max });
    }
    match dtype {
        DType::F16 => Some(Storage::F16),
        DType::F32 => Some(Storage::F32),
        DType::F64 => Some(Storage::F64),
        DType::Bool => Some(Storage::Bool),
        DType::U8 => int(8, false),
        DType::U16 => int(16, false),
        DType::U32 => int(32, false),
        DType::I8 => int(8, true),
        DType::I16 => int(16, true),
        DType::I32 => int(32, true),
        DType::I64 => int(64, true),
        DType::Bf16 | DType::U64 | DType::Str => None,
    }
}

fn arguments(program: &Program, node: &Node, values: &[Vec<u8>]) -> Arguments {
    let signature = program.signature();
    let inputs = signature.inputs.iter().enumerate();
    let inputs = inputs.map(|(port, declared)| {
        match (node.inputs.get(port).filter(|input| !input.desc.is_absent()), values.get(port)) {
            (Some(input), Some(bytes)) => Argument::Tensor(tensor(input, bytes, declared.class)),
            (Some(input), None) => Argument::Dims(input.dims.clone()),
            (None, _) => Argument::Absent,
        }
    });
    let params = signature.params.iter().map(|param| {
        let given = node.params.iter().find(|(name, _)| *name == param.name);
        given.and_then(|(_, setting)| value(setting, param.kind))
    });
    Arguments { inputs: inputs.collect(), params: params.collect() }
}

/// Converts a tensor to the values that kernels read: quantized elements become single-precision values.
fn tensor(input: &Input, bytes: &[u8], class: Class) -> Tensor {
    let plain = TensorDesc::new(input.desc.dtype().unwrap_or(DType::U8), input.desc.full_shape());
    let elements = match class {
        Class::Float => Elements::Float(match input.desc.encoding() {
            Some(_) => numbers(&input.desc, bytes).into_iter().map(single).collect(),
            None => numbers(&plain, bytes),
        }),
        Class::Int => Elements::Int(integers(&plain, bytes)),
        Class::Bool => {
            Elements::Bool(integers(&plain, bytes).into_iter().map(|i| i != 0).collect())
        }
    };
    Tensor { dims: input.dims.clone(), elements }
}

#[expect(clippy::cast_possible_truncation, reason = "kernels read single precision")]
fn single(number: f64) -> f64 {
    f64::from(number as f32)
}

/// Converts a parameter's value; `None` stands for its default.
#[expect(clippy::cast_precision_loss, reason = "as the kernel gets it")]
fn value(setting: &ParamSetting, kind: ParamKind) -> Option<Value> {
    let list =
        |elements: Elements| Some(Value::Tensor(Tensor { dims: vec![elements.len()], elements }));
    match (setting, kind) {
        (ParamSetting::Int(value), ParamKind::Scalar(Class::Bool)) => {
            Some(Value::Bool(*value != 0))
        }
        (ParamSetting::Int(value), _) => Some(Value::Int(*value)),
        (ParamSetting::Float(value), _) => Some(Value::Float(*value)),
        (ParamSetting::Text(text), _) => Some(Value::Text(text.clone())),
        (ParamSetting::Ints(values), ParamKind::Tensor(Class::Float)) => {
            list(Elements::Float(values.iter().map(|value| *value as f64).collect()))
        }
        (ParamSetting::Ints(values), _) => list(Elements::Int(values.clone())),
        (ParamSetting::Floats(values), _) => list(Elements::Float(values.clone())),
        (ParamSetting::Absent | ParamSetting::Tensor(_) | ParamSetting::Texts(_), _) => None,
    }
}
