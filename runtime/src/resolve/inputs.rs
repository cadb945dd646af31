//! What is known of a graph's values before any node is looked at, and the extents that the user gives inputs.

use udo_api::{Dim, Shape, TensorDesc};

use super::{BindOptions, ResolveError, TypedValue};
use crate::graph::{DimSpec, Graph, Source, TensorType, Value};

/// Refuses extents for what the graph does not have.
pub(super) fn check(graph: &Graph, options: &BindOptions) -> Result<(), ResolveError> {
    let values = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
    let inputs: Vec<(&str, &TensorType)> = values
        .filter_map(|value| match &value.source {
            Source::Input(of) => Some((value.name.as_str(), of)),
            Source::Computed | Source::Constant(_) | Source::Outer => None,
        })
        .collect();
    if let Some(name) = options.shapes.keys().find(|name| !inputs.iter().any(|(n, _)| n == name)) {
        let known = inputs.iter().map(|(name, _)| (*name).to_owned()).collect();
        return Err(ResolveError::NoSuchInput { name: name.clone(), known });
    }
    let mut known: Vec<&str> = Vec::new();
    for dim in inputs.iter().flat_map(|(_, of)| &of.dims) {
        if let DimSpec::Named(name) = dim
            && !known.contains(&name.as_str())
        {
            known.push(name);
        }
    }
    match options.dims.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = known.into_iter().map(str::to_owned).collect();
            Err(ResolveError::NoSuchDim { name: name.clone(), known })
        }
    }
}

/// A value with what is known of it before any node is looked at.
pub(super) fn typed(value: Value, options: &BindOptions) -> Result<TypedValue, ResolveError> {
    let desc = match &value.source {
        Source::Constant(tensor) => *tensor.desc(),
        Source::Input(of) => TensorDesc::new(of.dtype, shape(&value.name, of, options)?),
        // What a subgraph is given is known with its node.
        Source::Computed | Source::Outer => TensorDesc::ABSENT,
    };
    Ok(TypedValue { value, desc, quantized: None, folded: None, is_open: false })
}

/// The shape that the model gives an input, or the user where the model leaves it open.
fn shape(input: &str, of: &TensorType, options: &BindOptions) -> Result<Shape, ResolveError> {
    let asked = options.shapes.get(input);
    let wrong = |asked: &[usize]| ResolveError::WrongShape {
        input: input.to_owned(),
        found: asked.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        wanted: words(&of.dims),
    };
    if let Some(asked) = asked.filter(|asked| asked.len() != of.dims.len()) {
        return Err(wrong(asked));
    }
    let mut dims = Vec::with_capacity(of.dims.len());
    for (axis, spec) in of.dims.iter().enumerate() {
        let asked_here = asked.and_then(|asked| asked.get(axis)).copied();
        let known = match spec {
            DimSpec::Fixed(n) => Some(Dim::Fixed(*n)),
            DimSpec::Named(name) => options.dims.get(name).map(|&n| Dim::Open(n)),
            DimSpec::Unknown => None,
        };
        dims.push(match (known, asked_here) {
            (Some(known), Some(n)) if known.bound() != n => {
                return Err(wrong(asked.map_or(&[], Vec::as_slice)));
            }
            (Some(known), _) => known,
            (None, Some(n)) => Dim::Open(n),
            (None, None) => {
                let input = input.to_owned();
                return Err(ResolveError::OpenShape { input, dims: words(&of.dims) });
            }
        });
    }
    let extents: Vec<usize> = dims.iter().map(|dim| dim.bound()).collect();
    Shape::of_dims(&dims).map_err(|_| wrong(&extents))
}

/// Dimensions in the words of a model.
fn words(dims: &[DimSpec]) -> String {
    let word = |dim: &DimSpec| match dim {
        DimSpec::Fixed(n) => n.to_string(),
        DimSpec::Named(name) => name.clone(),
        DimSpec::Unknown => "?".to_owned(),
    };
    dims.iter().map(word).collect::<Vec<_>>().join(",")
}
