//! The DSP's versions and what is documented of them, from the command line; docs/dsp.md keeps its promises.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;
use udo_test_support::page;

const GUIDE: &str = include_str!("../../docs/dsp.md");

/// A table, of a network whose input has two dimensions.
const NET: &str = "graph net
  input x: f32[1,8]
  constant s: f32[]{0.0625}
  constant z: u8[]{128}
  a = QuantizeLinear@17(x, s, z)
  b = DequantizeLinear@17(a, s, z)
  c = Sigmoid@13(b) # sigmoid
  d = QuantizeLinear@17(c, s, z)
  y = DequantizeLinear@17(d, s, z)
  output y
";

const RULE: &str = "a network's inputs have 4 dimensions, the batch first (docs/dsp.md, Shapes)";

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), NET).unwrap();
    let wide = NET.replace("u8[]{128}", "u16[]{32768}");
    fs::write(dir.path().join("wide.graph"), wide).unwrap();
    fs::write(dir.path().join("x.raw"), [0; 32]).unwrap();
    dir
}

#[test]
fn pasted_blocks_of_the_guide_run() {
    page::follow(GUIDE);
}

#[test]
fn a_refusal_of_a_device_is_reported_like_any() {
    let dir = folder();
    let run = ["run", "m.graph", "--input", "x=x.raw", "--strict-device", "--cores"];
    let (code, _, error) = udo(&dir, &[&run[..], &["dsp"]].concat());
    assert_eq!(code, Some(1));
    let refused = format!(
        "runs on none of the cores asked for: dsp:v68: input \"x\" is u8 of 2 dimensions, and {RULE}"
    );
    assert!(error.contains(&refused), "{error}");
    let (code, _, error) = udo(&dir, &[&run[..], &["dsp", "--fallback", "cpu"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains("fell back to cpu (dsp:v68: ") && error.contains(RULE), "{error}");
    let (code, _, error) = udo(&dir, &[&run[..], &["dsp,cpu", "--require", "*=dsp"]].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("runs on cpu (dsp:v68: ") && error.contains(RULE), "{error}");
    let explain = ["explain", "m.graph", "--strict-device", "--cores", "dsp:v73,cpu", "--json"];
    let (code, out, error) = udo(&dir, &explain);
    assert_eq!(code, Some(0), "{error}");
    let explained: Value = serde_json::from_str(&out).unwrap();
    let node =
        explained["nodes"].as_array().unwrap().iter().find(|of| of["name"] == "sigmoid").unwrap();
    assert_eq!((&node["core"], &node["refusals"][0]["core"]), (&"cpu".into(), &"dsp:v73".into()));
    assert!(node["refusals"][0]["reason"].as_str().unwrap().ends_with(RULE), "{node}");
    // Without the flag all of it runs there.
    let (code, _, error) = udo(&dir, &["run", "m.graph", "--input", "x=x.raw", "--cores", "dsp"]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn versions_are_those_that_are_known() {
    let dir = folder();
    for arch in [65, 66, 68, 69, 73, 75, 79, 81] {
        let dsp = format!("dsp:v{arch}");
        let run = |model: &str| udo(&dir, &["run", model, "--input", "x=x.raw", "--cores", &dsp]);
        let (code, _, error) = run("m.graph");
        assert_eq!(code, Some(0), "{dsp}: {error}");
        let (code, _, error) = run("wide.graph");
        assert_eq!(code, Some(i32::from(arch < 68)), "{dsp}: {error}");
        let rule = "DSPs before v68 store values in 8 bits, not in 16 (docs/dsp.md, Types)";
        assert_eq!(error.contains(rule), arch < 68, "{dsp}: {error}");
    }
    for (flag, core) in
        [("--cores", "dsp:v86"), ("--cores", "cpu,dsp:v6"), ("--require", "*=dsp:v67")]
    {
        let (code, _, error) = udo(&dir, &["run", "m.graph", "--input", "x=x.raw", flag, core]);
        assert_eq!(code, Some(2), "{error}");
        let wanted = "there is no such DSP, expected v65, v66, v68, v69, v73, v75, v79, v81";
        assert!(error.contains(wanted), "{error}");
    }
}
