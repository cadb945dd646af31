//! Rules for all commands, and the commands that inspect the tools themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use udo_test_support::checkout::root;
use udo_test_support::command::udo;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn versions_are_of_the_sdk_the_abi_and_the_instruction_set() {
    let dir = tempfile::tempdir().unwrap();
    let (code, short, _) = udo(&dir, &["-V"]);
    assert_eq!((code, short.as_str()), (Some(0), "udo 0.1.0\n"));
    let (code, long, _) = udo(&dir, &["--version"]);
    assert_eq!(code, Some(0));
    assert!(long.starts_with("udo 0.1.0\nSDK 0.1.0, package ABI 2.0, instruction set "), "{long}");
}

#[test]
fn a_misspelt_command_is_told_the_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, error) = udo(&dir, &["verfy"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("'verify'"), "{error}");
}

#[test]
fn errors_are_json_where_results_are() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("m.graph"),
        "graph g\n  input x: f32[1]\n  y = Rellu@14(x)\n  output y\n",
    )
    .unwrap();
    let cases: &[(&[&str], i64, &str, bool)] = &[
        (&["explain", "m.graph"], 1, "Rellu", true),
        (&["explain", "none.onnx"], 1, "none.onnx", false),
        (&["explain"], 2, "<MODEL>", false),
        (&["explain", "m.graph", "--cores", "npu"], 2, "npu", false),
    ];
    for (args, code, says, has_help) in cases {
        let (found, out, error) = udo(&dir, &[args, &["--json"][..]].concat());
        assert_eq!((found.map(i64::from), out.as_str()), (Some(*code), ""), "{args:?}: {error}");
        let said = json(&error);
        assert_eq!(said["exit_code"], *code);
        let text = said["error"].as_str().unwrap();
        assert!(text.contains(says) && !text.starts_with("error"), "{said}");
        assert!(!has_help || said["help"].is_string(), "{said}");
        let (_, _, plain) = udo(&dir, args);
        assert!(plain.starts_with("error: ") && plain.contains(says), "{plain}");
    }
    let (code, out, _) = udo(&dir, &["explain", "--help", "--json"]);
    assert!(code == Some(0) && out.contains("Usage: udo explain"), "{out}");
}

/// The doctor, where programs are those in `path` alone.
fn doctor(path: &Path, setup: impl FnOnce(&mut Command)) -> (Option<i32>, Value, String) {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["doctor", "--json"]).env("PATH", path);
    for variable in ["CARGO", "RUSTC", "CC", "MAKE"] {
        udo.env_remove(variable);
    }
    setup(&mut udo);
    let Output { status, stdout, stderr } = udo.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), json(&text(stdout)), text(stderr))
}

#[test]
fn the_doctor_lists_present_and_missing_tools() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cargo", "rustc", "cc"] {
        let program = dir.path().join(name);
        fs::write(&program, format!("#!/bin/sh\necho {name} 9.9\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let found = |said: &Value, name: &str| {
        let all = said["findings"].as_array().unwrap();
        all.iter().find(|of| of["name"] == name).unwrap().clone()
    };
    let target = dir.path().join("target");
    let (code, said, error) = doctor(dir.path(), |udo| {
        udo.env("UDO_TARGET_DIR", &target);
    });
    assert_eq!((code, &said["passed"]), (Some(0), &true.into()), "{said} {error}");
    assert_eq!(found(&said, "cargo")["found"], "cargo 9.9");
    assert_eq!(found(&said, "target folder")["found"], target.to_str().unwrap());
    let make = found(&said, "make");
    assert!(make["found"].is_null() && make["help"].is_string(), "{make}");
    let none = dir.path().join("none");
    let (code, said, error) = doctor(&none, |udo| {
        udo.env("UDO_TARGET_DIR", "/proc/none").env("UDO_ROOT", &none);
    });
    assert_eq!((code, &said["passed"]), (Some(1), &false.into()), "{said}");
    assert_eq!(json(&error)["error"], "not there: SDK, cargo, rustc, target folder");
    assert!(found(&said, "cargo")["why"].as_str().unwrap().contains("cannot run cargo"), "{said}");
    assert!(found(&said, "SDK")["help"].as_str().unwrap().contains("UDO_ROOT"), "{said}");
}

