//! Implementation libraries, opened when a core first needs them.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::tempdir;
use udo_api::Core;
use udo_engine::operators::Operators;
use udo_engine::package::PackageId;
use udo_engine::package::index::sha256;
use udo_runtime::package::OpenError;
use udo_test_support::packages::*;

#[test]
fn kernels_come_from_the_library_of_their_core_with_its_guard() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let mut operators = Operators::new();
    let id = operators.open(&dist).unwrap();
    for _ in 0..2 {
        let kernels = operators.kernels_for(id, Core::CPU).unwrap();
        assert_eq!(kernels.len(), 1);
        assert_eq!((kernels[0].def.op(), kernels[0].def.core()), ("Scale", Core::CPU));
        let guard = kernels[0].guard.unwrap();
        assert!(!guard.cell().is_null());
        assert_eq!(guard.cell(), guard.cell(), "a thread has one guard");
    }
    assert!(operators.kernels_for(id, Core::GPU).unwrap().is_empty(), "nothing for it, no error");
}

#[test]
fn a_missing_library_is_named_and_can_be_added_later() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    fs::remove_file(dist.join(SCALE_CPU)).unwrap();
    let mut operators = Operators::new();
    let id = operators.open(&dist).unwrap();
    let error = operators.kernels_for(id, Core::CPU).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        format!("package \"ScaleUdoPackage\" has no library for cpu at \"*/dist/{SCALE_CPU}\"")
    );
    assert_eq!(help(&error, folder.path()), "build it for cpu: `udo build *`");
    fs::copy(&scale().cpu, dist.join(SCALE_CPU)).unwrap();
    assert_eq!(operators.kernels_for(id, Core::CPU).unwrap().len(), 1);
}

#[test]
fn an_implementation_library_is_not_a_package() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let error = refusal(&dist.join(SCALE_CPU));
    assert_eq!(
        message(&error, folder.path()),
        format!(
            "library \"*/dist/{SCALE_CPU}\" contains only kernels for cpu, expected a registration library"
        )
    );
    assert_eq!(help(&error, folder.path()), format!("open \"*/dist/{SCALE_REG}\" instead"));

    let dsp = folder.path().join("c/dsp_v68/libUdoCScaleImplDsp.so");
    c_package(&dsp, &[("NO_OPS", "1"), ("KERNELS", "{UDO_DSP, 68}")]);
    fs::write(folder.path().join("c/libUdoCScaleReg.so"), "").unwrap();
    let error = refusal(&dsp);
    assert_eq!(help(&error, folder.path()), "open \"*/c/libUdoCScaleReg.so\" instead");
}

/// A C package that names a library per DSP architecture given; none of them is there yet.
fn dsp_package(folder: &Path, archs: &[u16]) -> (Operators, PackageId) {
    let entry = |arch| {
        format!(
            "{{.core = {{UDO_DSP, {arch}}}, .file = UDO_TEXT(\"dsp_v{arch}/libUdoCScaleImplDsp.so\")}}"
        )
    };
    let entries: Vec<String> = archs.iter().map(entry).collect();
    let path = folder.join("libUdoCScaleReg.so");
    c_package(&path, &[("LIBRARIES", &entries.join(", "))]);
    let mut operators = Operators::new();
    let id = operators.open(&path).unwrap();
    (operators, id)
}

fn dsp_library(folder: &Path, arch: u16) -> PathBuf {
    folder.join(format!("dsp_v{arch}/libUdoCScaleImplDsp.so"))
}

#[test]
fn a_dsp_takes_the_highest_architecture_that_it_can_run() {
    let folder = tempdir().unwrap();
    let (operators, id) = dsp_package(folder.path(), &[68, 66, 73]);
    for arch in [66, 68] {
        let core = format!("{{UDO_DSP, {arch}}}");
        let path = dsp_library(folder.path(), arch);
        c_package(&path, &[("NO_OPS", "1"), ("KERNELS", &core)]);
    }
    let best = |arch| -> Result<Vec<Core>, OpenError> {
        let kernels = operators.kernels_for(id, Core::dsp(arch))?;
        Ok(kernels.iter().map(|k| k.def.core()).collect())
    };
    assert_eq!(best(65).unwrap(), []);
    assert_eq!(best(66).unwrap(), [Core::dsp(66)]);
    assert_eq!(best(69).unwrap(), [Core::dsp(68)]);
    let error = best(75).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        "package \"CScale\" has no library for dsp:v73 at \"*/dsp_v73/libUdoCScaleImplDsp.so\""
    );
}

