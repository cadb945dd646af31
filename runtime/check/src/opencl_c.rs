//! Compiles OpenCL C with this machine's OpenCL device or with clang, for the compiler's messages.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use udo_engine::cores::opencl::{self, ClDevice, OpenClError, Storage, for_compiler};
use udo_generator::OPENCL_SUPPORT;

/// The folder with the author's OpenCL C sources.
const FOLDER: &str = "GPU/kernels";

/// The folder with the Rust files that include them.
const RUST: &str = "GPU/src/ops";

/// Compiles OpenCL C.
#[derive(Debug)]
pub struct Compiler(Kind);

#[derive(Debug)]
enum Kind {
    Device(&'static ClDevice),
    Clang(OsString),
}

/// The result of compiling a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// The source compiles.
    Yes,
    /// The source does not compile; the compiler's messages.
    No(String),
    /// The source is a skeleton: it has the `#error` line of `udo new`.
    Unwritten,
    /// The source was not compiled; the reason.
    Unchecked(String),
}

impl Compiled {
    /// Returns the result in a few words.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Yes => "compiled",
            Self::No(_) => "does not compile",
            Self::Unwritten => "not written",
            Self::Unchecked(_) => "not compiled",
        }
    }

    /// Returns the compiler's messages, or why there is no compiler.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::No(text) | Self::Unchecked(text) => Some(text),
            Self::Yes | Self::Unwritten => None,
        }
    }
}

/// One source of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path in the package's folder.
    pub name: String,
    /// The result.
    pub compiled: Compiled,
}

/// Compiles every source in `GPU/kernels` of the package in `dir`, sorted by name.
///
/// # Errors
/// A source cannot be read.
pub fn compile_package(dir: &Path) -> io::Result<Vec<SourceFile>> {
    let files = files(dir)?;
    let compiler = if files.is_empty() { Err(String::new()) } else { Compiler::find() };
    let mut sources = Vec::new();
    for (name, source) in files {
        let state = match &compiler {
            _ if is_unwritten(&source) => Compiled::Unwritten,
            Ok(compiler) => compiler.check_file(&name, &as_included(dir, &name, source)?),
            Err(why) => Compiled::Unchecked(why.clone()),
        };
        sources.push(SourceFile { name, compiled: state });
    }
    Ok(sources)
}

/// Reads the package's sources, with their paths in `dir`.
fn files(dir: &Path) -> io::Result<Vec<(String, String)>> {
    let files = sources(&dir.join(FOLDER), "cl")?.into_iter();
    Ok(files.map(|(name, text)| (format!("{FOLDER}/{name}"), text)).collect())
}

/// Reads the files of a folder with this extension, sorted by name.
fn sources(folder: &Path, ending: &str) -> io::Result<Vec<(String, String)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.retain(|file| file.path().extension().is_some_and(|extension| extension == ending));
    files.sort_by_key(fs::DirEntry::path);
    let read = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        Ok((name, String::from_utf8_lossy(&fs::read(file.path())?).into_owned()))
    };
    files.into_iter().map(read).collect()
}

/// Returns the source as the library compiles it: after the OpenCL C that the package's kernels share, if the Rust file
/// joins the two.
fn as_included(dir: &Path, name: &str, source: String) -> io::Result<String> {
    let support = dir.join(OPENCL_SUPPORT);
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    let own = format!("kernels/{file}\"");
    let is_joined = |rust: &str| rust.contains(OPENCL_SUPPORT) && rust.contains(&own);
    if !support.is_file()
        || !sources(&dir.join(RUST), "rs")?.iter().any(|(_, rust)| is_joined(rust))
    {
        return Ok(source);
    }
    let support = String::from_utf8_lossy(&fs::read(support)?).into_owned();
    Ok(format!("#line 1 {OPENCL_SUPPORT:?}\n{support}\n#line 1 {name:?}\n{source}"))
}

/// Finds the file of the package in `dir` that a kernel's source comes from.
pub(crate) fn file_of(dir: &Path, source: &str) -> Option<String> {
    let files = files(dir).ok()?.into_iter();
    let mut own = files.filter(|(_, text)| !text.is_empty() && source.contains(text.as_str()));
    own.next().map(|(name, _)| name)
}

/// Whether the source has the `#error` line of a skeleton.
fn is_unwritten(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("#error") && line.contains("not implemented yet"))
}

/// Returns the build options to compile a source with: without its optional ports, and with all of them.
fn options(source: &str) -> Vec<String> {
    let words: BTreeSet<&str> =
        source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let is_part = |word: &&&str| word.starts_with("HAS_INPUT_") || word.starts_with("HAS_OUTPUT_");
    let parts: String = words.iter().filter(is_part).flat_map(|part| [" -D", part]).collect();
    let known: String = if words.contains("PLAN") && !source.contains("#define PLAN") {
        words.iter().filter_map(|word| Some(format!(" -D{word}={}", stand_in(word)?))).collect()
    } else {
        String::new()
    };
    let mut options = vec![known.clone()];
    if !parts.is_empty() {
        options.push(known + &parts);
    }
    options
}

