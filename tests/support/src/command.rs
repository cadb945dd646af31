//! The program itself, as a user runs it in a folder.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::checkout::built;

/// The program. Cargo builds it for the integration tests of `udo-cli`, and for no others.
pub fn program() -> PathBuf {
    built().join("udo")
}

/// Its exit code, what it prints, and what it says of errors.
pub fn udo(dir: &TempDir, args: &[&str]) -> (Option<i32>, String, String) {
    let mut udo = Command::new(program());
    let Output { status, stdout, stderr } =
        udo.args(args).current_dir(dir.path()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}
