//! Where the checkout and its builds are.

use std::env;
use std::path::{Path, PathBuf};

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
