//! What passes make of small graphs, as text: every file in `passes/` has a graph before and after.
//!
//! `UDO_BLESS=1` writes what comes out behind `after`, to be looked at.
#![expect(clippy::unwrap_used, reason = "a file that is no graph fails the test")]

use std::fmt::Write as _;
use std::path::Path;

use udo_api::GuardAlloc;
use udo_runtime::graph::Graph;
use udo_runtime::pass::{self, PASSES};
use udo_runtime::registry::Registry;
use udo_runtime::resolve::BindOptions;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

const AFTER: &str = "--- after\n";

fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    files.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

#[test]
fn graphs_become_what_their_files_say() {
    let bless = std::env::var_os("UDO_BLESS").is_some();
    let mut wrong = String::new();
    for (path, text) in files() {
        let (before, wanted) = text.split_once(AFTER).unwrap_or((&text, ""));
        let (_, graph) = before.split_once("--- before\n").unwrap();
        let registry = Registry::builtin().unwrap();
        let graph = Graph::parse(graph).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut resolved = registry.resolve(graph, &BindOptions::default()).unwrap();
        pass::run(&mut resolved.graph, &registry).unwrap();
        let found = resolved.graph.to_string();
        // What comes out is a graph again.
        Graph::parse(&found).unwrap_or_else(|e| panic!("{path}: {e}\n{found}"));
        if found == wanted {
            continue;
        }
        if bless {
            std::fs::write(&path, format!("{before}{AFTER}{found}")).unwrap();
        }
        writeln!(wrong, "{path}: found\n{found}wanted\n{wanted}").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_pass_has_files() {
    for pass in PASSES {
        let has_file = files().iter().any(|(path, _)| {
            let name = Path::new(path).file_stem().unwrap().to_string_lossy().into_owned();
            name.starts_with(pass.name)
        });
        assert!(has_file, "no file in tests/passes is called after pass {}", pass.name);
    }
}
