//! The program itself, as a user runs it in a folder.

use std::process::{Command, Output};

use tempfile::TempDir;

/// Its exit code, what it prints, and what it says of errors.
pub(crate) fn udo(dir: &TempDir, args: &[&str]) -> (Option<i32>, String, String) {
    let mut udo = Command::new(env!("CARGO_BIN_EXE_udo"));
    let Output { status, stdout, stderr } =
        udo.args(args).current_dir(dir.path()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}
