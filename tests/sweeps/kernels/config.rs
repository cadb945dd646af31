//! Operators of the reference language's tests as a config.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use udo_api::DType;
use udo_reference::{Class, Elements, Param, ParamKind, Value};
use udo_test_support::language::Operator;

/// Whether a config has the classes of its parameters.
pub(crate) fn can_say(operator: &Operator) -> bool {
    // Lists of bools are lists of integers there.
    let is_list = |param: &Param| param.kind == ParamKind::Tensor(Class::Bool);
    !operator.signature.params.iter().any(is_list)
}

/// Returns the operator's name in the config, which no built-in operator has.
pub(crate) fn type_name(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(word).collect::<String>() + "Ref"
}

/// The config of a package that has all of them on all cores.
pub(crate) fn text(operators: &BTreeMap<String, Operator>) -> String {
    let all: Vec<Json> = operators.iter().map(|(name, of)| operator(name, of)).collect();
    json!({"UdoPackage_0": {"UDO_PACKAGE_NAME": "SweepPackage", "Operators": all}}).to_string()
}

fn operator(name: &str, operator: &Operator) -> Json {
    let signature = &operator.signature;
    let inputs = signature.inputs.iter().map(|input| {
        let mut of = port(&input.name, input.class, integers(name));
        for (field, holds) in [("optional", input.optional), ("static", input.is_static)] {
            if holds {
                of[field] = json!(true);
            }
        }
        of
    });
    let outputs =
        signature.outputs.iter().map(|output| port(&output.name, output.class, integers(name)));
    let is_list = |param: &&Param| matches!(param.kind, ParamKind::Tensor(_));
    let scalars = signature.params.iter().filter(|param| !is_list(param)).map(param);
    let lists = signature.params.iter().filter(is_list).map(param);
    json!({
        "type": type_name(name), "core_types": ["CPU", "GPU", "DSP"], "dsp_arch_types": ["v68"],
        "inputs": inputs.collect::<Vec<_>>(), "outputs": outputs.collect::<Vec<_>>(),
        "scalar_params": scalars.collect::<Vec<_>>(), "tensor_params": lists.collect::<Vec<_>>(),
        "reference": operator.source,
    })
}

/// The integers of an operator: both widths take part.
pub(crate) fn integers(name: &str) -> DType {
    if name.len().is_multiple_of(2) { DType::I64 } else { DType::I32 }
}

fn port(name: &str, class: Class, integers: DType) -> Json {
    let integers = if integers == DType::I64 { "INT_64" } else { "INT_32" };
    match class {
        Class::Int => return json!({"name": name, "data_type": integers}),
        Class::Bool => return json!({"name": name, "data_type": "BOOL_8"}),
        Class::Float => {}
    }
    let types = json!({"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"});
    json!({"name": name, "quantization_mode": "TF", "per_core_data_types": types})
}

fn param(param: &Param) -> Json {
    let of = match param.kind {
        ParamKind::Text => "STRING",
        ParamKind::Scalar(Class::Float) | ParamKind::Tensor(Class::Float) => "FLOAT_32",
        ParamKind::Scalar(Class::Bool) => "BOOL_8",
        ParamKind::Scalar(_) | ParamKind::Tensor(_) => "INT_32",
    };
    let mut said = json!({"name": param.name, "data_type": of});
    if let Some(default) = &param.default {
        said["default_value"] = match default {
            Value::Float(value) => json!(value),
            Value::Int(value) => json!(value),
            Value::Bool(value) => json!(value),
            Value::Text(text) => json!(text),
            Value::Tensor(tensor) => match &tensor.elements {
                Elements::Float(values) => json!(values),
                Elements::Int(values) => json!(values),
                Elements::Bool(values) => json!(values),
            },
        };
    }
    said
}
