//! A package in Rust that tests have, built and put where it is looked for.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The package in the folder `source` of the checkout, whose crate is `name` and that calls itself `package`, as `udo build` would name its library.
pub(crate) fn fixture(source: &str, name: &str, package: &str) -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let source = root.join(source);
    // Renamed into place: another test binary may be reading it.
    let lock = tempfile::NamedTempFile::new_in(&source).unwrap();
    fs::copy(root.join("Cargo.lock"), lock.path()).unwrap();
    lock.persist(source.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("fixtures");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet", "--target-dir"]).arg(&target);
    let output = cargo.current_dir(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = tempfile::tempdir().unwrap();
    let built = target.join(format!("debug/lib{name}.so"));
    fs::copy(built, folder.path().join(format!("libUdo{package}Reg.so"))).unwrap();
    folder
}
