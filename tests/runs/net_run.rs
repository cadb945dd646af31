//! `udo run` by the habits of the vendors' tools: lists, batches, files of elements alone, profiles. docs/net-run.md keeps its promises.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use udo_api::{Element, Shape};
use udo_graph::memory::bytes_of;
use udo_graph::npy;
use udo_runtime::Tensor;
use udo_test_support::command::udo;
use udo_test_support::page;
use udo_test_support::proto::{bytes, int};

const GUIDE: &str = include_str!("../../docs/net-run.md");

/// A batch of four.
const BATCH: &str = "graph batch
  input x: f32[4,3]
  h = Relu@14(x) # cut
  y:0 = Neg@13(h) # minus
  s = ReduceSum@13(h) keepdims=0 # sum
  output y:0
";

/// Integers on both sides, in steps of a half from 10 on.
const CODES: &str = "graph codes
  input x: u8[2]
  constant s: f32[]{0.5}
  constant z: u8[]{10}
  d = DequantizeLinear@13(x, s, z)
  m = Relu@14(d)
  y = QuantizeLinear@13(m, s, z)
  output y
";

/// Positions, and whether they are the first.
const IDS: &str = "graph ids
  input x: i64[2]
  constant one: i64[]{1}
  y = Less@13(x, one)
  z = Add@14(x, one)
  output y
  output z
";

fn folder(model: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), model).unwrap();
    dir
}

fn write<T: Element>(dir: &TempDir, file: &str, elements: &[T]) {
    fs::write(dir.path().join(file), bytes_of(elements)).unwrap();
}

fn floats(file: &Path) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Six elements of a batch, `elements` in a file.
fn six(dir: &TempDir, elements: usize) {
    let numbers: Vec<f32> = (0u8..18).map(f32::from).collect();
    for (at, numbers) in numbers.chunks(3 * elements).enumerate() {
        write(dir, &format!("x{at}.raw"), numbers);
    }
}

fn list(dir: &TempDir, lines: &[&str]) {
    fs::write(dir.path().join("list.txt"), lines.join("\n")).unwrap();
}

const RAW: [&str; 8] =
    ["run", "m.graph", "--input-list", "list.txt", "--output-dir", "out", "--output-format", "raw"];

#[test]
fn pasted_blocks_of_the_guide_run() {
    page::follow(GUIDE);
}

#[test]
fn lines_with_parts_of_a_batch_fill_it_and_get_their_parts_of_the_results() {
    for more in [&[][..], &["--async", "2"]] {
        let dir = folder(BATCH);
        six(&dir, 1);
        let lines = [0, 1, 2, 3, 4, 5].map(|at| format!("x{at}.raw"));
        list(&dir, &lines.each_ref().map(String::as_str));
        let (code, out, error) = udo(&dir, &[&RAW[..], more].concat());
        assert_eq!((code, out.lines().count()), (Some(0), 6), "{error}");
        assert!(out.lines().all(|line| line.starts_with("y:0: f32[1,3] ")), "{out}");
        let padding = "note: applying padding: the last run needs 4 lines but only 2 remain";
        assert_eq!(error.matches(padding).count(), 1, "{error}");
        for at in 0..6u8 {
            let file = dir.path().join(format!("out/Result_{at}/y:0.raw"));
            let wanted: Vec<f32> = (3 * at..3 * at + 3).map(|n| -f32::from(n)).collect();
            assert_eq!(floats(&file), wanted, "line {at}");
        }
        assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 6, "nothing of zeros");
    }
}

#[test]
fn parts_may_be_larger_or_say_their_shape() {
    let dir = folder(BATCH);
    six(&dir, 2);
    list(&dir, &["x:=x0.raw", "x:=x1.raw", "x:=x2.raw", "x:=x0.raw"]);
    let (code, out, error) = udo(&dir, &RAW);
    assert_eq!((code, error.contains("padding")), (Some(0), false), "{error}");
    assert!(out.lines().all(|line| line.starts_with("y:0: f32[2,3] ")), "{out}");
    assert_eq!(
        floats(&dir.path().join("out/Result_3/y:0.raw")),
        [-0.0, -1.0, -2.0, -3.0, -4.0, -5.0]
    );
    for (shape, count) in [(&[3][..], 3), (&[1, 3], 3), (&[4, 3], 12)] {
        let tensor = Tensor::from_slice(Shape::new(shape).unwrap(), &vec![2.0f32; count]).unwrap();
        fs::write(dir.path().join("x.npy"), npy::write(&tensor).unwrap()).unwrap();
        list(&dir, &["x.npy"]);
        let (code, _, error) = udo(&dir, &RAW);
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(error.contains("padding"), count == 3, "{error}");
        let wanted = vec![-2.0; count];
        assert_eq!(floats(&dir.path().join("out/Result_0/y:0.raw")), wanted);
    }
}

