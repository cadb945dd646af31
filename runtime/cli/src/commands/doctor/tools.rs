//! The tools that packages are made with, and which of them this machine has.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use udo_api::abi::ABI_VERSION;
use udo_engine::cores::opencl;

use super::cores::isa;
use crate::commands::build;
use crate::output::Failure;
use crate::root::{self, By, Found};

/// Something that was looked for.
pub(super) struct Finding {
    name: &'static str,
    need: Need,
    /// A description of the tool, or why it was not found.
    found: Result<String, String>,
    /// The next step if it was not found.
    help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing can be built without it.
    Always,
    /// Some packages want it, or something is slower or emulated without it.
    Sometimes,
}

/// Everything that is looked for, in the order in which it is said.
const FINDINGS: &[(&str, Need, Look, &str)] = &[
    ("udo", Need::Always, own, ""),
    ("SDK", Need::Always, sdk, "set UDO_ROOT to the folder of the SDK that holds udo-api"),
    ("cargo", Need::Always, cargo, "install Rust (rustup), or set CARGO to the cargo to use"),
    ("rustc", Need::Always, rustc, "install Rust (rustup), or set RUSTC to the compiler to use"),
    ("target folder", Need::Always, target, "set UDO_TARGET_DIR to a folder that you may write to"),
    ("C compiler", Need::Sometimes, c_compiler, "packages in C need one: install it, or set CC"),
    (
        "make",
        Need::Sometimes,
        make,
        "packages in C, and the Makefile of generated packages, need it: install it",
    ),
    (
        "OpenCL",
        Need::Sometimes,
        open_cl,
        "GPU kernels are emulated without it; install the GPU's driver, or PoCL: `apt-get install ocl-icd-libopencl1 pocl-opencl-icd`, \
         or `dnf install ocl-icd pocl`",
    ),
    (
        "clang",
        Need::Sometimes,
        clang,
        "it checks OpenCL C on machines without an OpenCL device; `apt-get install clang` on Debian, `dnf install clang` on \
         Fedora, or set CLANG",
    ),
];

/// How something is looked for.
type Look = fn() -> Result<String, String>;

/// Looks for every tool.
pub(super) fn findings() -> Vec<Finding> {
    let find = |&(name, need, look, help): &(_, _, Look, _)| {
        let found = look();
        Finding { name, need, found, help }
    };
    FINDINGS.iter().map(find).collect()
}

/// The names of the tools that are missing and without which no package can be built.
pub(super) fn missing(findings: &[Finding]) -> Vec<&'static str> {
    let is_missing = |of: &&Finding| of.found.is_err() && of.need == Need::Always;
    findings.iter().filter(is_missing).map(|of| of.name).collect()
}

pub(super) fn say(of: &Finding) {
    let Finding { name, need, found, help } = of;
    match (found, need) {
        (Ok(found), _) => outln!("ok       {name}: {found}"),
        (Err(why), Need::Always) => outln!("missing  {name}: {why}; {help}"),
        (Err(why), Need::Sometimes) => outln!("optional {name}: {why}; {help}"),
    }
}

pub(super) fn to_json(of: &Finding) -> Value {
    let (found, why) = match &of.found {
        Ok(found) => (Some(found), None),
        Err(why) => (None, Some(why)),
    };
    json!({
        "name": of.name, "is_needed": of.need == Need::Always, "found": found, "why": why,
        "help": why.map(|_| of.help),
    })
}

/// Versions of the program, as `udo --version` has them too.
pub(crate) fn versions() -> String {
    let (sdk, isa) = (udo_api::SDK_VERSION, isa());
    format!("SDK {sdk}, package ABI {ABI_VERSION}, instruction set {isa}")
}

#[expect(clippy::unnecessary_wraps, reason = "as everything that is looked for")]
fn own() -> Result<String, String> {
    Ok(versions())
}

fn sdk() -> Result<String, String> {
    let said = |Found { dir, by }: Found| match by {
        By::Variable | By::VendorsVariable | By::Program => dir.display().to_string(),
        By::Built => {
            format!("{}, which this udo was built from: udo is not inside an SDK", dir.display())
        }
    };
    root::look().map(said).map_err(|failure| {
        let text = failure.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// The program that a variable names, or else this one.
fn program(variable: &str, name: &str) -> PathBuf {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map_or_else(|| name.into(), PathBuf::from)
}

/// The first line of what a program says of its version.
fn version_of(program: &Path) -> Result<String, String> {
    let shown = program.display();
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("cannot run {shown}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    if output.status.success() { Ok(line) } else { Err(format!("{shown} --version fails")) }
}

fn cargo() -> Result<String, String> {
    version_of(&program("CARGO", "cargo"))
}

fn rustc() -> Result<String, String> {
    version_of(&program("RUSTC", "rustc"))
}

fn c_compiler() -> Result<String, String> {
    version_of(&program("CC", "cc"))
}

fn make() -> Result<String, String> {
    version_of(&program("MAKE", "make"))
}

fn target() -> Result<String, String> {
    let failed = |error: Failure| error.to_string().trim_end().replace('\n', "; ");
    let dir = build::target_folder(Path::new(".")).map_err(failed)?;
    let probe = dir.join(".udo-doctor");
    let written = fs::create_dir_all(&dir).and_then(|()| fs::write(&probe, b""));
    written.map_err(|error| format!("cannot write into {}: {error}", dir.display()))?;
    // What is left of it does no harm.
    let _ = fs::remove_file(probe);
    Ok(dir.display().to_string())
}

fn clang() -> Result<String, String> {
    udo_check::opencl_c::clang().1
}

fn open_cl() -> Result<String, String> {
    let device = opencl::find().map_err(ToString::to_string)?;
    Ok(format!("{}, driver {}", device.name(), device.driver_version()))
}
