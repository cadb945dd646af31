//! Libraries out of cargo's target folder into `dist/`, under the package's names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use udo_api::Core;
use udo_runtime::package::{
    DIST_FOLDER, host_target,
    index::{self, INDEX_FILE, Index, IndexEntry, LibraryKind},
};

use super::{
    cargo::Artifacts,
    workspace::{Member, Workspace},
};
use crate::output::Failure;

/// What lies in `dist/`.
#[derive(Debug)]
pub(super) struct Dist {
    pub(super) folder: PathBuf,
    /// The libraries that this build put there, as paths in the folder.
    pub(super) built: Vec<String>,
    /// Everything there.
    pub(super) index: Index,
}

/// Puts the libraries in place, then the index.
pub(super) fn gather(
    workspace: &Workspace,
    members: &[&Member],
    artifacts: &Artifacts,
) -> Result<Dist, Failure> {
    let folder = workspace.dir.join(DIST_FOLDER);
    fs::create_dir_all(&folder)?;
    let old = earlier(&folder);
    let mut built = Vec::new();
    for member in members {
        let from = artifacts.get(&member.manifest).ok_or_else(|| {
            let name = &member.crate_name;
            Failure::new(format!("cargo built no library of {name}"))
                .help("its Cargo.toml wants `crate-type = [\"cdylib\"]`; `udo new` writes it again")
        })?;
        put(&folder.join(&member.file), |to| fs::copy(from, to).map(|_| ()))?;
        built.push(member.file.clone());
    }
    let mut libraries = Vec::new();
    for member in &workspace.members {
        let path = folder.join(&member.file);
        // What this build leaves out may lie there from an earlier one.
        let is_earlier = old.contains(&member.file) && path.is_file();
        if is_earlier || built.contains(&member.file) {
            libraries.push(entry(member, &path)?);
        }
    }
    let index = Index {
        package: workspace.package.clone(),
        version: workspace.version.clone(),
        sdk_version: udo_api::SDK_VERSION.to_owned(),
        target: host_target(),
        libraries,
        made_by: None,
    };
    put(&folder.join(INDEX_FILE), |to| fs::write(to, index.to_json()))?;
    for file in old.iter().filter(|old| !workspace.members.iter().any(|m| m.file == **old)) {
        remove(&folder.join(file))?;
    }
    Ok(Dist { folder, built, index })
}

/// The libraries of an earlier build; none where the index cannot be read.
fn earlier(folder: &Path) -> Vec<String> {
    match Index::read(folder) {
        Ok(Some(index)) => index.libraries.into_iter().map(|entry| entry.file).collect(),
        Ok(None) | Err(_) => Vec::new(),
    }
}

fn entry(member: &Member, path: &Path) -> Result<IndexEntry, Failure> {
    let (kind, core) = if member.is_registration() {
        (LibraryKind::Registration, None)
    } else {
        let core = Core::from_name(&member.core).ok_or_else(|| {
            Failure::new(format!("{}: no core is called {}", member.crate_name, member.core))
        })?;
        (LibraryKind::Implementation, Some(core))
    };
    Ok(IndexEntry { file: member.file.clone(), kind, core, sha256: index::sha256(path)? })
}

/// Makes a file under another name, then renames it: whoever has the old one open keeps it.
fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let done = make(&temporary).and_then(|()| fs::rename(&temporary, path));
    done.map_err(|error| {
        // Half a file is of no use to anybody.
        let _ = fs::remove_file(&temporary);
        Failure::new(format!("cannot write {}: {error}", path.display()))
    })
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
