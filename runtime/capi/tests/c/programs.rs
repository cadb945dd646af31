//! Programs in C and C++ that use the library as others do: compiled against the header, linked to the shared library.
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use udo_graph::container::{Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_graph::import::ModelBytes;
use udo_runtime::graph::Graph;

use super::compile::{C, CXX, run_program, shared};
use super::library::{FOLDER, library};

const TWO_OUTPUTS: &str = "graph \"two\"
  input x: f32[2,3]
  input y: f32[2,3]
  s = Add@14(x, y)
  p = Mul@14(s, y)
  output s, p
";

const OPEN: &str = "graph \"open\"
  input x: f32[n,2]
  s = Relu@14(x)
  output s
";

/// Runs a program as C and as C++.
#[track_caller]
fn run(name: &str, arguments: &[&Path]) {
    for compiler in [C, CXX] {
        let folder = tempfile::tempdir().unwrap();
        let source = format!("{FOLDER}/tests/programs/{name}");
        run_program(compiler, Path::new(&source), &shared(), folder.path(), arguments);
    }
}

/// Writes the models that `model.c` takes, which nobody may write.
fn models(folder: &Path) -> [PathBuf; 2] {
    [("two.graph", TWO_OUTPUTS), ("open.graph", OPEN)].map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        path
    })
}

/// Writes a model file with a network of two stages, one of a range, and one of integers.
fn networks(folder: &Path) -> PathBuf {
    let stage = |text: &str, extents: &[Extent]| {
        let graph = Graph::parse(text).unwrap();
        let source = Provenance::new("test", &ModelBytes::copy_of(text.as_bytes()), "test", vec![]);
        let shapes = BTreeMap::from([("x".to_owned(), extents.to_vec())]);
        Stage { shapes, source, graph: StoredGraph::new(graph) }
    };
    let twice = "graph \"twice\"\n  input x: f32[n,2]\n  y = Add@14(x, x)\n  output y\n";
    let coded = "graph \"coded\"
  input x: i8[2,2]
  constant s: f32[]{0.5}
  constant z: i8[]{3}
  r = DequantizeLinear@13(x, s, z)
  constant t: f32[]{0.25}
  constant q: u8[]{7}
  y = QuantizeLinear@13(r, t, q)
  output y
";
    let [two, four] = [2, 4].map(|n| [Extent::Fixed(n), Extent::Fixed(2)]);
    let range = [Extent::Range { min: 1, opt: None, max: 4 }, Extent::Fixed(2)];
    let network = |name: &str, stages| Network { name: name.to_owned(), stages };
    let networks = vec![
        network("stages", vec![stage(twice, &two), stage(twice, &four)]),
        network("range", vec![stage(twice, &range)]),
        network("coded", vec![stage(coded, &[Extent::Fixed(2), Extent::Fixed(2)])]),
    ];
    let path = folder.join("networks.udm");
    Contents { networks, sections: vec![] }.write(&path).unwrap();
    path
}

/// Writes a model file with one network of these graphs, which say all shapes themselves.
fn stages(folder: &Path, name: &str, graphs: &[String]) -> PathBuf {
    let stage = |text: &String| {
        let graph = StoredGraph::new(Graph::parse(text).unwrap());
        let source = Provenance::new("test", &ModelBytes::copy_of(text.as_bytes()), "test", vec![]);
        Stage { shapes: BTreeMap::new(), source, graph }
    };
    let stages = graphs.iter().map(stage).collect();
    let networks = vec![Network { name: name.to_owned(), stages }];
    let path = folder.join(format!("{name}.udm"));
    Contents { networks, sections: vec![] }.write(&path).unwrap();
    path
}

/// Two stages of fixed shapes, which their graphs alone say.
fn fixed(folder: &Path) -> PathBuf {
    let graph =
        |shape| format!("graph \"fixed\"\n  input x: f32[{shape}]\n  y = Relu@14(x)\n  output y\n");
    stages(folder, "fixed", &["2,2", "4,3"].map(graph))
}

