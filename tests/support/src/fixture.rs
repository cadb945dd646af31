//! Packages in Rust that lie in `tests/fixtures`, built, and the program that contains such.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

pub use crate::checkout::root;
use crate::checkout::target;

/// The folder of fixtures.
pub fn fixtures() -> PathBuf {
    root().join("tests/fixtures")
}

/// Builds the Rust fixture called `name`, and returns the folder with its libraries.
pub fn build_fixture(name: &str, profile: &str) -> PathBuf {
    cargo_fixture(name, profile, "build", &[])
}

/// Runs this command of cargo's, with these flags, on the Rust fixture called `name`, and returns
/// the folder with its libraries.
pub fn cargo_fixture(name: &str, profile: &str, command: &str, flags: &[&str]) -> PathBuf {
    let folder = fixtures().join(name);
    // Renamed into place: another test binary may be reading it.
    let lock = tempfile::NamedTempFile::new_in(&folder).unwrap();
    fs::copy(root().join("Cargo.lock"), lock.path()).unwrap();
    lock.persist(folder.join("Cargo.lock")).unwrap();

    let target = target().join("fixtures");
    let mut cargo = Command::new(env!("CARGO"));
    // For a target said, so that flags which instrument code leave cargo's own helpers alone.
    let of = host_triple();
    cargo
        .args([command, "--offline", "--quiet", "--profile", profile, "--target", &of])
        .args(flags);
    cargo.current_dir(&folder);
    run(cargo.env("CARGO_TARGET_DIR", &target));
    target.join(of).join(if profile == "dev" { "debug" } else { profile })
}

/// The fixture in the folder `name`, whose crate is `library` and that calls itself `package`, in a folder of its own as `udo build`
/// would name its library.
pub fn placed(name: &str, library: &str, package: &str) -> TempDir {
    let built = build_fixture(name, "dev").join(format!("lib{library}.so"));
    let folder = tempfile::tempdir().unwrap();
    fs::copy(built, folder.path().join(format!("libUdo{package}Reg.so"))).unwrap();
    folder
}

/// The target that the compiler builds for where none is said.
fn host_triple() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

/// The program that runs contained packages, built.
pub fn worker() -> PathBuf {
    member(&["-p", "udo-cli", "--bin", "udo-worker"]).join("udo-worker")
}

/// The built-in operators as a library, built. They are a member of the workspace, as all that is in them is compiled for it.
pub fn builtin_library() -> PathBuf {
    member(&["-p", "builtin_package"]).join("libbuiltin_package.so")
}

/// Builds what these arguments name of the workspace, and returns the folder that it is in.
fn member(named: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).args(named);
    run(cargo.current_dir(root()).env("CARGO_TARGET_DIR", target()));
    target().join("debug")
}

/// Runs a command that has to succeed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
}
