//! Fixture packages: one in Rust, built once, and any number in C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use udo_api::Core;
use udo_api::abi::{ABI_VERSION, FINGERPRINT};
use udo_engine::operators::Operators;
use udo_engine::package::host_target;
use udo_engine::package::index::{Index, IndexEntry, LibraryKind, sha256};
use udo_runtime::package::OpenError;

pub use crate::fixture::*;

/// The file of its registration library.
pub const SCALE_REG: &str = "libUdoScaleUdoPackageReg.so";
/// The file of its library for the CPU.
pub const SCALE_CPU: &str = "libUdoScaleUdoPackageImplCpu.so";

/// The libraries of the Rust fixture: registration and CPU.
#[derive(Debug)]
pub struct Scale {
    /// Of registration.
    pub reg: PathBuf,
    /// For the CPU.
    pub cpu: PathBuf,
}

/// The Rust fixture, built once.
pub fn scale() -> &'static Scale {
    static BUILT: OnceLock<Scale> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = build_fixture("scale", "dev");
        let file = |part| built.join(format!("libscale_udo_package_{part}.so"));
        Scale { reg: file("reg"), cpu: file("cpu") }
    })
}

/// The Rust fixture as `udo build` would gather it, in `folder/dist`.
pub fn scale_package(folder: &Path) -> PathBuf {
    let dist = folder.join("dist");
    fs::create_dir_all(&dist).unwrap();
    fs::copy(&scale().reg, dist.join(SCALE_REG)).unwrap();
    fs::copy(&scale().cpu, dist.join(SCALE_CPU)).unwrap();
    dist
}

/// The index that `udo build` would write for it.
pub fn scale_index(dist: &Path) -> Index {
    let entry = |file: &str, kind, core| IndexEntry {
        file: file.to_owned(),
        kind,
        core,
        sha256: sha256(&dist.join(file)).unwrap(),
        sources: Vec::new(),
    };
    Index {
        package: "ScaleUdoPackage".to_owned(),
        version: "1.2.0".to_owned(),
        sdk_version: udo_api::SDK_VERSION.to_owned(),
        target: host_target(),
        libraries: vec![
            entry(SCALE_REG, LibraryKind::Registration, None),
            entry(SCALE_CPU, LibraryKind::Implementation, Some(Core::CPU)),
        ],
        made_by: None,
    }
}

/// Replaces the only `from` in the file by `to`, which is as long.
pub fn patch(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(path).unwrap();
    let found: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter_map(|(at, window)| (window == from.as_bytes()).then_some(at))
        .collect();
    assert!(!found.is_empty(), "{from:?} is not in {}", path.display());
    for at in found {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    fs::write(path, bytes).unwrap();
}

/// Compiles the C fixture to `path` with these `-D` definitions.
pub fn c_package(path: &Path, definitions: &[(&str, &str)]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(path);
    cc.arg("-I").arg(root().join("udo-api/include"));
    for (name, value) in definitions {
        cc.arg(format!("-D{name}={value}"));
    }
    run(cc.arg(fixtures().join("c/package.c")));
}

/// A C text literal, for a definition.
pub fn quoted(text: impl AsRef<Path>) -> String {
    format!("\"{}\"", text.as_ref().display())
}

/// The manifest that the C fixture would have; `kernels` and `libraries` are JSON.
pub fn c_manifest(kernels: &str, libraries: &str) -> String {
    format!(
        r#"{{"abi_version":"{ABI_VERSION}","fingerprint":"{FINGERPRINT:016x}","needs":[],"package":"CScale","version":"0.3.0","sdk_version":"{sdk}","target":"{target}","heap":"unchecked","ops":[{{"name":"Scale","domain":"","inputs":[{{"name":"x","types":["f32"],"optional":false,"static":false,"repeated":false}}],"outputs":[{{"name":"y","types":["f32"],"optional":false,"static":false,"repeated":false}}],"params":[{{"name":"factor","kind":"scalar","types":["f32"],"optional":true}}]}}],"kernels":[{kernels}],"libraries":[{libraries}]}}
"#,
        sdk = udo_api::SDK_VERSION,
        target = host_target(),
    )
}

/// The C fixture with this manifest and these definitions, at `folder/libUdoCScaleReg.so`.
pub fn c_package_with_manifest(
    folder: &Path,
    manifest: &str,
    definitions: &[(&str, &str)],
) -> PathBuf {
    let (path, text) = (folder.join("libUdoCScaleReg.so"), folder.join("manifest.json"));
    fs::write(&text, manifest).unwrap();
    let text = quoted(text);
    let mut all = vec![("MANIFEST", text.as_str())];
    all.extend_from_slice(definitions);
    c_package(&path, &all);
    path
}

/// Opens the package at `path`, which must be refused without a trace, and returns the error.
pub fn refusal(path: &Path) -> OpenError {
    let mut operators = Operators::new();
    let error = operators.open(path).unwrap_err();
    assert_eq!(operators.packages().count(), 0, "{error}");
    assert!(operators.ops().is_empty(), "{error}");
    error
}

/// The message with `folder` replaced by `*`.
pub fn message(error: &OpenError, folder: &Path) -> String {
    error.to_string().replace(folder.to_str().unwrap(), "*")
}

/// The next step with `folder` replaced by `*`.
pub fn help(error: &OpenError, folder: &Path) -> String {
    error.help().replace(folder.to_str().unwrap(), "*")
}
