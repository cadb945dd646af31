//! File names and locations of the libraries of a built package.

use std::path::{Path, PathBuf};

use udo_api::Core;

use super::OpenError;
use super::index::{INDEX_FILE, Index, LibraryKind};
use crate::cores;

/// The folder of a package where `udo build` puts its libraries.
pub const DIST_FOLDER: &str = "dist";

/// Returns the file name of the registration library of `package`.
pub fn registration_file(package: &str) -> String {
    format!("libUdo{package}Reg.so")
}

/// Returns the path of the library of `package` for `core`, relative to its registration library.
///
/// DSPs before v68 have one library per operator, whose name is `op`; other cores ignore `op`. Returns `None` for cores that
/// do not support user operators.
pub fn implementation_file(package: &str, core: Core, op: &str) -> Option<String> {
    let libraries = cores::row(core)?.libraries?;
    let op = if core.arch() < libraries.one_op_below { format!("_{op}") } else { String::new() };
    let file = format!("libUdo{package}Impl{}{op}.so", libraries.suffix);
    match source_folder(core)?.to_ascii_lowercase() {
        folder if core.arch() > 0 => Some(format!("{folder}/{file}")),
        _ => Some(file),
    }
}

/// Returns the name of the package's folder with the sources of its kernels for `core`.
///
/// Returns `None` for cores that do not support user operators.
pub fn source_folder(core: Core) -> Option<String> {
    let row = cores::row(core).filter(|row| row.libraries.is_some())?;
    let name = row.kind.name().to_ascii_uppercase();
    Some(if row.kind.has_archs() { format!("{name}_V{}", core.arch()) } else { name })
}

pub(super) fn is_registration_name(name: &str) -> bool {
    name.strip_prefix("libUdo").is_some_and(|rest| rest.ends_with("Reg.so"))
}

/// Returns the package name in the file name of a registration library.
pub(super) fn name_of_registration(file: &str) -> String {
    let name = file.strip_prefix("libUdo").and_then(|rest| rest.strip_suffix("Reg.so"));
    name.unwrap_or(file).to_owned()
}

/// Returns the folder with the libraries of the package at `folder`.
pub(super) fn dist_of(folder: &Path) -> PathBuf {
    let dist = folder.join(DIST_FOLDER);
    if dist.is_dir() { dist } else { folder.to_owned() }
}

/// Returns the package folder that a registration library belongs to.
pub(super) fn package_folder(registration: &Path) -> PathBuf {
    let dist = folder_of(registration);
    match dist.parent() {
        Some(parent) if dist.ends_with(DIST_FOLDER) => parent.to_owned(),
        _ => dist.to_owned(),
    }
}

pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(file)
}

/// Returns the expected path of the registration library for the implementation library at `path`.
pub(super) fn registration_near(path: &Path, package: &str) -> PathBuf {
    let name = registration_file(package);
    let same_folder = folder_of(path).join(&name);
    let parent = folder_of(folder_of(path)).join(&name);
    if !same_folder.is_file() && parent.is_file() { parent } else { same_folder }
}

/// A registration library, and the folder that the package's paths are relative to.
pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    /// The folder's index, if it has one.
    pub(super) index: Option<Index>,
}

/// Finds the registration library for `path`: the file itself, or the one in a package's folder.
pub(super) fn registration(path: &Path) -> Result<Located, OpenError> {
    // Links are not resolved: implementation libraries may be next to the link.
    let path = std::path::absolute(path).map_err(|e| OpenError::unreadable(path, e))?;
    let about = std::fs::metadata(&path).map_err(|e| OpenError::unreadable(&path, e))?;
    if !about.is_dir() {
        let path = resolve_link(path);
        let folder = folder_of(&path).to_owned();
        let index = Index::read(&folder)?;
        return Ok(Located { path, folder, index });
    }
    let folder = dist_of(&path);
    let index = Index::read(&folder)?;
    let (mut found, expected) = match &index {
        Some(index) => (listed(index), "a registration library in its index.json"),
        None => (registrations_in(&folder)?, "a file libUdo*Reg.so"),
    };
    match (found.pop(), found.is_empty()) {
        (Some(file), true) => Ok(Located { path: folder.join(file), folder, index }),
        (Some(file), false) => {
            found.push(file);
            Err(OpenError::SeveralRegistrations { folder, found: found.join(" and ") })
        }
        (None, _) => Err(OpenError::NoRegistration { folder, expected }),
    }
}

/// Returns the path of a registration library in its package. A link is resolved unless the package's other files are next
/// to the link.
fn resolve_link(path: PathBuf) -> PathBuf {
    let real = path.is_symlink().then(|| path.canonicalize().ok()).flatten();
    let Some(real) = real else { return path };
    let has_index = |file: &Path| folder_of(file).join(INDEX_FILE).exists();
    let is_apart = !has_index(&path) && (has_index(&real) || !has_implementation(folder_of(&path)));
    if is_apart { real } else { path }
}

/// Returns whether a folder has an implementation library, or a folder of one for a DSP.
fn has_implementation(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| {
        name.starts_with("dsp_v") || name.starts_with("libUdo") && name.contains("Impl")
    })
}

fn listed(index: &Index) -> Vec<String> {
    let registrations = index.libraries.iter().filter(|l| l.kind == LibraryKind::Registration);
    registrations.map(|l| l.file.clone()).collect()
}

fn registrations_in(folder: &Path) -> Result<Vec<String>, OpenError> {
    let unreadable = |e| OpenError::unreadable(folder, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if let Some(name) = name.to_str().filter(|n| is_registration_name(n)) {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_the_vendor_names() {
        let file = |core| implementation_file("P", core, "Add");
        assert_eq!(registration_file("P"), "libUdoPReg.so");
        assert_eq!(file(Core::CPU).unwrap(), "libUdoPImplCpu.so");
        assert_eq!(file(Core::GPU).unwrap(), "libUdoPImplGpu.so");
        assert_eq!(file(Core::DSP_V68).unwrap(), "dsp_v68/libUdoPImplDsp.so");
        assert_eq!(file(Core::dsp(66)).unwrap(), "dsp_v66/libUdoPImplDsp_Add.so");
        assert_eq!(file(Core::HTA), None);
        let sources = [Core::CPU, Core::GPU, Core::dsp(66), Core::HTA].map(source_folder);
        let sources: Vec<_> = sources.iter().map(Option::as_deref).collect();
        assert_eq!(sources, [Some("CPU"), Some("GPU"), Some("DSP_V66"), None]);
    }
}
