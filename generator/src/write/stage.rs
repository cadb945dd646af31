//! Replaces files atomically: everything is written under temporary names first, then renamed.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{Write, WriteError};

/// Writes the files and removes the others, all or none.
pub(super) fn put(writes: Vec<Write>, removes: &[PathBuf]) -> Result<(), WriteError> {
    let mut undo = Undo::default();
    let mut staged = Vec::with_capacity(writes.len());
    for Write { path, contents, keep_as } in writes {
        undo.create_dirs(path.parent().unwrap_or(&path))?;
        let temporary = undo.write_temporary(&path, &contents)?;
        staged.push((temporary, path, keep_as));
    }
    for (temporary, path, keep_as) in staged {
        if let Some(copy) = keep_as {
            fs::copy(&path, &copy).map_err(WriteError::io(&copy))?;
            undo.files.push(copy);
        }
        undo.replace(&temporary, &path)?;
    }
    for path in removes {
        undo.remove(path)?;
    }
    undo.keep();
    // Folders that still contain files stay.
    for folder in removes.iter().filter_map(|path| path.parent()) {
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// The changes to undo if a later step fails.
#[derive(Debug, Default)]
struct Undo {
    /// Temporary files, and new files.
    files: Vec<PathBuf>,
    /// New folders, outermost first.
    dirs: Vec<PathBuf>,
    /// Replaced or removed files, with their contents.
    replaced: Vec<(PathBuf, Vec<u8>)>,
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

    fn write_temporary(&mut self, path: &Path, contents: &str) -> Result<PathBuf, WriteError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        // `create_new` follows no link and overwrites nothing. The error names the final path,
        // which the user knows.
        let mut file = fs::File::create_new(&temporary).map_err(WriteError::io(path))?;
        self.files.push(temporary.clone());
        file.write_all(contents.as_bytes()).map_err(WriteError::io(path))?;
        Ok(temporary)
    }

    fn replace(&mut self, temporary: &Path, path: &Path) -> Result<(), WriteError> {
        match fs::read(path) {
            Ok(old) => self.replaced.push((path.to_owned(), old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.push(path.to_owned());
            }
            Err(error) => return Err(WriteError::io(path)(error)),
        }
        fs::rename(temporary, path).map_err(WriteError::io(path))
    }

    fn remove(&mut self, path: &Path) -> Result<(), WriteError> {
        let old = fs::read(path).map_err(WriteError::io(path))?;
        fs::remove_file(path).map_err(WriteError::io(path))?;
        self.replaced.push((path.to_owned(), old));
        Ok(())
    }

    fn keep(mut self) {
        self.files.clear();
        self.dirs.clear();
        self.replaced.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The first failure is the one to report; what cannot be undone stays.
        for (path, old) in self.replaced.drain(..) {
            let _ = fs::write(path, old);
        }
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        for dir in self.dirs.drain(..).rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}
