//! Whether a package's libraries are of the sources that lie beside them: what its index says of these, not times, decides.

use std::collections::BTreeSet;
use std::path::Path;

use super::dist::DIST_FOLDER;
use super::index::{self, Index, IndexEntry, SourceEntry};

/// The file by which a package's folder is known that `udo new` made.
const MARKER: &str = ".udo-package.json";

/// What the libraries of a package are to the sources that lie beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// No sources lie there.
    #[default]
    Absent,
    /// They were built from them.
    Same,
    /// These have changed since, as paths in the package's folder.
    Changed(Vec<String>),
    /// Nothing says what they were built from: the package has no index, or one of an older SDK.
    Unknown,
}

impl Sources {
    /// Looks at the package whose libraries lie in `folder`, which has this index.
    pub(super) fn of(folder: &Path, index: Option<&Index>) -> Self {
        let parent = folder.parent().filter(|_| folder.ends_with(DIST_FOLDER));
        let has_own = parent.is_some_and(|parent| parent.join(MARKER).is_file());
        let (Some(parent), Some(index)) = (parent, index) else {
            return if has_own || index.is_none() { Self::Unknown } else { Self::Absent };
        };
        let libraries = || index.libraries.iter().filter(|library| !library.sources.is_empty());
        if libraries().next().is_none() {
            return if has_own { Self::Unknown } else { Self::Absent };
        }
        // What all libraries share may be the files of somebody else's project that has a dist folder.
        let mut own = libraries().flat_map(IndexEntry::own_sources);
        if !own.any(|source| parent.join(&source.file).is_file()) {
            return Self::Absent;
        }
        let has_changed = |source: &&SourceEntry| {
            index::sha256(&parent.join(&source.file)).ok().as_ref() != Some(&source.sha256)
        };
        let changed = libraries().flat_map(|library| &library.sources).filter(has_changed);
        let changed: BTreeSet<String> = changed.map(|source| source.file.clone()).collect();
        if changed.is_empty() { Self::Same } else { Self::Changed(changed.into_iter().collect()) }
    }

    /// What who runs a package should know, which is called `name` and lies in `folder`.
    pub(crate) fn notice(&self, name: &str, folder: &Path) -> Option<String> {
        let package = folder.parent().unwrap_or(folder);
        let has_own = package.join(MARKER).is_file();
        match self {
            Self::Changed(files) => {
                let (files, dir) = (shortened(files), package.display());
                Some(format!(
                    "package {name} is older than its sources, as {files} changed since it was built: `udo build {dir}` builds it"
                ))
            }
            Self::Unknown if has_own => Some(format!(
                "nothing says whether package {name} was built from the sources in {dir}: `udo build {dir}` writes that into its index",
                dir = package.display()
            )),
            Self::Absent | Self::Same | Self::Unknown => None,
        }
    }
}

/// The first of these files, and how many others there are.
fn shortened(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} others", others.len()),
    }
}
