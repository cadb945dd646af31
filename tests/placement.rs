//! Which core runs what, from the command line; docs/placement.md keeps its promises.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

#[path = "support/command.rs"]
mod command;
#[path = "support/page.rs"]
mod page;

use command::udo;

const PAGE: &str = include_str!("../docs/placement.md");

#[test]
fn commands_do_what_the_page_says() {
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
fn subnets_have_names_in_what_machines_read() {
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
fn what_cannot_be_placed_as_asked_is_said_before_anything_runs() {
    let dir = folder();
    let run = ["run", "m.graph", "--input", "x=x.raw"];
    fs::write(dir.path().join("costs.json"), "{\"cores\": {}}").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--affinity", "Conv=gpu"], 1, "no node has that name or operator"),
        (&["--affinity", "9=gpu"], 1, "no node has such an id"),
        (&["--affinity", "first"], 2, "wanted NODES=CORE"),
        (&["--affinity", "first=npu"], 2, "wanted cpu"),
        (&["--cores", "auto:"], 2, "wanted cpu"),
        (&["--cores", "auto:gpu,cpu", "--costs", "none.json"], 2, "cannot read none.json"),
        (&["--cores", "auto:gpu,cpu", "--costs", "costs.json"], 2, "missing field `crossings`"),
    ];
    for (flags, wanted, says) in cases {
        let (code, out, error) = udo(&dir, &[&run[..], flags].concat());
        assert_eq!((code, out.as_str()), (Some(*wanted), ""), "{flags:?}: {error}");
        assert!(error.contains(says), "{flags:?}: {error}");
    }
}
