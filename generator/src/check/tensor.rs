//! Checks one input, output or parameter of an operator.

use std::collections::HashMap;

use super::{
    default::{self, IsEncoded},
    name::{self, Scope},
};
use crate::{
    config::{Core, CoreType, DataType, Family, QuantizationMode, ScalarParam, Tensor},
    diagnostic::Kind,
    draft::{self, At, CoreKind, Field, Spot, Types},
    grammar::Role,
    names::MAX_NAME_BYTES,
    report::{Report, problem},
    spelling::{one_of, quote},
};

/// The position of a tensor in its list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) role: Role,
    pub(super) index: usize,
    pub(super) is_last: bool,
}

/// Checks one tensor. `cores` is `None` if they were refused; types are then not compared with them.
pub(super) fn tensor(
    draft: &draft::Tensor,
    place: Place,
    cores: Option<&[Core]>,
    scope: &mut Scope,
    report: &mut Report<'_>,
) -> Option<Tensor> {
    let name = tensor_name(draft, place, report);
    if let Some(At { value, spot }) = &name {
        scope.add(value, spot, report);
    }
    let types = draft.types.as_ref().and_then(|types| core_types(types, place.role, cores, report));
    let types = types.filter(|_| refuse_mixed(draft, place.role, report).is_some());
    let is_static = is_static(draft, place, report);
    let repeated = is_repeated(draft, place, cores, report);
    let quantization = quantization(draft, place.role, report);
    let default = default_value(draft, quantization, place, report);
    let attribute = attribute(&draft.attribute, place.role, report);
    Some(Tensor {
        name: name?.value,
        types: types?,
        is_static,
        layout: draft.layout.value().copied(),
        quantization,
        default,
        repeated,
        is_optional: says_optional(&draft.is_optional, &draft.default),
        attribute,
    })
}

pub(super) fn scalar_param(
    draft: &draft::ScalarParam,
    scope: &mut Scope,
    report: &mut Report<'_>,
) -> Option<ScalarParam> {
    let name = draft.name.as_ref().and_then(|name| name::check(name, report));
    if let (Some(name), Some(At { spot, .. })) = (&name, &draft.name) {
        scope.add(name, spot, report);
    }
    let At { value: dtype, spot } = draft.dtype.as_ref()?;
    if matches!(dtype, DataType::Fixed8 | DataType::Fixed16 | DataType::Fixed32) {
        let help = "a scalar has no encoding; use FLOAT_32 or INT_32";
        report.error(
            spot,
            problem(
                Kind::FixedScalar,
                dtype.as_str(),
                "FLOAT_*, INT_*, UINT_*, BOOL_8 or STRING",
                help,
            ),
        );
        return None;
    }
    refuse_four_bits(*dtype, spot, report)?;
    let allowed = default::allowed_scalar(*dtype);
    let default =
        draft.default.value().and_then(|literal| default::scalar(literal, allowed, report));
    let attribute = attribute(&draft.attribute, Role::Param, report);
    let is_optional = says_optional(&draft.is_optional, &draft.default);
    Some(ScalarParam { name: name?, dtype: *dtype, default, is_optional, attribute })
}

/// Whether a part is marked optional and has no default, which would make it optional already.
fn says_optional(field: &Field<At<bool>>, default: &Field<At<draft::Literal>>) -> bool {
    field.value().is_some_and(|at| at.value) && matches!(default, Field::Absent)
}

/// Returns the name of a parameter's attribute; ports are matched by position, without names.
fn attribute(field: &Field<At<String>>, role: Role, report: &mut Report<'_>) -> Option<String> {
    let At { value, spot } = field.value()?;
    if role != Role::Param {
        let help = "remove it: inputs and outputs are matched by their position";
        let expected = "an attribute on parameters only";
        report.error(spot, problem(Kind::InvalidAttribute, "an attribute", expected, help));
        return None;
    }
    if value.is_empty() || value.len() > MAX_NAME_BYTES || value.contains(char::is_control) {
        let expected = format!("1 to {MAX_NAME_BYTES} bytes of printable text");
        let help = "write the attribute's name as the model has it";
        report.error(spot, problem(Kind::InvalidAttribute, quote(value), expected, help));
        return None;
    }
    Some(value.clone())
}