#[test]
fn a_registration_library_may_hold_kernels_itself() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("libUdoCScaleReg.so");
    c_package(&path, &[("KERNELS", "{UDO_DSP, 66}, {UDO_DSP, 68}, {UDO_CPU, 0}")]);
    let mut operators = Operators::new();
    let id = operators.open(&path).unwrap();
    for (core, wanted) in [(Core::DSP_V68, Core::DSP_V68), (Core::dsp(67), Core::dsp(66))] {
        let kernels = operators.kernels_for(id, core).unwrap();
        let cores: Vec<Core> = kernels.iter().map(|k| k.def.core()).collect();
        assert_eq!(cores, [wanted]);
    }
}

#[test]
fn libraries_of_other_packages_builds_and_cores_are_refused() {
    let file = "library \"*/dsp_v68/libUdoCScaleImplDsp.so\"";
    let cases: [(&[(&str, &str)], &str); 4] = [
        (
            &[("PACKAGE_NAME", "\"Other\""), ("KERNELS", "{UDO_DSP, 68}")],
            "has package name \"Other\", expected \"CScale\" as in its registration library",
        ),
        (
            &[("PACKAGE_VERSION", "\"0.2.9\""), ("KERNELS", "{UDO_DSP, 68}")],
            "has version \"0.2.9\", expected \"0.3.0\" as in its registration library",
        ),
        (
            &[
                ("KERNELS", "{UDO_DSP, 68}"),
                ("QUERY", "package.sdk_version = (udo_str)UDO_TEXT(\"9.9\")"),
            ],
            "has SDK version \"9.9\", expected \"0.1.0\" as in its registration library",
        ),
        (
            &[("KERNELS", "{UDO_DSP, 68}, {UDO_CPU, 0}")],
            "has a kernel of \"Scale\" for cpu, expected kernels for dsp:v68",
        ),
    ];
    for (definitions, wanted) in cases {
        let folder = tempdir().unwrap();
        let (operators, id) = dsp_package(folder.path(), &[68]);
        let mut all = vec![("NO_OPS", "1")];
        all.extend_from_slice(definitions);
        c_package(&dsp_library(folder.path(), 68), &all);
        let error = operators.kernels_for(id, Core::DSP_V68).unwrap_err();
        assert_eq!(message(&error, folder.path()), format!("{file} {wanted}"));
    }
    let folder = tempdir().unwrap();
    let (operators, id) = dsp_package(folder.path(), &[68]);
    c_package(&dsp_library(folder.path(), 68), &[("NO_OPS", "1")]);
    let error = operators.kernels_for(id, Core::DSP_V68).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        format!("{file}: it has no kernels, expected kernels for dsp:v68")
    );
}

