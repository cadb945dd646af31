//! Opening packages, and refusing to.

use std::fs;

use tempfile::tempdir;
use udo_api::abi::{ABI_VERSION, FINGERPRINT, PanicStrategy};
use udo_api::{Core, PackageV1};
use udo_engine::operators::Operators;
use udo_engine::package::{Manifest, Tier, host_target};
use udo_test_support::packages::*;

const REBUILD: &str = "rebuild the package with this SDK: `udo build`";

#[test]
fn a_rust_package_opens_by_folder_dist_and_file() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    for path in [folder.path().to_owned(), dist.clone(), dist.join(SCALE_REG)] {
        let mut operators = Operators::new();
        let id = operators.open(&path).unwrap();
        let package = operators.package(id).unwrap();
        assert_eq!((package.name.as_str(), package.version.as_str()), ("ScaleUdoPackage", "1.2.0"));
        assert_eq!(package.sdk_version, udo_api::SDK_VERSION);
        assert_eq!(package.tier, Tier::Trapped);
        assert_eq!(package.path.as_deref(), Some(dist.join(SCALE_REG).as_path()));
        assert_eq!(package.libraries[0].path, dist.join(SCALE_CPU));
        let ops: Vec<_> = operators.ops_named("Scale").collect();
        assert_eq!(ops.len(), 1);
        assert_eq!(ops[0].package, id);
        assert_eq!(ops[0].def.schema().inputs()[0].name(), "x");
        assert_eq!(operators.ops_named("Shift").count(), 0);
    }
}

/// A link to a registration library is the package that it leads to, unless the other libraries lie next to the link.
#[cfg(unix)]
#[test]
fn a_registration_library_opens_by_a_link() {
    use std::os::unix::fs::symlink;

    let folder = tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let dist = scale_package(&root.join("package"));
    let at = |path: &str| root.join(path);
    let copies = at("copies");
    fs::create_dir(at("links")).unwrap();
    fs::create_dir(&copies).unwrap();
    symlink(dist.join(SCALE_REG), at("links/Reg.so")).unwrap();
    symlink("Reg.so", at("links/again.so")).unwrap();
    for file in [SCALE_REG, SCALE_CPU] {
        symlink(dist.join(file), copies.join(file)).unwrap();
    }
    for is_indexed in [false, true] {
        if is_indexed {
            scale_index(&dist).write(&dist).unwrap();
        }
        for (path, libraries) in [
            (at("links/Reg.so"), &dist),
            (at("links/again.so"), &dist),
            (copies.join(SCALE_REG), if is_indexed { &dist } else { &copies }),
            (copies.clone(), &copies),
        ] {
            let mut operators = Operators::new();
            let id = operators.open(&path).unwrap();
            let package = operators.package(id).unwrap();
            assert_eq!(package.libraries[0].path, libraries.join(SCALE_CPU), "{}", path.display());
            assert_eq!(operators.kernels_for(id, Core::CPU).unwrap().len(), 1);
            assert_eq!(operators.open(&dist).unwrap(), id, "it is the same package");
        }
    }
}

#[test]
fn a_c_package_opens_with_and_without_a_manifest() {
    let folder = tempdir().unwrap();
    let plain = folder.path().join("plain/libUdoCScaleReg.so");
    c_package(&plain, &[("KERNELS", "{UDO_CPU, 0}")]);
    let kernels = r#"{"op":"Scale","core":"cpu","ports":[]}"#;
    let manifest = c_manifest(kernels, "");
    let told = c_package_with_manifest(folder.path(), &manifest, &[("KERNELS", "{UDO_CPU, 0}")]);
    for path in [plain, told] {
        let mut operators = Operators::new();
        let id = operators.open(&path).unwrap();
        let package = operators.package(id).unwrap();
        assert_eq!((package.name.as_str(), package.tier), ("CScale", Tier::Unchecked));
        let kernels = operators.kernels_for(id, Core::CPU).unwrap();
        assert_eq!(kernels.len(), 1);
        assert!(kernels[0].guard.is_none());
    }
}

