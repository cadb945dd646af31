//! A page of docs whose commands run in a folder of their own.

use std::env;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::checkout::built;
use crate::guide;

/// Runs the commands of a page that says what they print, and gives the folder in which they ran.
pub fn follow(page: &'static str) -> TempDir {
    follow_beside(page, &[])
}

/// Like [`follow`], in a folder with files of these names and contents.
pub fn follow_beside(page: &'static str, files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    follow_in(page, dir.path(), |_| ());
    assert!(guide::blocks(page).iter().any(|block| block.follows && block.language == "text"));
    dir
}

/// Runs the commands of a page in `dir`, by a shell that finds `udo` and that `setup` gives more of its environment.
pub fn follow_in(page: &'static str, dir: &Path, setup: impl FnOnce(&mut Command)) {
    let path = env::var("PATH").unwrap_or_default();
    guide::run(page, dir, |sh| {
        sh.env("PATH", format!("{}:{path}", built().display()));
        setup(sh);
    });
}
