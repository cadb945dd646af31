//! Where the SDK checkout is.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::output::Failure;

/// The environment variable that names the checkout.
pub(crate) const VARIABLE: &str = "UDO_ROOT";

/// Where this program was built.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Whether `dir` is a checkout.
pub(crate) fn holds_api(dir: &Path) -> bool {
    dir.join("udo-api/Cargo.toml").is_file()
}

/// The checkout: `UDO_ROOT`, else where this program was built.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    let help = "set UDO_ROOT to the folder of the SDK that holds udo-api";
    let (dir, said_by) = match env::var_os(VARIABLE) {
        Some(dir) => (PathBuf::from(dir), "UDO_ROOT is"),
        None => (PathBuf::from(BUILT_IN), "this udo was built in"),
    };
    if holds_api(&dir) {
        return Ok(std::path::absolute(dir.canonicalize()?)?);
    }
    Err(Failure::new(format!("{said_by} {}, where there is no udo-api", dir.display())).help(help))
}
