//! Libraries out of cargo's target folder into `dist/`, under the package's names.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use udo_api::Core;
use udo_engine::package::index::{self, INDEX_FILE, Index, IndexEntry, LibraryKind, SourceEntry};
use udo_engine::package::{DIST_FOLDER, host_target};

use super::{Member, cargo::Artifacts, workspace::Workspace};
use crate::output::Failure;

/// The contents of `dist/`.
#[derive(Debug)]
pub(super) struct Dist {
    pub(super) folder: PathBuf,
    /// The libraries that this build put there, as paths in the folder.
    pub(super) built: Vec<String>,
    /// Everything there.
    pub(super) index: Index,
}

/// The current source files of each crate, by its manifest.
pub(super) type Sources = BTreeMap<PathBuf, Vec<SourceEntry>>;

/// Returns the source files of these crates: their own, and those that the package's crates share. All crates for the DSP share
/// their files.
pub(super) fn sources(workspace: &Workspace, members: &[&Member]) -> Result<Sources, Failure> {
    let root = &workspace.dir;
    let folder = |member: &Member| member.manifest.parent().unwrap_or(root).to_owned();
    let mut sources = Sources::new();
    for member in members {
        let mut own = vec![folder(member)];
        if member.is_dsp() {
            let others = workspace.members.iter().filter(|other| other.is_dsp());
            own.extend(others.map(folder).filter(|other| *other != folder(member)));
        }
        let mut all = Vec::new();
        for (at, folder) in own.iter().enumerate() {
            files(root, folder, at > 0, &mut all)?;
        }
        files(root, &root.join("common"), true, &mut all)?;
        all.push(source(root, &root.join("Cargo.toml"), true)?);
        sources.insert(member.manifest.clone(), all);
    }
    Ok(sources)
}

/// The files in a folder and below it, in order, but for what editors, cargo and `udo new` leave there.
fn files(
    root: &Path,
    folder: &Path,
    is_shared: bool,
    to: &mut Vec<SourceEntry>,
) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Ok(());
    }
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_left = name.starts_with('.') || name.ends_with('~') || name.contains(".edited");
        if is_left || path.is_symlink() || name == "target" && path.is_dir() {
            continue;
        }
        if path.is_dir() {
            files(root, &path, is_shared, to)?;
        } else {
            to.push(source(root, &path, is_shared)?);
        }
    }
    Ok(())
}

fn source(root: &Path, path: &Path, is_shared: bool) -> Result<SourceEntry, Failure> {
    let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Ok(SourceEntry { file, sha256: index::sha256(path)?, is_shared })
}

/// Puts the libraries in place, then the index.
pub(super) fn gather(
    workspace: &Workspace,
    members: &[&Member],
    artifacts: &Artifacts,
    mut sources: Sources,
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
        put(&folder.join(&member.file), |to| {
            io::copy(&mut udo_files::open(from)?, to).map(|_| ())
        })?;
        built.push(member.file.clone());
    }
    let mut libraries = Vec::new();
    for member in &workspace.members {
        let path = folder.join(&member.file);
        // What this build leaves out may lie there from an earlier one.
        let earlier = old.iter().find(|old| old.file == member.file && path.is_file());
        if built.contains(&member.file) {
            let sources = sources.remove(&member.manifest).unwrap_or_default();
            libraries.push(IndexEntry { sources, ..entry(member, &path)? });
        } else if let Some(earlier) = earlier {
            let sources = earlier.sources.clone();
            libraries.push(IndexEntry { sources, ..entry(member, &path)? });
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
    put(&folder.join(INDEX_FILE), |to| to.write_all(index.to_json().as_bytes()))?;
    for old in old.iter().filter(|old| !workspace.members.iter().any(|m| m.file == old.file)) {
        remove(&folder.join(&old.file))?;
    }
    Ok(Dist { folder, built, index })
}

/// The libraries of an earlier build; none where the index cannot be read.
fn earlier(folder: &Path) -> Vec<IndexEntry> {
    match Index::read(folder) {
        Ok(Some(index)) => index.libraries,
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
    let (file, sha256, sources) = (member.file.clone(), index::sha256(path)?, Vec::new());
    Ok(IndexEntry { file, kind, core, sha256, sources })
}

/// Makes a file under another name, then renames it: whoever has the old one open keeps it.
fn put(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> Result<(), Failure> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    udo_files::write_with(path, udo_files::Access::Default, fill)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
