//! `udo build`: cargo builds a package's crates, then their libraries are gathered in `dist/`.

pub(crate) mod cargo;
mod gather;
pub(crate) mod opencl;
mod shared;
mod workspace;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Run, own};
use crate::output::{Failure, Outcome, note, print_json, warn};
use crate::root;
use workspace::{Dependency, Workspace};

/// Build a package and collect its libraries in dist/
///
/// Runs cargo on the package's crates, copies the libraries to dist/ and writes dist/index.json
/// with their SHA-256 digests.
///
/// Packages that are built with the same SDK share a target folder and the SDK's Cargo.lock. Common
/// dependencies are compiled once. If the SDK was built on this machine, packages build offline.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo build SoftmaxUdoPackage                 all cores, optimized
  udo build --cores cpu                       the package in this folder, for the CPU only
  udo build SoftmaxUdoPackage --locked        for CI: exit code 3 if `udo new` would change a file

Environment variables:
  UDO_TARGET_DIR   target folder of cargo [default: target/packages in the SDK that contains udo,
                   or else target in the package]")]
pub(crate) struct Build {
    /// Package folder
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Build without optimizations
    #[arg(long)]
    debug: bool,

    /// Fail with exit code 3 if generated files are out of date
    ///
    /// Generated files are out of date if they do not match the package's config or this SDK.
    /// Without this flag the command prints a warning and builds the package. The flag also keeps
    /// Cargo.lock unchanged, except for the version of the package itself.
    #[arg(long)]
    locked: bool,

    #[command(flatten)]
    members: Members,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// One library crate.
#[derive(Debug)]
struct Member {
    crate_name: String,
    manifest: PathBuf,
    /// The library's path in `dist/`.
    file: String,
    /// `reg`, or the core as in `dsp:v68`.
    core: String,
}

/// The crates of a package that a command is about.
#[derive(Args, Clone, Debug)]
pub(crate) struct Members {
    /// Include these cores [default: all]
    ///
    /// A comma-separated list. The registration library is always included.
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cores: Vec<Part>,
}

/// A library that `--cores` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Registration library only
    Reg,
    /// CPU
    Cpu,
    /// GPU
    Gpu,
    /// DSP, all versions
    Dsp,
}

/// Whether `Cargo.lock` may be made or brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockFile {
    Free,
    Fixed,
}

/// How much cargo optimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Release,
    Debug,
}

impl Build {
    /// All of the package in `dir`, optimized.
    pub(super) fn optimized(dir: &Path) -> Self {
        let members = Members { cores: Vec::new() };
        Self { dir: dir.to_owned(), debug: false, locked: false, members, json: false }
    }
}

impl Run for Build {
    fn run(self) -> Outcome {
        let dir = fs::canonicalize(&self.dir).map_err(|error| {
            Failure::new(format!("no package at {}: {error}", self.dir.display()))
                .help("`udo new -p CONFIG` makes one")
        })?;
        udo_generator::recover(&dir)?;
        let profile = if self.debug { Profile::Debug } else { Profile::Release };
        let lock = if self.locked { LockFile::Fixed } else { LockFile::Free };
        let workspace = Workspace::read(&dir)?;
        let own = own::look(&dir)?;
        if self.locked && own.root.is_none() {
            root::find()?;
        }
        self.tell(&workspace, &own.stale)?;
        let patches = patches(&workspace, own.root.as_deref())?;
        match lock {
            LockFile::Free => shared::adopt_lock_file(&dir)?,
            LockFile::Fixed => shared::renew_own_versions(&workspace)?,
        }
        let members = self.members.chosen(&workspace)?;
        for member in members.iter().filter(|member| member.is_dsp()) {
            member.refuse_heap()?;
        }
        // Held until the libraries are out of the shared folder.
        let target = shared::Target::lock(&dir)?;
        target.forget_namesakes(&workspace, &patches)?;
        let place = cargo::Place { dir: &dir, target: target.dir(), patches: &patches };
        // As they are before the compiler reads them: what changes meanwhile is newer.
        let sources = gather::sources(&workspace, &members)?;
        let artifacts = cargo::build(&place, profile, lock, &members)?;
        let opencl = compile_opencl(&dir, &members)?;
        let dist = gather::gather(&workspace, &members, &artifacts, sources)?;
        self.show(&workspace, (&own.stale, &opencl), &dist)
    }
}

/// Compiles the OpenCL C of the package in `dir` if its GPU library is among the members.
fn compile_opencl(dir: &Path, members: &[&Member]) -> Result<opencl::Sources, Failure> {
    let has_gpu = members.iter().any(|member| member.core == "gpu");
    if has_gpu { opencl::Sources::compile(dir) } else { Ok(opencl::Sources::none()) }
}

/// The results of the tests of a package.
pub(crate) struct Tested {
    /// The tests that cargo ran.
    pub(crate) tests: cargo::Tests,
    /// The package's OpenCL C, which no test runs.
    pub(crate) opencl: opencl::Sources,
}