/// Where the SDK is of a program that is copied: what lies around it, and of one by itself where it came from, which is said.
#[test]
fn a_copied_program_uses_the_sdk_that_it_lies_in() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let sdk = |name: &str| {
        let folder = root.join(name);
        fs::create_dir_all(folder.join("udo-api")).unwrap();
        fs::write(folder.join("udo-api/Cargo.toml"), "").unwrap();
        folder
    };
    let copied = |folder: &str| {
        fs::create_dir_all(root.join(folder)).unwrap();
        let program = root.join(folder).join("udo");
        fs::copy(env!("CARGO_BIN_EXE_udo"), &program).unwrap();
        program
    };
    let found = |program: &Path, variables: &[(&str, &Path)]| {
        let mut udo = Command::new(program);
        for variable in ["UDO_ROOT", "SNPE_UDO_ROOT", "UDO_TARGET_DIR"] {
            udo.env_remove(variable);
        }
        udo.args(["doctor", "--json"]).envs(variables.iter().copied()).current_dir(&root);
        let said = json(std::str::from_utf8(&udo.output().unwrap().stdout).unwrap());
        ["SDK", "target folder"].map(|name| {
            let all = said["findings"].as_array().unwrap();
            let of = all.iter().find(|of| of["name"] == name).unwrap();
            of["found"].as_str().unwrap_or_default().to_owned()
        })
    };
    let (second, third, vendors) = (sdk("second"), sdk("third"), root.join("vendor"));
    let at = |folder: &Path| {
        [folder.to_str().unwrap().to_owned(), format!("{}/target/packages", folder.display())]
    };
    for place in ["second/bin", "second/target/release", "second/target/debug"] {
        assert_eq!(found(&copied(place), &[]), at(&second), "{place}");
    }
    let program = copied("second/bin");
    assert_eq!(found(&program, &[("UDO_ROOT", third.as_path())]), at(&third));
    assert_eq!(found(&program, &[("SNPE_UDO_ROOT", third.as_path())]), at(&third));
    // A vendor's SDK has no packages of ours.
    assert_eq!(found(&program, &[("SNPE_UDO_ROOT", vendors.as_path())]), at(&second));
    let both = [("SNPE_UDO_ROOT", second.as_path()), ("UDO_ROOT", third.as_path())];
    assert_eq!(found(&program, &both), at(&third));
    let [by_itself, target] = found(&copied("alone"), &[]);
    assert!(
        by_itself.ends_with(", which this udo was built from: udo is not inside an SDK"),
        "{by_itself}"
    );
    assert_eq!(target, "./target", "it writes nowhere but into the package");
}

#[test]
fn every_shell_has_completions_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, error) = udo(&dir, &["completions", shell]);
        assert_eq!(code, Some(0), "{error}");
        for word in ["quantize", "doctor", "hta-partitions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (code, _, error) = udo(&dir, &["completions", "tcl"]);
    assert!(code == Some(2) && error.contains("bash"), "{error}");
}

#[test]
fn a_packages_own_tests_say_whether_its_kernels_are_right() {
    let test = |args: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.arg("test").args(args).current_dir(root().join("examples/selu")).output().unwrap()
    };
    let done = test(&["SeluUdoPackage", "--cores", "cpu"]);
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{out}{}", String::from_utf8_lossy(&done.stderr));
    assert!(out.contains("test result: ok. 1 passed"), "{out}");
    let done = test(&["SeluUdoPackage", "--cores", "gpu"]);
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && error.contains("has no gpu library"), "{error}");
    let done = test(&["model"]);
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && error.contains("no package made by"), "{error}");
}

