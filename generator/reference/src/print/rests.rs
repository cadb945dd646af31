//! Finds the sums and means that differences need in higher precision, and adds definitions of their rounding errors,
//! which are called rests.
//!
//! A mean of 10,000 in single precision is off by up to 0.0005, which is large compared with deviations of 0.01. The
//! mean therefore gets a second definition, its rest, and a difference uses both. A rest costs another pass over the
//! terms. It is added only for sums that are subtracted from more elements than they have, as in a normalization, and
//! for sums of plain elements, but not for scores of a matrix product from which a maximum is subtracted.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    function::{Binary, Unary},
    ir::{
        AxesOf, Binder, Code, Def, DefKind, Fold, HERE, Item, List, Scalar, Seen, Slot, Source,
        StepKind,
    },
    signature::Class,
};

/// Returns the program with a definition for the rest of each sum or mean that a difference needs.
pub(super) fn with_rests(code: &Code) -> Code {
    let mut code = code.clone();
    for def_index in needed(&code) {
        let Some(def) = code.defs.get(def_index) else { continue };
        let name = def.name.as_ref().map(|name| format!("{name}_rest"));
        let rest = Def { name, rest_of: Some(def_index), ..def.clone() };
        let rest_index = code.defs.len();
        code.defs.push(rest);
        let defines_sum = |kind: &StepKind| matches!(kind, StepKind::Def(def) if *def == def_index);
        if let Some(step_index) = code.steps.iter().position(|step| defines_sum(&step.kind))
            && let Some(step) = code.steps.get(step_index)
        {
            let step = crate::ir::Step { kind: StepKind::Def(rest_index), ..step.clone() };
            code.steps.insert(step_index + 1, step);
        }
    }
    code
}

/// Returns the rest of a definition.
pub(super) fn rest_of(code: &Code, def: usize) -> Option<usize> {
    code.defs.iter().position(|other| other.rest_of == Some(def))
}

/// Returns the definitions whose rests differences need.
fn needed(code: &Code) -> BTreeSet<usize> {
    let bodies: Vec<&Scalar> = code.defs.iter().flat_map(|def| bodies_of(&def.kind)).collect();
    let locals = locals_of(&bodies);
    let sums = Sums::find(code, &locals);
    let mut needed = BTreeSet::new();
    let mut pending = Vec::new();
    for body in bodies {
        each_scalar(body, &mut |scalar| {
            let operands = subtracted(scalar);
            for side in &operands {
                let is_repeated = operands.iter().any(|other| has_more_indices(other, side));
                chain(side, &locals, &mut |leaf| {
                    let read = reads(leaf, &sums.has_rest);
                    pending.extend(read.filter(|def| is_repeated || sums.is_cheap(*def)));
                    false
                });
            }
        });
    }
    while let Some(def) = pending.pop() {
        if let Some(DefKind::Elements { body, .. }) = code.defs.get(def).map(|def| &def.kind)
            && needed.insert(def)
        {
            chain(body, &locals, &mut |leaf| {
                pending.extend(reads(leaf, &sums.has_rest));
                false
            });
        }
    }
    needed
}

/// Returns the element expressions of a definition, without dimensions.
fn bodies_of(kind: &DefKind) -> Vec<&Scalar> {
    match kind {
        DefKind::Elements { body, .. } => vec![body],
        DefKind::Select(select) => {
            let drops = select.unless.as_ref().map(|(_, drops)| drops);
            let parts = [Some(&select.condition), select.by.as_ref(), drops];
            parts.into_iter().flatten().collect()
        }
    }
}

/// The values of local names.
type Locals<'s> = BTreeMap<Slot, &'s Scalar>;

fn locals_of<'s>(bodies: &[&'s Scalar]) -> Locals<'s> {
    let mut locals = BTreeMap::new();
    for body in bodies {
        each_scalar(body, &mut |scalar| {
            if let Scalar::Let(slot, value, _) = scalar {
                locals.insert(*slot, &**value);
            }
        });
    }
    locals
}

/// For each definition, whether it consists of sums, and whether its rest is worth computing wherever it is subtracted.
struct Sums {
    has_rest: Vec<bool>,
    is_cheap: Vec<bool>,
}

