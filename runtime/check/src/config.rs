//! The config in a package's folder, as `udo new` reads it.

use std::path::{Path, PathBuf};

use udo_generator::{Mode, Source, config::Package};

/// What the config says of `package`, whose folder is `folder`; nothing where no file there speaks of it.
///
/// # Errors
/// A file is no config.
pub(crate) fn of(folder: &Path, package: &str) -> Result<Option<Package>, String> {
    let paths = files(folder);
    let mut texts = Vec::new();
    for path in &paths {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(|error| said(&error))?;
        texts.push(udo_generator::decode(bytes).map_err(|error| said(&error))?);
    }
    let sources: Vec<Source<'_>> =
        paths.iter().zip(&texts).map(|(path, text)| Source { path, text }).collect();
    if sources.is_empty() {
        return Ok(None);
    }
    let (config, _) = udo_generator::read(&sources, Mode::Compat).map_err(|error| {
        let mut all = error.diagnostics.iter();
        let first = all.find(|own| own.severity == udo_generator::Severity::Error);
        first.map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    Ok(config.packages.into_iter().find(|own| own.name == package))
}

/// The files of the config, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("config")).into_iter().flatten().flatten();
    let is_config =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json" || end == "xml");
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_config).collect();
    files.sort();
    files
}
