//! Creates folders whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::write::{folder, sync_folder, temporary_path, temporary_prefix};

/// A folder that is filled under a temporary name next to its path and appears there when it is complete.
///
/// Dropping it removes it. A process that was stopped leaves it; the next one with the same path removes it.
#[derive(Debug)]
pub struct NewFolder {
    temporary: PathBuf,
    path: PathBuf,
    /// Locked while the folder is filled, so that others can tell it from an abandoned one.
    lock: File,
    is_complete: bool,
}

impl NewFolder {
    /// Creates an empty folder next to `path`, whose parent must exist.
    ///
    /// # Errors
    /// Fails if the parent does not exist or cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        remove_abandoned(path);
        let temporary = temporary_path(path);
        fs::create_dir(&temporary)?;
        let lock = File::open(&temporary)?;
        lock.lock()?;
        Ok(Self { temporary, path: path.to_owned(), lock, is_complete: false })
    }

    /// Returns the path of the folder until it is complete.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Renames the folder to its path. An empty folder there is replaced.
    ///
    /// # Errors
    /// Fails if the path has been taken, or the folder cannot be renamed.
    pub fn complete(mut self) -> io::Result<()> {
        self.lock.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        self.is_complete = true;
        sync_folder(&self.path)
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.is_complete {
            // The next process with this path tries again.
            let _ = fs::remove_dir_all(&self.temporary);
        }
    }
}

/// Removes folders for `path` that a stopped process left: nobody holds their lock.
fn remove_abandoned(path: &Path) {
    let prefix = temporary_prefix(path);
    let Ok(entries) = fs::read_dir(folder(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes())
            && name.as_encoded_bytes().ends_with(b".part");
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // An empty folder may be one that another process has not locked yet.
        let is_empty = fs::read_dir(entry.path()).map_or(true, |mut files| files.next().is_none());
        let Ok(lock) = File::open(entry.path()) else { continue };
        if !is_empty && lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[expect(clippy::unwrap_used, reason = "a folder that cannot be read fails the test")]
    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_folder_appears_when_it_is_complete() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("package");
        let new = NewFolder::create(&path).unwrap();
        fs::write(new.temporary().join("file"), "text").unwrap();
        assert!(!path.exists());
        new.complete().unwrap();
        assert_eq!(fs::read(path.join("file")).unwrap(), b"text");
        assert_eq!(count(parent.path()), 1);
    }

    #[test]
    fn a_folder_with_files_is_not_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("package");
        let new = NewFolder::create(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "old").unwrap();
        assert!(new.complete().is_err());
        assert_eq!(fs::read(path.join("file")).unwrap(), b"old");
        assert_eq!(count(parent.path()), 1);
    }

    #[test]
    fn only_abandoned_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("package");
        let abandoned = parent.path().join(".package.0123.part");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("file"), "").unwrap();
        let used = NewFolder::create(&path).unwrap();
        assert!(!abandoned.exists());
        let other = NewFolder::create(&path).unwrap();
        assert!(used.temporary().exists() && other.temporary().exists());
        drop(used);
        other.complete().unwrap();
        assert_eq!(count(parent.path()), 1);
    }
}