/// Two stages of integers whose inputs stand for other numbers.
fn scales(folder: &Path) -> PathBuf {
    let graph = |(rows, scale)| {
        format!(
            "graph \"scales\"
  input x: i8[{rows},2]
  constant s: f32[]{{{scale}}}
  constant z: i8[]{{3}}
  r = DequantizeLinear@13(x, s, z)
  constant t: f32[]{{0.25}}
  constant q: u8[]{{7}}
  y = QuantizeLinear@13(r, t, q)
  output y
"
        )
    };
    stages(folder, "scales", &[(2, "0.5"), (3, "0.125"), (4, "0.5")].map(graph))
}

#[test]
fn networks_and_their_stages_are_run_and_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    run("networks.c", &[&networks(folder.path())]);
}

#[test]
fn a_model_runs_by_file_and_by_bytes_over_host_memory_and_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    run("model.c", &[&two, &open]);
}

#[test]
fn graphs_are_built_compiled_and_run() {
    run("graph.c", &[]);
}

#[test]
fn the_static_library_needs_what_the_pkg_config_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    let file = fs::read_to_string(format!("{FOLDER}/udo.pc.in")).unwrap();
    let private = file.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let archive = [library().with_extension("a").display().to_string()];
    let link: Vec<_> =
        archive.into_iter().chain(private.split_whitespace().map(str::to_owned)).collect();
    let source = format!("{FOLDER}/tests/programs/model.c");
    run_program(C, Path::new(&source), &link, folder.path(), &[&two, &open]);
}

#[test]
fn memory_and_descriptions_do_what_the_header_says() {
    let model = format!("{FOLDER}/../../examples/selu/model/model.onnx");
    run("memory.c", &[Path::new(&model)]);
}

#[test]
fn programs_of_nnrt_build_and_run_on_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let [two, _] = models(folder.path());
    run("nnrt.c", &[&two, &fixed(folder.path())]);
}

#[test]
fn programs_of_nnrt_are_told_what_is_wrong_with_their_calls() {
    run("nnrt_misuse.c", &[]);
}

#[test]
fn programs_of_bmruntime_build_and_run_on_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    let stages = [fixed(folder.path()), scales(folder.path())];
    run("bmrt.c", &[&two, &open, &networks(folder.path()), &stages[0], &stages[1]]);
}

/// Runs a program in C++ over both models, and others.
#[track_caller]
fn run_cpp(name: &str, others: &[&Path]) {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    let source = format!("{FOLDER}/tests/programs/{name}");
    let arguments = [&[two.as_path(), open.as_path()], others].concat();
    run_program(CXX, Path::new(&source), &shared(), folder.path(), &arguments);
}

#[test]
fn handles_of_cpp_release_themselves_and_throw() {
    let folder = tempfile::tempdir().unwrap();
    run_cpp("handles.cpp", &[&networks(folder.path())]);
}

#[test]
fn classes_of_bmruntime_build_and_run_on_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    run_cpp("bmrt_classes.cpp", &[&networks(folder.path())]);
}

/// Installs the library to a folder as the examples' readers do, and says by pkg-config how programs use it.
fn installed(prefix: &Path) -> Vec<String> {
    for folder in ["lib/pkgconfig", "include"] {
        fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    fs::copy(library(), prefix.join("lib/libudo.so")).unwrap();
    for header in fs::read_dir(format!("{FOLDER}/include")).unwrap() {
        let header = header.unwrap();
        fs::copy(header.path(), prefix.join("include").join(header.file_name())).unwrap();
    }
    let file = fs::read_to_string(format!("{FOLDER}/udo.pc.in")).unwrap();
    let file = file.replace("@prefix@", &prefix.display().to_string());
    let file = file.replace("@version@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("lib/pkgconfig/udo.pc"), file).unwrap();
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "udo"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let said = match ask.output() {
        Ok(said) => said,
        // What the examples say for where it is not at hand.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let prefix = prefix.display();
            return [format!("-I{prefix}/include"), format!("-L{prefix}/lib"), "-ludo".to_owned()]
                .into();
        }
        Err(error) => panic!("pkg-config: {error}"),
    };
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout).unwrap();
    said.split_whitespace().map(str::to_owned).collect()
}

/// Returns the flag of the address sanitizer if the compiler supports it.
fn sanitizer(compiler: &str, folder: &Path) -> Option<&'static str> {
    let flag = "-fsanitize=address";
    let source = folder.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut build = Command::new(compiler);
    build.arg(flag).arg(&source).arg("-o").arg(folder.join("empty"));
    build.output().unwrap().status.success().then_some(flag)
}

