//! Compares a package's libraries with the sources next to them, by the digests in its index, not by file times.

use std::collections::BTreeSet;
use std::path::Path;

use super::dist::DIST_FOLDER;
use super::index::{self, Index, IndexEntry, SourceEntry};

/// The file that marks a package folder created by `udo new`.
const MARKER: &str = ".udo-package.json";

/// Whether the libraries of a package match the sources next to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// There are no sources.
    #[default]
    Absent,
    /// The libraries were built from these sources.
    Same,
    /// These files changed since the build, as paths in the package's folder.
    Changed(Vec<String>),
    /// The sources of the build are unknown: the package has no index, or an older SDK wrote it.
    Unknown,
}

impl Sources {
    /// Compares the package with libraries in `folder` and this index.
    pub(super) fn compare(folder: &Path, index: Option<&Index>) -> Self {
        let parent = folder.parent().filter(|_| folder.ends_with(DIST_FOLDER));
        let is_user_package = parent.is_some_and(|parent| parent.join(MARKER).is_file());
        let (Some(parent), Some(index)) = (parent, index) else {
            return if is_user_package || index.is_none() { Self::Unknown } else { Self::Absent };
        };
        let libraries = || index.libraries.iter().filter(|library| !library.sources.is_empty());
        if libraries().next().is_none() {
            return if is_user_package { Self::Unknown } else { Self::Absent };
        }
        // Shared sources alone are not enough: they may belong to another project with a dist folder.
        let mut own_sources = libraries().flat_map(IndexEntry::own_sources);
        if !own_sources.any(|source| parent.join(&source.file).is_file()) {
            return Self::Absent;
        }
        let has_changed = |source: &&SourceEntry| {
            index::sha256(&parent.join(&source.file)).ok().as_ref() != Some(&source.sha256)
        };
        let changed = libraries().flat_map(|library| &library.sources).filter(has_changed);
        let changed: BTreeSet<String> = changed.map(|source| source.file.clone()).collect();
        if changed.is_empty() { Self::Same } else { Self::Changed(changed.into_iter().collect()) }
    }

    /// Returns a warning for users of the package `name` in `folder`, if the libraries may not match the sources.
    pub(crate) fn notice(&self, name: &str, folder: &Path) -> Option<String> {
        let package = folder.parent().unwrap_or(folder);
        let is_user_package = package.join(MARKER).is_file();
        match self {
            Self::Changed(files) => {
                let (files, dir) = (shortened(files), package.display());
                Some(format!(
                    "package {name} is older than its sources: {files} changed since the build; rebuild it with `udo build {dir}`"
                ))
            }
            Self::Unknown if is_user_package => Some(format!(
                "cannot tell whether package {name} was built from the sources in {dir}; rebuild it with `udo build {dir}`",
                dir = package.display()
            )),
            Self::Absent | Self::Same | Self::Unknown => None,
        }
    }
}

/// Formats the first file and the number of the others.
fn shortened(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} others", others.len()),
    }
}
