//! What a stage says of the shapes of its inputs, and which stage takes the shapes at hand.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use super::{Container, ContainerError, Network, Stage};
use crate::error::quoted;
use crate::graph::{DimSpec, Graph, Source, TensorType};

/// What one extent of an input is in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This many elements.
    Fixed(usize),
    /// From `min` to `max`, both included.
    Range {
        /// The least.
        min: usize,
        /// What runs mostly have, if somebody said so.
        opt: Option<usize>,
        /// The most.
        max: usize,
    },
    /// As the graph says.
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

/// The graph of a stage, for the shapes of the stage.
#[derive(Clone, Debug)]
pub struct BoundStage {
    /// The graph, whose inputs have the extents that are fixed.
    pub graph: Graph,
    /// The extents that are not, by the names that the graph has for them.
    pub ranges: BTreeMap<String, RangeInclusive<usize>>,
}

/// What each name of a dimension is in a stage.
type Dims = BTreeMap<String, Extent>;

/// Checks that a stage's shapes are shapes of its graph's inputs, and what they say of the names of dimensions.
pub(super) fn check(
    place: &str,
    inputs: &[(String, TensorType)],
    shapes: &BTreeMap<String, Vec<Extent>>,
) -> Result<Dims, ContainerError> {
    let mut dims = Dims::new();
    for (name, extents) in shapes {
        let place = format!("{place} input {name:?}");
        let Some((_, of)) = inputs.iter().find(|(input, _)| input == name) else {
            let known: Vec<&String> = inputs.iter().map(|(name, _)| name).collect();
            return Err(ContainerError::malformed(
                place,
                "no such input",
                format!("one of {}", quoted(known)),
            ));
        };
        let found = shape(extents);
        if of.dims.len() != extents.len() {
            return Err(ContainerError::malformed(place, found, of));
        }
        for (dim, &extent) in of.dims.iter().zip(extents) {
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
                let wanted = format!("{of}, with one extent or range for each name");
                return Err(ContainerError::malformed(place, found, wanted));
            }
        }
    }
    Ok(dims)
}

/// A graph for the shapes of a stage.
pub(super) fn bind(
    mut graph: Graph,
    shapes: &BTreeMap<String, Vec<Extent>>,
) -> Result<BoundStage, ContainerError> {
    let input = |(name, of): (&String, &TensorType)| (name.clone(), of.clone());
    let inputs: Vec<_> = inputs(&mut graph).map(|(name, of)| input((name, of))).collect();
    let dims = check("the stage", &inputs, shapes)?;
    for (name, of) in self::inputs(&mut graph) {
        bind_type(of, shapes.get(name), &dims);
    }
    let range = |(name, extent): (String, Extent)| match extent {
        Extent::Range { min, max, .. } => Some((name, min..=max)),
        Extent::Fixed(_) | Extent::Any => None,
    };
    Ok(BoundStage { graph, ranges: dims.into_iter().filter_map(range).collect() })
}

/// The inputs of a graph and their types.
fn inputs(graph: &mut Graph) -> impl Iterator<Item = (&String, &mut TensorType)> {
    graph.values.iter_mut().filter_map(|value| match &mut value.source {
        Source::Input(of) => Some((&value.name, of)),
        Source::Constant(_) | Source::Computed | Source::Outer => None,
    })
}

/// Puts what a stage fixes into the type of an input.
fn bind_type(of: &mut TensorType, shape: Option<&Vec<Extent>>, dims: &Dims) {
    for (axis, dim) in of.dims.iter_mut().enumerate() {
        let own = shape.and_then(|shape| shape.get(axis));
        let named = match dim {
            DimSpec::Named(name) => dims.get(name),
            DimSpec::Fixed(_) | DimSpec::Unknown => None,
        };
        if let Some(Extent::Fixed(extent)) = named.or(own) {
            *dim = DimSpec::Fixed(*extent);
        }
    }
}

/// A shape in words.
fn shape(extents: &[Extent]) -> String {
    let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
    format!("[{}]", extents.join(","))
}

/// The shapes that a stage takes, in words.
fn said(inputs: &[(String, TensorType)], shapes: &BTreeMap<String, Vec<Extent>>) -> String {
    let input = |(name, of): &(String, TensorType)| match shapes.get(name) {
        Some(extents) => format!("{name} {}{}", of.dtype, shape(extents)),
        None => format!("{name} {of}"),
    };
    inputs.iter().map(input).collect::<Vec<_>>().join(", ")
}

/// How well a stage takes shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Exact,
    /// Within ranges, so far below their ends.
    Within(u128),
}

