//! What a package's folder keeps of where it came from: its configs, so that it can be made again from itself.

use std::path::{Path, PathBuf};

use super::{WriteError, author_files, inside, marker, marker::Marker, text_at};
use crate::{
    plan::{SUPPORT, There},
    templates::TemplatesOwner,
};

/// What a package's folder says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The package's name.
    pub package: String,
    /// Its configs by path, with what they hold now, in the order in which they were read.
    pub configs: Vec<(PathBuf, String)>,
    /// Config files that are not there any more.
    pub missing: Vec<String>,
    /// Whose templates printed it.
    pub templates: TemplatesOwner,
}

/// What the folder `dir` says of itself; nothing where it is no package of ours.
///
/// # Errors
/// The folder cannot be read, or a link stands where a file was written.
pub fn kept(dir: &Path) -> Result<Option<Kept>, WriteError> {
    let found = text_at(dir, &dir.join(marker::FILE))?;
    let Some(marker) = found.as_deref().and_then(Marker::read) else { return Ok(None) };
    let (mut configs, mut missing) = (Vec::new(), Vec::new());
    for file in marker.configs() {
        let path = inside(dir, file)?;
        match text_at(dir, &path)? {
            Some(text) => configs.push((path, text)),
            None => missing.push(file.clone()),
        }
    }
    let (package, templates) = (marker.package, marker.templates);
    Ok(Some(Kept { package, configs, missing, templates }))
}

/// What the folder `dir` holds already of what a plan depends on; nothing where there is none.
///
/// # Errors
/// The folder cannot be read, or a link stands where a file was written.
pub fn there(dir: &Path) -> Result<There, WriteError> {
    let mut there = There::default();
    if !dir.is_dir() {
        return Ok(there);
    }
    let found = text_at(dir, &dir.join(marker::FILE))?;
    let marker = found.as_deref().and_then(Marker::read);
    there.has_reference = marker.is_some_and(|marker| marker.files.contains_key(SUPPORT));
    for path in author_files(dir)? {
        let text = text_at(dir, &inside(dir, &path)?)?.unwrap_or_default();
        there.files.insert(path, text);
    }
    Ok(there)
}
