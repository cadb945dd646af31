//! Types of values in ONNX files.

use std::fmt::Arguments;

use super::ImportError;
use super::proto::{DimensionProto, TypeProto, ValueInfoProto};
use super::tensor::{dtype_of_code, shape_of};
use crate::graph::{DimSpec, TensorType};

/// Returns the declared type of a value. `None`: the declaration is incomplete, or the value is a sequence, whose element
/// types become known when the graph is resolved.
pub(super) fn tensor_type(
    place: Arguments<'_>,
    value: &ValueInfoProto,
) -> Result<Option<TensorType>, ImportError> {
    let Some(proto) = &value.r#type else { return Ok(None) };
    if proto.sequence_type.is_some() {
        return Ok(None);
    }
    let Some(tensor) = &proto.tensor_type else {
        let Some(found) = other_type(proto) else { return Ok(None) };
        return Err(ImportError::unsupported(place, found, "a tensor"));
    };
    if tensor.elem_type == 0 {
        return Ok(None);
    }
    let dtype = dtype_of_code(place, tensor.elem_type)?;
    let Some(shape) = &tensor.shape else { return Ok(None) };
    let dims = shape.dim.iter().map(dim).collect::<Vec<_>>();
    let fixed: Vec<_> = dims
        .iter()
        .map(|dim| match dim {
            DimSpec::Fixed(n) => *n,
            DimSpec::Named(_) | DimSpec::Unknown => 1,
        })
        .collect();
    // Fails for a product of extents that is too large.
    shape_of(place, &fixed)?;
    Ok(Some(TensorType { dtype, dims }))
}

/// Whether a value is a sequence.
pub(super) fn is_sequence(value: &ValueInfoProto) -> bool {
    value.r#type.as_ref().is_some_and(|proto| proto.sequence_type.is_some())
}

/// Converts a dimension: a fixed extent, a name, or unknown.
fn dim(proto: &DimensionProto) -> DimSpec {
    if let Some(value) = proto.dim_value {
        // Some writers put -1 for an unknown extent.
        return usize::try_from(value).map_or(DimSpec::Unknown, DimSpec::Fixed);
    }
    let name = proto.dim_param.as_deref().filter(|name| is_name(name));
    name.map_or(DimSpec::Unknown, |name| DimSpec::Named(name.to_owned()))
}

/// Whether dimensions of this name are meant to be equal. Some writers use one name, such as `None`, for all unknown
/// dimensions.
fn is_name(name: &str) -> bool {
    !matches!(name, "None" | "-1") && name.chars().any(char::is_alphanumeric)
}

/// Names a type that is neither a tensor nor a sequence.
fn other_type(proto: &TypeProto) -> Option<&'static str> {
    let types = [
        (proto.map_type.is_some(), "a map"),
        (proto.sparse_tensor_type.is_some(), "a sparse tensor"),
        (proto.optional_type.is_some(), "an optional value"),
    ];
    types.iter().find(|(is_set, _)| *is_set).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_names_mean_unknown_dimensions() {
        let dim_named = |name: &str| {
            dim(&DimensionProto { dim_param: Some(name.to_owned()), ..DimensionProto::default() })
        };
        for name in ["?", "", "-1", "None", "*"] {
            assert_eq!(dim_named(name), DimSpec::Unknown, "{name:?}");
        }
        for name in ["batch", "N", "unk__12", "p2o.DynamicDimension.0", "长度", "?1"] {
            assert_eq!(dim_named(name), DimSpec::Named(name.to_owned()), "{name:?}");
        }
    }
}
