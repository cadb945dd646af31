//! A program in C that has packages contained, signed and locked.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use udo_engine::package::index::{Index, IndexEntry, LibraryKind, sha256};
use udo_engine::package::{Lock, SecretKey, host_target, sign};

use super::compile::{C, CXX, run_program, shared};
use super::library::FOLDER;

const FILE: &str = "libUdoFaultsPackageReg.so";

/// Runs this command of cargo's.
#[track_caller]
fn build(folder: &Path, args: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--quiet"]).args(args).current_dir(folder);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The package that does all that no package may, and the worker beside the library, where it is looked for.
fn built() -> PathBuf {
    let root = Path::new(FOLDER).ancestors().nth(2).unwrap();
    let library = super::library::library();
    let profile = library.ancestors().nth(2).and_then(Path::file_name).unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "dev" } else { profile };
    build(root, &["-p", "udo-cli", "--bin", "udo-worker", "--profile", profile]);
    let source = root.join("tests/fixtures/faults");
    // Renamed into place: another test binary may be reading it.
    let lock = tempfile::NamedTempFile::new_in(&source).unwrap();
    fs::copy(root.join("Cargo.lock"), lock.path()).unwrap();
    lock.persist(source.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fixtures");
    build(&source, &["--target-dir", target.to_str().unwrap()]);
    target.join("debug/libfaults_package.so")
}

/// Returns the index that `udo build` would write for the package.
fn index(sha256: String) -> Index {
    let file = FILE.to_owned();
    Index {
        package: "FaultsPackage".to_owned(),
        version: "0.1.0".to_owned(),
        sdk_version: udo_api::SDK_VERSION.to_owned(),
        target: host_target(),
        libraries: vec![IndexEntry {
            file,
            kind: LibraryKind::Registration,
            core: None,
            sha256,
            sources: Vec::new(),
        }],
        made_by: None,
    }
}

#[test]
fn packages_are_contained_signed_and_locked_as_options_say() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = built();
    for name in ["plain", "own", "signed/dist", "changed/dist"] {
        let of = folder.join(name);
        fs::create_dir_all(&of).unwrap();
        fs::copy(&library, of.join(FILE)).unwrap();
    }
    let digest = sha256(&library).unwrap();
    let (signed, changed) = (folder.join("signed/dist"), folder.join("changed/dist"));
    for dist in [&signed, &changed] {
        index(digest.clone()).write(dist).unwrap();
    }
    let mut file = fs::OpenOptions::new().append(true).open(changed.join(FILE)).unwrap();
    file.write_all(&[0]).unwrap();
    let changed = sha256(&changed.join(FILE)).unwrap();

    let key = SecretKey::generate().unwrap();
    key.write(&folder.join("own.key")).unwrap();
    sign(&signed, &key).unwrap();
    SecretKey::generate().unwrap().write(&folder.join("other.key")).unwrap();
    Lock::default().write(&folder.join("empty.lock")).unwrap();
    let mut lock = Lock::default();
    let locked = lock.add(&folder.join("signed")).unwrap().index_sha256;
    lock.write(&folder.join("udo.lock")).unwrap();
    lock.packages[0].index_sha256 = "0".repeat(64);
    lock.write(&folder.join("old.lock")).unwrap();

    let source = format!("{FOLDER}/tests/programs/packages.c");
    let arguments =
        [folder, Path::new(&locked), Path::new(&digest[..16]), Path::new(&changed[..16])];
    for compiler in [C, CXX] {
        let place = tempfile::tempdir().unwrap();
        run_program(compiler, Path::new(&source), &shared(), place.path(), &arguments);
    }
}
