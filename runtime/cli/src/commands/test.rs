//! `udo test`

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::Run;
use super::build::{Members, test};
use crate::output::{Failure, Outcome};

/// Run a package's own tests, one for each operator and core
///
/// Runs cargo in the folder that `udo build` builds in, so that what packages have in common is compiled once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  udo test SoftmaxUdoPackage                the tests of all its crates
  udo test SoftmaxUdoPackage --cores cpu    those of the CPU's kernels
  udo test SoftmaxUdoPackage softmax        those with this in their names")]
pub(crate) struct TestPackage {
    /// The package's folder, as `udo new` made it
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Run the tests alone whose names have this in them
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    members: Members,
}

impl Run for TestPackage {
    fn run(self) -> Outcome {
        let dir = fs::canonicalize(&self.dir).map_err(|error| {
            Failure::new(format!("no package at {}: {error}", self.dir.display()))
                .help("`udo new -p CONFIG` makes one")
        })?;
        test(&dir, &self.members, self.name.as_deref())
    }
}
