//! Where tests of packages find things.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Where packages are built, and their dependencies once for all.
pub(crate) fn packages_target() -> PathBuf {
    env::var_os("UDO_TARGET_DIR").map_or_else(|| root().join("target/packages"), PathBuf::from)
}

/// A command of cargo on the package in `dir`, which has what packages have in common built already.
pub(crate) fn cargo(command: &str, dir: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([command, "--offline", "--target-dir"]).arg(packages_target()).current_dir(dir);
    cargo
}
