//! Any file is a library with a manifest, one without, or an error.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use udo_engine::package::Manifest;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let path = FOLDER.path().join("library.so");
    fs::write(&path, bytes).expect("a file");
    if let Err(error) = Manifest::read(&path) {
        std::hint::black_box(error.to_string());
    }
});
