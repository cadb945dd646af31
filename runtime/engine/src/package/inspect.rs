//! Inspects a built package without running its code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::index::{self, Index};
use super::{Manifest, OpenError, Sources, dist};

/// The libraries of a package, the registration library first.
#[derive(Debug)]
pub struct Inspection {
    /// The folder of the libraries.
    pub folder: PathBuf,
    /// The folder's index, if it has one.
    pub index: Option<Index>,
    /// The libraries, the registration library first.
    pub libraries: Vec<InspectedLibrary>,
    /// Whether they match the sources next to them.
    pub sources: Sources,
}

/// One library of a package.
#[derive(Debug)]
pub struct InspectedLibrary {
    /// Its path relative to the folder.
    pub file: String,
    /// Its SHA-256 digest; `None` if it cannot be read.
    pub sha256: Option<String>,
    /// How it compares to the index.
    pub listing: Listing,
    /// Its content, or why it cannot be read.
    pub contents: Result<Contents, OpenError>,
}

/// The content of a library's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The library has a manifest.
    Manifest(Box<Manifest>),
    /// The library is a C package without a manifest.
    CPackage,
}

/// How a library compares to the index of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The folder has no index.
    NoIndex,
    /// The index does not list the library.
    Unlisted,
    /// The library matches the index.
    Same,
    /// The library has another digest than in the index.
    Changed,
    /// The library is listed but does not exist.
    Missing,
}

impl Inspection {
    /// Returns whether every library exists, is readable and matches the index.
    pub fn is_sound(&self) -> bool {
        self.libraries.iter().all(|library| {
            library.contents.is_ok() && matches!(library.listing, Listing::NoIndex | Listing::Same)
        })
    }
}

/// Inspects the package at `path`: its folder, its `dist` folder, or one of its libraries.
///
/// # Errors
/// Fails if no package is found. Problems of single libraries are reported in [`InspectedLibrary`].
pub fn inspect(path: &Path) -> Result<Inspection, OpenError> {
    let dist::Located { path: first, folder, index } = dist::registration(path)?;
    let name = first.strip_prefix(&folder).unwrap_or(&first).to_string_lossy().into_owned();
    let is_one_library = path.is_file();

    let main = look_at(&folder, &name, index.as_ref());
    let mut others = BTreeSet::new();
    if let Ok(Contents::Manifest(manifest)) = &main.contents {
        let inside = manifest.libraries.iter().filter(|l| index::is_inside(&l.file));
        others.extend(inside.map(|l| l.file.clone()));
    }
    if let Some(index) = index.as_ref().filter(|_| !is_one_library) {
        others.extend(index.libraries.iter().map(|l| l.file.clone()));
    }
    others.remove(&name);
    let others = others.iter().map(|file| look_at(&folder, file, index.as_ref()));
    let libraries = std::iter::once(main).chain(others).collect();
    let sources = Sources::compare(&folder, index.as_ref());
    Ok(Inspection { folder, index, libraries, sources })
}

fn look_at(folder: &Path, file: &str, index: Option<&Index>) -> InspectedLibrary {
    let path = folder.join(file);
    let sha256 = index::sha256(&path).ok();
    let contents = Manifest::read(&path).map(|manifest| match manifest {
        Some(manifest) => Contents::Manifest(Box::new(manifest)),
        None => Contents::CPackage,
    });
    let listing = index.map_or(Listing::NoIndex, |index| compare(index, file, sha256.as_deref()));
    InspectedLibrary { file: file.to_owned(), sha256, listing, contents }
}

fn compare(index: &Index, file: &str, sha256: Option<&str>) -> Listing {
    match (index.entry(file), sha256) {
        (None, _) => Listing::Unlisted,
        (Some(_), None) => Listing::Missing,
        (Some(entry), Some(found)) if entry.sha256 == found => Listing::Same,
        (Some(_), Some(_)) => Listing::Changed,
    }
}
