//! The library files, and opening them.

use std::collections::BTreeSet;
use std::path::Path;

use udo_api::{OpSchema, Param, Port};
use udo_engine::package::{
    Contents, InspectedLibrary, Listing, Manifest, ManifestOp, ManifestPort, inspect,
};
use udo_runtime::builtin_operators;

use super::{Finding, Outcome, chain, failed, not_applicable, skipped};
use crate::context::PackageContext;
use crate::elf;
use crate::raw::surroundings::Surroundings;
use crate::subject::Opened;

pub(super) fn open(cx: &PackageContext) -> Result<Opened, Finding> {
    Opened::open(&cx.place).map_err(|error| Finding::Failed(chain(&error)))
}

pub(super) fn opens(cx: &PackageContext) -> Outcome {
    let opened = open(cx)?;
    for core in opened.cores() {
        let Some(package) = opened.package else { continue };
        if let Err(error) = opened.registry.kernels_for(package, core) {
            return failed(format!("the kernels for {core} do not open: {}", chain(&error)));
        }
    }
    Ok(())
}

fn libraries(cx: &PackageContext) -> Result<Vec<InspectedLibrary>, Finding> {
    let Some(path) = cx.path() else {
        return not_applicable("built-in operators are not a library");
    };
    inspect(path).map(|found| found.libraries).map_err(|error| Finding::Failed(chain(&error)))
}

pub(super) fn digests(cx: &PackageContext) -> Outcome {
    for library in libraries(cx)? {
        let file = &library.file;
        match library.listing {
            Listing::Same => {}
            Listing::NoIndex => return skipped("the package has no index.json with digests"),
            Listing::Unlisted => return failed(format!("{file} is not in the index")),
            Listing::Changed => {
                return failed(format!("{file} differs from its digest in the index"));
            }
            Listing::Missing => return failed(format!("{file} is missing")),
        }
    }
    Ok(())
}

pub(super) fn manifest(cx: &PackageContext) -> Outcome {
    let mut manifests = Vec::new();
    for library in libraries(cx)? {
        match library.contents {
            Ok(Contents::Manifest(manifest)) => manifests.push(*manifest),
            Ok(Contents::CPackage) => {
                let why = "has no manifest, so it cannot be inspected without running its code";
                return Err(Finding::Warning(format!("{} {why}", library.file)));
            }
            Err(error) => return failed(chain(&error)),
        }
    }
    let opened = open(cx)?;
    let described: Vec<&ManifestOp> = manifests.iter().flat_map(|manifest| &manifest.ops).collect();
    for op in opened.ops() {
        let name = op.schema().name();
        let Some(of) =
            described.iter().find(|of| of.name == name && of.domain == op.schema().domain())
        else {
            return failed(format!("the manifest does not have operator {name}"));
        };
        if let Some(why) = first_difference(of, op.schema()) {
            return failed(format!("the manifest and the table differ in operator {name}: {why}"));
        }
    }
    kernels_alike(&opened, &manifests)
}

/// Describes the first difference between a manifest and a schema.
fn first_difference(manifest: &ManifestOp, schema: &OpSchema) -> Option<String> {
    let port = |port: &Port| ManifestPort {
        name: port.name().to_owned(),
        types: port.types(),
        is_optional: port.is_optional(),
        is_static: port.wants_constant(),
        is_repeated: port.is_repeated(),
    };
    let sides = [
        ("inputs", &manifest.inputs, schema.inputs()),
        ("outputs", &manifest.outputs, schema.outputs()),
    ];
    for (side, described, ports) in sides {
        let ports: Vec<ManifestPort> = ports.iter().map(port).collect();
        if *described != ports {
            return Some(format!("{side} are {described:?} and {ports:?}"));
        }
    }
    let alike = |(described, param): (&udo_engine::package::ManifestParam, &Param)| {
        described.name == param.name()
            && Some(described.kind) == param.kind()
            && described.is_optional == param.is_optional()
            && described.attribute == param.attribute_name()
    };
    let is_all = manifest.params.len() == schema.params().len()
        && manifest.params.iter().zip(schema.params()).all(alike);
    (!is_all).then(|| "parameters".to_owned())
}

