//! An index for a package that `udo build` did not build, so that it can be signed and locked as one that it did.

use std::path::Path;

use super::OpenError;
use super::dist;
use super::index::{self, Index, IndexEntry, LibraryKind};
use super::manifest::host_target;
use super::open::Candidate;

/// Who is said to have made an index that is written here.
const MADE_BY: &str = "udo sign";

/// What is said of a library that says nothing of itself.
const UNKNOWN: &str = "unknown";

/// Writes the index of the package whose libraries lie in `folder`, if `udo build` did not: as they are now, and again where they changed
/// since. None of their code runs.
///
/// # Errors
/// There is no registration library or several, one that this runtime cannot open, or the index cannot be read or written.
pub fn seal(folder: &Path) -> Result<(), OpenError> {
    let known = Index::read(folder)?;
    if known.as_ref().is_some_and(|index| index.made_by.is_none()) {
        return Ok(());
    }
    let made = index_of(folder)?;
    if known.as_ref() == Some(&made) { Ok(()) } else { made.write(folder) }
}

/// What lies in a folder.
fn index_of(folder: &Path) -> Result<Index, OpenError> {
    let registration = dist::registration(folder)?;
    let (path, folder) = (registration.path, registration.folder);
    let manifest = Candidate::read(&path)?.manifest;
    let file = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
    let entry = |file: &str, kind, core| -> Result<IndexEntry, OpenError> {
        let sha256 = index::sha256(&folder.join(file))?;
        // Whatever built it has not said what of.
        Ok(IndexEntry { file: file.to_owned(), kind, core, sha256, sources: Vec::new() })
    };
    let mut libraries = vec![entry(&file, LibraryKind::Registration, None)?];
    let named = manifest.iter().flat_map(|manifest| &manifest.libraries);
    // One that was not built is refused when a core needs it.
    for library in named.filter(|library| folder.join(&library.file).is_file()) {
        libraries.push(entry(&library.file, LibraryKind::Implementation, Some(library.core))?);
    }
    let said = |of: fn(&super::Manifest) -> &String| manifest.as_ref().map(of).cloned();
    let unknown = || UNKNOWN.to_owned();
    Ok(Index {
        package: said(|of| &of.package).unwrap_or_else(|| dist::name_of_registration(&file)),
        version: said(|of| &of.version).unwrap_or_else(unknown),
        sdk_version: said(|of| &of.sdk_version).unwrap_or_else(unknown),
        target: said(|of| &of.target).unwrap_or_else(host_target),
        libraries,
        made_by: Some(MADE_BY.to_owned()),
    })
}
