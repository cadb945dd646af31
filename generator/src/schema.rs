//! Prints the grammar of configs as a JSON Schema, for completion and checks in editors.
//!
//! The schema constrains single values. Only the reader checks constraints between values, such as a type for each
//! declared core, so it may refuse a config that the schema accepts.

use serde_json::{Map, Value, json};

use crate::{
    check::{op::MAX_PORTS, package::MAX_DOMAIN_BYTES},
    config::{Core, DSP_ARCHS, DataType, Family, Layout, QuantizationMode},
    grammar::{
        Field, FieldKind, Need, OPERATOR, Object, PACKAGE, Role, SCALAR, SCHEMA_KEY, TENSOR,
    },
    names::{self, MAX_NAME_BYTES},
};

/// Returns the JSON Schema (draft 2020-12) of configs, the text of `udo-config.schema.json`.
pub fn schema() -> String {
    let package = json!({ "$ref": "#/$defs/package" });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "UDO config",
        "description": "Operator packages, one per member; the keys of the members are free.",
        "type": "object",
        "minProperties": 1,
        "properties": {
            SCHEMA_KEY: { "type": "string", "description": "The location of this schema; not a package." },
        },
        "additionalProperties": package,
        "$defs": {
            "name": name(),
            "package": object(&PACKAGE, None),
            "operator": object(&OPERATOR, None),
            "input": tensor(Role::Input),
            "output": tensor(Role::Output),
            "tensorParam": tensor(Role::Param),
            "scalarParam": scalar(),
            "core": { "enum": ["CPU", "GPU", "DSP"] },
            "arch": { "enum": DSP_ARCHS.iter().map(|arch| format!("v{arch}")).collect::<Vec<_>>() },
            "value": { "type": ["number", "string", "boolean"] },
        },
    });
    // Objects and strings always serialize.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

fn name() -> Value {
    json!({
        "description": "An identifier that is not a keyword of Rust, C or C++.",
        "type": "string",
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        "maxLength": MAX_NAME_BYTES,
        "not": { "enum": names::keywords().collect::<Vec<_>>() },
    })
}

/// Describes an object with its fields. A tensor has the fields of its role; a bool field of another role must be
/// `false`.
fn object(object: &Object, role: Option<Role>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in object.fields {
        let is_allowed = match (field.need, role) {
            (Need::On(roles), Some(role)) => roles.contains(&role),
            (Need::Required | Need::Optional | Need::OneOfTypes | Need::On(_), _) => true,
        };
        if field.need == Need::Required {
            required.push(field.key);
        }
        if is_allowed {
            properties.insert(field.key.to_owned(), described(field, role));
        } else if field.of == FieldKind::Truth {
            properties.insert(field.key.to_owned(), json!({ "const": false }));
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Describes a field, with its documentation.
fn described(field: &Field, role: Option<Role>) -> Value {
    let mut value = field_schema(field.of, role);
    if let Some(value) = value.as_object_mut() {
        let mut text = plain(field.meaning);
        if !field.default.is_empty() {
            text.push_str("; default: ");
            text.push_str(&plain(field.default));
        }
        value.insert("description".to_owned(), Value::String(text));
    }
    value
}

/// Removes Markdown markup.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn field_schema(kind: FieldKind, role: Option<Role>) -> Value {
    let list = |def: &str| json!({ "type": "array", "items": { "$ref": def } });
    let nonempty_list =
        |def: &str| json!({ "type": "array", "minItems": 1, "items": { "$ref": def } });
    let ports = |def: &str| {
        let items = json!({ "$ref": def });
        json!({ "type": "array", "minItems": 1, "maxItems": MAX_PORTS, "items": items })
    };
    match kind {
        FieldKind::Name => json!({ "$ref": "#/$defs/name" }),
        FieldKind::Path => json!({ "type": "string" }),
        FieldKind::Version => {
            json!({ "type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$" })
        }
        FieldKind::Domain => {
            json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]*$", "maxLength": MAX_DOMAIN_BYTES })
        }
        FieldKind::Attribute => {
            json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES })
        }
        FieldKind::Truth => json!({ "type": "boolean" }),
        FieldKind::Layout => words(Layout::ALL.iter().map(|layout| layout.as_str())),
        FieldKind::Quantization => words(QuantizationMode::ALL.iter().map(|mode| mode.as_str())),
        FieldKind::TensorType => types(is_tensor_type),
        FieldKind::ScalarType => types(is_scalar_type),
        FieldKind::TypesPerCore => types_per_core(role),
        FieldKind::Cores => list("#/$defs/core"),
        FieldKind::SomeCores => nonempty_list("#/$defs/core"),
        FieldKind::Archs => list("#/$defs/arch"),
        FieldKind::TensorDefault => {
            json!({ "anyOf": [{ "$ref": "#/$defs/value" }, list("#/$defs/value")] })
        }
        FieldKind::ScalarDefault => json!({ "$ref": "#/$defs/value" }),
        FieldKind::Operators => nonempty_list("#/$defs/operator"),
        FieldKind::Inputs => ports("#/$defs/input"),
        FieldKind::Outputs => ports("#/$defs/output"),
        FieldKind::TensorParams => list("#/$defs/tensorParam"),
        FieldKind::ScalarParams => list("#/$defs/scalarParam"),
        FieldKind::Source => {
            let line = json!({ "type": "string" });
            json!({ "anyOf": [line, { "type": "array", "minItems": 1, "items": line }] })
        }
    }
}

