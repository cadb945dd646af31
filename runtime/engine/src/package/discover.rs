//! Finds packages in a folder by their manifests and indexes, without running their code.

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
    /// Files and folders that look like packages but cannot be used, or could not be read.
    pub skipped: Vec<Skipped>,
}

/// A package that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path of its registration library.
    pub path: PathBuf,
    /// The manifest of the library.
    pub manifest: Manifest,
}

/// A file or folder that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file or folder.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// Finds all packages below `folder`. Follows links; skips hidden folders and Cargo's build folders.
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
        (Some(ancestor), _) => format!("it links back to \"{}\"", ancestor.display()),
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
                reason: "it has no manifest, so its content is unknown until it is opened"
                    .to_owned(),
            }),
            Err(error) => self.skipped.push(Skipped { path, reason: error.to_string() }),
        }
    }
}

/// Returns the manifest of the registration library at `path`, if it has one. Checks the package against the index
/// of its folder.
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
