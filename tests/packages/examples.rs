//! The examples as their readers use them: built, run, and right.
//!
//! `UDO_SEEDS` says with how many seeds they pass their check (3 unless given).

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use serde_json::Value;
use udo_test_support::checkout::{cargo, root};
use udo_test_support::lists;
use udo_test_support::page::follow_in;

/// An example package, and the model that it comes with.
struct Example {
    folder: &'static str,
    config: &'static str,
    package: &'static str,
}

const SOFTMAX: Example =
    Example { folder: "softmax", config: "Softmax_Htp.json", package: "SoftmaxUdoPackage" };
const SELU: Example = Example { folder: "selu", config: "Selu.json", package: "SeluUdoPackage" };
const TOPK: Example =
    Example { folder: "topk", config: "TopKAbove.json", package: "TopKUdoPackage" };

const VISION: Example =
    Example { folder: "vision", config: "Vision.json", package: "VisionUdoPackage" };

// Tests that share a package build it once.
static SOFTMAX_BUILT: LazyLock<Built> = LazyLock::new(|| SOFTMAX.build());
static SELU_BUILT: LazyLock<Built> = LazyLock::new(|| SELU.build());
static TOPK_BUILT: LazyLock<Built> = LazyLock::new(|| TOPK.build());
static VISION_BUILT: LazyLock<Built> = LazyLock::new(|| VISION.build());

/// A package with its libraries, and the model that it comes with.
struct Built {
    package: PathBuf,
    model: PathBuf,
}

/// A line of [`ON_CORES`]: an example, the cores to use, the bounds of `udo verify`.
struct OnCores {
    built: &'static LazyLock<Built>,
    cores: &'static str,
    rtol: &'static str,
    atol: &'static str,
    /// A node of the package's own, and the core that must run it.
    node: (&'static str, &'static str),
}

/// The last step of the softmax model quantizes to steps of 1/256.
const ONE_CODE: &str = "0.00390626";

const ON_CORES: &[OnCores] = &[
    OnCores {
        built: &SOFTMAX_BUILT,
        cores: "cpu",
        rtol: "1e-3",
        atol: "1e-5",
        node: ("softmax", "cpu"),
    },
    OnCores {
        built: &SOFTMAX_BUILT,
        cores: "gpu,cpu",
        rtol: "1e-3",
        atol: "1e-5",
        node: ("softmax", "gpu"),
    },
    OnCores {
        built: &SOFTMAX_BUILT,
        cores: "dsp,cpu",
        rtol: "0",
        atol: ONE_CODE,
        node: ("softmax", "dsp:v68"),
    },
    OnCores {
        built: &SELU_BUILT,
        cores: "cpu",
        rtol: "1e-6",
        atol: "1e-6",
        node: ("with_defaults", "cpu"),
    },
    OnCores { built: &TOPK_BUILT, cores: "cpu", rtol: "0", atol: "0", node: ("some", "cpu") },
    OnCores {
        built: &VISION_BUILT,
        cores: "cpu",
        rtol: "1e-4",
        atol: "1e-5",
        node: ("warped", "cpu"),
    },
    OnCores {
        built: &VISION_BUILT,
        cores: "gpu,cpu",
        rtol: "1e-4",
        atol: "1e-5",
        node: ("twice", "gpu"),
    },
    OnCores {
        built: &VISION_BUILT,
        cores: "dsp,cpu",
        rtol: "1e-4",
        atol: "1e-5",
        node: ("gated_", "dsp:v68"),
    },
];

impl Example {
    fn dir(&self) -> PathBuf {
        root().join("examples").join(self.folder)
    }

    fn build(&self) -> Built {
        let package = self.dir().join(self.package);
        let (_, progress) = works(udo().arg("build").arg(&package));
        // Without OpenCL and clang, the sources that nothing compiles are warned of.
        let warnings = progress.lines().filter(|line| line.contains("warning"));
        let is_known = |line: &str| line.contains("GPU/kernels/") && line.contains("not compiled");
        assert!({ warnings }.all(is_known), "{progress}");
        Built { package, model: self.dir().join("model/model.onnx") }
    }
}

impl Built {
    /// A command on the model with the package, on these cores.
    fn udo(&self, command: &str, cores: &str) -> Command {
        let mut udo = udo();
        udo.args([command, "--json", "--cores", cores, "--package"]).arg(&self.package);
        udo.arg(&self.model);
        udo
    }
}

/// The folder that this test was built in.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

