//! Stages of a network: one graph per range of input shapes. Checks and applies their shapes, and chooses the stage that
//! fits given input shapes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use super::{Container, ContainerError, Network, Stage};
use crate::error::quoted;
use crate::graph::{DimSpec, Graph, Source, TensorType};

/// One extent of an input in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This extent.
    Fixed(usize),
    /// An extent from `min` to `max`, inclusive.
    Range {
        /// The smallest extent.
        min: usize,
        /// The most common extent, if known.
        opt: Option<usize>,
        /// The largest extent.
        max: usize,
    },
    /// Whatever the graph allows.
    Any,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(extent) => write!(f, "{extent}"),
            Self::Range { min, opt: None, max } => write!(f, "{min}..{max}"),
            Self::Range { min, opt: Some(opt), max } => write!(f, "{min}..{opt}..{max}"),
            Self::Any => f.write_str("?"),
        }
    }
}

/// The graph of a stage with the shapes of the stage.
#[derive(Clone, Debug)]
pub struct BoundStage {
    /// The graph. The extents that the stage fixes are fixed in its inputs.
    pub graph: Graph,
    /// The ranges of the other extents, by dimension name.
    pub ranges: BTreeMap<String, RangeInclusive<usize>>,
}

/// The extent of each dimension name in a stage.
type Dims = BTreeMap<String, Extent>;

/// Checks a stage's shapes against the inputs of its graph. Returns the extents by dimension name.
pub(super) fn check(
    place: &str,
    inputs: &[(String, TensorType)],
    shapes: &BTreeMap<String, Vec<Extent>>,
) -> Result<Dims, ContainerError> {
    let mut dims = Dims::new();
    for (name, extents) in shapes {
        let place = format!("{place} input {name:?}");
        let Some((_, declared)) = inputs.iter().find(|(input, _)| input == name) else {
            let known: Vec<&String> = inputs.iter().map(|(name, _)| name).collect();
            return Err(ContainerError::malformed(
                place,
                "unknown input",
                format!("one of {}", quoted(known)),
            ));
        };
        let found = shape(extents);
        if declared.dims.len() != extents.len() {
            return Err(ContainerError::malformed(place, found, declared));
        }
        for (dim, &extent) in declared.dims.iter().zip(extents) {
            let fits = match (dim, extent) {
                (_, Extent::Any) | (DimSpec::Unknown, Extent::Fixed(_)) => true,
                (_, Extent::Range { min, opt, max })
                    if min > max || opt.is_some_and(|opt| opt < min || opt > max) =>
                {
                    false
                }
                (DimSpec::Fixed(n), Extent::Fixed(extent)) => *n == extent,
                (DimSpec::Fixed(_) | DimSpec::Unknown, Extent::Range { .. }) => false,
                (DimSpec::Named(name), _) => *dims.entry(name.clone()).or_insert(extent) == extent,
            };
            if !fits {
                let expected = format!("{declared}, with one extent or range for each name");
                return Err(ContainerError::malformed(place, found, expected));
            }
        }
    }
    Ok(dims)
}

/// Fixes the inputs of a graph to the shapes of a stage.
pub(super) fn bind(
    mut graph: Graph,
    shapes: &BTreeMap<String, Vec<Extent>>,
) -> Result<BoundStage, ContainerError> {
    let types: Vec<_> = inputs(&mut graph).map(|(name, ty)| (name.clone(), ty.clone())).collect();
    let dims = check("the stage", &types, shapes)?;
    for (name, tensor_type) in inputs(&mut graph) {
        bind_type(tensor_type, shapes.get(name), &dims);
    }
    let range = |(name, extent): (String, Extent)| match extent {
        Extent::Range { min, max, .. } => Some((name, min..=max)),
        Extent::Fixed(_) | Extent::Any => None,
    };
    Ok(BoundStage { graph, ranges: dims.into_iter().filter_map(range).collect() })
}

