//! `udo view`: the guide keeps its promises, names stay names, and what cannot be done is said with the next step.
//! `tests/pages/check.py` uses the page in a browser.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::command::udo;
use udo_test_support::page;

const GUIDE: &str = include_str!("../../docs/view.md");

/// A product with a Relu that its kernel does besides, a node that the GPU has no kernel for, and a value that goes two ways.
const NET: &str = "graph net
  input x: f32[2,3]
  constant w: f32[3,2]{1.0,2.0,3.0,4.0,5.0,6.0}
  h = MatMul@13(x, w) # product
  r = Relu@14(h) # cut
  s = Hardmax@13(r) axis=1 # largest
  y = Add@14(r, s) # both
  output y
";

/// A name that would end a script, a line and a text.
const ODD: &str = "</script><b>\"'&\nline \u{2028} größer";

fn folder(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.graph"), text).unwrap();
    dir
}

/// Returns the data that a page shows.
fn data(dir: &TempDir, page: &str) -> Value {
    let page = fs::read_to_string(dir.path().join(page)).unwrap();
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn pasted_blocks_of_the_guide_run() {
    let dir = page::follow(GUIDE);
    let nodes = &data(&dir, "net.html")["explain"]["nodes"];
    assert_eq!((&nodes[0]["core"], &nodes[1]["core"]), (&"gpu".into(), &"cpu".into()));
    assert!(data(&dir, "times.html")["explain"]["measured"]["run_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn boxes_are_kernels_calls_and_lines_are_values() {
    let dir = folder(NET);
    let (code, out, err) = udo(&dir, &["view", "net.graph", "--cores", "gpu,cpu"]);
    assert_eq!((code, out.as_str()), (Some(0), "net.html\n"), "{err}");
    let data = data(&dir, "net.html");
    let graph = &data["graph"];
    let boxes = graph["boxes"].as_array().unwrap();
    let nodes: Vec<&Value> = boxes.iter().map(|of| &of["nodes"]).collect();
    let of = |nodes: &[u64]| Value::from(nodes);
    assert_eq!(nodes[1..4], [&of(&[0, 1]), &of(&[2]), &of(&[3])]);
    assert_eq!((&boxes[0]["input"], &boxes[4]["output"]), (&0.into(), &0.into()));
    let edges = graph["edges"].as_array().unwrap();
    let ends: Vec<_> = edges
        .iter()
        .map(|of| {
            (
                of["value"].as_str().unwrap(),
                of["from"].as_u64().unwrap(),
                of["to"].as_u64().unwrap(),
            )
        })
        .collect();
    let wanted = [("x", 0, 1), ("r", 1, 2), ("r", 1, 3), ("s", 2, 3), ("y", 3, 4)];
    assert_eq!(ends, wanted);
    let crossing: Vec<bool> = edges.iter().map(|of| of["crosses"].is_array()).collect();
    assert_eq!(crossing, [true, true, false, true, true]);
    let step = edges[1]["crosses"][0].as_u64().unwrap();
    let step = &data["explain"]["steps"][usize::try_from(step).unwrap()];
    assert_eq!(
        (&step["name"], &step["between"]),
        (&"r".into(), &serde_json::json!(["gpu", "host"]))
    );
    assert_eq!(data["explain"]["nodes"][2]["refusals"][0]["core"], "gpu");
}

#[test]
fn subnets_are_boxes_around_their_nodes_where_there_are_several() {
    let dir = folder(NET);
    let (code, _, err) = udo(&dir, &["view", "net.graph", "--cores", "gpu,cpu"]);
    assert_eq!(code, Some(0), "{err}");
    let of = data(&dir, "net.html");
    let frames = of["graph"]["frames"].as_array().unwrap();
    let names: Vec<[&Value; 3]> =
        frames.iter().map(|of| [&of["name"], &of["core"], &of["depth"]]).collect();
    let wanted = [
        ["GPU Subnet 0".into(), "gpu".into(), 0.into()],
        ["CPU Subnet 1".into(), "cpu".into(), 0.into()],
        ["GPU Subnet 2".into(), "gpu".into(), 0.into()],
    ];
    assert_eq!(names, wanted.each_ref().map(|of: &[Value; 3]| of.each_ref()));
    let boxes = of["graph"]["boxes"].as_array().unwrap();
    let around: Vec<&Value> = boxes.iter().map(|of| &of["frames"]).collect();
    let wanted = [vec![], vec![0], vec![1], vec![2], vec![]].map(Value::from);
    assert_eq!(around, wanted.iter().collect::<Vec<_>>(), "inputs and outputs are in none");
    let (code, _, err) = udo(&dir, &["view", "net.graph", "--cores", "cpu"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(data(&dir, "net.html")["graph"]["frames"], serde_json::json!([]));
}

#[test]
fn the_page_contains_the_report_of_explain() {
    let dir = folder(NET);
    let flags = ["net.graph", "--cores", "dsp,cpu", "--fallback", "cpu", "--random", "2"];
    let (code, _, err) = udo(&dir, &[&["view"], &flags[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = udo(&dir, &[&["explain", "--json"], &flags[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let (mut page, mut said) =
        (data(&dir, "net.html"), serde_json::from_str::<Value>(&out).unwrap());
    // It says how long the model took to be quantized.
    page["explain"]["notices"] = Value::Null;
    said["notices"] = Value::Null;
    assert_eq!(page["explain"], said);
    let text = said["nodes"].to_string();
    assert!(text.contains("zero point"), "encodings are said: {text}");
}

#[test]
fn names_stay_names() {
    let quoted = format!("{ODD:?}");
    let dir =
        folder(&format!("graph g\n  input x: f32[2]\n  y = Relu@14(x) # {quoted}\n  output y\n"));
    let (code, _, err) = udo(&dir, &["view", "net.graph", "-o", "odd.html"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(data(&dir, "odd.html")["explain"]["nodes"][0]["name"], ODD);
    let page = fs::read_to_string(dir.path().join("odd.html")).unwrap();
    assert!(!page.contains("</script><b>") && !page.contains("://"), "a page of its own");
}

#[test]
fn failures_suggest_the_next_step() {
    let dir = folder(NET);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["missing.onnx"], 1, "missing.onnx"),
        (&["net.graph", "--cores", "tpu"], 2, "expected cpu"),
        (&["net.graph", "--iterations", "3"], 2, "--measured"),
        (&["net.graph", "--cores", "gpu"], 1, "Hardmax"),
        (&["net.graph", "-o", "no/folder/net.html"], 1, "cannot write no/folder/net.html"),
    ];
    for (args, wanted_code, wanted) in cases {
        let (code, _, err) = udo(&dir, &[&["view"], *args].concat());
        assert_eq!(code, Some(*wanted_code), "{args:?}: {err}");
        assert!(err.contains(wanted), "{args:?}: {err}");
    }
}

/// Runs it with `--open`, where the folder alone has programs.
fn opened(dir: &TempDir) -> (Option<i32>, String) {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["view", "net.graph", "--open"]).current_dir(dir.path()).env("PATH", dir.path());
    let output = udo.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[cfg(unix)]
fn a_page_is_opened_by_the_users_program() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder(NET);
    let (code, err) = opened(&dir);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("cannot open net.html: xdg-open does not start"), "{err}");
    assert!(err.contains("help: open it in a browser yourself"), "{err}");
    let opener = dir.path().join("xdg-open");
    for (script, wanted) in [("echo \"$1\" > opened", Some(0)), ("exit 3", Some(1))] {
        fs::write(&opener, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        let (code, err) = opened(&dir);
        assert_eq!(code, wanted, "{err}");
        assert!(code == Some(0) || err.contains("xdg-open ended with exit status: 3"), "{err}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("opened")).unwrap(), "net.html\n");
}
