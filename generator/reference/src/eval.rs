//! Evaluates a program: shapes from dimensions and parameters, values with their bounds from elements.

mod arguments;
mod fold;
mod list;
mod scalar;
mod select;

pub use arguments::{Argument, Arguments};
pub(crate) use list::Ints;

use crate::{
    bound::{Arithmetic, Num, Val},
    fault::{EvalError, Fault, Position},
    ir::{Binder, Code, DefKind, HERE, Source, StepKind},
    number::{integer, length},
    signature::{Class, Elements, Signature, Tensor, Value},
    storage::Storage,
};

/// The maximum rank of a tensor.
pub const MAX_RANK: usize = 8;

/// Settings of an evaluation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The arithmetic of the kernel under test.
    pub arithmetic: Arithmetic,
    /// The storage of each output.
    pub storage: Vec<Storage>,
    /// The maximum number of steps: about one per expression node and element.
    pub limit: u64,
}

impl Settings {
    /// Creates settings with the default limit.
    pub fn new(arithmetic: Arithmetic, storage: Vec<Storage>) -> Self {
        Self { arithmetic, storage, limit: DEFAULT_LIMIT }
    }
}

/// Enough for a convolution of some million products.
pub const DEFAULT_LIMIT: u64 = 1 << 28;

/// The step limit of shape inference.
const SHAPE_LIMIT: u64 = 1 << 20;

/// A dimension of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It has this size.
    Fixed(usize),
    /// Elements determine its size, which is at most this.
    UpTo(usize),
}

impl Extent {
    /// Returns the size or its upper bound.
    pub fn bound(self) -> usize {
        match self {
            Self::Fixed(extent) | Self::UpTo(extent) => extent,
        }
    }
}

/// An output with tolerances.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// Its dimensions and elements.
    pub tensor: Tensor,
    /// The tolerance of each element; infinite where any value is accepted. A bool with a nonzero tolerance may
    /// have either value.
    pub allowed: Vec<f64>,
    /// Whether the dimensions depend on values within their error bounds, so that they may differ.
    pub extents_unsure: bool,
}

/// Computes the dimensions of the outputs.
pub(crate) fn infer(
    code: &Code,
    signature: &Signature,
    arguments: &Arguments,
) -> Result<Vec<Vec<Extent>>, EvalError> {
    let extents = |mode| {
        let mut machine = Machine::new(code, signature, arguments, mode)?;
        machine.run()?;
        let dims = |of: &crate::ir::Output| machine.evaluated(of.def).map(|made| made.dims.clone());
        code.outputs.iter().map(dims).collect::<Result<Vec<_>, _>>()
    };
    // Dimensions that elements determine differ between the upper bound and zero.
    let (most, least) = (extents(Mode::Bounds)?, extents(Mode::Nothing)?);
    let pair = |(&most, &least): (&usize, &usize)| {
        if most == least { Extent::Fixed(most) } else { Extent::UpTo(most) }
    };
    let all = most.iter().zip(&least);
    Ok(all.map(|(most, least)| most.iter().zip(least).map(pair).collect()).collect())
}

/// Computes the outputs.
pub(crate) fn evaluate(
    code: &Code,
    signature: &Signature,
    arguments: &Arguments,
    settings: &Settings,
) -> Result<Vec<Evaluated>, EvalError> {
    if settings.storage.len() != code.outputs.len() {
        let (found, wanted) = (settings.storage.len(), code.outputs.len());
        return Err(EvalError::Arguments(format!(
            "found storage of {found} outputs, expected {wanted}"
        )));
    }
    let mut machine = Machine::new(code, signature, arguments, Mode::Values)?;
    machine.model = settings.arithmetic;
    (machine.limit, machine.left) = (settings.limit, settings.limit);
    machine.run()?;
    let shapes = infer(code, signature, arguments)?;
    let ports = signature.outputs.iter().zip(&shapes);
    let mut outputs = Vec::new();
    for ((output, storage), (port, shape)) in code.outputs.iter().zip(&settings.storage).zip(ports)
    {
        let made = machine.evaluated(output.def)?;
        let bounds = shape.iter().map(|extent| extent.bound());
        if made.dims.len() != shape.len()
            || made.dims.iter().zip(bounds).any(|(dim, bound)| *dim > bound)
        {
            let (name, dims) = (&port.name, &made.dims);
            return Err(
                machine.fault(format!("`{name}` is {dims:?}, more than its bound {shape:?}"))
            );
        }
        let stored: Vec<Val> = made.values.iter().map(|value| storage.stored(*value)).collect();
        let mut allowed: Vec<f64> = stored.iter().map(|value| value.error).collect();
        if let Some(loosened) = &output.tolerance {
            for (allowed, value) in allowed.iter_mut().zip(&stored) {
                *allowed = allowed.max(loosened.relative * value.real().abs() + loosened.absolute);
            }
        }
        let tensor = Tensor { dims: made.dims.clone(), elements: elements(port.class, &stored) };
        let is_bounded = shape.iter().any(|extent| matches!(extent, Extent::UpTo(_)));
        outputs.push(Evaluated { tensor, allowed, extents_unsure: is_bounded && machine.unsure });
    }
    Ok(outputs)
}

