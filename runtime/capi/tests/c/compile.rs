//! Programs that use the library.

use std::path::Path;
use std::process::Command;

use super::library::{FOLDER, library};

/// How C is compiled.
pub(crate) const C: &[&str] = &["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L"];

/// How the same is compiled as C++.
pub(crate) const CXX: &[&str] = &["c++", "-xc++", "-std=c++17"];

/// Returns the flags that link the shared library.
pub(crate) fn shared() -> Vec<String> {
    let library = library();
    let folder = library.parent().unwrap().display().to_string();
    vec![format!("-L{folder}"), "-ludo".to_owned(), format!("-Wl,-rpath,{folder}")]
}

/// Compiles a program against header and library, with all warnings as errors, and runs it in `folder`.
/// `link` says what it is linked with: the shared library, or the static one and what that rests on.
#[track_caller]
pub(crate) fn run_program(
    compiler: &[&str],
    source: &Path,
    link: &[String],
    folder: &Path,
    arguments: &[&Path],
) {
    let program = folder.join("program");
    let mut cc = Command::new(compiler[0]);
    cc.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    for include in ["include", "tests/programs"] {
        cc.arg("-I").arg(format!("{FOLDER}/{include}"));
    }
    cc.arg(source).arg("-o").arg(&program);
    cc.args(link);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut run = Command::new(&program);
    // Cargo names its own folders there, in which a library of an earlier build may lie.
    run.env("LD_LIBRARY_PATH", library().parent().unwrap());
    let output = run.args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&said));
}
