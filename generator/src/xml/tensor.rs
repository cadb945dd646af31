//! Reads inputs, outputs and parameters of an operator.

use super::{
    document::{Node, Reader, needed_text},
    supplement::Supplements,
    words::{self, BACKEND_SPECIFIC, TYPES, Type},
};
use crate::{
    config::{Core, DataType, Layout, QuantizationMode},
    diagnostic::Kind,
    draft::{At, CoreKind, Field, Literal, ScalarParam, Tensor, Types},
    grammar::Role,
    names::{self, NameError},
    report::problem,
    spelling::{did_you_mean, one_of, quote},
};

/// The allowed ranks of a shape.
const RANKS: &[&str] = &["SCALAR", "0D", "1D", "2D", "3D", "4D", "5D", "ND"];

/// The operator of a part.
pub(super) struct Operator<'a, 'd> {
    pub(super) op: &'a str,
    pub(super) kinds: &'a [CoreKind],
    pub(super) archs: &'a [u16],
    pub(super) supplements: &'a Supplements<'d>,
}

/// A part of an operator: its element, `Input`, `Output` or `Parameter`, and its name there.
struct Part<'a, 'd> {
    node: &'a Node<'d>,
    kind: &'static str,
    name: String,
    role: Role,
}

/// A type chosen from those that a part lists.
struct Chosen {
    dtype: At<DataType>,
    is_encoded: bool,
}

/// Whether a parameter is a single value: its rank says so, or nothing says that it is a list.
pub(super) fn is_scalar(node: &Node<'_>, reader: &mut Reader<'_, '_>) -> bool {
    match checked_rank(node, reader) {
        Some(rank) => rank == "SCALAR",
        None => !reader.text_of(node, "Default").is_some_and(|text| text.value.starts_with('{')),
    }
}

