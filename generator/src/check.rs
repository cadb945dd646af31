//! Checks drafts against each other and returns a config, for every input format.
//!
//! A function here returns `None` if it reported an error; the config is then not used.

mod default;
mod name;
pub(crate) mod op;
pub(crate) mod package;
mod reference;
mod tensor;

use crate::{config::Config, draft::Package, report::Report, source::Source};

/// Merges the packages of all files by name and checks them.
pub(crate) fn config(
    packages: Vec<Package>,
    sources: &[Source<'_>],
    report: &mut Report<'_>,
) -> Config {
    let groups = package::group(packages, report);
    let packages =
        groups.iter().filter_map(|group| package::check(group, sources, report)).collect();
    Config { packages }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{
        Kind::{self, *},
        Mode, Severity, Source,
        config::QuantizationMode,
        read::{
            read,
            testing::{edited, faults},
        },
    };

    /// A valid config with a part for each rule to break.
    const BASE: &str = r#"{"UdoPackage_0": {
        "Operators": [
            {"type": "Norm",
             "inputs": [{"name": "x", "quantization_mode": "TF", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_8"}},
                        {"name": "w", "data_type": "FLOAT_32", "static": true, "default_value": [1]}],
             "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
             "scalar_params": [{"name": "eps", "data_type": "FLOAT_32", "default_value": 1e-5},
                               {"name": "mode", "data_type": "STRING", "default_value": "fast"},
                               {"name": "axis", "data_type": "INT_8", "default_value": -1}],
             "tensor_params": [{"name": "axes", "data_type": "UINT_32", "default_value": []}],
             "core_types": ["CPU", "DSP"], "dsp_arch_types": ["v66", "v68"]},
            {"type": "Second",
             "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
             "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
             "core_types": ["CPU", "GPU"]}],
        "UDO_PACKAGE_NAME": "NormPackage"}}"#;

    const OP0: &str = "$.UdoPackage_0.Operators[0]";

    fn check(cases: &[(&str, &str, Kind, &str)]) {
        assert_eq!(faults(BASE, Mode::Strict), []);
        for (from, to, kind, path) in cases {
            let got: Vec<(Kind, String)> = faults(&edited(BASE, &[(from, to)]), Mode::Strict)
                .into_iter()
                .map(|d| (d.kind, d.path.replace(OP0, "op").replace("$.UdoPackage_0", "pkg")))
                .collect();
            assert_eq!(got, [(*kind, (*path).to_owned())], "{from} -> {to}");
        }
    }

    #[test]
    fn names_are_identifiers_and_apart() {
        check(&[
            ("\"NormPackage\"", "\"Norm Package\"", InvalidName, "pkg.UDO_PACKAGE_NAME"),
            ("\"NormPackage\"", "\"\"", InvalidName, "pkg.UDO_PACKAGE_NAME"),
            ("\"NormPackage\"", "\"../evil\"", PathInName, "pkg.UDO_PACKAGE_NAME"),
            ("\"NormPackage\"", "\"crate\"", KeywordName, "pkg.UDO_PACKAGE_NAME"),
            ("\"Norm\"", "\"2Norm\"", InvalidName, "op.type"),
            ("\"Norm\"", "\"a\\\\b\"", PathInName, "op.type"),
            ("\"Norm\"", "\"class\"", KeywordName, "op.type"),
            ("\"Norm\"", &format!("\"{}\"", "n".repeat(65)), LongName, "op.type"),
            ("\"w\"", "\"in\"", KeywordName, "op.inputs[1].name"),
            ("\"eps\"", "\"e.ps\"", InvalidName, "op.scalar_params[0].name"),
            ("\"axes\"", "\"\"", InvalidName, "op.tensor_params[0].name"),
            ("\"Second\"", "\"Norm\"", DuplicateOp, "pkg.Operators[1].type"),
            ("\"Second\"", "\"norm\"", NameClash, "pkg.Operators[1].type"),
            ("\"w\"", "\"x\"", DuplicateName, "op.inputs[1].name"),
            ("\"y\"", "\"x\"", DuplicateName, "op.outputs[0].name"),
            ("\"axis\"", "\"axes\"", DuplicateName, "op.scalar_params[2].name"),
            ("\"axis\"", "\"Eps\"", NameClash, "op.scalar_params[2].name"),
        ]);
    }

    #[test]
    fn cores_and_types_agree() {
        let old = "op.inputs[0].per_core_data_types";
        check(&[
            ("\"CPU\", \"DSP\"", "\"CPU\", \"CPU\", \"DSP\"", ListedTwice, "op.core_types[1]"),
            ("\"v68\"", "\"v66\"", ListedTwice, "op.dsp_arch_types[1]"),
            ("\"v66\", \"v68\"", "", NoDspArch, "op.core_types[1]"),
            (
                "\"CPU\", \"GPU\"]",
                "\"CPU\"], \"dsp_arch_types\": [\"v68\"]",
                ArchWithoutDsp,
                "pkg.Operators[1].dsp_arch_types",
            ),
            (", \"DSP\": \"UINT_8\"", "", MissingCoreType, old),
            (
                "\"DSP\": \"UINT_8\"",
                "\"DSP\": \"UINT_8\", \"GPU\": \"FLOAT_16\"",
                UndeclaredCoreType,
                "op.inputs[0].per_core_data_types.GPU",
            ),
            ("UINT_8", "UINT_16", CoreCannotHold, "op.inputs[0].per_core_data_types.DSP"),
            (
                "\"x\", \"data_type\": \"FLOAT_32\"",
                "\"x\", \"data_type\": \"INT_8\"",
                CoreCannotHold,
                "pkg.Operators[1].inputs[0].data_type",
            ),
            ("UINT_8", "FIXED_4", UnsupportedDataType, "op.inputs[0].per_core_data_types.DSP"),
            ("UINT_8", "STRING", StringTensor, "op.inputs[0].per_core_data_types.DSP"),
            ("\"UINT_32\"", "\"STRING\"", StringTensor, "op.tensor_params[0].data_type"),
            ("\"INT_8\"", "\"FIXED_8\"", FixedScalar, "op.scalar_params[2].data_type"),
            ("\"INT_8\"", "\"FIXED_4\"", UnsupportedDataType, "op.scalar_params[2].data_type"),
        ]);
    }

    #[test]
    fn an_element_is_the_same_thing_on_every_core() {
        let x = "[{\"name\": \"x\", \"data_type\": \"FLOAT_32\"}]";
        let one = |dtype: &str| {
            format!(
                "[{{\"name\": \"x\", \"data_type\": \"{dtype}\", \"quantization_mode\": \"TF\"}}]"
            )
        };
        let each = |cpu: &str, gpu: &str, more: &str| {
            format!(
                "[{{\"name\": \"x\"{more}, \"per_core_data_types\": {{\"CPU\": \"{cpu}\", \"GPU\": \"{gpu}\"}}}}]"
            )
        };
        let tf = ", \"quantization_mode\": \"TF\"";
        for good in [each("BOOL_8", "BOOL_8", ""), each("INT_64", "FLOAT_32", "")] {
            assert_eq!(faults(&edited(BASE, &[(x, &good)]), Mode::Strict), [], "{good}");
        }
        let input = "pkg.Operators[1].inputs[0]";
        let at = |core: &str| format!("{input}.per_core_data_types.{core}");
        let whole = format!("{input}.data_type");
        check(&[
            (x, &one("INT_64"), NotEncoded, &whole),
            (x, &one("BOOL_8"), NotEncoded, &whole),
            (x, &each("INT_64", "UINT_8", tf), NotEncoded, &at("CPU")),
            (x, &each("FIXED_8", "INT_64", ""), NotEncoded, &at("GPU")),
            (x, &each("BOOL_8", "FLOAT_32", ""), MixedTruth, &at("CPU")),
            (x, &each("UINT_8", "BOOL_8", tf), MixedTruth, &at("GPU")),
        ]);
    }

    #[test]
    fn integers_beside_real_numbers_are_quantized_values() {
        let tf = "\"quantization_mode\": \"TF\", ";
        let x = "{\"name\": \"x\", ";
        let mode_of = |from: &str, to: &str| {
            let text = edited(BASE, &[(from, to)]);
            let (checked, warnings) =
                read(&[Source { path: Path::new("c.json"), text: &text }], Mode::Strict).unwrap();
            let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            (checked.packages[0].ops[0].inputs[0].quantization, said)
        };
        let (mode, said) = mode_of(tf, "");
        assert_eq!(mode, Some(QuantizationMode::Tf), "nothing else can be meant");
        assert_eq!(
            said,
            [
                "warning: c.json:4:89: $.UdoPackage_0.Operators[0].inputs[0].per_core_data_types.DSP: integers mixed with \
              floats: found UINT_8 here, and FLOAT_32 on another core, expected the same kind of number on every core\n  help: assumed \
              to be quantized values; write \"quantization_mode\": \"TF\" (in XML, use a fixed-point type), or INT_32 for \
              plain integers"
            ]
        );
        let each = |cpu: &str, dsp: &str| {
            let types = format!("{{\"CPU\": \"{cpu}\", \"DSP\": \"{dsp}\"}}");
            mode_of(
                &format!(
                    "{x}{tf}\"per_core_data_types\": {{\"CPU\": \"FLOAT_32\", \"DSP\": \"UINT_8\"}}"
                ),
                &format!("{x}\"per_core_data_types\": {types}"),
            )
        };
        for (cpu, dsp) in [("FLOAT_32", "INT_32"), ("INT_32", "UINT_8"), ("FLOAT_32", "FLOAT_32")] {
            assert_eq!(each(cpu, dsp), (None, Vec::new()), "{cpu} {dsp}");
        }
    }

    #[test]
    fn defaults_have_the_declared_type() {
        let scalar = |i: usize| format!("op.scalar_params[{i}].default_value");
        let (eps, mode, axis) = (scalar(0), scalar(1), scalar(2));
        let list = "op.tensor_params[0].default_value";
        check(&[
            ("1e-5", "\"1e-5\"", DefaultType, &eps),
            ("1e-5", "true", DefaultType, &eps),
            ("1e-5", "[1e-5]", DefaultType, &eps),
            ("1e-5", "1e39", DefaultRange, &eps),
            ("1e-5", "1e999", DefaultRange, &eps),
            ("\"fast\"", "1", DefaultType, &mode),
            ("-1", "-1.0", DefaultType, &axis),
            ("-1", "-129", DefaultRange, &axis),
            (": []", ": [0, -1]", DefaultRange, &format!("{list}[1]")),
            (": []", ": [0.5]", DefaultType, &format!("{list}[0]")),
            (": []", ": \"x\"", DefaultType, list),
            (": []", ": [[1]]", JsonType, &format!("{list}[0]")),
        ]);
    }

    #[test]
    fn an_input_of_codes_alone_has_no_default_in_numbers() {
        let w = "\"w\", \"data_type\": \"FLOAT_32\"";
        let coded = |dtype: &str, more: &str| {
            format!(
                "\"w\", {more}\"per_core_data_types\": {{\"CPU\": \"{dtype}\", \"DSP\": \"UINT_8\"}}"
            )
        };
        let tf = "\"quantization_mode\": \"TF\", ";
        for good in [coded("UINT_8", ""), coded("FLOAT_32", tf)] {
            assert_eq!(faults(&edited(BASE, &[(w, &good)]), Mode::Strict), [], "{good}");
        }
        let empty = edited(BASE, &[(w, &coded("UINT_8", tf)), ("[1]", "[]")]);
        assert_eq!(faults(&empty, Mode::Strict), []);
        let place = "op.inputs[1].default_value";
        check(&[
            (w, &coded("UINT_8", tf), DefaultPlace, place),
            (w, &coded("FIXED_16", ""), DefaultPlace, place),
        ]);
    }

    #[test]
    fn fields_stand_where_they_mean_something() {
        let y = "\"name\": \"y\", \"data_type\": \"FLOAT_32\"}],\n             \"scalar";
        let with = |field: &str| y.replacen('}', &format!(", {field}}}"), 1);
        let repeated = "\"repeated\": true";
        check(&[
            (", \"static\": true", "", DefaultPlace, "op.inputs[1].default_value"),
            (y, &with("\"default_value\": [1]"), DefaultPlace, "op.outputs[0].default_value"),
            (y, &with("\"static\": true"), StaticPlace, "op.outputs[0].static"),
            (y, &with("\"optional\": true"), OptionalPlace, "op.outputs[0].optional"),
            (y, &with(repeated), RepeatedOnDsp, "op.outputs[0].repeated"),
            (
                "[{\"name\": \"x\", \"data_type\": \"FLOAT_32\"}]",
                "[{\"name\": \"x\", \"data_type\": \"FLOAT_32\", \"repeated\": true},
                  {\"name\": \"z\", \"data_type\": \"FLOAT_32\"}]",
                RepeatedPlace,
                "pkg.Operators[1].inputs[0].repeated",
            ),
        ]);
    }

    #[test]
    fn attributes_are_names_of_a_model_and_each_gives_one_parameter() {
        let eps = "\"name\": \"eps\"";
        let with = |attribute: &str| format!("{eps}, \"attribute\": \"{attribute}\"");
        for good in ["type", "eps-1", "eps"] {
            assert_eq!(faults(&edited(BASE, &[(eps, &with(good))]), Mode::Strict), [], "{good}");
        }
        let spot = "op.scalar_params[0].attribute";
        check(&[
            (eps, &with(""), InvalidAttribute, spot),
            (eps, &with("a\\n"), InvalidAttribute, spot),
            (eps, &with(&"a".repeat(65)), InvalidAttribute, spot),
            (eps, &with("mode"), DuplicateAttribute, spot),
            (eps, &with("axes"), DuplicateAttribute, spot),
            (
                "\"name\": \"x\"",
                "\"name\": \"x\", \"attribute\": \"a\"",
                InvalidAttribute,
                "op.inputs[0].attribute",
            ),
        ]);
    }

    #[test]
    fn an_operator_has_no_more_parts_than_a_package_can_count() {
        use std::fmt::Write as _;
        let ports = |key: &str, count: usize| {
            let mut text = format!("\"{key}\": [");
            for index in 0..count {
                let comma = if index == 0 { "" } else { ", " };
                let _ = write!(
                    text,
                    "{comma}{{\"name\": \"n{key}{index}\", \"data_type\": \"FLOAT_32\"}}"
                );
            }
            text + "]"
        };
        let op = |inputs, outputs, scalars, tensors| {
            format!(
                "{{\"p\": {{\"UDO_PACKAGE_NAME\": \"P\", \"Operators\": [{{\"type\": \"A\", \"core_types\": \
                 [\"CPU\"], {}, {}, {}, {}}}]}}}}",
                ports("inputs", inputs),
                ports("outputs", outputs),
                ports("scalar_params", scalars),
                ports("tensor_params", tensors)
            )
        };
        assert_eq!(faults(&op(0xffff, 1, 1, 1), Mode::Strict), []);
        let cases = [
            (op(70_000, 1, 0, 0), "$.p.Operators[0].inputs[65535]", "70000 inputs"),
            (op(1, 0x1_0000, 0, 0), "$.p.Operators[0].outputs[65535]", "65536 outputs"),
            (op(1, 1, 0x1_0000, 1), "$.p.Operators[0].tensor_params[0]", "65537 parameters"),
            (
                op(1, 1, 0x1_0001, 0),
                "$.p.Operators[0].scalar_params[65536].name",
                "65537 parameters",
            ),
        ];
        for (text, path, found) in cases {
            let got: Vec<_> = faults(&text, Mode::Strict)
                .into_iter()
                .map(|d| (d.kind, d.path, d.found))
                .collect();
            assert_eq!(got, [(TooMany, path.to_owned(), found.to_owned())]);
        }
    }

    #[test]
    fn package_fields_agree_with_the_operators() {
        let name = "\"UDO_PACKAGE_NAME\"";
        let with = |fields: &str| format!("{fields}, {name}");
        let all = "\"UDO_PACKAGE_CORETYPES\": [\"CPU\", \"GPU\", \"DSP\"]";
        let archs = "\"UDO_PACKAGE_DSP_ARCH_TYPES\": [\"v66\", \"v68\", \"v73\"]";
        assert_eq!(faults(&edited(BASE, &[(name, &with(all))]), Mode::Strict), []);
        assert_eq!(faults(&edited(BASE, &[(name, &with(archs))]), Mode::Strict), []);
        check(&[
            (
                name,
                &with("\"UDO_PACKAGE_CORETYPES\": [\"CPU\", \"DSP\"]"),
                PackageTooNarrow,
                "pkg.UDO_PACKAGE_CORETYPES",
            ),
            (
                name,
                &with("\"UDO_PACKAGE_DSP_ARCH_TYPES\": [\"v68\"]"),
                PackageTooNarrow,
                "pkg.UDO_PACKAGE_DSP_ARCH_TYPES",
            ),
            (
                name,
                &with("\"UDO_PACKAGE_PATH\": \"a\\u0000b\""),
                InvalidPath,
                "pkg.UDO_PACKAGE_PATH",
            ),
        ]);
        for version in ["0.0.0", "10.2.3", "1.0.0-rc.1+7", "1.0.0+build.5-x"] {
            let text = with(&format!("\"UDO_PACKAGE_VERSION\": \"{version}\""));
            assert_eq!(faults(&edited(BASE, &[(name, &text)]), Mode::Strict), [], "{version}");
        }
        for version in
            ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "v1.0.0", "1.0.0 "]
        {
            let text = with(&format!("\"UDO_PACKAGE_VERSION\": \"{version}\""));
            check(&[(name, &text, InvalidVersion, "pkg.UDO_PACKAGE_VERSION")]);
        }
        for domain in ["com.acme.pose", "ai.onnx", "my_ops", "x-y.z1"] {
            let text = with(&format!("\"UDO_PACKAGE_DOMAIN\": \"{domain}\""));
            assert_eq!(faults(&edited(BASE, &[(name, &text)]), Mode::Strict), [], "{domain}");
        }
        for domain in ["", "1.com", "a b", "com/acme", "acme:pose", "ä.b", ".a"] {
            let text = with(&format!("\"UDO_PACKAGE_DOMAIN\": \"{domain}\""));
            check(&[(name, &text, InvalidDomain, "pkg.UDO_PACKAGE_DOMAIN")]);
        }
        let odd = with("\"UDO_PACKAGE_PATH\": \"/abs/../odd path\", \"SNPE_UDO_ROOT\": \"\"");
        assert_eq!(faults(&edited(BASE, &[(name, &odd)]), Mode::Strict), []);
    }

    #[test]
    fn vendor_habits_are_errors_or_warnings_by_mode() {
        let cases: &[(&str, &str, Kind)] = &[
            ("\"per_core_data_types\"", "\"per_core_data_type\"", UnknownField),
            ("\"name\": \"y\", ", "", MissingName),
            ("\"name\": \"x\"", "\"name\": \"\"", MissingName),
            (", \"dsp_arch_types\": [\"v66\", \"v68\"]", "", NoDspArch),
        ];
        for (from, to, kind) in cases {
            let text = edited(BASE, &[(from, to)]);
            for (mode, severity) in
                [(Mode::Strict, Severity::Error), (Mode::Compat, Severity::Warning)]
            {
                let got: Vec<_> =
                    faults(&text, mode).iter().map(|d| (d.kind, d.severity)).collect();
                assert_eq!(got, [(*kind, severity)], "{from} -> {to} {mode:?}");
            }
        }
    }
}
