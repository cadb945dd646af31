//! A package from its first line to another machine: `udo init`, what is out of step, and an SDK that moves.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::checkout::{cargo, packages_target, root};

/// The exit code, standard output and standard error of a command.
type CommandOutput = (Option<i32>, String, String);

fn command_output(output: &Output) -> CommandOutput {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A `udo` in a folder, which is that of the checkout or another.
fn command(program: &Path, dir: &Path, args: &[&str]) -> Command {
    let mut udo = Command::new(program);
    udo.args(args).current_dir(dir).env_remove("UDO_ROOT");
    udo.env("UDO_TARGET_DIR", packages_target());
    udo
}

fn udo(dir: &TempDir, args: &[&str]) -> CommandOutput {
    let program = Path::new(env!("CARGO_BIN_EXE_udo"));
    command_output(&command(program, dir.path(), args).output().unwrap())
}

/// The same, with these answers on standard input.
fn answering(dir: &TempDir, args: &[&str], answers: &str) -> CommandOutput {
    let program = Path::new(env!("CARGO_BIN_EXE_udo"));
    let mut udo = command(program, dir.path(), args);
    let pipes = udo.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
    command_output(&child.wait_with_output().unwrap())
}

fn read(dir: &TempDir, path: &str) -> String {
    fs::read_to_string(dir.path().join(path)).unwrap()
}

fn replace(dir: &TempDir, path: &str, from: &str, to: &str) {
    let text = read(dir, path);
    assert!(text.contains(from), "{path}: {text}");
    fs::write(dir.path().join(path), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn flags_and_answers_make_the_same_config() {
    let (flags, lines) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = [
        "init",
        "PickPack",
        "--op",
        "Pick",
        "--input",
        "x",
        "--input",
        "at:INT_32",
        "--output",
        "y",
        "--cores",
        "cpu,dsp:v69",
        "--types",
        "cpu=FLOAT_16",
    ];
    let (code, out, err) = udo(&flags, &args);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "PickPack.json\n\nNext:\n  udo new PickPack.json\n");
    let answers = "PickPack\nPick\nx, at:INT_32\n\nCPU,dsp:V69\ncpu=FLOAT_16\n";
    let (code, _, err) = answering(&lines, &["init"], answers);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(read(&flags, "PickPack.json"), read(&lines, "PickPack.json"));

    let config: Value = serde_json::from_str(&read(&flags, "PickPack.json")).unwrap();
    let op = &config["UdoPackage_0"]["Operators"][0];
    let types = serde_json::json!({"CPU": "FLOAT_16", "DSP": "UINT_8"});
    assert_eq!(op["inputs"][0]["per_core_data_types"], types);
    assert_eq!(op["inputs"][0]["quantization_mode"], "TF");
    assert_eq!(op["inputs"][1], serde_json::json!({"name": "at", "data_type": "INT_32"}));
    assert_eq!(op["dsp_arch_types"], serde_json::json!(["v69"]));
    let (code, out, err) = udo(&flags, &["new", "PickPack.json"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("created   DSP_V69/src/ops/pick.rs"), "{out}");
}

#[test]
fn unanswered_questions_use_defaults_or_name_their_flag() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = answering(&dir, &["init", "Usual", "--op", "Twice", "-o", "u.json"], "");
    assert_eq!(code, Some(0), "{err}");
    let config: Value = serde_json::from_str(&read(&dir, "u.json")).unwrap();
    let op = &config["UdoPackage_0"]["Operators"][0];
    let port = |name| serde_json::json!([{"name": name, "data_type": "FLOAT_32"}]);
    assert_eq!((&op["inputs"], &op["outputs"]), (&port("x"), &port("y")));

    let kept = read(&dir, "u.json");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["init", "Usual", "--op", "Other", "-o", "u.json"],
            1,
            "error: u.json exists already\nhelp: ",
        ),
        (&["init", "Usual"], 2, "error: no operator type given"),
        (&["init", "Usual", "--op", "A", "--cores", "npu"], 2, "no core is called npu"),
        (
            &["init", "Usual", "--op", "A", "--types", "gpu=FLOAT_16,cpu=FLOAT_32"],
            2,
            "is for no core",
        ),
        (&["init", "../P", "--op", "A", "-o", "p.json"], 1, "name holds a path"),
        (&["init", "P", "--op", "A", "--types", "FLOAT_13", "-o", "p.json"], 1, "FLOAT_13"),
        (&["init", "P", "--op", "A", "-o", "none/p.json"], 1, "cannot write none/p.json: "),
    ];
    for (args, code, wanted) in cases {
        let (found, out, err) = answering(&dir, args, "");
        assert_eq!((found, out.as_str()), (Some(*code), ""), "{args:?}: {err}");
        assert!(err.contains(wanted) && err.contains("help: "), "{args:?}: {err}");
    }
    assert_eq!(read(&dir, "u.json"), kept);
    assert!(!dir.path().join("p.json").exists());
}

