//! What attributes of nodes hold, but for graphs, and the tensors of `Constant` nodes.

use std::fmt::Arguments;

use udo_api::Shape;

use super::ImportError;
use super::external::Files;
use super::proto::{AttributeProto, NodeProto};
use super::sparse;
use super::tensor::{shape_of, tensor};
use crate::graph::Attr;
use crate::memory::Tensor;

/// What an attribute holds that is no graph; elements in another file are among `files`.
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
            .map_err(|_| ImportError::malformed(place, "bytes that are no text", "UTF-8"))
    };
    Ok(match type_of(proto) {
        AttributeProto::FLOAT => Attr::Float(proto.f.unwrap_or_default().into()),
        AttributeProto::INT => Attr::Int(proto.i.unwrap_or_default()),
        AttributeProto::STRING => {
            Attr::Text(proto.s.as_ref().map_or_else(|| Ok(String::new()), text)?)
        }
        AttributeProto::TENSOR => match &proto.t {
            Some(proto) => Attr::Tensor(tensor(place, proto, files)?),
            None => return Err(ImportError::malformed(place, "no tensor", "one")),
        },
        AttributeProto::SPARSE_TENSOR => match &proto.sparse_tensor {
            Some(proto) => Attr::Tensor(sparse::dense(place, proto, files)?),
            None => return Err(ImportError::malformed(place, "no tensor", "one")),
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
                9 => "a list of tensors".to_owned(),
                12 => "a list of sparse tensors".to_owned(),
                13 | 14 => "a type".to_owned(),
                _ => format!("attribute type {other}"),
            };
            let wanted = "numbers, texts, a tensor or graphs";
            return Err(ImportError::unsupported(place, found, wanted));
        }
    })
}

/// What a `Constant` node makes.
pub(super) fn constant(
    place: Arguments<'_>,
    node: &NodeProto,
    files: &Files<'_>,
) -> Result<Tensor, ImportError> {
    const WANTED: &str = "one attribute value, sparse_value, value_float(s) or value_int(s)";
    let [attribute] = node.attribute.as_slice() else {
        let found = format!("{} attributes", node.attribute.len());
        return Err(ImportError::malformed(place, found, WANTED));
    };
    let name = attribute.name.as_str();
    let attr = attr(format_args!("{place} attribute {name:?}"), attribute, files)?;
    let made = match (name, attr) {
        ("value" | "sparse_value", Attr::Tensor(tensor)) => return Ok(tensor),
        ("value_int", Attr::Int(value)) => Tensor::of(Shape::SCALAR, &[value]),
        ("value_ints", Attr::Ints(values)) => {
            Tensor::of(shape_of(place, &[values.len()])?, &values)
        }
        // Taken from the message: the attribute holds them widened.
        ("value_float", Attr::Float(_)) => {
            Tensor::of(Shape::SCALAR, &[attribute.f.unwrap_or_default()])
        }
        ("value_floats", Attr::Floats(_)) => {
            Tensor::of(shape_of(place, &[attribute.floats.len()])?, &attribute.floats)
        }
        (_, _) => {
            let found = format!("attribute {name:?}");
            return Err(ImportError::unsupported(place, found, WANTED));
        }
    };
    made.map_err(|e| ImportError::malformed(place, e, WANTED))
}

/// The attribute's type; files of the oldest format leave the reader to see what is there.
pub(super) fn type_of(proto: &AttributeProto) -> i32 {
    if proto.r#type != AttributeProto::UNDEFINED {
        return proto.r#type;
    }
    let found = [
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
    found.iter().find(|(is, _)| *is).map_or(AttributeProto::UNDEFINED, |(_, r#type)| *r#type)
}
