//! Packages with operators of the user's own, and which of them may be opened.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use udo_engine::exit_guard;
use udo_engine::package::{Build, LOCK_FILE, Lock};
use udo_runtime::package::{Containment, OpenError, Trust};
use udo_runtime::{Builder, LoadError, Runtime};

use crate::output::{Failure, Outcome, note};

/// The packages of a command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PackageFlags {
    /// Use the custom operators of this package
    ///
    /// PACKAGE is the package's folder, its dist folder or its registration library. May be given
    /// several times.
    #[arg(long = "package", value_name = "PACKAGE")]
    pub(crate) paths: Vec<PathBuf>,
    /// Accept only packages that are signed by a key in this file
    ///
    /// KEYFILE lists public keys. It may also list the digests of single packages to accept
    /// (docs/trust.md). May be given several times.
    #[arg(long, value_name = "KEYFILE")]
    trust: Vec<PathBuf>,
    /// Accept only packages that match this lock file
    ///
    /// `udo lock` writes lock files. [default: udo.lock in the current
    /// folder or the nearest folder above that has one]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Use this package, and run its code in a separate process
    ///
    /// If the code crashes, exits or hangs, the command reports an error (docs/containment.md). May
    /// be given several times.
    #[arg(long = "contain", value_name = "PACKAGE")]
    pub(crate) contained: Vec<PathBuf>,
    /// Run the code of unsigned packages in a separate process
    ///
    /// Without this flag, a --package that is not signed by a key of --trust is refused. With this
    /// flag it is used as with --contain.
    #[arg(long)]
    pub(crate) contain_unsigned: bool,
    /// Stop a call of a package's code after this time
    ///
    /// For a contained package, the call fails and its process is ended. For other packages `udo`
    /// itself exits. [default: 60 for contained packages, no limit for others]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

/// How much longer than a call a contained one may take: the time in which its worker is ended and started again.
const WORKER_GRACE: Duration = Duration::from_secs(5);

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "expected seconds above 0, as 5 or 0.5".to_owned())
}

impl PackageFlags {
    /// One package.
    pub(crate) fn one(path: &Path) -> Self {
        Self { paths: vec![path.to_owned()], ..Self::default() }
    }

    /// A runtime with the built-in operators and those of the packages.
    pub(crate) fn open(&self) -> Result<Runtime, Failure> {
        self.open_with(Runtime::builder())
    }

    /// The same with what else a runtime is to have.
    pub(crate) fn open_with(&self, builder: Builder) -> Result<Runtime, Failure> {
        self.watch()?;
        self.refuse_both()?;
        let containment = self
            .timeout
            .map_or_else(Containment::default, |timeout| Containment::default().timeout(timeout));
        let mut builder = self.paths.iter().fold(builder, Builder::package);
        for path in &self.contained {
            builder = builder.contained(path, containment.clone());
        }
        if self.contain_unsigned {
            builder = builder.contain_unsigned(containment);
        }
        builder.trust(self.trusted()?).build().map_err(|error| match error {
            LoadError::Package(error) => open_failure(error),
            error => Failure::new(error),
        })
    }

    /// Refuses a package that is both to be contained and not.
    fn refuse_both(&self) -> Outcome {
        // Packages that cannot be located are refused when they are opened.
        let builds = |paths: &[PathBuf]| -> Vec<Build> {
            paths.iter().filter_map(|path| Build::locate(path).ok()).collect()
        };
        if self.paths.is_empty() || self.contained.is_empty() {
            return Ok(());
        }
        let contained = builds(&self.contained);
        for path in &self.paths {
            if builds(std::slice::from_ref(path))
                .iter()
                .any(|build| contained.iter().any(|other| build.is_same(other)))
            {
                let path = path.display();
                return Err(Failure::new(format!(
                    "package {path} is given with --package and with --contain"
                ))
                .help("leave out --package to run its code in a worker process"));
            }
        }
        Ok(())
    }

    /// Has the program end where a package hangs that is not contained.
    fn watch(&self) -> Result<(), Failure> {
        let Some(timeout) = self.timeout else { return Ok(()) };
        // A worker that hangs is ended first, and another one may have to start.
        let contains = self.contain_unsigned || !self.contained.is_empty();
        let limit = if contains { timeout.saturating_mul(2) + WORKER_GRACE } else { timeout };
        exit_guard::watch(limit)
            .map_err(|error| Failure::new(format!("nobody can watch for --timeout: {error}")))
    }

    fn trusted(&self) -> Result<Trust, Failure> {
        let mut trust = Trust::default();
        for path in &self.trust {
            trust.add_key_file(path).map_err(|error| {
                let help = error.help();
                Failure::new(error).help(help)
            })?;
        }
        let path = match &self.lock {
            Some(path) => Some(path.clone()),
            None => found_lock_file(),
        };
        if let Some(path) = path {
            trust.set_lock_file(&path).map_err(|error| {
                let help = error.help();
                Failure::new(error).help(help)
            })?;
        }
        Ok(trust)
    }
}

/// Returns the lock file of the project that contains the current folder. Names one that is not in the folder itself.
pub(crate) fn found_lock_file() -> Option<PathBuf> {
    let folder = env::current_dir().ok()?;
    let path = Lock::find(&folder)?;
    if path.parent() == Some(&folder) {
        return Some(LOCK_FILE.into());
    }
    note(format_args!("packages are checked against {}", path.display()));
    Some(path)
}

/// The failure for a package that is refused, with the next step.
pub(crate) fn open_failure(error: OpenError) -> Failure {
    let help = error.help();
    Failure::new(error).help(help)
}
