//! Where the SDK is, and how packages name it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Once,
};

use udo_generator::{ExpandError, config::Package, expand, toml_string};

use crate::output::{Failure, note};

/// The environment variable that names the SDK's folder.
pub(crate) const VARIABLE: &str = "UDO_ROOT";

/// The variable of the vendors' tools, whose own SDK does not contain `udo-api`.
const VENDORS_VARIABLE: &str = "SNPE_UDO_ROOT";

/// Where this program was built.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Whether `dir` is an SDK: a checkout, or what `./dist` makes of one.
pub(crate) fn holds_api(dir: &Path) -> bool {
    dir.join("udo-api/Cargo.toml").is_file()
}

/// An SDK, and how it was chosen.
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    pub(crate) by: By,
}

/// The origin of the choice of the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// `UDO_ROOT`.
    Variable,
    /// `SNPE_UDO_ROOT`, which may just as well name a vendor's SDK.
    VendorsVariable,
    /// The folder that this program is in: a checkout, or what `./dist` makes of one.
    Program,
    /// Nothing: it is where this program was built.
    Built,
}

impl By {
    const fn words(self) -> &'static str {
        match self {
            Self::Variable => "UDO_ROOT is",
            Self::VendorsVariable => "SNPE_UDO_ROOT is",
            Self::Program => "this udo is in",
            Self::Built => "this udo was built in",
        }
    }
}

/// The SDK: `UDO_ROOT`, else `SNPE_UDO_ROOT` where that names one, else the one that this program lies in, else where it was built.
pub(crate) fn look() -> Result<Found, Failure> {
    let help = "set UDO_ROOT to the folder of the SDK that holds udo-api, or run the udo in it";
    let set = |name: &str| env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let (dir, by) = match (env::var_os(VARIABLE).map(PathBuf::from), set(VENDORS_VARIABLE)) {
        (Some(dir), _) => (dir, By::Variable),
        (None, Some(dir)) if holds_api(&dir) => (dir, By::VendorsVariable),
        (None, _) => match around_program() {
            Some(dir) => (dir, By::Program),
            None => (PathBuf::from(BUILT_IN), By::Built),
        },
    };
    if holds_api(&dir) {
        return Ok(Found { dir: std::path::absolute(dir.canonicalize()?)?, by });
    }
    let text = format!("{} {}, where udo-api was not found", by.words(), dir.display());
    Err(Failure::new(text).help(help))
}

/// The folder of the SDK, with a note where nobody said that it is the one.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    static SAID: Once = Once::new();
    let Found { dir, by } = look()?;
    if by == By::Built {
        SAID.call_once(|| {
            note(format_args!(
                "udo is not inside an SDK; using the one that it was built from, {} (UDO_ROOT selects another)",
                dir.display()
            ));
        });
    }
    Ok(dir)
}

/// The SDK that this program lies in, if it lies in one: the nearest folder around it.
fn around_program() -> Option<PathBuf> {
    let program = env::current_exe().and_then(fs::canonicalize).ok()?;
    program.ancestors().skip(1).find(|dir| holds_api(dir)).map(Path::to_owned)
}

/// The SDK that a package is built against: `UDO_ROOT`, else what its config says, else `SNPE_UDO_ROOT` of the environment, else
/// that of this program.
pub(crate) fn of_package(package: &Package) -> Result<PathBuf, Failure> {
    if env::var_os(VARIABLE).is_none()
        && let Some(dir) = &package.udo_root
    {
        match expanded(dir) {
            Ok(dir) if holds_api(&dir) => return Ok(std::path::absolute(dir)?),
            Ok(dir) => note(format_args!(
                "SNPE_UDO_ROOT of {} is {}, which contains no udo-api; using the SDK of this udo",
                package.name,
                dir.display()
            )),
            Err(error) => note(format_args!(
                "SNPE_UDO_ROOT of {}: {error}; using the SDK of this udo",
                package.name
            )),
        }
    }
    find()
}

