//! Writes an index for a package that `udo build` did not build, so that it can be signed and locked.

use std::path::Path;

use super::OpenError;
use super::dist;
use super::index::{self, Index, IndexEntry, LibraryKind};
use super::manifest::host_target;
use super::open::Candidate;

/// The name of the tool in the indexes that are written here.
const MADE_BY: &str = "udo sign";

/// The value of unknown properties.
const UNKNOWN: &str = "unknown";

/// Writes the index of the package in `folder`, unless `udo build` wrote it. An index that was written here before is updated. No
/// code of the package runs.
///
/// # Errors
/// Fails if the folder does not contain exactly one registration library that this runtime can open, or the index cannot be read
/// or written.
pub fn seal(folder: &Path) -> Result<(), OpenError> {
    let known = Index::read(folder)?;
    if known.as_ref().is_some_and(|index| index.made_by.is_none()) {
        return Ok(());
    }
    let current = index_of(folder)?;
    if known.as_ref() == Some(&current) { Ok(()) } else { current.write(folder) }
}

/// Creates the index of a folder.
fn index_of(folder: &Path) -> Result<Index, OpenError> {
    let registration = dist::registration(folder)?;
    let (path, folder) = (registration.path, registration.folder);
    let manifest = Candidate::read(&path)?.manifest;
    let file = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
    let entry = |file: &str, kind, core| -> Result<IndexEntry, OpenError> {
        let sha256 = index::sha256(&folder.join(file))?;
        // The sources are unknown.
        Ok(IndexEntry { file: file.to_owned(), kind, core, sha256, sources: Vec::new() })
    };
    let mut libraries = vec![entry(&file, LibraryKind::Registration, None)?];
    let named = manifest.iter().flat_map(|manifest| &manifest.libraries);
    // A missing library is reported when a core needs it.
    for library in named.filter(|library| folder.join(&library.file).is_file()) {
        libraries.push(entry(&library.file, LibraryKind::Implementation, Some(library.core))?);
    }
    let stated =
        |property: fn(&super::Manifest) -> &String| manifest.as_ref().map(property).cloned();
    let unknown = || UNKNOWN.to_owned();
    Ok(Index {
        package: stated(|manifest| &manifest.package)
            .unwrap_or_else(|| dist::name_of_registration(&file)),
        version: stated(|manifest| &manifest.version).unwrap_or_else(unknown),
        sdk_version: stated(|manifest| &manifest.sdk_version).unwrap_or_else(unknown),
        target: stated(|manifest| &manifest.target).unwrap_or_else(host_target),
        libraries,
        made_by: Some(MADE_BY.to_owned()),
    })
}
