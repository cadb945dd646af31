//! The declarations of the header.

use std::fs;

/// The declarations of a header.
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

/// Parses the declarations of `udo.h`.
pub(crate) fn header() -> Header {
    let text = fs::read_to_string(format!("{}/include/udo.h", env!("CARGO_MANIFEST_DIR"))).unwrap();
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
        } else if before.starts_with("typedef") {
            // A callback, which nobody but the library calls.
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
