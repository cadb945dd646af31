//! How packages are contained.

use std::env;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The file name of the worker's program.
const PROGRAM: &str = "udo-worker";

/// How packages are contained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Containment {
    /// How long a call of a package's code may take; the worker is ended then.
    pub timeout: Duration,
    /// The worker's program; the file `udo-worker` beside this program, or in the folder above its own, unless said.
    pub worker: Option<PathBuf>,
}

impl Default for Containment {
    fn default() -> Self {
        Self { timeout: Self::TIMEOUT, worker: None }
    }
}

impl Containment {
    /// How long a call may take where nothing is said.
    pub const TIMEOUT: Duration = Duration::from_mins(1);

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

    /// The worker's program.
    pub(super) fn program(&self) -> io::Result<PathBuf> {
        if let Some(program) = &self.worker {
            return Ok(program.clone());
        }
        let own = env::current_exe()?;
        let folders = own.ancestors().skip(1).take(2);
        let found = folders.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file());
        found.ok_or_else(|| {
            let beside = own.with_file_name(PROGRAM);
            io::Error::other(format!("there is no {PROGRAM} at {}", beside.display()))
        })
    }
}
