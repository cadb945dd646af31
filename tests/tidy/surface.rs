//! The public interface of a library: the names of its root and of its public modules, and the functions of their types.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{File, by_hand};

/// A crate, and a name in it.
type Name = (String, String);

/// The public modules, and everything that can be reached through them and the root: types, functions, and functions of types.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) modules: BTreeSet<String>,
    pub(crate) items: BTreeSet<String>,
}

impl Surface {
    /// That of the crate in the folder `library`, among the sources of all crates. `folders` says where each crate is, by its name in Rust.
    pub(crate) fn new(library: &str, folders: &BTreeMap<String, String>, files: &[File]) -> Self {
        let mut surface = Self::default();
        let functions = functions(folders, files);
        let passed_on = passed_on(folders, files);
        let own = folders.iter().find(|(_, folder)| *folder == library);
        let own = own.map_or_else(String::new, |(name, _)| name.clone());
        let text = |path: String| {
            let file = files.iter().find(|file| file.path == path);
            file.map(|file| by_hand(&file.text)).unwrap_or_default()
        };
        let root = text(format!("{library}src/lib.rs"));
        let mut module = None;
        for item in items(&root) {
            match item {
                Item::Module(name) => {
                    surface.modules.insert(name.clone());
                    module = Some(name);
                }
                Item::File(name) => {
                    let inside = text(format!("{library}src/{name}.rs"));
                    for item in items(&inside) {
                        surface.add(&own, &name, item, (&functions, &passed_on));
                    }
                    surface.modules.insert(name);
                }
                Item::End => module = None,
                item => {
                    let module = module.as_deref().unwrap_or("crate");
                    surface.add(&own, module, item, (&functions, &passed_on));
                }
            }
        }
        surface
    }

    fn add(
        &mut self,
        own: &str,
        module: &str,
        item: Item,
        (functions, passed_on): (&BTreeMap<Name, BTreeSet<String>>, &BTreeMap<Name, Name>),
    ) {
        let (of, name, shown) = match item {
            Item::Here(name) => (own.to_owned(), name.clone(), name),
            Item::From(of, name, shown) => {
                (if of == "crate" { own.to_owned() } else { of }, name, shown)
            }
            Item::Module(_) | Item::File(_) | Item::End => return,
        };
        self.items.insert(format!("{module}::{shown}"));
        let mut defined = (of, name);
        // A crate may pass on a type of another one.
        while let Some(origin) = passed_on.get(&defined) {
            defined = origin.clone();
        }
        let inherent = functions.get(&defined).into_iter().flatten();
        // One type that is shown in two modules has its functions once.
        self.items.extend(inherent.map(|function| format!("{shown}.{function}")));
    }
}

/// A line of a module that shows something.
enum Item {
    /// A module whose lines follow.
    Module(String),
    /// A module in a file of its own.
    File(String),
    /// The end of a module.
    End,
    /// Something of this file.
    Here(String),
    /// Something of a crate, by its name there and here.
    From(String, String, String),
}

