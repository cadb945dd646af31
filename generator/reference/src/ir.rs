//! The intermediate representation of a program, which `lower` creates for evaluation and printing: a sequence of
//! definitions, which are tensors, each with the ranges of its indices and the expression of an element.
//!
//! Whole-tensor expressions such as `x + 1` are element expressions too. They compute the element at the coordinates
//! [`HERE`], and numpy's broadcasting rules align the operands with them.

mod pointwise;
mod walk;

pub(crate) use pointwise::is_pointwise;
pub(crate) use walk::Seen;

use crate::{
    fault::Position,
    function::{Binary, Unary},
    signature::Class,
};

/// The index of a local or early value; scalars and lists are counted separately. An early value depends on shapes and
/// parameters only, so that finalize can compute it.
pub(crate) type Slot = usize;

/// The list with the coordinates of the element that a whole-tensor expression computes.
pub(crate) const HERE: Slot = 0;

/// A checked program.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) steps: Vec<Step>,
    pub(crate) defs: Vec<Def>,
    /// The definition of each output, and its loosened tolerance.
    pub(crate) outputs: Vec<Output>,
    pub(crate) scalars: Vec<Local>,
    pub(crate) lists: Vec<Local>,
}

/// A scalar or list with a slot.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    pub(crate) class: Class,
    pub(crate) name: Option<String>,
    /// Whether an index or a local `let` binds it; otherwise it depends on shapes and parameters only.
    pub(crate) inner: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) def: usize,
    pub(crate) tolerance: Option<Loosened>,
}

/// The content of a `tolerance` statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Loosened {
    /// The tolerance relative to the magnitude.
    pub relative: f64,
    /// The absolute tolerance, which is added.
    pub absolute: f64,
    /// The reason.
    pub reason: String,
}

/// A step of the evaluation, which runs if all of its guards hold.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: Position,
    pub(crate) guards: Vec<Guard>,
    pub(crate) kind: StepKind,
}

/// A required value of an early bool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) slot: Slot,
    pub(crate) holds: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum StepKind {
    /// A scalar that depends on shapes and parameters only.
    Scalar(Slot, Scalar),
    /// A list that depends on shapes and parameters only.
    List(Slot, List),
    Require(Scalar, String),
    Def(usize),
}

/// A computed tensor.
#[derive(Debug, Clone)]
pub(crate) struct Def {
    /// Its name in the source, if it has one.
    pub(crate) name: Option<String>,
    pub(crate) class: Class,
    pub(crate) kind: DefKind,
    /// The definition whose rounding errors this one computes (see `print::rests`).
    pub(crate) rest_of: Option<usize>,
}

/// The computation of a tensor.
#[derive(Debug, Clone)]
pub(crate) enum DefKind {
    /// An element for each value of the indices.
    Elements {
        binders: Vec<Binder>,
        body: Scalar,
    },
    Select(Box<Select>),
}

/// The selected indices below `count`, as a vector.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) index: Slot,
    pub(crate) count: Scalar,
    pub(crate) condition: Scalar,
    /// The score, in descending order; without one the order is by index.
    pub(crate) by: Option<Scalar>,
    pub(crate) limit: Option<Scalar>,
    /// An earlier selected index, and the condition that drops a candidate because of it.
    pub(crate) unless: Option<(Slot, Scalar)>,
}

/// An index of a definition or fold, and its range.
#[derive(Debug, Clone)]
pub(crate) enum Binder {
    /// An index below a number.
    Index(Slot, Scalar),
    /// A list of indices, each below the item of another list.
    Pack(Slot, List),
}

/// A tensor that can be read: an input, a tensor parameter or a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Input(usize),
    Param(usize),
    Def(usize),
}