#[test]
fn opening_twice_changes_nothing() {
    let folder = tempdir().unwrap();
    let dist = scale_package(&folder.path().join("a"));
    let copy = scale_package(&folder.path().join("b"));
    let mut operators = Operators::new();
    let id = operators.open(&dist).unwrap();
    assert_eq!(operators.open(&dist.join(SCALE_REG)).unwrap(), id);
    assert_eq!(operators.open(&copy).unwrap(), id, "the same file elsewhere");
    assert_eq!((operators.packages().count(), operators.ops().len()), (1, 1));
}

#[test]
fn another_package_of_the_same_name_is_refused() {
    let folder = tempdir().unwrap();
    let (one, two) = (folder.path().join("1/libUdoAReg.so"), folder.path().join("2/libUdoAReg.so"));
    c_package(&one, &[]);
    c_package(&two, &[("PACKAGE_VERSION", "\"0.4.0\"")]);
    let mut operators = Operators::new();
    operators.open(&one).unwrap();
    let error = operators.open(&two).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        "package \"CScale\" is already open from library \"*/1/libUdoAReg.so\", found another one in \
         library \"*/2/libUdoAReg.so\""
    );
    assert_eq!(error.help(), "rename one of the two packages");
    assert_eq!(operators.packages().count(), 1);

    fs::remove_file(&one).unwrap();
    fs::copy(&two, &one).unwrap();
    let error = operators.open(&one).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        "library \"*/1/libUdoAReg.so\" has changed since package \"CScale\" was opened from it"
    );
    assert_eq!(error.help(), "restart the program to use the new build");
}

#[test]
fn linked_in_packages_are_checked_and_added_once() {
    static GOOD: PackageV1 = PackageV1::new("Linked", "1.0");
    static SAME_NAME: PackageV1 = PackageV1::new("Linked", "2.0");
    static BAD: PackageV1 = PackageV1::new("not a name", "1.0");
    let mut operators = Operators::new();
    let id = operators.add_static(&GOOD).unwrap();
    assert_eq!(operators.add_static(&GOOD).unwrap(), id);
    assert_eq!(operators.package(id).unwrap().path, None);
    assert_eq!(
        operators.add_static(&SAME_NAME).unwrap_err().to_string(),
        "package \"Linked\" is already open from the runtime itself, found another one in linked-in \
         package \"Linked\""
    );
    assert_eq!(
        operators.add_static(&BAD).unwrap_err().to_string(),
        "linked-in package \"not a name\": its package name is \"not a name\", expected an identifier"
    );
    assert_eq!(operators.packages().count(), 1);
}

