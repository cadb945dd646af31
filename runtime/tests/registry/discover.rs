//! Finding packages by their manifests.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::tempdir;
use udo_engine::operators::Operators;
use udo_engine::package::discover;
use udo_test_support::packages::*;

#[test]
fn a_thousand_packages_are_found_in_order() {
    let folder = tempdir().unwrap();
    let first = folder.path().join("p0000");
    fs::create_dir(&first).unwrap();
    fs::copy(&scale().reg, first.join(SCALE_REG)).unwrap();
    for at in 1..1000 {
        let dist = folder.path().join(format!("p{at:04}"));
        fs::create_dir(&dist).unwrap();
        fs::hard_link(first.join(SCALE_REG), dist.join(SCALE_REG)).unwrap();
    }
    let start = std::time::Instant::now();
    let found = discover(folder.path());
    println!("scanned {} packages in {:?}", found.packages.len(), start.elapsed());
    assert_eq!(found.skipped, []);
    assert_eq!(found.packages.len(), 1000);
    for (at, package) in found.packages.iter().enumerate() {
        assert_eq!(package.path, folder.path().join(format!("p{at:04}")).join(SCALE_REG));
        assert_eq!(package.manifest.ops[0].name, "Scale");
    }
    let start = std::time::Instant::now();
    Operators::new().open(&first).unwrap();
    println!("opened one package in {:?}", start.elapsed());
}

#[test]
fn unusable_packages_are_skipped_with_a_reason() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    scale_package(&at("good"));
    fs::write(at("libUdoTextReg.so"), "not a library").unwrap();
    c_package(&at("c/libUdoCScaleReg.so"), &[]);
    scale_package(&at("old"));
    patch(&at("old/dist").join(SCALE_REG), "\"abi_version\":\"2.0\"", "\"abi_version\":\"1.0\"");
    fs::create_dir(at("loops")).unwrap();
    symlink(folder.path(), at("loops/back")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    symlink(at("good"), at("good_again")).unwrap();
    scale_package(&at(".hidden"));
    scale_package(&at("target"));
    fs::write(at("target/CACHEDIR.TAG"), "").unwrap();

    let found = discover(folder.path());
    let paths: Vec<_> = found.packages.iter().map(|p| p.path.clone()).collect();
    assert_eq!(paths, [at("good/dist").join(SCALE_REG)]);
    let shown = |text: String| text.replace(folder.path().to_str().unwrap(), "*");
    let skipped =
        found.skipped.iter().map(|s| shown(format!("{}: {}", s.path.display(), s.reason)));
    assert_eq!(
        skipped.collect::<Vec<_>>(),
        [
            "*/c/libUdoCScaleReg.so: it has no manifest, so its content is unknown until it is opened",
            "*/dangling: it cannot be read: No such file or directory (os error 2)",
            "*/libUdoTextReg.so: \"*/libUdoTextReg.so\" is a text file, expected a shared library",
            "*/loops/back: it links back to \"*\"",
            "*/old/dist/libUdoScaleUdoPackageReg.so: library \
             \"*/old/dist/libUdoScaleUdoPackageReg.so\" has ABI version 1.0, expected 2.0",
        ]
    );
}

#[test]
fn packages_that_are_not_as_their_index_says_are_skipped() {
    let folder = tempdir().unwrap();
    let dist_of = |name: &str| {
        let dist = scale_package(&folder.path().join(name));
        scale_index(&dist).write(&dist).unwrap();
        dist
    };
    let good = dist_of("good");
    let incomplete = dist_of("incomplete");
    fs::remove_file(incomplete.join(SCALE_CPU)).unwrap();
    for (name, file) in [("kernels", SCALE_CPU), ("schema", SCALE_REG)] {
        let path = dist_of(name).join(file);
        let built = fs::read(&path).unwrap();
        fs::write(&path, [&built[..], b"garbage"].concat()).unwrap();
    }
    let unlisted = dist_of("unlisted");
    let mut index = scale_index(&unlisted);
    index.libraries.retain(|library| library.file != SCALE_REG);
    index.write(&unlisted).unwrap();
    fs::write(dist_of("wrong").join("index.json"), "{}").unwrap();

    let found = discover(folder.path());
    let paths: Vec<_> = found.packages.iter().map(|p| p.path.clone()).collect();
    assert_eq!(paths, [good.join(SCALE_REG), incomplete.join(SCALE_REG)]);
    let wanted = [
        ("kernels", "ImplCpu.so\" has SHA-256 "),
        ("schema", "Reg.so\" has SHA-256 "),
        ("unlisted", "Reg.so\" is not listed in "),
        ("wrong", "index.json"),
    ];
    assert_eq!(found.skipped.len(), wanted.len(), "{:?}", found.skipped);
    for (skipped, (name, reason)) in found.skipped.iter().zip(wanted) {
        assert_eq!(skipped.path, folder.path().join(name).join("dist").join(SCALE_REG));
        assert!(skipped.reason.contains(reason), "{skipped:?}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_reported() {
    let folder = tempdir().unwrap();
    let found = discover(&folder.path().join("gone"));
    assert_eq!(found.packages, []);
    assert_eq!(
        found.skipped[0].reason,
        "it cannot be read: No such file or directory (os error 2)"
    );
}
