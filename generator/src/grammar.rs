//! The grammar of JSON configs: each object and each field, said once. The reader takes the keys that it
//! knows from here, [`schema()`](crate::schema()) is printed from here, and `docs/config.md` has these tables word for
//! word.

/// An object of the grammar.
#[derive(Debug)]
pub(crate) struct Object {
    /// The name of the table on the page of the grammar.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page is held against it"))]
    pub(crate) title: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) need: Need,
    pub(crate) of: FieldKind,
    pub(crate) meaning: &'static str,
    /// The default if the field is left out; empty without a default.
    pub(crate) default: &'static str,
}

/// Whether a field must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
    /// One of `data_type` and `per_core_data_types`.
    OneOfTypes,
    /// Where [`Role`] is one of these; elsewhere it is refused, or may only say no.
    On(&'static [Role]),
}

/// The role of a tensor in its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Output,
    Param,
}

/// The kind of value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Name,
    Path,
    Version,
    Domain,
    Truth,
    /// The name of an attribute, which need be no identifier.
    Attribute,
    Layout,
    Quantization,
    TensorType,
    ScalarType,
    TypesPerCore,
    Cores,
    /// At least one core.
    SomeCores,
    Archs,
    TensorDefault,
    ScalarDefault,
    Operators,
    Inputs,
    Outputs,
    TensorParams,
    ScalarParams,
    Source,
}

impl Object {
    /// The keys of its fields.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.fields.iter().map(|field| field.key).collect()
    }
}

/// A member of the root that does not describe a package: where editors find the schema.
pub(crate) const SCHEMA_KEY: &str = "$schema";

const fn field(
    key: &'static str,
    need: Need,
    of: FieldKind,
    meaning: &'static str,
    default: &'static str,
) -> Field {
    Field { key, need, of, meaning, default }
}

use Need::{On, OneOfTypes, Optional, Required};

pub(crate) const PACKAGE: Object = Object {
    title: "Package",
    fields: &[
        field(
            "UDO_PACKAGE_NAME",
            Required,
            FieldKind::Name,
            "name of the folder, the crates and the libraries",
            "",
        ),
        field("Operators", Required, FieldKind::Operators, "the operators, at least one", ""),
        field(
            "UDO_PACKAGE_VERSION",
            Optional,
            FieldKind::Version,
            "the package's version in Cargo's format, `MAJOR.MINOR.PATCH`",
            "the version in the package's `Cargo.toml`, initially `0.1.0`",
        ),
        field(
            "UDO_PACKAGE_DOMAIN",
            Optional,
            FieldKind::Domain,
            "the domain of the nodes that run on these operators, as exporters write it into models",
            "the package's name; nodes without a domain match as well",
        ),
        field(
            "UDO_PACKAGE_PATH",
            Optional,
            FieldKind::Path,
            "the folder in which the package's folder is created; `-o` takes precedence",
            "the current folder",
        ),
        field(
            "SNPE_UDO_ROOT",
            Optional,
            FieldKind::Path,
            "the SDK to build against, a checkout or a folder that `./dist` created; the environment variable `UDO_ROOT` takes precedence",
            "the environment variable `SNPE_UDO_ROOT` if it names such an SDK, else the SDK that contains `udo`",
        ),
        field(
            "UDO_PACKAGE_CORETYPES",
            Optional,
            FieldKind::Cores,
            "the cores to build libraries for, including all cores of the operators",
            "those of the operators",
        ),
        field(
            "UDO_PACKAGE_DSP_ARCH_TYPES",
            Optional,
            FieldKind::Archs,
            "the DSP architectures to build libraries for; also the default of operators without a list",
            "those of the operators",
        ),
    ],
};

pub(crate) const OPERATOR: Object = Object {
    title: "Operator",
    fields: &[
        field("type", Required, FieldKind::Name, "the operator type, spelled as in models", ""),
        field(
            "inputs",
            Required,
            FieldKind::Inputs,
            "the inputs of a node, in order; at least one",
            "",
        ),
        field(
            "outputs",
            Required,
            FieldKind::Outputs,
            "the outputs of a node, in order; at least one",
            "",
        ),
        field(
            "scalar_params",
            Optional,
            FieldKind::ScalarParams,
            "attributes with one number or string",
            "none",
        ),
        field("tensor_params", Optional, FieldKind::TensorParams, "attributes with a list", "none"),
        field(
            "core_types",
            Required,
            FieldKind::SomeCores,
            "the cores with a kernel, each once",
            "",
        ),
        field(
            "dsp_arch_types",
            Optional,
            FieldKind::Archs,
            "the DSP architectures, each once; required with `DSP`",
            "the package's list",
        ),
        field(
            "reference",
            Optional,
            FieldKind::Source,
            "what the operator computes, in the language of [reference-language.md](reference-language.md)",
            "no reference",
        ),
    ],
};