#[test]
fn libraries_of_other_builds_are_refused_by_their_manifest() {
    let folder = tempdir().unwrap();
    let fingerprint = format!("{FINGERPRINT:016x}");
    let other = format!("{:016x}", !FINGERPRINT);
    let target = host_target();
    let wrong_target = format!("{}a", &target[..target.len() - 1]);
    let cases = [
        (
            "\"abi_version\":\"2.0\"",
            "\"abi_version\":\"1.0\"",
            "has ABI version 1.0, expected 2.0".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            "\"abi_version\":\"2.0\"",
            "\"abi_version\":  1  ",
            "has ABI version 1.0, expected 2.0".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            "\"abi_version\":\"2.0\"",
            "\"abi_version\":\"2.1\"",
            "has ABI version 2.1, expected 2.0".to_owned(),
            "use a newer runtime, or rebuild the package with this SDK: `udo build`".to_owned(),
        ),
        (
            "\"abi_version\":\"2.0\"",
            "\"abi_version\":\"2-0\"",
            "has a manifest that cannot be read: `abi_version` is \"2-0\", expected a version, such as \"2.0\"".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            &fingerprint,
            &other,
            format!("has layout fingerprint {other}, expected {fingerprint}"),
            REBUILD.to_owned(),
        ),
        (
            &target,
            &wrong_target,
            format!("is built for {wrong_target}, expected {target}"),
            format!("rebuild the package on {target}: `udo build`"),
        ),
        (
            "\"heap\":\"trapped\"",
            "\"heap\":\"tripped\"",
            "has a manifest that cannot be read: `heap` is \"tripped\", expected \"unchecked\" or \"trapped\"".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            "\"panic\":\"unwind\"",
            "\"panic\":\"unwond\"",
            "has a manifest that cannot be read: `panic` is \"unwond\", expected \"unwind\" or \"abort\"".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            "{\"abi_version\"",
            "[\"abi_version\"",
            "has a manifest that cannot be read: expected `,` or `]` at line 1 column 15".to_owned(),
            REBUILD.to_owned(),
        ),
        (
            "\"version\":",
            "\"verzion\":",
            "has a manifest that cannot be read: `version` is missing".to_owned(),
            REBUILD.to_owned(),
        ),
    ];
    assert_eq!(ABI_VERSION.to_string(), "2.0", "the cases patch the digits");
    let path = folder.path().join(SCALE_REG);
    for (from, to, wanted, next) in cases {
        fs::copy(&scale().reg, &path).unwrap();
        patch(&path, from, to);
        let error = refusal(&path);
        assert_eq!(message(&error, folder.path()), format!("library \"*/{SCALE_REG}\" {wanted}"));
        assert_eq!(error.help(), next);
    }
}

#[test]
fn a_library_whose_panics_end_the_process_is_refused() {
    // Only the package's own crate is compiled so: it is the one to ask.
    let flags = ["--", "-C", "panic=abort"];
    let built = cargo_fixture("aborting", "dev", "rustc", &flags).join("libaborting_package.so");
    let error = refusal(&built);
    assert_eq!(
        message(&error, built.parent().unwrap()),
        "library \"*/libaborting_package.so\" is built with panic = \"abort\", expected \"unwind\""
    );
    assert_eq!(
        error.help(),
        "remove `panic = \"abort\"` from the profile in the package's Cargo.toml and rebuild it: `udo build`"
    );
    let manifest = Manifest::read(&built).unwrap().unwrap();
    assert_eq!(manifest.panics, Some(PanicStrategy::Abort), "it can be looked at");
    assert_eq!(Manifest::read(&scale().reg).unwrap().unwrap().panics, Some(PanicStrategy::Unwind));
}

#[test]
fn files_that_are_no_libraries_are_refused() {
    let folder = tempdir().unwrap();
    let good = fs::read(&scale().reg).unwrap();
    let with_byte = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: [(&[u8], &str); 8] = [
        (b"", "\"*/x.so\" is an empty file, expected a shared library"),
        (b"all quiet on the western front", "\"*/x.so\" is a text file, expected a shared library"),
        (b"\x7fELG\x02\x01\x01\0", "\"*/x.so\" is not an ELF file, expected a shared library"),
        (&good[..12], "library \"*/x.so\" is damaged: it ends after 12 bytes, inside its header"),
        (&with_byte(16, 2), "\"*/x.so\" is an ELF file of another type, expected a shared library"),
        (&with_byte(4, 1), "library \"*/x.so\" is built for 32-bit x86_64, expected 64-bit x86_64"),
        (
            &with_byte(18, 183),
            "library \"*/x.so\" is built for 64-bit aarch64, expected 64-bit x86_64",
        ),
        (
            &with_byte(5, 2),
            "library \"*/x.so\" is built for 64-bit big-endian machine 15872, expected 64-bit x86_64",
        ),
    ];
    let path = folder.path().join("x.so");
    for (bytes, wanted) in cases {
        fs::write(&path, bytes).unwrap();
        assert_eq!(message(&refusal(&path), folder.path()), wanted);
    }
    let error = refusal(&folder.path().join("gone.so"));
    assert_eq!(message(&error, folder.path()), "cannot read \"*/gone.so\"");
    assert_eq!(error.help(), "check that the path exists and is accessible");
}

