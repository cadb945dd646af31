//! The crates of a package, as cargo sees them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{Member, cargo};
use crate::output::Failure;

/// A package's workspace.
#[derive(Debug)]
pub(super) struct Workspace {
    /// The package's name.
    pub(super) package: String,
    /// The package's version.
    pub(super) version: String,
    /// The package's folder.
    pub(super) dir: PathBuf,
    /// The library crates, the registration first.
    pub(super) members: Vec<Member>,
    /// How its crates name the SDK.
    pub(super) sdk: Dependency,
    /// The versions of all its crates, by name.
    pub(super) versions: Vec<(String, String)>,
}

/// How a crate depends on `udo-api`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// By this folder.
    Folder(PathBuf),
    /// By a version, so that where it is has to be said.
    Version,
}

impl Workspace {
    /// Asks cargo.
    pub(super) fn read(dir: &Path) -> Result<Self, Failure> {
        let manifest = dir.join("Cargo.toml");
        let not_ours = || {
            Failure::new(format!("{} holds no package made by `udo new`", dir.display()))
                .help("give the folder that `udo new` made, or make one: udo new -p CONFIG")
        };
        if !manifest.is_file() {
            return Err(not_ours());
        }
        let mut command = Command::new(cargo::program());
        command.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
        command.arg("--manifest-path").arg(&manifest);
        let output = command.output().map_err(|error| cargo::missing(&error))?;
        if !output.status.success() {
            return Err(Failure::report(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let packages = metadata.get("packages").and_then(Value::as_array);
        let mut package = None;
        let mut members = Vec::new();
        let (mut sdk, mut versions) = (Dependency::Version, Vec::new());
        for entry in packages.into_iter().flatten() {
            let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
            versions.extend(text(entry, "name").zip(text(entry, "version")));
            let Some(udo) = entry.get("metadata").and_then(|metadata| metadata.get("udo")) else {
                continue;
            };
            let member = (|| {
                let member = Member {
                    crate_name: text(entry, "name")?,
                    manifest: text(entry, "manifest_path")?.into(),
                    file: text(udo, "library").filter(|file| is_inside(file))?,
                    core: text(udo, "core")?,
                };
                Some((text(udo, "package")?, text(entry, "version")?, member))
            })();
            let Some((name, version, member)) = member else { return Err(not_ours()) };
            package.get_or_insert((name, version));
            let dependencies = entry.get("dependencies").and_then(Value::as_array);
            let mut dependencies = dependencies.into_iter().flatten();
            let api = dependencies.find(|of| of.get("name").is_some_and(|name| name == "udo-api"));
            if let Some(path) = api.and_then(|of| text(of, "path")) {
                sdk = Dependency::Folder(path.into());
            }
            members.push(member);
        }
        members.sort_by_key(|member| !member.is_registration());
        let Some((package, version)) = package else { return Err(not_ours()) };
        Ok(Self { package, version, dir: dir.to_owned(), members, sdk, versions })
    }
}

impl Member {
    pub(super) fn is_registration(&self) -> bool {
        self.core == "reg"
    }

    pub(super) fn is_dsp(&self) -> bool {
        self.core.starts_with("dsp")
    }

    /// Refuses a crate that brings in the heap although it is `no_std`.
    pub(super) fn refuse_heap(&self) -> Result<(), Failure> {
        let folder = self.manifest.parent().unwrap_or(&self.manifest).join("src");
        let root = folder.join("lib.rs");
        let text = fs::read_to_string(&root)?;
        let mut paths = vec![folder.clone()];
        paths.extend(elsewhere(&text).map(|path| folder.join(path)));
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                let mut entries: Vec<_> = fs::read_dir(&path)?.collect::<Result<_, _>>()?;
                entries.sort_by_key(fs::DirEntry::path);
                // Links of folders may lead round and round.
                entries.retain(|entry| !(entry.path().is_symlink() && entry.path().is_dir()));
                paths.extend(entries.iter().map(fs::DirEntry::path));
            } else if path.is_file() && path.extension().is_some_and(|end| end == "rs") {
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                if let Some((line, name)) = heap_crate(&text) {
                    return Err(Failure::new(format!(
                        "{}:{line}: `extern crate {name}` in a DSP crate, which has no heap",
                        path.display()
                    ))
                    .help("take scratch from the VTCM argument instead"));
                }
            }
        }
        if code(&text).lines().any(|line| line.replace(' ', "") == "#![no_std]") {
            return Ok(());
        }
        Err(Failure::new(format!("{}: a DSP crate without `#![no_std]`", root.display()))
            .help("`udo new` writes the file again"))
    }
}

/// Returns the paths of the `#[path]` attributes in the root of a crate.
fn elsewhere(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.split('"').next())
}

