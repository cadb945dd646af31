//! `udo check` as its guide says, and what it does with packages that end, hang or are refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use udo_test_support::checkout::root;
use udo_test_support::fixture::placed;
use udo_test_support::guide;
use udo_test_support::page::follow_in;

const GUIDE: &str = include_str!("../../docs/check.md");

/// The package in C of the examples, with one text replaced.
fn clip(find: &str, put: &str) -> TempDir {
    clip_with(&[(find, put)])
}

fn clip_with(edits: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let example = root().join("examples/c-package");
    for file in ["Makefile", "manifest.json.in", "clip_scale.c"] {
        let mut text = fs::read_to_string(example.join(file)).unwrap();
        for (find, put) in edits.iter().filter(|_| file == "clip_scale.c") {
            assert!(text.contains(find), "{find}");
            text = text.replacen(find, put, 1);
        }
        fs::write(dir.path().join(file), text).unwrap();
    }
    let include = format!("INCLUDE={}", root().join("udo-api/include").display());
    let made = Command::new("make").args(["-s", &include, "-C"]).arg(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir
}

fn check(package: &Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_udo")).arg("check").arg(package).args(flags).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        Value::String(format!("{error}: {said}"))
    })
}

fn verdict(report: &Value, case: &str) -> (String, String) {
    let all = report["cases"].as_array().unwrap();
    let own = all.iter().find(|own| own["case"] == case).unwrap();
    (own["verdict"].as_str().unwrap().to_owned(), own["why"].as_str().unwrap().to_owned())
}

#[test]
fn pasted_blocks_of_the_guide_run() {
    let dir = tempfile::tempdir().unwrap();
    follow_in(GUIDE, dir.path(), |sh| {
        sh.env("SDK", root());
    });
    assert!(guide::blocks(GUIDE).iter().any(|block| block.follows && block.language == "text"));
}

