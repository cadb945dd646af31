//! `udo quantize`: the guide keeps its promises, and what cannot be done is said with the next step.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;
use udo_test_support::page;

const GUIDE: &str = include_str!("../../docs/quantize.md");

/// A product, and a function without a quantized form behind it.
const NET: &str = "graph net
  input x: f32[2,4]
  constant w: f32[4,3]{0.5,-0.5,0.25, 1.0,0.0,-1.0, 0.125,0.5,0.5, -0.25,0.75,0.5}
  constant axis: i64[]{1}
  h = MatMul@17(x, w) # product
  y = CumSum@17(h, axis) # sums
  output y
";

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.graph"), NET).unwrap();
    let bytes: Vec<u8> = (0..8u8).flat_map(|n| (f32::from(n) / 4.0 - 1.0).to_le_bytes()).collect();
    fs::write(dir.path().join("x.raw"), bytes).unwrap();
    dir
}

#[test]
fn pasted_blocks_of_the_guide_run() {
    let dir = page::follow(GUIDE);
    let report = fs::read_to_string(dir.path().join("report.html")).unwrap();
    for wanted in ["<table id=\"values\"", "<svg ", "<script>", "net.udm quantized"] {
        assert!(report.contains(wanted), "no {wanted} in the report");
    }
    assert!(!report.contains("://"), "a page of its own");
    let encodings = fs::read_to_string(dir.path().join("encodings.json")).unwrap();
    let encodings: Value = serde_json::from_str(&encodings).unwrap();
    assert_eq!(encodings["activation_encodings"]["x"][0]["bitwidth"], 8);
    assert_eq!(encodings["param_encodings"]["w"].as_array().unwrap().len(), 2);
}

