//! A folder in which `udo` is run as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use udo_engine::package::index::Index;

use crate::command::program;

/// A folder with a config in it.
#[derive(Debug)]
pub struct Desk {
    /// The folder; it goes with the desk.
    pub dir: TempDir,
}

impl Desk {
    /// A new folder with this config as `c.json`.
    pub fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("c.json"), config).unwrap();
        Self { dir }
    }

    /// `udo` in the folder.
    pub fn udo(&self, args: &[&str]) -> Output {
        self.udo_with(&[], args)
    }

    /// `udo` with these variables in its environment.
    pub fn udo_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut udo = Command::new(program());
        udo.args(args).current_dir(self.dir.path()).env_remove("UDO_ROOT");
        udo.envs(variables.iter().copied()).output().unwrap()
    }

    /// Runs what must work, and returns what it said.
    pub fn works(&self, args: &[&str]) -> (String, String) {
        let output = self.udo(args);
        let (out, err) = words(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}\n{out}\n{err}");
        (out, err)
    }

    /// A path from the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// The index of a package that was built.
    pub fn index(&self, package: &str) -> Index {
        Index::read(&self.path(package).join("dist")).unwrap().unwrap()
    }
}

/// The output of a program.
pub fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
