//! Packages with operators of the user's own, and which of them may be opened.

use std::path::{Path, PathBuf};

use clap::Args;
use udo_runtime::package::{LOCK_FILE, OpenError, Trust};
use udo_runtime::runtime::{Builder, LoadError, Runtime};

use crate::output::Failure;

/// The packages of a command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PackageFlags {
    /// A package with operators of your own: its folder, its dist folder or its registration library
    #[arg(long = "package", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Take packages alone that are signed by a key in this file, or that it allows (docs/trust.md)
    #[arg(long, value_name = "KEYFILE")]
    trust: Vec<PathBuf>,
    /// Take packages alone that are as this file of `udo lock` has them [default: udo.lock, if it is there]
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

impl PackageFlags {
    /// One package.
    pub(crate) fn of(path: &Path) -> Self {
        Self { paths: vec![path.to_owned()], ..Self::default() }
    }

    /// A runtime with the built-in operators and those of the packages.
    pub(crate) fn open(&self) -> Result<Runtime, Failure> {
        self.open_with(Runtime::builder())
    }

    /// The same with what else a runtime is to have.
    pub(crate) fn open_with(&self, builder: Builder) -> Result<Runtime, Failure> {
        let builder = self.paths.iter().fold(builder, Builder::package);
        builder.trust(self.trusted()?).build().map_err(|error| match error {
            LoadError::Package(error) => open_failure(error),
            error => Failure::new(error),
        })
    }

    fn trusted(&self) -> Result<Trust, Failure> {
        let mut trust = Trust::default();
        for path in &self.trust {
            let wanted =
                "`udo sign --new-key KEYFILE` makes a key, and KEYFILE.pub, which others trust";
            trust.keys_of(path).map_err(|error| Failure::new(error).help(wanted))?;
        }
        let given = self.lock.as_deref();
        if let Some(path) =
            given.or_else(|| Some(Path::new(LOCK_FILE)).filter(|path| path.exists()))
        {
            let wanted = "`udo lock PACKAGE` writes one";
            trust.lock_of(path).map_err(|error| Failure::new(error).help(wanted))?;
        }
        Ok(trust)
    }
}

/// The failure for a package that is refused, with the next step.
pub(crate) fn open_failure(error: OpenError) -> Failure {
    let help = error.help();
    Failure::new(error).help(help)
}
