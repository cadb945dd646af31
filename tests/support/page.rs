//! A page of docs whose commands run in a folder of their own.

use std::env;
use std::path::Path;

use tempfile::TempDir;

#[path = "guide.rs"]
mod runner;

/// Runs the commands of a page that says what they print, and gives the folder in which they ran.
pub(crate) fn follow(page: &'static str) -> TempDir {
    follow_beside(page, &[])
}

/// As [`follow`], beside files with these names and texts.
pub(crate) fn follow_beside(page: &'static str, files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_udo")).parent().unwrap();
    let path = env::var("PATH").unwrap_or_default();
    runner::run(page, dir.path(), |sh| {
        sh.env("PATH", format!("{}:{path}", programs.display()));
    });
    assert!(runner::blocks(page).iter().any(|block| block.follows && block.language == "text"));
    dir
}