/// An expression of a number or bool.
#[derive(Debug, Clone)]
pub(crate) enum Scalar {
    Float(f64),
    Int(i64),
    Bool(bool),
    /// A number or bool parameter.
    Param(usize),
    Var(Slot),
    /// The item of a list at an index.
    Item(Box<List>, Box<Scalar>, Position),
    Len(Box<List>),
    /// The number of elements of a tensor with these dimensions.
    Product(Box<List>),
    /// The linear index of the element at these coordinates in a tensor with these dimensions.
    Ravel(Box<List>, Box<List>),
    /// Whether a node has this input.
    Present(usize),
    TextIs(Text, Text),
    Read(Box<Read>),
    Unary(Unary, Box<Scalar>),
    Binary(Binary, Box<Scalar>, Box<Scalar>, Position),
    Not(Box<Scalar>),
    And(Box<Scalar>, Box<Scalar>),
    Or(Box<Scalar>, Box<Scalar>),
    Cast(Class, Box<Scalar>),
    If(Box<Scalar>, Box<Scalar>, Box<Scalar>),
    /// A local value, and the expression that uses it.
    Let(Slot, Box<Scalar>, Box<Scalar>),
    /// The expression with [`HERE`] set to these coordinates.
    There(Box<List>, Box<Scalar>),
    Fold(Box<FoldLoop>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Text {
    Param(usize),
    Literal(String),
}

/// A read of one element.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) at: Position,
    pub(crate) source: Source,
    pub(crate) coords: List,
    /// The value outside of the dimensions; without it such a read is an error.
    pub(crate) outside: Option<Scalar>,
}

/// A fold over indices.
#[derive(Debug, Clone)]
pub(crate) struct FoldLoop {
    pub(crate) at: Position,
    pub(crate) fold: Fold,
    /// The class of the folded elements.
    pub(crate) class: Class,
    pub(crate) binders: Vec<Binder>,
    pub(crate) body: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Prod,
    Mean,
    Max,
    Min,
    ArgMax,
    ArgMin,
    Any,
    All,
    Count,
}

/// The folds by name.
pub(crate) const FOLDS: &[(&str, Fold)] = &[
    ("sum", Fold::Sum),
    ("prod", Fold::Prod),
    ("mean", Fold::Mean),
    ("max", Fold::Max),
    ("min", Fold::Min),
    ("argmax", Fold::ArgMax),
    ("argmin", Fold::ArgMin),
    ("any", Fold::Any),
    ("all", Fold::All),
    ("count", Fold::Count),
];

/// The keyword of selections, which have the syntax of folds.
pub(crate) const SELECT: &str = "select";

/// Whether a name followed by indices begins a fold.
pub(crate) fn is_fold(name: &str) -> bool {
    name == SELECT || FOLDS.iter().any(|(fold, _)| *fold == name)
}

/// A list of a few integers: dimensions, coordinates, axes.
#[derive(Debug, Clone)]
pub(crate) enum List {
    Items(Vec<Item>),
    Dims(Source),
    Var(Slot),
    Slice(Box<List>, Option<Box<Scalar>>, Option<Box<Scalar>>),
    /// One item for each number below the count.
    For(Slot, Box<Scalar>, Box<Scalar>),
    If(Box<Scalar>, Box<List>, Box<List>),
    /// The broadcast of several shapes.
    Broadcast(Vec<List>, Position),
    /// The coordinates in an operand with these dimensions (the second list) for the coordinates in the broadcast
    /// result.
    Align(Box<List>, Box<List>),
    /// The coordinates of the element with this linear index.
    Unravel(Box<Scalar>, Box<List>),
    /// The dimensions or coordinates of a fold along axes.
    Axes(Box<Axes>),
}

/// A list that a fold along axes derives from the dimensions of its operand.
#[derive(Debug, Clone)]
pub(crate) struct Axes {
    pub(crate) at: Position,
    pub(crate) what: AxesOf,
    /// The dimensions before the reduction.
    pub(crate) dims: List,
    /// The reduced axes; all axes if there is no list.
    pub(crate) reduced: Option<List>,
}

#[derive(Debug, Clone)]
pub(crate) enum AxesOf {
    /// The reduced dimensions.
    Reduced,
    /// The remaining dimensions; reduced ones become 1 if the flag holds, and are dropped otherwise.
    Left(Scalar),
    /// The coordinates before the reduction, from those of the result and of the reduced axes, with the flag.
    Merged(List, List, Scalar),
}

#[derive(Debug, Clone)]
pub(crate) enum Item {
    One(Scalar),
    Spread(List),
}

impl Scalar {
    pub(crate) fn read(source: Source, coords: List, at: Position) -> Self {
        Self::Read(Box::new(Read { at, source, coords, outside: None }))
    }

    pub(crate) fn binary(op: Binary, left: Self, right: Self, at: Position) -> Self {
        Self::Binary(op, Box::new(left), Box::new(right), at)
    }

    pub(crate) fn choice(condition: Self, then: Self, otherwise: Self) -> Self {
        Self::If(Box::new(condition), Box::new(then), Box::new(otherwise))
    }
}

impl List {
    pub(crate) fn item(self, at: Scalar, position: Position) -> Scalar {
        Scalar::Item(Box::new(self), Box::new(at), position)
    }

    pub(crate) fn slice(self, from: Option<Scalar>, to: Option<Scalar>) -> Self {
        Self::Slice(Box::new(self), from.map(Box::new), to.map(Box::new))
    }

    /// Returns the number of items if it is known without shapes.
    pub(crate) fn known_len(&self, rank: &impl Fn(Source) -> Option<usize>) -> Option<usize> {
        match self {
            Self::Items(items) => items.iter().try_fold(0, |sum, item| match item {
                Item::One(_) => Some(sum + 1),
                Item::Spread(list) => Some(sum + list.known_len(rank)?),
            }),
            Self::Dims(source) => rank(*source),
            Self::If(_, then, otherwise) => {
                then.known_len(rank).filter(|len| Some(*len) == otherwise.known_len(rank))
            }
            Self::Broadcast(lists, _) => {
                let lens = lists.iter().map(|list| list.known_len(rank));
                lens.collect::<Option<Vec<_>>>()?.into_iter().max()
            }
            Self::Align(_, dims) | Self::Unravel(_, dims) => dims.known_len(rank),
            Self::For(_, count, _) => match &**count {
                Scalar::Int(len) => usize::try_from(*len).ok(),
                Scalar::Len(list) => list.known_len(rank),
                _ => None,
            },
            Self::Var(_) | Self::Slice(..) | Self::Axes(_) => None,
        }
    }
}
