//! `udo sign`

use std::path::PathBuf;

use clap::Args;
use udo_engine::package::{DIST_FOLDER, SecretKey, seal, sign};

use super::Run;
use crate::output::{Failure, Outcome};
use crate::package_flags::open_failure;

/// Sign a built package
///
/// The signature covers dist/index.json, which contains the digest of each library. A command with
/// `--trust KEYFILE.pub` refuses a package that this key did not sign, before it runs any of the
/// package's code (docs/trust.md).
///
/// Sign a package again after each build. If `udo build` did not build the package, because it is
/// written in C for example, the command writes dist/index.json first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo sign --new-key team.key                 keep team.key secret and publish team.key.pub
  udo sign SoftmaxUdoPackage --key team.key
  udo run model.onnx --package SoftmaxUdoPackage --trust team.key.pub --input x=x.npy")]
pub(crate) struct Sign {
    /// Package folder or dist folder
    #[arg(required_unless_present = "new_key", requires = "key")]
    package: Option<PathBuf>,
    /// Sign with the private key in this file
    #[arg(long, value_name = "KEYFILE")]
    key: Option<PathBuf>,
    /// Create a key pair: KEYFILE and KEYFILE.pub
    ///
    /// KEYFILE holds the private key and KEYFILE.pub the public key. The command fails if KEYFILE
    /// exists.
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
            return Err(Failure::usage("a package and the key to sign it with are expected"));
        };
        let key = SecretKey::read(key).map_err(|error| {
            let help = error.help();
            Failure::new(error).help(help)
        })?;
        let dist = package.join(DIST_FOLDER);
        let folder = if dist.is_dir() { &dist } else { package };
        seal(folder).map_err(open_failure)?;
        let file = sign(folder, &key).map_err(open_failure)?;
        outln!("{}", file.display());
        Ok(())
    }
}
