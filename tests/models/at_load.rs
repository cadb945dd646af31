//! A float model with `--cores dsp`: it runs there, and commands say what that cost, where ranges come from, and what avoids it.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;

/// A product, and a function behind it that the DSP has no kernel for.
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
    let bytes: Vec<u8> = (0..8u8).flat_map(|n| (f32::from(n) * 5.0).to_le_bytes()).collect();
    fs::write(dir.path().join("x.raw"), bytes).unwrap();
    fs::create_dir_all(dir.path().join("data")).unwrap();
    fs::copy(dir.path().join("x.raw"), dir.path().join("data/x.raw")).unwrap();
    fs::write(dir.path().join("list.txt"), "x.raw\nx.raw\n").unwrap();
    dir
}

fn ok(dir: &TempDir, args: &[&str]) -> (String, String) {
    let (code, out, errors) = udo(dir, args);
    assert_eq!(code, Some(0), "{args:?}: {errors}");
    (out, errors)
}

fn on_dsp(dir: &TempDir, args: &[&str]) -> (String, String) {
    ok(dir, &[args, &["--cores", "dsp"]].concat())
}

#[test]
fn runs_report_the_cost_of_quantizing_once() {
    let dir = folder();
    let one: &[&str] = &["run", "net.graph", "--input", "x=x.raw"];
    let list: &[&str] = &["run", "net.graph", "--input-list", "list.txt"];
    for (args, of) in [
        (one, "of 1 set of given inputs"),
        (list, "of 2 sets of given inputs"),
        (&["run", "net.graph", "--input", "x=x.raw", "--random", "3"], "of 3 sets of random"),
        (&["explain", "net.graph", "--random", "2", "--json"], "of 2 sets of random"),
        (&["bench", "net.graph", "--iterations", "1", "--random", "5"], "of 5 sets of random"),
    ] {
        let (out, errors) = on_dsp(&dir, args);
        let said = if args[0] == "explain" { &out } else { &errors };
        assert_eq!(said.matches("quantized at load for ").count(), 1, "{args:?}: {said}");
        assert!(said.contains(of), "{args:?}: {said}");
    }
    let (_, errors) = ok(&dir, one);
    assert!(!errors.contains("quantized"), "the CPU computes with numbers: {errors}");
}

#[test]
fn verify_compares_a_quantized_model_with_the_float_model() {
    let dir = folder();
    let args = ["verify", "net.graph", "--require", "*=dsp", "--against", "cpu", "--random", "2"];
    let (out, errors) = on_dsp(&dir, &[&args[..], &["--atol", "0.2", "--json"]].concat());
    let report: Value = serde_json::from_str(&out).unwrap();
    let first = &report["outputs"][0];
    assert!(first["sqnr_db"].as_f64().unwrap() > 25.0, "{report}");
    assert!(first["max_abs"].as_f64().unwrap() > 0.0, "it was quantized");
    assert!(errors.contains("of 2 sets of random inputs"), "{errors}");
}

#[test]
fn the_command_that_is_named_avoids_it() {
    let dir = folder();
    let (before, errors) = on_dsp(&dir, &["run", "net.graph", "--input", "x=x.raw"]);
    let (_, command) = errors.split_once("`udo ").unwrap();
    let (command, _) = command.split_once('`').unwrap();
    let filled = command.replace("MODEL", "net.graph").replace("DATA", "data");
    ok(&dir, &filled.split(' ').collect::<Vec<_>>());
    let (after, errors) = on_dsp(&dir, &["run", "quantized.udm", "--input", "x=x.raw"]);
    assert_eq!(after, before, "the same ranges make the same model");
    assert!(!errors.contains("quantized at load"), "{errors}");
    let both = ["--store-all", "--float-fallback"];
    let args = ["quantize", "net.graph", "--random", "1", "-o", "q.udm"];
    assert_eq!(udo(&dir, &[&args[..], &both].concat()).0, Some(2), "it is one or the other");
}

#[test]
fn wrong_inputs_are_refused() {
    let dir = folder();
    fs::write(dir.path().join("short.raw"), [0; 8]).unwrap();
    for (args, code, wanted) in [
        (&["--input", "x=none.raw"][..], 1, "none.raw"),
        (&["--input", "x=short.raw"], 1, "short.raw"),
        (&[], 2, "no tensor for x (f32[2,4])"),
        (&["--random", "0"], 2, "--random"),
    ] {
        let run = ["run", "net.graph", "--cores", "dsp"];
        let (found, _, errors) = udo(&dir, &[&run[..], args].concat());
        assert_eq!(found, Some(code), "{args:?}: {errors}");
        assert!(errors.contains(wanted), "{args:?}: {errors}");
    }
}

#[test]
fn ranges_that_nothing_says_are_refused_with_the_next_step() {
    let dir = folder();
    let dark = NET.replace("y = CumSum@17(h, axis) # sums", "y = Log@13(no) # log").replace(
        "  h = MatMul",
        "  constant less: f32[]{-1}\n  a = Abs@13(x)\n  no = Mul@14(a, less)\n  h = MatMul",
    );
    fs::write(dir.path().join("dark.graph"), dark.replace("output y", "output y, h")).unwrap();
    let (code, _, errors) =
        udo(&dir, &["run", "dark.graph", "--cores", "dsp", "--input", "x=x.raw"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("value \"y\" ") && errors.contains("help: "), "{errors}");
}
