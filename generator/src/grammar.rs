//! The grammar of JSON configs: each object and each field, said once. The reader takes the keys that it
//! knows from here, [`schema()`](crate::schema()) is printed from here, and `docs/config.md` has these tables word for word.

/// An object of the grammar.
#[derive(Debug)]
pub(crate) struct Object {
    /// What the page of the grammar calls it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page is held against it"))]
    pub(crate) title: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) need: Need,
    pub(crate) of: Of,
    pub(crate) meaning: &'static str,
    /// What holds where it is left out; empty where nothing does.
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

/// What a tensor is to its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Output,
    Param,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
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

/// A member of the root that is no package: where editors find the schema.
pub(crate) const SCHEMA_KEY: &str = "$schema";

const fn field(
    key: &'static str,
    need: Need,
    of: Of,
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
            Of::Name,
            "names the folder, the crates and the libraries",
            "",
        ),
        field("Operators", Required, Of::Operators, "the operators, at least one", ""),
        field(
            "UDO_PACKAGE_VERSION",
            Optional,
            Of::Version,
            "the package's version, as Cargo has them: `MAJOR.MINOR.PATCH`",
            "that of the package's `Cargo.toml`, `0.1.0` at first",
        ),
        field(
            "UDO_PACKAGE_DOMAIN",
            Optional,
            Of::Domain,
            "the domain of the nodes that the operators take, as exporters write it into models",
            "the package's name; nodes of no domain are taken in any case",
        ),
        field(
            "UDO_PACKAGE_PATH",
            Optional,
            Of::Path,
            "where the package's folder goes; `-o` wins",
            "the current folder",
        ),
        field(
            "SNPE_UDO_ROOT",
            Optional,
            Of::Path,
            "an SDK to build against, a checkout or what `./dist` makes of one; `UDO_ROOT` in the environment wins",
            "`SNPE_UDO_ROOT` in the environment where that is such an SDK, else the one that `udo` lies in",
        ),
        field(
            "UDO_PACKAGE_CORETYPES",
            Optional,
            Of::Cores,
            "the cores to make libraries for; no fewer than the operators declare",
            "those of the operators",
        ),
        field(
            "UDO_PACKAGE_DSP_ARCH_TYPES",
            Optional,
            Of::Archs,
            "the same for architectures of the DSP; operators without a list of their own take this one",
            "those of the operators",
        ),
    ],
};

pub(crate) const OPERATOR: Object = Object {
    title: "Operator",
    fields: &[
        field("type", Required, Of::Name, "the operator type, as models spell it", ""),
        field("inputs", Required, Of::Inputs, "what a node takes, in order; at least one", ""),
        field("outputs", Required, Of::Outputs, "what a node gives, in order; at least one", ""),
        field(
            "scalar_params",
            Optional,
            Of::ScalarParams,
            "attributes that are one number or text",
            "none",
        ),
        field("tensor_params", Optional, Of::TensorParams, "attributes that are lists", "none"),
        field("core_types", Required, Of::SomeCores, "the cores that compute it, each once", ""),
        field(
            "dsp_arch_types",
            Optional,
            Of::Archs,
            "the architectures of the DSP, each once; needed with `DSP`",
            "the package's",
        ),
        field(
            "reference",
            Optional,
            Of::Source,
            "what it computes, in the language of [reference-language.md](reference-language.md)",
            "nothing is known of it",
        ),
    ],
};

pub(crate) const TENSOR: Object = Object {
    title: "Tensor",
    fields: &[
        field("name", Required, Of::Name, "its name, of which an operator has each once", ""),
        field("data_type", OneOfTypes, Of::TensorType, "one type for every core", ""),
        field(
            "per_core_data_types",
            OneOfTypes,
            Of::TypesPerCore,
            "a type for each core that the operator declares, and for no other",
            "",
        ),
        field(
            "tensor_layout",
            Optional,
            Of::Layout,
            "the order of a rank-4 tensor's dimensions that kernels get",
            "the model's own order",
        ),
        field(
            "quantization_mode",
            Optional,
            Of::Quantization,
            "integers stand for real numbers, by a scale and a zero point of the tensor",
            "integers are integers; `FIXED_*` types are always encoded, and so are 8 and 16 bits beside real numbers on another core",
        ),
        field(
            "static",
            On(&[Role::Input, Role::Param]),
            Of::Truth,
            "the model holds the data; kernels may look at it before a run",
            "`false`; parameters always are",
        ),
        field(
            "default_value",
            On(&[Role::Input, Role::Param]),
            Of::TensorDefault,
            "what it holds where a node leaves it out; `[]` for an input is none at all",
            "a node must give it",
        ),
        field(
            "optional",
            Optional,
            Of::Truth,
            "a node may leave it out, and nothing then takes its place; a default makes it so by itself",
            "`false`",
        ),
        field(
            "attribute",
            On(&[Role::Param]),
            Of::Attribute,
            "the model's attribute, where that is no name, such as `type`",
            "the name",
        ),
        field(
            "repeated",
            On(&[Role::Input, Role::Output]),
            Of::Truth,
            "the last of its list stands for any number of tensors; not on the DSP",
            "`false`",
        ),
    ],
};

pub(crate) const SCALAR: Object = Object {
    title: "Scalar parameter",
    fields: &[
        field("name", Required, Of::Name, "the attribute's name", ""),
        field("data_type", Required, Of::ScalarType, "its type", ""),
        field(
            "default_value",
            Optional,
            Of::ScalarDefault,
            "its value where a node leaves it out",
            "a node must give it",
        ),
        field(
            "optional",
            Optional,
            Of::Truth,
            "a node may leave it out, and it then has no value; a default makes it so by itself",
            "`false`",
        ),
        field(
            "attribute",
            Optional,
            Of::Attribute,
            "the model's attribute, where that is no name, such as `type`",
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

    fn kind(of: Of) -> &'static str {
        match of {
            Of::Name => "name",
            Of::Path => "path",
            Of::Version => "version",
            Of::Domain => "domain",
            Of::Attribute => "string",
            Of::Truth => "`true` or `false`",
            Of::Layout => "`NHWC` or `NCHW`",
            Of::Quantization => "`TF`",
            Of::TensorType | Of::ScalarType => "type",
            Of::TypesPerCore => "object: core to type",
            Of::Cores | Of::SomeCores => "list of cores",
            Of::Archs => "list of architectures",
            Of::TensorDefault => "value, or a flat list of them",
            Of::ScalarDefault => "value",
            Of::Operators => "list of operators",
            Of::Inputs | Of::Outputs | Of::TensorParams => "list of tensors",
            Of::ScalarParams => "list of scalar parameters",
            Of::Source => "string, or a list of them that are its lines",
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
            page::hold(object.title, &object.fields.iter().map(row).collect::<Vec<_>>());
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
        page::hold("Types", &cores.iter().map(row).collect::<Vec<_>>());
    }

    #[test]
    fn an_object_has_each_key_once() {
        for object in OBJECTS {
            let keys: BTreeSet<&str> = object.keys().into_iter().collect();
            assert_eq!(keys.len(), object.fields.len(), "{}", object.title);
        }
    }
}