fn udo() -> Command {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    // GPU kernels run as work items: what is tested is the same on every machine.
    udo.env_remove("UDO_ROOT").env("UDO_OPENCL", "off");
    udo
}

/// Runs what must work, and returns what it said.
fn works(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{command:?}\n{out}\n{err}");
    (out, err)
}

fn json(command: &mut Command) -> Value {
    serde_json::from_str(&works(command).0).unwrap()
}

fn data(model: &Path) -> &Path {
    model.parent().unwrap()
}

#[test]
fn examples_pass_their_check() {
    let seeds: u64 = std::env::var("UDO_SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
    let in_c = in_c();
    let rust = [&SOFTMAX_BUILT, &SELU_BUILT, &TOPK_BUILT, &VISION_BUILT];
    for package in rust.map(|built| &*built.package).into_iter().chain([in_c.path()]) {
        for seed in 1..=seeds {
            let mut check = udo();
            check.args(["check", "--level", "1", "--seed", &seed.to_string()]).arg(package);
            check.arg("--allow-unchecked");
            works(&mut check);
        }
        works(udo().args(["check", "--level", "10", "--filter", "graphs/"]).arg(package));
    }
}

#[test]
fn results_are_the_recorded_ones_on_every_core() {
    for OnCores { built, cores, rtol, atol, node: (node, core) } in ON_CORES {
        let at = format!("{} on {cores}", built.package.display());
        let explained = json(&mut built.udo("explain", cores));
        let nodes = explained["nodes"].as_array().unwrap();
        let own = nodes.iter().find(|n| n["name"] == *node).unwrap();
        assert_eq!(own["core"], *core, "{at}: {own}");
        assert!(built.package.ends_with(own["package"].as_str().unwrap()), "{at}: {own}");

        let mut verify = built.udo("verify", cores);
        verify.args(["--rtol", rtol, "--atol", atol, "--allow-unchecked", "--data"]);
        verify.arg(data(&built.model));
        let compared = json(&mut verify);
        assert_eq!(compared["passed"], true, "{at}: {compared}");
        // Work items stand for OpenCL C, which is said.
        let unchecked = compared["unchecked"].as_array().unwrap();
        let is_own = |of: &Value| of["node"] == *node && of["what"] == "OpenCL C";
        assert_eq!(unchecked.iter().any(is_own), *core == "gpu", "{at}: {compared}");
    }
}

#[test]
fn runs_leave_the_heap_alone() {
    for OnCores { built, cores, .. } in ON_CORES {
        let measured = json(built.udo("bench", cores).args(["--iterations", "20"]));
        assert_eq!(measured["allocations_per_run"], 0.0, "{} on {cores}", built.package.display());
    }
}

/// The model's last Selu reads what nothing else does.
#[test]
fn selu_takes_the_place_of_its_input_where_it_may() {
    let explained = json(&mut SELU_BUILT.udo("explain", "cpu"));
    let steps = explained["steps"].as_array().unwrap();
    for (name, pairs) in [("with_defaults", 0), ("with_parameters", 0), ("in_place", 1)] {
        let step = steps.iter().find(|s| s["name"] == name).unwrap();
        assert_eq!(step["in_place"].as_array().unwrap().len(), pairs, "{step}");
    }
}

/// One session runs three inputs, of which 2, 5 and 0 elements are above the middle threshold.
#[test]
fn bounded_outputs_take_the_shape_of_each_run() {
    let sets = ["test_data_set_0", "test_data_set_1", "test_data_set_2"];
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list.txt");
    let lines: Vec<String> = sets
        .iter()
        .map(|set| format!("x:={}/{set}/input_0.pb\n", data(&TOPK_BUILT.model).display()))
        .collect();
    std::fs::write(&list, lines.concat()).unwrap();
    let ran = json(TOPK_BUILT.udo("run", "cpu").arg("--input-list").arg(&list));
    let runs = ran["runs"].as_array().unwrap();
    let len_of = |run: &Value, name: &str| {
        let outputs = run["outputs"].as_array().unwrap();
        let output = outputs.iter().find(|o| o["name"] == name).unwrap();
        output["shape"].as_array().unwrap()[0].as_u64().unwrap()
    };
    for (output, wanted) in [
        ("every_values", [5, 5, 5]),
        ("some_values", [2, 5, 0]),
        ("some_indices", [2, 5, 0]),
        ("none_indices", [0, 0, 0]),
        ("sorted_values", [32, 32, 32]),
    ] {
        let found: Vec<u64> = runs.iter().map(|run| len_of(run, output)).collect();
        assert_eq!(found, wanted, "{output}");
    }
}

#[test]
fn committed_packages_match_the_generator() {
    for example in [SOFTMAX, SELU, TOPK, VISION] {
        let mut new = udo();
        new.args(["new", "-p", example.config, "--dry-run", "--json"]).current_dir(example.dir());
        let report = json(&mut new);
        let report = &report["packages"][0];
        assert_eq!(report["package"], example.package);
        assert!(!report["unchanged"].as_array().unwrap().is_empty(), "{report}");
        for change in ["created", "refreshed", "saved", "drifted", "orphaned"] {
            let files = report[change].as_array().unwrap();
            assert!(files.is_empty(), "{}: {change} {files:?}", example.package);
        }
    }
}

#[test]
fn kernels_pass_their_own_tests() {
    // Where shape inference is printed from a reference, its crate has tests as well.
    let examples = [
        (SOFTMAX, &SOFTMAX_BUILT, 3, 3),
        (SELU, &SELU_BUILT, 1, 3),
        (TOPK, &TOPK_BUILT, 1, 3),
        (VISION, &VISION_BUILT, 4, 2),
    ];
    for (example, built, tests_of, without) in examples {
        // The first build in a target folder removes what others left under the package's names.
        LazyLock::force(built);
        let mut tests = cargo("test", &example.dir().join(example.package));
        let (said, progress) = works(tests.arg("--locked"));
        assert!(!progress.contains("warning"), "{progress}");
        // The crate that kernels share has no such line, and neither has its documentation.
        let tested = said.lines().filter(|line| line.starts_with("running ")).count();
        let idle = said.lines().filter(|line| *line == "running 0 tests").count();
        assert_eq!((tested, idle), (tests_of + without, without), "{said}");
    }
}

#[test]
fn printed_code_has_no_complaints_of_clippy() {
    LazyLock::force(&VISION_BUILT);
    let mut clippy = cargo("clippy", &VISION.dir().join(VISION.package));
    works(clippy.args(["--locked", "--all-targets", "--quiet", "--", "-D", "warnings"]));
}

#[test]
fn no_example_waits_for_code() {
    for example in [SOFTMAX, SELU, TOPK, VISION] {
        for kernels in ["CPU/src/ops", "GPU/src/ops", "DSP_V68/src/ops"] {
            let folder = example.dir().join(example.package).join(kernels);
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("not_implemented"), "{}", path.display());
            }
        }
    }
}