/// Returns a value for a constant that finalize defines before a source printed from a reference.
fn stand_in(word: &str) -> Option<&'static str> {
    let of = |prefix: &str| word.starts_with(prefix);
    match word {
        "PLAN" => Some("{0}"),
        _ if of("LIST_") => Some("{0}"),
        _ if of("ZERO_IN_") || of("ZERO_OUT_") => Some("0"),
        _ if of("SCALE_IN_") || of("SCALE_OUT_") => Some("1.0f"),
        _ => None,
    }
}

impl Compiler {
    /// Finds this machine's OpenCL device, or else the clang that `CLANG` names.
    ///
    /// # Errors
    /// The message says why neither is available.
    pub fn find() -> Result<Self, String> {
        let no_device = match opencl::find() {
            Ok(device) => return Ok(Self(Kind::Device(device))),
            Err(error) => error,
        };
        let (clang, version) = clang();
        match version {
            Ok(_) => Ok(Self(Kind::Clang(clang))),
            Err(no_clang) => Err(format!("{no_device}, and {no_clang}")),
        }
    }

    /// Compiles a file of a package, for which the options and the storage are not known.
    fn check_file(&self, name: &str, source: &str) -> Compiled {
        for options in options(source) {
            let float = self.check(name, source, Storage::Float, &options);
            // A source may be written for one storage type only.
            let half = || self.check(name, source, Storage::Half, &options);
            match float {
                Compiled::No(said) => match half() {
                    Compiled::No(_) => return Compiled::No(said),
                    Compiled::Yes | Compiled::Unwritten => {}
                    unchecked @ Compiled::Unchecked(_) => return unchecked,
                },
                Compiled::Yes | Compiled::Unwritten => {}
                unchecked @ Compiled::Unchecked(_) => return unchecked,
            }
        }
        Compiled::Yes
    }

    /// Compiles a source. `name` is the file name in messages.
    pub fn check(&self, name: &str, source: &str, storage: Storage, options: &str) -> Compiled {
        let clang = match &self.0 {
            Kind::Device(device) => {
                return match device.check_source(name, source, storage, options) {
                    Ok(()) => Compiled::Yes,
                    Err(OpenClError::Build { log, .. }) => Compiled::No(log),
                    Err(error) => Compiled::Unchecked(error.to_string()),
                };
            }
            Kind::Clang(clang) => clang,
        };
        let mut command = Command::new(clang);
        command.args(["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header"]);
        command.args(["-fsyntax-only"]).args(options.split_whitespace()).arg("-");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let text = for_compiler(source, name, storage);
        let output = command.spawn().and_then(|mut child| {
            // A compiler that ends early reports why on standard error.
            let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
            child.wait_with_output()
        });
        match output {
            Ok(output) if output.status.success() => Compiled::Yes,
            Ok(output) => {
                Compiled::No(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
            }
            Err(error) => {
                Compiled::Unchecked(format!("cannot run {}: {error}", clang.to_string_lossy()))
            }
        }
    }
}

/// Returns the clang to use, and the first line of its version or why it does not run.
pub fn clang() -> (OsString, Result<String, String>) {
    let named = std::env::var_os("CLANG").filter(|value| !value.is_empty());
    let clang = named.unwrap_or_else(|| "clang".into());
    let shown = clang.to_string_lossy().into_owned();
    let version = match Command::new(&clang).arg("--version").output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.lines().next().unwrap_or_default().trim().to_owned())
        }
        Ok(_) => Err(format!("{shown} --version fails")),
        Err(error) => Err(format!("cannot run {shown}: {error}")),
    };
    (clang, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_inputs_are_compiled_present_and_absent() {
        assert_eq!(options("int HAS_NOTHING;"), [""]);
        let source = "#ifdef HAS_INPUT_1\n#endif\n#ifdef HAS_OUTPUT_0\n#if HAS_INPUT_1";
        assert_eq!(options(source), ["", " -DHAS_INPUT_1 -DHAS_OUTPUT_0"]);
    }

    #[test]
    fn constants_of_printed_sources_have_something_in_their_place() {
        let source = "__constant Plan plan = PLAN;\nfloat a[] = LIST_a; SCALE_IN_0 * ZERO_OUT_1";
        assert_eq!(options(source), [" -DLIST_a={0} -DPLAN={0} -DSCALE_IN_0=1.0f -DZERO_OUT_1=0"]);
        assert_eq!(options("#define PLAN 1\nLIST_a PLAN"), [""]);
    }

    #[test]
    fn unimplemented_operators_are_reported_on_a_separate_line() {
        assert!(is_unwritten("// a\n#error \"A is not implemented yet: add code\"\n"));
        assert!(!is_unwritten("// #error not implemented yet\n#error \"other\"\n"));
    }

    #[test]
    fn a_compiler_that_does_not_run_is_no_verdict_on_the_source() {
        let compiler = Compiler(Kind::Clang("/nonexistent/clang".into()));
        let found = compiler.check_file("k.cl", "kernel void k() {}");
        let Compiled::Unchecked(why) = found else { panic!("{found:?}") };
        assert!(why.starts_with("cannot run /nonexistent/clang: "), "{why}");
    }
}