/// A path of a config, with what the environment says for its variables.
pub(crate) fn expanded(path: &Path) -> Result<PathBuf, ExpandError> {
    expand(&path.to_string_lossy(), |name| env::var(name).ok())
}

/// The folder of `udo-api` as a package in `dir` says it, where that is inside of the SDK: the two then move together.
pub(crate) fn path_inside(dir: &Path, root: &Path) -> Result<Option<String>, Failure> {
    let root = fs::canonicalize(root)?;
    let dir = std::path::absolute(dir)?;
    // The part of the path that exists already, without links.
    let base = dir.ancestors().find(|part| part.exists()).unwrap_or(&dir);
    let rest = dir.strip_prefix(base).unwrap_or(Path::new(""));
    let dir = fs::canonicalize(base)?.join(rest);
    let below = dir.strip_prefix(&root).ok();
    Ok(below.map(|below| {
        let ups = below.components().map(|_| "..");
        ups.chain(["udo-api"]).collect::<Vec<_>>().join("/")
    }))
}

/// Returns the configuration that tells cargo where the crates are that packages depend on by version, as keys and values.
pub(crate) fn patches(root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let crates = [("udo-api", "udo-api"), ("udo-testing", "udo-api/testing")];
    crates
        .into_iter()
        .map(|(name, folder)| {
            let path = root.join(folder);
            let path = path.to_str().ok_or_else(|| {
                Failure::new(format!("the path {} of the SDK is not valid UTF-8", root.display()))
                    .help("move it to a folder whose path is")
            })?;
            Ok((format!("patch.crates-io.{name}.path"), toml_string(path)))
        })
        .collect()
}

/// The first line of the file that tells cargo alone the same.
const HEAD: &str =
    "# Written by `udo`, for this machine alone: where the SDK is. `udo build` writes it again.\n";

/// Tells cargo where the SDK is, for when it is called in the package in `dir` by somebody else.
pub(crate) fn point(dir: &Path, root: &Path) -> Result<(), Failure> {
    let path = dir.join(".cargo/config.toml");
    let lines = patches(root)?.into_iter().map(|(key, value)| format!("{key} = {value}\n"));
    let wanted = format!("{HEAD}{}", lines.collect::<String>());
    let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display()));
    match udo_files::read_to_string(&path, udo_files::TEXT_BYTES) {
        Ok(text) if text == wanted => return Ok(()),
        Ok(text) if !text.starts_with(HEAD) => {
            if !text.contains("patch.crates-io") {
                note(format_args!(
                    "{} is your file and was not changed; to call cargo directly, add these lines to it:\n{wanted}",
                    path.display()
                ));
            }
            return Ok(());
        }
        Ok(_) | Err(_) => {}
    }
    fs::create_dir_all(dir.join(".cargo")).map_err(failed)?;
    udo_files::write(&path, wanted.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_inside_the_sdk_point_to_it_relatively() {
        let checkout = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(checkout.path()).unwrap();
        let inside = path_inside(&root.join("examples/a/P"), &root).unwrap();
        assert_eq!(inside.as_deref(), Some("../../../udo-api"));
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(path_inside(&elsewhere.path().join("P"), &root).unwrap(), None);
    }

    #[test]
    fn cargo_is_told_where_the_sdk_is_unless_the_file_is_the_authors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".cargo/config.toml");
        for root in ["/first", "/sec\"ond"] {
            point(dir.path(), Path::new(root)).unwrap();
            let path = toml_string(&format!("{root}/udo-api/testing"));
            let wanted = format!("patch.crates-io.udo-testing.path = {path}\n");
            let text = fs::read_to_string(dir.path().join(".cargo/config.toml")).unwrap();
            assert!(text.starts_with(HEAD) && text.ends_with(&wanted), "{text}");
        }
        fs::write(&path, "[build]\n").unwrap();
        point(dir.path(), Path::new("/third")).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "[build]\n");
    }
}
