//! The entry point: reads config files into a config, or returns all of their faults.

use crate::{
    check,
    config::Config,
    diagnostic::{ConfigError, Diagnostic},
    draft::FileId,
    json,
    report::Report,
    source::{Mode, Source},
    xml,
};

/// Reads JSON or XML config files into one config; files that define the same package are merged.
///
/// Returns the config and the warnings, in the order of files and positions. Without files the
/// config has no packages.
///
/// # Errors
///
/// Every fault of every file.
pub fn read(files: &[Source<'_>], mode: Mode) -> Result<(Config, Vec<Diagnostic>), ConfigError> {
    let files: Vec<Source<'_>> = files
        .iter()
        // Windows editors write a byte order mark, which JSON does not allow.
        .map(|file| Source { text: file.text.trim_start_matches('\u{feff}'), ..*file })
        .collect();
    let mut report = Report::new(&files, mode);
    let mut packages = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let id = FileId(index);
        if xml::is_xml(file.text) {
            packages.extend(xml::read(file.text, id, &mut report));
        } else {
            packages.extend(json::read(file.text, id, &mut report));
        }
    }
    let is_xml = |FileId(index)| files.get(index).is_some_and(|file| xml::is_xml(file.text));
    xml::join_backends(&mut packages, is_xml, &mut report);
    let config = check::config(packages, &files, &mut report);
    let warnings = report.finish()?;
    Ok((config, warnings))
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::Path;

    use super::*;

    /// Returns all diagnostics of one file.
    pub(crate) fn faults(text: &str, mode: Mode) -> Vec<Diagnostic> {
        match read(&[Source { path: Path::new("c.json"), text }], mode) {
            Ok((_, warnings)) => warnings,
            Err(error) => error.diagnostics,
        }
    }

    /// Returns the text with the first match of each pattern replaced; each pattern must match.
    pub(crate) fn edited(text: &str, edits: &[(&str, &str)]) -> String {
        let mut text = text.to_owned();
        for (from, to) in edits {
            assert!(text.contains(from), "no {from} in {text}");
            text = text.replacen(from, to, 1);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{
        testing::{edited, faults},
        *,
    };
    use crate::{
        Kind,
        config::{
            Core, CoreType, DataType, DefaultValue, Layout, Package, QuantizationMode, Scalar,
        },
    };

    const SOFTMAX: &str = include_str!("../tests/configs/softmax_htp.json");
    const STATIC: &str = include_str!("../tests/configs/static_and_tensor_params.json");
    const SEVERAL_OPS: &str = include_str!("../tests/configs/several_ops.json");
    const TWO_PACKAGES: &str = include_str!("../tests/configs/two_packages.json");
    const OLD_DSP: &str = include_str!("../tests/configs/old_dsp.json");
    const VENDOR_HABITS: &str = include_str!("../tests/configs/vendor_habits.json");
    const NORM: &str = include_str!("../tests/configs/norm.xml");
    const SLIPS: &str = include_str!("../tests/configs/template_with_slips.json");

    fn packages(text: &str) -> Vec<Package> {
        let source = Source { path: Path::new("c.json"), text };
        let (config, warnings) = read(&[source], Mode::Strict).unwrap();
        assert_eq!(warnings, []);
        config.packages
    }

    #[test]
    fn a_package_for_three_cores_reads() {
        let packages = packages(SOFTMAX);
        let [package] = packages.as_slice() else { panic!("{packages:?}") };
        assert_eq!(package.name, "SoftmaxUdoPackage");
        assert_eq!(package.cores, [Core::Cpu, Core::Gpu, Core::Dsp(68)]);
        assert_eq!(package.sources, [PathBuf::from("c.json")]);
        let [op] = package.ops.as_slice() else { panic!("{:?}", package.ops) };
        assert_eq!(op.name, "Softmax");
        let [input] = op.inputs.as_slice() else { panic!("{:?}", op.inputs) };
        assert_eq!(input.name, "Placeholder");
        assert_eq!(input.layout, None);
        assert_eq!(input.quantization, Some(QuantizationMode::Tf));
        let types = [
            CoreType { core: Core::Cpu, dtype: DataType::Float32 },
            CoreType { core: Core::Gpu, dtype: DataType::Float32 },
            CoreType { core: Core::Dsp(68), dtype: DataType::Uint8 },
        ];
        assert_eq!(input.types, types);
        assert_eq!(input.type_on(Core::Dsp(68)), Some(DataType::Uint8));
        assert_eq!(input.type_on(Core::Dsp(66)), None);
    }

    #[test]
    fn static_tensors_parameters_and_defaults_read() {
        let packages = packages(STATIC);
        let op = &packages[0].ops[0];
        assert_eq!(op.inputs[1].layout, Some(Layout::Nchw));
        assert!(op.inputs[1].is_static);
        let zero = DefaultValue::List(vec![Scalar::Float(0.0)]);
        assert_eq!(op.inputs[2].default, Some(zero));
        assert_eq!(op.scalar_params[0].default, Some(Scalar::Int(1)));
        assert_eq!(op.scalar_params[1].default, Some(Scalar::Int(1)));
        let pad = DefaultValue::List(vec![Scalar::Int(0), Scalar::Int(0)]);
        assert_eq!(op.tensor_params[0].default, Some(pad));
    }

    #[test]
    fn a_package_has_the_cores_of_its_operators_or_more() {
        let dsp = |archs: &[u16]| archs.iter().map(|a| Core::Dsp(*a)).collect::<Vec<_>>();
        assert_eq!(packages(SEVERAL_OPS)[0].cores, [Core::Cpu, Core::Gpu]);
        let two = packages(TWO_PACKAGES);
        assert_eq!(two[0].cores, [Core::Cpu]);
        assert_eq!(two[1].cores, [vec![Core::Cpu], dsp(&[68, 69])].concat());
        let old = &packages(OLD_DSP)[0];
        assert_eq!(old.cores, [vec![Core::Cpu, Core::Gpu], dsp(&[65, 66, 68])].concat());
        assert_eq!(old.ops[0].cores, [vec![Core::Cpu], dsp(&[65, 66])].concat());
        assert_eq!(old.path, Some(PathBuf::from("../packages")));
        assert_eq!(old.udo_root, None);
    }

    #[test]
    fn vendor_habits_read_with_warnings() {
        let source = Source { path: Path::new("habits.json"), text: VENDOR_HABITS };
        let (config, warnings) = read(&[source], Mode::Compat).unwrap();
        let op = &config.packages[0].ops[0];
        assert_eq!(op.inputs[0].name, "in_0");
        assert_eq!(op.outputs[0].name, "out_0");
        assert_eq!(op.cores, [Core::Cpu, Core::Dsp(68)]);
        let text: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        warning: habits.json:7:21: $.UdoPackage_0.Operators[0].inputs[0].name: tensor without a name: found no name, expected "name"
          help: add "name": "in_0"; compatible mode assumes that name
        warning: habits.json:7:25: $.UdoPackage_0.Operators[0].inputs[0].per_core_data_type: unknown field: found "per_core_data_type", expected "per_core_data_types"
          help: did you mean "per_core_data_types"?
        warning: habits.json:7:75: $.UdoPackage_0.Operators[0].inputs[0].per_core_data_type.DSP: integers mixed with floats: found UINT_8 here, and FLOAT_32 on another core, expected the same kind of number on every core
          help: assumed to be quantized values; write "quantization_mode": "TF" (in XML, use a fixed-point type), or INT_32 for plain integers
        warning: habits.json:10:11: $.UdoPackage_0.Operators[0].outputs[0]: tensor without a name: found no name, expected "name"
          help: add "name": "out_0"; compatible mode assumes that name
        warning: habits.json:10:64: $.UdoPackage_0.Operators[0].outputs[0].per_core_data_types.DSP: integers mixed with floats: found UINT_8 here, and FLOAT_32 on another core, expected the same kind of number on every core
          help: assumed to be quantized values; write "quantization_mode": "TF" (in XML, use a fixed-point type), or INT_32 for plain integers
        warning: habits.json:12:31: $.UdoPackage_0.Operators[0].core_types[1]: DSP without architectures: found "DSP" only, expected its architectures too
          help: add "dsp_arch_types": ["v68"]; compatible mode assumes it
        "#);
        let strict = faults(VENDOR_HABITS, Mode::Strict);
        assert_eq!(strict.len(), warnings.len());
    }

    #[test]
    fn all_faults_of_all_files_are_reported_in_order() {
        let files = [
            Source { path: Path::new("slips.json"), text: SLIPS },
            Source { path: Path::new("cut.json"), text: &SOFTMAX[..40] },
        ];
        let error = read(&files, Mode::Strict).unwrap_err();
        insta::assert_snapshot!(error, @r#"
        error: slips.json:5:17: $.UdoPackage_0.Operators[0].type: invalid name: found "", expected an identifier: letters, digits and `_`, no digit first
          help: write a name
        error: slips.json:7:21: $.UdoPackage_0.Operators[0].inputs[0].name: name is a keyword: found "in", expected a name that is not a keyword of Rust
          help: for example "in_"
        error: slips.json:7:66: trailing comma: found `,` before `}`, expected no comma after the last entry
          help: delete this comma; the vendor's published template has it, but JSON does not allow it
        error: slips.json:8:39: $.UdoPackage_0.Operators[0].inputs[1].data_type: unknown data type: found "FLOAT32", expected FLOAT_16, FLOAT_32, FIXED_4, FIXED_8, FIXED_16, FIXED_32, UINT_8, UINT_16, UINT_32, INT_8, INT_16, INT_32, INT_64, BOOL_8 or STRING
          help: did you mean "FLOAT_32"?
        error: slips.json:8:50: trailing comma: found `,` before `]`, expected no comma after the last entry
          help: delete this comma; the vendor's published template has it, but JSON does not allow it
        error: slips.json:12:10: missing comma: found `"` right after an entry, expected `,` between two entries
          help: put a comma here; the vendor's published template lacks one
        error: slips.json:13:31: $.UdoPackage_0.Operators[0].core_types[1]: unknown core: found "HTP", expected CPU, GPU or DSP
          help: the HTP is the DSP from V68 on; declare "DSP" with "dsp_arch_types": ["v68"]
        error: slips.json:16:25: $.UdoPackage_0.UDO_PACKAGE_NAME: name holds a path: found "My/Package", expected an identifier: letters, digits and `_`, no digit first
          help: folders belong in UDO_PACKAGE_PATH; a name cannot contain them
        error: cut.json:3:19: invalid JSON: found the end of the file, expected more JSON
          help: close the string, list or object that is still open
        "#);
    }

    #[test]
    fn files_add_to_the_same_package() {
        let other = edited(SOFTMAX, &[("\"Softmax\"", "\"Other\""), ("\"GPU\", ", "")])
            .replace("\"GPU\": \"FLOAT_32\", ", "");
        let files = [
            Source { path: Path::new("a.json"), text: SOFTMAX },
            Source { path: Path::new("b.json"), text: TWO_PACKAGES },
            Source { path: Path::new("c.json"), text: &other },
        ];
        let (config, _) = read(&files, Mode::Strict).unwrap();
        let names: Vec<&str> = config.packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["SoftmaxUdoPackage", "SynPkgA", "SynPkgB"]);
        let merged = &config.packages[0];
        let ops: Vec<&str> = merged.ops.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(ops, ["Softmax", "Other"]);
        assert_eq!(merged.sources, [PathBuf::from("a.json"), PathBuf::from("c.json")]);
    }

    #[test]
    fn files_that_disagree_are_refused_naming_both_places() {
        let name = "\"UDO_PACKAGE_NAME\"";
        let first = edited(SOFTMAX, &[(name, &format!("\"UDO_PACKAGE_PATH\": \"a\", {name}"))]);
        let second = edited(SOFTMAX, &[(name, &format!("\"UDO_PACKAGE_PATH\": \"b\", {name}"))]);
        let files = [
            Source { path: Path::new("a.json"), text: &first },
            Source { path: Path::new("b.json"), text: &second },
        ];
        let error = read(&files, Mode::Strict).unwrap_err();
        insta::assert_snapshot!(error, @r#"
        error: b.json:5:17: $.UdoPackage_0.Operators[0].type: duplicate operator: found "Softmax" again, expected each name once
          help: rename or remove one; the first is at a.json:5:17
        error: b.json:24:25: $.UdoPackage_0.UDO_PACKAGE_PATH: packages disagree: found "a" and "b", expected the same in each file
          help: keep one of them; the first is at a.json:24:25
        "#);
    }

    #[test]
    fn a_file_names_each_package_once() {
        let text = edited(TWO_PACKAGES, &[("SynPkgB", "SynPkgA")]);
        let kinds: Vec<Kind> = faults(&text, Mode::Strict).iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [Kind::DuplicatePackage]);
    }

    #[test]
    fn keys_that_are_empty_strings_are_keys() {
        let one = edited(TWO_PACKAGES, &[("\"UdoPackage_0\"", "\"\"")]);
        assert_eq!(packages(&one), packages(TWO_PACKAGES));
        let both = edited(&one, &[("\"UdoPackage_1\"", "\"\"")]);
        let got: Vec<_> =
            faults(&both, Mode::Strict).into_iter().map(|d| (d.kind, d.path)).collect();
        assert_eq!(got, [(Kind::DuplicateKey, "$[\"\"]".to_owned())]);
    }

    #[test]
    fn byte_order_marks_and_windows_line_ends_are_nothing() {
        let text = format!("\u{feff}{}", SOFTMAX.replace('\n', "\r\n"));
        assert_eq!(packages(&text), packages(SOFTMAX));
    }

    #[test]
    fn cut_texts_are_refused() {
        for end in 0..SOFTMAX.trim_end().len() {
            let got = faults(&SOFTMAX[..end], Mode::Strict);
            assert_eq!(got.first().map(|d| d.kind), Some(Kind::Syntax), "cut at {end}");
        }
    }

    #[test]
    fn garbled_texts_do_not_panic() {
        // Xorshift: the same bytes on every run.
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % (below as u64)).unwrap()
        };
        let bytes = b"{}[]\":,\\ -0e.tnu\0\n\x7f9avV_/<>=&!";
        for base in [NORM, SOFTMAX, STATIC, OLD_DSP, VENDOR_HABITS, SLIPS] {
            for _ in 0..1500 {
                let mut text = base.as_bytes().to_vec();
                for _ in 0..=next(3) {
                    let at = next(text.len());
                    match next(4) {
                        0 => text[at] = bytes[next(bytes.len())],
                        1 => text.insert(at, bytes[next(bytes.len())]),
                        2 => drop(text.remove(at)),
                        _ => {
                            let end = (at + next(60)).min(text.len());
                            let chunk = text[at..end].to_vec();
                            let to = next(text.len());
                            text.splice(to..to, chunk);
                        }
                    }
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                for mode in [Mode::Strict, Mode::Compat] {
                    let count = faults(&text, mode).len();
                    assert!(count < 2000);
                }
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused_flatly() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let inside = edited(STATIC, &[("[\n              0.0\n            ]", &deep)]);
        for text in [deep, inside] {
            let kinds: Vec<Kind> = faults(&text, Mode::Strict).iter().map(|d| d.kind).collect();
            assert_eq!(kinds, [Kind::JsonType]);
        }
    }
}