#[test]
fn an_element_fills_a_batch_of_one_and_no_other_type_does() {
    let dir = folder(&BATCH.replace("f32[4,3]", "f32[1,3]"));
    let of = |dims: &[usize], dtype: &str| {
        let shape = Shape::new(dims).unwrap();
        let tensor = match dtype {
            "f32" => Tensor::from_slice(shape, &[1.0f32, 2.0, 3.0]).unwrap(),
            _ => Tensor::from_slice(shape, &[1.0f64, 2.0, 3.0]).unwrap(),
        };
        fs::write(dir.path().join("x.npy"), npy::write(&tensor).unwrap()).unwrap();
    };
    list(&dir, &["x.npy"]);
    of(&[3], "f32");
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(floats(&dir.path().join("out/Result_0/y:0.raw")), [-1.0, -2.0, -3.0]);
    for batch in ["1", "4"] {
        let model = BATCH.replace("f32[4,3]", &format!("f32[{batch},3]"));
        fs::write(dir.path().join("m.graph"), model).unwrap();
        for dims in [&[3][..], &[1, 3]] {
            of(dims, "f64");
            let (code, _, error) = udo(&dir, &RAW);
            assert_eq!(code, Some(1));
            let wanted = format!("expected f32[{batch},3]");
            assert!(error.contains("list.txt:1: ") && error.contains(&wanted), "{error}");
        }
    }
}

#[test]
fn a_heading_names_values_and_nodes() {
    let dir = folder(BATCH);
    write(&dir, "x#0:1.raw", &[-1.0f32; 12]);
    let item = "x:=x#0:1.raw";
    list(&dir, &["# a remark", "#y:0 minus", "%cut", "", item, "#y:0", "# x.raw", item]);
    let (code, out, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(0), "{error}");
    let names: Vec<&str> = out.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(names, ["y:0", "h", "y:0", "h"]);
    assert_eq!(floats(&dir.path().join("out/Result_1/h.raw")), [0.0; 12]);
    let input = item.replacen(":=", "=", 1);
    let args = ["run", "m.graph", "--input", &input, "--set-output-tensors", "sum"];
    let (code, out, error) = udo(&dir, &args);
    assert_eq!((code, out.starts_with("s: f32[] ")), (Some(0), true), "{out}{error}");
    list(&dir, &["", "#y:0 none", item]);
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("error: list.txt:2: the model has no output \"none\", it has \"y:0\""),
        "{error}"
    );
    assert!(error.contains("help: a remark has a blank behind its #"), "{error}");
    let both = [&RAW[..], &["--set-output-tensors", "h"]].concat();
    let (code, _, error) = udo(&dir, &both);
    assert_eq!(code, Some(2));
    assert!(error.contains("both the list's first line and --set-output-tensors"), "{error}");
}

