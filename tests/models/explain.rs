//! Reports of `udo explain`, and the effect of `--skip-pass`.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::Value;
use udo_test_support::proto::{bytes, int};

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

/// Returns the error that is printed for programs.
fn error_of(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let said: Value = serde_json::from_str(line).unwrap_or_default();
    said["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn passes_say_how_often_they_fired() {
    let all = explained(&[]);
    assert_eq!((count(&all, "epilogue"), count(&all, "scale-folding")), (Some(1), Some(0)));
    assert_eq!(all["steps"].as_array().unwrap().len(), 1);
}

#[test]
fn a_skipped_pass_does_not_run() {
    for (skip, scales) in [("epilogue", Some(0)), ("all", None)] {
        let less = explained(&["--skip-pass", skip]);
        assert_eq!((count(&less, "epilogue"), count(&less, "scale-folding")), (None, scales));
        assert_eq!(less["steps"].as_array().unwrap().len(), 2, "{skip}");
    }
}

#[test]
fn a_pass_is_skipped_by_its_earlier_name() {
    assert_eq!(count(&explained(&["--skip-pass", "scales"]), "scale-folding"), None);
}

#[test]
fn exchanges_between_devices_are_told() {
    let all = explained(&["--cores", "gpu,cpu"]);
    let exchanges = all["exchanges"].as_array().unwrap();
    let ways: Vec<_> = exchanges.iter().map(|of| (&of["from"], &of["to"], &of["bytes"])).collect();
    let (host, gpu) = (Value::from("host"), Value::from("gpu"));
    assert_eq!(ways, [(&host, &gpu, &Value::from(48)), (&gpu, &host, &Value::from(16))]);
    assert_eq!(exchanges[0]["value"], "x");
    assert_eq!(explained(&[])["exchanges"], Value::Array(Vec::new()));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["explain", "m.graph", "--cores", "gpu,cpu"]).current_dir(dir.path());
    let said = String::from_utf8(udo.output().unwrap().stdout).unwrap();
    assert!(said.contains("\n  host -> gpu: x, f32[2,3] -> f32[2,3], 48 B\n"), "{said}");
}

#[test]
fn the_text_begins_with_the_placement_and_has_passes_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let text = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["explain", "m.graph"]).args(args).current_dir(dir.path());
        String::from_utf8(udo.output().unwrap().stdout).unwrap()
    };
    let (short, long) = (text(&[]), text(&["--passes"]));
    assert!(short.starts_with("subnets:\n") && !short.contains("epilogue"), "{short}");
    let passes = long.strip_prefix(&short).unwrap_or_else(|| panic!("{long}"));
    assert!(passes.starts_with("passes:\n") && passes.contains("  epilogue: "), "{passes}");
}

