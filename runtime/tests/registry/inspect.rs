//! Looking at a package without running it.

use std::fs;

use tempfile::tempdir;
use udo_api::{Core, ParamKind, PortTypes, Side, types};
use udo_engine::package::index::IndexEntry;
use udo_engine::package::{Contents, Listing, Manifest, ManifestRule, Tier, host_target, inspect};
use udo_test_support::packages::*;

#[test]
fn manifests_match_the_tables() {
    let reg = Manifest::read(&scale().reg).unwrap().unwrap();
    assert_eq!((reg.package.as_str(), reg.version.as_str()), ("ScaleUdoPackage", "1.2.0"));
    assert_eq!(reg.heap, Tier::Trapped);
    assert_eq!(reg.target, host_target());
    assert_eq!(reg.libraries[0].core, Core::CPU);
    let op = &reg.ops[0];
    assert_eq!((op.name.as_str(), op.inputs[0].types), ("Scale", types::F32));
    assert!(op.params[0].is_optional);
    assert_eq!((op.params[0].kind, op.params[0].types), (ParamKind::Scalar, types::F32));

    let cpu = Manifest::read(&scale().cpu).unwrap().unwrap();
    assert!(cpu.is_implementation() && !reg.is_implementation());
    let rule = |side, wanted| ManifestRule { side, port: 0, wanted };
    let rules = [
        rule(Side::Input, PortTypes::Types(types::F32)),
        rule(Side::Output, PortTypes::SameAsInput(0)),
    ];
    assert_eq!(cpu.kernels[0].rules, rules);
}

#[test]
fn libraries_are_compared_with_the_index() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let plain = inspect(folder.path()).unwrap();
    assert_eq!(plain.folder, dist);
    let files: Vec<_> = plain.libraries.iter().map(|l| (l.file.as_str(), l.listing)).collect();
    assert_eq!(files, [(SCALE_REG, Listing::NoIndex), (SCALE_CPU, Listing::NoIndex)]);
    let cpu = Manifest::read(&scale().cpu).unwrap().unwrap();
    assert_eq!(plain.libraries[1].contents.as_ref().unwrap(), &Contents::Manifest(Box::new(cpu)));
    assert!(plain.is_sound());

    let mut index = scale_index(&dist);
    index.write(&dist).unwrap();
    let indexed = inspect(folder.path()).unwrap();
    assert_eq!(indexed.index.as_ref(), Some(&index));
    assert!(indexed.is_sound());
    assert_eq!(indexed.libraries[0].sha256.as_ref(), Some(&index.libraries[0].sha256));

    index.libraries[1].sha256 = "0".repeat(64);
    let gone = IndexEntry { file: "libUdoGone.so".to_owned(), ..index.libraries[1].clone() };
    index.libraries.push(gone);
    index.write(&dist).unwrap();
    let changed = inspect(folder.path()).unwrap();
    let listings: Vec<_> = changed.libraries.iter().map(|l| l.listing).collect();
    assert_eq!(listings, [Listing::Same, Listing::Missing, Listing::Changed]);
    let error = changed.libraries[1].contents.as_ref().unwrap_err();
    assert_eq!(message(error, &dist), "cannot read \"*/libUdoGone.so\"");
    assert!(!changed.is_sound());

    index.libraries.truncate(1);
    index.write(&dist).unwrap();
    assert_eq!(inspect(folder.path()).unwrap().libraries[1].listing, Listing::Unlisted);
}

#[test]
fn single_libraries_and_c_packages_can_be_looked_at() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let one = inspect(&dist.join(SCALE_CPU)).unwrap();
    assert_eq!(one.libraries.len(), 1);
    assert_eq!(one.libraries[0].file, SCALE_CPU);

    let path = folder.path().join("c/libUdoCScaleReg.so");
    c_package(&path, &[]);
    let c = inspect(path.parent().unwrap()).unwrap();
    assert_eq!(c.libraries[0].contents.as_ref().unwrap(), &Contents::CPackage);
    fs::remove_file(&path).unwrap();
    let error = inspect(path.parent().unwrap()).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        "folder \"*/c\" contains no registration library, expected a file libUdo*Reg.so"
    );
}