#[test]
fn a_library_cut_anywhere_is_damaged() {
    let folder = tempdir().unwrap();
    let good = fs::read(&scale().reg).unwrap();
    let path = folder.path().join("x.so");
    let steps = (20..64).chain((64..good.len()).step_by(good.len() / 50));
    for len in steps.chain([good.len() - 1]) {
        fs::write(&path, &good[..len]).unwrap();
        let text = message(&refusal(&path), folder.path());
        assert!(text.starts_with("library \"*/x.so\" is damaged: "), "{len}: {text}");
    }
}

#[test]
fn broken_bytes_never_break_the_reader() {
    let folder = tempdir().unwrap();
    let good = fs::read(&scale().reg).unwrap();
    let path = folder.path().join("x.so");
    let table = usize::try_from(u64::from_le_bytes(good[40..48].try_into().unwrap())).unwrap();
    for at in (0..64).chain(table..good.len()) {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        // Refused or read, as the byte matters or not; reading must come to an end without a panic.
        let _ = Manifest::read(&path);
    }
}

#[test]
fn a_library_that_is_no_package_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("libplain.so");
    c_package(&path, &[("NO_QUERY", "1")]);
    let error = refusal(&path);
    assert_eq!(
        message(&error, folder.path()),
        "library \"*/libplain.so\" is not a udo package: it has no manifest and exports no \
         udo_package_query"
    );
    assert_eq!(error.help(), "give a package folder, its dist folder or its registration library");
}

#[test]
fn a_refused_library_never_runs() {
    let folder = tempdir().unwrap();
    let canary = folder.path().join("canary");
    let sings = quoted(&canary);
    let good = c_manifest("", "");
    let wrong = [
        good.replace("\"abi_version\":\"2.0\"", "\"abi_version\":\"9.0\""),
        good.replace("\"needs\":[]", "\"needs\":[\"wings\"]"),
        good.replace(&format!("{FINGERPRINT:016x}"), "0123456789abcdef"),
        good.replace(&host_target(), "hexagon-qurt"),
        good.replace("\"ops\":", "\"opps\":"),
    ];
    for manifest in wrong {
        assert_ne!(manifest, good);
        let path = c_package_with_manifest(folder.path(), &manifest, &[("CANARY", &sings)]);
        let error = refusal(&path);
        assert!(!canary.exists(), "it ran, though {error}");
    }
    let path = c_package_with_manifest(folder.path(), &good, &[("CANARY", &sings)]);
    Operators::new().open(&path).unwrap();
    assert!(canary.exists(), "the constructor works");
}

#[test]
fn packages_with_unknown_requirements_are_refused_by_name() {
    let folder = tempdir().unwrap();
    let manifest = c_manifest("", "").replace("\"needs\":[]", "\"needs\":[\"wings\"]");
    let path = c_package_with_manifest(folder.path(), &manifest, &[]);
    let error = refusal(&path);
    assert_eq!(
        message(&error, folder.path()),
        "library \"*/libUdoCScaleReg.so\" requires \"wings\", which this runtime does not have"
    );
    assert_eq!(error.help(), "use a newer runtime");
}

#[test]
fn items_of_an_earlier_version_may_be_shorter() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("libUdoCScaleReg.so");
    // Its one kernel ends before the reserved fields, with an entry of them in the memory behind.
    let shorter =
        "package.kernels.item_bytes -= sizeof(kernels[0].reserved); kernels[0].reserved[0] = 9";
    c_package(&path, &[("KERNELS", "{UDO_CPU, 0}"), ("QUERY", shorter)]);
    let mut operators = Operators::new();
    let id = operators.open(&path).unwrap();
    let kernels = operators.kernels_for(id, Core::CPU).unwrap();
    assert_eq!((kernels.len(), kernels[0].def.op()), (1, "Scale"));
}

