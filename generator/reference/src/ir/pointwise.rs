//! Detects programs whose output elements are functions of single input elements.

use super::{Binder, Code, DefKind, HERE, Item, List, Read, Scalar, Slot, Source, StepKind};
use crate::{
    function::Binary,
    signature::{ParamKind, Signature},
};

/// Whether each element of each output is a function of the only input's element at the same position and of parameters
/// that are not tensors, without refusing any element.
pub(crate) fn is_pointwise(code: &Code, signature: &Signature) -> bool {
    let [input] = signature.inputs.as_slice() else { return false };
    let has_lists = signature.params.iter().any(|param| matches!(param.kind, ParamKind::Tensor(_)));
    if input.is_static || input.optional || has_lists {
        return false;
    }
    let is_step = code.steps.iter().all(|step| match &step.kind {
        StepKind::Def(_) => true,
        StepKind::Scalar(_, scalar) => is_apart_from_shapes(scalar),
        StepKind::List(..) | StepKind::Require(..) => false,
    });
    is_step
        && code.defs.iter().all(|def| match &def.kind {
            DefKind::Elements { binders, body } => {
                let [Binder::Pack(slot, extents)] = binders.as_slice() else { return false };
                is_shape(extents) && is_of_element(body, *slot)
            }
            DefKind::Select(_) => false,
        })
}

/// Whether it consists of parameters and numbers only.
fn is_apart_from_shapes(scalar: &Scalar) -> bool {
    let mut is_apart = true;
    scalar.walk(&mut |seen| {
        is_apart &= matches!(seen, super::Seen::Use(_));
    });
    is_apart
}

/// Whether these are the dimensions of the input, or of a tensor with the same ones.
fn is_shape(extents: &List) -> bool {
    match extents {
        List::Dims(Source::Input(_) | Source::Def(_)) => true,
        List::Broadcast(lists, _) => lists.iter().all(is_shape),
        _ => false,
    }
}

/// Whether the body reads elements only at the position `slot`, and refuses none.
fn is_of_element(scalar: &Scalar, slot: Slot) -> bool {
    let of = |scalar: &Scalar| is_of_element(scalar, slot);
    match scalar {
        Scalar::Float(_)
        | Scalar::Int(_)
        | Scalar::Bool(_)
        | Scalar::Param(_)
        | Scalar::Var(_)
        | Scalar::Present(_)
        | Scalar::TextIs(..) => true,
        Scalar::Read(read) => is_at(read, slot),
        Scalar::Unary(_, operand) | Scalar::Not(operand) | Scalar::Cast(_, operand) => of(operand),
        Scalar::Binary(op, left, right, _) => !may_refuse(*op) && of(left) && of(right),
        Scalar::And(left, right) | Scalar::Or(left, right) => of(left) && of(right),
        Scalar::If(condition, then, otherwise) => of(condition) && of(then) && of(otherwise),
        Scalar::Let(_, value, body) => of(value) && of(body),
        Scalar::Item(..)
        | Scalar::Len(_)
        | Scalar::Product(_)
        | Scalar::Ravel(..)
        | Scalar::There(..)
        | Scalar::Fold(_) => false,
    }
}

/// Whether it may be an integer division, which refuses 0.
fn may_refuse(op: Binary) -> bool {
    matches!(op, Binary::FloorDiv | Binary::Mod | Binary::TruncDiv | Binary::Rem | Binary::CeilDiv)
}

fn is_at(read: &Read, slot: Slot) -> bool {
    let is_place = match &read.coords {
        List::Align(coords, dims) => {
            slot == HERE
                && matches!(**coords, List::Var(HERE))
                && matches!(**dims, List::Dims(source) if source == read.source)
        }
        List::Var(of) => *of == slot,
        List::Items(items) => {
            matches!(items.as_slice(), [Item::Spread(List::Var(of))] if *of == slot)
        }
        _ => false,
    };
    is_place && matches!(read.source, Source::Input(_) | Source::Def(_))
}
