//! `udo demo`, from an empty folder.

use std::fs;
use std::process::Command;

use serde_json::Value;

#[test]
fn the_demonstration_runs_all_of_its_network_on_each_of_three_cores() {
    let dir = tempfile::tempdir().unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["demo", "--json"]).arg(dir.path());
    let output = udo.env("UDO_OPENCL", "off").env("CLANG", "/nonexistent").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["opencl"], "not compiled");
    assert!(errors.contains("warning: GPU/kernels/softmax.cl was not compiled"), "{errors}");
    let stages = report["stages"].as_array().unwrap();
    let cores: Vec<&str> = stages.iter().map(|s| s["core"].as_str().unwrap()).collect();
    assert_eq!(cores, ["cpu", "gpu", "dsp:v68"]);
    assert_eq!(stages[1]["backend"], "work items on host threads");
    for stage in stages {
        let rows = stage["rows"].as_array().unwrap();
        assert!(rows.len() >= 11, "products, pools and shares at least: {stage}");
        assert!(rows.iter().all(|r| r["heap_calls"] == 0), "{stage}");
        assert!(rows.iter().all(|r| r["core"] == stage["core"]), "all of it: {stage}");
        let mine: Vec<_> = rows.iter().filter(|r| r["source"] == "SoftmaxUdoPackage").collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(mine[0]["node"], "probabilities");
        assert!(stage["from_recorded"].as_f64().unwrap() <= stage["allowed"].as_f64().unwrap());
        let is_quantized = stage["notices"].to_string().contains("quantized at load");
        assert_eq!(is_quantized, stage["core"] == "dsp:v68", "{stage}");
    }
    let products = stages[2]["rows"].as_array().unwrap().iter();
    assert_eq!(products.filter(|row| row["op"] == "QLinearConv").count(), 6);
    assert!(fs::metadata(dir.path().join("model/model.onnx")).unwrap().len() > 10_000);
    let mut run = Command::new(env!("CARGO_BIN_EXE_udo"));
    run.args(["run", "model/model.onnx", "--package", "SoftmaxUdoPackage", "--cores", "dsp"]);
    let output = run.args(["--input", "image=model/image.npy"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output = udo.arg("demo").arg(dir.path().join("file/demo")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write "));
}
