//! The struct that a generated package declares for an operator's parameters, so that kernels read fields instead of
//! looking parameters up by name.

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
    /// Whether a line exceeds rustfmt's width, so that the templates must not predict its layout.
    pub(crate) is_wide: bool,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldView {
    pub(crate) name: String,
    /// Its Rust type, such as `Box<[f32]>`.
    pub(crate) of: String,
    /// Its name in the schema, as a Rust string.
    pub(crate) key: String,
    /// Its doc comment.
    pub(crate) meaning: String,
}

impl ParamsView {
    /// Returns `None` for an operator without parameters.
    pub(super) fn new(op: &Op) -> Option<Self> {
        let scalars = op.scalar_params.iter().map(scalar);
        let fields: Vec<FieldView> = scalars.chain(op.tensor_params.iter().map(list)).collect();
        let line_len = |field: &FieldView| {
            format!("            {}: DspKept::read(cx, {})?,", field.name, field.key).len()
        };
        let is_wide = fields.iter().any(|field| line_len(field) > WIDTH);
        (!fields.is_empty()).then_some(Self { fields, is_wide })
    }
}

/// Returns the field of a scalar parameter.
fn scalar(param: &ScalarParam) -> FieldView {
    let rust_type = match param.dtype.family() {
        Family::Text => "Box<str>",
        Family::Float(_) | Family::Fixed => "f32",
        Family::Integer(..) => element(param.dtype),
        Family::Truth => "bool",
    };
    let meaning = format!("`{}`, {}", param.name, param.dtype);
    field(
        &param.name,
        rust_type.to_owned(),
        &meaning,
        param.may_be_absent(),
        param.attribute.as_deref(),
    )
}

/// Returns the field of a list parameter.
fn list(param: &Tensor) -> FieldView {
    let rust_type = format!("Box<[{}]>", list_element(param));
    let meaning = format!("`{}`, a list", param.name);
    let may_be_absent = param.is_optional && param.default.is_none();
    field(&param.name, rust_type, &meaning, may_be_absent, param.attribute.as_deref())
}

fn field(
    name: &str,
    rust_type: String,
    meaning: &str,
    may_be_absent: bool,
    attribute: Option<&str>,
) -> FieldView {
    let source =
        attribute.map_or_else(String::new, |name| format!(", from the attribute `{name}`"));
    let (of, suffix) = if may_be_absent {
        (format!("Option<{rust_type}>"), ", if a node sets it")
    } else {
        (rust_type, "")
    };
    FieldView {
        name: names::variable_name(name),
        of,
        key: format!("{name:?}"),
        meaning: format!("{meaning}{source}{suffix}."),
    }
}