/// Returns the inputs of a graph and their types.
fn inputs(graph: &mut Graph) -> impl Iterator<Item = (&String, &mut TensorType)> {
    graph.values.iter_mut().filter_map(|value| match &mut value.source {
        Source::Input(tensor_type) => Some((&value.name, tensor_type)),
        Source::Constant(_) | Source::Computed | Source::Outer => None,
    })
}

/// Fixes the extents of an input that the stage fixes.
fn bind_type(tensor_type: &mut TensorType, shape: Option<&Vec<Extent>>, dims: &Dims) {
    for (axis, dim) in tensor_type.dims.iter_mut().enumerate() {
        let listed = shape.and_then(|shape| shape.get(axis));
        let named = match dim {
            DimSpec::Named(name) => dims.get(name),
            DimSpec::Fixed(_) | DimSpec::Unknown => None,
        };
        if let Some(Extent::Fixed(extent)) = named.or(listed) {
            *dim = DimSpec::Fixed(*extent);
        }
    }
}

/// Formats a shape.
fn shape(extents: &[Extent]) -> String {
    let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
    format!("[{}]", extents.join(","))
}

/// Formats the input shapes of a stage.
fn input_text(inputs: &[(String, TensorType)], shapes: &BTreeMap<String, Vec<Extent>>) -> String {
    let input = |(name, tensor_type): &(String, TensorType)| match shapes.get(name) {
        Some(extents) => format!("{name} {}{}", tensor_type.dtype, shape(extents)),
        None => format!("{name} {tensor_type}"),
    };
    inputs.iter().map(input).collect::<Vec<_>>().join(", ")
}

/// A measure of how well shapes fit a stage. Smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Exact,
    /// Within ranges: the product of the non-zero distances from their upper ends.
    Within(u128),
}

/// Returns how well a shape fits one input of a stage.
fn fit(accepted: &[Extent], found: &[usize]) -> Option<Fit> {
    if accepted.len() != found.len() {
        return None;
    }
    let mut fit = Fit::Exact;
    for (&extent, &found) in accepted.iter().zip(found) {
        let distance = match extent {
            Extent::Fixed(extent) => (extent == found).then_some(0),
            Extent::Range { min, max, .. } => {
                (min..=max).contains(&found).then(|| max.abs_diff(found))
            }
            Extent::Any => Some(usize::MAX),
        }?;
        fit = fit.and(distance);
    }
    Some(fit)
}

impl Fit {
    /// Adds an extent with this distance from the upper end of its range.
    fn and(self, distance: usize) -> Self {
        let distance = u128::try_from(distance).unwrap_or(u128::MAX);
        match self {
            _ if distance == 0 => self,
            Self::Exact => Self::Within(distance),
            Self::Within(product) => Self::Within(product.saturating_mul(distance)),
        }
    }

    /// Combines the fits of two inputs.
    fn both(self, other: Self) -> Self {
        match (self, other) {
            (fit, Self::Exact) | (Self::Exact, fit) => fit,
            (Self::Within(one), Self::Within(other)) => Self::Within(one.saturating_mul(other)),
        }
    }
}

/// Chooses the stage of a network by input shapes. Choosing does not allocate unless it fails.
#[derive(Clone, Debug)]
pub struct StageChoice {
    network: String,
    stages: Vec<StageInputs>,
    /// The formatted input shapes of each stage.
    known: Vec<String>,
}