fn is_inside(file: &str) -> bool {
    let parts = |part| matches!(part, std::path::Component::Normal(_));
    !file.is_empty() && Path::new(file).components().all(parts)
}

/// The first line that says `extern crate alloc` or `extern crate std`.
fn heap_crate(text: &str) -> Option<(usize, &'static str)> {
    let mut last = ["", ""];
    let code = code(text);
    for (number, line) in code.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if word.is_empty() {
                continue;
            }
            let heap = ["alloc", "std"].into_iter().find(|name| *name == word);
            if let (["extern", "crate"], Some(name)) = (last, heap) {
                return Some((number + 1, name));
            }
            last = [last[1], word];
        }
    }
    None
}

/// The text with comments and strings blanked out, line by line as it was.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if c == '"' {
            string(rest)
        } else if rest.starts_with("r\"") || rest.starts_with("r#") {
            raw_string(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        };
        let (blank, after) = rest.split_at(len);
        out.extend(blank.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    out
}

/// Bytes of the block comment, which may hold others, that `text` starts with.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Bytes of the string that `text` starts with.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// Bytes of the raw string that `text` starts with; of its first character if it is none.
fn raw_string(text: &str) -> usize {
    let hashes = text.bytes().skip(1).take_while(|b| *b == b'#').count();
    let open = hashes + 2;
    if text.as_bytes().get(hashes + 1) != Some(&b'"') {
        return 1;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    text.get(open..)
        .and_then(|rest| rest.find(&close))
        .map_or(text.len(), |at| open + at + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crate_has_from_elsewhere_is_looked_at_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        write(
            "v73/src/lib.rs",
            "#![no_std]\n#[path = \"../../v68/src/ops\"]\nmod v68 {\n    #[path = \"a.rs\"]\n    mod a;\n}\n\
             #[path = \"../../b.rs\"] mod b;\n",
        );
        write("v68/src/ops/a.rs", "//! extern crate std;\n");
        write("b.rs", "pub fn b() {}\n");
        #[cfg(unix)]
        std::os::unix::fs::symlink(".", at("v68/src/ops/round")).unwrap();
        let member = Member {
            crate_name: "x_dsp_v73".to_owned(),
            manifest: at("v73/Cargo.toml"),
            file: "libUdoXDspV73.so".to_owned(),
            core: "dsp:v73".to_owned(),
        };
        assert!(member.refuse_heap().is_ok());
        write("b.rs", "extern crate std;\n");
        assert!(member.refuse_heap().unwrap_err().to_string().contains("b.rs:1: "));
        write("b.rs", "");
        write("v68/src/ops/a.rs", "\nextern crate alloc;\n");
        assert!(member.refuse_heap().unwrap_err().to_string().contains("a.rs:2: "));
    }

    #[test]
    fn heap_crates_are_found_in_code_only() {
        let cases = [
            ("extern crate alloc;\n", Some((1, "alloc"))),
            ("\npub extern  crate\n  std as s;", Some((3, "std"))),
            ("// extern crate alloc;\n", None),
            ("/* a /* b */ extern crate std; */", None),
            ("const A: &str = \"extern crate std\\\"\"; extern crate alloc;", Some((1, "alloc"))),
            ("const A: &str = r#\"extern \"crate std\"#;", None),
            ("extern crate core;\nuse std_like::alloc;", None),
            ("let c = '\"'; extern crate std;", Some((1, "std"))),
        ];
        for (text, want) in cases {
            assert_eq!(heap_crate(text), want, "{text:?}");
        }
    }
}
