//! Detects pointwise programs: each output element is a function of the input element at the same position. Kernels for
//! 8-bit inputs may compute them by a lookup table.

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
        StepKind::Scalar(_, scalar) => is_independent_of_shapes(scalar),
        StepKind::List(..) | StepKind::Require(..) => false,
    });
    is_step
        && code.defs.iter().all(|def| match &def.kind {
            DefKind::Elements { binders, body } => {
                let [Binder::Pack(slot, extents)] = binders.as_slice() else { return false };
                is_shape(extents) && reads_only_at(body, *slot)
            }
            DefKind::Select(_) => false,
        })
}

/// Whether the scalar consists of parameters and numbers only.
fn is_independent_of_shapes(scalar: &Scalar) -> bool {
    let mut is_independent = true;
    scalar.walk(&mut |event| {
        is_independent &= matches!(event, super::Seen::Use(_));
    });
    is_independent
}

/// Whether these are the dimensions of the input, or of a definition, which has the same dimensions in such a program.
fn is_shape(extents: &List) -> bool {
    match extents {
        List::Dims(Source::Input(_) | Source::Def(_)) => true,
        List::Broadcast(lists, _) => lists.iter().all(is_shape),
        _ => false,
    }
}

/// Whether the body reads elements only at the position `slot`, and refuses none.
fn reads_only_at(scalar: &Scalar, slot: Slot) -> bool {
    let holds = |scalar: &Scalar| reads_only_at(scalar, slot);
    match scalar {
        Scalar::Float(_)
        | Scalar::Int(_)
        | Scalar::Bool(_)
        | Scalar::Param(_)
        | Scalar::Var(_)
        | Scalar::Present(_)
        | Scalar::TextIs(..) => true,
        Scalar::Read(read) => is_at(read, slot),
        Scalar::Unary(_, operand) | Scalar::Not(operand) | Scalar::Cast(_, operand) => {
            holds(operand)
        }
        Scalar::Binary(op, left, right, _) => !may_refuse(*op) && holds(left) && holds(right),
        Scalar::And(left, right) | Scalar::Or(left, right) => holds(left) && holds(right),
        Scalar::If(condition, then, otherwise) => {
            holds(condition) && holds(then) && holds(otherwise)
        }
        Scalar::Let(_, value, body) => holds(value) && holds(body),
        Scalar::Item(..)
        | Scalar::Len(_)
        | Scalar::Product(_)
        | Scalar::Ravel(..)
        | Scalar::There(..)
        | Scalar::Fold(_) => false,
    }
}

/// Whether the operation may be an integer division, which refuses 0.
fn may_refuse(op: Binary) -> bool {
    matches!(op, Binary::FloorDiv | Binary::Mod | Binary::TruncDiv | Binary::Rem | Binary::CeilDiv)
}

/// Whether the read is at the position `slot`.
fn is_at(read: &Read, slot: Slot) -> bool {
    let is_same_position = match &read.coords {
        List::Align(coords, dims) => {
            slot == HERE
                && matches!(**coords, List::Var(HERE))
                && matches!(**dims, List::Dims(source) if source == read.source)
        }
        List::Var(coords) => *coords == slot,
        List::Items(items) => {
            matches!(items.as_slice(), [Item::Spread(List::Var(coords))] if *coords == slot)
        }
        _ => false,
    };
    is_same_position && matches!(read.source, Source::Input(_) | Source::Def(_))
}
