//! The list of `udo ops`, and the documentation page that it writes.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn ops(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_udo")).arg("ops").args(args).output().unwrap()
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn listed(args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json"]].concat();
    let json: Value = serde_json::from_str(&text(ops(&args))).unwrap();
    json["operators"].as_array().unwrap().clone()
}

#[test]
fn the_page_matches_the_output_of_the_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let page = text(ops(&["--markdown"]));
    if std::env::var_os("UDO_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let help = "run `udo ops --markdown > docs/operators.md`";
    assert!(fs::read_to_string(path).unwrap() == page, "{help}");
}

#[test]
fn the_readme_has_as_many() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let of = |domain: &str| listed(&[]).iter().filter(|op| op["domain"] == domain).count();
    let [onnx, microsoft, own] = ["", "com.microsoft", "udo"].map(of);
    let all = onnx + microsoft + own;
    let counts = format!(
        "{all} operators: {onnx} of ONNX, {microsoft} of ONNX Runtime's own and {own} of other formats"
    );
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once("## What runs\n\n").unwrap();
    let (said, behind) = rest.split_once(", with control flow").unwrap();
    if std::env::var_os("UDO_BLESS").is_some() {
        let text = format!("{before}## What runs\n\n{counts}, with control flow{behind}");
        fs::write(&path, text).unwrap();
    } else {
        assert_eq!(said, counts, "UDO_BLESS=1 writes it");
    }
}

#[test]
fn cores_and_types_choose() {
    let all = listed(&[]);
    let add = all.iter().find(|op| op["op"] == "Add" && op["domain"] == "").unwrap();
    for core in ["cpu", "gpu", "dsp:v68"] {
        assert!(add["types"][core].is_array(), "{add}");
    }
    let gpu = listed(&["--core", "gpu"]);
    assert!(gpu.iter().all(|op| op["types"].as_object().unwrap().keys().eq(["gpu"])));
    assert!(!gpu.is_empty() && gpu.len() < all.len());
    let bools = listed(&["--type", "bool", "--core", "cpu"]);
    assert!(bools.iter().all(|op| op["types"]["cpu"].as_array().unwrap().contains(&"bool".into())));
    assert!(!bools.is_empty() && bools.len() < all.len());
}

#[test]
fn a_type_that_there_is_not_is_wrong_usage() {
    let output = ops(&["--type", "f33"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("expected a type such as f32"));
}