/// How well one input takes a shape, if it does.
fn fit(taken: &[Extent], found: &[usize]) -> Option<Fit> {
    if taken.len() != found.len() {
        return None;
    }
    let mut fit = Fit::Exact;
    for (&extent, &found) in taken.iter().zip(found) {
        let below = match extent {
            Extent::Fixed(extent) => (extent == found).then_some(0),
            Extent::Range { min, max, .. } => {
                (min..=max).contains(&found).then(|| max.abs_diff(found))
            }
            Extent::Any => Some(usize::MAX),
        }?;
        fit = fit.and(below);
    }
    Some(fit)
}

impl Fit {
    /// With another extent that is so far below the end of its range: the product of those that are not 0.
    fn and(self, below: usize) -> Self {
        let below = u128::try_from(below).unwrap_or(u128::MAX);
        match self {
            _ if below == 0 => self,
            Self::Exact => Self::Within(below),
            Self::Within(before) => Self::Within(before.saturating_mul(below)),
        }
    }

    fn both(self, other: Self) -> Self {
        match (self, other) {
            (fit, Self::Exact) | (Self::Exact, fit) => fit,
            (Self::Within(one), Self::Within(other)) => Self::Within(one.saturating_mul(other)),
        }
    }
}

/// The stages of a network by the shapes that they take.
#[derive(Clone, Debug)]
pub struct StageChoice {
    network: String,
    stages: Vec<Takes>,
    /// What each takes, in words.
    known: Vec<String>,
}

impl Container {
    /// What chooses among the stages of `network`; of inputs that have a default, it knows those that runs give.
    ///
    /// # Errors
    /// A graph breaks the format's rules.
    pub fn stage_choice(
        &self,
        network: &Network<usize>,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<StageChoice, ContainerError> {
        let (mut stages, mut known) = (Vec::new(), Vec::new());
        for stage in &network.stages {
            let inputs = self.inputs(stage, &is_given)?;
            known.push(said(&inputs, &stage.shapes));
            stages.push(takes(&inputs, &stage.shapes));
        }
        Ok(StageChoice { network: network.name.clone(), stages, known })
    }

    /// The stage of `network` that takes inputs of these shapes: see [`StageChoice::choose`].
    ///
    /// # Errors
    /// As there, or a graph breaks the format's rules.
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
    /// The stage that takes inputs of the shapes which `given` knows: the first whose shapes equal them, else the one whose ranges
    /// end least above them, by the product of the differences that are not 0, the first of equals. A network of one stage
    /// takes as well what has as many elements in each input. Inputs of which nothing is given fit all stages. What a stage takes is
    /// what its graph fixes, what the stage says beside that, and what follows by the names of dimensions. No heap but for errors.
    ///
    /// # Errors
    /// No stage takes them, or there are several, and nothing is given of an input that tells them apart.
    pub fn choose<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a [usize]>,
    ) -> Result<usize, ContainerError> {
        let mut best: Option<(Fit, usize)> = None;
        for (index, stage) in self.stages.iter().enumerate() {
            let fit = fit_all(stage, &given);
            if let Some(fit) = fit.filter(|fit| best.is_none_or(|(before, _)| *fit < before)) {
                best = Some((fit, index));
            }
        }
        match (best, self.stages.as_slice()) {
            (Some((_, index)), [_]) => Ok(index),
            (Some((_, index)), stages) if are_told_apart(stages, &given) => Ok(index),
            (Some(_), _) => {
                let (network, known) = (self.network.clone(), self.known.clone());
                Err(ContainerError::SeveralStages { network, known })
            }
            (None, [only]) if reshapes(only, &given) => Ok(0),
            (None, _) => {
                let (network, known) = (self.network.clone(), self.known.clone());
                Err(ContainerError::NoStage { network, found: self.found(&given), known })
            }
        }
    }

    /// What is given of the inputs, in words.
    fn found<'a>(&self, given: &impl Fn(&str) -> Option<&'a [usize]>) -> String {
        let inputs = self.stages.first().into_iter().flatten();
        let found = inputs.filter_map(|(name, _)| {
            let dims = format!("{:?}", given(name)?).replace(' ', "");
            Some(format!("{name} {dims}"))
        });
        found.collect::<Vec<_>>().join(", ")
    }
}

/// Whether a stage takes inputs of these shapes after each is reshaped to as many elements.
fn reshapes<'a>(takes: &Takes, given: &impl Fn(&str) -> Option<&'a [usize]>) -> bool {
    let product = |n: usize, extent: usize| n.checked_mul(extent);
    takes.iter().all(|(name, extents)| {
        let Some(found) = given(name) else { return true };
        let wanted = extents.iter().try_fold(1, |n, extent| match *extent {
            Extent::Fixed(extent) => product(n, extent),
            Extent::Range { .. } | Extent::Any => None,
        });
        wanted.is_some() && wanted == found.iter().try_fold(1, |n, &extent| product(n, extent))
    })
}

