//! `udo demo`, from an empty folder.

use std::process::Command;

#[test]
fn the_demonstration_runs_the_packages_operator_on_three_cores() {
    let dir = tempfile::tempdir().unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output =
        udo.args(["demo", "--json"]).arg(dir.path()).env("UDO_OPENCL", "off").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stages = report["stages"].as_array().unwrap();
    let cores: Vec<&str> = stages.iter().map(|s| s["core"].as_str().unwrap()).collect();
    assert_eq!(cores, ["cpu", "gpu", "dsp:v68"]);
    assert_eq!(stages[1]["backend"], "work items on host threads");
    for (stage, wanted) in stages.iter().zip([8, 9, 5]) {
        let rows = stage["rows"].as_array().unwrap();
        let why = "every node has a row but the Relu, which Conv does, but for the GPU a QuantizeLinear, which Gemm does, and on the \
                   DSP those that store numbers as it does anyway";
        assert_eq!(rows.len(), wanted, "{why}");
        assert!(rows.iter().all(|r| r["heap_calls"] == 0), "{stage}");
        let mine: Vec<_> = rows.iter().filter(|r| r["source"] == "SoftmaxUdoPackage").collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(mine[0]["core"], stage["core"]);
        assert!(stage["from_recorded"].as_f64().unwrap() <= stage["allowed"].as_f64().unwrap());
    }
}