#[test]
fn vision_is_made_as_its_page_says_with_no_line_by_hand() {
    LazyLock::force(&VISION_BUILT);
    let page = include_str!("../../examples/vision/README.md");
    let dir = tempfile::tempdir().unwrap();
    follow(page, dir.path());
}

#[test]
fn a_first_package_is_made_as_its_page_says() {
    let page = include_str!("../../docs/first-package.md");
    let dir = tempfile::tempdir().unwrap();
    follow(page, dir.path());
}

#[test]
fn a_first_model_runs_as_its_page_says() {
    let page = include_str!("../../docs/first-model.md");
    let dir = tempfile::tempdir().unwrap();
    follow(page, dir.path());
}

/// The parts without Python of a page about models.
#[test]
fn operators_get_into_models_as_their_page_says() {
    LazyLock::force(&VISION_BUILT);
    let page = include_str!("../../docs/python.md");
    let dir = tempfile::tempdir().unwrap();
    follow(page, dir.path());
}

/// Runs the commands of a page in a folder.
fn follow(page: &'static str, dir: &Path) {
    follow_in(page, dir, |sh| {
        sh.env("SDK", root()).env_remove("UDO_ROOT").env("UDO_OPENCL", "off");
    });
}

fn in_c_folder() -> PathBuf {
    root().join("examples/c-package")
}

/// The example that is written in C, built.
fn in_c() -> tempfile::TempDir {
    let dist = tempfile::tempdir().unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(in_c_folder()).arg(format!("DIST={}", dist.path().display()));
    works(make.env_remove("MAKEFLAGS").env_remove("CFLAGS"));
    dist
}

