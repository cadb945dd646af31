//! Types of values in ONNX files.

use std::collections::HashSet;
use std::fmt::Arguments;

use super::proto::{DimensionProto, GraphProto, TypeProto, ValueInfoProto};
use super::tensor::{dtype_at, shape_of};
use super::{ImportError, ImportOptions};
use crate::graph::{DimSpec, TensorType};

/// The type of a value, or nothing where the model does not say all of it.
pub(super) fn tensor_type(
    place: Arguments<'_>,
    value: &ValueInfoProto,
    options: &ImportOptions,
) -> Result<Option<TensorType>, ImportError> {
    let Some(proto) = &value.r#type else { return Ok(None) };
    let Some(tensor) = &proto.tensor_type else {
        let Some(found) = other_type(proto) else { return Ok(None) };
        return Err(ImportError::unsupported(place, found, "a tensor"));
    };
    if tensor.elem_type == 0 {
        return Ok(None);
    }
    let dtype = dtype_at(place, tensor.elem_type)?;
    let Some(shape) = &tensor.shape else { return Ok(None) };
    let dims = shape.dim.iter().map(|proto| dim(proto, options)).collect::<Vec<_>>();
    let fixed: Vec<_> = dims
        .iter()
        .map(|dim| match dim {
            DimSpec::Fixed(n) => *n,
            DimSpec::Named(_) | DimSpec::Unknown => 1,
        })
        .collect();
    shape_of(place, &fixed)?;
    Ok(Some(TensorType { dtype, dims }))
}

fn dim(proto: &DimensionProto, options: &ImportOptions) -> DimSpec {
    if let Some(value) = proto.dim_value {
        // Some writers say -1 for an extent that they do not know.
        return usize::try_from(value).map_or(DimSpec::Unknown, DimSpec::Fixed);
    }
    let Some(name) = proto.dim_param.as_deref().filter(|name| !name.is_empty()) else {
        return DimSpec::Unknown;
    };
    match options.dims.iter().find(|(fixed, _)| fixed == name) {
        Some((_, extent)) => DimSpec::Fixed(*extent),
        None => DimSpec::Named(name.to_owned()),
    }
}

/// Refuses extents for dimensions that no input of the model has.
pub(super) fn check_dims(proto: &GraphProto, options: &ImportOptions) -> Result<(), ImportError> {
    let is_unknown = |(name, _): &&(String, usize)| !named_dims(proto).any(|n| n == name);
    match options.dims.iter().find(is_unknown) {
        Some((name, _)) => {
            let mut seen = HashSet::new();
            let known = named_dims(proto).filter(|name| seen.insert(*name));
            let known = known.map(str::to_owned).collect();
            Err(ImportError::NoSuchDim { name: name.clone(), known })
        }
        None => Ok(()),
    }
}

/// The names of the inputs' dimensions, in the model's order.
fn named_dims(proto: &GraphProto) -> impl Iterator<Item = &str> {
    let types = proto.input.iter().filter_map(|i| i.r#type.as_ref()?.tensor_type.as_ref());
    let dims = types.filter_map(|t| t.shape.as_ref()).flat_map(|shape| &shape.dim);
    dims.filter_map(|dim| dim.dim_param.as_deref()).filter(|name| !name.is_empty())
}

fn other_type(proto: &TypeProto) -> Option<&'static str> {
    let found = [
        (proto.sequence_type.is_some(), "a sequence"),
        (proto.map_type.is_some(), "a map"),
        (proto.sparse_tensor_type.is_some(), "a sparse tensor"),
        (proto.optional_type.is_some(), "an optional value"),
    ];
    found.iter().find(|(is, _)| *is).map(|(_, what)| *what)
}