#[test]
fn a_heading_is_of_all_stages_of_a_network() {
    let dir = folder(
        "graph g\n  input x: f32[n,3]\n  h = Relu@14(x) # cut\n  y = Neg@13(h)\n  output y\n",
    );
    let stages = ["convert", "m.graph", "--input-shape", "x=1,3", "--input-shape", "x=2,3"];
    let (code, _, error) = udo(&dir, &stages);
    assert_eq!(code, Some(0), "{error}");
    for rows in [1, 2] {
        let tensor =
            Tensor::from_slice(Shape::new(&[rows, 3]).unwrap(), &vec![1.0f32; 3 * rows]).unwrap();
        fs::write(dir.path().join(format!("x{rows}.npy")), npy::write(&tensor).unwrap()).unwrap();
    }
    list(&dir, &["#cut", "x2.npy", "x1.npy", "x2.npy"]);
    let run = ["run", "m.udm", "--input-list", "list.txt"];
    let (code, out, error) = udo(&dir, &run);
    assert_eq!(code, Some(0), "{error}");
    let rows: Vec<&str> = out.lines().filter_map(|line| line.split(" min").next()).collect();
    assert_eq!(rows, ["h: f32[2,3]", "h: f32[1,3]", "h: f32[2,3]"]);
    write(&dir, "x.raw", &[1.0f32; 3]);
    list(&dir, &["#cut", "x.raw", "x.raw", "x.raw"]);
    let (code, out, error) = udo(&dir, &[&run[..], &["--stage", "1"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.lines().count() == 3 && out.lines().all(|line| line.starts_with("h: f32[1,3] ")),
        "{out}"
    );
    assert!(error.contains("note: applying padding: "), "{error}");
    list(&dir, &["#none", "x2.npy"]);
    let (code, _, error) = udo(&dir, &run);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("list.txt:1: the model has no output \"none\", it has \"y\""),
        "{error}"
    );
}

#[test]
fn files_that_fill_no_batch_are_one_clear_error() {
    let two = "graph two
  input x: f32[4,3]
  input k: f32[2]
  y = Neg@13(x)
  z = Neg@13(k)
  output y
  output z
";
    let open = "graph open\n  input x: f32[n,3]\n  y = Neg@13(x)\n  output y\n";
    let cases: &[(&str, &[&str], &str)] = &[
        (
            BATCH,
            &["a2.raw"],
            "list.txt:1: cannot read tensor a2.raw: 8 bytes, expected 48 for f32[4,3], or for a part of its batch that goes into 4",
        ),
        (BATCH, &["a9.raw"], "list.txt:1: cannot read tensor a9.raw: 36 bytes, expected 48"),
        (
            BATCH,
            &["a3.raw", "a6.raw"],
            "list.txt:2: the file for \"x\" has f32[2,3], and f32[1,3] in the first line of this run",
        ),
        (BATCH, &["a3.raw", "none.raw"], "list.txt:2: cannot read tensor none.raw: "),
        (
            BATCH,
            &["#s", "a3.raw"],
            "list.txt:2: output \"s\" is f32[], which has no part for each of the 4 lines of a run\nhelp: name other outputs",
        ),
        (
            two,
            &["a3.raw a2.raw"],
            "list.txt:1: the file for \"x\" is one of 4 that fill the input, and the one for \"k\" of 1",
        ),
        (open, &["a3.raw"], "list.txt:1: tensor a3.raw has elements alone, and an open shape"),
        (open, &["x:=a3.txt"], "list.txt:1: tensor file a3.txt has no known ending"),
        (two, &["x:=a3.raw"], "list.txt:1: no tensor for k (f32[2])"),
        (two, &["x:=a3.raw a2.raw"], "list.txt:1: some files are named and some are not"),
    ];
    for (model, lines, wanted) in cases {
        for more in [&[][..], &["--async", "2"]] {
            let dir = folder(model);
            for count in [2, 3, 6, 9] {
                write(&dir, &format!("a{count}.raw"), &vec![1.0f32; count]);
            }
            fs::write(dir.path().join("a3.txt"), "").unwrap();
            list(&dir, lines);
            let (code, _, error) = udo(&dir, &[&RAW[..4], more].concat());
            assert!(matches!(code, Some(1 | 2)), "{wanted}: {error}");
            assert!(error.contains(&format!("error: {wanted}")), "{wanted}: {error}");
        }
    }
    // Outside of lists a file is all of an input.
    let dir = folder(BATCH);
    write(&dir, "a.raw", &[1.0f32; 3]);
    let (code, _, error) = udo(&dir, &["run", "m.graph", "--input", "x=a.raw"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("f32[1,3]") && error.contains("expected f32[4,3]"), "{error}");
}

#[test]
fn files_have_numbers_unless_elements_are_asked_for() {
    let dir = folder(CODES);
    list(&dir, &["x.raw"]);
    write(&dir, "x.raw", &[-3.0f32, 2.2]);
    let y = dir.path().join("out/Result_0/y.raw");
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(floats(&y), [0.0, 2.0]);
    let native_output = [&RAW[..], &["--native-output"]].concat();
    let (code, _, error) = udo(&dir, &native_output);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(fs::read(&y).unwrap(), [10, 14]);
    write(&dir, "x.raw", &[4u8, 14]);
    let (code, _, error) = udo(&dir, &[&RAW[..], &["--native-input"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(floats(&y), [0.0, 2.0]);
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(1));
    let expected = "error: list.txt:1: cannot read tensor x.raw: 2 bytes, expected 8 for f32[2], or for a part of its batch that goes \
                  into 2\nhelp: the input is u8: --native-input reads elements of that\n";
    assert!(error.ends_with(expected), "{error}");
    write(&dir, "x.raw", &[0.0f32, f32::NAN]);
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(1));
    let wanted = "error: list.txt:1: tensor x.raw has NaN at place 1, which is no u8 for input \"x\"\nhelp: files are";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn integers_without_an_encoding_are_whole_numbers() {
    let dir = folder(IDS);
    list(&dir, &["x.raw"]);
    write(&dir, "x.raw", &[0.0f32, 7.0]);
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(0), "{error}");
    let result = |name: &str| dir.path().join("out/Result_0").join(name);
    assert_eq!(
        (floats(&result("y.raw")), floats(&result("z.raw"))),
        (vec![1.0, 0.0], vec![1.0, 8.0])
    );
    let (code, _, error) = udo(&dir, &[&RAW[..], &["--native-output"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(fs::read(result("y.raw")).unwrap(), [1, 0]);
    assert_eq!(fs::read(result("z.raw")).unwrap(), bytes_of(&[1i64, 8]));
    write(&dir, "x.raw", &[1.0f32, 1.5]);
    let (code, _, error) = udo(&dir, &RAW);
    assert_eq!(code, Some(1));
    assert!(error.contains("x.raw has 1.5 at place 1, which is no i64 for input \"x\""), "{error}");
}

#[test]
fn flags_that_make_no_sense_are_wrong_usage() {
    let dir = folder(
        "graph g\n  input x: f32[1]\n  a/b = Neg@13(x)\n  a_b = Relu@14(x)\n  output a/b\n  output a_b\n",
    );
    write(&dir, "x.raw", &[1.0f32]);
    let run = ["run", "m.graph", "--input", "x=x.raw"];
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--output-format", "raw"], 2, "--output-dir"),
        (&["--native-output"], 2, "--output-dir"),
        (
            &["--output-dir", "out", "--native-output"],
            2,
            "help: add --output-format raw, or leave it out",
        ),
        (&["--output-dir", "out", "--output-format", "png"], 2, "[possible values: npy, raw]"),
        (
            &["--output-dir", "out"],
            1,
            "error: outputs \"a/b\" and \"a_b\" would both be in the file a_b.npy\nhelp: name those",
        ),
        (&["--perf-profile", "bust"], 2, "a similar value exists: 'burst'"),
        (&["--perf-profile", "burst", "--threads", "2"], 2, "cannot be used with '--threads <N>'"),
        (&["--profiling-level", "verbose"], 2, "[possible values: off, basic, moderate, detailed]"),
        (&["--profiling-level", "basic", "--async", "2"], 2, "cannot be used with"),
    ];
    for (more, wanted, text) in cases {
        let (code, _, error) = udo(&dir, &[&run[..], more].concat());
        assert_eq!(code, Some(*wanted), "{more:?}: {error}");
        assert!(error.contains(text), "{more:?}: {error}");
    }
}

#[test]
fn performance_profiles_list_their_settings() {
    let dir = folder(CODES);
    write(&dir, "x.raw", &[1.0f32, 2.0]);
    let all = std::thread::available_parallelism().unwrap().get();
    let half = (all / 2).max(1);
    let threads = [
        ("default", 1, "no effect: emulated cores have no clocks and voltages to set"),
        ("system_settings", 1, "no effect"),
        ("low_power_saver", 1, "one thread, which sleeps"),
        ("power_saver", 1, "one thread"),
        ("high_power_saver", 1, "one thread"),
        ("low_balanced", half, "half of the processors"),
        ("balanced", half, "half of the processors"),
        ("high_performance", all, "all processors"),
        ("sustained_high_performance", all, "all processors"),
        ("burst", all, "all processors, whose idle threads poll for 2 ms before they sleep"),
    ];
    for (name, threads, says) in threads {
        let args = ["bench", "m.graph", "--iterations", "1", "--json", "--perf-profile", name];
        let (code, out, error) = udo(&dir, &args);
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["threads"], threads, "{name}");
        assert!(error.starts_with(&format!("note: performance profile {name}: {says}")), "{error}");
        assert_eq!(error.matches("note: performance").count(), 1, "{error}");
    }
    let (_, help, _) = udo(&dir, &["run", "--help"]);
    assert!(help.contains("burst:") && help.contains("no effect: emulated cores"), "{help}");
}

#[test]
fn profiling_says_more_at_each_level() {
    let dir = folder(CODES);
    write(&dir, "x.raw", &[1.0f32, 2.0]);
    list(&dir, &["x.raw", "x.raw", "x.raw"]);
    let run = |level: &str, more: &[&str]| {
        let args = ["run", "m.graph", "--input-list", "list.txt", "--profiling-level", level];
        let (code, out, error) = udo(&dir, &[&args[..], more].concat());
        assert_eq!(code, Some(0), "{error}");
        out
    };
    assert_eq!(run("off", &[]).lines().count(), 3);
    let says = |text: &str, rows: &[&str]| {
        for row in rows {
            let of_row = |line: &&str| line.trim_start().starts_with(row);
            assert_eq!(text.lines().filter(of_row).count(), 1, "{row}: {text}");
        }
    };
    let basic =
        ["profiling: mean of 3 runs", "load", "create", "init", "de-init", "total inference"];
    let moderate = ["forward propagate", "on cpu", "transfers"];
    let text = run("basic", &[]);
    says(&text, &basic);
    assert!(!text.contains("forward propagate"), "{text}");
    let text = run("moderate", &[]);
    says(&text, &[&basic[..], &moderate].concat());
    assert!(!text.contains("layer"), "{text}");
    let text = run("detailed", &["--profile", "trace.json"]);
    says(&text, &[&basic[..], &moderate, &["layer", "0 "]].concat());
    assert!(dir.path().join("trace.json").exists());
    let json: Value = serde_json::from_str(&run("detailed", &["--json"])).unwrap();
    let (of, layers) = (&json["profiling"], json["profiling"]["layers"].as_array().unwrap());
    assert_eq!((&of["runs"], json["runs"].as_array().unwrap().len()), (&3.into(), 3));
    let us = |of: &Value| of.as_f64().unwrap();
    assert_eq!(of["us"]["transfers"].to_string(), "0.0");
    let sum: f64 = layers.iter().map(|layer| us(&layer["us"])).sum();
    let forward = us(&of["us"]["forward_propagate"]);
    assert!(!layers.is_empty() && (sum - forward).abs() <= 1e-6 * forward, "{sum} of {forward}");
    assert!(forward <= us(&of["us"]["total_inference"]), "{of}");
    assert!(layers.iter().all(|layer| layer["core"] == "cpu"), "{layers:?}");
    let json: Value = serde_json::from_str(&run("off", &["--json"])).unwrap();
    assert_eq!(json["profiling"], Value::Null);
}

#[test]
fn a_model_is_calibrated_with_the_list_that_it_runs() {
    let model = "graph batch
  input x: f32[4,3]
  constant w: f32[3,2]{0.5,-0.5, 1.0,0.0, -0.25,0.75}
  y = MatMul@13(x, w)
  output y
";
    let dir = folder(model);
    six(&dir, 1);
    let lines = ["#none", "x:=x0.raw", "x:=x1.raw", "x:=x2.raw", "x:=x3.raw", "x:=x4.raw"];
    list(&dir, &lines);
    let quantize = ["quantize", "m.graph", "--input-list", "list.txt", "-o", "q.onnx", "--json"];
    let encodings = ["--export-encodings", "e.json"];
    let (code, out, error) = udo(&dir, &[&quantize[..], &encodings].concat());
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["runs"], 2);
    let found: Value =
        serde_json::from_slice(&fs::read(dir.path().join("e.json")).unwrap()).unwrap();
    let max = found["activation_encodings"]["x"][0]["max"].as_f64().unwrap();
    assert!((max - 14.0).abs() < 0.1, "of five lines: {found}");
    list(&dir, &["x0.raw", "x:=x1.raw x:=x2.raw"]);
    let (code, _, error) = udo(&dir, &quantize);
    assert_eq!(code, Some(1));
    let said: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(said["error"], "list.txt:2: input \"x\" has two files, expected one");
    list(&dir, &["x0.raw", "none.raw"]);
    let (code, _, error) = udo(&dir, &quantize);
    assert_eq!(code, Some(1));
    assert!(error.contains("\"list.txt:2: cannot read tensor none.raw: "), "{error}");
}

/// An ONNX file of `y = x * k`, where `k` is an input with a default of 2.
fn with_default(ir_version: u64) -> Vec<u8> {
    let port = |name: &str, dims: &[u64]| {
        let dims: Vec<u8> = dims.iter().flat_map(|&dim| bytes(1, &int(1, dim))).collect();
        let of = bytes(1, &[int(1, 1), bytes(2, &dims)].concat());
        [bytes(1, name.as_bytes()), bytes(2, &of)].concat()
    };
    let node = [bytes(1, b"x"), bytes(1, b"k"), bytes(2, b"y"), bytes(4, b"Mul")].concat();
    let k = [int(2, 1), bytes(8, b"k"), bytes(9, &2f32.to_le_bytes())].concat();
    let graph = [
        bytes(1, &node),
        bytes(5, &k),
        bytes(11, &port("x", &[2])),
        bytes(11, &port("k", &[])),
        bytes(12, &port("y", &[2])),
    ];
    [int(1, ir_version), bytes(7, &graph.concat()), bytes(8, &int(2, 13))].concat()
}

#[test]
fn an_input_with_a_default_may_be_given_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for ir_version in [3, 4, 10] {
        let file = format!("m{ir_version}.onnx");
        fs::write(dir.path().join(file), with_default(ir_version)).unwrap();
    }
    write(&dir, "x.raw", &[1f32, -3.0]);
    write(&dir, "k.raw", &[5f32]);
    fs::write(dir.path().join("list.txt"), "\u{feff}x:=x.raw k:=k.raw\n").unwrap();
    let y = |args: &[&str]| {
        let out = ["--output-dir", "out", "--output-format", "raw"];
        let (code, _, error) = udo(&dir, &[&["run"][..], args, &out].concat());
        assert_eq!(code, Some(0), "{args:?}: {error}");
    };
    let result = |file: &str| floats(&dir.path().join("out").join(file));
    for of in ["m3", "m4"] {
        let (code, _, error) = udo(&dir, &["convert", &format!("{of}.onnx")]);
        assert_eq!(code, Some(0), "{error}");
    }
    for model in ["m3.onnx", "m4.onnx", "m10.onnx", "m3.udm", "m4.udm"] {
        y(&[model, "--input", "x=x.raw"]);
        assert_eq!(result("y.raw"), [2.0, -6.0], "{model}");
    }
    for model in ["m4.onnx", "m10.onnx", "m4.udm"] {
        y(&[model, "--input", "k=k.raw", "--input", "x=x.raw"]);
        assert_eq!(result("y.raw"), [5.0, -15.0], "{model}");
        y(&[model, "--input-list", "list.txt"]);
        assert_eq!(result("Result_0/y.raw"), [5.0, -15.0], "{model}");
    }
    let error = |args: &[&str]| {
        let (code, _, error) = udo(&dir, &[&["run"], args].concat());
        assert_eq!(code, Some(1), "{error}");
        error
    };
    for model in ["m3.onnx", "m3.udm"] {
        let constant = error(&[model, "--input", "k=k.raw", "--input", "x=x.raw"]);
        assert!(constant.contains("\"k\""), "{constant}");
    }
    let shaped = ["convert", "m4.onnx", "-o", "given.udm", "--input-shape", "k="];
    assert_eq!(udo(&dir, &shaped).0, Some(0));
    let (code, _, missing) = udo(&dir, &["run", "given.udm", "--input", "x=x.raw"]);
    assert_eq!(code, Some(2), "{missing}");
    assert!(missing.contains("no tensor for k"), "{missing}");
    let twice = error(&["m4.onnx", "--input", "x=x.raw", "--input", "x=k.raw"]);
    assert!(twice.starts_with("error: --input gives \"x\" twice\nhelp: "), "{twice}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_list() {
    let dir = folder(BATCH);
    six(&dir, 4);
    for heading in ["", "#minus\n"] {
        fs::write(dir.path().join("list.txt"), format!("\u{feff}{heading}x:=x0.raw\n")).unwrap();
        let (code, _, error) = udo(&dir, &RAW);
        assert_eq!(code, Some(0), "{heading:?}: {error}");
        let y = floats(&dir.path().join("out/Result_0/y:0.raw"));
        assert_eq!(y, (0u8..12).map(|x| -f32::from(x)).collect::<Vec<_>>());
    }
}