impl Sums {
    fn find(code: &Code, locals: &Locals<'_>) -> Self {
        let mut sums = Self { has_rest: Vec::new(), is_cheap: Vec::new() };
        // Definitions read only earlier ones.
        for def in &code.defs {
            let (mut has_rest, mut is_cheap) = (false, false);
            if let (DefKind::Elements { binders, body }, Class::Float) = (&def.kind, def.class) {
                has_rest = sums.are_in(body, locals);
                let is_kept = is_kept(binders);
                is_cheap = chain(body, locals, &mut |leaf| match leaf {
                    Scalar::Fold(fold) => is_sum(leaf) && (is_kept || is_element(&fold.body)),
                    leaf => reads(leaf, &sums.is_cheap).is_some(),
                });
            }
            sums.has_rest.push(has_rest);
            sums.is_cheap.push(has_rest && is_cheap);
        }
        sums
    }

    /// Whether a number is a sum, or consists of sums and early values.
    fn are_in(&self, scalar: &Scalar, locals: &Locals<'_>) -> bool {
        match scalar {
            Scalar::Fold(_) => is_sum(scalar),
            Scalar::Read(_) => reads(scalar, &self.has_rest).is_some(),
            Scalar::Unary(function, operand) if is_neg(*function) => self.are_in(operand, locals),
            Scalar::There(_, body) => self.are_in(body, locals),
            Scalar::If(_, then, otherwise) => {
                self.are_in(then, locals) || self.are_in(otherwise, locals)
            }
            Scalar::Binary(Binary::Mul | Binary::Div, left, right, _) => {
                self.are_in(left, locals) || self.are_in(right, locals)
            }
            Scalar::Binary(Binary::Add | Binary::Sub, left, right, _) => {
                let are_in = [left, right].map(|side| self.are_in(side, locals));
                let is_fine = [left, right].map(|side| !reads_elements(side));
                are_in == [true, true] || are_in[0] && is_fine[1] || are_in[1] && is_fine[0]
            }
            Scalar::Var(slot) => locals.get(slot).is_some_and(|value| self.are_in(value, locals)),
            _ => false,
        }
    }

    fn is_cheap(&self, def: usize) -> bool {
        self.is_cheap.get(def).copied().unwrap_or_default()
    }
}

/// Whether the coordinates repeat a sum along the tensor's other axes.
fn is_kept(binders: &[Binder]) -> bool {
    match binders {
        [] => true,
        [Binder::Pack(_, List::Items(items))] => items.is_empty(),
        [Binder::Pack(_, List::Axes(axes))] => {
            matches!(axes.what, AxesOf::Left(Scalar::Bool(true)))
        }
        _ => false,
    }
}

/// Whether the number is a plain element of a tensor.
fn is_element(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Read(_) => true,
        Scalar::There(_, body) | Scalar::Cast(_, body) => is_element(body),
        _ => false,
    }
}

fn reads_elements(scalar: &Scalar) -> bool {
    let mut was_found = false;
    scalar.walk(&mut |seen| was_found |= matches!(seen, Seen::Elements(..)));
    was_found
}

/// Whether a number uses all indices of another and more.
fn has_more_indices(more: &Scalar, fewer: &Scalar) -> bool {
    let [more, fewer] = [more, fewer].map(|scalar| {
        let mut used = BTreeSet::new();
        scalar.walk(&mut |seen| match seen {
            Seen::Use(slot) => {
                used.insert((false, slot));
            }
            Seen::UseList(slot) if slot != HERE => {
                used.insert((true, slot));
            }
            _ => {}
        });
        used
    });
    more.difference(&fewer).next().is_some()
}

/// Returns the definition that is read, if it is one of these.
fn reads(scalar: &Scalar, has_rest: &[bool]) -> Option<usize> {
    let Scalar::Read(read) = scalar else { return None };
    let Source::Def(def) = read.source else { return None };
    has_rest.get(def).copied().unwrap_or_default().then_some(def)
}

