//! Runs that the command line submits, and the devices that it lists.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;
use udo_api::Shape;
use udo_graph::npy;
use udo_runtime::Tensor;
use udo_test_support::command::udo;

const MODEL: &str = "graph two
  input x: f32[n,4]
  h = Softmax@13(x) axis=-1
  y = Add@14(h, x)
  output h
  output y
";

const RUNS: usize = 12;

/// A folder with the model, and a list of runs over tensors of different shapes.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    let mut list = "#y h\n".to_owned();
    for run in 0..RUNS {
        let rows = 1 + run % 3;
        let elements: Vec<f32> = (0u8..).skip(run).take(4 * rows).map(f32::from).collect();
        let tensor = Tensor::from_slice(Shape::new(&[rows, 4]).unwrap(), &elements).unwrap();
        fs::write(dir.path().join(format!("x{run}.npy")), npy::write(&tensor).unwrap()).unwrap();
        writeln!(list, "x:=x{run}.npy").unwrap();
    }
    fs::write(dir.path().join("list.txt"), list).unwrap();
    dir
}

/// All files below a folder and what is in them.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = (0..RUNS)
        .flat_map(|run| ["h.npy", "y.npy"].map(|name| format!("Result_{run}/{name}")))
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn concurrent_runs_match_sequential_runs_in_list_order() {
    let dir = folder();
    let run = |more: &[&str], out: &str| {
        let list = ["run", "m.graph", "--input-list", "list.txt", "--json", "--output-dir", out];
        let (code, said, error) = udo(&dir, &[&list[..], more].concat());
        assert_eq!(code, Some(0), "{error}");
        let mut said: Value = serde_json::from_str(&said).unwrap();
        for run in said["runs"].as_array_mut().unwrap() {
            for output in run["outputs"].as_array_mut().unwrap() {
                output["file"] = Value::Null;
            }
        }
        said["runs"].take()
    };
    let in_turn = run(&[], "turn");
    for (out, more) in
        [("free", &["--async", "3"][..]), ("streams", &["--async", "3", "--streams", "2"])]
    {
        assert_eq!(run(more, out), in_turn);
        assert_eq!(files(&dir.path().join(out)), files(&dir.path().join("turn")));
    }
}

#[test]
fn a_run_in_flight_that_fails_says_its_line() {
    let dir = folder();
    let list = fs::read_to_string(dir.path().join("list.txt")).unwrap();
    let wrong = Tensor::from_slice(Shape::new(&[4]).unwrap(), &[1.0f32; 4]).unwrap();
    fs::write(dir.path().join("wrong.npy"), npy::write(&wrong).unwrap()).unwrap();
    fs::write(dir.path().join("list.txt"), list.replace("x:=x4.npy", "x:=wrong.npy")).unwrap();
    let (code, said, error) =
        udo(&dir, &["run", "m.graph", "--input-list", "list.txt", "--async", "3"]);
    assert_eq!((code, said.lines().count()), (Some(1), 8), "four runs had two outputs: {error}");
    assert!(error.contains("list.txt:6"), "{error}");
    assert!(error.contains("expected f32[n,4]"), "{error}");
}

#[test]
fn flags_of_runs_in_flight_that_make_no_sense_are_wrong_usage() {
    let dir = folder();
    let cases: &[&[&str]] = &[
        &["run", "m.graph", "--input", "x=x0.npy", "--async", "0"],
        &["run", "m.graph", "--input", "x=x0.npy", "--streams", "2"],
        &["run", "m.graph", "--input", "x=x0.npy", "--async", "2", "--profile", "t.json"],
        &["run", "m.graph", "--input", "x=x0.npy", "--trace", "t.json"],
        &["bench", "m.graph", "--trace", "t.json"],
        &["bench", "m.graph", "--in-flight", "0"],
        &["bench", "m.graph", "--streams", "2"],
    ];
    for case in cases {
        assert_eq!(udo(&dir, case).0, Some(2), "{case:?}");
    }
}

