//! Reads an operator's reference, the source that defines its results in the language of `udo-reference`: converts the
//! config's ports and parameters to a signature, and checks the source against it.

use udo_reference::{
    Class, Elements, Faults, Input, Output, Param, ParamKind, Program, Signature, Tensor, Value,
};

use crate::config::{self, DefaultValue, Family, Op, QuantizationMode, Scalar, ScalarParam};

/// Returns the program of an operator's `"reference"`; `None` if the config has no reference.
///
/// # Errors
/// The source does not fit the operator. Configs from [`crate::read()`] never fail.
pub fn program(op: &Op) -> Result<Option<Program>, Faults> {
    op.reference.as_deref().map(|source| Program::read(source, &signature(op))).transpose()
}

/// Returns the signature of the operator.
pub(crate) fn signature(op: &Op) -> Signature {
    Signature {
        inputs: op.inputs.iter().map(input).collect(),
        outputs: op
            .outputs
            .iter()
            .map(|port| Output { name: port.name.clone(), class: class(port) })
            .collect(),
        params: op
            .scalar_params
            .iter()
            .map(scalar_param)
            .chain(op.tensor_params.iter().map(tensor_param))
            .collect(),
    }
}

/// Returns the class of a tensor's elements, which is the same on all cores: float if they are floats or quantized
/// values on some core.
pub(crate) fn class(tensor: &config::Tensor) -> Class {
    let is_float_family = |family| match family {
        Family::Float(_) | Family::Fixed => true,
        Family::Integer(..) | Family::Truth | Family::Text => false,
    };
    let is_bool = |entry: &config::CoreType| entry.dtype.family() == Family::Truth;
    let has_reals = tensor.types.iter().any(|entry| is_float_family(entry.dtype.family()));
    let is_float =
        has_reals || tensor.quantization == Some(QuantizationMode::Tf) || tensor.has_real_default();
    if is_float {
        Class::Float
    } else if tensor.types.iter().all(is_bool) {
        Class::Bool
    } else {
        Class::Int
    }
}

fn input(port: &config::Tensor) -> Input {
    let class = class(port);
    let default = port.default.as_ref().filter(|_| !port.may_be_absent());
    Input {
        name: port.name.clone(),
        class,
        optional: port.may_be_absent(),
        is_static: port.is_static,
        default: default.map(|default| tensor(default, class)),
    }
}

fn scalar_param(param: &ScalarParam) -> Param {
    let kind = match param.dtype.family() {
        Family::Float(_) | Family::Fixed => ParamKind::Scalar(Class::Float),
        Family::Integer(..) => ParamKind::Scalar(Class::Int),
        Family::Truth => ParamKind::Scalar(Class::Bool),
        Family::Text => ParamKind::Text,
    };
    let default = param.default.as_ref().map(|value| match value {
        Scalar::Int(value) if kind == ParamKind::Scalar(Class::Bool) => Value::Bool(*value != 0),
        Scalar::Int(value) => Value::Int(*value),
        Scalar::Float(value) => Value::Float(*value),
        Scalar::Text(text) => Value::Text(text.clone()),
    });
    Param { name: param.name.clone(), kind, default }
}

fn tensor_param(param: &config::Tensor) -> Param {
    // Lists of bools are passed as integers.
    let class = match class(param) {
        Class::Bool => Class::Int,
        class @ (Class::Float | Class::Int) => class,
    };
    let default = param.default.as_ref().map(|default| {
        // Kernels get every parameter as a list.
        Value::Tensor(list(default.values(), class))
    });
    Param { name: param.name.clone(), kind: ParamKind::Tensor(class), default }
}

fn tensor(default: &DefaultValue, class: Class) -> Tensor {
    match default {
        DefaultValue::Scalar(value) => {
            Tensor { dims: vec![], ..list(std::slice::from_ref(value), class) }
        }
        DefaultValue::List(values) => list(values, class),
    }
}

fn list(values: &[Scalar], class: Class) -> Tensor {
    let elements = match class {
        Class::Float => Elements::Float(values.iter().map(real).collect()),
        Class::Int => Elements::Int(values.iter().map(integer).collect()),
        Class::Bool => Elements::Bool(values.iter().map(|value| integer(value) != 0).collect()),
    };
    Tensor { dims: vec![values.len()], elements }
}

#[expect(clippy::cast_precision_loss, reason = "defaults of float types fit them")]
fn real(value: &Scalar) -> f64 {
    match value {
        Scalar::Int(value) => *value as f64,
        Scalar::Float(value) => *value,
        Scalar::Text(_) => f64::NAN,
    }
}

fn integer(value: &Scalar) -> i64 {
    match value {
        Scalar::Int(value) => *value,
        // Tensors with a non-integer default are float tensors.
        Scalar::Float(_) | Scalar::Text(_) => 0,
    }
}
