//! What `udo explain` says of passes, and what `--skip-pass` takes away.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::Value;

const MODEL: &str = r#"graph "two steps"
  input x: f32[2,3]
  constant w: f32[3,1]{1.0, 2.0, 3.0}
  h = MatMul@13(x, w) # product
  y = Relu@14(h) # relu
  output y
"#;

fn explain(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["explain", "m.graph", "--json"]).args(args).current_dir(dir.path());
    udo.output().unwrap()
}

fn explained(args: &[&str]) -> Value {
    let output = explain(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How often a pass fired, if it ran.
fn count(explained: &Value, pass: &str) -> Option<u64> {
    let passes = explained["passes"].as_array().unwrap();
    passes.iter().find(|of| of["name"] == pass).map(|of| of["count"].as_u64().unwrap())
}

#[test]
fn passes_say_how_often_they_fired() {
    let all = explained(&[]);
    assert_eq!((count(&all, "epilogue"), count(&all, "scales")), (Some(1), Some(0)));
    assert_eq!(all["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn a_skipped_pass_does_not_run() {
    for (skip, scales) in [("epilogue", Some(0)), ("all", None)] {
        let less = explained(&["--skip-pass", skip]);
        assert_eq!((count(&less, "epilogue"), count(&less, "scales")), (None, scales));
        assert_eq!(less["steps"].as_array().unwrap().len(), 2, "{skip}");
    }
}

#[test]
fn a_pass_that_there_is_not_is_wrong_usage() {
    let output = explain(&["--skip-pass", "epilog"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("epilogue") && errors.contains("scales"), "{errors}");
}
