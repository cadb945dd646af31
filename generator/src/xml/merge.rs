//! Joins an operator that several files define for different backends, as in vendors' projects, before the checks.

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

fn differ_in_cores(a: &Op, b: &Op) -> bool {
    let (Some(name), Some(other)) = (&a.name, &b.name) else { return false };
    let (Some(cores), Some(others)) = (&a.cores, &b.cores) else { return false };
    let shares = |core: &At<_>| others.value.iter().any(|other| other.value == core.value);
    name.value == other.value
        && !cores.value.iter().any(shares)
        && all(&a.inputs, &b.inputs, are_like)
        && all(&a.outputs, &b.outputs, are_like)
        && all(&a.tensor_params, &b.tensor_params, are_like)
        && all(&a.scalar_params, &b.scalar_params, are_same)
}

fn all<T>(a: &[T], b: &[T], holds: fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| holds(a, b))
}

/// Whether two tensors differ only in their types.
fn are_like(a: &Tensor, b: &Tensor) -> bool {
    text(&a.name) == text(&b.name)
        && says(&a.is_static) == says(&b.is_static)
        && says(&a.repeated) == says(&b.repeated)
        && says(&a.is_optional) == says(&b.is_optional)
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
        && says(&a.is_optional) == says(&b.is_optional)
        && text(&a.attribute) == text(&b.attribute)
        && has_same(&a.default, &b.default)
}

fn text(field: &Field<At<String>>) -> Option<&str> {
    field.value().map(|at| at.value.as_str())
}

fn says(field: &Field<At<bool>>) -> bool {
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
        (Literal::List(a), Literal::List(b)) => all(a, b, |a, b| is_same(&a.value, &b.value)),
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

/// Adds the cores, types and reference of `b`.
fn join(a: &mut Op, b: Op, report: &mut Report<'_>) {
    match (&a.reference, &b.reference) {
        (Field::Absent, _) => a.reference = b.reference,
        (Field::Given(lines), Field::Given(others)) => {
            refuse_two_references(a.name.as_ref(), [lines, others], report);
        }
        (Field::Given(_) | Field::Refused, _) => {}
    }
    if let (Some(cores), Some(more)) = (&mut a.cores, b.cores) {
        cores.value.extend(more.value);
    }
    match (&mut a.archs, b.archs) {
        (Field::Given(archs), Field::Given(more)) => archs.value.extend(more.value),
        (archs, more @ Field::Given(_)) => *archs = more,
        (_, Field::Absent | Field::Refused) => {}
    }
    let tensors = a.inputs.iter_mut().chain(&mut a.outputs).chain(&mut a.tensor_params);
    for (tensor, more) in tensors.zip(b.inputs.into_iter().chain(b.outputs).chain(b.tensor_params))
    {
        if let (Some(Types::PerCore(types)), Some(Types::PerCore(more))) =
            (&mut tensor.types, more.types)
        {
            types.value.extend(more.value);
        }
        if let mode @ Field::Given(_) = more.quantization {
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
    if all(first, second, |line, other| line.value == other.value) {
        return;
    }
    let name = op.map(|op| op.value.as_str()).unwrap_or_default();
    let found = format!("another reference of {}", quote(name));
    let help = format!("keep one of the two; the first is at {}", report.place(&at.spot));
    report.error(&other.spot, problem(Kind::Reference, found, "one for all backends", help));
}