#[test]
fn bench_says_how_many_runs_end_in_a_second() {
    let dir = folder();
    let flags = ["bench", "m.graph", "--shape", "x=2,4", "--iterations", "40", "--json"];
    let (code, said, error) =
        udo(&dir, &[&flags[..], &["--in-flight", "2", "--streams", "2"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["in_flight"], &said["streams"]), (&2.into(), &2.into()));
    assert!(said["runs_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(said["devices"][0]["device"], "cpu:0");
    assert!(said["devices"][0]["current_bytes"].as_u64() > Some(0), "{said}");
    let latency = &said["latency_us"];
    assert!(latency["p99"].as_f64().unwrap() >= latency["median"].as_f64().unwrap());
}

/// How often each kind of event is in a trace, by category and phase.
fn events(path: &Path) -> BTreeMap<(String, String), usize> {
    let trace: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut counts = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        let of = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        assert!(event["ph"] == "M" || event["args"]["run"].is_u64(), "{event}");
        *counts.entry((of("cat"), of("ph"))).or_default() += 1;
    }
    counts
}

#[test]
fn a_trace_has_when_each_run_waited_and_which_device_was_at_it() {
    let dir = folder();
    let count = |counts: &BTreeMap<_, usize>, cat: &str, ph: &str| {
        counts.get(&(cat.to_owned(), ph.to_owned())).copied().unwrap_or_default()
    };
    let list =
        ["run", "m.graph", "--input-list", "list.txt", "--async", "3", "--trace", "run.json"];
    let (code, _, error) = udo(&dir, &list);
    assert_eq!(code, Some(0), "{error}");
    let counts = events(&dir.path().join("run.json"));
    // Each run takes inputs, has one part, gives outputs and ends.
    assert_eq!(count(&counts, "run", "X"), 4 * RUNS);
    assert_eq!([count(&counts, "wait", "b"), count(&counts, "wait", "e")], [RUNS; 2]);

    let bench = ["bench", "m.graph", "--shape", "x=2,4", "--iterations", "5", "--warmup", "3"];
    let flags = ["--in-flight", "2", "--trace", "bench.json"];
    let (code, _, error) = udo(&dir, &[&bench[..], &flags[..]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(count(&events(&dir.path().join("bench.json")), "wait", "b"), 8);

    let (code, _, error) = udo(&dir, &[&list[..7], &["no/such/t.json"]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(error.starts_with("error: cannot write trace no/such/t.json: "), "{error}");
}

#[test]
fn devices_are_listed_with_their_capabilities() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said, error) = udo(&dir, &["doctor", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let devices = said["devices"].as_array().unwrap();
    let names: Vec<_> = devices.iter().map(|of| of["device"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu:0", "gpu:0", "dsp:0", "hta:0"]);
    assert!(devices.iter().all(|of| of["memory_bytes"].as_u64().unwrap() > 0));
    let host = std::thread::available_parallelism().map_or(1, |count| count.get().min(64));
    let cores: Vec<_> = devices.iter().map(|of| of["cores"].as_u64().unwrap()).collect();
    assert_eq!(cores, [u64::try_from(host).unwrap(), 1, 1, 1]);
    let (_, text, _) = udo(&dir, &["doctor"]);
    assert!(text.contains("dsp:0") && text.contains("emulated dsp:v68"), "{text}");
}

/// A network of which a part runs on the DSP, whose memory the host sees through a cache.
#[test]
fn b17_memory_that_is_not_coherent_changes_no_number() {
    let text = "graph quantized
  input x: f32[1,8]
  constant s: f32[]{0.0625}
  constant z: u8[]{128}
  q = QuantizeLinear@17(x, s, z)
  a = DequantizeLinear@17(q, s, z)
  b = Sigmoid@13(a)
  c = QuantizeLinear@17(b, s, z)
  d = DequantizeLinear@17(c, s, z)
  y = Softmax@13(d) axis=-1
  output y
";
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("q.graph"), text).unwrap();
    let elements: Vec<f32> = (0u8..8).map(|n| f32::from(n) - 3.0).collect();
    let tensor = Tensor::from_slice(Shape::new(&[1, 8]).unwrap(), &elements).unwrap();
    fs::write(dir.path().join("x.npy"), npy::write(&tensor).unwrap()).unwrap();
    let run = |memory: &str| {
        let of = ["run", "q.graph", "--cores", "dsp,cpu", "--memory", memory];
        let of = [&of[..], &["--input", "x=x.npy", "--output-dir", "out"]].concat();
        let (code, said, error) = udo(&dir, &of);
        assert_eq!(code, Some(0), "{said}{error}");
        fs::read(dir.path().join("out/y.npy")).unwrap()
    };
    let right = run("coherent");
    assert_eq!([run("noncoherent"), run("noncoherent:7")], [right.clone(), right]);
    let args = ["run", "q.graph", "--cores", "dsp,cpu", "--input", "x=x.npy"];
    let (_, said, _) = udo(&dir, &[&args[..], &["--json"]].concat());
    let said: Value = serde_json::from_str(&said).unwrap();
    let devices = said["devices"].as_array().unwrap();
    let names: Vec<_> = devices.iter().map(|of| of["device"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu:0", "dsp:0"], "nothing is taken of others");
    for device in devices {
        let bytes = |of: &Value, key: &str| of[key].as_u64().unwrap();
        let owners = device["owners"].as_array().unwrap();
        let of_owners: u64 = owners.iter().map(|of| bytes(of, "current_bytes")).sum();
        assert_eq!(of_owners, bytes(device, "current_bytes"), "{device}");
        assert!(of_owners > 0 && bytes(device, "peak_bytes") >= of_owners, "{device}");
        assert!(owners.iter().any(|of| of["owner"] == "workspace"), "{device}");
    }
    let (_, _, notes) = udo(&dir, &args);
    let [cpu, dsp] = [0, 1].map(|at| devices[at]["current_bytes"].as_u64().unwrap());
    assert!(notes.contains(&format!("note: device memory: cpu:0 {cpu} bytes (")), "{notes}");
    assert!(notes.contains(&format!("; dsp:0 {dsp} bytes (")), "{notes}");
    let explain = |memory: &str| {
        let (_, said, _) =
            udo(&dir, &["explain", "q.graph", "--cores", "dsp,cpu", "--memory", memory]);
        ["Flush", "Invalidate"].map(|op| said.contains(op))
    };
    assert_eq!((explain("coherent"), explain("noncoherent")), ([false; 2], [true; 2]));
    let (code, _, error) = udo(&dir, &["run", "q.graph", "--memory", "noncoherent:x"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("expected coherent, noncoherent or noncoherent:SEED"), "{error}");
}
