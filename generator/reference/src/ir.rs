//! The one form that evaluation, bounds of error and printing read: tensors one after the other, each with the
//! extents of its indices and what an element is.
//!
//! Whole-tensor expressions are elements here as well: of the tensor at [`HERE`], the coordinates of the element that is
//! worked out, to which operands are aligned as numpy broadcasts them.

mod pointwise;
mod walk;

pub(crate) use pointwise::is_pointwise;
pub(crate) use walk::Seen;

use crate::{
    fault::Position,
    function::{Binary, Unary},
    signature::Class,
};

/// A local or early value, numbered through the program; lists and numbers count apart.
pub(crate) type Slot = usize;

/// The list that holds the coordinates of the element that a whole-tensor expression is worked out for.
pub(crate) const HERE: Slot = 0;

/// A checked program.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) steps: Vec<Step>,
    pub(crate) defs: Vec<Def>,
    /// Of each output, its definition and how far its tolerance is loosened.
    pub(crate) outputs: Vec<Output>,
    pub(crate) scalars: Vec<Local>,
    pub(crate) lists: Vec<Local>,
}

/// A number or list that is named, by the source or not.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    pub(crate) class: Class,
    pub(crate) name: Option<String>,
    /// Whether an index or a local `let` binds it; else it is known with the shapes.
    pub(crate) inner: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) def: usize,
    pub(crate) tolerance: Option<Loosened>,
}

/// What a `tolerance` statement says.
#[derive(Debug, Clone, PartialEq)]
pub struct Loosened {
    /// Of the value's magnitude.
    pub relative: f64,
    /// Added to that.
    pub absolute: f64,
    /// Why it is needed.
    pub reason: String,
}

/// What is worked out in order, if all of its guards hold.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: Position,
    pub(crate) guards: Vec<Guard>,
    pub(crate) kind: StepKind,
}

/// What an early truth value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) slot: Slot,
    pub(crate) holds: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum StepKind {
    /// A number that is known with the shapes.
    Scalar(Slot, Scalar),
    /// A list that is known with the shapes.
    List(Slot, List),
    Require(Scalar, String),
    Def(usize),
}

/// A tensor that is worked out.
#[derive(Debug, Clone)]
pub(crate) struct Def {
    /// What the source calls it, if it does.
    pub(crate) name: Option<String>,
    pub(crate) class: Class,
    pub(crate) kind: DefKind,
    /// The definition of the same kind that this is the rest of: what rounding took from each of its elements.
    pub(crate) rest_of: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum DefKind {
    Elements { binders: Vec<Binder>, body: Scalar },
    Select(Box<Select>),
}

/// The indices below `count` that are selected, as a vector.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) index: Slot,
    pub(crate) count: Scalar,
    pub(crate) condition: Scalar,
    /// Descending order; without one, by index.
    pub(crate) by: Option<Scalar>,
    pub(crate) limit: Option<Scalar>,
    /// One selected before, and what drops a candidate next to it.
    pub(crate) unless: Option<(Slot, Scalar)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Binder {
    /// An index below a number.
    Index(Slot, Scalar),
    /// Indices below those of a list.
    Pack(Slot, List),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Input(usize),
    Param(usize),
    Def(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Scalar {
    Float(f64),
    Int(i64),
    Bool(bool),
    /// A parameter that is a number or a truth value.
    Param(usize),
    Var(Slot),
    Item(Box<List>, Box<Scalar>, Position),
    Len(Box<List>),
    /// How many elements a tensor of these extents has.
    Product(Box<List>),
    /// The number of the element at these coordinates in a tensor of these extents.
    Ravel(Box<List>, Box<List>),
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
    Let(Slot, Box<Scalar>, Box<Scalar>),
    /// The element with [`HERE`] somewhere else.
    There(Box<List>, Box<Scalar>),
    Fold(Box<FoldLoop>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Text {
    Param(usize),
    Literal(String),
}

#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) at: Position,
    pub(crate) source: Source,
    pub(crate) coords: List,
    /// What is read outside of the extents; an error without it.
    pub(crate) outside: Option<Scalar>,
}

#[derive(Debug, Clone)]
pub(crate) struct FoldLoop {
    pub(crate) at: Position,
    pub(crate) fold: Fold,
    /// What the folded elements are.
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

/// The word of selections, which are written as folds are.
pub(crate) const SELECT: &str = "select";

/// Whether a name begins a fold when indices follow it.
pub(crate) fn is_fold(name: &str) -> bool {
    name == SELECT || FOLDS.iter().any(|(fold, _)| *fold == name)
}

/// A list of a few integers: extents, coordinates, axes.
#[derive(Debug, Clone)]
pub(crate) enum List {
    Items(Vec<Item>),
    Dims(Source),
    Var(Slot),
    Slice(Box<List>, Option<Box<Scalar>>, Option<Box<Scalar>>),
    /// An item for each number below the count.
    For(Slot, Box<Scalar>, Box<Scalar>),
    If(Box<Scalar>, Box<List>, Box<List>),
    /// The extents to which several are broadcast.
    Broadcast(Vec<List>, Position),
    /// The coordinates of an operand of these extents where those of the result are the first.
    Align(Box<List>, Box<List>),
    /// The coordinates of the element of this number.
    Unravel(Box<Scalar>, Box<List>),
    /// What axes do to extents or coordinates.
    Axes(Box<Axes>),
}

#[derive(Debug, Clone)]
pub(crate) struct Axes {
    pub(crate) at: Position,
    pub(crate) what: AxesOf,
    /// The extents before the reduction.
    pub(crate) dims: List,
    /// The axes that are reduced, all of them without a list.
    pub(crate) reduced: Option<List>,
}

#[derive(Debug, Clone)]
pub(crate) enum AxesOf {
    /// The extents that are reduced.
    Reduced,
    /// The extents that are left; reduced ones are 1 if the flag holds, and absent else.
    Left(Scalar),
    /// Coordinates before the reduction, of those left and those reduced, in this order, with the flag.
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

    /// How many items it has, where that is known without shapes.
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
            Self::Align(_, of) | Self::Unravel(_, of) => of.known_len(rank),
            Self::For(_, count, _) => match &**count {
                Scalar::Int(len) => usize::try_from(*len).ok(),
                Scalar::Len(list) => list.known_len(rank),
                _ => None,
            },
            Self::Var(_) | Self::Slice(..) | Self::Axes(_) => None,
        }
    }
}
