//! Files that packages built by one SDK share: the target folder, under a lock, and the lock file to start from.

use std::{
    env,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{cargo, workspace::Workspace};
use crate::{
    output::{Failure, note},
    root::{self, By, Found},
};

/// Gives a package without a `Cargo.lock` the SDK's own, so that it takes the versions that the SDK
/// was built with.
pub(super) fn adopt_lock_file(dir: &Path) -> Result<(), Failure> {
    let own = dir.join("Cargo.lock");
    if own.exists() {
        return Ok(());
    }
    let Ok(root) = root::find() else { return Ok(()) };
    match fs::copy(root.join("Cargo.lock"), &own) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets the versions of a package's own crates in its `Cargo.lock` to those of their manifests. A new version of the package
/// does not change its dependencies, which the file pins.
pub(super) fn renew_own_versions(workspace: &Workspace) -> Result<(), Failure> {
    let path = workspace.dir.join("Cargo.lock");
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    let renewed = with_versions(&text, &workspace.versions);
    if renewed == text {
        return Ok(());
    }
    fs::write(&path, renewed)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    note(format_args!("updated the package's version in Cargo.lock to {}", workspace.version));
    Ok(())
}

/// The text of a lock file in which crates that come from nowhere else have these versions.
fn with_versions(text: &str, versions: &[(String, String)]) -> String {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.strip_prefix(" = "))
            .map(|value| value.trim_matches('"').to_owned())
    };
    let renewed = |block: &str| {
        let name = value(block, "name").filter(|_| value(block, "source").is_none());
        let wanted = name.and_then(|name| versions.iter().find(|(known, _)| *known == name));
        let found = value(block, "version");
        match wanted.zip(found) {
            Some(((_, version), found)) => {
                let [from, to] = [&found, version].map(|of| format!("\nversion = \"{of}\"\n"));
                block.replacen(&from, &to, 1)
            }
            None => block.to_owned(),
        }
    };
    text.split_inclusive("\n\n").map(renewed).collect()
}

/// The shared target folder, for the package in `dir`.
pub(super) fn folder(dir: &Path) -> Result<PathBuf, Failure> {
    Ok(match env::var_os("UDO_TARGET_DIR") {
        Some(target) => std::path::absolute(target)?,
        // A checkout that this program only came from is somebody else's by now.
        None => match root::look().ok().filter(|found| found.by != By::Built) {
            Some(Found { dir: root, .. }) => root.join("target/packages"),
            None => dir.join("target"),
        },
    })
}

/// The shared target folder, locked.
#[derive(Debug)]
pub(super) struct Target {
    dir: PathBuf,
    _lock: File,
}

impl Target {
    /// Finds the folder for the package in `dir`, and waits for its lock.
    pub(super) fn lock(dir: &Path) -> Result<Self, Failure> {
        let target = folder(dir)?;
        let failed = |error: io::Error| {
            Failure::new(format!("cannot use the target folder {}: {error}", target.display()))
                .help("set UDO_TARGET_DIR to a folder that you may write to")
        };
        fs::create_dir_all(target.join(SOURCES)).map_err(failed)?;
        let lock = File::create(target.join(".udo-lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                note("waiting for another `udo build` to finish");
                lock.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { dir: target, _lock: lock })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes what is built of crates that have the names of this package's, but lie elsewhere:
    /// their libraries have the same paths, and cargo would take them for its own.
    pub(super) fn forget_namesakes(
        &self,
        workspace: &Workspace,
        patches: &[(String, String)],
    ) -> Result<(), Failure> {
        let dir = workspace.dir.as_path();
        let here = dir.as_os_str().as_encoded_bytes();
        let note = |name: &str| self.dir.join(SOURCES).join(name);
        let names = workspace.members.iter().map(|member| member.crate_name.as_str());
        let strangers: Vec<&str> =
            names.filter(|name| fs::read(note(name)).map_or(true, |from| from != here)).collect();
        if strangers.is_empty() {
            return Ok(());
        }
        cargo::clean(&cargo::Place { dir, target: &self.dir, patches }, &strangers)?;
        for name in strangers {
            fs::write(note(name), here)?;
        }
        Ok(())
    }
}

/// Holds, for each crate name, the folder of the package that was built last under it.
const SOURCES: &str = ".udo-sources";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_follows_the_versions_of_a_packages_own_crates() {
        let block = |name: &str, version: &str, more: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{more}\n")
        };
        let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        let text = |own: &str| {
            let blocks = [
                block("libm", "0.1.0", registry),
                block("p_common", own, ""),
                block("p_cpu", own, "dependencies = [\n \"libm\",\n]\n"),
                block("udo-api", "0.1.0", ""),
            ];
            format!("# by Cargo\nversion = 4\n\n{}", blocks.concat())
        };
        let of = |version: &str| {
            let names = ["p_common", "p_cpu", "libm", "p_gone"];
            names.map(|name| (name.to_owned(), version.to_owned())).to_vec()
        };
        assert_eq!(with_versions(&text("0.1.0"), &of("0.2.0-rc.1")), text("0.2.0-rc.1"));
        assert_eq!(with_versions(&text("0.1.0"), &of("0.1.0")), text("0.1.0"));
        assert_eq!(with_versions("", &of("1.0.0")), "");
    }
}
