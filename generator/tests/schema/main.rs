//! Checks `udo-config.schema.json`: it equals the schema that the generator prints, and accepts and refuses the same
//! configs as the reader. `UDO_BLESS=1` updates the file.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod validator;

use std::{fs, path::Path};

use serde_json::Value;
use udo_generator::{Mode, Source, read};
use validator::faults;

const GOOD: &str = r#"{"$schema": "s", "p": {"UDO_PACKAGE_NAME": "P", "UDO_PACKAGE_PATH": "..", "Operators": [
    {"type": "Norm", "core_types": ["CPU", "DSP"], "dsp_arch_types": ["v66", "v68"],
     "inputs": [{"name": "x", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_8"}},
                {"name": "w", "data_type": "FLOAT_32", "static": true, "default_value": [1]}],
     "outputs": [{"name": "y", "data_type": "FLOAT_32"}],
     "scalar_params": [{"name": "eps", "data_type": "FLOAT_32", "default_value": 1e-5},
                       {"name": "axis", "data_type": "INT_8", "default_value": -1}],
     "tensor_params": [{"name": "axes", "data_type": "UINT_32", "default_value": []}]}]}}"#;

/// Replacements in the config, each of which makes it invalid.
const BROKEN: &[(&str, &str)] = &[
    ("\"s\"", "1"),
    ("\"P\"", "1"),
    ("\"P\"", "\"a b\""),
    ("\"P\"", "\"class\""),
    ("\"P\"", "\"2P\""),
    ("\"UDO_PACKAGE_NAME\": \"P\",", ""),
    ("\"UDO_PACKAGE_PATH\"", "\"UDO_PACKAGE_PATHS\""),
    ("\"..\"", "[]"),
    ("\"type\": \"Norm\",", ""),
    ("\"CPU\", \"DSP\"]", "\"CPU\", \"HTP\"]"),
    ("[\"CPU\", \"DSP\"]", "[]"),
    ("\"v66\"", "\"v99\""),
    ("\"DSP\": \"UINT_8\"", "\"DSP\": \"UINT_32\""),
    ("\"DSP\": \"UINT_8\"", "\"HTA\": \"UINT_8\""),
    ("\"name\": \"x\",", ""),
    ("\"name\": \"x\",", "\"name\": \"x\", \"data_type\": \"FLOAT_32\","),
    ("\"name\": \"x\",", "\"name\": \"x\", \"tensor_layout\": \"NHCW\","),
    ("\"name\": \"x\",", "\"name\": \"x\", \"quantization_mode\": \"AFFINE\","),
    ("\"static\": true", "\"static\": 1"),
    ("[1]", "[[1]]"),
    ("\"y\", \"data_type\": \"FLOAT_32\"", "\"y\""),
    ("\"y\",", "\"y\", \"static\": true,"),
    ("\"y\",", "\"y\", \"default_value\": 1,"),
    ("\"y\", \"data_type\": \"FLOAT_32\"", "\"y\", \"data_type\": \"STRING\""),
    ("\"y\", \"data_type\": \"FLOAT_32\"", "\"y\", \"data_type\": \"FIXED_4\""),
    ("\"INT_8\"", "\"FIXED_8\""),
    ("1e-5", "\"1e-5\""),
    ("-1}", "-129}"),
    ("-1}", "0.5}"),
    ("\"axes\",", "\"axes\", \"repeated\": true,"),
    ("\"UINT_32\"", "\"DOUBLE\""),
    ("\"axes\",", "\"axes\", \"attribute\": \"\","),
    ("\"axes\",", "\"axes\", \"optional\": 1,"),
    ("\"y\",", "\"y\", \"attribute\": \"b\","),
];

fn read_strictly(text: &str) -> Result<(), String> {
    match read(&[Source { path: Path::new("c.json"), text }], Mode::Strict) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Lists the violations of the schema in a config.
fn violations(text: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(&udo_generator::schema()).unwrap();
    faults(&schema, &serde_json::from_str(text).unwrap())
}

#[test]
fn the_stored_schema_equals_the_printed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("udo-config.schema.json");
    if std::env::var_os("UDO_BLESS").is_some() {
        fs::write(&path, udo_generator::schema()).unwrap();
    }
    let stored_schema = fs::read_to_string(&path).unwrap();
    assert!(
        stored_schema == udo_generator::schema(),
        "the grammar has changed; UDO_BLESS=1 writes it"
    );
}

#[test]
fn the_schema_accepts_valid_configs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(root.join("tests/configs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    let examples = ["softmax/Softmax_Htp.json", "selu/Selu.json", "topk/TopKAbove.json"];
    files.extend(examples.map(|path| root.join("../examples").join(path)));
    let mut count = 0;
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        // Some test configs are invalid, or valid in compat mode only.
        if read_strictly(&text).is_err() {
            continue;
        }
        assert_eq!(violations(&text), Vec::<String>::new(), "{}", path.display());
        count += 1;
    }
    assert!(count > 7, "{count}");
}

#[test]
fn reader_and_schema_refuse_invalid_configs() {
    assert_eq!(read_strictly(GOOD), Ok(()));
    assert_eq!(violations(GOOD), Vec::<String>::new());
    for (original, replacement) in BROKEN {
        assert!(GOOD.contains(original), "{original}");
        let text = GOOD.replacen(original, replacement, 1);
        assert!(read_strictly(&text).is_err(), "the reader takes {original} -> {replacement}");
        assert!(!violations(&text).is_empty(), "the schema takes {original} -> {replacement}");
    }
}