impl Container {
    /// Returns the stage choice of `network`. Inputs with a default take part only if `is_given` returns true for them.
    ///
    /// # Errors
    /// Fails if a graph violates the rules of the format.
    pub fn stage_choice(
        &self,
        network: &Network<usize>,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<StageChoice, ContainerError> {
        let (mut stages, mut known) = (Vec::new(), Vec::new());
        for stage in &network.stages {
            let inputs = self.inputs(stage, &is_given)?;
            known.push(input_text(&inputs, &stage.shapes));
            stages.push(stage_inputs(&inputs, &stage.shapes));
        }
        Ok(StageChoice { network: network.name.clone(), stages, known })
    }

    /// Returns the stage of `network` that fits inputs of these shapes: see [`StageChoice::choose`].
    ///
    /// # Errors
    /// Fails as [`StageChoice::choose`] does, and if a graph violates the rules of the format.
    pub fn stage_for(
        &self,
        network: &Network<usize>,
        given: &[(String, Vec<usize>)],
    ) -> Result<usize, ContainerError> {
        let dims = |name: &str| {
            let given = given.iter().find(|(input, _)| input == name);
            given.map(|(_, dims)| dims.as_slice())
        };
        self.stage_choice(network, |name| dims(name).is_some())?.choose(dims)
    }
}

impl StageChoice {
    /// Returns the stage that fits the shapes that `given` returns.
    ///
    /// A stage with exactly these shapes is preferred. Otherwise the stage whose ranges end closest above them is chosen, by the
    /// product of the non-zero differences. The first of equal stages wins. Inputs for which `given` returns `None` fit every
    /// stage. If the network has one stage, shapes with as many elements fit too.
    ///
    /// The extents of a stage are those that its graph fixes, those that the stage lists, and those that follow from equal
    /// dimension names. Does not allocate unless it fails.
    ///
    /// # Errors
    /// Fails if no stage fits, or several do and no given shape distinguishes them.
    pub fn choose<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a [usize]>,
    ) -> Result<usize, ContainerError> {
        let mut best: Option<(Fit, usize)> = None;
        for (index, stage) in self.stages.iter().enumerate() {
            let fit = fit_all(stage, &given);
            if let Some(fit) = fit.filter(|fit| best.is_none_or(|(best_fit, _)| *fit < best_fit)) {
                best = Some((fit, index));
            }
        }
        match (best, self.stages.as_slice()) {
            (Some((_, index)), [_]) => Ok(index),
            (Some((_, index)), stages) if are_distinguished(stages, &given) => Ok(index),
            (Some(_), _) => {
                let (network, known) = (self.network.clone(), self.known.clone());
                Err(ContainerError::SeveralStages { network, known })
            }
            (None, [only]) if fits_reshaped(only, &given) => Ok(0),
            (None, _) => {
                let (network, known) = (self.network.clone(), self.known.clone());
                Err(ContainerError::NoStage { network, found: self.given_text(&given), known })
            }
        }
    }

    /// Formats the given shapes.
    fn given_text<'a>(&self, given: &impl Fn(&str) -> Option<&'a [usize]>) -> String {
        let inputs = self.stages.first().into_iter().flatten();
        let found = inputs.filter_map(|(name, _)| {
            let dims = format!("{:?}", given(name)?).replace(' ', "");
            Some(format!("{name} {dims}"))
        });
        found.collect::<Vec<_>>().join(", ")
    }
}

/// Whether a stage fits inputs of these shapes after each is reshaped to as many elements.
fn fits_reshaped<'a>(inputs: &StageInputs, given: &impl Fn(&str) -> Option<&'a [usize]>) -> bool {
    let product = |n: usize, extent: usize| n.checked_mul(extent);
    inputs.iter().all(|(name, extents)| {
        let Some(found) = given(name) else { return true };
        let expected = extents.iter().try_fold(1, |n, extent| match *extent {
            Extent::Fixed(extent) => product(n, extent),
            Extent::Range { .. } | Extent::Any => None,
        });
        expected.is_some() && expected == found.iter().try_fold(1, |n, &extent| product(n, extent))
    })
}

/// Returns the extents of an input in a stage.
pub(super) fn extents(tensor_type: &TensorType, shape: Option<&Vec<Extent>>) -> Vec<Extent> {
    let listed = |axis: usize| shape.and_then(|shape| shape.get(axis));
    let extent = |(axis, dim): (usize, &DimSpec)| match (listed(axis), dim) {
        (_, DimSpec::Fixed(extent)) => Extent::Fixed(*extent),
        (Some(extent), _) => *extent,
        (None, DimSpec::Named(_) | DimSpec::Unknown) => Extent::Any,
    };
    tensor_type.dims.iter().enumerate().map(extent).collect()
}

/// The extents of each input of a stage.
type StageInputs = Vec<(String, Vec<Extent>)>;

