//! Reads the fields of each object, with the keys of the grammar.

use super::{
    document::{Member, Node, Object, Read, Reader},
    literal,
};
use crate::{
    diagnostic::Kind,
    draft::{At, CoreKind, Op, Package, ScalarParam, Spot, Tensor, Types},
    grammar::{OPERATOR, PACKAGE, SCALAR, SCHEMA_KEY, TENSOR},
    report::problem,
};

/// A misspelling in the vendor's own field list.
const SINGULAR: &str = "per_core_data_type";
const PLURAL: &str = "per_core_data_types";

pub(super) fn packages<'t>(reader: &mut Reader<'_, '_, 't>, root: &Node<'t>) -> Vec<Package> {
    let Some(mut object) = reader.any_object(root) else { return Vec::new() };
    object.members.retain(|member| !is_schema(reader, member));
    if object.members.is_empty() {
        empty(reader, &object.spot, "an object with one member per package");
    }
    object.members.iter().filter_map(|member| package(reader, &member.value)).collect()
}

/// Whether a member of the root is the schema's location; reports one that is not a string.
fn is_schema<'t>(reader: &mut Reader<'_, '_, 't>, member: &Member<'t>) -> bool {
    let is_schema = member.key == SCHEMA_KEY;
    if is_schema {
        reader.string(&member.value);
    }
    is_schema
}

fn package<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Package> {
    let object = reader.object(node, &PACKAGE.keys())?;
    Some(Package {
        spot: object.spot.clone(),
        name: reader.required(&object, "UDO_PACKAGE_NAME", Reader::string),
        version: reader.optional(&object, "UDO_PACKAGE_VERSION", Reader::string),
        domain: reader.optional(&object, "UDO_PACKAGE_DOMAIN", Reader::string),
        path: reader.optional(&object, "UDO_PACKAGE_PATH", Reader::string),
        udo_root: reader.optional(&object, "SNPE_UDO_ROOT", Reader::string),
        ops: required_list(reader, &object, "Operators", op),
        cores: reader.optional(&object, "UDO_PACKAGE_CORETYPES", cores),
        archs: reader.optional(&object, "UDO_PACKAGE_DSP_ARCH_TYPES", archs),
    })
}

fn op<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Op> {
    let object = reader.object(node, &OPERATOR.keys())?;
    Some(Op {
        name: reader.required(&object, "type", Reader::string),
        inputs: required_list(reader, &object, "inputs", tensor),
        outputs: required_list(reader, &object, "outputs", tensor),
        scalar_params: list(reader, &object, "scalar_params", scalar_param),
        tensor_params: list(reader, &object, "tensor_params", tensor),
        cores: reader.required(&object, "core_types", needed_cores),
        archs: reader.optional(&object, "dsp_arch_types", archs),
        reference: reader.optional(&object, "reference", source),
    })
}

/// Reads a string, or a list of lines.
fn source<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Vec<At<String>>> {
    match node.raw.get().chars().next() {
        Some('"') => reader.string(node).map(|text| vec![text]),
        Some('[') => {
            let lines = reader.list_of(node, Reader::string)?;
            if lines.value.is_empty() {
                empty(reader, &lines.spot, "the lines of a source");
                return None;
            }
            Some(lines.value)
        }
        Some(_) | None => reader.wrong_type(node, "a string, or a list of its lines"),
    }
}

fn tensor<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Tensor> {
    let mut object = reader.any_object(node)?;
    mend_singular(reader, &mut object);
    reader.refuse_unknown(&object, &TENSOR.keys());
    Some(Tensor {
        spot: object.spot.clone(),
        name: reader.optional(&object, "name", Reader::string),
        types: types(reader, &object),
        is_static: reader.optional(&object, "static", Reader::boolean),
        layout: reader.optional(&object, "tensor_layout", literal::layout),
        quantization: reader.optional(&object, "quantization_mode", literal::quantization),
        default: reader.optional(&object, "default_value", literal::default),
        repeated: reader.optional(&object, "repeated", Reader::boolean),
        is_optional: reader.optional(&object, "optional", Reader::boolean),
        attribute: reader.optional(&object, "attribute", Reader::string),
    })
}

fn scalar_param<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<ScalarParam> {
    let object = reader.object(node, &SCALAR.keys())?;
    Some(ScalarParam {
        name: reader.required(&object, "name", Reader::string),
        dtype: reader.required(&object, "data_type", literal::data_type),
        default: reader.optional(&object, "default_value", literal::default),
        is_optional: reader.optional(&object, "optional", Reader::boolean),
        attribute: reader.optional(&object, "attribute", Reader::string),
    })
}

