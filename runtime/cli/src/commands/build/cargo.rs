//! Cargo as a child: its messages read, its words to the user passed through.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{LockFile, Member, Profile};
use crate::output::{Failure, note};

/// The library that each manifest's crate became.
pub(super) type Artifacts = BTreeMap<PathBuf, PathBuf>;

/// The cargo to run: the one that runs this program, if one does.
pub(super) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(super) fn missing(error: &io::Error) -> Failure {
    Failure::new(format!("cannot run cargo: {error}"))
        .help("install Rust, or set CARGO to the cargo to use")
}

/// Where cargo works.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The package's folder.
    pub(super) dir: &'a Path,
    /// The target folder.
    pub(super) target: &'a Path,
    /// Where the SDK is, as keys and values of cargo's configuration; nothing where the package says it itself.
    pub(super) patches: &'a [(String, String)],
}

impl Place<'_> {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program());
        command.arg(name);
        for (key, value) in self.patches {
            command.arg("--config").arg(format!("{key}={value}"));
        }
        command.arg("--manifest-path").arg(self.dir.join("Cargo.toml"));
        command.arg("--target-dir").arg(self.target);
        command
    }
}

/// Builds the crates, without the network where that is enough.
pub(super) fn build(
    place: &Place<'_>,
    profile: Profile,
    lock: LockFile,
    members: &[&Member],
) -> Result<Artifacts, Failure> {
    let mut command = place.command("build");
    command.arg("--message-format=json-render-diagnostics");
    if lock == LockFile::Fixed {
        command.arg("--locked");
    }
    if profile == Profile::Release {
        command.arg("--release");
    }
    for member in members {
        command.args(["-p", &member.crate_name]);
    }
    let (first, has_started) = attempt(&mut command, Network::Off)?;
    if let Some(artifacts) = first {
        return Ok(artifacts);
    }
    if has_started {
        return Err(Failure::told());
    }
    note("not all dependencies are available offline; downloading them");
    match attempt(&mut command, Network::On)?.0 {
        Some(artifacts) => Ok(artifacts),
        None => Err(Failure::told()),
    }
}

/// The tests that cargo ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    /// Whether cargo says that all of them passed.
    pub(crate) have_passed: bool,
    /// How many ran and passed.
    pub(crate) passed: usize,
    /// The names of those that failed.
    pub(crate) failed: Vec<String>,
    /// The names of those that the package's author marked `#[ignore]`, each with the reason if it has one.
    pub(crate) ignored: Vec<String>,
}

impl Tests {
    /// Counts a line of a test program's output, such as `test ops::selu ... ignored, too slow`.
    fn count(&mut self, line: &str) {
        let Some((name, state)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        else {
            return;
        };
        match state.trim_end() {
            "ok" => self.passed += 1,
            "FAILED" => self.failed.push(name.to_owned()),
            state => {
                if let Some(why) = state.strip_prefix("ignored") {
                    self.ignored.push(format!("{name}{}", why.replacen(", ", ": ", 1)));
                }
            }
        }
    }
}

/// Runs the tests of the crates, and hands each line of their output to `show`.
///
/// # Errors
/// Cargo does not run.
pub(super) fn test(
    place: &Place<'_>,
    members: &[&Member],
    name: Option<&str>,
    show: fn(&str),
) -> Result<Tests, Failure> {
    let mut command = place.command("test");
    command.args(["--offline", "--no-fail-fast"]);
    for member in members {
        command.args(["-p", &member.crate_name]);
    }
    command.args(name);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| missing(&error))?;
    let mut tests = Tests::default();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line?;
        tests.count(&line);
        show(&line);
    }
    tests.have_passed = child.wait()?.success();
    Ok(tests)
}

/// Removes what is built of the crates, in both profiles.
pub(super) fn clean(place: &Place<'_>, crates: &[&str]) -> Result<(), Failure> {
    for profile in ["dev", "release"] {
        let mut command = place.command("clean");
        command.args(["--quiet", "--offline", "--profile", profile]);
        for name in crates {
            command.args(["-p", name]);
        }
        if !command.status().map_err(|error| missing(&error))?.success() {
            return Err(Failure::told());
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Off,
    On,
}

/// Runs cargo once: the libraries if it succeeds, and whether it came as far as compiling.
fn attempt(command: &mut Command, network: Network) -> Result<(Option<Artifacts>, bool), Failure> {
    // CARGO_NET_OFFLINE says what `--offline` does, and can be taken back.
    match network {
        Network::Off => command.env("CARGO_NET_OFFLINE", "true"),
        Network::On => command.env_remove("CARGO_NET_OFFLINE"),
    };
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| missing(&error))?;
    let mut artifacts = Artifacts::new();
    let mut has_started = false;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        // A build script may print anything; only messages are looked at.
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        match message.get("reason").and_then(Value::as_str) {
            Some("compiler-artifact") => artifacts.extend(library(&message)),
            Some("build-finished") => has_started = true,
            Some(_) | None => {}
        }
    }
    let status = child.wait()?;
    Ok((status.success().then_some(artifacts), has_started))
}

/// The manifest and the library of a `cdylib` message.
fn library(message: &Value) -> Option<(PathBuf, PathBuf)> {
    let kinds = message.get("target")?.get("crate_types")?.as_array()?;
    if !kinds.iter().any(|kind| kind == "cdylib") {
        return None;
    }
    let files = message.get("filenames")?.as_array()?.iter().filter_map(Value::as_str);
    let is_library = |file: &&str| file.ends_with(env::consts::DLL_SUFFIX);
    let manifest = message.get("manifest_path")?.as_str()?;
    Some((manifest.into(), files.into_iter().find(is_library)?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_what_became_of_them() {
        let mut tests = Tests::default();
        for line in [
            "running 4 tests",
            "test ops::selu::in_place ... ok",
            "test ops::selu::slow ... ignored",
            "test ops::selu::on_hardware ... ignored, needs a device",
            "test ops::selu::wrong ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 2 ignored",
        ] {
            tests.count(line);
        }
        assert_eq!((tests.passed, tests.failed), (1, vec!["ops::selu::wrong".to_owned()]));
        assert_eq!(tests.ignored, ["ops::selu::slow", "ops::selu::on_hardware: needs a device"]);
    }
}
