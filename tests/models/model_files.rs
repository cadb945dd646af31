//! Model files from the command line: made, looked into, put together, and run as the models that they were made of.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use udo_api::Shape;
use udo_graph::npy;
use udo_runtime::Tensor;
use udo_test_support::command::udo;
use udo_test_support::random::Random;

const OPEN: &str = "graph open
  input x: f32[batch,?]
  constant w: f32[1,2]{3.0, 5.0}
  h: f32[batch,2] = Mul@14(x, w) # scale
  y = Abs@13(h) # abs
  z = Neg@13(h) # neg
  output y, z
";

/// The same for one shape, which has other weights.
const FIXED: &str = "graph fixed
  input x: f32[7,2]
  constant w: f32[1,2]{3.0, 6.0}
  h = Mul@14(x, w) # scale
  y = Abs@13(h) # abs
  z = Neg@13(h) # neg
  output y, z
";

const CUSTOM: &str = "graph custom
  input x: f32[2,2]
  h = Twist@1(x) # first
  y = \"com.acme\":Turn@1(h) # second
  output y
";

const QUANTIZED: &str = "graph q
  input x: u8[4]
  constant s: f32[]{0.5}
  constant z: u8[]{3}
  a = DequantizeLinear@13(x, s, z) # a
  b = Sigmoid@13(a) # curve
  y = QuantizeLinear@13(b, s, z) # b
  output y
";

const CONFIG: &str = r#"{"UdoPackage_0": {"UDO_PACKAGE_NAME": "P", "Operators": [
    {"type": "Twist", "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
     "outputs": [{"name": "y", "data_type": "FLOAT_32"}], "core_types": ["CPU"]},
    {"type": "Turn", "inputs": [{"name": "x", "data_type": "FLOAT_32"}],
     "outputs": [{"name": "y", "data_type": "FLOAT_32"}], "core_types": ["CPU"]}]}}"#;

fn write_npy(dir: &TempDir, name: &str, dims: &[usize]) {
    let shape = Shape::new(dims).unwrap();
    let elements: Vec<f32> = (0u16..).take(shape.len()).map(|n| f32::from(n) - 2.0).collect();
    let tensor = Tensor::from_slice(shape, &elements).unwrap();
    fs::write(dir.path().join(name), npy::write(&tensor).unwrap()).unwrap();
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in
        [("open.graph", OPEN), ("fixed.graph", FIXED), ("custom.graph", CUSTOM), ("c.json", CONFIG)]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    for batch in [1, 3, 4, 7] {
        write_npy(&dir, &format!("x{batch}.npy"), &[batch, 2]);
    }
    write_npy(&dir, "flat.npy", &[14]);
    dir
}

/// Returns the output of a command that succeeds.
#[track_caller]
fn good(dir: &TempDir, args: &[&str]) -> String {
    let (code, out, errors) = udo(dir, args);
    assert_eq!(code, Some(0), "{args:?}: {errors}");
    out
}

/// Returns the error of a command that fails.
#[track_caller]
fn bad(dir: &TempDir, args: &[&str]) -> String {
    let (code, out, errors) = udo(dir, args);
    assert_eq!(code, Some(1), "{args:?}: {out}");
    errors
}

