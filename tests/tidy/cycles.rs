//! Which files of a crate import which, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};

use super::source::is_name;

/// The names of a module, from the crate's root on.
type Module = Vec<String>;

/// The files of each import cycle of a crate, in order. `files` are pairs of a path within `src/` and the file's code without
/// comments. A root file and the files of its folder may import each other.
pub(crate) fn cycles(files: &[(&str, String)]) -> BTreeSet<Vec<String>> {
    let modules: BTreeMap<Module, usize> =
        (0..).zip(files).map(|(at, (path, _))| (module(path), at)).collect();
    let edges = |(path, code): &(&str, String)| {
        let own = module(path);
        let named =
            paths(before_tests(code)).into_iter().map(|path| resolved(&own, path, &modules));
        let others = named.filter(|other| !own.starts_with(other) && !other.starts_with(&own));
        others.filter_map(|other| modules.get(&other).copied()).collect()
    };
    let edges: Vec<BTreeSet<usize>> = files.iter().map(edges).collect();
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(|at| reached(&edges, at)).collect();
    let cycle = |at: usize| {
        let members = reached[at].iter().filter(|&&other| reached[other].contains(&at));
        members.map(|&other| files[other].0.to_owned()).collect::<Vec<_>>()
    };
    (0..files.len()).map(cycle).filter(|cycle| cycle.len() > 1).collect()
}

/// The files that one imports, and what those import.
fn reached(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(edges[at].iter().copied().filter(|&other| reached.insert(other)));
    }
    reached
}

fn module(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "lib" | "main" | "mod")) {
        names.pop();
    }
    names
}

/// The code up to the tests of the file.
fn before_tests(code: &str) -> &str {
    let is_inline = |at: &usize| {
        let rest = &code[*at..];
        rest.lines().nth(1).is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let mut tests = code.match_indices("#[cfg(test)]\n").map(|(at, _)| at);
    tests.find(is_inline).map_or(code, |at| &code[..at])
}

/// The module of a path that a module names.
fn resolved(own: &[String], path: Vec<String>, modules: &BTreeMap<Module, usize>) -> Module {
    let mut path = path.into_iter().peekable();
    let mut module =
        if path.peek().is_some_and(|name| name == "crate") { Vec::new() } else { own.to_vec() };
    while let Some(name) = path.next_if(|name| matches!(name.as_str(), "crate" | "self" | "super"))
    {
        if name == "super" {
            module.pop();
        }
    }
    for name in path {
        module.push(name);
        if !modules.contains_key(&module) {
            module.pop();
            break;
        }
    }
    module
}

/// Every path that begins with `crate`, `self` or `super`, with groups written out.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for root in ["crate", "self", "super"] {
        for (at, _) in code.match_indices(root) {
            let is_first = !code[..at].ends_with(|c| is_name(c) || c == ':' || c == '$');
            if is_first && code[at + root.len()..].starts_with("::") {
                tree(&code[at..], &[], &mut paths);
            }
        }
    }
    paths
}

/// Adds the paths of a tree that begins here, behind those names; how long it is.
fn tree(code: &str, before: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut names = before.to_vec();
    let mut at = 0;
    loop {
        let name: String = code[at..].chars().take_while(|&c| is_name(c)).collect();
        at += name.len();
        names.extend(Some(name).filter(|name| !name.is_empty()));
        let Some(rest) = code[at..].strip_prefix("::") else { break };
        at += 2;
        if rest.starts_with('{') {
            at += 1;
            while !code[at..].starts_with('}') && at < code.len() {
                let blank =
                    code[at..].len() - code[at..].trim_start_matches([' ', '\n', ',']).len();
                at += blank;
                if !code[at..].starts_with('}') {
                    at += tree(&code[at..], &names, paths).max(1);
                    // A name of its own, or a glob.
                    at += code[at..].find([',', '}']).unwrap_or(code.len() - at);
                }
            }
            return at + 1;
        }
    }
    paths.push(names);
    at
}

#[test]
fn cycles_are_found_through_groups_and_paths() {
    let files = |a: &str, b: &str, c: &str| {
        let files = [("lib.rs", ""), ("a.rs", a), ("a/b.rs", b), ("c.rs", c)];
        cycles(&files.map(|(path, code)| (path, code.to_owned())))
    };
    let of = |names: &[&str]| BTreeSet::from([names.iter().map(|&name| name.to_owned()).collect()]);
    assert_eq!(
        files("use crate::{c::{D, e}, f};", "", "fn g() { crate::a::h() }"),
        of(&["a.rs", "c.rs"])
    );
    assert_eq!(
        files("", "use crate::c::D as E;", "use crate::a::{self, b::F};"),
        of(&["a/b.rs", "c.rs"])
    );
    assert!(
        files("mod b;\nuse b::X;", "use super::Y;\nuse crate::a::Z;", "").is_empty(),
        "root and child"
    );
    assert!(
        files("", "use crate::c::D;", "use crate::a::X;").is_empty(),
        "a child is another file"
    );
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::c::D;\n}\n";
    assert!(
        files(tests, "", "use crate::a::X;").is_empty(),
        "tests come last and may import what is above"
    );
    assert_eq!(
        files("", "use super::super::c::D;", "use crate::a::b::X;"),
        of(&["a/b.rs", "c.rs"])
    );
}
