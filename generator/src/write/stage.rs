//! Applies an update of a package folder: all of it or nothing, also if the process is killed.
//!
//! A new package is filled under a temporary name and renamed. An existing package is updated by a journal: all new files are written
//! to a staging folder inside the package, then the journal, which lists the renames to make. From then on the update is
//! certain to happen: whoever opens the package next, [`recover`], makes the renames that are left. Before that, the package is
//! unchanged, and the staging folder is only removed.
//!
//! Files are not flushed to disk, as a package can be generated again after the machine has lost power.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Write, WriteError};

/// The staging folder in a package.
const STAGING: &str = ".udo-update";

/// The journal in the staging folder.
const JOURNAL: &str = "journal.json";

/// The largest journal: some hundred bytes for each file of a package.
const JOURNAL_BYTES: u64 = 64 << 20;

/// The files of a package to write and to remove.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) dir: PathBuf,
    pub(super) writes: Vec<Write>,
    pub(super) removes: Vec<PathBuf>,
}

/// Makes the changes to all packages, or none if one of them fails.
pub(super) fn put(packages: Vec<Changes>) -> Result<(), WriteError> {
    let mut undo = Undo::default();
    let staged: Vec<Staged> = packages
        .into_iter()
        .filter(|changes| !changes.writes.is_empty() || !changes.removes.is_empty())
        .map(|changes| Staged::create(changes, &mut undo))
        .collect::<Result<_, _>>()?;
    for package in staged {
        package.apply(&mut undo)?;
    }
    undo.complete();
    Ok(())
}

/// Completes an update of the package in `dir` that a killed process left, or removes what it had staged.
pub(super) fn recover(dir: &Path) -> Result<(), WriteError> {
    let staging = dir.join(STAGING);
    if !is_folder(&staging) {
        return Ok(());
    }
    let lock = fs::File::open(&staging).map_err(WriteError::io(&staging))?;
    // Another process may be at work; its update is complete when it lets go.
    lock.lock().map_err(WriteError::io(&staging))?;
    let journal = staging.join(JOURNAL);
    match udo_files::read(&journal, JOURNAL_BYTES) {
        Ok(bytes) => {
            let invalid = |error: serde_json::Error| WriteError::io(&journal)(error.into());
            let journal: Journal = serde_json::from_slice(&bytes).map_err(invalid)?;
            let mut undo = Undo::default();
            let applied = journal.apply(dir, &mut undo);
            // After a failure the journal stays, and the next call goes on.
            undo.complete();
            applied?;
        }
        // The update was not certain to happen yet, or another process has completed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(WriteError::io(&journal)(error)),
    }
    remove_staging(&staging)
}

