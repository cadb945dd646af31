//! `udo lock`

use std::env;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use udo_engine::package::{LOCK_FILE, Lock};

use super::Run;
use crate::output::{Failure, Outcome, print_json};
use crate::package_flags::open_failure;

/// Record the digests of packages in a lock file
///
/// The lock file contains the digest of each package's dist/index.json, which contains the digests
/// of its libraries.
///
/// Commands that open packages read udo.lock in the current folder or in the nearest folder above
/// that has one, or the file of their --lock flag. They refuse a package that is missing from the lock file or has changed, before they run
/// any of its code (docs/trust.md).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo lock SoftmaxUdoPackage SeluUdoPackage   adds them to udo.lock, or updates their digests
  udo run model.onnx --package SoftmaxUdoPackage --input x=x.npy")]
pub(crate) struct LockPackages {
    /// Package folders, dist folders or registration libraries
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<PathBuf>,
    /// Create or update this lock file
    ///
    /// The default is udo.lock in the current folder or in the nearest folder above that has one. If
    /// none has, it is created in the current folder.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for LockPackages {
    fn run(self) -> Outcome {
        let wanted = "give the name of a lock file, or of none that is there";
        let found = || env::current_dir().ok().as_deref().and_then(Lock::find);
        let path = self.lock.or_else(found).unwrap_or_else(|| LOCK_FILE.into());
        let known = path.exists().then(|| Lock::read(&path)).transpose();
        let known = known.map_err(|error| Failure::new(error).help(wanted))?;
        let mut lock = known.unwrap_or_default();
        let add = |path: &PathBuf| lock.add(path).map_err(open_failure);
        let locked = self.packages.iter().map(add).collect::<Result<Vec<_>, _>>()?;
        lock.write(&path).map_err(Failure::new)?;
        if self.json {
            let package = |of: &udo_engine::package::LockedPackage| json!({ "package": of.package, "index_sha256": of.index_sha256 });
            print_json(&json!({
                "file": path.to_string_lossy(), "locked": locked.iter().map(package).collect::<Vec<_>>(),
            }));
            return Ok(());
        }
        for package in &locked {
            outln!("{} {}", package.index_sha256, package.package);
        }
        outln!("{}", path.display());
        Ok(())
    }
}
