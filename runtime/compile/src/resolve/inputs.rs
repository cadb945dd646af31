//! Determines the types and shapes of a graph's inputs and constants before any node is resolved.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use udo_api::{Dim, Shape, TensorDesc};

use super::{BindOptions, ResolveError, TypedValue};
use udo_graph::graph::{DimSpec, Graph, Source, TensorType, Value, ValueId};

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type, with the extents that are known.
    pub of: TensorType,
}

impl Input {
    /// Returns the shape if every extent is known.
    pub fn shape(&self) -> Option<Shape> {
        Shape::new(&self.extents()?).ok()
    }

    fn extents(&self) -> Option<Vec<usize>> {
        let fixed = |dim: &DimSpec| match dim {
            DimSpec::Fixed(extent) => Some(*extent),
            DimSpec::Named(_) | DimSpec::Unknown => None,
        };
        self.of.dims.iter().map(fixed).collect()
    }

    /// Returns the error for a shape that does not match the input.
    fn wrong(&self, found: &[usize]) -> ResolveError {
        ResolveError::WrongShape {
            input: self.name.clone(),
            found: found.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
            wanted: words(&self.of.dims),
        }
    }
}

/// The shapes of a graph's inputs, as the compiler derives them.
pub trait InputShapes: Sized {
    /// Returns the inputs of a graph.
    fn all(graph: &Graph) -> Vec<Self>;

    /// Returns the shape.
    ///
    /// # Errors
    /// An extent is not known.
    fn required(&self) -> Result<Shape, ResolveError>;

    /// Returns the shape that a plan is made for, with the extents of `bound`. Extents that have a range are bounded by
    /// its end.
    ///
    /// # Errors
    /// An extent is neither known nor in a range.
    fn planned(&self, bound: &Self, options: &BindOptions) -> Result<Shape, ResolveError>;

    /// Returns the shapes of all inputs, with every range at the end that `pick` chooses.
    ///
    /// # Errors
    /// An extent is neither known nor in a range.
    fn shapes_at(
        inputs: &[Self],
        options: &BindOptions,
        pick: fn((usize, usize)) -> usize,
    ) -> Result<BTreeMap<String, Vec<usize>>, ResolveError>;
}

impl InputShapes for Input {
    fn all(graph: &Graph) -> Vec<Self> {
        let values = graph.inputs.iter().filter_map(|&id| graph.value(id).ok());
        let input = |value: &Value| match &value.source {
            Source::Input(of) => Some(Self { name: value.name.clone(), of: of.clone() }),
            Source::Computed | Source::Constant(_) | Source::Outer => None,
        };
        values.filter_map(input).collect()
    }

    fn required(&self) -> Result<Shape, ResolveError> {
        self.shape().ok_or_else(|| {
            let (input, dims) = (self.name.clone(), words(&self.of.dims));
            ResolveError::OpenShape { input, dims }
        })
    }

    fn planned(&self, bound: &Self, options: &BindOptions) -> Result<Shape, ResolveError> {
        let dim = |(spec, bound): (&DimSpec, &DimSpec)| match (options.range_of(spec), bound) {
            (Some(range), _) => Some(Dim::UpTo(*range.end())),
            (None, DimSpec::Fixed(extent)) => Some(Dim::Fixed(*extent)),
            (None, DimSpec::Named(_) | DimSpec::Unknown) => None,
        };
        let dims: Option<Vec<Dim>> = self.of.dims.iter().zip(&bound.of.dims).map(dim).collect();
        let shape = dims.map(|dims| Shape::from_dims(&dims).map_err(|_| bound.wrong(&[])));
        shape.unwrap_or_else(|| bound.required())
    }

    fn shapes_at(
        inputs: &[Self],
        options: &BindOptions,
        pick: fn((usize, usize)) -> usize,
    ) -> Result<BTreeMap<String, Vec<usize>>, ResolveError> {
        let bound = bind(inputs, options)?;
        let shape = |(input, bound): (&Self, &Self)| {
            let planned = input.planned(bound, options)?;
            let extent = |(spec, dim): (&DimSpec, Dim)| match options.range_of(spec) {
                Some(range) => pick((*range.start(), *range.end())),
                None => dim.bound(),
            };
            let dims = input.of.dims.iter().zip(planned.iter()).map(extent).collect();
            Ok((input.name.clone(), dims))
        };
        inputs.iter().zip(&bound).map(shape).collect()
    }
}

impl BindOptions {
    /// Returns the range of a named dimension without a fixed extent.
    fn range_of(&self, spec: &DimSpec) -> Option<&RangeInclusive<usize>> {
        let DimSpec::Named(name) = spec else { return None };
        self.ranges.get(name).filter(|_| !self.dims.contains_key(name))
    }
}

/// Returns the inputs with the extents that the user states. A named dimension has the same extent in all inputs.
///
/// # Errors
/// A name that the model does not have, an extent that does not match the model, or different extents for one name.
pub fn bind(inputs: &[Input], options: &BindOptions) -> Result<Vec<Input>, ResolveError> {
    check_names(inputs, options)?;
    let extents = extents(inputs, options)?;
    check_ranges(&extents, options)?;
    let bound = |input: &Input| {
        let requested = options.shapes.get(&input.name);
        let dim = |(axis, spec): (usize, &DimSpec)| {
            let named = match spec {
                DimSpec::Named(name) => extents.get(name.as_str()).map(|named| named.extent),
                DimSpec::Fixed(_) | DimSpec::Unknown => None,
            };
            let requested = requested.and_then(|requested| requested.get(axis)).copied();
            named.or(requested).map_or_else(|| spec.clone(), DimSpec::Fixed)
        };
        let dims: Vec<DimSpec> = input.of.dims.iter().enumerate().map(dim).collect();
        let bound = Input { of: TensorType { dims, ..input.of }, name: input.name.clone() };
        match bound.extents() {
            Some(extents) if Shape::new(&extents).is_err() => Err(input.wrong(&extents)),
            Some(_) | None => Ok(bound),
        }
    };
    inputs.iter().map(bound).collect()
}