/// Whether the number is a sum or a mean of floats.
pub(super) fn is_sum(scalar: &Scalar) -> bool {
    matches!(scalar, Scalar::Fold(fold) if is_sum_fold(fold.fold, fold.class))
}

pub(super) fn is_sum_fold(fold: Fold, class: Class) -> bool {
    matches!((fold, class), (Fold::Sum, Class::Float) | (Fold::Mean, _))
}

/// Returns the sides of a float difference; a sum is one if a side is negated.
pub(super) fn subtracted(scalar: &Scalar) -> Vec<&Scalar> {
    match scalar {
        Scalar::Binary(Binary::Sub, left, right, _) => vec![left, right],
        Scalar::Binary(Binary::Add, left, right, _) if is_negative(left) || is_negative(right) => {
            vec![left, right]
        }
        _ => Vec::new(),
    }
}

fn is_negative(scalar: &Scalar) -> bool {
    matches!(scalar, Scalar::Unary(function, _) if is_neg(*function))
}

pub(super) fn is_neg(function: Unary) -> bool {
    function.row().name == "neg"
}

/// Whether the predicate holds for a leaf of the number: an operand that is not itself arithmetic, negation, a choice
/// or a local. Visits all leaves.
fn chain<'s>(
    scalar: &'s Scalar,
    locals: &Locals<'s>,
    holds: &mut dyn FnMut(&'s Scalar) -> bool,
) -> bool {
    match scalar {
        Scalar::Unary(function, operand) if is_neg(*function) => chain(operand, locals, holds),
        Scalar::Binary(op, left, right, _) if is_arithmetic(*op) => {
            let is_left = chain(left, locals, holds);
            chain(right, locals, holds) || is_left
        }
        Scalar::If(_, then, otherwise) => {
            let is_then = chain(then, locals, holds);
            chain(otherwise, locals, holds) || is_then
        }
        Scalar::There(_, body) => chain(body, locals, holds),
        Scalar::Var(slot) => match locals.get(slot) {
            Some(value) => holds(scalar) || chain(value, locals, holds),
            None => holds(scalar),
        },
        leaf => holds(leaf),
    }
}

pub(super) fn is_arithmetic(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
}

/// Visits a number and the numbers that it consists of, itself first. Skips lists, which contain integers only.
fn each_scalar<'s>(scalar: &'s Scalar, see: &mut dyn FnMut(&'s Scalar)) {
    see(scalar);
    let parts: Vec<&Scalar> = match scalar {
        Scalar::Read(read) => read.outside.iter().collect(),
        Scalar::Unary(_, operand)
        | Scalar::Cast(_, operand)
        | Scalar::Not(operand)
        | Scalar::There(_, operand) => vec![operand],
        Scalar::Binary(_, left, right, _) | Scalar::And(left, right) | Scalar::Or(left, right) => {
            vec![left, right]
        }
        Scalar::If(condition, then, otherwise) => vec![condition, then, otherwise],
        Scalar::Let(_, value, body) => vec![value, body],
        Scalar::Fold(fold) => vec![&fold.body],
        _ => Vec::new(),
    };
    for part in parts {
        each_scalar(part, see);
    }
}

/// Whether the body has a difference with this local value.
pub(super) fn subtracts(body: &Scalar, slot: Slot) -> bool {
    let (locals, mut was_found) = (locals_of(&[body]), false);
    let is_it = |leaf: &Scalar| matches!(leaf, Scalar::Var(used) if *used == slot);
    each_scalar(body, &mut |scalar| {
        for side in subtracted(scalar) {
            was_found |= chain(side, &locals, &mut |leaf| is_it(leaf));
        }
    });
    was_found
}

/// Returns the coordinates of the element of these binders.
pub(super) fn coordinates(binders: &[Binder]) -> List {
    if let [Binder::Pack(slot, _)] = binders {
        return List::Var(*slot);
    }
    let item = |binder: &Binder| match binder {
        Binder::Index(slot, _) => Item::One(Scalar::Var(*slot)),
        Binder::Pack(slot, _) => Item::Spread(List::Var(*slot)),
    };
    List::Items(binders.iter().map(item).collect())
}
