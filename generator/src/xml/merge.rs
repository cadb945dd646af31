//! Joins the definitions of an operator that several XML files define, each for another backend, as vendors' projects
//! do. Runs on drafts, before the checks.

use std::mem;

use crate::{
    diagnostic::Kind,
    draft::{At, Field, FileId, Literal, Op, Package, ScalarParam, Tensor, Types},
    report::{Report, problem},
    spelling::quote,
};

/// Joins operators of packages of the same name if they differ only in cores and types. Others stay separate and are
/// reported as duplicates. A reference in one of the files applies to all.
pub(crate) fn join_backends(
    packages: &mut [Package],
    is_xml: impl Fn(FileId) -> bool,
    report: &mut Report<'_>,
) {
    for index in 1..packages.len() {
        let Some((earlier, [later, ..])) = packages.split_at_mut_checked(index) else { return };
        let is_part = |package: &Package| {
            let files = [package.spot.file, later.spot.file];
            let name = |package: &Package| package.name.as_ref().map(|name| name.value.clone());
            files[0] != files[1]
                && files.into_iter().all(&is_xml)
                && name(package).is_some()
                && name(package) == name(later)
        };
        let parts: Vec<usize> =
            earlier.iter().enumerate().filter(|(_, p)| is_part(p)).map(|(at, _)| at).collect();
        for part in parts {
            let Some(first) = earlier.get_mut(part) else { continue };
            for op in mem::take(&mut later.ops) {
                match first.ops.iter_mut().find(|other| differ_in_cores(other, &op)) {
                    Some(other) => join(other, op, report),
                    None => later.ops.push(op),
                }
            }
        }
    }
}

/// Whether the operators are equal except for their cores, which must be disjoint, and the types of their tensors.
fn differ_in_cores(a: &Op, b: &Op) -> bool {
    let (Some(name), Some(other)) = (&a.name, &b.name) else { return false };
    let (Some(cores), Some(other_cores)) = (&a.cores, &b.cores) else { return false };
    let shares = |core: &At<_>| other_cores.value.iter().any(|other| other.value == core.value);
    name.value == other.value
        && !cores.value.iter().any(shares)
        && all_pairs(&a.inputs, &b.inputs, differ_in_types_only)
        && all_pairs(&a.outputs, &b.outputs, differ_in_types_only)
        && all_pairs(&a.tensor_params, &b.tensor_params, differ_in_types_only)
        && all_pairs(&a.scalar_params, &b.scalar_params, are_same)
}

fn all_pairs<T>(a: &[T], b: &[T], holds: fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| holds(a, b))
}

/// Whether two tensors differ only in their types.
fn differ_in_types_only(a: &Tensor, b: &Tensor) -> bool {
    text(&a.name) == text(&b.name)
        && is_true(&a.is_static) == is_true(&b.is_static)
        && is_true(&a.repeated) == is_true(&b.repeated)
        && is_true(&a.is_optional) == is_true(&b.is_optional)
        && a.layout.value() == b.layout.value()
        && text(&a.attribute) == text(&b.attribute)
        && has_same(&a.default, &b.default)
        && matches!((&a.types, &b.types), (Some(Types::PerCore(_)), Some(Types::PerCore(_))))
}

fn are_same(a: &ScalarParam, b: &ScalarParam) -> bool {
    let name = |param: &ScalarParam| param.name.as_ref().map(|at| at.value.clone());
    let dtype = |param: &ScalarParam| param.dtype.as_ref().map(|at| at.value);
    name(a) == name(b)
        && dtype(a) == dtype(b)
        && is_true(&a.is_optional) == is_true(&b.is_optional)
        && text(&a.attribute) == text(&b.attribute)
        && has_same(&a.default, &b.default)
}

fn text(field: &Field<At<String>>) -> Option<&str> {
    field.value().map(|at| at.value.as_str())
}

fn is_true(field: &Field<At<bool>>) -> bool {
    field.value().is_some_and(|at| at.value)
}

fn has_same(a: &Field<At<Literal>>, b: &Field<At<Literal>>) -> bool {
    match (a.value(), b.value()) {
        (Some(a), Some(b)) => is_same(&a.value, &b.value),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn is_same(a: &Literal, b: &Literal) -> bool {
    match (a, b) {
        (Literal::List(a), Literal::List(b)) => all_pairs(a, b, |a, b| is_same(&a.value, &b.value)),
        (Literal::Bool(a), Literal::Bool(b)) => a == b,
        (Literal::Int(a), Literal::Int(b)) => a == b,
        (Literal::Float(a), Literal::Float(b)) => a.total_cmp(b).is_eq(),
        (Literal::Text(a), Literal::Text(b)) => a == b,
        (
            Literal::List(_)
            | Literal::Bool(_)
            | Literal::Int(_)
            | Literal::Float(_)
            | Literal::Text(_),
            _,
        ) => false,
    }
}

/// Adds the cores, types and reference of `b` to `a`.
fn join(a: &mut Op, b: Op, report: &mut Report<'_>) {
    match (&a.reference, &b.reference) {
        (Field::Absent, _) => a.reference = b.reference,
        (Field::Given(lines), Field::Given(others)) => {
            refuse_two_references(a.name.as_ref(), [lines, others], report);
        }
        (Field::Given(_) | Field::Refused, _) => {}
    }
    if let (Some(cores), Some(added)) = (&mut a.cores, b.cores) {
        cores.value.extend(added.value);
    }
    match (&mut a.archs, b.archs) {
        (Field::Given(archs), Field::Given(added)) => archs.value.extend(added.value),
        (archs, added @ Field::Given(_)) => *archs = added,
        (_, Field::Absent | Field::Refused) => {}
    }
    let tensors = a.inputs.iter_mut().chain(&mut a.outputs).chain(&mut a.tensor_params);
    for (tensor, added) in tensors.zip(b.inputs.into_iter().chain(b.outputs).chain(b.tensor_params))
    {
        if let (Some(Types::PerCore(types)), Some(Types::PerCore(added))) =
            (&mut tensor.types, added.types)
        {
            types.value.extend(added.value);
        }
        if let mode @ Field::Given(_) = added.quantization {
            tensor.quantization = mode;
        }
    }
}

/// Reports two different references of one operator.
fn refuse_two_references(
    op: Option<&At<String>>,
    [first, second]: [&[At<String>]; 2],
    report: &mut Report<'_>,
) {
    let (Some(at), Some(other)) = (first.first(), second.first()) else { return };
    if all_pairs(first, second, |line, other| line.value == other.value) {
        return;
    }
    let name = op.map(|op| op.value.as_str()).unwrap_or_default();
    let found = format!("another reference of {}", quote(name));
    let help = format!("keep one of the two; the first is at {}", report.place(&at.spot));
    report.error(&other.spot, problem(Kind::Reference, found, "one for all backends", help));
}