/// Puts other bytes in the place of a library that may be loaded, whose own bytes must stay.
fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_library_that_is_not_as_built_never_runs() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let index = scale_index(&dist);
    index.write(&dist).unwrap();
    let as_built = |core| -> Result<usize, OpenError> {
        let mut operators = Operators::new();
        let id = operators.open(folder.path())?;
        operators.kernels_for(id, core).map(|kernels| kernels.len())
    };
    assert_eq!(as_built(Core::CPU).unwrap(), 1);

    let digest = |file: &str| sha256(&dist.join(file)).unwrap()[..16].to_owned();
    for file in [SCALE_REG, SCALE_CPU] {
        let wanted = digest(file);
        let built = fs::read(dist.join(file)).unwrap();
        // Loaders do not mind what follows a library in its file.
        replace(&dist.join(file), &[&built[..], b"garbage"].concat());
        let error = as_built(Core::CPU).unwrap_err();
        assert_eq!(
            message(&error, folder.path()),
            format!(
                "library \"*/dist/{file}\" has SHA-256 {}.., expected {wanted}.. from its folder's index.json",
                digest(file)
            )
        );
        assert_eq!(error.help(), "rebuild the package with this SDK: `udo build`");
        replace(&dist.join(file), &built);
    }
    assert_eq!(as_built(Core::CPU).unwrap(), 1);

    for (at, file) in [(1, SCALE_CPU), (0, SCALE_REG)] {
        let mut fewer = index.clone();
        fewer.libraries.remove(at);
        fewer.write(&dist).unwrap();
        let mut operators = Operators::new();
        let error = operators
            .open(&dist.join(SCALE_REG))
            .and_then(|id| operators.kernels_for(id, Core::CPU).map(|kernels| kernels.len()))
            .unwrap_err();
        assert_eq!(
            message(&error, folder.path()),
            format!("library \"*/dist/{file}\" is not listed in \"*/dist/index.json\"")
        );
    }

    // With the libraries of the runs before it still loaded, nothing tells whether this one runs
    // but a file that its constructor makes.
    let canary = folder.path().join("canary");
    let path = dist.join(SCALE_REG);
    fs::remove_file(&path).unwrap();
    c_package(&path, &[("CANARY", &quoted(&canary))]);
    index.write(&dist).unwrap();
    assert!(matches!(refusal(&path), OpenError::Digest { .. }));
    assert!(!canary.exists());
}

#[test]
fn a_library_is_read_once_for_all_clones() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    scale_index(&dist).write(&dist).unwrap();
    let mut first = Operators::new();
    let id = first.open(folder.path()).unwrap();
    let mut second = first.clone();
    let of = |operators: &Operators| {
        let kernels = operators.kernels_for(id, Core::CPU).unwrap();
        kernels.iter().map(|kernel| std::ptr::from_ref(kernel.def)).collect::<Vec<_>>()
    };
    let kernels = of(&mut first);
    let built = fs::read(dist.join(SCALE_CPU)).unwrap();
    replace(&dist.join(SCALE_CPU), &[&built[..], b"garbage"].concat());
    assert_eq!((of(&mut second), kernels.len()), (kernels, 1));
    let mut operators = Operators::new();
    let id = operators.open(folder.path()).map_err(|error| error.to_string());
    let error = id.and_then(|id| {
        operators
            .kernels_for(id, Core::CPU)
            .map(|kernels| kernels.len())
            .map_err(|error| error.to_string())
    });
    assert!(error.unwrap_err().contains("has SHA-256"));
}

#[test]
fn a_wrong_implementation_library_never_runs() {
    let folder = tempdir().unwrap();
    let dist = scale_package(folder.path());
    let mut operators = Operators::new();
    let id = operators.open(&dist).unwrap();
    let canary = folder.path().join("canary");
    let manifest = c_manifest("{\"op\":\"Scale\",\"core\":\"cpu\",\"ports\":[]}", "");
    let definitions = [("KERNELS", "{UDO_CPU, 0}"), ("CANARY", &quoted(&canary))];
    let stray = c_package_with_manifest(folder.path(), &manifest, &definitions);
    fs::copy(stray, dist.join(SCALE_CPU)).unwrap();
    let error = operators.kernels_for(id, Core::CPU).unwrap_err();
    assert_eq!(
        message(&error, folder.path()),
        format!(
            "library \"*/dist/{SCALE_CPU}\" has package name \"CScale\", expected \"ScaleUdoPackage\" as in its registration library"
        )
    );
    assert!(!canary.exists());
}

#[test]
fn ids_of_other_registries_are_refused() {
    let folder = tempdir().unwrap();
    let mut operators = Operators::new();
    let id = operators.open(&scale_package(folder.path())).unwrap();
    let error =
        Operators::new().kernels_for(id, Core::CPU).map(|kernels| kernels.len()).unwrap_err();
    assert_eq!(error.to_string(), "package 0 does not exist");
}
