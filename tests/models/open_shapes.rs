//! The commands on a model that leaves shapes open: they take them from the data, and say so.

use std::{fs, path::Path};

use tempfile::TempDir;
use udo_api::Shape;
use udo_graph::npy;
use udo_runtime::Tensor;
use udo_test_support::command::udo;
use udo_test_support::proto::{bytes, int};

const MODEL: &str = "graph open
  input x: f32[batch,2]
  input s: f32[batch,?]
  y = Mul@14(x, s)
  output y
";

fn elements(dims: &[u64]) -> Vec<f32> {
    (0u8..).take(usize::try_from(dims.iter().product::<u64>()).unwrap()).map(f32::from).collect()
}

/// A file with a tensor that counts from 0, times `factor`.
fn write_pb(path: &Path, dims: &[u64], factor: f32) {
    let elements: Vec<u8> =
        elements(dims).iter().flat_map(|x| (x * factor).to_le_bytes()).collect();
    let dims = dims.iter().flat_map(|&dim| int(1, dim));
    let message: Vec<u8> = dims.chain(int(2, 1)).chain(bytes(9, &elements)).collect();
    fs::write(path, message).unwrap();
}

fn write_npy(path: &Path, dims: &[u64]) {
    let extents: Vec<usize> = dims.iter().map(|&dim| usize::try_from(dim).unwrap()).collect();
    let tensor = Tensor::from_slice(Shape::new(&extents).unwrap(), &elements(dims)).unwrap();
    fs::write(path, npy::write(&tensor).unwrap()).unwrap();
}

/// A folder with the model, and two sets of data of different shapes.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.txt"), MODEL).unwrap();
    for (set, batch) in [1, 3].into_iter().enumerate() {
        let set = dir.path().join(format!("test_data_set_{set}"));
        fs::create_dir(&set).unwrap();
        write_pb(&set.join("input_0.pb"), &[batch, 2], 1.0);
        write_pb(&set.join("input_1.pb"), &[batch, 1], 0.0);
        write_pb(&set.join("output_0.pb"), &[batch, 2], 0.0);
        write_npy(&dir.path().join(format!("x{batch}.npy")), &[batch, 2]);
        write_npy(&dir.path().join(format!("s{batch}.npy")), &[batch, 1]);
    }
    dir
}

