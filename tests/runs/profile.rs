//! The traces that `--profile` writes, and lists of inputs.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;
use udo_api::Shape;
use udo_graph::npy;
use udo_runtime::Tensor;
use udo_test_support::command::udo;

/// Products that are large enough for two threads, and a normalization between them.
const MODEL: &str = "graph chain
  input x: f32[n,64]
  h = MatMul@13(x, x) # first
  s = Softmax@13(h) # softmax
  y = MatMul@13(s, x) # second
  output h
  output y
";

/// How many lines the list of a folder has; one thread of two would have to be late in all of them to be missed.
const LINES: usize = 50;

fn write_npy(path: &Path, rows: usize) {
    let elements: Vec<f32> = (0u8..=255).cycle().take(rows * 64).map(f32::from).collect();
    let tensor = Tensor::from_slice(Shape::new(&[rows, 64]).unwrap(), &elements).unwrap();
    fs::write(path, npy::write(&tensor).unwrap()).unwrap();
}

/// A folder with the model, a tensor of 64 rows, and a list that runs it so often.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.graph"), MODEL).unwrap();
    write_npy(&dir.path().join("x.npy"), 64);
    fs::write(
        dir.path().join("list.txt"),
        "#y\nx:=x.npy\n".to_owned() + &"x.npy\n".repeat(LINES - 1),
    )
    .unwrap();
    dir
}

/// The spans of a trace, after a look at whether they are well formed and those of a thread do not overlap.
fn spans(path: &Path) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(trace["otherData"]["lost_spans"], 0);
    let events = trace["traceEvents"].as_array().unwrap().clone();
    let (named, spans): (Vec<_>, Vec<_>) = events.into_iter().partition(|e| e["ph"] == "M");
    assert_eq!(named[0]["name"], "process_name");
    let threads: BTreeMap<u64, &Value> =
        named[1..].iter().map(|e| (e["tid"].as_u64().unwrap(), &e["args"]["name"])).collect();
    let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
    for span in &spans {
        let thread = span["tid"].as_u64().unwrap();
        assert!(span["ph"] == "X" && threads.contains_key(&thread), "{span}");
        let (start, time) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
        let end = ends.entry(thread).or_default();
        // Microseconds of nanoseconds.
        assert!(start >= *end - 0.002 && time >= 0.0, "{span} begins before {end}");
        *end = start + time;
    }
    spans
}

fn of_thread(spans: &[Value], thread: u64) -> Vec<&Value> {
    spans.iter().filter(|span| span["tid"] == thread).collect()
}

#[test]
fn profiles_have_a_span_for_each_step() {
    let dir = folder();
    let (code, _, errors) =
        udo(&dir, &["run", "m.graph", "--input", "x=x.npy", "--profile", "trace.json"]);
    assert_eq!(code, Some(0), "{errors}");
    let spans = spans(&dir.path().join("trace.json"));
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "prepare", "MatMul", "Softmax", "MatMul"]);
    let first = &spans[2]["args"];
    assert_eq!(
        (&first["node"], &first["op"], &first["core"]),
        (&"first".into(), &"MatMul".into(), &"cpu".into())
    );
    assert_eq!(first["inputs"][0], "f32[64,64]");
    assert_eq!(first["bytes"], 3 * 64 * 64 * 4);
    assert_eq!(first["heap_calls"], 0);
    let parts: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!parts.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{parts:?}");
}

