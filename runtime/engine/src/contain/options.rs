//! How packages are contained.

use std::env;
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use crate::package::OpenError;

/// The file name of the worker's program.
const PROGRAM: &str = "udo-worker";

/// How packages are contained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Containment {
    /// How long a call of a package's code may take; the worker is ended then.
    pub timeout: Duration,
    /// The worker's program; the file `udo-worker` beside this program or the library that the runtime is in, in the folder above, or in
    /// the folder `bin` there, unless said.
    pub worker: Option<PathBuf>,
}

impl Default for Containment {
    fn default() -> Self {
        Self { timeout: Self::TIMEOUT, worker: None }
    }
}

impl Containment {
    /// How long a call may take where nothing is said.
    pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

    /// With another time that a call may take.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// With another program for workers.
    #[must_use]
    pub fn worker(self, program: impl Into<PathBuf>) -> Self {
        Self { worker: Some(program.into()), ..self }
    }

    /// The worker's program, for the package at `path`.
    pub(super) fn program(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let none = |reason| OpenError::NoWorker { path: path.to_owned(), reason };
        if let Some(program) = &self.worker {
            if !program.is_file() {
                return Err(none(format!("{} is no file", program.display())));
            }
            // A bare name would be looked for elsewhere, and the folder may be another one when it is started again.
            return absolute(program)
                .map_err(|error| none(format!("{}: {error}", program.display())));
        }
        let places = places();
        let found = places.iter().find(|program| program.is_file());
        found.cloned().ok_or_else(|| {
            let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            none(format!("there is none of {}", places.join(", ")))
        })
    }
}

/// Where the worker may lie: beside this program or the library that this code is in, or in the folder above; or, as installed, in the
/// folder of programs beside that of libraries.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for own in env::current_exe().into_iter().chain(library()) {
        let mut folders = own.ancestors().skip(1);
        let (beside, above) = (folders.next(), folders.next());
        let installed = above.map(|above| above.join("bin"));
        let folders = [beside, above, installed.as_deref()].into_iter().flatten();
        let found = folders.map(|folder| folder.join(PROGRAM));
        let new: Vec<_> = found.filter(|place| !places.contains(place)).collect();
        places.extend(new);
    }
    places
}

/// The file that this code was mapped from: a library of the program, or the program itself.
fn library() -> Option<PathBuf> {
    let here = (library as *const ()).addr();
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let is_here = |range: &str| {
        let (first, end) = range.split_once('-')?;
        let [first, end] = [first, end].map(|number| usize::from_str_radix(number, 16).ok());
        Some((first?..end?).contains(&here))
    };
    let line =
        maps.lines().find(|line| line.split(' ').next().and_then(is_here).unwrap_or(false))?;
    let path = line.find('/').and_then(|at| line.get(at..))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_the_file_that_it_was_wherever_the_process_goes() {
        let program = |name: &str| Containment::default().worker(name).program(Path::new("own"));
        let found = program("Cargo.toml").unwrap();
        assert!(found.is_absolute() && found.is_file(), "{}", found.display());
        let refused = program("no-such-worker").unwrap_err();
        assert!(refused.to_string().contains("own"), "{refused}");
    }
}