/// Reports two parameters with the same attribute.
pub(super) fn refuse_shared_attributes<'d>(
    params: impl Iterator<Item = (Option<&'d At<String>>, &'d Field<At<String>>)>,
    report: &mut Report<'_>,
) {
    let mut taken: HashMap<&str, &Spot> = HashMap::new();
    for (name, attribute) in params {
        // Parameters without an attribute are checked by name.
        let Some(own) = attribute.value().or(name) else { continue };
        if let (Some(other), true) = (taken.get(own.value.as_str()), attribute.value().is_some()) {
            let help =
                format!("give each its own attribute; the first is at {}", report.place(other));
            let found = format!("{} again", quote(&own.value));
            report.error(
                &own.spot,
                problem(Kind::DuplicateAttribute, found, "each attribute once", help),
            );
        }
        taken.insert(&own.value, &own.spot);
    }
}

/// Vendor configs may identify inputs and outputs by position; parameters need names.
fn tensor_name(draft: &draft::Tensor, place: Place, report: &mut Report<'_>) -> Option<At<String>> {
    let (prefix, spot) = match (&draft.name, place.role) {
        (Field::Refused, _) => return None,
        (Field::Given(name), Role::Input) if name.value.is_empty() => ("in", &name.spot),
        (Field::Given(name), Role::Output) if name.value.is_empty() => ("out", &name.spot),
        (Field::Given(name), Role::Input | Role::Output | Role::Param) => {
            let value = name::check(name, report)?;
            return Some(At { value, spot: name.spot.clone() });
        }
        (Field::Absent, Role::Input) => ("in", &draft.spot),
        (Field::Absent, Role::Output) => ("out", &draft.spot),
        (Field::Absent, Role::Param) => {
            let help = "add \"name\": parameters are matched to attributes by name";
            report
                .error(&draft.spot, problem(Kind::MissingField, "no such field", "\"name\"", help));
            return None;
        }
    };
    let value = format!("{prefix}_{}", place.index);
    let help = format!("add \"name\": \"{value}\"; compatible mode assumes that name");
    report.lax(spot, problem(Kind::MissingName, "no name", "\"name\"", help));
    Some(At { value, spot: spot.clone() })
}

fn core_types(
    types: &Types,
    role: Role,
    cores: Option<&[Core]>,
    report: &mut Report<'_>,
) -> Option<Vec<CoreType>> {
    match types {
        Types::One(dtype) => {
            is_tensor_type(dtype, report)?;
            let cores = cores?;
            held_by(dtype, role, cores, report)?;
            Some(cores.iter().map(|core| CoreType { core: *core, dtype: dtype.value }).collect())
        }
        Types::PerCore(entries) => per_core(entries, role, cores, report),
    }
}

fn per_core(
    entries: &At<Vec<(CoreKind, At<DataType>)>>,
    role: Role,
    cores: Option<&[Core]>,
    report: &mut Report<'_>,
) -> Option<Vec<CoreType>> {
    let mut found = Vec::new();
    let mut is_complete = true;
    for (kind, dtype) in &entries.value {
        is_complete &= is_tensor_type(dtype, report).is_some();
        let Some(cores) = cores else { continue };
        let own: Vec<Core> =
            cores.iter().copied().filter(|c| CoreKind::of_core(*c) == *kind).collect();
        if own.is_empty() {
            let found = format!("\"{}\"", kind.as_str());
            let help = format!("add \"{}\" to core_types, or remove this entry", kind.as_str());
            let expected = one_of(&kinds(cores));
            report.error(&dtype.spot, problem(Kind::UndeclaredCoreType, found, expected, help));
            is_complete = false;
        }
        is_complete &= held_by(dtype, role, &own, report).is_some();
        found.extend(own.into_iter().map(|core| CoreType { core, dtype: dtype.value }));
    }
    let cores = cores?;
    for missing in kinds(cores).iter().filter(|kind| !has_entry(&entries.value, kind)) {
        let found = format!("no entry for {missing}");
        let help = format!("add \"{missing}\": \"FLOAT_32\", or remove it from core_types");
        report.error(
            &entries.spot,
            problem(Kind::MissingCoreType, found, "a type for each declared core", help),
        );
        is_complete = false;
    }
    found.sort_by_key(|entry| entry.core);
    is_complete.then_some(found)
}

fn has_entry(entries: &[(CoreKind, At<DataType>)], kind: &str) -> bool {
    entries.iter().any(|(entry, _)| entry.as_str() == kind)
}

fn kinds(cores: &[Core]) -> Vec<&'static str> {
    let mut kinds: Vec<&str> = cores.iter().map(|core| CoreKind::of_core(*core).as_str()).collect();
    kinds.dedup();
    kinds
}