#[test]
fn a_library_that_cannot_be_loaded_says_why_in_its_source() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("libUdoCScaleReg.so");
    c_package(&path, &[("QUERY", "extern void gone(void); gone()")]);
    let error = refusal(&path);
    assert_eq!(message(&error, folder.path()), "library \"*/libUdoCScaleReg.so\" cannot be loaded");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("undefined symbol: gone"), "{source}");
    assert_eq!(
        error.help(),
        "check with `ldd` that the libraries that it depends on are installed"
    );
}

#[test]
fn a_manifest_without_a_door_is_refused_with_the_long_report_as_source() {
    let folder = tempdir().unwrap();
    let manifest = c_manifest("", "");
    let path = c_package_with_manifest(folder.path(), &manifest, &[("NO_QUERY", "1")]);
    let error = refusal(&path);
    assert_eq!(
        message(&error, folder.path()),
        "library \"*/libUdoCScaleReg.so\" does not provide a package: it exports no package"
    );
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("undefined symbol"));
}

#[test]
fn a_package_without_a_table_of_this_version_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("libUdoCScaleReg.so");
    c_package(&path, &[("NO_TABLE", "1")]);
    let error = refusal(&path);
    assert_eq!(
        message(&error, folder.path()),
        "library \"*/libUdoCScaleReg.so\" has no table for ABI version 2.0"
    );
    assert_eq!(error.help(), REBUILD);
}

#[test]
fn a_manifest_that_lies_is_refused() {
    let folder = tempdir().unwrap();
    let good = c_manifest("", "");
    let cases = [
        (
            "\"package\":\"CScale\"",
            "\"package\":\"DScale\"",
            "package name \"CScale\" in its table, but \"DScale\"",
        ),
        (
            "\"version\":\"0.3.0\"",
            "\"version\":\"0.3.1\"",
            "version \"0.3.0\" in its table, but \"0.3.1\"",
        ),
        (
            "\"name\":\"Scale\"",
            "\"name\":\"Shift\"",
            "operators \"Scale\" in its table, but \"Shift\"",
        ),
        (
            "\"kernels\":[]",
            "\"kernels\":[{\"op\":\"Scale\",\"core\":\"gpu\",\"ports\":[]}]",
            "kernels \"\" in its table, but \"Scale:gpu\"",
        ),
    ];
    for (from, to, wanted) in cases {
        let manifest = good.replace(from, to);
        assert_ne!(manifest, good, "{from}");
        let path = c_package_with_manifest(folder.path(), &manifest, &[]);
        assert_eq!(
            message(&refusal(&path), folder.path()),
            format!("library \"*/libUdoCScaleReg.so\" has {wanted} in its manifest")
        );
    }
}

#[test]
fn folders_without_one_registration_library_are_refused() {
    let folder = tempdir().unwrap();
    let error = refusal(folder.path());
    assert_eq!(
        message(&error, folder.path()),
        "folder \"*\" contains no registration library, expected a file libUdo*Reg.so"
    );
    assert_eq!(help(&error, folder.path()), "build the package first: `udo build *`");

    let dist = folder.path().join("dist");
    fs::create_dir(&dist).unwrap();
    for name in ["libUdoAReg.so", "libUdoBReg.so"] {
        fs::write(dist.join(name), "").unwrap();
    }
    let error = refusal(folder.path());
    assert_eq!(
        message(&error, folder.path()),
        "folder \"*/dist\" contains libUdoAReg.so and libUdoBReg.so, expected one registration library"
    );
    assert_eq!(error.help(), "give the path of the one to open");

    fs::write(dist.join("index.json"), "{}").unwrap();
    assert_eq!(
        message(&refusal(folder.path()), folder.path()),
        "index \"*/dist/index.json\" cannot be used: `format` is missing"
    );
}