/// Returns the results of its runs, without their memory use.
#[track_caller]
fn gives(dir: &TempDir, args: &[&str]) -> Value {
    json(&good(dir, args))["runs"].clone()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_model_file_runs_as_the_model_that_it_was_made_of() {
    let dir = folder();
    let said = good(&dir, &["convert", "open.graph"]);
    assert!(said.starts_with("open.udm: network open, 1 stages, 3 nodes, "), "{said}");
    good(&dir, &["convert", "open.graph", "-o", "nameless"]);
    let run = |model: &str| gives(&dir, &["run", model, "--input", "x=x3.npy", "--json"]);
    let wanted = run("open.graph");
    assert_eq!(run("open.udm"), wanted);
    assert_eq!(run("nameless"), wanted, "the bytes say what it is");
    let read_only = dir.path().join("open.udm");
    let mut permissions = fs::metadata(&read_only).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&read_only, permissions).unwrap();
    assert_eq!(run("open.udm"), wanted);
    let whole = fs::read(&read_only).unwrap();
    fs::write(dir.path().join("cut.udm"), &whole[..whole.len() - 1]).unwrap();
    let error = bad(&dir, &["run", "cut.udm", "--input", "x=x3.npy"]);
    assert!(
        error.starts_with("error: cut.udm: it is not a safetensors file, or is truncated"),
        "{error}"
    );
    assert!(error.contains("help: copy the file again, or convert the model again"), "{error}");
    let (code, _, errors) = udo(&dir, &["run", "open.graph", "--stage", "1"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("help: leave --network and --stage out"), "{errors}");
}

#[test]
fn each_run_goes_to_the_stage_of_its_shapes() {
    let dir = folder();
    let shapes = ["--input-shape", "x=1,2", "--input-shape", "x=2..4,2"];
    good(&dir, &[&["convert", "open.graph"], &shapes[..]].concat());
    fs::write(dir.path().join("list.txt"), "x:=x1.npy\nx:=x4.npy\nx:=x3.npy\nx:=x1.npy\n").unwrap();
    let args = ["run", "open.udm", "--input-list", "list.txt", "--json"];
    let runs = json(&good(&dir, &args));
    let runs: Vec<String> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["outputs"][0]["shape"].to_string())
        .collect();
    assert_eq!(runs, ["[1,2]", "[4,2]", "[3,2]", "[1,2]"]);
    let plain = gives(&dir, &["run", "open.graph", "--input", "x=x4.npy", "--json"]);
    let staged = gives(&dir, &["run", "open.udm", "--input", "x=x4.npy", "--json"]);
    assert_eq!(plain, staged);
    let known = "expected one of x f32[1,2]; x f32[2..4,2]";
    let error = bad(&dir, &["run", "open.udm", "--input", "x=x7.npy"]);
    assert!(
        error.contains("no stage of network \"open\" fits x [7,2], ") && error.contains(known),
        "{error}"
    );
    assert!(error.contains("help: `udo model info` lists the stages"), "{error}");
    let error = bad(&dir, &["explain", "open.udm"]);
    assert!(
        error.contains("has several stages, expected the shapes of one of x f32[1,2]; x"),
        "{error}"
    );
    good(&dir, &["explain", "open.udm", "--stage", "1"]);
    let bench = ["bench", "open.udm", "--shape", "x=1,2", "--iterations", "1", "--json"];
    assert_eq!(json(&good(&dir, &bench))["iterations"], 1);
    let error = bad(&dir, &["explain", "open.udm", "--stage", "2"]);
    assert!(error.contains("network \"open\" has no stage 2, expected 0 to 1"), "{error}");
    let trace = ["run", "open.udm", "--input-list", "list.txt", "--profile", "trace.json"];
    good(&dir, &trace);
    assert!(json(&fs::read_to_string(dir.path().join("trace.json")).unwrap()).is_object());
}

#[test]
fn an_only_stage_takes_as_many_elements_in_another_shape() {
    let dir = folder();
    good(&dir, &["convert", "fixed.graph"]);
    let run = |input: &str| gives(&dir, &["run", "fixed.udm", "--input", input, "--json"]);
    assert_eq!(run("x=flat.npy"), run("x=x7.npy"));
    bad(&dir, &["run", "fixed.graph", "--input", "x=flat.npy"]);
    bad(&dir, &["run", "fixed.udm", "--input", "x=x3.npy"]);
}