fn words<'w>(words: impl Iterator<Item = &'w str>) -> Value {
    json!({ "enum": words.collect::<Vec<_>>() })
}

fn types(is_one: impl Fn(DataType) -> bool) -> Value {
    words(DataType::ALL.iter().filter(|dtype| is_one(**dtype)).map(|dtype| dtype.as_str()))
}

fn is_tensor_type(dtype: DataType) -> bool {
    !matches!(dtype, DataType::Fixed4 | DataType::String)
}

fn is_scalar_type(dtype: DataType) -> bool {
    dtype.family() != Family::Fixed
}

/// Describes a type for each core: the types that the core supports; parameters may have any type.
fn types_per_core(role: Option<Role>) -> Value {
    let core = |cores: &[Core]| match role {
        Some(Role::Param) => types(is_tensor_type),
        Some(Role::Input | Role::Output) | None => {
            types(|dtype| cores.iter().any(|core| core.tensor_types().contains(&dtype)))
        }
    };
    let archs: Vec<Core> = DSP_ARCHS.iter().map(|arch| Core::Dsp(*arch)).collect();
    json!({
        "type": "object",
        "properties": {
            "CPU": core(&[Core::Cpu]),
            "GPU": core(&[Core::Gpu]),
            "DSP": core(&archs),
        },
        "minProperties": 1,
        "additionalProperties": false,
    })
}

/// Describes a tensor, which has either one type or a type per core.
fn tensor(role: Role) -> Value {
    let mut value = object(&TENSOR, Some(role));
    if let Some(value) = value.as_object_mut() {
        let needs = |key: &str| json!({ "required": [key] });
        let exactly_one_type = json!([needs("data_type"), needs("per_core_data_types")]);
        value.insert("oneOf".to_owned(), exactly_one_type);
    }
    value
}

/// Describes a scalar parameter, whose default has its type.
fn scalar() -> Value {
    let mut value = object(&SCALAR, None);
    let rules = DataType::ALL.iter().filter(|dtype| is_scalar_type(**dtype)).map(|dtype| {
        let default = match dtype.family() {
            Family::Float(max) => json!({ "type": "number", "minimum": -max, "maximum": max }),
            Family::Integer(min, max) => {
                json!({ "type": ["integer", "boolean"], "minimum": min, "maximum": max })
            }
            Family::Truth => json!({ "type": ["integer", "boolean"], "minimum": 0, "maximum": 1 }),
            Family::Text | Family::Fixed => json!({ "type": "string" }),
        };
        json!({
            "if": { "properties": { "data_type": { "const": dtype.as_str() } } },
            "then": { "properties": { "default_value": default } },
        })
    });
    if let Some(value) = value.as_object_mut() {
        value.insert("allOf".to_owned(), Value::Array(rules.collect()));
    }
    value
}