#[test]
fn a_profile_of_two_threads_shows_the_worker() {
    let dir = folder();
    let args = ["run", "m.graph", "--threads", "2", "--input-list", "list.txt", "--profile"];
    let (code, _, errors) = udo(&dir, &[&args[..], &["trace.json"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    let spans = spans(&dir.path().join("trace.json"));
    let own = of_thread(&spans, 0);
    assert_eq!(own.len(), 2 + 3 * LINES, "load, prepare, and the steps of each line");
    let runs = own.iter().filter(|span| span["name"] == "Softmax").map(|s| &s["args"]["run"]);
    assert!(runs.eq((0..LINES).map(Value::from).collect::<Vec<_>>().iter()));
    let worker = of_thread(&spans, 1);
    assert!(!worker.is_empty(), "no step ran on two threads");
    for span in worker {
        let args = &span["args"];
        let step = own
            .iter()
            .find(|own| own["args"]["run"] == args["run"] && own["args"]["node"] == args["node"]);
        let step = step.unwrap();
        let time = |span: &Value| {
            let start = span["ts"].as_f64().unwrap();
            (start, start + span["dur"].as_f64().unwrap())
        };
        let ((from, to), (begin, end)) = (time(step), time(span));
        assert!(from <= begin + 0.002 && end <= to + 0.002, "{span} is not within {step}");
        assert!(
            args["busy_us"].as_f64().unwrap() <= span["dur"].as_f64().unwrap() + 0.002,
            "{span}"
        );
    }
}

#[test]
fn bench_writes_a_profile_of_one_more_run() {
    let dir = folder();
    let args =
        ["bench", "m.graph", "--dim", "n=64", "--iterations", "2", "--profile", "trace.json"];
    let (code, _, errors) = udo(&dir, &args);
    assert_eq!(code, Some(0), "{errors}");
    let spans = spans(&dir.path().join("trace.json"));
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load", "MatMul", "Softmax", "MatMul"]);
}

#[test]
fn a_run_that_fails_leaves_the_profile_that_was_there() {
    let dir = folder();
    fs::write(dir.path().join("trace.json"), "as it was").unwrap();
    fs::write(dir.path().join("list.txt"), "x.npy\nnone.npy\n").unwrap();
    let args = ["run", "m.graph", "--input-list", "list.txt", "--profile", "trace.json"];
    let (code, _, errors) = udo(&dir, &args);
    assert_eq!(code, Some(1));
    let wanted = "error: list.txt:2: cannot read tensor none.npy: ";
    assert!(errors.contains(wanted), "{errors}");
    assert_eq!(fs::read_to_string(dir.path().join("trace.json")).unwrap(), "as it was");

    let args = ["run", "m.graph", "--input", "x=x.npy", "--profile", "none/trace.json"];
    let (code, out, errors) = udo(&dir, &args);
    assert_eq!((code, out.as_str()), (Some(1), ""), "nothing runs");
    assert!(errors.contains("error: cannot write profile none/trace.json: "), "{errors}");
    assert!(errors.contains("help: name a file in a folder that is there"), "{errors}");
}

#[test]
fn a_list_writes_the_outputs_that_it_names_for_each_line() {
    let dir = folder();
    write_npy(&dir.path().join("x2.npy"), 64);
    fs::write(dir.path().join("list.txt"), "#y\nx:=x.npy\n# a remark\nx:=x2.npy\n").unwrap();
    let args = ["run", "m.graph", "--input-list", "list.txt", "--output-dir", "out"];
    let (code, out, errors) = udo(&dir, &args);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{errors}");
    for result in ["Result_0", "Result_1"] {
        let folder = fs::read_dir(dir.path().join("out").join(result)).unwrap();
        let files: Vec<_> = folder.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(files, ["y.npy"]);
    }
}

#[test]
fn a_list_that_is_wrong_says_in_which_line() {
    let cases = [
        ("#w\nx.npy\n", "list.txt:1: the model has no output \"w\", it has \"h\", \"y\""),
        ("x.npy\n\nx.npy x.npy\n", "list.txt:3: 2 files, expected 1 for x"),
        ("x:=x.npy z:=x.npy\n", "list.txt:1: the model has no input \"z\", it has \"x\""),
        ("x:=x.txt\n", "list.txt:1: tensor file x.txt has no known ending"),
        (
            "x.npy\nx:=short.raw\n",
            "list.txt:2: tensor short.raw has elements alone, and an open shape",
        ),
        ("# nothing\n", "input list list.txt has no line with files"),
    ];
    for (text, wanted) in cases {
        let dir = folder();
        for file in ["list.txt", "x.txt", "short.raw"] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        let (code, _, errors) = udo(&dir, &["run", "m.graph", "--input-list", "list.txt"]);
        assert_ne!(code, Some(0));
        assert!(errors.contains(&format!("error: {wanted}")), "{errors}");
    }
}
