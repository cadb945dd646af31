//! Packages that are signed and pinned: docs/trust.md keeps its promises, and what is not as it was signed or locked does not run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;
use udo_test_support::checkout::root;
use udo_test_support::command::udo;
use udo_test_support::page::follow_in;

const PAGE: &str = include_str!("../../docs/trust.md");

/// The package and its model, built once.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let example = root().join("examples/selu");
    let mut build = Command::new(env!("CARGO_BIN_EXE_udo"));
    let built = build.args(["build", "SeluUdoPackage"]).current_dir(&example).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    example
});

/// A folder with what was built, and the model.
fn copied() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["SeluUdoPackage/dist", "model"] {
        let to = dir.path().join(folder);
        fs::create_dir_all(&to).unwrap();
        copy(&BUILT.join(folder), &to);
    }
    dir
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&path, &to);
        } else if path.extension().is_none_or(|ending| ending != "sig") {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// A folder with the built package, its model, a key, and the package signed by it.
fn folder() -> TempDir {
    let dir = copied();
    succeeds(&dir, &["sign", "--new-key", "own.key"]);
    succeeds(&dir, &["sign", "SeluUdoPackage", "--key", "own.key"]);
    dir
}

#[track_caller]
fn succeeds(dir: &TempDir, args: &[&str]) -> String {
    let (code, out, error) = udo(dir, args);
    assert_eq!(code, Some(0), "{args:?}: {out}{error}");
    out
}

/// Commands that open the package and run it.
fn verify<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let verify = ["verify", "model/model.onnx", "--data", "model", "--atol", "1e-5"];
    [&verify[..], &["--package", "SeluUdoPackage"], more].concat()
}

