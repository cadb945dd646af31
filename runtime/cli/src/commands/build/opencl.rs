//! The OpenCL C of a package, which cargo only copies: compiled for what the compiler says of it, where there is one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use udo_runtime::cores::opencl::{self, Device, OpenClError, Storage, for_compiler};

use crate::output::{Failure, note, warn};

/// Where the author's sources are, in a package.
const FOLDER: &str = "GPU/kernels";

/// What compiles OpenCL C here.
enum Compiler {
    Device(&'static Device),
    Clang(OsString),
}

/// Says which sources of the package in `dir` are not written, and warns of those that do not compile.
pub(super) fn look(dir: &Path) -> Result<(), Failure> {
    let folder = dir.join(FOLDER);
    if !folder.is_dir() {
        return Ok(());
    }
    let mut files: Vec<_> = fs::read_dir(&folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::path);
    let mut compiler = None;
    for file in files {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "cl") {
            continue;
        }
        let name = format!("{FOLDER}/{}", file.file_name().to_string_lossy());
        let source = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        if is_unwritten(&source) {
            note(format_args!("{name} is not written yet: the GPU refuses the operator"));
            continue;
        }
        // It is looked for where there is something to compile.
        let found = compiler.get_or_insert_with(Compiler::find);
        let Some(found) = found else { continue };
        if let Some(said) = found.complaint(&name, &source) {
            let what = format!("{name} does not compile, so devices refuse the operator:\n{said}");
            warn(what, "lines are those of the file; the work items in src/ops are not concerned");
        }
    }
    Ok(())
}

/// Whether it has the line that `udo new` writes into what is yet to be written.
fn is_unwritten(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("#error") && line.contains("not implemented yet"))
}

/// The ways in which a source is compiled: without what a node may leave out, and with all of it.
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

/// What stands for a constant that finalize puts before a source which `udo new` printed from a reference.
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
    fn find() -> Option<Self> {
        if let Some(device) = opencl::device() {
            return Some(Self::Device(device));
        }
        let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        let answers = Command::new(&clang).arg("--version").output();
        answers.is_ok_and(|output| output.status.success()).then_some(Self::Clang(clang))
    }

    /// What is wrong with a source that compiles for no storage.
    fn complaint(&self, name: &str, source: &str) -> Option<String> {
        options(source).iter().find_map(|options| {
            let float = self.compile(name, source, Storage::Float, options).err()?;
            self.compile(name, source, Storage::Half, options).err().map(|_| float)
        })
    }

    fn compile(
        &self,
        name: &str,
        source: &str,
        storage: Storage,
        options: &str,
    ) -> Result<(), String> {
        let clang = match self {
            Self::Device(device) => {
                return match device.check_source(name, source, storage, options) {
                    Err(OpenClError::Build { log, .. }) => Err(log),
                    // What OpenCL refuses otherwise says nothing of the source.
                    Ok(()) | Err(_) => Ok(()),
                };
            }
            Self::Clang(clang) => clang,
        };
        let mut command = Command::new(clang);
        command.args(["-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header"]);
        command.args(["-fsyntax-only"]).args(options.split_whitespace()).arg("-");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let text = for_compiler(source, name, storage);
        let said = command.spawn().and_then(|mut child| {
            // One that ends early says why.
            let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
            child.wait_with_output()
        });
        match said {
            Ok(output) if !output.status.success() => {
                Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
            }
            // What cannot be run says nothing of the source.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_may_leave_out_is_compiled_both_ways() {
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
    fn what_is_yet_to_be_written_says_so_in_a_line_of_its_own() {
        assert!(is_unwritten("// a\n#error \"A is not implemented yet: add code\"\n"));
        assert!(!is_unwritten("// #error not implemented yet\n#error \"other\"\n"));
    }
}
