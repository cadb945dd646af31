//! The libraries as files, and how they open.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use udo_api::{OpSchema, Param, Port};
use udo_runtime::package::{
    Contents, InspectedLibrary, Listing, Manifest, ManifestOp, ManifestPort, inspect,
};
use udo_runtime::registry::Registry;

use super::{Finding, Outcome, failed, skipped};
use crate::context::PackageContext;
use crate::elf;
use crate::raw::surroundings::Surroundings;
use crate::subject::{Opened, full_name};

fn said(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

fn open(cx: &PackageContext) -> Result<Opened, Finding> {
    Opened::open(&cx.place).map_err(|error| Finding::Failed(said(&error)))
}

pub(super) fn opens(cx: &PackageContext) -> Outcome {
    let mut opened = open(cx)?;
    for core in opened.cores() {
        let Some(package) = opened.package else { continue };
        if let Err(error) = opened.registry.kernels_for(package, core) {
            return failed(format!("its kernels for {core}: {}", said(&error)));
        }
    }
    Ok(())
}

fn libraries(cx: &PackageContext) -> Result<Vec<InspectedLibrary>, Finding> {
    let Some(path) = cx.path() else { return skipped("built-in operators are no library") };
    inspect(path).map(|found| found.libraries).map_err(|error| Finding::Failed(said(&error)))
}

pub(super) fn digests(cx: &PackageContext) -> Outcome {
    for library in libraries(cx)? {
        let file = &library.file;
        match library.listing {
            Listing::Same => {}
            Listing::NoIndex => return skipped("the package has no index.json with digests"),
            Listing::Unlisted => return failed(format!("{file} is not in the index")),
            Listing::Changed => return failed(format!("{file} is not what the index says")),
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
                let why = "has no manifest, so that nothing can be said of it without running it";
                return Err(Finding::Warning(format!("{} {why}", library.file)));
            }
            Err(error) => return failed(said(&error)),
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
        if let Some(why) = unlike(of, op.schema()) {
            return failed(format!("the manifest and the table differ in operator {name}: {why}"));
        }
    }
    kernels_alike(opened, &manifests)
}

/// What a manifest and a schema do not say alike.
fn unlike(manifest: &ManifestOp, schema: &OpSchema) -> Option<String> {
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
    let alike = |(described, param): (&udo_runtime::package::ManifestParam, &Param)| {
        described.name == param.name()
            && Some(described.kind) == param.kind()
            && described.is_optional == param.is_optional()
            && described.attribute == param.attribute_name()
    };
    let is_all = manifest.params.len() == schema.params().len()
        && manifest.params.iter().zip(schema.params()).all(alike);
    (!is_all).then(|| "parameters".to_owned())
}

/// Every kernel that a manifest promises is in a table, and the reverse.
fn kernels_alike(mut opened: Opened, manifests: &[Manifest]) -> Outcome {
    let promised: BTreeSet<_> =
        manifests.iter().flat_map(|m| &m.kernels).map(|k| (k.op.clone(), k.core)).collect();
    let Some(package) = opened.package else { return Ok(()) };
    let mut there = BTreeSet::new();
    for core in opened.cores() {
        let kernels = opened.registry.kernels_for(package, core);
        let kernels = kernels.map_err(|error| Finding::Failed(said(&error)))?;
        there.extend(kernels.iter().map(|kernel| (kernel.def.op().to_owned(), kernel.def.core())));
    }
    match promised.symmetric_difference(&there).next() {
        Some((op, core)) => failed(format!(
            "the manifests and the tables do not both have a kernel of {op} for {core}"
        )),
        None => Ok(()),
    }
}

pub(super) fn config(cx: &PackageContext) -> Outcome {
    let Some(folder) = cx.folder() else { return skipped("built-in operators have no config") };
    let Ok(entries) = std::fs::read_dir(folder.join("config")) else {
        return skipped("the package has no config folder");
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut opened = open(cx)?;
    let name =
        opened.package.map(|id| opened.registry.package_name(id).to_owned()).unwrap_or_default();
    let mut operators = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        operators.extend(operators_of(file, &name)?);
    }
    if operators.is_empty() {
        return skipped("the config folder has no JSON with operators of this package");
    }
    for operator in &operators {
        built_as_said(&mut opened, operator)?;
    }
    let said: BTreeSet<&str> = operators.iter().filter_map(|op| op["type"].as_str()).collect();
    match opened.ops().find(|op| !said.contains(op.schema().name())) {
        Some(op) => failed(format!("operator {} is not in the config", op.schema().name())),
        None => Ok(()),
    }
}

/// The operators that a config gives to the package.
fn operators_of(file: &Path, package: &str) -> Result<Vec<Value>, Finding> {
    let text = std::fs::read_to_string(file);
    let read = text
        .map_err(|e| e.to_string())
        .and_then(|t| serde_json::from_str::<Value>(&t).map_err(|e| e.to_string()));
    let config = read.map_err(|why| Finding::Failed(format!("{}: {why}", file.display())))?;
    let mut operators = Vec::new();
    for (_, of) in config.as_object().into_iter().flatten() {
        if of["UDO_PACKAGE_NAME"].as_str() == Some(package) {
            operators.extend(of["Operators"].as_array().into_iter().flatten().cloned());
        }
    }
    Ok(operators)
}

fn built_as_said(opened: &mut Opened, operator: &Value) -> Outcome {
    let name = operator["type"].as_str().unwrap_or_default().to_owned();
    let Some(op) = opened.ops().find(|op| op.schema().name() == name) else {
        return failed(format!("the config has operator {name}, and the package does not"));
    };
    let schema = op.schema();
    let names = |key: &str| -> Vec<String> {
        let all = operator[key].as_array().into_iter().flatten();
        all.filter_map(|item| item["name"].as_str()).map(str::to_owned).collect()
    };
    let mut params = names("scalar_params");
    params.extend(names("tensor_params"));
    params.extend(names("string_params"));
    let sides = [
        (
            "inputs",
            names("inputs"),
            schema.inputs().iter().map(|p| p.name().to_owned()).collect::<Vec<_>>(),
        ),
        (
            "outputs",
            names("outputs"),
            schema.outputs().iter().map(|p| p.name().to_owned()).collect(),
        ),
    ];
    for (side, said, built) in sides {
        if said != built {
            return failed(format!(
                "the {side} of {name} are {said:?} in the config and {built:?} in the package"
            ));
        }
    }
    let built: BTreeSet<String> = schema.params().iter().map(|p| p.name().to_owned()).collect();
    let params: BTreeSet<String> = params.into_iter().collect();
    if let Some(param) = params.symmetric_difference(&built).next() {
        return failed(format!(
            "parameter {param:?} of {name} is not in both the config and the package"
        ));
    }
    defaults_as_said(operator, schema, &name)?;
    let wanted: Vec<&str> =
        operator["core_types"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let cores = opened.cores();
    for kind in wanted {
        let kind = kind.to_ascii_lowercase();
        let of_kind = cores.iter().filter(|core| core.kind().is_some_and(|k| k.name() == kind));
        let mut is_any = false;
        for &core in of_kind {
            let subject = opened.subject(&full_name(op), core);
            let subject = subject.map_err(|error| Finding::Failed(said(&error)))?;
            is_any |= subject.is_some_and(|subject| !subject.kernels.is_empty());
        }
        if !is_any {
            return failed(format!(
                "the config wants {name} on {kind}, and the package has no kernel of it there"
            ));
        }
    }
    Ok(())
}

/// Defaults of scalars are those of the config.
fn defaults_as_said(operator: &Value, schema: &OpSchema, name: &str) -> Outcome {
    use udo_api::ValueKind;
    for scalar in operator["scalar_params"].as_array().into_iter().flatten() {
        let Some(said) = scalar["default_value"].as_f64() else { continue };
        let param = schema.params().iter().find(|p| Some(p.name()) == scalar["name"].as_str());
        let built = match param.map(Param::default_value) {
            Some(ValueKind::Float(value)) => value,
            #[expect(clippy::cast_precision_loss, reason = "defaults that are compared are small")]
            Some(ValueKind::Int(value)) => value as f64,
            _ => f64::NAN,
        };
        if (built - said).abs() > 1e-6 * said.abs() || built.is_nan() {
            let param = param.map_or("", |param| param.name());
            return failed(format!(
                "the default of {param:?} of {name} is {said} in the config and {built} in the package"
            ));
        }
    }
    Ok(())
}

pub(super) fn constructors(cx: &PackageContext) -> Outcome {
    let libraries = libraries(cx)?;
    let Some(path) = cx.path() else { return Ok(()) };
    let folder = inspect(path).map_err(|error| Finding::Failed(said(&error)))?.folder;
    for library in libraries {
        let file = folder.join(&library.file);
        let own = elf::constructors(&file)
            .map_err(|why| Finding::Failed(format!("{}: {why}", library.file)))?;
        if let Some(name) = own.first() {
            return failed(format!(
                "{} runs {name} when it is opened, before anybody asked for anything",
                library.file
            ));
        }
    }
    Ok(())
}

pub(super) fn anywhere(cx: &PackageContext) -> Outcome {
    let Some(path) = cx.path() else { return skipped("built-in operators are no library") };
    for _ in 0..2 {
        opens(cx)?;
    }
    let found = inspect(path).map_err(|error| Finding::Failed(said(&error)))?;
    let copy = std::env::temp_dir().join(format!("udo check {}", std::process::id()));
    let opened = copied(&found.folder, &found.libraries, &copy).and_then(|first| {
        let mut registry = Registry::builtin().map_err(|error| said(&error))?;
        let package = registry.open(&first).map_err(|error| said(&error))?;
        let cores: Vec<_> = registry
            .package(package)
            .into_iter()
            .flat_map(|p| &p.libraries)
            .map(|l| l.core)
            .collect();
        for core in cores {
            registry.kernels_for(package, core).map_err(|error| said(&error))?;
        }
        Ok(())
    });
    // What cannot be removed is left to the system.
    let _ = std::fs::remove_dir_all(&copy);
    opened.or_else(|why| failed(format!("a copy of it in another folder: {why}")))
}

/// Copies the libraries, and gives the path of the first.
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
    first.ok_or_else(|| "it has no libraries".to_owned())
}

pub(super) fn quiet(cx: &PackageContext) -> Outcome {
    if cx.path().is_none() {
        return skipped("built-in operators are no library");
    }
    // The host's own first opening of anything is not the package's.
    let _ = Registry::builtin();
    let before = Surroundings::now();
    opens(cx)?;
    match before.changed(&Surroundings::now()) {
        Some(changed) => failed(format!("after opening, {changed}")),
        None => Ok(()),
    }
}
