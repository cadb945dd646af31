//! Where the checkout and its builds are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The folder that the running test was built into, of its profile: `target/debug` or its like.
pub fn built() -> PathBuf {
    // Cargo puts tests and benchmarks into its folder `deps`.
    env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// The folder of builds that the running test was built into: `target` or its like.
pub fn target() -> PathBuf {
    built().parent().unwrap().to_owned()
}

/// Where packages are built, and their dependencies once for all.
pub fn packages_target() -> PathBuf {
    env::var_os("UDO_TARGET_DIR").map_or_else(|| root().join("target/packages"), PathBuf::from)
}

/// A command of cargo on the package in `dir`, which has what packages have in common built already.
pub fn cargo(command: &str, dir: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([command, "--offline", "--target-dir"]).arg(packages_target()).current_dir(dir);
    cargo
}