#[test]
fn a_pass_that_there_is_not_is_wrong_usage() {
    let output = explain(&["--skip-pass", "epilog"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("epilogue") && errors.contains("scale-folding"), "{errors}");
}

/// A product of 2 * 64 * 64 * 64 operations, and a step that only moves numbers.
const PRODUCT: &str = "graph product
  input x: f32[n,64]
  y = MatMul@13(x, x) # product
  z = Softmax@13(y) # softmax
  output z
";

#[test]
fn measured_steps_have_times_operations_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), PRODUCT).unwrap();
    let run = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["explain", "m.graph", "--dim", "n=64"]).args(args).current_dir(dir.path());
        udo.output().unwrap()
    };
    for threads in ["1", "2"] {
        let output = run(&["--measured", "--iterations", "3", "--threads", threads, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let measured = &json["measured"];
        let number = |value: &Value| value.as_f64().unwrap();
        let [product, softmax] = [0, 1].map(|at| &measured["steps"][at]);
        assert_eq!((&product["op"], &softmax["op"]), (&"MatMul".into(), &"Softmax".into()));
        assert_eq!(product["operations"], 2.0 * 64.0 * 64.0 * 64.0);
        assert_eq!(product["bytes"], 3.0 * 4.0 * 64.0 * 64.0);
        assert_eq!((&softmax["operations"], &softmax["bound"]), (&0.0.into(), &"bytes".into()));
        let ops = measured["operators"].as_array().unwrap();
        let sum: f64 = ops.iter().map(|op| number(&op["us"])).sum();
        assert!((sum - number(&measured["steps_us"])).abs() < 1e-6 * sum);
        let at_limit: f64 = [product, softmax].iter().map(|s| number(&s["at_limit_us"])).sum();
        assert!((at_limit - number(&measured["roofline_us"])).abs() < 1e-6 * at_limit);
        let share = number(&measured["roofline_us"]) / number(&measured["run_us"]);
        assert!((share - number(&measured["share"])).abs() < 1e-6);
        assert!(number(&measured["limits"]["f32_operations_per_s"]) > 0.0);
    }
    // Shapes that come from data are those of the report.
    let dims = [64, 64].into_iter().flat_map(|dim| int(1, dim));
    let pb: Vec<u8> = dims.chain(int(2, 1)).chain(bytes(9, &vec![0; 64 * 64 * 4])).collect();
    fs::write(dir.path().join("input_0.pb"), pb).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["explain", "m.graph", "--measured", "--iterations", "1", "--data", ".", "--json"]);
    let output = udo.current_dir(dir.path()).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["steps"][0]["inputs"][0], "f32[64,64]");

    let output = run(&["--measured", "--iterations", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for wanted in ["measured (medians):", "GFLOP/s", "roofline bound", "softmax"] {
        assert!(text.contains(wanted), "{text}");
    }
    let output = run(&["--data", "."]);
    assert_eq!(output.status.code(), Some(2), "data is for what is measured");
}

/// A product with a constant, and one without.
const PRODUCTS: &str = "graph products
  input x: f32[2,2]
  constant w: f32[2,2]{1.0, 2.0, 3.0, 4.0}
  h = MatMul@13(x, w) # constant
  y = MatMul@13(h, x) # computed
  output y
";

#[test]
fn products_round_where_that_is_asked_for_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), PRODUCTS).unwrap();
    let run = |fast_math: &str, isa: &str| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["explain", "m.graph", "--json", "--fast-math", fast_math]).env("UDO_ISA", isa);
        udo.current_dir(dir.path()).output().unwrap()
    };
    let methods = |output: &Output| {
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        [0, 1].map(|at| json["steps"][at]["method"].as_str().unwrap().to_owned())
    };
    assert_eq!(methods(&run("none", "amx")), ["", ""]);
    if udo_simd::gemm_bf16::is_available() {
        assert_eq!(methods(&run("bf16", "amx")), ["bf16 product", ""]);
    }
    let output = run("bf16", "portable");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("bf16 products need a processor with AVX512-BF16"), "{errors}");
    assert!(errors.contains("\"help\":\"leave --fast-math out"), "{errors}");
}

#[test]
fn required_placement_is_enforced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let bench = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["bench", "m.graph", "--iterations", "1"]).args(args).current_dir(dir.path());
        udo.output().unwrap()
    };
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    for required in ["*=cpu", "MatMul=cpu", "product=cpu"] {
        let output = bench(&["--require", required]);
        assert!(output.status.success(), "{required}: {}", said(&output));
    }
    let output = bench(&["--require", "MatMul=gpu"]);
    let wanted = "--require MatMul=gpu: node \"product\" (MatMul) runs on cpu (that core was not asked for: see --cores)";
    assert!(!output.status.success() && said(&output).contains(wanted), "{}", said(&output));
    // The DSP stores float values as integers, but not doubles.
    fs::write(dir.path().join("m.graph"), MODEL.replace("f32", "f64")).unwrap();
    let output = bench(&["--cores", "dsp", "--fallback", "cpu", "--require", "*=dsp"]);
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let wanted = "(MatMul) runs on cpu (dsp:v68: ";
    assert!(!output.status.success() && said(&output).contains(wanted), "{}", said(&output));
    let output = explain(&["--require", "MatMul=gpu"]);
    assert!(!output.status.success(), "{}", said(&output));
    let output = bench(&["--require", "Conv=cpu"]);
    let wanted = "--require Conv=cpu: no node has the operator or the name \"Conv\"";
    assert!(!output.status.success() && said(&output).contains(wanted), "{}", said(&output));
}