/// Runs a program that an example was built to.
fn ran(app: &Path, prefix: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut run = Command::new(app);
    run.args(arguments).env("LD_LIBRARY_PATH", prefix.join("lib"));
    let ran = run.env("UDO_OPENCL", "off").output().unwrap();
    (ran.status.code(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
}

/// Builds an example as its README says, under the address sanitizer where there is one, and runs it.
#[track_caller]
fn example(compiler: &[&str], source: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let flags = installed(folder.path());
    let app = folder.path().join("app");
    let mut cc = Command::new(compiler[0]);
    cc.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&app);
    cc.args(sanitizer(compiler[0], folder.path()));
    cc.arg(format!("{FOLDER}/../../examples/{source}")).args(flags);
    let built = cc.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    ran(&app, folder.path(), arguments)
}

/// As `example`, by the example's `CMakeLists.txt`; nothing where there is no `cmake`.
#[track_caller]
fn by_cmake(example: &str, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let folder = tempfile::tempdir().unwrap();
    installed(folder.path());
    let tree = folder.path().join("tree");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(format!("{FOLDER}/../../examples/{example}")).arg("-B").arg(&tree);
    configure.arg(format!("-DUDO_PREFIX={}", folder.path().display()));
    let configured = match configure.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        configured => configured.unwrap(),
    };
    assert!(configured.status.success(), "{}", String::from_utf8_lossy(&configured.stderr));
    let built = Command::new("cmake").arg("--build").arg(&tree).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(ran(&tree.join("app"), folder.path(), arguments))
}

#[test]
fn examples_build_by_pkg_config_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path()).map(|path| path.display().to_string());
    let c: &[&str] = &["cc", "-std=c11"];
    let cpp: &[&str] = &["c++", "-std=c++17"];
    let sums = "s: [2,3] 2 2 2 2\np: [2,3] 2 2 2 2\n".to_owned();
    assert_eq!(example(c, "c-app/main.c", &[&two]), (Some(0), sums.clone()));
    assert_eq!(example(c, "c-app/main.c", &[&two, "dsp,cpu"]), (Some(0), sums.clone()));
    assert_eq!(by_cmake("c-app", &[&two]).unwrap_or((Some(0), sums.clone())), (Some(0), sums));
    let (code, said) = example(c, "c-app/main.c", &["/nowhere.onnx"]);
    assert!(code == Some(1) && said.starts_with("error: cannot read"), "{said}");
    let best = "s: place 1 of 2, with 7\n".to_owned();
    assert_eq!(example(cpp, "cpp-app/main.cpp", &[&open, "-3", "7"]), (Some(0), best.clone()));
    let by_cmake = by_cmake("cpp-app", &[&open, "-3", "7"]);
    assert_eq!(by_cmake.unwrap_or((Some(0), best.clone())), (Some(0), best));
    let (code, said) = example(cpp, "cpp-app/main.cpp", &[&open, "1", "2", "3"]);
    assert!(code == Some(1) && said.starts_with("error: "), "{said}");
}

/// Writes a model file with a cache that runs go on with in one place.
fn cache(folder: &Path) -> PathBuf {
    let text = "graph \"g\"
  input past: f32[1,40,4]
  input step: f32[1,1,4]
  input at: i64[1]
  present = TensorScatter@24(past, step, at) axis=1
  output present
  in_place past=present
";
    let source = Provenance::new("test", &ModelBytes::copy_of(text.as_bytes()), "test", vec![]);
    let graph = StoredGraph::new(Graph::parse(text).unwrap());
    let stages = vec![Stage { shapes: BTreeMap::new(), source, graph }];
    let networks = vec![Network { name: "cache".to_owned(), stages }];
    let path = folder.join("cache.udm");
    Contents { networks, sections: vec![] }.write(&path).unwrap();
    path
}

#[test]
fn threads_share_sessions_and_runs_go_on_with_caches_in_one_place() {
    let folder = tempfile::tempdir().unwrap();
    run("pool.c", &[&cache(folder.path()), &networks(folder.path())]);
}

#[test]
fn runs_go_on_beside_the_program_that_submits_them() {
    let folder = tempfile::tempdir().unwrap();
    let [two, _] = models(folder.path());
    run("runs.c", &[&two]);
}
