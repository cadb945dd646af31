//! Which core runs what, from the command line; docs/placement.md keeps its promises.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;
use udo_test_support::page;

const PAGE: &str = include_str!("../../docs/placement.md");

#[test]
fn pasted_blocks_of_the_page_run() {
    page::follow(PAGE);
}

const NET: &str = "graph net
  input x: f32[1,4]
  a = Relu@14(x) # first
  y = Neg@13(a) # second
  output y
";

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), NET).unwrap();
    fs::write(dir.path().join("x.raw"), [0; 16]).unwrap();
    dir
}

#[test]
fn json_output_names_subnets() {
    let dir = folder();
    let (code, out, error) =
        udo(&dir, &["explain", "m.graph", "--affinity", "second=gpu", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let explained: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> = explained["subnets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["CPU Subnet 0", "GPU Subnet 1"]);
    assert_eq!(explained["nodes"][1]["subnet"], "GPU Subnet 1");
    assert_eq!(explained["nodes"][1]["ids"], serde_json::json!([1]));
    let run = ["run", "m.graph", "--input", "x=x.raw", "--affinity", "second=gpu"];
    let (code, _, error) = udo(&dir, &[&run[..], &["--profile", "trace.json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let trace = fs::read_to_string(dir.path().join("trace.json")).unwrap();
    assert!(trace.contains("\"subnet\":\"GPU Subnet 1\""), "{trace}");
}

#[test]
fn impossible_placements_are_reported_before_the_run() {
    let dir = folder();
    let run = ["run", "m.graph", "--input", "x=x.raw"];
    fs::write(dir.path().join("costs.json"), "{\"cores\": {}}").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--affinity", "Conv=gpu"], 1, "no node has that name or operator"),
        (&["--affinity", "9=gpu"], 1, "no node has such an id"),
        (&["--affinity", "first"], 2, "expected NODES=CORE"),
        (&["--affinity", "first=npu"], 2, "expected cpu"),
        (&["--cores", "auto:"], 2, "expected cpu"),
        (&["--cores", "auto:gpu,cpu", "--costs", "none.json"], 2, "cannot read none.json"),
        (&["--cores", "auto:gpu,cpu", "--costs", "costs.json"], 2, "missing field `crossings`"),
    ];
    for (flags, wanted, says) in cases {
        let (code, out, error) = udo(&dir, &[&run[..], flags].concat());
        assert_eq!((code, out.as_str()), (Some(*wanted), ""), "{flags:?}: {error}");
        assert!(error.contains(says), "{flags:?}: {error}");
    }
}

/// Runs `udo doctor --json` with these flags and returns its object.
fn doctor(dir: &TempDir, flags: &[&str]) -> (Option<i32>, Value, String) {
    let (code, out, error) = udo(dir, &[&["doctor", "--json"], flags].concat());
    (code, serde_json::from_str(&out).unwrap_or_default(), error)
}

#[test]
fn all_cores_are_listed_with_their_nodes() {
    let dir = folder();
    let (code, said, error) = doctor(&dir, &[]);
    assert_eq!(code, Some(0), "{error}");
    let cores = said["cores"].as_array().unwrap();
    let kinds: Vec<&str> = cores.iter().map(|of| of["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["cpu", "gpu", "dsp", "hta"]);
    let takes: Vec<bool> = cores.iter().map(|of| of["takes_packages"] == true).collect();
    assert_eq!(takes, [true, true, true, false]);
    let (_, ops, _) = udo(&dir, &["ops", "--core", "cpu", "--json"]);
    let ops: Value = serde_json::from_str(&ops).unwrap();
    assert_eq!(cores[0]["operators"], ops["operators"].as_array().unwrap().len());
    assert_eq!((&cores[0]["is_emulated"], &cores[2]["is_emulated"]), (&false.into(), &true.into()));
    assert_eq!(cores[2]["versions"][0], "v65");
    let (code, out, error) = udo(&dir, &["doctor"]);
    assert_eq!(code, Some(0), "{error}");
    for wanted in ["cpu", "gpu", "dsp:v68", "hta", "operators", said["isa"].as_str().unwrap()] {
        assert!(out.contains(wanted), "{out}");
    }
}

#[test]
fn cores_are_tried_and_the_exit_code_says_whether_all_are_right() {
    let dir = folder();
    let flags = ["--runtime", "cpu", "--runtime", "gpu", "--runtime", "dsp:v73"];
    let (code, said, error) = doctor(&dir, &flags);
    assert_eq!(code, Some(0), "{error}");
    let passed = |of: &Value| of["check"]["passed"] == true;
    assert_eq!(said["cores"].as_array().unwrap().iter().filter(|of| passed(of)).count(), 3);
    let (code, said, error) = doctor(&dir, &["--runtime", "hta"]);
    let of = &said["cores"][0];
    assert_eq!(code, Some(i32::from(!passed(of))), "{of} {error}");
    assert_eq!(error.contains("1 of 1 cores failed: hta"), !passed(of), "{error}");
    let (code, out, _) = udo(&dir, &["doctor", "--runtime", "cpu"]);
    assert!(code == Some(0) && out.contains("cpu: passed, a run takes"), "{out}");
    assert!(!out.contains("cargo") && !out.contains("gpu:0"), "only the core: {out}");
    let (code, _, error) = udo(&dir, &["doctor", "--runtime", "npu"]);
    assert!(code == Some(2) && error.contains("expected cpu"), "{error}");
}

/// `udo platform` and `udo devices` are older names for parts of `udo doctor`.
#[test]
fn older_names_report_the_same_as_the_doctor() {
    let dir = folder();
    let (_, whole, error) = doctor(&dir, &[]);
    assert_eq!(whole["passed"], true, "{error}");
    let (_, text, _) = udo(&dir, &["doctor"]);
    for (name, keys) in
        [("platform", &["isa", "cores", "runtime"][..]), ("devices", &["devices"][..])]
    {
        let (code, out, error) = udo(&dir, &[name, "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let part: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(part.as_object().unwrap().len(), keys.len(), "{part}");
        for key in keys {
            assert_eq!(part[key], whole[key], "{name}: {key}");
        }
        let (_, out, _) = udo(&dir, &[name]);
        assert!(text.contains(&out), "{name}: {out} is not in {text}");
    }
    let (code, tried, error) = doctor(&dir, &["--runtime", "cpu"]);
    let (_, out, _) = udo(&dir, &["platform", "--json", "--runtime", "cpu"]);
    let older: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &tried["findings"]), (Some(0), &Value::Null), "{error}");
    assert_eq!(older["cores"][0]["check"]["passed"], tried["cores"][0]["check"]["passed"]);
    let (code, _, error) = udo(&dir, &["platform", "--runtime", "npu"]);
    assert!(code == Some(2) && error.contains("expected cpu"), "{error}");
}

#[test]
fn measured_costs_place_a_model() {
    let dir = folder();
    let (code, out, error) = udo(&dir, &["doctor", "--measure", "costs.json"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.ends_with("costs.json\n"), "{out}");
    let costs: Value =
        serde_json::from_slice(&fs::read(dir.path().join("costs.json")).unwrap()).unwrap();
    assert_eq!(costs["cores"].as_object().unwrap().len(), 4);
    assert_eq!(costs["crossings"].as_array().unwrap().len(), 12);
    assert!(costs["cores"]["cpu"]["operations"].as_f64().unwrap() > 1.0, "{costs}");
    for cores in ["auto:cpu,gpu", "auto:gpu,cpu", "auto:cpu,dsp"] {
        let run = ["run", "m.graph", "--input", "x=x.raw", "--cores", cores];
        let (code, _, error) = udo(&dir, &[&run[..], &["--costs", "costs.json"]].concat());
        assert_eq!(code, Some(0), "{cores}: {error}");
    }
}

#[test]
fn figures_that_cannot_be_written_are_not_measured() {
    let dir = folder();
    fs::create_dir(dir.path().join("folder")).unwrap();
    for path in ["folder", "none/costs.json", "m.graph/costs.json"] {
        let (code, out, error) = udo(&dir, &["doctor", "--measure", path]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
        let wanted =
            format!("error: cannot write costs {path}: it is not a file in an existing folder\n");
        assert!(error.starts_with(&wanted), "{error}");
    }
    let (code, _, error) = udo(&dir, &["doctor", "--measure", "a", "--runtime", "cpu"]);
    assert!(code == Some(2) && error.contains("cannot be used with"), "{error}");
}