fn extents_product(dims: &[usize]) -> u64 {
    dims.iter().fold(1, |all: u64, dim| all.saturating_mul(u64::try_from(*dim).unwrap_or(u64::MAX)))
}

fn elements(class: Class, values: &[Val]) -> Elements {
    match class {
        Class::Float => Elements::Float(values.iter().map(|value| value.real()).collect()),
        Class::Int => Elements::Int(values.iter().map(|value| value.whole()).collect()),
        Class::Bool => Elements::Bool(values.iter().map(|value| value.holds()).collect()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Only dimensions, with each selection at its maximum.
    Bounds,
    /// Only dimensions, with each selection empty.
    Nothing,
    Values,
}

struct Machine<'a> {
    code: &'a Code,
    signature: &'a Signature,
    arguments: &'a Arguments,
    mode: Mode,
    model: Arithmetic,
    scalars: Vec<Val>,
    lists: Vec<Ints>,
    made: Vec<Option<EvaluatedDef>>,
    limit: u64,
    left: u64,
    /// The current statement.
    at: Position,
    /// Whether the current value depends on shapes and parameters only, and so is exact.
    early: bool,
    /// Whether a selection may differ within the error bounds.
    unsure: bool,
}

/// An evaluated definition; its elements only if values are requested.
#[derive(Debug, Default)]
struct EvaluatedDef {
    dims: Vec<usize>,
    values: Vec<Val>,
}

impl<'a> Machine<'a> {
    fn new(
        code: &'a Code,
        signature: &'a Signature,
        arguments: &'a Arguments,
        mode: Mode,
    ) -> Result<Self, EvalError> {
        arguments::check(signature, arguments)?;
        Ok(Self {
            code,
            signature,
            arguments,
            mode,
            model: Arithmetic::F64,
            scalars: vec![Val::int(0); code.scalars.len()],
            lists: vec![Ints::EMPTY; code.lists.len()],
            made: code.defs.iter().map(|_| None).collect(),
            limit: SHAPE_LIMIT,
            left: SHAPE_LIMIT,
            at: Position { line: 1, column: 1 },
            early: true,
            unsure: false,
        })
    }

    fn run(&mut self) -> Result<(), EvalError> {
        let code = self.code;
        for step in &code.steps {
            self.at = step.at;
            let mut holds = true;
            for guard in &step.guards {
                let value = self.scalars.get(guard.slot);
                holds &= value.is_some_and(|value| value.holds()) == guard.holds;
            }
            if !holds {
                continue;
            }
            self.early = true;
            match &step.kind {
                StepKind::Scalar(slot, scalar) => {
                    let value = self.scalar(scalar)?;
                    let value = match value.num {
                        Num::Float(number) => self.model.round_input(number),
                        Num::Int(_) | Num::Bool(_) => Val { error: 0.0, ..value },
                    };
                    self.set(*slot, value);
                }
                StepKind::List(slot, list) => {
                    let list = self.list(list)?;
                    self.set_list(*slot, &list);
                }
                StepKind::Require(condition, wanted) => {
                    if !self.scalar(condition)?.holds() {
                        return Err(self.fault(format!("requirement not met: {wanted}")));
                    }
                }
                StepKind::Def(def) => {
                    let made = self.define(*def)?;
                    if let Some(place) = self.made.get_mut(*def) {
                        *place = Some(made);
                    }
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, def: usize) -> Result<EvaluatedDef, EvalError> {
        let code = self.code;
        let Some(def) = code.defs.get(def) else { return Err(self.broken()) };
        match &def.kind {
            DefKind::Select(select) => self.select(select),
            DefKind::Elements { binders, body } => {
                let extents = self.extents(binders)?;
                let dims = self.dims(&extents)?;
                if self.mode != Mode::Values {
                    return Ok(EvaluatedDef { dims, ..EvaluatedDef::default() });
                }
                self.early = false;
                // Each element takes a step, so larger tensors than the remaining steps allow are not allocated.
                if extents_product(&dims) > self.left {
                    return Err(EvalError::Work { at: self.at, limit: self.limit });
                }
                let mut values = Vec::new();
                self.each(binders, &extents, &mut |machine| {
                    let value = machine.scalar(body)?;
                    values.push(if def.class == Class::Float {
                        machine.model.converted(value)
                    } else {
                        value
                    });
                    Ok(())
                })?;
                Ok(EvaluatedDef { dims, values })
            }
        }
    }

    /// Computes the ranges of indices; a negative one is empty.
    fn extents(&mut self, binders: &[Binder]) -> Result<Vec<Ints>, EvalError> {
        let mut all = Vec::new();
        for binder in binders {
            all.push(match binder {
                Binder::Index(_, count) => Ints::one(self.scalar(count)?),
                Binder::Pack(_, extents) => self.list(extents)?,
            });
        }
        Ok(all)
    }

    /// Checks that the ranges are valid tensor dimensions.
    fn dims(&mut self, extents: &[Ints]) -> Result<Vec<usize>, EvalError> {
        let mut dims = Vec::new();
        let mut elements: usize = 1;
        for &extent in extents.iter().flat_map(Ints::items) {
            let Some(dim) = length(extent) else {
                return Err(self.fault(format!("the dimension {extent} is negative")));
            };
            dims.push(dim);
            elements = match elements.checked_mul(dim.max(1)) {
                Some(elements) if isize::try_from(elements).is_ok() => elements,
                _ => return Err(self.fault("the tensor has too many elements")),
            };
        }
        if dims.len() > MAX_RANK {
            return Err(
                self.fault(format!("the rank is {}, expected at most {MAX_RANK}", dims.len()))
            );
        }
        Ok(dims)
    }

    /// Calls `body` for all values of the indices; the last index runs fastest.
    fn each(
        &mut self,
        binders: &[Binder],
        extents: &[Ints],
        body: &mut dyn FnMut(&mut Self) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        let ends: Vec<i64> = extents.iter().flat_map(Ints::items).copied().collect();
        if ends.iter().any(|end| *end <= 0) {
            return Ok(());
        }
        let mut now = vec![0_i64; ends.len()];
        loop {
            self.spend()?;
            self.bind(binders, extents, &now);
            body(self)?;
            let mut is_done = true;
            for (index, end) in now.iter_mut().zip(&ends).rev() {
                *index += 1;
                if *index < *end {
                    is_done = false;
                    break;
                }
                *index = 0;
            }
            if is_done {
                return Ok(());
            }
        }
    }

    fn bind(&mut self, binders: &[Binder], extents: &[Ints], now: &[i64]) {
        let mut rest = now;
        for (binder, extents) in binders.iter().zip(extents) {
            let (taken, left) = rest.split_at_checked(extents.items().len()).unwrap_or((rest, &[]));
            rest = left;
            match binder {
                Binder::Index(slot, _) => {
                    let index = taken.first().copied().unwrap_or(0);
                    self.set(*slot, Val::int(index));
                }
                Binder::Pack(slot, _) => self.set_list(*slot, &Ints::from_items(taken)),
            }
        }
    }

    fn set(&mut self, slot: usize, value: Val) {
        if let Some(place) = self.scalars.get_mut(slot) {
            *place = value;
        }
    }

    fn set_list(&mut self, slot: usize, list: &Ints) {
        if let Some(place) = self.lists.get_mut(slot) {
            *place = *list;
        }
    }

    fn here(&self) -> Ints {
        self.lists.get(HERE).copied().unwrap_or(Ints::EMPTY)
    }

    fn evaluated(&self, def: usize) -> Result<&EvaluatedDef, EvalError> {
        self.made.get(def).and_then(Option::as_ref).ok_or_else(|| self.broken())
    }

    /// Returns the tensor of an input or a parameter, or its default.
    fn tensor_of(&self, source: Source) -> Option<&'a Tensor> {
        match source {
            Source::Input(input) => match self.arguments.inputs.get(input)? {
                Argument::Tensor(tensor) => Some(tensor),
                Argument::Absent => self.signature.inputs.get(input)?.default.as_ref(),
                Argument::Dims(_) => None,
            },
            Source::Param(param) => match self.param(param)? {
                Value::Tensor(tensor) => Some(tensor),
                _ => None,
            },
            Source::Def(_) => None,
        }
    }

    fn param(&self, param: usize) -> Option<&'a Value> {
        let given = self.arguments.params.get(param).and_then(Option::as_ref);
        given.or_else(|| self.signature.params.get(param)?.default.as_ref())
    }

    fn source_dims(&self, source: Source) -> Result<&[usize], EvalError> {
        if let Source::Def(def) = source {
            return Ok(&self.evaluated(def)?.dims);
        }
        if let Some(tensor) = self.tensor_of(source) {
            return Ok(&tensor.dims);
        }
        match source {
            Source::Input(input) => {
                if let Some(Argument::Dims(dims)) = self.arguments.inputs.get(input) {
                    return Ok(dims);
                }
                let name = self.signature.inputs.get(input).map_or("", |input| &*input.name);
                Err(self.fault(format!("the dimensions of the absent input `{name}` are read")))
            }
            Source::Param(_) | Source::Def(_) => Err(self.broken()),
        }
    }

    fn ints_of_dims(&self, source: Source) -> Result<Ints, EvalError> {
        let mut list = Ints::EMPTY;
        for &dim in self.source_dims(source)? {
            list.push(integer(dim), 0.0);
        }
        Ok(list)
    }

    fn spend(&mut self) -> Result<(), EvalError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(EvalError::Work { at: self.at, limit: self.limit }),
        }
    }

    fn fault(&self, message: impl Into<String>) -> EvalError {
        EvalError::Program(Fault::new(self.at, message))
    }

    /// Returns the error for a state that the checker excludes.
    fn broken(&self) -> EvalError {
        self.fault("a part of the reference is used before it is evaluated; please report this bug of the checker")
    }
}