/// B24.
#[test]
fn files_are_put_together_and_taken_apart() {
    let dir = folder();
    good(&dir, &["convert", "open.graph", "--input-shape", "x=1,2", "--name", "net"]);
    good(&dir, &["convert", "fixed.graph", "--name", "net"]);
    good(&dir, &["convert", "open.graph", "-o", "other.udm"]);
    let said =
        good(&dir, &["model", "combine", "open.udm", "fixed.udm", "other.udm", "-o", "all.udm"]);
    assert!(said.starts_with("all.udm: net (2 stages), open (1 stages), "), "{said}");
    let run = |model: &str, more: &[&str]| {
        gives(&dir, &[&["run", model, "--input", "x=x7.npy", "--json"], more].concat())
    };
    assert_eq!(run("all.udm", &["--network", "net"]), run("fixed.graph", &[]));
    assert_eq!(run("all.udm", &["--network", "open"]), run("open.graph", &[]));
    let error = bad(&dir, &["run", "all.udm", "--input", "x=x7.npy"]);
    assert!(
        error.contains(
            "the file has several networks, expected the name of one of \"net\", \"open\""
        ),
        "{error}"
    );
    let error = bad(&dir, &["run", "all.udm", "--network", "nut"]);
    assert!(
        error.contains("network \"nut\" not found, expected one of \"net\", \"open\""),
        "{error}"
    );
    good(
        &dir,
        &["model", "extract", "all.udm", "--network", "net", "--stage", "1", "-o", "one.udm"],
    );
    assert_eq!(run("one.udm", &[]), run("fixed.graph", &[]));
    assert_eq!(
        fs::read(dir.path().join("one.udm")).unwrap(),
        fs::read(dir.path().join("fixed.udm")).unwrap(),
        "byte for byte"
    );
    let error = bad(&dir, &["model", "combine", "all.udm", "open.udm", "-o", "none.udm"]);
    let wanted = "error: open.udm: network \"net\" stage 0: the shapes x [1,2] in both files, expected different shapes";
    assert!(error.starts_with(wanted), "{error}");
    good(&dir, &["convert", "custom.graph", "--config", "c.json", "--name", "net"]);
    let error = bad(&dir, &["model", "combine", "all.udm", "custom.udm", "-o", "none.udm"]);
    assert!(
        error.contains("x f32 of rank 2 -> y, z and x f32 of rank 2 -> y, expected the same"),
        "{error}"
    );
    let error = bad(&dir, &["model", "extract", "open.graph", "-o", "none.udm"]);
    assert!(error.contains("open.graph is not a model file (.udm)"), "{error}");
    assert!(!dir.path().join("none.udm").exists());
}

#[test]
fn differences_are_listed() {
    let dir = folder();
    good(&dir, &["convert", "open.graph"]);
    assert_eq!(good(&dir, &["model", "diff", "open.graph", "open.udm"]), "no differences\n");
    let (code, out, errors) = udo(&dir, &["model", "diff", "open.udm", "fixed.graph"]);
    assert_eq!(
        (code, out.as_str()),
        (
            Some(1),
            "input x: f32[batch,?] -> f32[7,2]\n\
             weights w: f32[1,2] -> f32[1,2], 1 elements differ by up to 1e0\n"
        )
    );
    assert_eq!(errors, "error: 2 differences\n");
    let (code, out, _) = udo(&dir, &["model", "diff", "fixed.graph", "custom.graph", "--json"]);
    let said = json(&out);
    assert_eq!((code, &said["same"]), (Some(1), &false.into()));
    let of = |name: &str| {
        let all = said["differences"].as_array().unwrap();
        all.iter().find(|of| of["name"] == name).unwrap().clone()
    };
    assert_eq!(of("scale")["a"], "h = Mul@14(x, w)");
    assert_eq!(of("second")["b"], "y = com.acme:Turn@1(h)");
    assert_eq!(of("w")["b"], Value::Null);
}

