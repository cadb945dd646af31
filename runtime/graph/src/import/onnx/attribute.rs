//! Values of node attributes other than graphs, and the tensors of `Constant` nodes.

use std::fmt::Arguments;

use udo_api::Shape;

use super::ImportError;
use super::external::Files;
use super::proto::{AttributeProto, NodeProto};
use super::sparse;
use super::tensor::{shape_of, tensor};
use crate::graph::Attr;
use crate::memory::Tensor;

/// Returns the value of an attribute that is not a graph. `files` holds external data.
pub(super) fn attr(
    place: Arguments<'_>,
    proto: &AttributeProto,
    files: &Files<'_>,
) -> Result<Attr, ImportError> {
    if !proto.ref_attr_name.is_empty() {
        let found = format!("a reference to attribute {:?}", proto.ref_attr_name);
        return Err(ImportError::malformed(place, found, "a value"));
    }
    let text = |bytes: &Vec<u8>| {
        String::from_utf8(bytes.clone())
            .map_err(|_| ImportError::malformed(place, "bytes that are not text", "UTF-8"))
    };
    Ok(match type_of(proto) {
        AttributeProto::FLOAT => Attr::Float(proto.f.unwrap_or_default().into()),
        AttributeProto::INT => Attr::Int(proto.i.unwrap_or_default()),
        AttributeProto::STRING => {
            Attr::Text(proto.s.as_ref().map_or_else(|| Ok(String::new()), text)?)
        }
        AttributeProto::TENSOR => match &proto.t {
            Some(proto) => Attr::Tensor(tensor(place, proto, files)?),
            None => return Err(ImportError::malformed(place, "no tensor", "a tensor")),
        },
        AttributeProto::SPARSE_TENSOR => match &proto.sparse_tensor {
            Some(proto) => Attr::Tensor(sparse::dense(place, proto, files)?),
            None => return Err(ImportError::malformed(place, "no tensor", "a tensor")),
        },
        AttributeProto::FLOATS => {
            Attr::Floats(proto.floats.iter().copied().map(f64::from).collect())
        }
        AttributeProto::INTS => Attr::Ints(proto.ints.clone()),
        AttributeProto::STRINGS => {
            Attr::Texts(proto.strings.iter().map(text).collect::<Result<_, _>>()?)
        }
        other => {
            let found = match other {
                AttributeProto::UNDEFINED => "no value".to_owned(),
                AttributeProto::GRAPH | AttributeProto::GRAPHS => "a graph".to_owned(),
                // Further codes of `AttributeProto.AttributeType` in onnx.proto.
                9 => "a list of tensors".to_owned(),
                12 => "a list of sparse tensors".to_owned(),
                13 | 14 => "a type".to_owned(),
                _ => format!("attribute type {other}"),
            };
            let expected = "numbers, strings, a tensor or graphs";
            return Err(ImportError::unsupported(place, found, expected));
        }
    })
}

/// Returns the tensor of a `Constant` node.
pub(super) fn constant(
    place: Arguments<'_>,
    node: &NodeProto,
    files: &Files<'_>,
) -> Result<Tensor, ImportError> {
    const EXPECTED: &str = "one attribute value, sparse_value, value_float(s) or value_int(s)";
    let [attribute] = node.attribute.as_slice() else {
        let found = format!("{} attributes", node.attribute.len());
        return Err(ImportError::malformed(place, found, EXPECTED));
    };
    let name = attribute.name.as_str();
    let attr = attr(format_args!("{place} attribute {name:?}"), attribute, files)?;
    let tensor = match (name, attr) {
        ("value" | "sparse_value", Attr::Tensor(tensor)) => return Ok(tensor),
        ("value_int", Attr::Int(value)) => Tensor::from_slice(Shape::SCALAR, &[value]),
        ("value_ints", Attr::Ints(values)) => {
            Tensor::from_slice(shape_of(place, &[values.len()])?, &values)
        }
        // Read from the file's attribute: `Attr` widens it to f64, and the constant is f32.
        ("value_float", Attr::Float(_)) => {
            Tensor::from_slice(Shape::SCALAR, &[attribute.f.unwrap_or_default()])
        }
        ("value_floats", Attr::Floats(_)) => {
            Tensor::from_slice(shape_of(place, &[attribute.floats.len()])?, &attribute.floats)
        }
        (_, _) => {
            let found = format!("attribute {name:?}");
            return Err(ImportError::unsupported(place, found, EXPECTED));
        }
    };
    tensor.map_err(|e| ImportError::malformed(place, e, EXPECTED))
}

/// Returns the attribute's type. Files of IR version 1 may leave it out; then the field that is set
/// decides.
pub(super) fn type_of(proto: &AttributeProto) -> i32 {
    if proto.r#type != AttributeProto::UNDEFINED {
        return proto.r#type;
    }
    let fields = [
        (proto.f.is_some(), AttributeProto::FLOAT),
        (proto.i.is_some(), AttributeProto::INT),
        (proto.s.is_some(), AttributeProto::STRING),
        (proto.t.is_some(), AttributeProto::TENSOR),
        (proto.g.is_some(), AttributeProto::GRAPH),
        (proto.sparse_tensor.is_some(), AttributeProto::SPARSE_TENSOR),
        (!proto.floats.is_empty(), AttributeProto::FLOATS),
        (!proto.ints.is_empty(), AttributeProto::INTS),
        (!proto.strings.is_empty(), AttributeProto::STRINGS),
        (!proto.graphs.is_empty(), AttributeProto::GRAPHS),
    ];
    let set = fields.iter().find(|(is_set, _)| *is_set);
    set.map_or(AttributeProto::UNDEFINED, |(_, attribute_type)| *attribute_type)
}
