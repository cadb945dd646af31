//! Options of containment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use crate::package::OpenError;

/// The file name of the worker program.
const PROGRAM: &str = "udo-worker";

/// Options of containment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Containment {
    /// The time limit of a call of a package's code. The worker process is killed when it is exceeded.
    pub timeout: Duration,
    /// The path of the worker program. By default, `udo-worker` is searched in the folder of this program, in that of the library
    /// that contains the runtime, and in the folder `bin` next to either folder. It must not be writable by other users.
    pub worker: Option<PathBuf>,
}

impl Default for Containment {
    fn default() -> Self {
        Self { timeout: Self::TIMEOUT, worker: None }
    }
}

impl Containment {
    /// The default time limit of a call.
    pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

    /// Sets the time limit of a call.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the path of the worker program.
    #[must_use]
    pub fn worker(self, program: impl Into<PathBuf>) -> Self {
        Self { worker: Some(program.into()), ..self }
    }

    /// Returns the path of the worker program, for the package at `path`.
    pub(super) fn program(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let no_worker = |reason| OpenError::NoWorker { path: path.to_owned(), reason };
        if let Some(program) = &self.worker {
            if !program.is_file() {
                return Err(no_worker(format!("{} is not a file", program.display())));
            }
            // An absolute path: a bare name would be searched in PATH, and the current folder may change before a restart.
            return absolute(program)
                .map_err(|error| no_worker(format!("{}: {error}", program.display())));
        }
        let places = places();
        let found = places.iter().find(|program| program.is_file());
        let program = found.cloned().ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            no_worker(format!("not found at {}", places.join(", ")))
        })?;
        match fs::metadata(&program).map(|metadata| udo_files::writable_by(&metadata)) {
            Ok(None) => Ok(program),
            Ok(Some(writers)) => {
                Err(no_worker(format!("{writers} may write {}", program.display())))
            }
            Err(error) => Err(no_worker(format!("{}: {error}", program.display()))),
        }
    }
}

/// The folders of cargo whose programs use the files of their parent folder: tests and examples.
const OF_CARGO: [&str; 2] = ["deps", "examples"];

/// Returns the paths where the worker program may be: next to this program or the library with this code, or in the folder `bin` of
/// an installation. Other folders, such as the parent of a folder in `/tmp`, may belong to anybody.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for origin in env::current_exe().into_iter().chain(library()) {
        let mut folders = origin.ancestors().skip(1);
        let (folder, parent) = (folders.next(), folders.next());
        let installed = parent.map(|parent| parent.join("bin"));
        let is_of_cargo =
            folder.is_some_and(|folder| OF_CARGO.iter().any(|name| folder.ends_with(name)));
        let parent = parent.filter(|_| is_of_cargo);
        let folders = [folder, parent, installed.as_deref()].into_iter().flatten();
        let found = folders.map(|folder| folder.join(PROGRAM));
        let new: Vec<_> = found.filter(|place| !places.contains(place)).collect();
        places.extend(new);
    }
    places
}

/// Returns the path of the file that this code was mapped from: a library, or the program itself.
fn library() -> Option<PathBuf> {
    let address = (library as *const ()).addr();
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let has_address = |range: &str| {
        let (first, end) = range.split_once('-')?;
        let [first, end] = [first, end].map(|number| usize::from_str_radix(number, 16).ok());
        Some((first?..end?).contains(&address))
    };
    let line =
        maps.lines().find(|line| line.split(' ').next().and_then(has_address).unwrap_or(false))?;
    let path = line.find('/').and_then(|at| line.get(at..))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_path_is_absolute_and_must_exist() {
        let program = |name: &str| Containment::default().worker(name).program(Path::new("own"));
        let found = program("Cargo.toml").unwrap();
        assert!(found.is_absolute() && found.is_file(), "{}", found.display());
        let refused = program("no-such-worker").unwrap_err();
        assert!(refused.to_string().contains("own"), "{refused}");
    }
}