/// A package that is built for the checkout's SDK, as much of it as these tests need.
fn built(package: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = udo(&dir, &["init", package, "--op", "Twice"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = udo(&dir, &["new", &format!("{package}.json")]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = build(&dir, package, &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!err.contains("warning"), "{err}");
    dir
}

fn build(dir: &TempDir, package: &str, flags: &[&str]) -> CommandOutput {
    udo(dir, &[&["build", package, "--cores", "reg", "--debug"], flags].concat())
}

#[test]
fn outdated_files_are_named_and_can_be_accepted() {
    let dir = built("StepPack");
    let (code, _, err) = build(&dir, "StepPack", &["--locked"]);
    assert_eq!((code, err.contains("agree")), (Some(0), false), "{err}");

    // The config has another parameter, and somebody was at a generated file.
    replace(
        &dir,
        "StepPack/config/StepPack.json",
        "\"core_types\"",
        "\"scalar_params\": [{\"name\": \"k\", \"data_type\": \"INT_32\"}],\n                \"core_types\"",
    );
    let manifest = read(&dir, "StepPack/CPU/Cargo.toml");
    let edited = format!("# mine\n{manifest}libm = \"0.2\"\n");
    fs::write(dir.path().join("StepPack/CPU/Cargo.toml"), &edited).unwrap();
    let own = "StepPack/CPU/src/ops/twice.rs";
    let body = read(&dir, own) + "// My kernel.\n";
    fs::write(dir.path().join(own), &body).unwrap();
    let expected = "StepPack is out of date with its config or this SDK's templates:\n  \
        CPU/Cargo.toml: edited by hand\n  \
        CPU/src/lib.rs: out of date\n  \
        CPU/src/ops/twice.rs: written for another config\n  \
        README.md: out of date\n  \
        common/params/twice.rs: missing\n  \
        reg/src/ops/twice.rs: written for another config\n  \
        reg/src/schema/twice.rs: out of date\n\
        help: `udo new StepPack` makes generated files anew";
    let (code, out, err) = build(&dir, "StepPack", &["--locked"]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.starts_with(&format!("error: {expected}")), "{err}");
    replace(&dir, "StepPack/CPU/Cargo.toml", "libm = \"0.2\"\n", "");
    let (code, out, err) = build(&dir, "StepPack", &["--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.starts_with(&format!("warning: {expected}")), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["stale"].as_array().unwrap().len(), 7, "{report}");

    // The package again, from the configs that it keeps: what is the author's stays.
    fs::write(dir.path().join("StepPack/CPU/Cargo.toml"), &edited).unwrap();
    let (code, out, err) = udo(&dir, &["new", "StepPack", "--accept"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("accepted  CPU/src/ops/twice.rs"), "{out}");
    assert!(out.contains("edited    CPU/Cargo.toml"), "{out}");
    let now = read(&dir, "StepPack/CPU/Cargo.toml");
    assert!(now.ends_with("libm = \"0.2\"\n") && !now.contains("# mine"), "{now}");
    assert_eq!(read(&dir, "StepPack/CPU/Cargo.toml.edited"), edited);
    let stamp = |text: &str| text.lines().nth(1).unwrap().to_owned();
    let accepted = read(&dir, own);
    assert_ne!(stamp(&accepted), stamp(&body));
    assert_eq!(accepted.replacen(&stamp(&accepted), &stamp(&body), 1), body);
    let (_, out, _) = udo(&dir, &["new", "StepPack", "--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    for list in ["created", "refreshed", "drifted", "orphaned", "accepted"] {
        assert_eq!(report["packages"][0][list], serde_json::json!([]), "{list}: {report}");
    }
}

#[test]
fn a_package_without_its_config_or_its_lock_file_is_out_of_step() {
    let dir = built("LessPack");
    fs::remove_file(dir.path().join("LessPack/Cargo.lock")).unwrap();
    let (code, _, err) = build(&dir, "LessPack", &["--locked"]);
    assert!(code == Some(3) && err.contains("\n  Cargo.lock: missing\n"), "{err}");
    assert!(!dir.path().join("LessPack/Cargo.lock").exists());
    fs::write(dir.path().join("LessPack/config/LessPack.json"), "{").unwrap();
    let (code, _, err) = build(&dir, "LessPack", &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("\n  config/: cannot be read: error: "), "{err}");
    fs::remove_file(dir.path().join("LessPack/config/LessPack.json")).unwrap();
    let (code, _, err) = build(&dir, "LessPack", &["--locked"]);
    assert!(code == Some(3) && err.contains("\n  config/LessPack.json: missing\n"), "{err}");
    let (code, _, err) = udo(&dir, &["new", "LessPack"]);
    assert!(code == Some(1) && err.contains("config/LessPack.json is not there\nhelp: "), "{err}");

    fs::create_dir(dir.path().join("other")).unwrap();
    let (code, _, err) = udo(&dir, &["new", "other"]);
    assert!(code == Some(1) && err.contains("other holds no package made by"), "{err}");
    let (code, _, err) = udo(&dir, &["new", "LessPack", "LessPack.json"]);
    assert!(code == Some(2) && err.contains("LessPack is a folder"), "{err}");
}

#[test]
fn places_that_wait_for_code_are_looked_for_where_there_are_some() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(udo(&dir, &["init", "OpenPack", "--op", "Twice", "--cores", "cpu,gpu"]).0, Some(0));
    let next = |out: &str| out.split("\nNext:\n").nth(1).map(str::to_owned);
    let (_, out, _) = udo(&dir, &["new", "OpenPack.json"]);
    let (search, build) = (
        "  grep -rn 'Add code here' OpenPack    finds the places for your code",
        "  udo build OpenPack\n",
    );
    let lines = next(&out).unwrap();
    assert!(lines.starts_with(search) && lines.ends_with(build), "{out}");

    let mut config: Value = serde_json::from_str(&read(&dir, "OpenPack.json")).unwrap();
    let op = &mut config["UdoPackage_0"]["Operators"][0];
    assert!(op.is_object(), "{config}");
    op["reference"] = "y = 2 * x".into();
    let config = config.to_string().replace("OpenPack", "FullPack");
    fs::write(dir.path().join("FullPack.json"), config).unwrap();
    let (code, out, err) = udo(&dir, &["new", "FullPack.json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(next(&out).as_deref(), Some("  udo build FullPack\n"), "{out}");
    // An author's file from before waits on.
    let file = "FullPack/CPU/src/ops/twice.rs";
    fs::write(dir.path().join(file), "// Add code here.\n").unwrap();
    let (_, out, _) = udo(&dir, &["new", "FullPack"]);
    assert!(out.contains("'Add code here' FullPack"), "{out}");
}

/// Whether this machine has an OpenCL device.
fn has_device(dir: &TempDir) -> bool {
    let (_, found, _) = udo(dir, &["doctor", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    let findings = found["findings"].as_array().unwrap();
    findings.iter().any(|of| of["name"] == "OpenCL" && of["found"].is_string())
}

/// A compiler that complains of what is spelt `wrong`, if it is told whose lines they are.
const CLANG: &str = "#!/bin/sh
test \"$1\" = --version && exit 0
text=$(cat)
case $text in
*'#line 1 \"GPU/kernels/twice.cl\"'*wrong*) echo \"GPU/kernels/twice.cl:9:5: error: wrong is not declared\" >&2; exit 1 ;;
esac
";

#[test]
fn open_cl_that_does_not_compile_is_warned_of_by_its_line() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let clang = dir.path().join("clang");
    fs::write(&clang, CLANG).unwrap();
    fs::set_permissions(&clang, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["init", "LinePack", "--op", "Twice", "--cores", "gpu"];
    assert_eq!(udo(&dir, &args).0, Some(0));
    assert_eq!(udo(&dir, &["new", "LinePack.json"]).0, Some(0));
    let program = Path::new(env!("CARGO_BIN_EXE_udo"));
    let build = |on_a_device: bool| {
        let args = ["build", "LinePack", "--cores", "gpu", "--debug"];
        let mut udo = command(program, dir.path(), &args);
        if !on_a_device {
            udo.env("UDO_OPENCL", "off").env("CLANG", &clang);
        }
        let (code, _, err) = command_output(&udo.output().unwrap());
        assert_eq!(code, Some(0), "{err}");
        err
    };
    let err = build(false);
    assert!(err.contains("note: GPU/kernels/twice.cl is not written yet"), "{err}");

    let file = "LinePack/GPU/kernels/twice.cl";
    let unwritten =
        "#error \"Twice is not implemented yet: add code below and remove this line\"\n";
    replace(&dir, file, unwritten, "");
    replace(&dir, file, "// Add code here.", "wrong(y, i);");
    let warned =
        "warning: GPU/kernels/twice.cl does not compile, so devices refuse the operator:\n";
    let err = build(false);
    let wanted = format!("{warned}GPU/kernels/twice.cl:9:5: error: wrong is not declared\nhelp: ");
    assert!(err.contains(&wanted), "{err}");
    // A device says it in its own words, where there is one.
    if has_device(&dir) {
        let err = build(true);
        assert!(err.contains(warned) && err.contains("twice.cl:"), "{err}");
    }
    replace(&dir, file, "wrong(y, i);", "UDO_STORE(y, i, 2.0f * UDO_LOAD(x, i));");
    for on_a_device in [false, true] {
        let err = build(on_a_device);
        assert!(!err.contains("does not compile"), "{err}");
    }
}

/// A package as `udo new` printed it before kernels of several cores had formulas, parameters and OpenCL C in common: its files, each
/// behind a line with its path.
const EARLIER: &str = include_str!("../fixtures/earlier/package.txt");

/// Its files that are its author's.
const EARLIER_OWN: [&str; 6] = [
    "CPU/src/ops/two_taps.rs",
    "GPU/kernels/two_taps.cl",
    "GPU/src/ops/two_taps.rs",
    "common/Cargo.toml",
    "common/src/lib.rs",
    "reg/src/ops/two_taps.rs",
];

/// That package, with lines of an author in the files that are theirs, and a model.
fn earlier_package() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("EarlierPack");
    for file in EARLIER.split("=== ").skip(1) {
        let (path, text) = file.split_once('\n').unwrap();
        let path = package.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let value = "const float value = (t2 * t4) + (t6 * t8);";
    let edited = "// Mine.\n    const float value = t6 * t8 + t2 * t4;";
    replace(&dir, "EarlierPack/GPU/kernels/two_taps.cl", value, edited);
    for file in ["CPU/src/ops/two_taps.rs", "reg/src/ops/two_taps.rs", "common/src/lib.rs"] {
        let text = fs::read_to_string(package.join(file)).unwrap();
        fs::write(package.join(file), text + "\n// Mine.\n").unwrap();
    }
    let net = "graph net\n  input x: f32[2,3]\n  y = EarlierPack:TwoTaps@1(x) # own\n  output y\n";
    fs::write(dir.path().join("net.graph"), net).unwrap();
    let x = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    fs::write(dir.path().join("x.raw"), x.map(f32::to_le_bytes).concat()).unwrap();
    dir
}

/// Half of an element, and twice the one before it, which is 0.25 at the edge.
const TWO_TAPS: &str =
    "max 13.000000 mean 5.916667 [1.000000, 3.000000, 5.500000, 2.500000, 10.500000, ..]";

/// Builds it and runs the model on both cores; what the build said.
fn builds_and_runs(dir: &TempDir, flags: &[&str]) -> String {
    let build = [&["build", "EarlierPack", "--debug"], flags].concat();
    let (code, _, progress) = udo(dir, &build);
    assert_eq!(code, Some(0), "{progress}");
    assert!(!progress.contains("does not compile"), "{progress}");
    for cores in ["cpu", "gpu,cpu"] {
        let run = ["run", "net.graph", "--package", "EarlierPack", "--input", "x=x.raw"];
        let (_, out, err) = udo(dir, &[&run[..], &["--cores", cores]].concat());
        assert!(out.contains(TWO_TAPS), "{cores}: {out}{err}");
    }
    progress
}

#[test]
fn packages_of_earlier_versions_build_run_and_keep_their_authors_files() {
    let dir = earlier_package();
    let package = dir.path().join("EarlierPack");
    let own = || EARLIER_OWN.map(|file| fs::read_to_string(package.join(file)).unwrap());
    let before = own();
    let progress = builds_and_runs(&dir, &[]);
    for stale in ["CPU/src/params/two_taps.rs: moved", "common/reference.cl: missing"] {
        assert!(progress.contains(stale), "{progress}");
    }
    let check = ["check", "EarlierPack", "--level", "1", "--allow-unchecked"];
    let (code, out, _) = udo(&dir, &check);
    assert_eq!(code, Some(0), "{out}");

    let (code, said, _) = udo(&dir, &["new", "EarlierPack"]);
    assert_eq!((code, own()), (Some(0), before));
    let moved = "moved     GPU/src/params/two_taps.rs: now common/params/two_taps.rs";
    assert!(said.contains(moved), "{said}");
    for odd in ["drifted", "orphaned", "edited", "formulas"] {
        assert!(!said.contains(odd), "{odd}: {said}");
    }
    assert!(!package.join("CPU/src/params").exists());
    let progress = builds_and_runs(&dir, &["--locked"]);
    assert!(!progress.contains("warning"), "{progress}");
    files_that_are_printed_anew_fit_the_others(&dir);
}

/// Some of the author's files are moved away, and printed again as they are today.
fn files_that_are_printed_anew_fit_the_others(dir: &TempDir) {
    let package = dir.path().join("EarlierPack");
    let [rust, opencl] = ["GPU/src/ops/two_taps.rs", "GPU/kernels/two_taps.cl"];
    let holds =
        |file: &str, word: &str| fs::read_to_string(package.join(file)).unwrap().contains(word);
    // Whether OpenCL C then holds what it uses, and whether Rust joins the two.
    for (gone, opencl_holds, rust_joins) in [
        (&[opencl][..], true, false),
        (&[rust], true, false),
        (&[rust, opencl], false, true),
        (&[opencl], false, true),
    ] {
        for file in gone {
            fs::remove_file(package.join(file)).unwrap();
        }
        assert_eq!(udo(dir, &["new", "EarlierPack"]).0, Some(0));
        assert_eq!(holds(opencl, "} List;"), opencl_holds, "{gone:?}");
        assert_eq!(holds(rust, "common/reference.cl"), rust_joins, "{gone:?}");
        builds_and_runs(dir, &["--locked"]);
    }
    assert!(package.join("common/formulas/two_taps.rs").exists());
    if has_device(dir) {
        errors_of_a_device_name_the_line_of_the_kernels_file(dir);
    }
}

fn errors_of_a_device_name_the_line_of_the_kernels_file(dir: &TempDir) {
    let file = "EarlierPack/GPU/kernels/two_taps.cl";
    replace(dir, file, "= UDO_LOAD(x, t3)", "= missing + UDO_LOAD(x, t3)");
    let source = read(dir, file);
    let line = source.lines().position(|line| line.contains("missing")).unwrap() + 1;
    let place = format!("GPU/kernels/two_taps.cl:{line}:");
    let (_, _, progress) = udo(dir, &["build", "EarlierPack", "--debug"]);
    assert!(progress.contains(&place), "{progress}");
    // And as a model's runs compile it, out of the library.
    let run = ["run", "net.graph", "--package", "EarlierPack", "--input", "x=x.raw"];
    let (_, out, err) = udo(dir, &[&run[..], &["--cores", "gpu"]].concat());
    assert!((out + &err).contains(&place), "{err}");
}

/// The files below a folder, with what they hold.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found
}

#[test]
fn an_sdk_and_its_packages_move_between_machines() {
    let dir = tempfile::tempdir().unwrap();
    let here = fs::canonicalize(dir.path()).unwrap();
    let (sdk, moved) = (here.join("sdk"), here.join("moved"));
    let programs = Path::new(env!("CARGO_BIN_EXE_udo")).parent().unwrap();
    let dist = || {
        let mut dist = Command::new(root().join("dist"));
        command_output(&dist.arg("--programs").arg(programs).arg(&sdk).output().unwrap())
    };
    let (code, out, err) = dist();
    assert_eq!((code, out), (Some(0), format!("{}\n", sdk.display())), "{err}");
    for program in ["udo", "udo-worker"] {
        let [own, built] = [&sdk.join("bin"), programs]
            .map(|folder| fs::metadata(folder.join(program)).unwrap().len());
        assert!(own > 0 && own < built, "{program} has {own} bytes of {built}: line tables stay");
    }
    let (code, _, err) = dist();
    assert!(code == Some(1) && err.contains("exists already\nhelp: "), "{err}");

    let at = |sdk: &Path, args: &[&str]| command(&sdk.join("bin/udo"), &here, args);
    let works = |mut command: Command| {
        let (code, out, err) = command_output(&command.output().unwrap());
        assert_eq!(code, Some(0), "{command:?}\n{out}{err}");
        err
    };
    works(at(&sdk, &["init", "MovePack", "--op", "Twice"]));
    works(at(&sdk, &["new", "MovePack.json"]));
    let package = here.join("MovePack");
    let machine = package.join(".cargo/config.toml");
    let names = |text: &[u8], place: &Path| {
        let place = place.to_str().unwrap().as_bytes();
        text.windows(place.len()).any(|part| part == place)
    };
    for (file, text) in files(&package) {
        assert!(!names(&text, &root()), "{} names the checkout", file.display());
        assert_eq!(names(&text, &here), file == machine, "{} names the SDK", file.display());
    }
    let ignored = fs::read_to_string(package.join(".gitignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "/.cargo/config.toml"), "{ignored}");
    let build = ["build", "MovePack", "--cores", "reg", "--debug"];
    works(at(&sdk, &build));

    fs::rename(&sdk, &moved).unwrap();
    let output = at(&moved, &build).env("UDO_ROOT", &sdk).output().unwrap();
    let wanted = format!(
        "error: UDO_ROOT is {}, where udo-api was not found\n\
         help: set UDO_ROOT to the folder of the SDK that holds udo-api, or run the udo in it\n",
        sdk.display()
    );
    assert_eq!(command_output(&output), (Some(1), String::new(), wanted));
    // That of the checkout is told where it went; the one that moved knows.
    for told in [true, false] {
        fs::write(&machine, fs::read_to_string(&machine).unwrap().replace("moved", "sdk")).unwrap();
        let checkout = Path::new(env!("CARGO_BIN_EXE_udo"));
        let mut udo = if told { command(checkout, &here, &build) } else { at(&moved, &build) };
        if told {
            udo.env("UDO_ROOT", &moved);
        }
        let err = works(udo);
        assert!(!err.contains("warning"), "{err}");
        assert!(names(&fs::read(&machine).unwrap(), &moved));
    }
    // Cargo by itself finds it as well.
    let output = cargo("build", &package).args(["--locked", "-p", "move_pack_reg"]).output();
    let (code, _, err) = command_output(&output.unwrap());
    assert_eq!(code, Some(0), "{err}");
}