/// Reads an input, an output, or a list parameter.
pub(super) fn port(
    node: &Node<'_>,
    kind: &'static str,
    role: Role,
    of: &Operator<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> Tensor {
    if role != Role::Param {
        checked_rank(node, reader);
    }
    let written = reader.text_of(node, "Name");
    let name = written.as_ref().map(|name| name.value.clone()).unwrap_or_default();
    let part = Part { node, kind, name, role };
    let held: Vec<_> = of
        .kinds
        .iter()
        .map(|kind| Some((*kind, supported_types(&part, *kind, of, reader)?)))
        .collect();
    let held: Option<Vec<(CoreKind, Vec<At<Type>>)>> = held.into_iter().collect();
    let chosen = held.map(|held| choose(&held, role, reader));
    let is_encoded = chosen.iter().flatten().any(|(_, chosen)| chosen.is_encoded);
    let types = chosen.map(|entries| {
        let value = entries.into_iter().map(|(core, chosen)| (core, chosen.dtype)).collect();
        Types::PerCore(At { value, spot: reader.spot(node) })
    });
    let (name, attribute) = rename(written, role);
    Tensor {
        spot: reader.spot(node),
        name: name.map_or(Field::Absent, Field::Given),
        types,
        is_static: reader.truth_of(node, "IsStaticTensor"),
        layout: layout(&part, of, reader).map_or(Field::Absent, Field::Given),
        quantization: if is_encoded { Field::Given(QuantizationMode::Tf) } else { Field::Absent },
        default: default(node, IsText::No, reader),
        repeated: reader.truth_of(node, "Repeated"),
        is_optional: is_optional(node, reader),
        attribute,
    }
}

/// Reads a scalar parameter.
pub(super) fn scalar(
    node: &Node<'_>,
    of: &Operator<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> ScalarParam {
    let written = needed_text(node, "Name", reader);
    let name = written.as_ref().map(|name| name.value.clone()).unwrap_or_default();
    let part = Part { node, kind: "Parameter", name, role: Role::Param };
    let held =
        of.kinds.first().and_then(|core| Some((*core, supported_types(&part, *core, of, reader)?)));
    let dtype =
        held.and_then(|(core, held)| first_matching(core, &held, |_| true).and_then(element));
    let is_text = match &dtype {
        Some(At { value: DataType::String, .. }) => IsText::Yes,
        Some(_) | None => IsText::No,
    };
    let (name, attribute) = rename(written, Role::Param);
    ScalarParam {
        name,
        dtype,
        default: default(node, is_text, reader),
        is_optional: is_optional(node, reader),
        attribute,
    }
}

/// The restrictions to try on the types of a part: none, then restrictions that give an element the same meaning on
/// every core. Bools are not numbers, and 64-bit types have no encoding.
const CHOICES: &[fn(&Type) -> bool] = &[
    |_| true,
    |of| !matches!(of.dtype, Some(DataType::Bool8 | DataType::Int64)),
    |of| !of.is_encoded && of.dtype != Some(DataType::Bool8),
    |of| of.dtype == Some(DataType::Bool8),
];

/// Chooses the types of a part on each core from those that the core supports.
fn choose(
    held: &[(CoreKind, Vec<At<Type>>)],
    role: Role,
    reader: &mut Reader<'_, '_>,
) -> Vec<(CoreKind, Chosen)> {
    let of = |is_meant: fn(&Type) -> bool| -> Option<Vec<&At<Type>>> {
        held.iter().map(|(core, held)| first_matching(*core, held, is_meant)).collect()
    };
    let fits = |types: &&Vec<&At<Type>>| {
        let has = |expected| types.iter().any(|at| at.value.dtype == Some(expected));
        let are_truths = types.iter().all(|at| at.value.dtype == Some(DataType::Bool8));
        let is_encoded = types.iter().any(|at| at.value.is_encoded);
        are_truths || !(has(DataType::Bool8) || is_encoded && has(DataType::Int64))
    };
    let all: Vec<_> = CHOICES.iter().filter_map(|is_meant| of(*is_meant)).collect();
    // Parameters are read directly; the checks refuse a part without any fitting restriction.
    let fitting = all.iter().filter(|_| role != Role::Param).find(fits);
    let Some(types) = fitting.or(all.first()) else { return Vec::new() };
    let entries = held.iter().zip(types).filter_map(|((core, held), at)| {
        let is_first =
            first_matching(*core, held, |_| true).is_some_and(|first| first.value == at.value);
        if role != Role::Param && held.len() > 1 {
            let names: Vec<&str> = held.iter().map(|at| at.value.name).collect();
            let found = format!("{} on {}", names.join(", "), core.as_str());
            let why = if is_first { "" } else { ", to match those of the other backends" };
            let advice = format!(
                "{} is used{why}; list one Datatype for each backend, in a supplemental list where \
                 they differ",
                at.value.name
            );
            let problem = problem(Kind::SeveralTypes, found, "one type on each core", advice);
            reader.report.warn(&at.spot, problem);
        }
        Some((*core, Chosen { dtype: element(at)?, is_encoded: at.value.is_encoded }))
    });
    entries.collect()
}

/// Returns the first type that passes the restriction; on the DSP, whose models are fixed point, quantized types come
/// first.
fn first_matching(
    core: CoreKind,
    held: &[At<Type>],
    is_meant: fn(&Type) -> bool,
) -> Option<&At<Type>> {
    let mut meant = held.iter().filter(|at| is_meant(&at.value));
    let encoded = meant.clone().find(|at| core == CoreKind::Dsp && at.value.is_encoded);
    encoded.or(meant.next())
}

/// Returns the element type of a type.
fn element(at: &At<Type>) -> Option<At<DataType>> {
    Some(At { value: at.value.dtype?, spot: at.spot.clone() })
}

/// Returns the types that a part lists and a core supports, at least one.
fn supported_types(
    part: &Part<'_, '_>,
    core: CoreKind,
    of: &Operator<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> Option<Vec<At<Type>>> {
    let listed = listed_types(part, core, of, reader)?;
    let cores: Vec<Core> = match (part.role, core) {
        // Parameters are read directly, on any core.
        (Role::Param, _) => Vec::new(),
        (Role::Input | Role::Output, CoreKind::Cpu) => vec![Core::Cpu],
        (Role::Input | Role::Output, CoreKind::Gpu) => vec![Core::Gpu],
        (Role::Input | Role::Output, CoreKind::Dsp) => {
            of.archs.iter().map(|arch| Core::Dsp(*arch)).collect()
        }
    };
    let is_held = |dtype| cores.iter().all(|core| core.tensor_types().contains(&dtype));
    let held = listed.iter().filter(|at| at.value.dtype.is_some_and(is_held));
    let held: Vec<At<Type>> = held.cloned().collect();
    if held.is_empty() {
        refuse(&listed, core, &cores, reader);
        return None;
    }
    Some(held)
}

/// Returns the types that a part lists for a core: those of supplemental lists, else the general ones.
fn listed_types(
    part: &Part<'_, '_>,
    core: CoreKind,
    of: &Operator<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> Option<Vec<At<Type>>> {
    let lists = of.supplements.parts(core, of.op, part.kind, &part.name);
    let mut words: Vec<Node<'_>> = lists.flat_map(|node| node.all("Datatype")).collect();
    if words.is_empty() {
        words = part.node.all("Datatype");
    }
    let words: Vec<At<String>> = words.iter().map(|word| reader.text(word)).collect();
    if words.is_empty() {
        let spot = reader.spot(part.node);
        let help = "add <Datatype>QNN_DATATYPE_FLOAT_32</Datatype>";
        reader.error(&spot, problem(Kind::NoDataType, "no Datatype", "at least one", help));
        return None;
    }
    if let Some(word) = words.iter().find(|word| word.value == BACKEND_SPECIFIC) {
        let is_meant = |&&(_, of_core, arch): &&(&str, CoreKind, Option<u16>)| {
            of_core == core && arch.is_none_or(|arch| of.archs.contains(&arch))
        };
        let backend = words::BACKENDS.iter().find(is_meant).map_or("", |(name, ..)| name);
        let found = format!("{BACKEND_SPECIFIC}, and no type for {backend}");
        let expected = "a type for each backend";
        let help = format!("give the type in a <SupplementalOpDefList Backend=\"{backend}\">");
        reader.error(&word.spot, problem(Kind::NoDataType, found, expected, help));
        return None;
    }
    let types: Vec<_> = words.iter().map(|word| reader.data_type(word)).collect();
    types.into_iter().collect()
}

/// Reports that a core supports none of the types.
fn refuse(listed: &[At<Type>], core: CoreKind, cores: &[Core], reader: &mut Reader<'_, '_>) {
    let Some(first) = listed.first() else { return };
    let is_known = listed.iter().any(|at| at.value.dtype.is_some());
    let is_held = |dtype| cores.iter().all(|core| core.tensor_types().contains(&dtype));
    let allowed: Vec<&str> = TYPES
        .iter()
        .filter(|known| known.dtype.is_some_and(is_held))
        .map(|known| known.name)
        .collect();
    let names: Vec<&str> = listed.iter().map(|at| at.value.name).collect();
    let found = format!("{} on {}", names.join(", "), core.as_str());
    let (kind, help) = if is_known {
        (Kind::CoreCannotHold, "give this backend a type of its own in a supplemental list")
    } else {
        (Kind::UnsupportedDataType, "elements of this type are not supported")
    };
    reader.error(&first.spot, problem(kind, found, one_of(&allowed), help));
}

/// Converts a name for generated code; a changed parameter name becomes its attribute. Inputs and outputs are matched
/// by position, so their names are free.
fn rename(written: Option<At<String>>, role: Role) -> (Option<At<String>>, Field<At<String>>) {
    let Some(At { value, spot }) = written else { return (None, Field::Absent) };
    let legal = match names::check(&value) {
        Err(NameError::NotIdentifier | NameError::Keyword(_)) => legal(&value),
        Ok(()) | Err(_) => None,
    };
    let Some(legal) = legal else { return (Some(At { value, spot }), Field::Absent) };
    let attribute = match role {
        Role::Param => Field::Given(At { value, spot: spot.clone() }),
        Role::Input | Role::Output => Field::Absent,
    };
    (Some(At { value: legal, spot }), attribute)
}

/// Converts a name: `in[0]` becomes `in_0`, `in` becomes `in_`.
fn legal(name: &str) -> Option<String> {
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut word = word.trim_end_matches('_').to_owned();
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        word.insert(0, '_');
    }
    if names::check(&word).is_err() {
        word.push('_');
    }
    names::check(&word).is_ok().then_some(word)
}

/// Whether a default belongs to a string parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsText {
    Yes,
    No,
}

fn default(node: &Node<'_>, is_text: IsText, reader: &Reader<'_, '_>) -> Field<At<Literal>> {
    match (reader.text_of(node, "Default"), is_text) {
        (Some(At { value, spot }), IsText::Yes) => {
            Field::Given(At { value: Literal::Text(value), spot })
        }
        (Some(word), IsText::No) if !word.value.is_empty() => Field::Given(words::default(word)),
        (Some(_) | None, _) => Field::Absent,
    }
}

fn is_optional(node: &Node<'_>, reader: &mut Reader<'_, '_>) -> Field<At<bool>> {
    match reader.truth_of(node, "Mandatory") {
        Field::Given(At { value, spot }) => Field::Given(At { value: !value, spot }),
        Field::Absent => Field::Absent,
        Field::Refused => Field::Refused,
    }
}

fn rank(node: &Node<'_>, reader: &Reader<'_, '_>) -> Option<At<String>> {
    reader.text_of(node.all("Shape").first()?, "Rank")
}

fn checked_rank(node: &Node<'_>, reader: &mut Reader<'_, '_>) -> Option<String> {
    let At { value, spot } = rank(node, reader)?;
    if !RANKS.contains(&value.as_str()) {
        let help = did_you_mean(&value, RANKS, "leave the element out");
        reader.error(&spot, problem(Kind::UnknownRank, quote(&value), one_of(RANKS), help));
    }
    Some(value)
}

/// Returns the layout of a supplemental list, else the general one; rank-4 tensors only.
fn layout(
    part: &Part<'_, '_>,
    of: &Operator<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> Option<Layout> {
    let lists = of.kinds.iter().flat_map(|core| {
        of.supplements.parts(*core, of.op, part.kind, &part.name).cloned().collect::<Vec<_>>()
    });
    let nodes: Vec<Node<'_>> = lists.chain([part.node.clone()]).collect();
    let shapes = nodes.iter().flat_map(|node| node.all("Shape"));
    let words: Vec<_> = shapes.filter_map(|shape| reader.text_of(&shape, "Layout")).collect();
    let layouts: Vec<Layout> = words.iter().filter_map(|word| reader.layout(word)).collect();
    let has_layout =
        rank(part.node, reader).is_none_or(|rank| matches!(rank.value.as_str(), "4D" | "ND"));
    layouts.first().copied().filter(|_| has_layout)
}