pub(crate) const TENSOR: Object = Object {
    title: "Tensor",
    fields: &[
        field("name", Required, FieldKind::Name, "the name, unique within the operator", ""),
        field("data_type", OneOfTypes, FieldKind::TensorType, "one type for every core", ""),
        field(
            "per_core_data_types",
            OneOfTypes,
            FieldKind::TypesPerCore,
            "a type for each core of the operator, and for no other core",
            "",
        ),
        field(
            "tensor_layout",
            Optional,
            FieldKind::Layout,
            "the order in which kernels see the dimensions of a rank-4 tensor",
            "the model's order",
        ),
        field(
            "quantization_mode",
            Optional,
            FieldKind::Quantization,
            "integers represent real numbers, with one scale and zero point for the tensor",
            "integers are plain integers, except `FIXED_*`, and 8 and 16 bits if another core has a floating-point type",
        ),
        field(
            "static",
            On(&[Role::Input, Role::Param]),
            FieldKind::Truth,
            "the data is in the model, so kernels can read it before a run",
            "`false`; parameters are always static",
        ),
        field(
            "default_value",
            On(&[Role::Input, Role::Param]),
            FieldKind::TensorDefault,
            "the value if a node leaves it out; `[]` makes an input optional without a value",
            "a node must provide it",
        ),
        field(
            "optional",
            Optional,
            FieldKind::Truth,
            "a node may leave it out, and it then has no value; a port or parameter with a default is optional, too",
            "`false`",
        ),
        field(
            "attribute",
            On(&[Role::Param]),
            FieldKind::Attribute,
            "the attribute's name in models, if it is not a valid name here, such as `type`",
            "the name",
        ),
        field(
            "repeated",
            On(&[Role::Input, Role::Output]),
            FieldKind::Truth,
            "the last port of its list stands for any number of tensors; not on the DSP",
            "`false`",
        ),
    ],
};

pub(crate) const SCALAR: Object = Object {
    title: "Scalar parameter",
    fields: &[
        field("name", Required, FieldKind::Name, "the attribute's name", ""),
        field("data_type", Required, FieldKind::ScalarType, "the type", ""),
        field(
            "default_value",
            Optional,
            FieldKind::ScalarDefault,
            "the value if a node leaves it out",
            "a node must provide it",
        ),
        field(
            "optional",
            Optional,
            FieldKind::Truth,
            "a node may leave it out, and it then has no value; a port or parameter with a default is optional, too",
            "`false`",
        ),
        field(
            "attribute",
            Optional,
            FieldKind::Attribute,
            "the attribute's name in models, if it is not a valid name here, such as `type`",
            "the name",
        ),
    ],
};

#[cfg(test)]
pub(crate) const OBJECTS: &[Object] = &[PACKAGE, OPERATOR, TENSOR, SCALAR];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        config::{Core, DataType},
        page,
    };

    fn need(need: Need) -> String {
        match need {
            Required => "required".to_owned(),
            Optional => "optional".to_owned(),
            OneOfTypes => "one of the two".to_owned(),
            On(roles) => {
                let word = |role: &Role| match role {
                    Role::Input => "inputs",
                    Role::Output => "outputs",
                    Role::Param => "parameters",
                };
                format!("optional on {}", roles.iter().map(word).collect::<Vec<_>>().join(" and "))
            }
        }
    }

    fn kind(of: FieldKind) -> &'static str {
        match of {
            FieldKind::Name => "name",
            FieldKind::Path => "path",
            FieldKind::Version => "version",
            FieldKind::Domain => "domain",
            FieldKind::Attribute => "string",
            FieldKind::Truth => "`true` or `false`",
            FieldKind::Layout => "`NHWC` or `NCHW`",
            FieldKind::Quantization => "`TF`",
            FieldKind::TensorType | FieldKind::ScalarType => "type",
            FieldKind::TypesPerCore => "object: core to type",
            FieldKind::Cores | FieldKind::SomeCores => "list of cores",
            FieldKind::Archs => "list of architectures",
            FieldKind::TensorDefault => "value, or a flat list of values",
            FieldKind::ScalarDefault => "value",
            FieldKind::Operators => "list of operators",
            FieldKind::Inputs | FieldKind::Outputs | FieldKind::TensorParams => "list of tensors",
            FieldKind::ScalarParams => "list of scalar parameters",
            FieldKind::Source => "string, or list of strings (its lines)",
        }
    }

    fn row(field: &Field) -> String {
        let Field { key, meaning, .. } = field;
        let default = if field.default.is_empty() { "–" } else { field.default };
        format!("| `{key}` | {} | {} | {meaning} | {default} |", kind(field.of), need(field.need))
    }

    #[test]
    fn the_page_has_every_field_and_no_other() {
        for object in OBJECTS {
            page::assert_table(object.title, &object.fields.iter().map(row).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_page_has_the_types_of_each_core() {
        let cores: &[(&str, Core)] = &[
            ("`CPU`", Core::Cpu),
            ("`GPU`", Core::Gpu),
            ("`DSP` v65 and v66", Core::Dsp(66)),
            ("`DSP` from v68 on", Core::Dsp(68)),
        ];
        let row = |(name, core): &(&str, Core)| {
            let has = |dtype: &&DataType| core.tensor_types().contains(dtype);
            let types: Vec<String> =
                DataType::ALL.iter().filter(has).map(|dtype| format!("`{dtype}`")).collect();
            format!("| {name} | {} |", types.join(" "))
        };
        page::assert_table("Types", &cores.iter().map(row).collect::<Vec<_>>());
    }

    #[test]
    fn an_object_has_each_key_once() {
        for object in OBJECTS {
            let keys: BTreeSet<&str> = object.keys().into_iter().collect();
            assert_eq!(keys.len(), object.fields.len(), "{}", object.title);
        }
    }
}
