//! Programs whose outputs are functions of single elements, wherever those are.

use super::{Binder, Code, DefKind, HERE, Item, List, Read, Scalar, Slot, Source, StepKind};
use crate::{
    function::Binary,
    signature::{ParamKind, Signature},
};

/// Whether each element of each output is a function of the element of the only input at the same place, and of parameters
/// that are no tensors; one that refuses none.
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

/// Whether it is made of parameters and numbers alone.
fn is_apart_from_shapes(scalar: &Scalar) -> bool {
    let mut is_apart = true;
    scalar.walk(&mut |seen| {
        is_apart &= matches!(seen, super::Seen::Use(_));
    });
    is_apart
}

/// Whether these are the extents of the input, or of what has them.
fn is_shape(extents: &List) -> bool {
    match extents {
        List::Dims(Source::Input(_) | Source::Def(_)) => true,
        List::Broadcast(lists, _) => lists.iter().all(is_shape),
        _ => false,
    }
}

/// Whether the body reads elements at the place `slot` alone, and refuses none.
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

/// Whether it may be a division of integers, of which those by 0 are refused.
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

#[cfg(test)]
mod tests {
    use crate::{Class, Input, Output, Program, Signature};

    fn is_pointwise(source: &str) -> bool {
        let input = Input {
            name: "x".to_owned(),
            class: Class::Float,
            optional: false,
            is_static: false,
            default: None,
        };
        let output = Output { name: "y".to_owned(), class: Class::Float };
        let signature = Signature { inputs: vec![input], outputs: vec![output], params: vec![] };
        Program::read(source, &signature).unwrap().is_pointwise()
    }

    #[test]
    fn functions_of_an_element_are_told_from_those_of_its_neighbours_and_shape() {
        let cases = [
            ("y = if x < 0 then 0.5 * x else x", true),
            ("let s = max(x, 0) + log1p(exp(-abs(x)))\ny = x * tanh(s)", true),
            ("y[i.. < dims(x)] = let g = x[i..] in g * sigmoid(g)", true),
            ("y = x % 3", false),
            ("y = x - max(x, axis = 0, keep = true)", false),
            ("y = x * dim(x, 0)", false),
            ("let n = float(size(x))\ny = x / n", false),
            ("require rank(x) == 1, \"a vector\"\ny = 2 * x", false),
            ("y[i < dim(x, 0)] = x[i]", false),
            ("y[i.. < dims(x)] = x[[for a < rank(x): 0]..]", false),
            ("let b = reshape(x, [size(x)])\ny = b", false),
        ];
        for (source, wanted) in cases {
            assert_eq!(is_pointwise(source), wanted, "{source}");
        }
    }
}
