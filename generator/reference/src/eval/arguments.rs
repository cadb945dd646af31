//! The arguments of an evaluation, and their check against the operator's signature.

use crate::{
    fault::EvalError,
    signature::{Class, Param, ParamKind, Signature, Tensor, Value},
};

/// The arguments of an evaluation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// The inputs, in the order of the signature.
    pub inputs: Vec<Argument>,
    /// The parameters, in the order of the signature; `None` stands for the default.
    pub params: Vec<Option<Value>>,
}

/// An input argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// The input is omitted.
    Absent,
    /// The dimensions only, which suffice for shape inference unless the shapes depend on elements.
    Dims(Vec<usize>),
    /// The dimensions and elements.
    Tensor(Tensor),
}

pub(super) fn check(signature: &Signature, arguments: &Arguments) -> Result<(), EvalError> {
    let counts = [
        ("inputs", arguments.inputs.len(), signature.inputs.len()),
        ("parameters", arguments.params.len(), signature.params.len()),
    ];
    for (noun, actual, expected) in counts {
        if actual != expected {
            return Err(EvalError::Arguments(format!(
                "found {actual} {noun}, expected {expected}"
            )));
        }
    }
    for (port, argument) in signature.inputs.iter().zip(&arguments.inputs) {
        let name = format!("the input `{}`", port.name);
        match argument {
            Argument::Absent if port.optional || port.default.is_some() => {}
            Argument::Absent => {
                return Err(EvalError::Arguments(format!("{name} is absent but not optional")));
            }
            Argument::Dims(dims) => check_rank(&name, dims)?,
            Argument::Tensor(tensor) => check_tensor(&name, tensor, port.class)?,
        }
    }
    for (param, value) in signature.params.iter().zip(&arguments.params) {
        check_param(param, value.as_ref())?;
    }
    Ok(())
}

fn check_param(param: &Param, value: Option<&Value>) -> Result<(), EvalError> {
    let name = format!("the parameter `{}`", param.name);
    let Some(value) = value.or(param.default.as_ref()) else {
        return Err(EvalError::Arguments(format!("{name} is omitted but has no default")));
    };
    let fits = match (param.kind, value) {
        (ParamKind::Tensor(class), Value::Tensor(tensor)) => {
            return check_tensor(&name, tensor, class);
        }
        (ParamKind::Scalar(Class::Float), Value::Float(_) | Value::Int(_))
        | (ParamKind::Scalar(Class::Int), Value::Int(_))
        | (ParamKind::Scalar(Class::Bool), Value::Bool(_))
        | (ParamKind::Text, Value::Text(_)) => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let expected = match param.kind {
        ParamKind::Scalar(class) => class.word(),
        ParamKind::Text => "text",
        ParamKind::Tensor(_) => "tensor",
    };
    Err(EvalError::Arguments(format!("{name} is {value:?}, expected a value of kind {expected}")))
}

fn check_rank(name: &str, dims: &[usize]) -> Result<(), EvalError> {
    if dims.len() <= super::MAX_RANK {
        return Ok(());
    }
    let (actual, expected) = (dims.len(), super::MAX_RANK);
    Err(EvalError::Arguments(format!("{name} has rank {actual}, expected at most {expected}")))
}

fn check_tensor(name: &str, tensor: &Tensor, class: Class) -> Result<(), EvalError> {
    check_rank(name, &tensor.dims)?;
    let len = tensor.dims.iter().try_fold(1_usize, |len, dim| len.checked_mul(*dim));
    if len != Some(tensor.elements.len()) {
        let (actual, dims) = (tensor.elements.len(), &tensor.dims);
        return Err(EvalError::Arguments(format!(
            "{name} has {actual} elements, expected those of {dims:?}"
        )));
    }
    let actual = tensor.elements.class();
    if actual != class {
        let (actual, expected) = (actual.word(), class.word());
        return Err(EvalError::Arguments(format!(
            "{name} has elements of type {actual}, expected {expected}"
        )));
    }
    Ok(())
}