/// Reads the singular field name as the plural, as in the vendor's samples.
fn mend_singular<'t>(reader: &mut Reader<'_, '_, 't>, object: &mut Object<'t>) {
    if object.get(PLURAL).is_some() {
        return;
    }
    let Some(member) = object.members.iter_mut().find(|m| m.key == SINGULAR) else { return };
    PLURAL.clone_into(&mut member.key);
    let (found, expected) = (format!("\"{SINGULAR}\""), format!("\"{PLURAL}\""));
    let help = format!("did you mean \"{PLURAL}\"?");
    reader.report.lax(&member.key_spot, problem(Kind::UnknownField, found, expected, help));
}

fn types<'t>(reader: &mut Reader<'_, '_, 't>, object: &Object<'t>) -> Option<Types> {
    match (object.get("data_type"), object.get(PLURAL)) {
        (Some(one), None) => literal::data_type(reader, &one.value).map(Types::One),
        (None, Some(per_core)) => per_core_types(reader, &per_core.value),
        (Some(_), Some(per_core)) => {
            let found = format!("\"data_type\" and \"{PLURAL}\"");
            let help = "keep \"data_type\" for one type on every core, else the other";
            reader
                .report
                .error(&per_core.key_spot, problem(Kind::TwoDataTypes, found, "one of them", help));
            None
        }
        (None, None) => {
            let expected = format!("\"data_type\" or \"{PLURAL}\"");
            let help = "add \"data_type\": \"FLOAT_32\", or a type for each core";
            reader
                .report
                .error(&object.spot, problem(Kind::NoDataType, "neither field", expected, help));
            None
        }
    }
}

fn per_core_types<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Types> {
    let object = reader.any_object(node)?;
    let entry = |member: &Member<'t>| {
        let key = At { value: member.key.clone(), spot: member.key_spot.clone() };
        let core = literal::core_of(reader, key);
        let dtype = literal::data_type(reader, &member.value);
        Some((core?.value, dtype?))
    };
    let entries: Vec<_> = object.members.iter().map(entry).collect();
    let value = entries.into_iter().collect::<Option<Vec<_>>>()?;
    Some(Types::PerCore(At { value, spot: object.spot }))
}

fn cores<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<Vec<At<CoreKind>>>> {
    reader.list_of(node, literal::core)
}

fn needed_cores<'t>(
    reader: &mut Reader<'_, '_, 't>,
    node: &Node<'t>,
) -> Option<At<Vec<At<CoreKind>>>> {
    let list = cores(reader, node)?;
    if list.value.is_empty() {
        empty(reader, &list.spot, "at least one of \"CPU\", \"GPU\" and \"DSP\"");
        return None;
    }
    Some(list)
}

fn archs<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<Vec<At<u16>>>> {
    reader.list_of(node, literal::arch)
}

/// Reads the entries of an optional list; a fault in one does not stop the others.
fn list<'r, 's, 't, T>(
    reader: &mut Reader<'r, 's, 't>,
    object: &Object<'t>,
    key: &str,
    read: Read<'r, 's, 't, T>,
) -> Vec<T> {
    let items = object.get(key).and_then(|member| reader.list(&member.value)).unwrap_or_default();
    items.iter().filter_map(|item| read(reader, item)).collect()
}

fn required_list<'r, 's, 't, T>(
    reader: &mut Reader<'r, 's, 't>,
    object: &Object<'t>,
    key: &str,
    read: Read<'r, 's, 't, T>,
) -> Vec<T> {
    let Some(node) = reader.required(object, key, |_, node| Some(node.clone())) else {
        return Vec::new();
    };
    let Some(items) = reader.list(&node) else { return Vec::new() };
    if items.is_empty() {
        let spot = reader.spot(&node);
        empty(reader, &spot, "a list with at least one entry");
    }
    items.iter().filter_map(|item| read(reader, item)).collect()
}

fn empty(reader: &mut Reader<'_, '_, '_>, spot: &Spot, expected: &str) {
    let help = format!("write {expected} here");
    reader.report.error(spot, problem(Kind::Empty, "nothing", expected, help));
}

#[cfg(test)]
mod tests {
    use crate::{
        Kind::{self, *},
        Mode,
        read::testing::{edited, faults},
    };