#[track_caller]
fn refused(dir: &TempDir, args: &[&str], says: &[&str]) {
    let (code, out, error) = udo(dir, args);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{args:?}: {error}");
    for wanted in says {
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
    assert!(error.contains("\nhelp: "), "{error}");
}

#[test]
fn pasted_blocks_of_the_page_run() {
    let dir = copied();
    follow_in(PAGE, dir.path(), |_| ());
}

#[test]
fn a_package_runs_if_one_trusted_key_signed_it_as_it_is() {
    let dir = folder();
    succeeds(&dir, &verify(&["--trust", "own.key.pub"]));
    succeeds(&dir, &["sign", "--new-key", "other.key"]);
    let other = verify(&["--trust", "other.key.pub"]);
    refused(&dir, &other, &["is not trusted: it is signed with", "`udo sign"]);
    // Several files, several keys in one, and several who signed: one is enough.
    succeeds(&dir, &verify(&["--trust", "other.key.pub", "--trust", "own.key.pub"]));
    succeeds(&dir, &["sign", "SeluUdoPackage", "--key", "other.key"]);
    succeeds(&dir, &other);
    succeeds(&dir, &verify(&["--trust", "own.key.pub"]));
    let signatures = dir.path().join("SeluUdoPackage/dist/index.json.sig");
    assert_eq!(fs::read_to_string(&signatures).unwrap().lines().count(), 2);
    // The index is another one than was signed.
    let index = dir.path().join("SeluUdoPackage/dist/index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, format!("{text}\n")).unwrap();
    refused(&dir, &other, &["its signature belongs to another index.json"]);
    succeeds(&dir, &["sign", "SeluUdoPackage", "--key", "own.key"]);
    assert_eq!(fs::read_to_string(&signatures).unwrap().lines().count(), 1, "the old one is gone");
    succeeds(&dir, &verify(&["--trust", "own.key.pub"]));
    fs::remove_file(&signatures).unwrap();
    refused(&dir, &verify(&["--trust", "own.key.pub"]), &["it is not signed"]);
    let digest = succeeds(&dir, &["lock", "SeluUdoPackage", "--lock", "other.lock"]);
    let digest = digest.split_whitespace().next().unwrap();
    fs::write(dir.path().join("allowed"), format!("# ours\nindex-sha256 {digest} selu\n")).unwrap();
    succeeds(&dir, &verify(&["--trust", "allowed"]));
    fs::remove_file(&index).unwrap();
    refused(&dir, &verify(&["--trust", "allowed"]), &["has no index.json, which signatures"]);
}

/// Has `make` build the example in C, of this source.
fn make_in_c(dir: &TempDir, source: &str) {
    let package = dir.path().join("in/c");
    for (from, to) in
        [("examples/c-package", &package), ("udo-api/include", &dir.path().join("udo-api/include"))]
    {
        fs::create_dir_all(to).unwrap();
        copy(&root().join(from), to);
    }
    fs::write(package.join("clip_scale.c"), source).unwrap();
    let mut make = Command::new("make");
    make.arg("-B").arg("-C").arg(&package).env_remove("MAKEFLAGS").env_remove("CFLAGS");
    let compiled = make.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// A C program that opens the package and runs it.
fn verify_in_c<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let model = ["verify", "in/c/model/model.onnx", "--data", "in/c/model", "--package", "in/c"];
    [&model[..], more].concat()
}

#[test]
fn a_package_in_c_is_signed_and_locked_as_others_are() {
    const SOURCE: &str = include_str!("../../examples/c-package/clip_scale.c");
    let dir = tempfile::tempdir().unwrap();
    make_in_c(&dir, SOURCE);
    for key in ["own.key", "other.key"] {
        succeeds(&dir, &["sign", "--new-key", key]);
    }
    refused(&dir, &["lock", "in/c"], &["has no index.json", "udo sign"]);
    succeeds(&dir, &["sign", "in/c", "--key", "own.key"]);
    let index = dir.path().join("in/c/dist/index.json");
    let signed = fs::read_to_string(&index).unwrap();
    for wanted in
        ["\"package\": \"ClipScale\"", "\"made_by\": \"udo sign\"", "libUdoClipScaleReg.so"]
    {
        assert!(signed.contains(wanted), "{signed}");
    }
    succeeds(&dir, &verify_in_c(&["--trust", "own.key.pub"]));
    refused(&dir, &verify_in_c(&["--trust", "other.key.pub"]), &["is not trusted"]);
    // Another signature is of the same index.
    succeeds(&dir, &["sign", "in/c", "--key", "other.key"]);
    assert_eq!(fs::read_to_string(&index).unwrap(), signed);
    succeeds(&dir, &verify_in_c(&["--trust", "own.key.pub"]));
    succeeds(&dir, &["lock", "in/c", "--lock", "c.lock"]);
    succeeds(&dir, &verify_in_c(&["--lock", "c.lock"]));

    // Another build is none that was signed, before it is signed and after.
    let other = SOURCE.replace("node->scale * v", "node->scale * v + 0");
    assert_ne!(other, SOURCE);
    make_in_c(&dir, &other.replace("+ 0", "+ 1e-9f"));
    refused(&dir, &verify_in_c(&["--trust", "own.key.pub"]), &["has SHA-256"]);
    refused(&dir, &verify_in_c(&["--lock", "c.lock"]), &["has SHA-256"]);
    succeeds(&dir, &["sign", "in/c", "--key", "own.key"]);
    assert_ne!(fs::read_to_string(&index).unwrap(), signed);
    succeeds(&dir, &verify_in_c(&["--trust", "own.key.pub", "--atol", "1e-5"]));
    refused(&dir, &verify_in_c(&["--trust", "other.key.pub"]), &["is not trusted"]);
    refused(&dir, &verify_in_c(&["--lock", "c.lock"]), &["has an index.json with SHA-256"]);
}

#[test]
fn a_library_that_changed_is_refused_however_it_was_signed() {
    let dir = folder();
    let library = dir.path().join("SeluUdoPackage/dist/libUdoSeluUdoPackageImplCpu.so");
    let mut bytes = fs::read(&library).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&library, bytes).unwrap();
    refused(&dir, &verify(&["--trust", "own.key.pub"]), &["has SHA-256"]);
    refused(&dir, &["sign", "SeluUdoPackage", "--key", "own.key"], &["has SHA-256"]);
    refused(&dir, &["lock", "SeluUdoPackage"], &["has SHA-256"]);
    assert!(!dir.path().join("udo.lock").exists());
}

#[test]
fn a_locked_package_runs_as_it_was_locked_and_no_other_one_does() {
    let dir = folder();
    succeeds(&dir, &["lock", "SeluUdoPackage"]);
    succeeds(&dir, &verify(&[]));
    let lock = dir.path().join("udo.lock");
    let text = fs::read_to_string(&lock).unwrap();
    let locked: serde_json::Value = serde_json::from_str(&text).unwrap();
    let digest = locked["packages"][0]["index_sha256"].as_str().unwrap();
    fs::write(&lock, text.replace(digest, &"0".repeat(64))).unwrap();
    refused(&dir, &verify(&[]), &[digest, &"0".repeat(64), "from \"udo.lock\""]);
    // Models without packages need none.
    fs::write(
        dir.path().join("net.graph"),
        "graph n\n  input x: f32[1]\n  y = Relu@14(x)\n  output y\n",
    )
    .unwrap();
    succeeds(&dir, &["explain", "net.graph"]);
    fs::write(&lock, "{\"format\": 1, \"packages\": []}").unwrap();
    refused(&dir, &verify(&[]), &["package \"SeluUdoPackage\" is not in \"udo.lock\"", "udo lock"]);
    for wrong in ["", "{}", "{\"format\": 2, \"packages\": []}"] {
        fs::write(&lock, wrong).unwrap();
        refused(&dir, &verify(&[]), &["lock file \"udo.lock\" cannot be read"]);
    }
    succeeds(&dir, &["lock", "SeluUdoPackage", "--lock", "other.lock"]);
    succeeds(&dir, &verify(&["--lock", "other.lock"]));
    refused(&dir, &verify(&["--lock", "none.lock"]), &["\"none.lock\" cannot be used"]);
}

#[test]
fn existing_keys_are_kept_and_invalid_keys_are_refused() {
    let dir = folder();
    let key = dir.path().join("own.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&key).unwrap();
    refused(&dir, &["sign", "--new-key", "own.key"], &["own.key"]);
    assert_eq!(fs::read(&key).unwrap(), before);
    let sign = |key| ["sign", "SeluUdoPackage", "--key", key];
    refused(&dir, &sign("own.key.pub"), &["it is a public key, expected a secret key"]);
    refused(&dir, &sign("none.key"), &["key file \"none.key\" cannot be read"]);
    refused(&dir, &["sign", "model", "--key", "own.key"], &["contains no registration library"]);
    refused(&dir, &verify(&["--trust", "own.key"]), &["line 1: it is a secret key"]);
    for (text, says) in [
        ("\n# keys\nhello", "line 3: found \"hello\""),
        ("udo-public-ed25519 12", "line 1: found \"12\", expected 64 hexadecimal digits"),
        ("index-sha256 zz", "expected 64 hexadecimal digits"),
    ] {
        fs::write(dir.path().join("keys"), text).unwrap();
        refused(&dir, &verify(&["--trust", "keys"]), &[says]);
    }
    // A file without a key trusts nobody.
    fs::write(dir.path().join("keys"), "# nobody yet\n").unwrap();
    refused(&dir, &verify(&["--trust", "keys"]), &["is not trusted"]);
    let signatures = dir.path().join("SeluUdoPackage/dist/index.json.sig");
    fs::write(&signatures, "ed25519 12 34\n").unwrap();
    refused(&dir, &verify(&["--trust", "own.key.pub"]), &["line 1: "]);
    let (code, _, error) = udo(&dir, &["sign", "SeluUdoPackage"]);
    assert!(code == Some(2) && error.contains("--key"), "{error}");
}

#[test]
fn the_nearest_lock_file_above_the_current_folder_counts() {
    let dir = folder();
    succeeds(&dir, &["lock", "SeluUdoPackage"]);
    let deep = dir.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    let deep = tempfile::tempdir_in(&deep).unwrap();
    let package = dir.path().join("SeluUdoPackage");
    let (package, model) = (package.to_str().unwrap(), dir.path().join("model"));
    let file = model.join("model.onnx");
    let args = [
        "verify",
        file.to_str().unwrap(),
        "--data",
        model.to_str().unwrap(),
        "--atol",
        "1e-5",
        "--package",
        package,
    ];
    let lock = dir.path().join("udo.lock");
    let (code, _, error) = udo(&deep, &args);
    assert_eq!(code, Some(0), "{error}");
    assert!(error.contains(&format!("are checked against {}", lock.display())), "{error}");

    // Another build of the package: its index differs by a line break.
    let index = dir.path().join("SeluUdoPackage/dist/index.json");
    fs::write(&index, fs::read_to_string(&index).unwrap() + "\n").unwrap();
    refused(&deep, &args, &["SeluUdoPackage", "udo.lock"]);

    // `udo lock` updates the file of the project, and creates none below it.
    let out = succeeds(&deep, &["lock", package]);
    assert!(out.contains(lock.to_str().unwrap()), "{out}");
    assert!(!deep.path().join("udo.lock").exists());
    assert_eq!(udo(&deep, &args).0, Some(0));
}

#[test]
fn secret_keys_that_others_can_read_are_refused() {
    let dir = copied();
    succeeds(&dir, &["sign", "--new-key", "own.key"]);
    let key = dir.path().join("own.key");
    for mode in [0o640, 0o604] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let says = ["other users can read the secret key \"own.key\"", "help: `chmod 600 KEYFILE`"];
        refused(&dir, &["sign", "SeluUdoPackage", "--key", "own.key"], &says);
        assert!(!dir.path().join("SeluUdoPackage/dist/index.json.sig").exists());
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    succeeds(&dir, &["sign", "SeluUdoPackage", "--key", "own.key"]);
}

/// A FIFO without a writer blocks whoever opens it carelessly.
#[test]
fn fifos_in_the_place_of_files_are_refused_at_once() {
    let dir = folder();
    for name in ["index.json.sig", "index.json", "libUdoSeluUdoPackageReg.so"] {
        let path = dir.path().join("SeluUdoPackage/dist").join(name);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        refused(&dir, &verify(&["--trust", "own.key.pub"]), &["regular file"]);
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
    }
    assert_eq!(udo(&dir, &verify(&["--trust", "own.key.pub"])).0, Some(0));
}
