//! What a built package consists of, told from its files alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::index::{self, Index};
use super::{Manifest, OpenError, Sources, dist};

/// The libraries of a package, the registration library first.
#[derive(Debug)]
pub struct Inspection {
    /// The folder that they lie in.
    pub folder: PathBuf,
    /// The folder's index, if it has one.
    pub index: Option<Index>,
    /// The libraries.
    pub libraries: Vec<InspectedLibrary>,
    /// What they are to the sources that lie beside them.
    pub sources: Sources,
}

/// One library of a package.
#[derive(Debug)]
pub struct InspectedLibrary {
    /// Its path relative to the folder.
    pub file: String,
    /// Its SHA-256; nothing if it cannot be read.
    pub sha256: Option<String>,
    /// How it compares with the index.
    pub listing: Listing,
    /// What it holds, or why that cannot be told.
    pub contents: Result<Contents, OpenError>,
}

/// What the file of a library tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A manifest.
    Manifest(Box<Manifest>),
    /// Nothing but that it is a C package.
    CPackage,
}

/// How a library compares with the index of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// There is no index.
    NoIndex,
    /// The index does not list it.
    Unlisted,
    /// It is as listed.
    Same,
    /// It has another digest than listed.
    Changed,
    /// It is listed, but not there.
    Missing,
}

impl Inspection {
    /// Whether every library is there, readable, and as the index says.
    pub fn is_sound(&self) -> bool {
        self.libraries.iter().all(|library| {
            library.contents.is_ok() && matches!(library.listing, Listing::NoIndex | Listing::Same)
        })
    }
}

/// Looks at the package at `path`: its folder, its `dist` folder, or one of its libraries.
///
/// # Errors
/// There is no package to look at. What is wrong with a single library is told in its place.
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
    let sources = Sources::of(&folder, index.as_ref());
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
