//! Where the library lies, what its header declares, and programs that use it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The crate's folder.
pub(crate) const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// What a header declares.
pub(crate) struct Header {
    pub(crate) functions: Vec<Function>,
    /// Types whose numbers are listed.
    pub(crate) enums: Vec<String>,
    /// Structures, and the type and name of each field.
    pub(crate) structs: Vec<(String, Vec<(String, String)>)>,
}

/// A function and its parameters, each a type and a name.
pub(crate) struct Function {
    pub(crate) returns: String,
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, String)>,
}

/// The library as cargo built it for this test.
pub(crate) fn library() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    folder.join(format!("{}udo{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX))
}

/// What `udo.h` declares.
pub(crate) fn header() -> Header {
    let text = fs::read_to_string(format!("{FOLDER}/include/udo.h")).unwrap();
    let (_, code) = text.split_once("*/").unwrap();
    let is_code =
        |line: &&str| !["#", "//", "extern"].iter().any(|other| line.trim().starts_with(other));
    let code = code.lines().filter(is_code).collect::<Vec<_>>().join(" ");
    let mut header = Header { functions: Vec::new(), enums: Vec::new(), structs: Vec::new() };
    let mut rest = code.as_str();
    while let Some(at) = rest.find([';', '{']) {
        let (before, after) = rest.split_at(at);
        let before = before.trim().trim_start_matches('}').trim();
        rest = &after[1..];
        if after.starts_with('{') {
            let (fields, after) = rest.split_once('}').unwrap();
            let (name, after) = after.split_once(';').unwrap();
            let fields = fields.split(';').map(str::trim).filter(|field| !field.is_empty());
            header.structs.push((name.trim().to_owned(), fields.map(declaration).collect()));
            rest = after;
        } else if let Some(name) = before.strip_prefix("typedef uint32_t ") {
            header.enums.push(name.trim().to_owned());
        } else if let Some((of, parameters)) = before.split_once('(') {
            let (returns, name) = declaration(of);
            let parameters = parameters.trim_end_matches(')').split(',').map(str::trim);
            let parameters = parameters.filter(|parameter| *parameter != "void");
            let parameters = parameters.map(declaration).collect();
            header.functions.push(Function { returns, name, parameters });
        }
    }
    header
}

/// A type and a name; blanks stand between words of the type alone.
fn declaration(text: &str) -> (String, String) {
    let text = text.trim();
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').unwrap() + 1;
    let (of, name) = text.split_at(at);
    let of = of.replace('*', " * ");
    (of.split_whitespace().collect::<Vec<_>>().join(" ").replace("* *", "**"), name.to_owned())
}

/// Compiles a program against header and library, with all warnings as errors, and runs it in `folder`.
#[track_caller]
pub(crate) fn run_program(compiler: &[&str], source: &Path, folder: &Path, arguments: &[&str]) {
    let library = library();
    let libraries = library.parent().unwrap();
    let program = folder.join("program");
    let mut cc = Command::new(compiler[0]);
    cc.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    cc.arg(format!("{FOLDER}/include")).arg(source).arg("-o").arg(&program);
    cc.arg("-L").arg(libraries).arg("-ludo").arg(format!("-Wl,-rpath,{}", libraries.display()));
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&said));
}