/// Runs the tests of a package's crates that have `name` in their names, and compiles its OpenCL C.
pub(crate) fn test(
    dir: &Path,
    members: &Members,
    (name, show): (Option<&str>, fn(&str)),
) -> Result<Tested, Failure> {
    let workspace = Workspace::read(dir)?;
    shared::adopt_lock_file(dir)?;
    let members = members.chosen(&workspace)?;
    let patches = patches(&workspace, own::look(dir)?.root.as_deref())?;
    let target = shared::Target::lock(dir)?;
    target.forget_namesakes(&workspace, &patches)?;
    let place = cargo::Place { dir, target: target.dir(), patches: &patches };
    let tests = cargo::test(&place, &members, name, show)?;
    Ok(Tested { tests, opencl: compile_opencl(dir, &members)? })
}

/// Returns the configuration that tells cargo where the SDK is, if the package does not. Writes it to a file too, for
/// other calls of cargo.
fn patches(workspace: &Workspace, root: Option<&Path>) -> Result<Vec<(String, String)>, Failure> {
    match (&workspace.sdk, root) {
        (Dependency::Folder(path), _) if !path.join("Cargo.toml").is_file() => {
            let (package, path) = (&workspace.package, path.display());
            let dir = workspace.dir.display();
            Err(Failure::new(format!(
                "{package} depends on the SDK in {path}, where udo-api was not found"
            ))
            .help(format!("`udo new {dir}` names the SDK of this udo in its place")))
        }
        (Dependency::Folder(_), _) => Ok(Vec::new()),
        (Dependency::Version, Some(root)) => {
            root::point(&workspace.dir, root)?;
            root::patches(root)
        }
        // It says where it was looked for.
        (Dependency::Version, None) => root::find().and_then(|root| root::patches(&root)),
    }
}

/// Where the package in `dir` is built.
pub(crate) fn target_folder(dir: &Path) -> Result<PathBuf, Failure> {
    shared::folder(dir)
}

impl Members {
    /// The crates of the workspace that are meant.
    fn chosen<'w>(&self, workspace: &'w Workspace) -> Result<Vec<&'w Member>, Failure> {
        for part in &self.cores {
            if !workspace.members.iter().any(|member| part.is_of(member)) {
                let known: Vec<&str> =
                    workspace.members.iter().map(|member| member.core.as_str()).collect();
                let part = format!("{part:?}").to_lowercase();
                return Err(Failure::usage(format!(
                    "{} has no {part} library, only {}",
                    workspace.package,
                    known.join(", ")
                ))
                .help("add the core to the config and run `udo new` again"));
            }
        }
        let is_chosen = |member: &&Member| {
            self.cores.is_empty()
                || member.is_registration()
                || self.cores.iter().any(|part| part.is_of(member))
        };
        Ok(workspace.members.iter().filter(is_chosen).collect())
    }
}

impl Build {
    /// Says which files are out of step, or fails for them.
    fn tell(&self, workspace: &Workspace, stale: &[(String, String)]) -> Outcome {
        let mut stale = stale.to_vec();
        if self.locked && !workspace.dir.join("Cargo.lock").is_file() {
            stale.push(("Cargo.lock".to_owned(), "missing".to_owned()));
        }
        if stale.is_empty() {
            return Ok(());
        }
        let files: String =
            stale.iter().flat_map(|(file, why)| ["\n  ", file, ": ", why]).collect();
        let what = format!(
            "{} is out of date with its config or this SDK's templates:{files}",
            workspace.package
        );
        let dir = self.dir.display();
        let help = format!(
            "`udo new {dir}` makes generated files anew and says what changed; with --accept it also takes your \
             files as brought up to date"
        );
        if self.locked {
            return Err(Failure::drift(what).help(help));
        }
        warn(format_args!("{what}"), &help);
        Ok(())
    }

    fn show(
        &self,
        workspace: &Workspace,
        (stale, opencl): (&[(String, String)], &opencl::Sources),
        dist: &gather::Dist,
    ) -> Outcome {
        if self.json {
            print_json(&json!({
                "package": workspace.package,
                "stale": stale.iter().map(|(file, why)| json!({ "file": file, "why": why })).collect::<Vec<_>>(),
                "dist": dist.folder,
                "built": dist.built,
                "opencl": opencl.state(),
                "opencl_sources": opencl.to_json(),
                "index": serde_json::from_str::<serde_json::Value>(&dist.index.to_json())?,
            }));
            return Ok(());
        }
        for file in &dist.built {
            outln!("{}", shown(&dist.folder, file).display());
        }
        if dist.index.libraries.len() > dist.built.len() {
            note("the other libraries in dist/ are from an earlier build");
        }
        Ok(())
    }
}

impl Part {
    fn is_of(self, member: &Member) -> bool {
        match self {
            Self::Reg => member.is_registration(),
            Self::Cpu => member.core == "cpu",
            Self::Gpu => member.core == "gpu",
            Self::Dsp => member.is_dsp(),
        }
    }
}

/// A file of `folder`, relative to where the user is if it lies below.
fn shown(folder: &Path, file: &str) -> PathBuf {
    let path = folder.join(file);
    let here = std::env::current_dir().and_then(fs::canonicalize);
    match here.ok().and_then(|here| path.strip_prefix(here).map(Path::to_owned).ok()) {
        Some(below) => below,
        None => path,
    }
}
