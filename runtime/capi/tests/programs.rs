//! Programs in C and C++ that use the library as others do: compiled against the header, linked to the shared library.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/library.rs"]
mod library;
#[path = "support/programs.rs"]
mod programs;

use std::fs;
use std::path::{Path, PathBuf};

use library::{FOLDER, library};
use programs::{C, run_program, shared};

/// How the same is compiled as C++.
const CXX: &[&str] = &["c++", "-xc++", "-std=c++17"];

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
    run("nnrt.c", &[&two]);
}

#[test]
fn programs_of_bmruntime_build_and_run_on_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    run("bmrt.c", &[&two, &open]);
}

#[test]
fn handles_of_cpp_release_themselves_and_throw() {
    let folder = tempfile::tempdir().unwrap();
    let [two, open] = models(folder.path());
    let source = format!("{FOLDER}/tests/programs/handles.cpp");
    run_program(CXX, Path::new(&source), &shared(), folder.path(), &[&two, &open]);
}

#[test]
fn runs_go_on_beside_the_program_that_submits_them() {
    let folder = tempfile::tempdir().unwrap();
    let [two, _] = models(folder.path());
    run("runs.c", &[&two]);
}