#[test]
fn info_lists_nodes_and_their_costs() {
    let dir = folder();
    good(
        &dir,
        &["convert", "open.graph", "--input-shape", "x=1,2", "--input-shape", "x=1..3..4,?"],
    );
    let said = json(&good(&dir, &["model", "info", "open.udm", "--json"]));
    let [one, two] = &said["stages"].as_array().unwrap()[..] else { panic!("{said}") };
    assert_eq!(
        (&one["network"], &one["stage"], &two["stage"]),
        (&"open".into(), &0.into(), &1.into())
    );
    let source = &one["source"];
    assert_eq!(source["file"], "open.graph");
    assert_eq!(source["sha256"].as_str().unwrap().len(), 64);
    let flags = ["--input-shape x=1,2", "--input-shape x=1..3..4,?"];
    assert_eq!(source["flags"], Value::from(flags.to_vec()));
    assert_eq!(one["inputs"][0]["type"], "f32[1,2]");
    assert_eq!(one["outputs"][1]["type"], "f32[1,2]");
    assert_eq!(one["parameters"], 2);
    let range = serde_json::json!([{ "min": 1, "opt": 3, "max": 4 }, null]);
    assert_eq!(two["shapes"]["x"], range);
    assert!(two["unknown"].as_str().unwrap().contains("open shape"), "{two}");
    let node = &one["nodes"][0];
    assert_eq!(
        (&node["id"], &node["name"], &node["op"]),
        (&0.into(), &"scale".into(), &"Mul".into())
    );
    let cores = node["cores"].as_array().unwrap();
    let takes: Vec<bool> = cores.iter().map(|core| core["takes"].as_bool().unwrap()).collect();
    assert_eq!(takes, [true, true, false]);
    assert!(!cores[2]["reason"].as_str().unwrap().is_empty(), "{node}");
    let csv = good(&dir, &["model", "info", "open.graph", "--csv", "--shape", "x=1,2"]);
    assert_eq!(
        csv,
        "network,stage,id,name,type,outputs,cores,parameters,macs\n\
         open,0,0,scale,Mul,\"h f32[1,2]\",cpu gpu,2,\n\
         open,0,1,abs,Abs,\"y f32[1,2]\",cpu gpu,0,\n\
         open,0,2,neg,Neg,\"z f32[1,2]\",cpu gpu,0,\n"
    );
    let text = good(&dir, &["model", "info", "open.udm"]);
    assert!(text.contains("network open, stage 1: x [1..3..4,?]\n"), "{text}");
    fs::write(dir.path().join("q.graph"), QUANTIZED).unwrap();
    let said = json(&good(&dir, &["model", "info", "q.graph", "--json"]));
    let dsp = &said["stages"][0]["nodes"][1]["cores"][2];
    assert_eq!((&dsp["core"], &dsp["takes"]), (&"dsp:v68".into(), &true.into()), "{said}");
    let custom = good(&dir, &["model", "info", "custom.graph"]);
    assert!(custom.contains("types and cores are incomplete: no package has"), "{custom}");
    let error = bad(&dir, &["model", "info", "open.udm", "--network", "nut"]);
    assert!(error.contains("network \"nut\" not found"), "{error}");
}

/// B24.
#[test]
fn the_memory_plan_is_the_one_that_explain_says() {
    let dir = folder();
    good(&dir, &["convert", "fixed.graph"]);
    let plan = json(&good(&dir, &["model", "plan", "fixed.udm", "--json"]));
    let explained = json(&good(&dir, &["explain", "fixed.graph", "--json"]));
    let (plan, explained) = (&plan["memories"][0], &explained["memories"][0]);
    for key in ["memory", "arena_bytes", "scratch_bytes", "geometry_bytes"] {
        assert_eq!(plan[key], explained[key], "{key}");
    }
    let bytes = |key: &str| explained[key].as_u64().unwrap();
    assert_eq!(plan["weights_bytes"], bytes("constant_bytes") + bytes("packed_bytes"));
    assert!(plan["arena_bytes"].as_u64() > Some(0), "{plan}");
}