#[test]
fn a_package_that_exits_fails_the_case_and_not_the_check() {
    let package =
        clip("float v = x[i];", "if (args->tensors[0].len == 7) exit(0);\n        float v = x[i];");
    let output = check(package.path(), &["--level", "1", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    let (verdict_, why) = verdict(&report, "shapes/runs");
    assert_eq!(verdict_, "crashed");
    assert!(why.contains("exit status: 0"), "{why}");
    assert_eq!(verdict(&report, "contract/kernels").0, "passed");
}

#[test]
fn a_package_that_hangs_is_ended() {
    let package =
        clip("float v = x[i];", "while (args->tensors[0].len == 7) {}\n        float v = x[i];");
    let flags = ["--level", "1", "--json", "--timeout", "1", "--filter", "shapes/runs"];
    let report = json(&check(package.path(), &flags));
    assert_eq!(verdict(&report, "shapes/runs").0, "timed out");
    assert_eq!(report["summary"]["timed_out"], 1);
}

#[test]
fn a_package_that_always_hangs_is_not_waited_for_in_every_case() {
    let package =
        clip("float v = x[i];", "while (args->tensors[0].len) {}\n        float v = x[i];");
    let report = json(&check(package.path(), &["--level", "1", "--json", "--timeout", "1"]));
    assert_eq!(report["summary"]["timed_out"], 3);
    let (verdict, why) = verdict(&report, "numbers/random");
    assert_eq!((&*verdict, &*why), ("skipped", "not run: 3 earlier cases exceeded the time limit"));
}

#[test]
fn a_package_that_hangs_while_it_is_opened_is_ended() {
    let vtable = "static const udo_kernel_vtable vtable = {";
    let hang = "__attribute__((constructor)) static void hang(void) { for (;;) {} }\n";
    let package = clip(vtable, &[hang, vtable].concat());
    let output = check(package.path(), &["--op", "ClipScale", "--timeout", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wanted = "cannot open the package: not done after 1 s";
    assert!(said.contains(wanted), "{said}");
}

/// A program that a package starts holds no check up, and does not outlive it.
#[test]
fn processes_started_by_a_package_end_with_its_worker() {
    let sleep = "static int is_started; extern int fork(void);
        extern int execlp(const char *, const char *, ...);
        if (!is_started++ && fork() == 0) execlp(\"sleep\", \"sleep\", \"86413\", (char *)0);
        float v = x[i];";
    let package = clip("float v = x[i];", sleep);
    let flags = ["--level", "1", "--json", "--filter", "shapes/runs"];
    assert_eq!(verdict(&json(&check(package.path(), &flags)), "shapes/runs").0, "passed");
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|of| fs::read_to_string(of.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| line.starts_with("sleep\086413")).count(), 0);
}

#[test]
fn where_no_node_is_known_nothing_passes() {
    let refuses = "return fail(args->node.errors, \"never\");";
    let package = clip("args->outputs[0] = args->node.inputs[0];", refuses);
    for filter in ["memory", "shapes", "behaviour", "numbers", "contract/finalize"] {
        let output = check(package.path(), &["--level", "1", "--filter", filter]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{filter}: {said}");
        assert!(said.contains("no case ran, so nothing was shown"), "{filter}: {said}");
    }
}

#[test]
fn outputs_that_nodes_may_leave_out_are_tried_as_well() {
    let package = |at: &str| {
        let one = "{.name = UDO_TEXT(\"y\"), .types = UDO_SET(UDO_F32)}";
        let two = ", {.name = UDO_TEXT(\"z\"), .types = UDO_SET(UDO_F32), .flags = UDO_OPTIONAL}";
        let store = "y[i] = node->scale * v;";
        clip_with(&[
            (one, &[one, two].concat()),
            (
                "args->outputs[0] = args->node.inputs[0];",
                "for (uint32_t i = 0; i < args->node.output_count; i++) args->outputs[i] = args->node.inputs[0];",
            ),
            (
                store,
                &format!(
                    "{store} if (args->output_count > 1) ((float *)args->tensors[2].data)[{at}] = v;"
                ),
            ),
        ])
    };
    let tried = |at: &str, filter: &str| {
        let flags = ["--level", "1", "--json", "--filter", filter];
        verdict(&json(&check(package(at).path(), &flags)), filter).0
    };
    assert_eq!(tried("i", "contract/offers"), "passed");
    assert_eq!(tried("i", "memory/written"), "passed");
    assert_eq!(tried("i / 2 * 2", "memory/written"), "failed");
}

#[test]
fn other_packages_may_be_open_beside() {
    let package = clip("", "");
    let other = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(package.path().join(name)).unwrap();
    for name in ["Makefile", "manifest.json.in", "clip_scale.c"] {
        let text = file(name).replace("ClipScale", "Beside");
        // Where the one package takes what the other one means, results are others.
        fs::write(other.path().join(name), text.replace("node->scale * v", "7 * v")).unwrap();
    }
    let include = format!("INCLUDE={}", root().join("udo-api/include").display());
    let made =
        Command::new("make").args(["-s", &include, "-C"]).arg(other.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let beside = other.path().to_str().unwrap();
    let flags = ["--level", "1", "--json", "--beside", beside];
    let report = json(&check(package.path(), &flags));
    assert!(report["summary"]["passed"].as_u64() > Some(15), "{report}");
    assert_eq!((&report["summary"]["failed"], &report["beside"][0]), (&0.into(), &beside.into()));
    let twin = clip("node->scale * v", "7 * v");
    let twin = twin.path().to_str().unwrap();
    let output = check(package.path(), &["--level", "1", "--json", "--beside", twin]);
    assert_eq!(output.status.code(), Some(1));
    let error = json(&output).to_string();
    assert!(error.contains("ClipScale"), "{error}");
    // A replay has them open as well.
    let package = clip("i < args->tensors[0].len", "i <= args->tensors[0].len");
    let flags = ["--level", "1", "--filter", "memory/guards", "--beside", beside];
    let output = check(package.path(), &flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let replay = text.lines().find_map(|line| line.trim().strip_prefix("replay: udo "));
    let words: Vec<&str> = replay.unwrap_or_else(|| panic!("{text}")).split(' ').collect();
    assert_eq!(words[2..], ["--beside", beside], "{text}");
    let again = Command::new(env!("CARGO_BIN_EXE_udo")).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(text.contains("crashed memory/guards"), "{text}");
}

#[test]
fn failures_of_models_are_reduced_to_few_nodes_and_replayed() {
    // Parts of other tensors need not lie at multiples of 64 bytes, and tensors of calls do.
    let package = clip("float v = x[i];", "float v = (size_t)x % 64 ? -x[i] : x[i];");
    let flags = ["--level", "10", "--json", "--op", "ClipScale"];
    let report = json(&check(package.path(), &flags));
    let all = report["cases"].as_array().unwrap();
    let bad: Vec<&Value> = all.iter().filter(|case| case["verdict"] == "failed").collect();
    let [bad] = bad[..] else { panic!("{bad:#?}") };
    assert_eq!(bad["case"], "graphs/neighbours");
    let why = bad["why"].as_str().unwrap();
    let (_, model) = why.split_once("; the model is ").unwrap();
    let graph = fs::read_to_string(model).unwrap();
    let nodes = graph.lines().filter(|line| line.contains('#')).count();
    assert!(nodes <= 5 && why.contains(&format!("left with {nodes} of ")), "{why}\n{graph}");
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["run", model, "--package"]).arg(package.path());
    for line in graph.lines().filter_map(|line| line.trim().strip_prefix("input ")) {
        let (name, _) = line.split_once(':').unwrap();
        let file = model.replace(".graph", &format!(".{name}.npy"));
        udo.args(["--input", &format!("{name}={file}")]);
    }
    let output = udo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_fault_names_the_tensor() {
    let package = clip("i < args->tensors[0].len", "i <= args->tensors[0].len");
    let report =
        json(&check(package.path(), &["--level", "1", "--json", "--filter", "memory/guards"]));
    let (verdict, why) = verdict(&report, "memory/guards");
    assert_eq!(verdict, "crashed");
    assert!(why.starts_with("touches byte 0 behind input 0"), "{why}");
}

#[test]
fn a_packages_words_do_not_reach_the_terminal_raw() {
    let said = "parameter \\\"low\\\" is above \\\"high\\\"";
    let package = clip(said, "\\033[31mred\\a\\n\\ttab");
    let model = package.path().join("m.graph");
    let graph =
        "graph g\n  input x: f32[1]\n  y = ClipScale:ClipScale@1(x) low=2.0 high=1.0\n  output y\n";
    fs::write(&model, graph).unwrap();
    for flags in [&[][..], &["--json"]] {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.arg("run").arg(&model).arg("--package").arg(package.path()).args(flags);
        let output = udo.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let escaped = "\\u{1b}[31mred\\u{7}";
        let wanted =
            if flags.is_empty() { escaped.to_owned() } else { escaped.replace('\\', "\\\\") };
        assert!(error.contains(&wanted), "{error}");
        assert!(!error.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{error:?}");
    }
}

#[test]
fn calls_in_which_the_process_ends_are_captured_and_end_it_again() {
    let package = clip("i < args->tensors[0].len", "i <= args->tensors[0].len");
    let calls = package.path().join("calls");
    let flags = ["--level", "1", "--json", "--filter", "memory/guards", "--captures"];
    let report = json(&check(package.path(), &[&flags[..], &[calls.to_str().unwrap()]].concat()));
    let capture = report["cases"][0]["capture"].as_str().unwrap();
    assert_eq!(Path::new(capture), calls.join("ClipScale-cpu-memory-guards.capture"));
    let replay = |flags: &[&str]| {
        let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
        udo.arg("replay").arg(capture).args(flags).output().unwrap()
    };
    let output = replay(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["verdict"], "crashed");
    assert!(report["why"].as_str().unwrap().starts_with("touches byte 0 behind input 0"));
    assert_eq!(report["was"], report["why"]);
    let good = clip("float v = x[i];", "float v = x[i];");
    let output = replay(&["--package", good.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = replay(&["--core", "gpu"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the package has no kernel of ClipScale on gpu"), "{said}");
}

/// The package's operator in a model.
const CLIP: &str = "ClipScale@1(h) low=-1.0 high=1.0";

/// A model with `node` before the package's operator, run on -1, 1, 1, 2, with what goes wrong in `calls`.
fn run_model(node: &str, op: &str, package: &[&str], calls: &Path) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let graph = format!(
        "graph net\n  input x: f32[4]\n  h = {node}(x) # first\n  \
         c = {op} # second\n  y = Relu@14(c) # last\n  output y\n"
    );
    fs::write(dir.path().join("net.graph"), graph).unwrap();
    let x: Vec<u8> = [-1f32, 1.0, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(dir.path().join("x.raw"), x).unwrap();
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    udo.args(["run", "net.graph", "--input", "x=x.raw", "--capture"]).arg(calls).args(package);
    udo.current_dir(dir.path()).output().unwrap()
}

#[test]
fn runs_capture_failures() {
    const STORE: &str = "y[i] = node->scale * v;";
    let good = clip(STORE, STORE);
    let fails = clip(STORE, "y[i] = v; if (v > 0.5f) return UDO_BAD_VALUE;");
    let ends = clip(STORE, "y[i] = v; if (v > 0.5f) abort();");
    let [good, fails, ends] = [&good, &fails, &ends].map(|dir| dir.path().to_str().unwrap());
    let cases: [(&str, [&str; 2], &str, i32); 3] = [
        ("Exp@13", ["--package", fails], "ClipScale-cpu-run-status.capture", 1),
        ("Exp@13", ["--contain", ends], "ClipScale-cpu-run-crash.capture", 1),
        ("Log@13", ["--package", good], "Log-cpu-run-nan.capture", 0),
    ];
    let calls = tempfile::tempdir().unwrap();
    for (node, package, file, code) in cases {
        let output = run_model(node, CLIP, &package, calls.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{file}: {said}");
        assert!(
            said.contains("captured the call of node ") && said.contains(": udo replay "),
            "{file}: {said}"
        );
        let capture = calls.path().join(file);
        let replay = |flags: &[&str]| {
            let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
            udo.arg("replay").arg(&capture).args(flags).output().unwrap().status.code()
        };
        assert_eq!(replay(&[]), Some(1), "{file}");
        if file.starts_with("Clip") {
            assert_eq!(replay(&["--package", good]), Some(0), "{file}");
        }
    }
    // What goes well leaves nothing.
    let none = calls.path().join("none");
    let output = run_model("Exp@13", CLIP, &["--package", good], &none);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!none.exists());
}

#[test]
fn a_call_that_seldom_uses_the_heap_is_captured_and_does_it_again() {
    const OP: &str = "Hungry@1(h) how=\"rare\"";
    let package = placed("hungry", "hungry_package", "HungryPackage");
    let package = ["--package", package.path().to_str().unwrap()];
    let calls = tempfile::tempdir().unwrap();
    let output = run_model("Sigmoid@13", OP, &package, calls.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(calls.path()).unwrap().count(), 0, "the branch was not taken");

    let output = run_model("Exp@13", OP, &package, calls.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wanted = "used the heap in execute: 2 times, the first for 21 bytes";
    assert!(said.contains(wanted), "{said}");
    let capture = calls.path().join("Hungry-cpu-run-heap.capture");
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let output = udo.arg("replay").arg(&capture).arg("--json").output().unwrap();
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let of = ["op", "core", "case", "verdict"].map(|key| report[key].as_str().unwrap());
    assert_eq!(of, ["Hungry", "cpu", "run/heap", "failed"]);
    for key in ["was", "why"] {
        assert!(report[key].as_str().unwrap().ends_with(wanted), "{report}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_a_missing_package_with_1() {
    let package = clip("float v = x[i];", "float v = x[i];");
    let none = "nothing to check: no operator Nothing; the package has ClipScale on cpu";
    let no_core = "nothing to check: no operator for gpu; the package has ClipScale on cpu";
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--op", "Nothing"], 2, none),
        (&["--op", "ClipScale", "--op", "Nothing"], 2, none),
        (&["--core", "cpu,gpu"], 2, no_core),
        (&["--filter", "no/such"], 2, "no case of level 3 has \"no/such\" in its name"),
        (&["--level", "11"], 2, "11 is not in 1..=10"),
        (&["--timeout", "0"], 2, "invalid value '0'"),
    ];
    for (flags, code, wanted) in cases {
        let output = check(package.path(), flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(wanted), "{flags:?}: {said}");
    }
    let output = check(Path::new("no/such/package"), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no/such/package"), "{said}");
}

#[test]
fn reports_for_programs_agree_with_the_exit_code() {
    let package = clip("float v = x[i];", "float v = x[i];");
    let junit = package.path().join("check.xml");
    let output =
        check(package.path(), &["--level", "1", "--json", "--junit", junit.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = json(&output);
    assert_eq!(report["summary"]["failed"], 0);
    let cases = report["cases"].as_array().unwrap().len();
    let xml = fs::read_to_string(junit).unwrap();
    assert_eq!(xml.matches("<testcase ").count(), cases);
}

#[test]
fn a_parameter_that_changes_nothing_is_warned_of() {
    for level in ["1", "3", "6"] {
        let flags = ["--level", level, "--json", "--filter", "contract/ignored"];
        let report = json(&check(clip("node->scale * v", "v").path(), &flags));
        let (found, why) = verdict(&report, "contract/ignored");
        assert_eq!(found, "warning", "{report}");
        assert!(why.starts_with("parameter \"scale\" changes nothing on cpu"), "{why}");
        let report = json(&check(clip("node->scale * v", "node->scale * v").path(), &flags));
        assert_eq!(verdict(&report, "contract/ignored").0, "passed", "{report}");
    }
}