#[test]
fn a_package_may_be_written_in_c() {
    let (folder, dist) = (in_c_folder(), in_c());
    let inspected = json(udo().args(["inspect", "--json"]).arg(dist.path()));
    assert_eq!(inspected["sound"], true, "{inspected}");
    let library = &inspected["libraries"][0];
    assert_eq!(library["file"], "libUdoClipScaleReg.so");
    assert_eq!(library["contents"]["heap"], "unchecked");
    assert_eq!(library["contents"]["ops"][0]["name"], "ClipScale");

    let built = Built { package: dist.path().to_owned(), model: folder.join("model/model.onnx") };
    let compared = json(built.udo("verify", "cpu").arg("--data").arg(data(&built.model)));
    assert_eq!(compared["passed"], true, "{compared}");
    assert_eq!(compared["outputs"][0]["max_abs"], 0.0, "{compared}");
    let measured = json(built.udo("bench", "cpu").args(["--iterations", "20"]));
    assert_eq!(measured["allocations_per_run"], 0.0);
    let ran = json(
        built
            .udo("run", "cpu")
            .arg("--input")
            .arg(format!("x={}/test_data_set_0/input_0.pb", data(&built.model).display())),
    );
    let output = &ran["runs"][0]["outputs"][0];
    assert_eq!((&output["min"], &output["max"]), (&Value::from(-10.0), &Value::from(-2.0)));
}