    const BASE: &str = r#"{"P": {"Operators": [{"type": "Relu",
        "inputs": [{"name": "x", "data_type": "FLOAT_32", "tensor_layout": "NHWC",
                    "quantization_mode": "TF"}],
        "outputs": [{"name": "y", "per_core_data_types": {"CPU": "FLOAT_32", "GPU": "FLOAT_32"}}],
        "scalar_params": [{"name": "a", "data_type": "INT_32"}],
        "tensor_params": [],
        "core_types": ["CPU", "GPU"]}], "UDO_PACKAGE_NAME": "ReluPackage"}}"#;

    const OP: &str = "$.P.Operators[0]";

    fn check(cases: &[(&str, &str, Kind, &str, &str)]) {
        assert_eq!(faults(BASE, Mode::Strict), []);
        for (from, to, kind, path, help) in cases {
            let got: Vec<(Kind, String, String)> =
                faults(&edited(BASE, &[(from, to)]), Mode::Strict)
                    .into_iter()
                    .map(|d| (d.kind, d.path.replace(OP, "op"), d.help))
                    .collect();
            let [(got_kind, got_path, got_help)] = got.as_slice() else {
                panic!("{from} -> {to}: {got:?}");
            };
            assert_eq!((got_kind, got_path.as_str()), (kind, *path), "{from} -> {to}");
            assert!(got_help.contains(help), "{from} -> {to}: {got_help}");
        }
    }

    #[test]
    fn fields_are_known_and_there_once() {
        check(&[
            ("\"inputs\"", "\"inputz\": 1, \"inputs\"", UnknownField, "op.inputz", "\"inputs\"?"),
            (
                "\"UDO_PACKAGE_NAME\"",
                "\"x\": 1, \"UDO_PACKAGE_NAME\"",
                UnknownField,
                "$.P.x",
                "remove",
            ),
            (
                "\"data_type\": \"INT_32\"",
                "\"data_type\": \"INT_32\", \"static\": true",
                UnknownField,
                "op.scalar_params[0].static",
                "remove",
            ),
            (
                "per_core_data_types",
                "per_core_data_type",
                UnknownField,
                "op.outputs[0].per_core_data_type",
                "did you mean \"per_core_data_types\"?",
            ),
            (
                "\"type\"",
                "\"type\": \"A\", \"type\"",
                DuplicateKey,
                "op.type",
                "first is at c.json:1:23",
            ),
            (
                "{\"CPU\": \"FLOAT_32\",",
                "{\"CPU\": \"FLOAT_32\", \"CPU\": \"INT_8\",",
                DuplicateKey,
                "op.outputs[0].per_core_data_types.CPU",
                "keep one",
            ),
            ("\"type\": \"Relu\",", "", MissingField, "op.type", "add \"type\""),
            (
                ", \"UDO_PACKAGE_NAME\": \"ReluPackage\"",
                "",
                MissingField,
                "$.P.UDO_PACKAGE_NAME",
                "add",
            ),
            ("\"name\": \"a\", ", "", MissingField, "op.scalar_params[0].name", "add"),
            (
                ", \"data_type\": \"INT_32\"",
                "",
                MissingField,
                "op.scalar_params[0].data_type",
                "add",
            ),
            (
                ",\n        \"core_types\": [\"CPU\", \"GPU\"]",
                "",
                MissingField,
                "op.core_types",
                "add",
            ),
        ]);
    }

    #[test]
    fn the_place_of_the_schema_is_no_package() {
        let with = |value: &str| format!("{{\"$schema\": {value}, {}", &BASE[1..]);
        assert_eq!(faults(&with("\"udo-config.schema.json\""), Mode::Strict), []);
        for (text, kind, path) in [
            (with("1"), JsonType, "$[\"$schema\"]"),
            ("{\"$schema\": \"s\"}".to_owned(), Empty, "$"),
        ] {
            let got: Vec<_> =
                faults(&text, Mode::Strict).into_iter().map(|d| (d.kind, d.path)).collect();
            assert_eq!(got, [(kind, path.to_owned())]);
        }
    }

    #[test]
    fn values_have_their_json_type() {
        check(&[
            ("\"Relu\"", "1", JsonType, "op.type", "a string"),
            ("[\"CPU\", \"GPU\"]", "\"CPU\"", JsonType, "op.core_types", "a list"),
            ("[\"CPU\", \"GPU\"]", "[]", Empty, "op.core_types", "at least one"),
            ("\"NHWC\"", "null", JsonType, "op.inputs[0].tensor_layout", "a string"),
            ("\"TF\"", "\"TF\", \"static\": 1", JsonType, "op.inputs[0].static", "true or false"),
            (
                "\"tensor_params\": []",
                "\"tensor_params\": {}",
                JsonType,
                "op.tensor_params",
                "a list",
            ),
            ("\"Relu\"", "\"\\ud800\"", Syntax, "op.type", "character"),
        ]);
    }

    #[test]
    fn lists_that_need_an_entry_have_one() {
        let cases = [
            (r#"{"P": {"Operators": [], "UDO_PACKAGE_NAME": "P"}}"#, "$.P.Operators"),
            (r"{}", "$"),
        ];
        for (text, path) in cases {
            let got: Vec<_> =
                faults(text, Mode::Strict).into_iter().map(|d| (d.kind, d.path)).collect();
            assert_eq!(got, [(Empty, path.to_owned())], "{text}");
        }
        for name in ["inputs", "outputs"] {
            let text = r#"{"P": {"UDO_PACKAGE_NAME": "P", "Operators": [
                {"type": "A", "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
                "outputs": [{"name": "y", "data_type": "FLOAT_32"}], "core_types": ["CPU"]}]}}"#;
            assert_eq!(faults(text, Mode::Strict), []);
            let start = text.find(&format!("\"{name}\": [")).unwrap() + name.len() + 4;
            let end = start + text[start..].find(']').unwrap();
            let got: Vec<_> = faults(&format!("{}[{}", &text[..start], &text[end..]), Mode::Strict)
                .into_iter()
                .map(|d| (d.kind, d.path))
                .collect();
            assert_eq!(got, [(Empty, format!("{OP}.{name}"))]);
        }
    }

    #[test]
    fn words_are_those_of_the_grammar() {
        let core = "op.core_types[1]";
        check(&[
            (
                "\"INT_32\"",
                "\"INT32\"",
                UnknownDataType,
                "op.scalar_params[0].data_type",
                "\"INT_32\"?",
            ),
            (
                "\"INT_32\"",
                "\"DOUBLE\"",
                UnknownDataType,
                "op.scalar_params[0].data_type",
                "grammar",
            ),
            ("\"CPU\", \"GPU\"]", "\"CPU\", \"gpu\"]", UnknownCore, core, "did you mean \"GPU\"?"),
            (
                "\"CPU\", \"GPU\"]",
                "\"CPU\", \"HTA\"]",
                UnknownCore,
                core,
                "user operators do not run on the HTA",
            ),
            ("\"CPU\", \"GPU\"]", "\"CPU\", \"AIP\"]", UnknownCore, core, "declare \"DSP\""),
            ("\"CPU\", \"GPU\"]", "\"CPU\", \"HTP\"]", UnknownCore, core, "from V68 on"),
            ("\"CPU\", \"GPU\"]", "\"CPU\", \"npu\"]", UnknownCore, core, "from V68 on"),
            ("\"GPU\": ", "\"AIP\": ", UnknownCore, "op.outputs[0].per_core_data_types.AIP", "AIP"),
            (
                "\"CPU\", \"GPU\"]",
                "\"CPU\", \"GPU\"], \"dsp_arch_types\": [\"V68\"]",
                UnknownArch,
                "op.dsp_arch_types[0]",
                "\"v68\"?",
            ),
            (
                "\"CPU\", \"GPU\"]",
                "\"CPU\", \"GPU\"], \"dsp_arch_types\": [\"v60\"]",
                UnknownArch,
                "op.dsp_arch_types[0]",
                "runs on its architecture",
            ),
            ("\"NHWC\"", "\"NHCW\"", UnknownLayout, "op.inputs[0].tensor_layout", "\"NCHW\"?"),
            ("\"NHWC\"", "\"nhwc\"", UnknownLayout, "op.inputs[0].tensor_layout", "\"NHWC\"?"),
            (
                "\"TF\"",
                "\"AFFINE\"",
                UnknownQuantization,
                "op.inputs[0].quantization_mode",
                "only mode",
            ),
            (
                "\"data_type\": \"FLOAT_32\", \"tensor_layout\"",
                "\"tensor_layout\"",
                NoDataType,
                "op.inputs[0]",
                "add \"data_type\"",
            ),
            (
                "\"name\": \"y\"",
                "\"name\": \"y\", \"data_type\": \"FLOAT_32\"",
                TwoDataTypes,
                "op.outputs[0].per_core_data_types",
                "keep",
            ),
        ]);
    }
}