/// The extent of a named dimension.
struct NamedExtent<'a> {
    extent: usize,
    /// The input that determines it; `None` if the user states it.
    input: Option<&'a str>,
}

/// Returns the known extents of the named dimensions.
fn extents<'a>(
    inputs: &'a [Input],
    options: &'a BindOptions,
) -> Result<BTreeMap<&'a str, NamedExtent<'a>>, ResolveError> {
    let stated = options.dims.iter();
    let stated = stated.map(|(name, &extent)| (name.as_str(), NamedExtent { extent, input: None }));
    let mut extents: BTreeMap<_, _> = stated.collect();
    for input in inputs {
        let Some(requested) = options.shapes.get(&input.name) else { continue };
        if requested.len() != input.of.dims.len() {
            return Err(input.wrong(requested));
        }
        for (spec, &extent) in input.of.dims.iter().zip(requested) {
            let known = match spec {
                DimSpec::Unknown => continue,
                DimSpec::Fixed(n) => &NamedExtent { extent: *n, input: None },
                DimSpec::Named(name) => &*extents
                    .entry(name)
                    .or_insert(NamedExtent { extent, input: Some(&input.name) }),
            };
            match (known.input, spec) {
                _ if known.extent == extent => {}
                (Some(other), DimSpec::Named(name)) => {
                    return Err(ResolveError::UnequalDims {
                        name: name.clone(),
                        inputs: [other.to_owned(), input.name.clone()],
                        extents: [known.extent, extent],
                    });
                }
                _ => return Err(input.wrong(requested)),
            }
        }
    }
    Ok(extents)
}

/// Refuses options for inputs or dimensions that the model does not have.
fn check_names(inputs: &[Input], options: &BindOptions) -> Result<(), ResolveError> {
    let has = |name: &&String| inputs.iter().any(|input| input.name == **name);
    if let Some(name) = options.shapes.keys().find(|name| !has(name)) {
        let known = inputs.iter().map(|input| input.name.clone()).collect();
        return Err(ResolveError::NoSuchInput { name: name.clone(), known });
    }
    let mut known: Vec<String> = Vec::new();
    for dim in inputs.iter().flat_map(|input| &input.of.dims) {
        if let DimSpec::Named(name) = dim
            && !known.contains(name)
        {
            known.push(name.clone());
        }
    }
    match options.dims.keys().chain(options.ranges.keys()).find(|name| !known.contains(name)) {
        Some(name) => Err(ResolveError::NoSuchDim { name: name.clone(), known }),
        None => Ok(()),
    }
}

/// Refuses empty ranges and extents outside their range.
fn check_ranges(
    extents: &BTreeMap<&str, NamedExtent<'_>>,
    options: &BindOptions,
) -> Result<(), ResolveError> {
    for (name, range) in &options.ranges {
        let (name, range) = (name.clone(), range.clone());
        if range.is_empty() {
            return Err(ResolveError::EmptyRange { name, range });
        }
        let extent = extents.get(name.as_str()).map(|named| named.extent);
        if let Some(found) = extent.filter(|extent| !range.contains(extent)) {
            return Err(ResolveError::OutOfRange { name, found, range });
        }
    }
    Ok(())
}

/// Returns the shapes of a graph's inputs; dimensions that the model leaves open are open.
pub(super) fn shapes(
    graph: &Graph,
    options: &BindOptions,
) -> Result<BTreeMap<ValueId, Shape>, ResolveError> {
    let inputs = Input::all(graph);
    let bound = bind(&inputs, options)?;
    let mut shapes = BTreeMap::new();
    for ((&id, input), bound) in graph.inputs.iter().zip(&inputs).zip(&bound) {
        let dim = |(spec, extent): (&DimSpec, Dim)| match (spec, extent) {
            (DimSpec::Fixed(_), _) | (_, Dim::UpTo(_)) => extent,
            (DimSpec::Named(_) | DimSpec::Unknown, _) => Dim::Open(extent.bound()),
        };
        let planned = input.planned(bound, options)?;
        let dims: Vec<Dim> = input.of.dims.iter().zip(planned.iter()).map(dim).collect();
        shapes.insert(id, Shape::from_dims(&dims).map_err(|_| input.wrong(&[]))?);
    }
    Ok(shapes)
}

/// Returns a value with its type and shape as far as they are known before any node is resolved.
pub(super) fn typed(value: Value, shape: Option<&Shape>) -> TypedValue {
    let desc = match (&value.source, shape) {
        (Source::Constant(tensor), _) => *tensor.desc(),
        (Source::Input(of), Some(shape)) => TensorDesc::new(of.dtype, *shape),
        // The inputs of a subgraph are described when its node is bound.
        (Source::Input(_) | Source::Computed | Source::Outer, _) => TensorDesc::ABSENT,
    };
    TypedValue { value, desc, quantized: None, folded: None, is_open: false, wide: None }
}

/// Formats dimensions as the model states them.
fn words(dims: &[DimSpec]) -> String {
    let word = |dim: &DimSpec| match dim {
        DimSpec::Fixed(n) => n.to_string(),
        DimSpec::Named(name) => name.clone(),
        DimSpec::Unknown => "?".to_owned(),
    };
    dims.iter().map(word).collect::<Vec<_>>().join(",")
}
