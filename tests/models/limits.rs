//! Errors of `udo` on a machine that is too small for the request.

use std::{
    fs,
    process::{Command, Output},
};

use tempfile::TempDir;
use udo_test_support::proto::{bytes, int};

/// A tensor of 32-bit floats, as a graph's input or output.
fn port(name: &str, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| bytes(1, &int(1, dim))).collect();
    let tensor = [int(1, 1), bytes(2, &dims)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// A folder with `m.onnx` in it: one Relu on a tensor of this shape.
fn relu(dims: &[u64]) -> TempDir {
    let node = [bytes(1, b"x"), bytes(2, b"y"), bytes(3, b"the_relu"), bytes(4, b"Relu")].concat();
    let graph =
        [bytes(1, &node), bytes(2, b"g"), bytes(11, &port("x", dims)), bytes(12, &port("y", dims))];
    let model = [int(1, 8), bytes(7, &graph.concat()), bytes(8, &int(2, 17))];
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.onnx"), model.concat()).unwrap();
    dir
}

fn udo(dir: &TempDir, args: &[&str]) -> Output {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(args).current_dir(dir.path()).output().unwrap()
}

/// Returns the error of a command that fails with code 1.
fn fails(dir: &TempDir, args: &[&str]) -> String {
    let output = udo(dir, args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
    errors
}

#[test]
fn more_threads_than_a_machine_runs_are_refused() {
    let dir = relu(&[2, 3]);
    let most = udo_engine::thread_pool::Pool::most_threads();
    for command in ["bench", "run", "explain"] {
        assert_eq!(
            fails(&dir, &[command, "m.onnx", "--threads", "100000"]),
            format!(
                "error: cannot run on 100000 threads, expected at most {most} for one model on this machine\n\
                 help: give --threads 1 to {most}; more than the machine has processors do not make a run faster\n"
            )
        );
    }
    let output = udo(&dir, &["bench", "m.onnx", "--threads", &most.to_string(), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["allocations_per_run"], 0.0);
}

#[test]
fn a_model_that_no_machine_holds_is_refused_by_name() {
    let dir = relu(&[1 << 25, 1 << 25]);
    for command in ["bench", "run", "explain"] {
        let errors = fails(&dir, &[command, "m.onnx"]);
        let (what, help) = errors.split_once('\n').unwrap();
        assert!(what.starts_with("error: a session needs "), "{errors}");
        assert!(
            what.ends_with("; input \"x\", f32[33554432,33554432], takes 4503599627370496 of them"),
            "{errors}"
        );
        assert!(help.starts_with("help: make inputs smaller (--shape, --dim), or "), "{errors}");
    }
}

#[test]
fn max_memory_limits_the_memory_of_a_model() {
    let dir = relu(&[256]);
    // Relu overwrites its input's place only where that is not the model's input.
    assert_eq!(
        fails(&dir, &["bench", "m.onnx", "--max-memory", "2047"]),
        "error: a session needs 2048 bytes of memory, and 0 of the 2047 that max_memory allows are in use; \
         input \"x\", f32[256], takes 1024 of them\n\
         help: allow more with --max-memory, or make inputs smaller (--shape, --dim)\n"
    );
    for enough in ["2048", "2K", "1M", "1G"] {
        let output = udo(&dir, &["bench", "m.onnx", "--max-memory", enough]);
        assert_eq!(output.status.code(), Some(0), "{enough}: {output:?}");
    }
    for odd in ["", "K", "2k", "-1", "+1", "1.5M", "18446744073709551615K"] {
        let output = udo(&dir, &["bench", "m.onnx", &format!("--max-memory={odd}")]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{odd}: {errors}");
        assert!(errors.contains("expected bytes, as 500000, 64K, 512M or 4G"), "{odd}: {errors}");
    }
}
