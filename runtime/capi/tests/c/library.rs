//! Where the library lies.

use std::env;
use std::path::PathBuf;

/// The crate's folder.
pub(crate) const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The library as cargo built it for this test.
pub(crate) fn library() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    folder.join(format!("{}udo{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX))
}