/// The public part of a file, without its private modules.
fn items(code: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("pub ").filter(|_| !rest.is_empty()) {
        let starts_line = rest[..at].rsplit('\n').next().unwrap_or_default().trim().is_empty();
        if rest[..at].lines().any(|line| line == "}") {
            items.push(Item::End);
        }
        let indent = rest[..at].rsplit('\n').next().map_or(0, str::len);
        let line = &rest[at + 4..];
        rest = line;
        let in_module = items.iter().rev().find_map(|item| match item {
            Item::Module(_) => Some(true),
            Item::End => Some(false),
            Item::File(_) | Item::Here(_) | Item::From(..) => None,
        });
        if !starts_line || indent > 0 && in_module != Some(true) {
            continue;
        }
        let word = |text: &str| -> String {
            text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        if let Some(name) = line.strip_prefix("mod ") {
            let inside = name
                .split_once(['{', ';'])
                .is_some_and(|(before, _)| name[before.len()..].starts_with('{'));
            items.push(if inside { Item::Module(word(name)) } else { Item::File(word(name)) });
        } else if let Some(tree) = line.strip_prefix("use ") {
            let tree = tree.split(';').next().unwrap_or_default();
            let (path, names) = tree.split_once('{').unwrap_or_else(|| {
                let at = tree.rfind("::").map_or(0, |at| at + 2);
                tree.split_at(at)
            });
            let of = word(path);
            // What has no crate before it is of a module beside.
            let of = if of.starts_with("udo_") { of } else { "crate".to_owned() };
            for name in names.trim_end_matches(['}', ' ', '\n']).split(',') {
                let name = name.trim();
                let (name, shown) = name.split_once(" as ").unwrap_or((name, name));
                if !name.is_empty() && name != "self" {
                    items.push(Item::From(of.clone(), word(name), word(shown)));
                }
            }
        } else {
            let line = line.trim_start_matches("const ").trim_start_matches("unsafe ");
            let kinds = ["fn ", "struct ", "enum ", "trait ", "type ", "static "];
            let named = kinds.iter().find_map(|kind| line.strip_prefix(kind));
            items.extend(
                named.or(Some(line)).map(word).filter(|name| !name.is_empty()).map(Item::Here),
            );
        }
    }
    items
}

/// The names that crates re-export from each other: where each comes from.
fn passed_on(folders: &BTreeMap<String, String>, files: &[File]) -> BTreeMap<Name, Name> {
    let mut passed_on = BTreeMap::new();
    for (name, folder) in folders {
        let source = format!("{folder}src/");
        for file in files.iter().filter(|file| file.path.starts_with(&source)) {
            for item in items(&by_hand(&file.text)) {
                if let Item::From(from, original, shown) = item
                    && from != "crate"
                    && from != *name
                {
                    passed_on.insert((name.clone(), shown), (from, original));
                }
            }
        }
    }
    passed_on
}

/// The public functions and constants of each type of each crate.
fn functions(
    folders: &BTreeMap<String, String>,
    files: &[File],
) -> BTreeMap<Name, BTreeSet<String>> {
    let mut functions: BTreeMap<Name, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in folders {
        let source = format!("{folder}src/");
        let is_rust = |path: &str| Path::new(path).extension().is_some_and(|end| end == "rs");
        let is_own = |file: &&File| file.path.starts_with(&source) && is_rust(&file.path);
        for file in files.iter().filter(is_own) {
            let code = by_hand(&file.text);
            let mut of: Option<String> = None;
            // Former names are in no documentation.
            let mut is_hidden = false;
            for line in code.lines() {
                if line.trim_start().starts_with('#') {
                    is_hidden |= line.contains("doc(hidden)");
                    continue;
                }
                if std::mem::take(&mut is_hidden) {
                    continue;
                }
                if line.starts_with("impl") {
                    of = inherent(line);
                } else if line == "}" {
                    of = None;
                } else if let (Some(of), Some(item)) = (&of, line.strip_prefix("    pub ")) {
                    let item = item.trim_start_matches("const ").trim_start_matches("unsafe ");
                    let item = item.strip_prefix("fn ").unwrap_or(item);
                    let word: String =
                        item.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    functions.entry((name.clone(), of.clone())).or_default().insert(word);
                }
            }
        }
    }
    functions
}

/// The type that a line begins an inherent block of.
fn inherent(line: &str) -> Option<String> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find_map(|(at, c)| {
            depth += match c {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
            (depth == 0).then_some(at + 1)
        });
        rest = &rest[end?..];
    }
    if rest.contains(" for ") {
        return None;
    }
    let path = rest.trim_start().split(['<', ' ', '{']).next()?;
    path.rsplit("::").next().map(str::to_owned)
}

#[test]
fn reachable_items_are_counted_once() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file(
            "a/src/lib.rs",
            "mod hidden;\npub mod own;\npub mod more {\n    pub use udo_b::{B, C as D};\n}\npub use hidden::T;\npub use udo_b::B;\n",
        ),
        file(
            "a/src/hidden.rs",
            "pub struct T;\nimpl<'a> T {\n    pub fn f(&self) {}\n    fn g() {}\n}\npub struct U;\n",
        ),
        file(
            "a/src/own.rs",
            "pub fn h() {}\nstruct V;\nimpl Clone for V {\n    pub fn x() {}\n}\n",
        ),
        file(
            "b/src/lib.rs",
            "pub use udo_c::C;\npub struct B;\nimpl B {\n    pub const fn k() {}\n}\n",
        ),
        // `T` is another type than that of the first crate.
        file(
            "c/src/lib.rs",
            "pub struct C;\nimpl C {\n    pub fn m() {}\n    #[doc(hidden)]\n    pub fn former_m() {}\n}\nimpl T {\n    pub fn n() {}\n}\n",
        ),
    ];
    let folders = [("udo_a", "a/"), ("udo_b", "b/"), ("udo_c", "c/")];
    let folders = folders.map(|(n, f)| (n.to_owned(), f.to_owned()));
    let surface = Surface::new("a/", &folders.into(), &files);
    assert_eq!(surface.modules, ["more", "own"].map(str::to_owned).into());
    let wanted = ["B.k", "D.m", "T.f", "crate::B", "crate::T", "more::B", "more::D", "own::h"];
    assert_eq!(surface.items, wanted.map(str::to_owned).into());
}
