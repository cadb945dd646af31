//! The config in a package's folder, as `udo new` reads it.

use std::path::{Path, PathBuf};

use udo_generator::{Mode, Source, config::Package};

/// A file and its content.
type File = (PathBuf, String);

/// Reads the config of `package` from its folder. Returns `None` if no file there describes the package.
///
/// # Errors
/// A file is not a valid config.
pub(crate) fn read(folder: &Path, package: &str) -> Result<Option<Package>, String> {
    let kept = udo_generator::read_origin(folder).map_err(|error| error.to_string())?;
    let files = match kept {
        Some(kept) => kept.configs,
        None => find_files(folder)?,
    };
    let sources: Vec<Source<'_>> = files.iter().map(|(path, text)| Source { path, text }).collect();
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

/// Returns the files in the folder `config` that describe packages, sorted by name, for packages that do not record
/// their config files. Folders of vendors' packages hold other files too.
fn find_files(folder: &Path) -> Result<Vec<File>, String> {
    let entries = std::fs::read_dir(folder.join("config")).into_iter().flatten().flatten();
    let is_config = |path: &PathBuf| {
        path.is_file() && path.extension().is_some_and(|end| end == "json" || end == "xml")
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_config).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = udo_files::read(&path, udo_files::TEXT_BYTES).map_err(|error| said(&error))?;
        let text = udo_generator::decode(bytes).map_err(|error| said(&error))?;
        if ["UDO_PACKAGE_NAME", "OpDefCollection"].iter().any(|word| text.contains(word)) {
            files.push((path, text));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_package_are_not_configs() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        std::fs::create_dir_all(config.join("old.json")).unwrap();
        std::fs::write(config.join("backend.json"), r#"{"backend": {"path": "x"}}"#).unwrap();
        assert_eq!(read(folder.path(), "NormPackage").unwrap(), None);
        let broken = r#"{"P": {"UDO_PACKAGE_NAME": "#;
        std::fs::write(config.join("norm.json"), broken).unwrap();
        assert!(read(folder.path(), "NormPackage").unwrap_err().contains("norm.json"));
        let norm = include_str!("../../../generator/tests/configs/norm.xml");
        std::fs::write(config.join("norm.json"), norm).unwrap();
        assert_eq!(read(folder.path(), "NoSuchPackage").unwrap(), None);
    }
}