/// Checks that manifests and tables list the same kernels.
fn kernels_alike(opened: &Opened, manifests: &[Manifest]) -> Outcome {
    let promised: BTreeSet<_> =
        manifests.iter().flat_map(|m| &m.kernels).map(|k| (k.op.clone(), k.core)).collect();
    let Some(package) = opened.package else { return Ok(()) };
    let mut there = BTreeSet::new();
    for core in opened.cores() {
        let kernels = opened.registry.kernels_for(package, core);
        let kernels = kernels.map_err(|error| Finding::Failed(chain(&error)))?;
        there.extend(kernels.iter().map(|kernel| (kernel.def.op().to_owned(), kernel.def.core())));
    }
    match promised.symmetric_difference(&there).next() {
        Some((op, core)) => {
            failed(format!("only one of manifest and table has a kernel of {op} for {core}"))
        }
        None => Ok(()),
    }
}

pub(super) fn constructors(cx: &PackageContext) -> Outcome {
    let libraries = libraries(cx)?;
    let Some(path) = cx.path() else { return Ok(()) };
    let folder = inspect(path).map_err(|error| Finding::Failed(chain(&error)))?.folder;
    for library in libraries {
        let file = folder.join(&library.file);
        let own = elf::constructors(&file)
            .map_err(|why| Finding::Failed(format!("{}: {why}", library.file)))?;
        if let Some(name) = own.first() {
            return failed(format!("{} runs {name} when it is opened", library.file));
        }
    }
    Ok(())
}

pub(super) fn anywhere(cx: &PackageContext) -> Outcome {
    let Some(path) = cx.path() else {
        return not_applicable("built-in operators are not a library");
    };
    for _ in 0..2 {
        opens(cx)?;
    }
    let found = inspect(path).map_err(|error| Finding::Failed(chain(&error)))?;
    let copy = std::env::temp_dir().join(format!("udo check {}", std::process::id()));
    let opened = copied(&found.folder, &found.libraries, &copy).and_then(|first| {
        let mut registry = builtin_operators().map_err(|error| chain(&error))?;
        let package = registry.open(&first).map_err(|error| chain(&error))?;
        let cores: Vec<_> = registry
            .package(package)
            .into_iter()
            .flat_map(|p| &p.libraries)
            .map(|l| l.core)
            .collect();
        for core in cores {
            registry.kernels_for(package, core).map_err(|error| chain(&error))?;
        }
        Ok(())
    });
    // Leftovers in the temporary folder are harmless.
    let _ = std::fs::remove_dir_all(&copy);
    opened.or_else(|why| failed(format!("a copy in another folder does not open: {why}")))
}

/// Copies the libraries; returns the path of the first.
pub(super) fn copied(
    from: &Path,
    libraries: &[InspectedLibrary],
    to: &Path,
) -> Result<std::path::PathBuf, String> {
    let mut first = None;
    for library in libraries {
        let file = to.join(&library.file);
        let folder = file.parent().unwrap_or(to);
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        std::fs::copy(from.join(&library.file), &file)
            .map_err(|error| format!("{}: {error}", library.file))?;
        first.get_or_insert(file);
    }
    first.ok_or_else(|| "the package does not have libraries".to_owned())
}

pub(super) fn quiet(cx: &PackageContext) -> Outcome {
    if cx.path().is_none() {
        return not_applicable("built-in operators are not a library");
    }
    // The host's first opening of any library has side effects of its own.
    let _ = builtin_operators();
    let before = Surroundings::now();
    opens(cx)?;
    match before.changed(&Surroundings::now()) {
        Some(changed) => failed(format!("after opening, {changed}")),
        None => Ok(()),
    }
}
