//! Suggests next steps for a node that does not match the schema of a package's operator: what to declare in the
//! package's config, or what to change in the model. Errors print them after `help:`.

use udo_api::{DType, OpSchema};

use super::TypedGraph;
use super::rule::port_takes;
use udo_graph::graph::{Attr, Node};

/// Returns the next step for a node of an operator with this schema, where one is known.
pub(super) fn advice(graph: &TypedGraph, node: &Node, schema: &OpSchema) -> Option<String> {
    undeclared(node, schema).or_else(|| of_another_type(graph, node, schema))
}

/// Returns the line that declares an attribute which the schema lacks.
fn undeclared(node: &Node, schema: &OpSchema) -> Option<String> {
    let is_known = |name: &str| schema.params().iter().any(|param| param.attribute_name() == name);
    let (name, attr) = node.attrs.iter().find(|(name, _)| !is_known(name))?;
    let (list, dtype) = match attr {
        Attr::Int(int) if i32::try_from(*int).is_ok() => ("scalar_params", "INT_32"),
        Attr::Int(_) => ("scalar_params", "INT_64"),
        Attr::Float(_) => ("scalar_params", "FLOAT_32"),
        Attr::Text(_) => ("scalar_params", "STRING"),
        Attr::Ints(_) => ("tensor_params", "INT_32"),
        Attr::Floats(_) => ("tensor_params", "FLOAT_32"),
        Attr::Tensor(tensor) => ("tensor_params", in_config(tensor.dtype())?),
        Attr::Texts(_) | Attr::Graph(_) | Attr::Graphs(_) => return None,
    };
    let line = if is_identifier(name) {
        format!("{{\"name\": {name:?}, \"data_type\": {dtype:?}}}")
    } else {
        let param = identifier(name);
        format!("{{\"name\": {param:?}, \"attribute\": {name:?}, \"data_type\": {dtype:?}}}")
    };
    Some(format!(
        "declare it in {list} of {} in the package's config: {line}; then `udo new` and `udo build`",
        schema.name()
    ))
}

/// Suggests a cast, or another declared type, for an input of a type that the operator does not accept.
fn of_another_type(graph: &TypedGraph, node: &Node, schema: &OpSchema) -> Option<String> {
    let inputs = node.inputs.iter().enumerate();
    let mut mismatches = inputs.filter_map(|(index, &value)| {
        let (port, desc) = (schema.input(index)?, graph.desc(value));
        (value.is_some() && !port_takes(port.types(), &desc)).then_some((port, desc))
    });
    let (port, desc) = mismatches.next()?;
    let dtype = desc.dtype().filter(|_| desc.encodings().is_none())?;
    let expected = port.types().iter().find(|expected| in_onnx(*expected).is_some())?;
    let cast = format!("put a Cast to {} before the node in the model", in_onnx(expected)?);
    Some(match in_config(dtype) {
        Some(config_type) => {
            format!(
                "{cast}, or declare {config_type} for {:?} in the package's config",
                port.name()
            )
        }
        None => cast,
    })
}

/// Returns a type's name in a package's config, if configs have the type.
fn in_config(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "FLOAT_16",
        DType::F32 => "FLOAT_32",
        DType::I8 => "INT_8",
        DType::I16 => "INT_16",
        DType::I32 => "INT_32",
        DType::I64 => "INT_64",
        DType::U8 => "UINT_8",
        DType::U16 => "UINT_16",
        DType::U32 => "UINT_32",
        DType::Bool => "BOOL_8",
        DType::F64 | DType::Bf16 | DType::U64 | DType::Str => return None,
    })
}

/// Returns ONNX's name of a type.
fn in_onnx(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "FLOAT16",
        DType::F32 => "FLOAT",
        DType::F64 => "DOUBLE",
        DType::Bf16 => "BFLOAT16",
        DType::I8 => "INT8",
        DType::I16 => "INT16",
        DType::I32 => "INT32",
        DType::I64 => "INT64",
        DType::U8 => "UINT8",
        DType::U16 => "UINT16",
        DType::U32 => "UINT32",
        DType::U64 => "UINT64",
        DType::Bool => "BOOL",
        DType::Str => return None,
    })
}

fn is_identifier(name: &str) -> bool {
    identifier(name) == name
}

/// Replaces the characters that identifiers must not contain.
fn identifier(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let word: String = name.chars().map(word).collect();
    if word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word }
}