/// Collects the extents of a stage. A named extent takes the extent that the stage lists for another dimension of that name.
fn stage_inputs(
    inputs: &[(String, TensorType)],
    shapes: &BTreeMap<String, Vec<Extent>>,
) -> StageInputs {
    let mut dims = Dims::new();
    for (name, declared) in inputs {
        for (dim, extent) in declared.dims.iter().zip(extents(declared, shapes.get(name))) {
            if let (DimSpec::Named(name), Extent::Fixed(_) | Extent::Range { .. }) = (dim, extent) {
                dims.insert(name.clone(), extent);
            }
        }
    }
    let input = |(name, declared): &(String, TensorType)| {
        let extents = extents(declared, shapes.get(name)).into_iter().zip(&declared.dims);
        let extents = extents.map(|(extent, dim)| match (extent, dim) {
            (Extent::Any, DimSpec::Named(name)) => dims.get(name).copied().unwrap_or(extent),
            (Extent::Any | Extent::Fixed(_) | Extent::Range { .. }, _) => extent,
        });
        (name.clone(), extents.collect())
    };
    inputs.iter().map(input).collect()
}

/// Whether the given inputs have different extents in different stages.
fn are_distinguished<'a>(
    stages: &[StageInputs],
    given: &impl Fn(&str) -> Option<&'a [usize]>,
) -> bool {
    let Some((first, others)) = stages.split_first() else { return false };
    first.iter().filter(|(name, _)| given(name).is_some()).any(|(name, extents)| {
        let is_equal = |stage: &StageInputs| {
            stage.iter().any(|(input, other)| input == name && other == extents)
        };
        !others.iter().all(is_equal)
    })
}

/// Returns how well all given shapes fit a stage. Unknown inputs are refused where they are used.
fn fit_all<'a>(inputs: &StageInputs, given: &impl Fn(&str) -> Option<&'a [usize]>) -> Option<Fit> {
    inputs.iter().try_fold(Fit::Exact, |total, (name, extents)| match given(name) {
        Some(found) => Some(total.both(fit(extents, found)?)),
        None => Some(total),
    })
}

impl<G> Network<G> {
    /// Returns a stage of the network.
    ///
    /// # Errors
    /// Fails if the index is out of range.
    pub fn stage(&self, index: usize) -> Result<&Stage<G>, ContainerError> {
        self.stages.get(index).ok_or_else(|| ContainerError::NoSuchStage {
            network: self.name.clone(),
            found: index,
            last: self.stages.len().saturating_sub(1),
        })
    }
}

/// Names the unknown dimensions of a graph for which a stage has a range: compiled graphs refer to variable dimensions by
/// name. Then checks the shapes of the stages.
///
/// # Errors
/// Fails if shapes do not fit the graph's inputs, or two stages have the same shapes.
pub fn ready(
    graph: &mut Graph,
    stages: &[BTreeMap<String, Vec<Extent>>],
) -> Result<(), ContainerError> {
    for (name, tensor_type) in inputs(graph) {
        let has_range = |axis: usize| {
            let extent = |shapes: &BTreeMap<_, Vec<_>>| shapes.get(name)?.get(axis).copied();
            stages.iter().any(|shapes| matches!(extent(shapes), Some(Extent::Range { .. })))
        };
        for (axis, dim) in tensor_type.dims.iter_mut().enumerate() {
            if *dim == DimSpec::Unknown && has_range(axis) {
                *dim = DimSpec::Named(format!("{name}.{axis}"));
            }
        }
    }
    let types: Vec<_> = inputs(graph).map(|(name, ty)| (name.clone(), ty.clone())).collect();
    for (index, shapes) in stages.iter().enumerate() {
        check(&format!("stage {index}"), &types, shapes)?;
        if let Some(first) = stages.iter().take(index).position(|previous| previous == shapes) {
            let found = format!("the shapes of stage {first}");
            return Err(ContainerError::malformed(
                format!("stage {index}"),
                found,
                "different shapes in each stage",
            ));
        }
    }
    Ok(())
}