/// A product whose range follows from that of its operands, so that the DSP stores it in 16 bits.
const OF_16_BITS: &str = "graph rounded
  input x: f32[2,3]
  constant s: f32[]{0.03125}
  constant z: u8[]{128}
  xq = QuantizeLinear@21(x, s, z)
  xr = DequantizeLinear@21(xq, s, z)
  m = Mul@14(xr, xr) # square
  y = Sqrt@13(m) # root
  output y
";

fn verify(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), OF_16_BITS).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["verify", "m.graph", "--cores", "dsp"]).args(args).current_dir(dir.path());
    udo.output().unwrap()
}

#[test]
fn the_first_layer_that_differs_between_cores_is_named() {
    let args = ["--against", "cpu", "--random", "2", "--require", "*=dsp", "--per-layer", "--json"];
    let near = verify(&[&args[..], &["--atol", "1e-3"]].concat());
    let told: Value = serde_json::from_slice(&near.stdout).unwrap();
    assert!(near.status.success() && told["passed"] == true, "{told}");
    assert_eq!(
        (&told["placement"][0]["dsp:v68"], &told["against"][0]["cpu"]),
        (&2.into(), &4.into())
    );
    let names: Vec<_> = told["outputs"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(names, ["m", "y", "m", "y"]);

    let far = verify(&[&args[..], &["--atol", "0", "--rtol", "0"]].concat());
    let told: Value = serde_json::from_slice(&far.stdout).unwrap();
    assert_eq!((far.status.code(), &told["first_difference"]), (Some(1), &"m".into()), "{told}");
    let said = error_of(&far.stderr);
    let wanted = "the first is \"m\", made by node \"square\" (Mul on dsp:v68)";
    assert!(said.contains(wanted), "{said}");

    let missing = verify(&["--against", "cpu"]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(2) && said.contains("--data <DIR>"), "{said}");
}

/// A node that becomes three, of which nobody knows what lies between them.
#[test]
fn layers_are_values_that_the_model_names() {
    let dir = tempfile::tempdir().unwrap();
    let text = "graph composed
  input a: f32[2,3]
  input b: f32[2,4]
  h = com.microsoft:FusedMatMul@1(a, b) alpha=2.0 transA=1
  y = Relu@14(h)
  output y
";
    fs::write(dir.path().join("m.graph"), text).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["verify", "m.graph", "--against", "cpu", "--random", "1", "--per-layer", "--json"]);
    let output = udo.current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = told["outputs"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(names, ["h", "y"]);
}

/// Returns the layers that `udo verify --per-layer` on `core` compares with the CPU, and those that it leaves out.
fn per_layer(text: &str, core: &str) -> (Vec<String>, Vec<(String, String)>, String) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), text).unwrap();
    let verify = |more: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["verify", "m.graph", "--against", "cpu", "--random", "1", "--per-layer"]);
        udo.args(["--atol", "0.2", "--cores", core]).args(more).current_dir(dir.path());
        let output = udo.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    let told: Value = serde_json::from_slice(&verify(&["--json"]).stdout).unwrap();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    let compared = told["outputs"].as_array().unwrap().iter().map(|of| text(of, "name"));
    let left_out = told["not_compared"].as_array().unwrap().iter();
    let left_out = left_out.map(|of| (text(of, "value"), text(of, "why")));
    let notes = String::from_utf8(verify(&[]).stderr).unwrap();
    (compared.collect(), left_out.collect(), notes)
}

