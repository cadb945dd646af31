//! Finds packages under a folder by their manifests and indexes; nothing is run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::index::Index;
use super::{Manifest, OpenError, dist};

/// The packages under a folder, in the order of their paths.
#[derive(Debug, Default)]
pub struct Discovery {
    /// The packages that this runtime can open.
    pub packages: Vec<Found>,
    /// What looked like a package, or could not be looked at, and why.
    pub skipped: Vec<Skipped>,
}

/// A package that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its registration library.
    pub path: PathBuf,
    /// What the library says of itself.
    pub manifest: Manifest,
}

/// A file or folder that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Finds every package under `folder`, following links. Hidden folders and Cargo's own are not entered.
pub fn discover(folder: &Path) -> Discovery {
    let mut discovery = Discovery::default();
    let mut seen = BTreeSet::new();
    let walk = WalkDir::new(folder).follow_links(true).sort_by_file_name();
    for entry in walk.into_iter().filter_entry(is_of_interest) {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_str().unwrap_or_default();
                if entry.file_type().is_dir() || !dist::is_registration_name(name) {
                    continue;
                }
                // Two links to one folder are one package.
                let place = entry.path().canonicalize();
                if place.is_ok_and(|place| !seen.insert(place)) {
                    continue;
                }
                discovery.look_at(entry.into_path());
            }
            Err(error) => discovery.skipped.push(skipped(&error, folder)),
        }
    }
    discovery
}

fn is_of_interest(entry: &DirEntry) -> bool {
    if entry.depth() == 0 || !entry.file_type().is_dir() {
        return true;
    }
    let name = entry.file_name().as_encoded_bytes();
    !name.starts_with(b".") && !entry.path().join("CACHEDIR.TAG").exists()
}

fn skipped(error: &walkdir::Error, folder: &Path) -> Skipped {
    let path = error.path().unwrap_or(folder).to_owned();
    let reason = match (error.loop_ancestor(), error.io_error()) {
        (Some(ancestor), _) => format!("it is a link back to \"{}\"", ancestor.display()),
        (None, Some(cause)) => format!("it cannot be read: {cause}"),
        (None, None) => error.to_string(),
    };
    Skipped { path, reason }
}

impl Discovery {
    fn look_at(&mut self, path: PathBuf) {
        match usable_manifest(&path) {
            Ok(Some(manifest)) => self.packages.push(Found { path, manifest }),
            Ok(None) => self.skipped.push(Skipped {
                path,
                reason: "it has no manifest, so only opening it tells what it holds".to_owned(),
            }),
            Err(error) => self.skipped.push(Skipped { path, reason: error.to_string() }),
        }
    }
}

/// The manifest of the registration library at `path`, whose package is as its folder's index says, if it has one.
fn usable_manifest(path: &Path) -> Result<Option<Manifest>, OpenError> {
    let manifest = Manifest::read(path)?;
    if let Some(manifest) = &manifest {
        manifest.check(path)?;
    }
    let folder = dist::folder_of(path);
    if let Some(index) = Index::read(folder)? {
        index.check_all(folder, path)?;
    }
    Ok(manifest)
}