fn is_tensor_type(dtype: &At<DataType>, report: &mut Report<'_>) -> Option<()> {
    if dtype.value == DataType::String {
        let help = "text goes in scalar_params; tensors hold numbers";
        report
            .error(&dtype.spot, problem(Kind::StringTensor, "STRING", "a numeric data type", help));
        return None;
    }
    refuse_four_bits(dtype.value, &dtype.spot, report)
}

fn refuse_four_bits(dtype: DataType, spot: &Spot, report: &mut Report<'_>) -> Option<()> {
    if dtype != DataType::Fixed4 {
        return Some(());
    }
    let help = "4-bit elements are not supported; store 4-bit values in FIXED_8";
    report.error(
        spot,
        problem(Kind::UnsupportedDataType, "FIXED_4", "a type of at least 8 bits", help),
    );
    None
}

/// Checks inputs and outputs against the types that the cores support. Parameters are constants that the kernel reads
/// directly, so every numeric type is allowed.
fn held_by(
    dtype: &At<DataType>,
    role: Role,
    cores: &[Core],
    report: &mut Report<'_>,
) -> Option<()> {
    if role == Role::Param {
        return Some(());
    }
    let refusing: Vec<Core> =
        cores.iter().copied().filter(|c| !c.tensor_types().contains(&dtype.value)).collect();
    let Some(first) = refusing.first() else { return Some(()) };
    // These are not tensor types, which is already reported.
    if matches!(dtype.value, DataType::Fixed4 | DataType::String) {
        return None;
    }
    let refusing: Vec<String> = refusing.iter().map(ToString::to_string).collect();
    let found = format!("{} on {}", dtype.value, refusing.join(", "));
    let allowed: Vec<&str> = first.tensor_types().iter().map(|dtype| dtype.as_str()).collect();
    let help = "give this core a type of its own in \"per_core_data_types\"";
    report.error(&dtype.spot, problem(Kind::CoreCannotHold, found, one_of(&allowed), help));
    None
}

/// Reports bools mixed with numbers, and an encoding of a type without one: elements must have the same meaning on
/// every core.
fn refuse_mixed(draft: &draft::Tensor, role: Role, report: &mut Report<'_>) -> Option<()> {
    let types: Vec<&At<DataType>> = match draft.types.as_ref()? {
        Types::One(dtype) => vec![dtype],
        Types::PerCore(entries) => entries.value.iter().map(|(_, dtype)| dtype).collect(),
    };
    let find = |is_meant: fn(DataType) -> bool| types.iter().find(|at| is_meant(at.value));
    let truth = find(|dtype| dtype == DataType::Bool8);
    let is_encoded = matches!(draft.quantization, Field::Given(_))
        || find(|dtype| dtype.family() == Family::Fixed).is_some();
    let wide = find(|dtype| dtype == DataType::Int64);
    if role == Role::Param {
        return Some(());
    }
    if let (Some(truth), Some(number)) = (truth, find(|dtype| dtype != DataType::Bool8)) {
        let found = format!("{} here and {} on another core", truth.value, number.value);
        let help = "use BOOL_8 for each core, or UINT_8 in its place";
        let expected = "bools on every core, or numbers on every core";
        report.error(&truth.spot, problem(Kind::MixedTruth, found, expected, help));
        return None;
    }
    let (Some(at), true) = (truth.or(wide), is_encoded) else { return Some(()) };
    let other = if truth.is_some() { "UINT_8" } else { "INT_32" };
    let found = format!("{} with an encoding", at.value);
    let help = format!(
        "remove \"quantization_mode\" (in XML, fixed-point types of other backends), or use {other}"
    );
    let expected = "a number of at most 32 bits";
    report.error(&at.spot, problem(Kind::NotEncoded, found, expected, help));
    None
}

fn is_static(draft: &draft::Tensor, place: Place, report: &mut Report<'_>) -> bool {
    let Some(At { value: true, spot }) = draft.is_static.value() else { return false };
    if place.role == Role::Output {
        let help = "remove it: outputs are computed, only inputs and parameters hold model data";
        report.error(
            spot,
            problem(Kind::StaticPlace, "\"static\": true", "an output that is not static", help),
        );
    }
    true
}