#[test]
fn operators_that_are_missing_are_listed_and_nothing_is_written() {
    let dir = folder();
    let (code, out, _) = udo(&dir, &["convert", "custom.graph", "--dry-run", "--json"]);
    let said = json(&out);
    assert_eq!((code, &said["passed"]), (Some(1), &false.into()));
    let ops: Vec<&str> =
        said["missing"].as_array().unwrap().iter().map(|of| of["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["Twist", "Turn"]);
    let error = bad(&dir, &["convert", "custom.graph"]);
    assert!(error.contains("no package has an operator \"Twist\" (1 node, \"first\")"), "{error}");
    assert!(
        error.contains("help: pass the package that has it with --package, or the config"),
        "{error}"
    );
    assert!(!dir.path().join("custom.udm").exists());
    let said = good(&dir, &["convert", "custom.graph", "--config", "c.json", "--dry-run"]);
    assert_eq!(said, "custom.graph: no operators are missing\n");
    assert!(!dir.path().join("custom.udm").exists());
    good(&dir, &["convert", "custom.graph", "--config", "c.json"]);
    let error = bad(&dir, &["run", "custom.udm"]);
    assert!(error.contains("no package has an operator \"Twist\""), "{error}");
    let error = bad(&dir, &["convert", "custom.graph", "--config", "none.json"]);
    assert!(error.contains("cannot read config none.json"), "{error}");
}

#[test]
fn operators_of_a_domain_of_somebodys_own_are_left_to_packages() {
    let dir = folder();
    let write = |node: &str| {
        let text = format!("graph own\n  input x: f32[2,2]\n  y = {node}(x) # only\n  output y\n");
        fs::write(dir.path().join("own.graph"), text).unwrap();
    };
    write("\"com.acme\":Turn@1");
    let (code, _, error) = udo(&dir, &["convert", "own.graph"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.starts_with("warning: the file needs packages with these operators"), "{error}");
    assert!(error.contains("not checked: com.acme:Turn (1 node)\nhelp: "), "{error}");
    let error = bad(&dir, &["run", "own.udm", "--input", "x=x3.npy"]);
    assert!(
        error.contains("no package has an operator \"Turn\" of domain \"com.acme\""),
        "{error}"
    );
    let (code, ..) = udo(&dir, &["convert", "own.graph", "--dry-run"]);
    assert_eq!(code, Some(1), "it is listed all the same");
    // In domains whose operators the runtime has, it is a mistake.
    for node in ["\"com.microsoft\":Turn@1", "Turn@1", "\"ai.onnx.ml\":Scaler@1"] {
        write(node);
        let error = bad(&dir, &["convert", "own.graph", "-o", "none.udm"]);
        assert!(error.contains("no package has an operator"), "{node}: {error}");
        assert!(!dir.path().join("none.udm").exists());
    }
}

#[test]
fn a_network_may_end_before_its_model_does() {
    let dir = folder();
    for (name, nodes) in [("neg", 2), ("h", 1), ("z", 2)] {
        let args = ["convert", "open.graph", "--out-node", name, "--json"];
        assert_eq!(json(&good(&dir, &args))["nodes"], nodes, "{name}");
    }
    let said = json(&good(&dir, &["run", "open.udm", "--input", "x=x3.npy", "--json"]));
    let outputs = said["runs"][0]["outputs"].as_array().unwrap();
    assert_eq!((outputs.len(), &outputs[0]["name"]), (1, &"z".into()));
    let error = bad(&dir, &["convert", "open.graph", "--out-node", "q"]);
    assert!(error.contains("the model has no value and no node called \"q\""), "{error}");
}

#[test]
fn model_files_list_in_place_pairs() {
    let dir = folder();
    good(&dir, &["convert", "fixed.graph", "--in-place", "x=z", "-o", "one.udm"]);
    let said = good(&dir, &["model", "info", "one.udm"]);
    assert!(said.contains("\n  input  x and output z may share one tensor\n"), "{said}");
    let info = json(&good(&dir, &["model", "info", "one.udm", "--json"]));
    let stage = &info["stages"][0];
    assert_eq!(stage["in_place"], serde_json::json!([{ "input": "x", "output": "z" }]));
    assert_eq!(stage["source"]["flags"], serde_json::json!(["--in-place x=z"]));
    good(&dir, &["convert", "fixed.graph"]);
    let info = json(&good(&dir, &["model", "info", "fixed.udm", "--json"]));
    assert_eq!(info["stages"][0]["in_place"], serde_json::json!([]));
    let (code, said, _) = udo(&dir, &["model", "diff", "fixed.udm", "one.udm"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("in place"), "{said}");
    let run = |model: &str| good(&dir, &["run", model, "--input", "x=x7.npy", "--json"]);
    assert_eq!(json(&run("one.udm"))["runs"], json(&run("fixed.udm"))["runs"]);
    for (pairs, wanted) in [
        (
            &["x=q"][..],
            "\"q\" is to be the output of a pair in one place, and is none of the model",
        ),
        (&["w=y"], "\"w\" is to be the input of a pair in one place, and is none of the model"),
        (&["x=y", "x=z"], "input \"x\" is in two pairs in one place; expected one at most"),
    ] {
        let mut args = vec!["convert", "fixed.graph", "-o", "none.udm"];
        args.extend(pairs.iter().flat_map(|pair| ["--in-place", pair]));
        let error = bad(&dir, &args);
        assert!(error.contains(wanted), "{error}");
        assert!(!dir.path().join("none.udm").exists());
    }
    let (code, _, errors) = udo(&dir, &["convert", "fixed.graph", "--in-place", "x"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("expected INPUT=OUTPUT"), "{errors}");
}

#[test]
fn wrong_requests_are_refused_and_leave_no_files() {
    let dir = folder();
    let error = bad(&dir, &["convert", "open.graph", "--input-shape", "q=1"]);
    assert!(error.contains("stage 0 input \"q\": unknown input, expected one of \"x\""), "{error}");
    let error = bad(&dir, &["convert", "fixed.graph", "--input-shape", "x=8,2"]);
    assert!(error.contains("stage 0 input \"x\": [8,2], expected f32[7,2]"), "{error}");
    let (code, _, errors) = udo(&dir, &["convert", "open.graph", "--input-shape", "x"]);
    assert_eq!(code, Some(2), "{errors}");
    let error = bad(&dir, &["convert", "open.graph", "-o", "no/folder.udm"]);
    assert!(error.contains("cannot write \"no/folder.udm\""), "{error}");
    fs::write(dir.path().join("m.tflite"), b"\x1c\0\0\0TFL3\0\0\0\0").unwrap();
    let error = bad(&dir, &["convert", "m.tflite"]);
    assert!(
        error.contains("a TensorFlow Lite model is not supported, expected an ONNX file: "),
        "{error}"
    );
    fs::create_dir(dir.path().join("saved")).unwrap();
    fs::write(dir.path().join("saved/saved_model.pb"), b"").unwrap();
    let error = bad(&dir, &["convert", "saved"]);
    assert!(error.contains("a TensorFlow SavedModel is not supported"), "{error}");
    let weights = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    let mut file = u64::try_from(weights.len()).unwrap().to_le_bytes().to_vec();
    file.extend(weights.as_bytes());
    file.push(1);
    fs::write(dir.path().join("weights.udm"), file).unwrap();
    let error = bad(&dir, &["run", "weights.udm"]);
    assert!(error.contains("metadata \"format\" is missing, expected \"udo\""), "{error}");
    assert!(error.contains("help: `udo convert MODEL.onnx -o MODEL.udm` creates"), "{error}");
    let udm = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let udm: Vec<_> = udm.filter(|name| name.to_string_lossy().contains(".udm")).collect();
    assert_eq!(udm, ["weights.udm"]);
}

#[test]
fn processes_share_a_cache() {
    let dir = folder();
    fs::create_dir(dir.path().join("cache")).unwrap();
    let text = "graph packs
  input x: f32[7,2]
  constant w: f32[2,3]{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
  y = MatMul@13(x, w) # product
  output y
";
    fs::write(dir.path().join("packs.graph"), text).unwrap();
    let run = |outputs: &str| {
        let args = ["run", "packs.graph", "--input", "x=x7.npy", "--output-dir", outputs, "--json"];
        let (code, said, errors) = udo(&dir, &[&args[..], &["--cache", "cache"]].concat());
        assert_eq!(code, Some(0), "{errors}");
        let cache = serde_json::from_str::<Value>(&said).unwrap()["cache"].clone();
        (cache, fs::read(dir.path().join(outputs).join("y.npy")).unwrap())
    };
    let all = std::thread::scope(|scope| {
        let both = ["a", "b"].map(|outputs| scope.spawn(move || run(outputs)));
        both.map(|one| one.join().unwrap())
    });
    let (cache, outputs) = run("c");
    assert_eq!((&cache["outcome"], &cache["packed"]), (&"hit".into(), &0.into()));
    assert_eq!(cache["restored"], 1);
    for (cache, other) in all {
        assert_eq!(other, outputs);
        assert_eq!(cache["restored"].as_u64().unwrap() + cache["packed"].as_u64().unwrap(), 1);
    }
    let args = ["run", "packs.graph", "--input", "x=x7.npy", "--cache", "none"];
    let (code, _, errors) = udo(&dir, &args);
    assert_ne!(code, Some(0));
    assert!(errors.contains("create it, or choose another folder"), "{errors}");
}

/// The extents of the images in the tests of formats.
const HEIGHT: usize = 4;
const WIDTH: usize = 6;

/// A pseudo-random byte for each place.
fn bytes(count: usize) -> Vec<f32> {
    let mut random = Random::new(1);
    (0..count).map(|_| f32::from(random.bits().to_be_bytes()[0])).collect()
}

/// The image in a format as a run gives it, and red, green and blue planes as ITU-T T.871 has them.
fn image(format: &str) -> (Vec<usize>, Vec<f32>, Vec<f32>) {
    let pixels = HEIGHT * WIDTH;
    if let Some(channels) = match format {
        "bgr" => Some(&[2, 1, 0][..]),
        "rgba" => Some(&[0, 1, 2, 3][..]),
        "argb32" => Some(&[2, 1, 0, 3][..]),
        _ => None,
    } {
        let planes = bytes(4 * pixels);
        let of = |channel: usize| &planes[channel * pixels..(channel + 1) * pixels];
        let given = channels.iter().flat_map(|&channel| of(channel)).copied().collect();
        return (vec![1, channels.len(), HEIGHT, WIDTH], given, planes[..3 * pixels].to_vec());
    }
    let given = bytes(pixels * 3 / 2);
    let (u, v) = if format == "nv21" { (1, 0) } else { (0, 1) };
    let mut colors = vec![0.0; 3 * pixels];
    for (row, column) in (0..HEIGHT).flat_map(|row| (0..WIDTH).map(move |column| (row, column))) {
        let luma = given[row * WIDTH + column];
        let chroma = pixels + row / 2 * WIDTH + column / 2 * 2;
        let (u, v) = (given[chroma + u] - 128.0, given[chroma + v] - 128.0);
        let mixed = [luma + 1.402 * v, luma - 0.344_136 * u - 0.714_136 * v, luma + 1.772 * u];
        for (channel, color) in mixed.into_iter().enumerate() {
            colors[channel * pixels + row * WIDTH + column] = color.clamp(0.0, 255.0);
        }
    }
    (vec![1, 1, HEIGHT * 3 / 2, WIDTH], given, colors)
}

#[test]
fn images_of_other_formats_become_the_colours_that_a_model_takes() {
    let dir = folder();
    // The weighted sum of the three channels of each pixel, so that their order counts.
    let model = format!(
        "graph g\n  input x: f32[1,3,{HEIGHT},{WIDTH}]\n  constant w: f32[1,3,1,1]{{0.5, 0.25, 0.125}}\n  y = Conv@11(x, w) # mix\n  output y\n"
    );
    fs::write(dir.path().join("m.graph"), model).unwrap();
    for format in ["bgr", "rgba", "argb32", "nv21", "nv12"] {
        let (dims, given, colors) = image(format);
        let pixels = HEIGHT * WIDTH;
        let expected: Vec<f32> = (0..pixels)
            .map(|at| {
                0.5 * colors[at] + 0.25 * colors[pixels + at] + 0.125 * colors[2 * pixels + at]
            })
            .collect();
        let tensor = Tensor::from_slice(Shape::new(&dims).unwrap(), &given).unwrap();
        fs::create_dir_all(dir.path().join("sets")).unwrap();
        fs::write(dir.path().join("sets/x.npy"), npy::write(&tensor).unwrap()).unwrap();
        let convert = format!("x={format}");
        good(&dir, &["convert", "m.graph", "-o", "m.udm", "--input-encoding", &convert]);
        good(&dir, &["quantize", "m.udm", "-o", "q.udm", "--calibration", "sets"]);
        // Quantized, each of three values is off by some steps of one.
        for (core, file, tolerance) in
            [("cpu", "m.udm", 1e-3), ("gpu", "m.udm", 1e-3), ("dsp", "q.udm", 4.0)]
        {
            let (input, cores) = ("x=sets/x.npy", format!("--cores={core}"));
            good(&dir, &["run", file, "--input", input, &cores, "--output-dir", "out"]);
            let found = npy::read(&fs::read(dir.path().join("out/y.npy")).unwrap()).unwrap();
            let found = found.get::<f32>().unwrap();
            let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= tolerance, "{format} on {core}: {worst} off");
        }
    }
}

#[test]
fn images_need_extents_that_their_format_can_have() {
    let dir = folder();
    let model = "graph g\n  input x: f32[1,3,h,w]\n  y = Neg@13(x) # y\n  output y\n";
    fs::write(dir.path().join("m.graph"), model).unwrap();
    let convert = ["convert", "m.graph", "--input-encoding", "x=nv12"];
    let said = bad(&dir, &convert);
    assert!(said.contains("expected an even height and width for an image of nv12"), "{said}");
    let help = "help: give the image's shape as the model takes it: --input-shape x=1,3,224,224";
    assert!(said.contains(help), "{said}");
    bad(&dir, &[&convert[..], &["--input-shape", "x=1,3,5,4"]].concat());
    assert!(!dir.path().join("m.udm").exists());
    // Each stage converts images of its own extents.
    good(
        &dir,
        &[&convert[..], &["--input-shape", "x=1,3,8,4", "--input-shape", "x=1,3,16,4"]].concat(),
    );
    let info = good(&dir, &["model", "info", "m.udm"]);
    assert!(info.contains("x [1,1,12,4]") && info.contains("x [1,1,24,4]"), "{info}");
    write_npy(&dir, "large.npy", &[1, 1, 24, 4]);
    good(&dir, &["run", "m.udm", "--input", "x=large.npy"]);
}

/// Returns whether a process has mapped the file at `path`.
#[cfg(target_os = "linux")]
fn has_mapped(pid: u32, path: &Path) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with(path.to_str().unwrap()))
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_file_that_is_truncated_during_runs_ends_them_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let weights = vec!["1"; 512 * 1024].join(",");
    let text = format!(
        "graph net\n  input x: f32[1,1024]\n  constant w: f32[512,1024]{{{weights}}}\n  y = Add@14(x, w)\n  output y\n"
    );
    fs::write(dir.path().join("net.graph"), text).unwrap();
    good(&dir, &["convert", "net.graph", "-o", "net.udm"]);
    let file = dir.path().canonicalize().unwrap().join("net.udm");
    let bench = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_udo"));
        command.args(["bench", "net.udm", "--iterations"]).args(flags).current_dir(&dir);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = bench(&["1000000"]);
    while !has_mapped(child.id(), &file) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it mapped the file");
        thread::yield_now();
    }
    File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    // If the file was truncated before the first run, the importer reports it.
    assert_eq!(ended.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("error: ") && errors.contains("trunca"), "{errors}");

    // Copied weights do not change with the file.
    good(&dir, &["convert", "net.graph", "-o", "net.udm"]);
    let child = bench(&["1", "--copy-weights"]);
    let pid = child.id();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && !has_mapped(pid, &file));
}