#[test]
fn bench_runs_the_sets_in_turn() {
    let args = ["bench", "m.txt", "--data", ".", "--iterations", "6", "--json"];
    let (code, out, errors) = udo(&folder(), &args);
    assert_eq!(code, Some(0), "{errors}");
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&said["sets"], &said["iterations"]), (&2.into(), &6.into()));
    assert_eq!(said["replans"], 0, "each has run before");
    assert_eq!(said["allocations_per_run"], 0.0);
    assert_eq!(said["devices"][0]["device"], "cpu:0");
    assert!(said["devices"][0]["current_bytes"].as_u64() > Some(0), "{out}");
    assert!(said["first_result_ms"].as_f64() >= said["load_ms"].as_f64(), "{out}");
    assert_eq!(errors.matches("note: compiled for input shapes").count(), 2, "{errors}");

    let (code, _, errors) = udo(&folder(), &["bench", "m.txt", "--data", "none"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("error: cannot read folder none: "), "{errors}");
    let (code, _, errors) = udo(&folder(), &["bench", "m.txt", "--data", ".", "--seed", "3"]);
    assert_eq!(code, Some(2), "data has no seed: {errors}");
    let (code, _, errors) = udo(&folder(), &["bench", "m.txt"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("open shape"), "{errors}");
}

#[test]
fn verify_takes_the_shapes_of_each_set() {
    let (code, out, errors) = udo(&folder(), &["verify", "m.txt", "--data", "."]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(out.matches("y: ok").count(), 2, "{out}");
    assert_eq!(
        errors,
        "note: each new shape of input \"x\", f32[batch,2], input \"s\", f32[batch,?] is planned at its first run\n\
         note: compiled for input shapes x f32[1,2], s f32[1,1]\n\
         note: compiled for input shapes x f32[3,2], s f32[3,1]\n\
         note: ran 1 node on cpu\n"
    );
}

#[test]
fn run_takes_the_shapes_of_each_line() {
    let dir = folder();
    let lines = ["x:=x3.npy s:=s3.npy", "x:=x1.npy s:=s1.npy", "x:=x3.npy s:=s3.npy"];
    fs::write(dir.path().join("list.txt"), lines.join("\n")).unwrap();
    let (code, out, errors) = udo(&dir, &["run", "m.txt", "--input-list", "list.txt", "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let outputs: Vec<_> =
        report["runs"].as_array().unwrap().iter().map(|run| &run["outputs"][0]).collect();
    let shapes: Vec<String> = outputs.iter().map(|y| y["shape"].to_string()).collect();
    assert_eq!(shapes, ["[3,2]", "[1,2]", "[3,2]"]);
    // 0, 1 times 0; 2, 3 times 1; 4, 5 times 2.
    assert_eq!(outputs[2]["max"], 10.0);
    assert_eq!(errors.matches("note: compiled for input shapes").count(), 2, "{errors}");
}

#[test]
fn shapes_that_do_not_agree_are_refused_by_name() {
    let dir = folder();
    let (code, _, errors) =
        udo(&dir, &["run", "m.txt", "--input", "x=x3.npy", "--input", "s=s1.npy"]);
    assert_eq!(code, Some(1));
    let unequal = "error: dimension \"batch\" is 3 in input \"x\" and 1 in input \"s\", expected one extent\n";
    assert!(errors.ends_with(unequal), "{errors}");
    fs::write(dir.path().join("x.raw"), [0; 8]).unwrap();
    let (code, _, errors) = udo(&dir, &["run", "m.txt", "--input", "x=x.raw"]);
    assert_eq!(code, Some(2));
    let raw = "error: tensor x.raw has elements alone, and an open shape\n\
               help: give its shape with --shape, or name it .npy or .pb\n";
    assert!(errors.ends_with(raw), "{errors}");
}

#[test]
fn commands_without_data_say_which_shape_they_need() {
    let dir = folder();
    for command in ["bench", "explain"] {
        let (code, _, errors) = udo(&dir, &[command, "m.txt"]);
        assert_eq!(code, Some(1));
        assert_eq!(
            errors,
            "error: graph input \"x\" has the open shape batch,2, expected a shape for it\n\
             help: pass one as in --shape x=1,2, or the input itself\n"
        );
        let (_, _, errors) = udo(&dir, &[command, "m.txt", "--shape", "x=4,2"]);
        assert!(errors.starts_with("error: graph input \"s\" has the open shape 4,?,"), "{errors}");
        let (code, _, errors) =
            udo(&dir, &[command, "m.txt", "--dim", "batch=4", "--shape", "s=4,2"]);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_range_is_planned_once_for_all_data_in_it() {
    let dir = folder();
    fs::write(dir.path().join("m.txt"), MODEL.replace("batch,?", "batch,1")).unwrap();
    let verify = |range: &str| udo(&dir, &["verify", "m.txt", "--data", ".", "--dim", range]);
    let (code, _, errors) = verify("batch=1..4");
    assert_eq!((code, errors.as_str()), (Some(0), "note: ran 1 node on cpu\n"));
    let (code, _, errors) =
        udo(&dir, &["bench", "m.txt", "--dim", "batch=1..4", "--iterations", "3"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let (code, _, errors) = verify("batch=1..2");
    assert_eq!(code, Some(1));
    assert_eq!(errors, "error: dimension \"batch\" is 3, expected 1 to 2\n");
    let (code, _, errors) = verify("batch=2..x");
    assert_eq!(code, Some(2));
    assert!(errors.contains("expected NAME=SIZE, or NAME=LEAST..MOST"), "{errors}");
}

#[test]
fn recorded_sets_may_be_files_of_numpy() {
    let dir = folder();
    let set = dir.path().join("test_data_set_1");
    let verify = |wanted: Option<i32>| {
        let (code, out, errors) = udo(&dir, &["verify", "m.txt", "--data", "test_data_set_1"]);
        assert_eq!(code, wanted, "{out} {errors}");
        errors
    };
    verify(Some(0));
    for (name, dims) in [("input_0", [3, 2]), ("input_1", [3, 1]), ("output_0", [3, 2])] {
        fs::remove_file(set.join(format!("{name}.pb"))).unwrap();
        let missing = verify(Some(1));
        let wanted =
            format!("error: folder test_data_set_1 has neither {name}.pb nor {name}.npy\n");
        assert!(missing.contains(&wanted), "{missing}");
        write_npy(&set.join(format!("{name}.npy")), &dims);
    }
    // Rows of x times 0, 1 and 2: all but the first are off.
    let (code, out, _) = udo(&dir, &["verify", "m.txt", "--data", "test_data_set_1"]);
    assert_eq!((code, out.contains("y: differs")), (Some(1), true), "{out}");
    let y = [0.0f32, 0.0, 2.0, 3.0, 8.0, 10.0];
    let tensor = Tensor::from_slice(Shape::new(&[3, 2]).unwrap(), &y).unwrap();
    fs::write(set.join("output_0.npy"), npy::write(&tensor).unwrap()).unwrap();
    verify(Some(0));
    let (code, _, errors) =
        udo(&dir, &["bench", "m.txt", "--data", "test_data_set_1", "--iterations", "2"]);
    assert_eq!(code, Some(0), "{errors}");
    let args = ["quantize", "m.txt", "--calibration", "test_data_set_1", "--shape", "x=3,2"];
    let (code, out, errors) =
        udo(&dir, &[&args[..], &["--shape", "s=3,1", "-o", "q.udm"]].concat());
    assert_eq!(code, Some(0), "{out} {errors}");
    assert!(out.contains("ranges of 1 run"), "{out}");
}