fn remove_staging(staging: &Path) -> Result<(), WriteError> {
    // Without its journal, a staging folder that is removed in part has no effect.
    for remove in [fs::remove_file(staging.join(JOURNAL)), fs::remove_dir_all(staging)] {
        match remove {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WriteError::io(staging)(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// A package whose new files are on disk, but not in their places.
enum Staged {
    New(udo_files::NewFolder, PathBuf),
    Update { dir: PathBuf, journal: Journal, _lock: fs::File },
}

impl Staged {
    fn create(
        Changes { dir, writes, removes }: Changes,
        undo: &mut Undo,
    ) -> Result<Self, WriteError> {
        if fs::symlink_metadata(&dir).is_ok() {
            return Self::update(dir, writes, &removes, undo);
        }
        let parent = dir.parent().unwrap_or(&dir);
        undo.create_dirs(parent)?;
        let folder = udo_files::NewFolder::create(&dir).map_err(WriteError::io(&dir))?;
        for Write { path, contents, .. } in writes {
            let temporary = folder.temporary().join(relative(&dir, &path)?);
            let parent = temporary.parent().unwrap_or(&temporary);
            // Errors name the final path, which the user knows.
            fs::create_dir_all(parent)
                .and_then(|()| fs::write(&temporary, contents))
                .map_err(WriteError::io(&path))?;
        }
        Ok(Self::New(folder, dir))
    }

    fn update(
        dir: PathBuf,
        writes: Vec<Write>,
        removes: &[PathBuf],
        undo: &mut Undo,
    ) -> Result<Self, WriteError> {
        recover(&dir)?;
        let staging = dir.join(STAGING);
        let failed = WriteError::io(&staging);
        let lock = fs::create_dir(&staging)
            .and_then(|()| fs::File::open(&staging))
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(failed)?;
        undo.staging.push(staging.clone());
        let mut journal = Journal::default();
        for (index, Write { path, contents, keep_as }) in writes.into_iter().enumerate() {
            fs::write(staging.join(index.to_string()), contents).map_err(WriteError::io(&path))?;
            journal.renames.push(Rename {
                path: relative(&dir, &path)?,
                keep_as: keep_as.map(|copy| relative(&dir, &copy)).transpose()?,
            });
        }
        journal.removes =
            removes.iter().map(|path| relative(&dir, path)).collect::<Result<_, _>>()?;
        Ok(Self::Update { dir, journal, _lock: lock })
    }

    fn apply(self, undo: &mut Undo) -> Result<(), WriteError> {
        match self {
            Self::New(folder, dir) => {
                folder.complete().map_err(WriteError::io(&dir))?;
                undo.folders.push(dir);
                Ok(())
            }
            Self::Update { dir, journal, .. } => {
                let path = dir.join(STAGING).join(JOURNAL);
                let text = serde_json::to_vec(&journal).map_err(io::Error::from);
                text.and_then(|text| udo_files::write(&path, &text))
                    .map_err(WriteError::io(&path))?;
                journal.apply(&dir, undo)
            }
        }
    }
}

/// The changes to a package whose files are staged. Paths are relative to the package.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    /// The staged file of each rename has its index as name.
    renames: Vec<Rename>,
    removes: Vec<PathBuf>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    path: PathBuf,
    /// The path to copy the existing file to first.
    keep_as: Option<PathBuf>,
}

impl Journal {
    /// Makes the changes that were not made before.
    fn apply(&self, dir: &Path, undo: &mut Undo) -> Result<(), WriteError> {
        let staging = dir.join(STAGING);
        for (index, Rename { path, keep_as }) in self.renames.iter().enumerate() {
            let (temporary, path) = (staging.join(index.to_string()), inside(dir, path)?);
            if !temporary.exists() {
                continue;
            }
            undo.create_dirs(path.parent().unwrap_or(&path))?;
            if let Some(copy) = keep_as {
                let copy = inside(dir, copy)?;
                fs::copy(&path, &copy).map_err(WriteError::io(&copy))?;
                undo.files.push(copy);
            }
            undo.remember(&path, &staging.join(format!("{index}.old")))?;
            fs::rename(&temporary, &path).map_err(WriteError::io(&path))?;
        }
        for (index, path) in self.removes.iter().enumerate() {
            let path = inside(dir, path)?;
            if path.exists() {
                undo.remember(&path, &staging.join(format!("{index}.removed")))?;
                fs::remove_file(&path).map_err(WriteError::io(&path))?;
            }
            undo.emptied.extend(path.parent().map(Path::to_owned));
        }
        Ok(())
    }
}

/// Returns the path relative to `dir`.
fn relative(dir: &Path, path: &Path) -> Result<PathBuf, WriteError> {
    let outside = |_| WriteError::Outside { path: path.display().to_string() };
    path.strip_prefix(dir).map(Path::to_owned).map_err(outside)
}

/// Returns the path in `dir`. A journal could have been changed by somebody else.
fn inside(dir: &Path, path: &Path) -> Result<PathBuf, WriteError> {
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_inside && path.file_name().is_some() {
        return Ok(dir.join(path));
    }
    Err(WriteError::Outside { path: path.display().to_string() })
}

/// The changes to undo if a later step fails.
#[derive(Debug, Default)]
struct Undo {
    /// New files.
    files: Vec<PathBuf>,
    /// New folders, outermost first.
    dirs: Vec<PathBuf>,
    /// New packages.
    folders: Vec<PathBuf>,
    /// Replaced or removed files, each with a second link to its content.
    replaced: Vec<(PathBuf, PathBuf)>,
    staging: Vec<PathBuf>,
    /// Folders of removed files, to be removed in the end.
    emptied: Vec<PathBuf>,
}

impl Undo {
    fn create_dirs(&mut self, dir: &Path) -> Result<(), WriteError> {
        let missing: Vec<&Path> = dir
            .ancestors()
            .take_while(|part| !part.as_os_str().is_empty() && !part.exists())
            .collect();
        for part in missing.into_iter().rev() {
            match fs::create_dir(part) {
                Ok(()) => self.dirs.push(part.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(WriteError::io(part)(error)),
            }
        }
        Ok(())
    }

    /// Keeps the content of `path`, if there is a file, at `old`.
    fn remember(&mut self, path: &Path, old: &Path) -> Result<(), WriteError> {
        let linked = fs::hard_link(path, old).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems have no hard links.
            _ => fs::copy(path, old).map(|_| ()),
        });
        match linked {
            Ok(()) => self.replaced.push((path.to_owned(), old.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.push(path.to_owned());
            }
            // An interrupted update has kept it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(WriteError::io(path)(error)),
        }
        Ok(())
    }

    /// Removes the staging folders: every change has been made.
    fn complete(mut self) {
        for staging in self.staging.drain(..) {
            // `recover` removes what is left.
            let _ = remove_staging(&staging);
        }
        for dir in self.emptied.drain(..) {
            // Folders that still contain files stay.
            let _ = fs::remove_dir(dir);
        }
        self.files.clear();
        self.dirs.clear();
        self.folders.clear();
        self.replaced.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The first failure is the one to report; what cannot be undone stays.
        for staging in &self.staging {
            let _ = fs::remove_file(staging.join(JOURNAL));
        }
        for (path, old) in self.replaced.drain(..) {
            let _ = fs::rename(old, path);
        }
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        for folder in self.folders.drain(..).chain(self.staging.drain(..)) {
            let _ = fs::remove_dir_all(folder);
        }
        for dir in self.dirs.drain(..).rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, contents: &str) -> Write {
        Write { path, contents: contents.to_owned(), keep_as: None }
    }

    /// Returns all paths and contents below `dir`, in order.
    fn tree(dir: &Path) -> Vec<(String, String)> {
        let files = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(Result::unwrap);
        files
            .filter(|entry| entry.file_type().is_file())
            .map(|entry| {
                let path = entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned();
                (path, fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }

    /// A package with two files, and an update that replaces one, adds one and removes one.
    fn package(dir: &Path) -> Changes {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("a"), "old a").unwrap();
        fs::write(dir.join("b"), "old b").unwrap();
        Changes {
            dir: dir.to_owned(),
            writes: vec![
                Write { keep_as: Some(dir.join("a.edited")), ..write(dir.join("a"), "new a") },
                write(dir.join("new/c"), "new c"),
            ],
            removes: vec![dir.join("b")],
        }
    }

    fn updated() -> Vec<(String, String)> {
        [("a", "new a"), ("a.edited", "old a"), ("new/c", "new c")]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .to_vec()
    }

    #[test]
    fn an_update_changes_all_files() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("P");
        put(vec![package(&dir)]).unwrap();
        assert_eq!(tree(&dir), updated());
    }

    #[test]
    fn a_failure_in_one_package_leaves_all_as_they_were() {
        let parent = tempfile::tempdir().unwrap();
        let (first, second) = (parent.path().join("P"), parent.path().join("Q"));
        let new = Changes {
            dir: parent.path().join("deep/R"),
            writes: vec![write(parent.path().join("deep/R/file"), "text")],
            removes: Vec::new(),
        };
        let changes = vec![package(&first), new, package(&second)];
        // A folder is in the place of a file of the second package.
        fs::create_dir_all(second.join("new/c/d")).unwrap();
        let before = tree(parent.path());
        put(changes).unwrap_err();
        assert_eq!(tree(parent.path()), before);
        assert!(!parent.path().join("deep").exists());
        assert!(!first.join(STAGING).exists() && !first.join("new").exists());
    }

    #[test]
    fn an_update_that_was_interrupted_is_completed_or_forgotten() {
        for made in 0..4 {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("P");
            let changes = package(&dir);
            let before = tree(&dir);
            let mut undo = Undo::default();
            let Staged::Update { journal, .. } = Staged::create(changes, &mut undo).unwrap() else {
                panic!("the package exists");
            };
            std::mem::forget(undo);
            if made == 0 {
                recover(&dir).unwrap();
                assert_eq!(tree(&dir), before);
                continue;
            }
            let text = serde_json::to_vec(&journal).unwrap();
            fs::write(dir.join(STAGING).join(JOURNAL), text).unwrap();
            // The process is killed after some of the renames.
            let part = Journal {
                renames: journal.renames.into_iter().take(made - 1).collect(),
                removes: Vec::new(),
            };
            let mut undo = Undo::default();
            part.apply(&dir, &mut undo).unwrap();
            std::mem::forget(undo);
            recover(&dir).unwrap();
            recover(&dir).unwrap();
            assert_eq!(tree(&dir), updated(), "after {made}");
        }
    }

    #[test]
    fn a_journal_cannot_lead_out_of_its_package() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("P");
        let staging = dir.join(STAGING);
        fs::create_dir_all(&staging).unwrap();
        fs::write(staging.join("0"), "text").unwrap();
        for path in ["../outside", "/tmp/outside", ""] {
            let journal = Journal {
                renames: vec![Rename { path: path.into(), keep_as: None }],
                removes: Vec::new(),
            };
            fs::write(staging.join(JOURNAL), serde_json::to_vec(&journal).unwrap()).unwrap();
            assert!(matches!(recover(&dir), Err(WriteError::Outside { .. })), "{path}");
        }
        assert!(!parent.path().join("outside").exists());
        fs::write(staging.join(JOURNAL), "{").unwrap();
        assert!(matches!(recover(&dir), Err(WriteError::Io { .. })));
    }
}
