//! Reads the marker file of a package's folder, which records the configs and templates that the package was generated
//! from, so that `udo` can generate it again.

use std::path::{Path, PathBuf};

use super::{WriteError, author_files, inside, marker, marker::Marker, text_at};
use crate::{
    plan::{SUPPORT, There},
    templates::TemplatesOwner,
};

/// The recorded origin of a package's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The package's name.
    pub package: String,
    /// Its configs by path, with their current contents, in reading order.
    pub configs: Vec<(PathBuf, String)>,
    /// Config files that no longer exist.
    pub missing: Vec<String>,
    /// The owner of the templates that the package was generated with.
    pub templates: TemplatesOwner,
}

/// Reads the origin of the folder `dir`; `None` if it is not a package of `udo new`.
///
/// # Errors
/// The folder cannot be read, or a link is at the path of a written file.
pub fn read_origin(dir: &Path) -> Result<Option<Origin>, WriteError> {
    let marker_text = text_at(dir, &dir.join(marker::FILE))?;
    let Some(marker) = marker_text.as_deref().and_then(Marker::read) else { return Ok(None) };
    let (mut configs, mut missing) = (Vec::new(), Vec::new());
    for file in marker.configs() {
        let path = inside(dir, file)?;
        match text_at(dir, &path)? {
            Some(text) => configs.push((path, text)),
            None => missing.push(file.clone()),
        }
    }
    let (package, templates) = (marker.package, marker.templates);
    Ok(Some(Origin { package, configs, missing, templates }))
}

/// Reads the files of the folder `dir` that a plan depends on: those of the author. Returns an empty value if the
/// folder does not exist.
///
/// # Errors
/// The folder cannot be read, or a link is at the path of a written file.
pub fn there(dir: &Path) -> Result<There, WriteError> {
    let mut existing = There::default();
    if !dir.is_dir() {
        return Ok(existing);
    }
    let marker_text = text_at(dir, &dir.join(marker::FILE))?;
    let marker = marker_text.as_deref().and_then(Marker::read);
    existing.has_reference = marker.is_some_and(|marker| marker.files.contains_key(SUPPORT));
    for path in author_files(dir)? {
        let text = text_at(dir, &inside(dir, &path)?)?.unwrap_or_default();
        existing.files.insert(path, text);
    }
    Ok(existing)
}
