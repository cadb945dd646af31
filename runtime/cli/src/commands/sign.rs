//! `udo sign`

use std::path::PathBuf;

use clap::Args;
use udo_runtime::package::{DIST_FOLDER, SecretKey, seal, sign};

use super::Run;
use crate::output::{Failure, Outcome};
use crate::package_flags::open_failure;

/// Sign a built package, so that whoever trusts your key knows that it is yours
///
/// What is signed is the package's index.json, which has the digest of each library. `--trust KEYFILE.pub` of other commands takes signed packages
/// alone, and refuses any other before its code runs. A package that is built anew is signed anew. Of one that `udo build` did not build, as those
/// in C, the index is written first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  udo sign --new-key team.key                   team.key signs, and is yours alone; team.key.pub is for everybody
  udo sign SoftmaxUdoPackage --key team.key
  udo run model.onnx --package SoftmaxUdoPackage --trust team.key.pub --input x=x.npy")]
pub(crate) struct Sign {
    /// The package's folder, or its dist folder
    #[arg(required_unless_present = "new_key", requires = "key")]
    package: Option<PathBuf>,
    /// The file with the key to sign with
    #[arg(long, value_name = "KEYFILE")]
    key: Option<PathBuf>,
    /// Make a key: this file, which must not be there, and the same with .pub behind it
    #[arg(long, value_name = "KEYFILE", conflicts_with_all = ["package", "key"])]
    new_key: Option<PathBuf>,
}

impl Run for Sign {
    fn run(self) -> Outcome {
        if let Some(path) = &self.new_key {
            let key = SecretKey::generate().map_err(Failure::new)?;
            let public = key.write(path).map_err(|error| {
                Failure::new(error).help("give a name that is free, in a folder that is there")
            })?;
            outln!("{}\n{}", path.display(), public.display());
            return Ok(());
        }
        let (Some(package), Some(key)) = (&self.package, &self.key) else {
            return Err(Failure::usage("a package and the key to sign it with are wanted"));
        };
        let key = SecretKey::read(key).map_err(|error| {
            Failure::new(error).help("`udo sign --new-key KEYFILE` makes a key")
        })?;
        let dist = package.join(DIST_FOLDER);
        let folder = if dist.is_dir() { &dist } else { package };
        seal(folder).map_err(open_failure)?;
        let file = sign(folder, &key).map_err(open_failure)?;
        outln!("{}", file.display());
        Ok(())
    }
}
