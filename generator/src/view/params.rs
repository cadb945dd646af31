//! The struct of an operator's parameters, so that kernels do not read them by name.

use serde::Serialize;

use super::types::{element, list_element};
use crate::{
    code::WIDTH,
    config::{Family, Op, ScalarParam, Tensor},
    names,
};

/// The parameters of an operator, in the order of its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ParamsView {
    pub(crate) fields: Vec<FieldView>,
    /// Whether names are too long to predict rustfmt's layout.
    pub(crate) is_wide: bool,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldView {
    pub(crate) name: String,
    /// Its type, such as `Box<[f32]>`.
    pub(crate) of: String,
    /// Its name in the schema, as a Rust string.
    pub(crate) key: String,
    /// Its documentation.
    pub(crate) meaning: String,
}

impl ParamsView {
    /// Returns `None` for an operator without parameters.
    pub(super) fn new(op: &Op) -> Option<Self> {
        let scalars = op.scalar_params.iter().map(scalar);
        let fields: Vec<FieldView> = scalars.chain(op.tensor_params.iter().map(list)).collect();
        let line = |field: &FieldView| {
            format!("            {}: DspKept::read(cx, {})?,", field.name, field.key).len()
        };
        let is_wide = fields.iter().any(|field| line(field) > WIDTH);
        (!fields.is_empty()).then_some(Self { fields, is_wide })
    }
}

fn scalar(param: &ScalarParam) -> FieldView {
    let of = match param.dtype.family() {
        Family::Text => "Box<str>",
        Family::Float(_) | Family::Fixed => "f32",
        Family::Integer(..) => element(param.dtype),
        Family::Truth => "bool",
    };
    let meaning = format!("`{}`, {}", param.name, param.dtype);
    field(&param.name, of.to_owned(), &meaning, param.may_be_absent(), param.attribute.as_deref())
}

fn list(param: &Tensor) -> FieldView {
    let of = format!("Box<[{}]>", list_element(param));
    let meaning = format!("`{}`, a list", param.name);
    let may_be_absent = param.is_optional && param.default.is_none();
    field(&param.name, of, &meaning, may_be_absent, param.attribute.as_deref())
}

fn field(
    name: &str,
    of: String,
    meaning: &str,
    may_be_absent: bool,
    attribute: Option<&str>,
) -> FieldView {
    let from = attribute.map_or_else(String::new, |name| format!(", from the attribute `{name}`"));
    let (of, end) =
        if may_be_absent { (format!("Option<{of}>"), ", if a node sets it") } else { (of, "") };
    FieldView {
        name: names::variable_name(name),
        of,
        key: format!("{name:?}"),
        meaning: format!("{meaning}{from}{end}."),
    }
}