/// What each extent of an input is in a stage.
pub(super) fn extents(of: &TensorType, shape: Option<&Vec<Extent>>) -> Vec<Extent> {
    let extent = |(axis, dim): (usize, &DimSpec)| match (shape.and_then(|of| of.get(axis)), dim) {
        (_, DimSpec::Fixed(extent)) => Extent::Fixed(*extent),
        (Some(extent), _) => *extent,
        (None, DimSpec::Named(_) | DimSpec::Unknown) => Extent::Any,
    };
    of.dims.iter().enumerate().map(extent).collect()
}

/// What a stage takes of each input.
type Takes = Vec<(String, Vec<Extent>)>;

/// What a stage takes: an extent that has a name is what the stage says of another one of that name.
fn takes(inputs: &[(String, TensorType)], shapes: &BTreeMap<String, Vec<Extent>>) -> Takes {
    let mut dims = Dims::new();
    for (name, of) in inputs {
        for (dim, extent) in of.dims.iter().zip(extents(of, shapes.get(name))) {
            if let (DimSpec::Named(name), Extent::Fixed(_) | Extent::Range { .. }) = (dim, extent) {
                dims.insert(name.clone(), extent);
            }
        }
    }
    let input = |(name, of): &(String, TensorType)| {
        let extents = extents(of, shapes.get(name)).into_iter().zip(&of.dims);
        let extents = extents.map(|(extent, dim)| match (extent, dim) {
            (Extent::Any, DimSpec::Named(name)) => dims.get(name).copied().unwrap_or(extent),
            (Extent::Any | Extent::Fixed(_) | Extent::Range { .. }, _) => extent,
        });
        (name.clone(), extents.collect())
    };
    inputs.iter().map(input).collect()
}

/// Whether stages take different shapes of an input of which something is given.
fn are_told_apart<'a>(stages: &[Takes], given: &impl Fn(&str) -> Option<&'a [usize]>) -> bool {
    let Some((first, others)) = stages.split_first() else { return false };
    first.iter().filter(|(name, _)| given(name).is_some()).any(|(name, extents)| {
        let same = |stage: &Takes| stage.iter().any(|(input, of)| input == name && of == extents);
        !others.iter().all(same)
    })
}

/// How well a stage takes all that is given; what the network does not have is refused where it is used.
fn fit_all<'a>(takes: &Takes, given: &impl Fn(&str) -> Option<&'a [usize]>) -> Option<Fit> {
    takes.iter().try_fold(Fit::Exact, |all, (name, extents)| match given(name) {
        Some(found) => Some(all.both(fit(extents, found)?)),
        None => Some(all),
    })
}

impl<G> Network<G> {
    /// A stage of the network.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn stage(&self, index: usize) -> Result<&Stage<G>, ContainerError> {
        self.stages.get(index).ok_or_else(|| ContainerError::NoSuchStage {
            network: self.name.clone(),
            found: index,
            last: self.stages.len().saturating_sub(1),
        })
    }
}

/// Readies a graph for the shapes of its stages: an extent that one of them gives a range gets a name.
///
/// # Errors
/// Shapes that are none of the graph's inputs, or two stages of the same shapes.
pub fn ready(
    graph: &mut Graph,
    stages: &[BTreeMap<String, Vec<Extent>>],
) -> Result<(), ContainerError> {
    for (name, of) in inputs(graph) {
        let ranged = |axis: usize| {
            let extent = |shapes: &BTreeMap<_, Vec<_>>| shapes.get(name)?.get(axis).copied();
            stages.iter().any(|shapes| matches!(extent(shapes), Some(Extent::Range { .. })))
        };
        for (axis, dim) in of.dims.iter_mut().enumerate() {
            if *dim == DimSpec::Unknown && ranged(axis) {
                *dim = DimSpec::Named(format!("{name}.{axis}"));
            }
        }
    }
    let inputs: Vec<_> = inputs(graph).map(|(name, of)| (name.clone(), of.clone())).collect();
    for (index, shapes) in stages.iter().enumerate() {
        check(&format!("stage {index}"), &inputs, shapes)?;
        if let Some(first) = stages.iter().take(index).position(|before| before == shapes) {
            let found = format!("the shapes of stage {first}");
            return Err(ContainerError::malformed(format!("stage {index}"), found, "others"));
        }
    }
    Ok(())
}