#[test]
fn cargo_run_is_the_command_and_not_its_worker() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let own = packages.find(|package| package["name"] == "udo-cli").unwrap();
    let programs = own["targets"].as_array().unwrap().iter().filter(|of| of["kind"][0] == "bin");
    assert_eq!(programs.count(), 2, "with one program there is nothing to choose");
    assert_eq!(own["default_run"], "udo");
}

#[test]
fn repeated_flags_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let graph = "graph g\n  input x: f32[n,2]\n  y = Relu@14(x)\n  output y\n";
    fs::write(dir.path().join("m.graph"), graph).unwrap();
    fs::write(dir.path().join("x.raw"), [0; 16]).unwrap();
    let run = ["run", "m.graph", "--input", "x=x.raw"];
    for (flags, name) in [
        (
            &["--input", "x=x.raw"][..],
            "--input gives \"x\" twice\nhelp: leave one of the two --input x=.. out",
        ),
        (&["--shape", "x=1,2", "--shape", "x=2,2"], "--shape gives \"x\" twice"),
        (&["--dim", "n=1", "--dim", "n=2"], "--dim gives \"n\" twice"),
    ] {
        let (code, out, error) = udo(&dir, &[&run[..], flags].concat());
        assert_eq!((code, out.as_str()), (Some(1), ""), "{flags:?}: {error}");
        assert!(error.contains(name), "{flags:?}: {error}");
    }
    let (code, _, error) = udo(&dir, &[&run[..], &["--shape", "x=2,2"]].concat());
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn placement_is_reported_for_models_without_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let graph = "graph g
  input x: f32[2]
  constant c: f32[2]{1.0, 2.0}
  y = Neg@13(c)
  z = Identity@14(x)
  output y, z
";
    fs::write(dir.path().join("m.graph"), graph).unwrap();
    let (code, _, error) = udo(&dir, &["verify", "m.graph", "--random", "1", "--against", "cpu"]);
    assert_eq!(code, Some(0), "{error}");
    for line in error
        .lines()
        .filter(|line| line.starts_with("note: ran ") || line.starts_with("note: reference ran "))
    {
        assert!(line.ends_with(" on cpu") || line.contains("no nodes: all are"), "{line}");
    }
    assert!(error.contains("note: ran ") && error.contains("note: reference ran "), "{error}");
}

#[test]
fn a_model_of_open_shapes_is_prepared_for_the_shape_that_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let graph = "graph g
  input x: f32[n,3,4,4]
  constant s: f32[]{0.03125}
  constant z: u8[]{128}
  constant w: i8[2,3,1,1]{50, -20, 30, 70, -60, 10}
  constant ws: f32[]{0.015625}
  constant wz: i8[]{0}
  xq = QuantizeLinear@13(x, s, z)
  xr = DequantizeLinear@13(xq, s, z)
  wr = DequantizeLinear@13(w, ws, wz)
  h = Conv@11(xr, wr)
  hq = QuantizeLinear@13(h, s, z)
  y = DequantizeLinear@13(hq, s, z)
  output y
";
    fs::write(dir.path().join("m.graph"), graph).unwrap();
    assert_eq!(udo(&dir, &["convert", "m.graph"]).0, Some(0));
    let prepare = ["prepare", "m.udm", "--hta", "-o", "h.udm"];
    let (code, _, error) = udo(&dir, &prepare);
    assert!(
        code == Some(1) && error.contains("\nhelp: pass one as in --shape x=1,3,4,4"),
        "{error}"
    );
    let (code, _, error) = udo(&dir, &[&prepare[..], &["--shape", "y=1,3,4,4"]].concat());
    assert!(code == Some(1) && error.contains("\"y\""), "{error}");
    let (code, out, error) = udo(&dir, &[&prepare[..], &["--shape", "x=1,3,4,4"]].concat());
    assert_eq!(code, Some(0), "{out}{error}");
    let (_, out, _) = udo(&dir, &["model", "info", "h.udm"]);
    assert!(out.contains("x: f32[1,3,4,4]"), "{out}");
}