#[test]
fn requested_settings_are_written() {
    let dir = folder();
    fs::write(dir.path().join("list.txt"), "x:=x.raw\nx.raw\n").unwrap();
    let args = ["quantize", "net.graph", "--input-list", "list.txt", "-o", "q.udm", "--json"];
    let (code, out, err) =
        udo(&dir, &[&args[..], &["--float-fallback", "--symmetric-weights"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&said["runs"], &said["activations"], &said["weights"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert_eq!(said["float_nodes"][0]["op"], "CumSum");
    let (code, out, err) = udo(&dir, &["run", "q.udm", "--input", "x=x.raw"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("y: f32[2,3]"), "{out}");
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::copy(dir.path().join("x.raw"), dir.path().join("data/0.raw")).unwrap();
    for output in ["q.udm", "q.onnx"] {
        let args =
            ["quantize", "net.graph", "--calibration", "data", "-o", output, "--float-fallback"];
        let wide = ["--act-bitwidth", "16", "--weights-bitwidth", "4", "--bias-bitwidth", "8"];
        let (code, _, err) = udo(&dir, &[&args[..], &wide[..]].concat());
        assert_eq!(code, Some(0), "{err}");
        let (code, _, err) = udo(&dir, &["run", output, "--input", "x=x.raw"]);
        assert_eq!(code, Some(0), "{err}");
    }
}

/// A product of numbers around 1e-6.
const SMALL: &str = "graph net
  input x: f32[2,4]
  constant w: f32[4,3]{0.5,-0.5,0.25, 1.0,0.0,-1.0, 0.125,0.5,0.5, -0.25,0.75,0.5}
  constant bias: f32[3]{1e-6,2e-6,0.0}
  h = Gemm@17(x, w, bias) # product
  y = Relu@17(h) # cut
  output y
";

#[test]
fn the_quality_of_ranges_is_reported() {
    let dir = folder();
    fs::write(dir.path().join("small.graph"), SMALL).unwrap();
    let bytes: Vec<u8> = (0..8u8).flat_map(|n| (f32::from(n) * 1e-6).to_le_bytes()).collect();
    fs::write(dir.path().join("small.raw"), bytes).unwrap();
    fs::write(dir.path().join("list.txt"), "x:=small.raw\n").unwrap();
    let args = ["quantize", "small.graph", "-o", "q.udm", "--input-list", "list.txt"];
    let wide = [&args[..], &["--min-range", "0.01"]].concat();
    let (code, _, err) = udo(&dir, &wide);
    assert_eq!(code, Some(0), "{err}");
    for name in ["x", "y"] {
        let wanted = format!("warning: the range of value \"{name}\" was widened from ");
        assert_eq!(err.matches(&wanted).count(), 1, "{err}");
    }
    assert!(err.contains("its SQNR is 0.0 dB\nhelp: --min-range 7.0e-6"), "{err}");
    let (code, out, _) = udo(&dir, &[&wide[..], &["--json"]].concat());
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, said["narrow"].as_array().map(Vec::len)), (Some(0), Some(2)), "{out}");
    let (code, _, err) = udo(&dir, &args);
    assert_eq!((code, err.as_str()), (Some(0), ""), "nothing is left to say");
    let (code, out, err) = udo(&dir, &["run", "q.udm", "--input", "x=small.raw", "--cores", "dsp"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let random = ["quantize", "small.graph", "-o", "q.udm", "--random", "2"];
    let (code, _, err) = udo(&dir, &random);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("note: ranges come from 2 runs on random inputs and do not fit real data"),
        "{err}"
    );
}

#[test]
fn encodings_without_a_say_are_warned_of() {
    let dir = folder();
    fs::write(dir.path().join("small.graph"), SMALL).unwrap();
    let one = r#"[{"bitwidth": 8, "min": -1.0, "max": 1.0}]"#;
    let given =
        |name: &str| format!(r#"{{"activation_encodings": {{"x": {one}, "{name}": {one}}}}}"#);
    fs::write(dir.path().join("cut.json"), given("h")).unwrap();
    fs::write(dir.path().join("lost.json"), given("lost")).unwrap();
    let args = ["quantize", "small.graph", "-o", "q.udm", "--random", "1", "--encodings"];
    let (code, _, err) = udo(&dir, &[&args[..], &["cut.json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("warning: the encoding of \"h\" is not used: nothing is stored there"),
        "{err}"
    );
    let (code, _, err) = udo(&dir, &[&args[..], &["lost.json"]].concat());
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("encodings are given for [\"lost\"], which the model does not have\nhelp: "),
        "{err}"
    );
}

#[test]
fn layers_refused_by_the_dsp_are_named() {
    let dir = folder();
    let wide =
        "graph wide\n  input x: f32[1,4,512,1024]\n  y = LRN@13(x) size=3 # norm\n  output y\n";
    fs::write(dir.path().join("wide.graph"), wide).unwrap();
    let args = ["quantize", "wide.graph", "-o", "q.udm", "--random", "1"];
    let (code, _, err) = udo(&dir, &args);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains(
            "quantized model: node \"norm\" (LRN) runs on none of the cores asked for: dsp"
        ) && err.contains("bytes of fast memory")
            && err.contains("\nhelp: --float-fallback writes it as it is"),
        "{err}"
    );
    assert!(!dir.path().join("q.udm").exists());
    let (code, _, err) = udo(&dir, &[&args[..], &["--float-fallback"]].concat());
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn nan_in_calibration_data_is_refused_with_its_place() {
    let dir = folder();
    for (number, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "infinite")] {
        let bytes: Vec<u8> = [number; 8].into_iter().flat_map(f32::to_le_bytes).collect();
        fs::write(dir.path().join("bad.raw"), bytes).unwrap();
        fs::write(dir.path().join("list.txt"), "x:=x.raw\nx:=bad.raw\n").unwrap();
        let args = [
            "quantize",
            "net.graph",
            "--input-list",
            "list.txt",
            "-o",
            "q.udm",
            "--float-fallback",
        ];
        let (code, _, err) = udo(&dir, &args);
        assert_eq!(code, Some(1), "{err}");
        let wanted =
            format!("list.txt:2: value \"x\" is {word} for some inputs, expected numbers\nhelp: ");
        assert!(err.contains(&wanted), "{err}");
    }
}

#[test]
fn failures_suggest_the_next_step() {
    let dir = folder();
    fs::write(dir.path().join("bad.json"), r#"{"activation_encodings": {"x": 3}}"#).unwrap();
    fs::write(dir.path().join("list.txt"), "x:=missing.raw\n").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let random: &[&str] = &["--random", "1"];
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["-o", "q.udm", "--random", "1"],
            1,
            "no quantized form of CumSum (node \"sums\")\nhelp: --float-fallback",
        ),
        (
            &["-o", "q.txt", "--random", "1"],
            2,
            "q.txt has no known ending\nhelp: name it .udm or .onnx",
        ),
        (&["-o", "q.udm"], 2, "required arguments"),
        (
            &["-o", "q.udm", "--input-list", "list.txt", "--float-fallback"],
            1,
            "list.txt:1: cannot read tensor missing.raw",
        ),
        (
            &["-o", "q.udm", "--calibration", "empty", "--float-fallback"],
            1,
            "folder empty has no recorded inputs\nhelp: put",
        ),
        (
            &["-o", "q.udm", "--random", "1", "--encodings", "bad.json"],
            1,
            "bad.json: activation_encodings.x: found no list",
        ),
        (&["-o", "q.udm", "--random", "1", "--weights-bitwidth", "5"], 2, "expected 4, 8 or 16"),
        (
            &["-o", "q.udm", "--random", "1", "--min-range", "0"],
            2,
            "expected a number from 1e-12 on",
        ),
        (&["-o", "q.udm", "--random", "1", "--shape", "z=1"], 2, "the model has no input \"z\""),
    ];
    for (args, wanted_code, wanted) in cases {
        let (code, _, err) = udo(&dir, &[&["quantize", "net.graph"], *args].concat());
        assert_eq!(code, Some(*wanted_code), "{args:?}: {err}");
        assert!(err.contains(wanted), "{args:?}: {err}");
    }
    let first = [&["quantize", "net.graph", "-o", "q.udm", "--float-fallback"], random].concat();
    assert_eq!(udo(&dir, &first).0, Some(0));
    let again = [&["quantize", "q.udm", "-o", "r.udm", "--float-fallback"], random].concat();
    let (code, _, err) = udo(&dir, &again);
    assert_eq!(code, Some(1));
    assert!(err.contains("quantizes already") && err.contains("help: quantize the model"), "{err}");
}
