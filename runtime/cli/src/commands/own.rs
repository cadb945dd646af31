//! A package as its folder keeps it: the configs that it was made from, and whether the rest still agrees with them.

use std::path::{Path, PathBuf};

use udo_generator::{
    Config, ExistingFolder, Mode, Options, Origin, Sdk, Source, Templates, TemplatesOwner,
    config::Package,
};

use crate::output::Failure;
use crate::root;

/// The SDK of the package in a folder, and its files that are out of date.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The SDK to build against, where there is one.
    pub(super) root: Option<PathBuf>,
    /// Files that do not agree with the configs and the templates of this program, and why.
    pub(super) stale: Vec<(String, String)>,
}

/// The configs that the package in `dir` keeps.
pub(super) fn configs(dir: &Path) -> Result<Origin, Failure> {
    let Some(kept) = udo_generator::read_origin(dir)? else {
        return Err(Failure::new(format!("{} holds no package made by `udo new`", dir.display()))
            .help("give a config, or the folder of a package"));
    };
    if let Some(file) = kept.missing.first() {
        return Err(Failure::new(format!("{} is not there", dir.join(file).display()))
            .help("put it back, or give the config that it was a copy of"));
    }
    Ok(kept)
}

/// Looks at the package in `dir`, which may be none of ours.
pub(super) fn look(dir: &Path) -> Result<Own, Failure> {
    let Some(kept) = udo_generator::read_origin(dir)? else { return Ok(Own::anywhere(Vec::new())) };
    if !kept.missing.is_empty() {
        let missing = kept.missing.into_iter().map(|file| (file, "missing".to_owned()));
        return Ok(Own::anywhere(missing.collect()));
    }
    let sources: Vec<Source<'_>> =
        kept.configs.iter().map(|(path, text)| Source { path, text }).collect();
    let broken = |why: String| Ok(Own::anywhere(vec![("config/".to_owned(), why)]));
    let config = match read(&sources) {
        Ok(config) => config,
        Err(error) => return broken(format!("cannot be read: {error}")),
    };
    let Some(package) = config.packages.iter().find(|package| package.name == kept.package) else {
        return broken(format!("defines no package {}", kept.package));
    };
    // A package that says itself where the SDK is builds without it; others are told by whoever asks for it.
    let Ok(root) = root::of_package(package) else { return Ok(Own::default()) };
    let stale = match kept.templates {
        TemplatesOwner::Sdk => {
            let inside = root::path_inside(dir, &root)?;
            let sdk = inside.as_deref().map_or(Sdk::Version(udo_api::SDK_VERSION), Sdk::Folder);
            let (templates, there) = (&Templates::embedded(), &udo_generator::there(dir)?);
            stale(package, dir, &Options { sdk, configs: &sources, templates, there })?
        }
        // What they would print is not known here.
        TemplatesOwner::Author => Vec::new(),
    };
    Ok(Own { root: Some(root), stale })
}

/// Vendors' habits were agreed to when the package was made.
fn read(sources: &[Source<'_>]) -> Result<Config, udo_generator::ConfigError> {
    let strict = udo_generator::read(sources, Mode::Strict);
    let read =
        strict.or_else(|error| udo_generator::read(sources, Mode::Compat).map_err(|_| error));
    read.map(|(config, _)| config)
}

fn stale(
    package: &Package,
    dir: &Path,
    options: &Options<'_>,
) -> Result<Vec<(String, String)>, Failure> {
    let tree = udo_generator::plan(package, options)?;
    let report = udo_generator::survey(&tree, dir, ExistingFolder::Refuse)?.report;
    let stale = report.stale().into_iter();
    Ok(stale.map(|(file, why)| (file.to_owned(), why.to_owned())).collect())
}

impl Own {
    /// Returns the state of a package whose SDK no config specifies: it is built against the SDK of this program.
    fn anywhere(stale: Vec<(String, String)>) -> Self {
        Self { root: root::find().ok(), stale }
    }
}