fn is_repeated(
    draft: &draft::Tensor,
    place: Place,
    cores: Option<&[Core]>,
    report: &mut Report<'_>,
) -> bool {
    let Some(At { value: true, spot }) = draft.repeated.value() else { return false };
    if place.role == Role::Param || !place.is_last {
        let expected = "\"repeated\" on the last input or output only";
        let help = "move the repeated tensor to the end of its list";
        report.error(spot, problem(Kind::RepeatedPlace, "\"repeated\": true", expected, help));
    }
    if cores.is_some_and(|cores| kinds(cores).contains(&CoreKind::Dsp.as_str())) {
        let expected = "a fixed number of tensors";
        let help = "the DSP has no variadic operators; remove \"DSP\" or list the tensors singly";
        report.error(spot, problem(Kind::RepeatedOnDsp, "\"repeated\": true", expected, help));
    }
    true
}

/// Returns the quantization mode. Narrow integers are quantized values if another core has floats, as in configs that
/// omit the mode.
fn quantization(
    draft: &draft::Tensor,
    role: Role,
    report: &mut Report<'_>,
) -> Option<QuantizationMode> {
    match (&draft.quantization, role) {
        (Field::Given(mode), _) => return Some(*mode),
        (Field::Refused, _) | (_, Role::Param) => return None,
        (Field::Absent, Role::Input | Role::Output) => {}
    }
    let Some(Types::PerCore(entries)) = &draft.types else { return None };
    let types = || entries.value.iter().map(|(_, dtype)| dtype);
    let real = types().find(|dtype| matches!(dtype.value.family(), Family::Float(_)))?;
    let is_narrow =
        |of: Family| matches!(of, Family::Integer(_, most) if most <= i64::from(u16::MAX));
    let codes = types().find(|dtype| is_narrow(dtype.value.family()))?;
    let found = format!("{} here, and {} on another core", codes.value, real.value);
    let help = "assumed to be quantized values; write \"quantization_mode\": \"TF\" (in XML, use a fixed-point type), or INT_32 for \
                plain integers";
    let expected = "the same kind of number on every core";
    report.warn(&codes.spot, problem(Kind::ImpliedEncoding, found, expected, help));
    Some(QuantizationMode::Tf)
}

fn default_value(
    draft: &draft::Tensor,
    quantization: Option<QuantizationMode>,
    place: Place,
    report: &mut Report<'_>,
) -> Option<crate::config::DefaultValue> {
    let literal = draft.default.value()?;
    let holds_data = match (&draft.is_static, place.role) {
        (_, Role::Param) | (Field::Refused, Role::Input) => true,
        (Field::Given(At { value, .. }), Role::Input) => *value,
        (_, Role::Output) | (Field::Absent, Role::Input) => false,
    };
    if !holds_data {
        let help = match place.role {
            Role::Output => "remove it: outputs are computed",
            Role::Input | Role::Param => {
                "add \"static\": true (in XML, IsStaticTensor) if the model holds the data"
            }
        };
        let expected = "defaults on parameters and static inputs only";
        report.error(&literal.spot, problem(Kind::DefaultPlace, "a default", expected, help));
        return None;
    }
    refuse_codes(draft, literal, place, report)?;
    let types: Vec<DataType> = match draft.types.as_ref()? {
        Types::One(dtype) => vec![dtype.value],
        Types::PerCore(entries) => entries.value.iter().map(|(_, dtype)| dtype.value).collect(),
    };
    let is_encoded = match (quantization, &draft.quantization) {
        (Some(_), _) | (None, Field::Refused) => IsEncoded::Yes,
        (None, _) => IsEncoded::No,
    };
    default::tensor(literal, default::allowed_tensor(&types, is_encoded), report)
}

/// Reports a float default of an input that is quantized on every core, since there is no encoding for it.
fn refuse_codes(
    draft: &draft::Tensor,
    literal: &At<draft::Literal>,
    place: Place,
    report: &mut Report<'_>,
) -> Option<()> {
    let families: Vec<Family> = match draft.types.as_ref()? {
        Types::One(dtype) => vec![dtype.value.family()],
        Types::PerCore(entries) => entries.value.iter().map(|(_, at)| at.value.family()).collect(),
    };
    let is_encoded =
        matches!(draft.quantization, Field::Given(_)) || families.contains(&Family::Fixed);
    let has_reals = families.iter().any(|family| matches!(family, Family::Float(_)));
    let is_empty = matches!(&literal.value, draft::Literal::List(items) if items.is_empty());
    if place.role != Role::Input || !is_encoded || has_reals || is_empty {
        return Some(());
    }
    let found = "a default of a quantized input";
    let expected = "a default where some core has a float type";
    let help = "give the default in the model, write [] and handle the missing input in kernels, or use a float type";
    report.error(&literal.spot, problem(Kind::DefaultPlace, found, expected, help));
    None
}