#[test]
fn a_package_that_ends_the_process_is_told_on() {
    let folder = root().join("examples/c-package");
    let dist = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(folder.join("clip_scale.c")).unwrap();
    let body = "static udo_status execute(const udo_exec_args *args) {";
    let leaving = source.replace(body, &format!("{body}\n    exit(0);"));
    assert_ne!(leaving, source);
    std::fs::write(dist.path().join("leaving.c"), leaving).unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(&folder).arg(format!("DIST={}", dist.path().display()));
    works(make.env_remove("MAKEFLAGS").env_remove("CFLAGS"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-shared", "-fPIC", "-DMANIFEST=\"manifest.json\"", "leaving.c"]);
    cc.args(["-o", "libUdoClipScaleReg.so", "-I"]).arg(root().join("udo-api/include"));
    works(cc.current_dir(dist.path()));

    let built = Built { package: dist.path().to_owned(), model: folder.join("model/model.onnx") };
    let output = built.udo("bench", "cpu").args(["--iterations", "1"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let wanted = ": package ClipScale's ClipScale on cpu ended the process in execute\n";
    assert!(errors.contains(wanted), "{errors}");
}

#[test]
fn a_program_runs_models_through_the_library() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--offline", "-p", "rust-app"]).current_dir(root());
    let (_, words) = works(&mut cargo);
    assert_eq!(words, "");

    let app = |args: &[&str]| {
        let mut app = Command::new(target().join("debug/rust-app"));
        app.arg(&SOFTMAX_BUILT.model).args(args).env("UDO_OPENCL", "off");
        app
    };
    let (builtin, _) = works(&mut app(&[]));
    assert!(builtin.contains("softmax (QLinearSoftmax) on cpu from builtin\n"), "{builtin}");
    let package = SOFTMAX_BUILT.package.to_str().unwrap();
    let (packaged, _) = works(&mut app(&[package, "gpu,cpu"]));
    assert!(packaged.contains("softmax (Softmax) on gpu from SoftmaxUdoPackage\n"), "{packaged}");
    let results = |said: &str| said.lines().last().unwrap().to_owned();
    assert!(results(&builtin).starts_with("probabilities: f32[1,10] [0."), "{builtin}");
    assert_eq!(results(&builtin), results(&packaged));

    let output = app(&[package, "npu"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let wanted = "error: no core is called npu, expected cpu, gpu, dsp or dsp:vNN\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), wanted);
}

/// Depthwise and pointwise convolutions of 8-bit values, a Selu, means, a product, a Softmax, and the best of its shares.
const QUANTIZED_NETWORK: &str = "graph mobile
  input x: f32[1,3,8,8]
  constant s: f32[]{0.03125}
  constant part: f32[]{0.0234375}
  constant wide: f32[]{0.0625}
  constant share: f32[]{0.00390625}
  constant middle: u8[]{128}
  constant least: u8[]{0}
  constant six: f32[]{6.0}
  constant zero: f32[]{0.0}
  constant flat: i64[1]{-1}
  constant w0: i8[8,3,3,3]{-50, 20, 7, 90, -3, 61, -77}
  constant s0: f32[8]{0.01, 0.012, 0.009}
  constant z8: i8[8]{0}
  constant w1: i8[8,1,3,3]{30, -20, 70, 9, -33}
  constant w2: i8[16,8,1,1]{-40, 25, 80, -9, 11, -62}
  constant s2: f32[16]{0.01, 0.008}
  constant z16: i8[16]{0}
  constant w3: i8[16,6]{90, -90, 33, -12, 50}
  constant s3: f32[6]{0.02, 0.015}
  constant z6: i8[6]{0}
  xq = QuantizeLinear@21(x, s, middle)
  xr = DequantizeLinear@21(xq, s, middle)
  k0 = DequantizeLinear@21(w0, s0, z8) axis=0
  a = Conv@11(xr, k0) pads=[1,1,1,1] strides=[2,2]
  a6 = Clip@13(a, zero, six)
  aq = QuantizeLinear@21(a6, part, least)
  ar = DequantizeLinear@21(aq, part, least)
  k1 = DequantizeLinear@21(w1, s0, z8) axis=0
  b = Conv@11(ar, k1) group=8 pads=[1,1,1,1] # depthwise
  bq = QuantizeLinear@21(b, wide, middle)
  br = DequantizeLinear@21(bq, wide, middle)
  c = Selu@6(br) # selu
  cq = QuantizeLinear@21(c, wide, middle)
  cr = DequantizeLinear@21(cq, wide, middle)
  k2 = DequantizeLinear@21(w2, s2, z16) axis=0
  d = Conv@11(cr, k2) # pointwise
  dq = QuantizeLinear@21(d, wide, middle)
  dr = DequantizeLinear@21(dq, wide, middle)
  e = GlobalAveragePool@1(dr)
  eq = QuantizeLinear@21(e, wide, middle)
  er = DequantizeLinear@21(eq, wide, middle)
  f = Flatten@13(er)
  fq = QuantizeLinear@21(f, wide, middle)
  fr = DequantizeLinear@21(fq, wide, middle)
  k3 = DequantizeLinear@21(w3, s3, z6) axis=1
  g = MatMul@13(fr, k3) # product
  gq = QuantizeLinear@21(g, wide, middle)
  gr = DequantizeLinear@21(gq, wide, middle)
  h = Softmax@13(gr) # softmax
  hq = QuantizeLinear@21(h, share, least)
  y = DequantizeLinear@21(hq, share, least)
  row = Reshape@13(y, flat)
  best, place = TopKUdoPackage:TopKAbove@1(row) k=3 threshold=-1.0 # best
  output y, best, place
";

#[test]
fn packages_run_inside_a_quantized_network() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("mobile.graph");
    std::fs::write(&model, lists::in_full(QUANTIZED_NETWORK)).unwrap();
    let command = |command: &str| {
        let mut udo = udo();
        udo.arg(command).arg(&model).args(["--json", "--cores", "dsp,cpu"]);
        for built in [&SOFTMAX_BUILT, &SELU_BUILT, &TOPK_BUILT] {
            udo.arg("--package").arg(&built.package);
        }
        udo
    };
    let explained = json(&mut command("explain"));
    let at = |name: &str| {
        let nodes = explained["nodes"].as_array().unwrap();
        let node =
            nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("{explained}"));
        [&node["op"], &node["core"], &node["package"]].map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(at("depthwise"), ["QLinearConv", "dsp:v68", "builtin"]);
    assert_eq!(at("pointwise"), ["QLinearConv", "dsp:v68", "builtin"]);
    assert_eq!(at("product"), ["QLinearMatMul", "dsp:v68", "builtin"]);
    assert_eq!(at("softmax"), ["Softmax", "dsp:v68", "SoftmaxUdoPackage"]);
    assert_eq!(at("selu"), ["Selu", "cpu", "SeluUdoPackage"]);
    assert_eq!(at("best"), ["TopKAbove", "cpu", "TopKUdoPackage"]);
    let quantized = explained["passes"].as_array().unwrap();
    let quantized = quantized.iter().find(|pass| pass["name"] == "quantized").unwrap();
    assert_eq!(quantized["left"].as_array().unwrap().len(), 2, "those of packages: {quantized}");

    let compare = ["--against", "cpu", "--random", "3", "--per-layer", "--atol", "1"];
    let required = ["softmax=dsp", "Selu=cpu", "QLinearConv=dsp"];
    let required = required.iter().flat_map(|required| ["--require", required]);
    let compared = json(command("verify").args(compare).args(required));
    assert_eq!(compared["passed"], true, "{compared}");
    let outputs = compared["outputs"].as_array().unwrap();
    let layers = outputs.iter().filter(|output| output["node"].is_string()).count();
    assert_eq!(layers, 3 * 5, "{compared}");
    assert_eq!(compared["against"][0].as_object().unwrap().keys().collect::<Vec<_>>(), ["cpu"]);
    let far = outputs.iter().filter(|output| output["name"] == "y");
    assert!(far.clone().count() == 3 && far.clone().all(|y| y["max_abs"].as_f64() < Some(0.008)));
}