#[test]
fn every_value_is_compared_layer_by_layer() {
    // A Relu that the product's kernel does, a view, a constant that is folded, and a branch.
    let text = "graph g
  input x: f32[2,3]
  constant w: f32[3,4]{0.5, -0.25, 0.75, 1.0, -0.5, 0.125, 0.25, -1.0, 0.375, 0.625, -0.75, 0.5}
  constant k: f32[4]{0.25, -0.5, 0.75, 1.0}
  constant shape: i64[2]{4, 2}
  n = Neg@13(k)
  h = MatMul@13(x, w) # product
  r = Relu@14(h) # cut
  a = Add@14(r, n) # shift
  v = Reshape@14(a, shape) # view
  s = Sigmoid@13(v) # gate
  y = Mul@14(s, v) # last
  output y
";
    for core in ["cpu", "gpu", "dsp"] {
        let (compared, left_out, notes) = per_layer(text, core);
        assert_eq!(compared, ["n", "h", "r", "a", "v", "s", "y"], "{core}: {left_out:?}");
        assert!(left_out.is_empty(), "{core}: {left_out:?}");
        assert!(notes.contains("compared 6 of 6 values"), "{core}: {notes}");
    }
}

#[test]
fn inner_values_of_quantized_kernels_are_reported_as_not_comparable() {
    let (compared, left_out, notes) = per_layer(OF_16_BITS, "dsp");
    let names: Vec<&str> = left_out.iter().map(|(value, _)| value.as_str()).collect();
    assert!(!names.is_empty() && compared.contains(&"m".to_owned()), "{compared:?} {left_out:?}");
    let all = compared.len() - 1 + left_out.len();
    assert!(notes.contains(&format!("compared {} of {all} values", compared.len() - 1)), "{notes}");
    for (value, why) in &left_out {
        assert!(!why.is_empty() && notes.contains(value), "{value}: {why}: {notes}");
    }
    // What a branch makes is in a subgraph.
    let text = "graph g
  input x: f32[2]
  input is: bool[]
  y = If@16(is) # branch
    then_branch: graph then
      capture x
      t = Neg@13(x) # within
      u = Abs@13(t)
      output u
    else_branch: graph else
      capture x
      u = Exp@13(x)
      output u
  output y
";
    let (_, left_out, _) = per_layer(text, "cpu");
    let within = left_out.iter().find(|(value, _)| value == "t").unwrap();
    assert!(within.1.starts_with("it is in a subgraph that node \"branch\" runs"), "{within:?}");
}

#[test]
fn values_on_the_way_are_given_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let npy = udo_graph::npy::write(
        &udo_runtime::Tensor::zeros(udo_api::DType::F32, udo_api::Shape::new(&[2, 3]).unwrap())
            .unwrap(),
    );
    fs::write(dir.path().join("x.npy"), npy.unwrap()).unwrap();
    let run = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.args(["run", "m.graph", "--input", "x=x.npy", "--json"]).args(args);
        udo.current_dir(dir.path()).output().unwrap()
    };
    let names = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let outputs = told["runs"][0]["outputs"].as_array().unwrap();
        outputs.iter().map(|of| of["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["y"]);
    assert_eq!(names(&["--set-output-tensors", "h"]), ["h"]);
    assert_eq!(names(&["--set-output-tensors", "y,h"]), ["y", "h"]);
    assert_eq!(names(&["--debug"]), ["y"], "one kernel does the work of both nodes");
    assert_eq!(names(&["--debug", "--skip-pass", "all"]), ["y", "h"]);
    let output = run(&["--set-output-tensors", "z"]);
    let said = error_of(&output.stderr);
    let wanted = "\"z\" is to be an output, and the model has no node called so and none that makes a value called so";
    assert!(!output.status.success() && said.contains(wanted), "{said}");
}
