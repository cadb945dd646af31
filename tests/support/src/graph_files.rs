//! Graphs before and after some phase, as text: files of a folder.
//!
//! `UDO_BLESS=1` writes what comes out behind `after`, to be looked at.

use std::fmt::Write as _;
use std::path::PathBuf;

use udo_runtime::graph::Graph;

use crate::checkout::root;

const BEFORE: &str = "--- before\n";
const AFTER: &str = "--- after\n";

/// A file, and the text of its graph before.
#[derive(Debug)]
pub struct Text {
    /// The name of the file, without what stands behind its dot.
    pub name: String,
    path: PathBuf,
    content: String,
}

/// The files of a folder of `runtime/tests`, by name.
pub fn files_in(folder: &str) -> Vec<Text> {
    let folder = root().join("runtime/tests").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| Text {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        content: std::fs::read_to_string(&path).unwrap(),
        path,
    };
    paths.into_iter().map(read).collect()
}

impl Text {
    /// The graph before.
    pub fn before(&self) -> Graph {
        let (_, graph) = self.parts().0.split_once(BEFORE).unwrap();
        Graph::parse(graph).map_err(|e| format!("{}: {e}", self.name)).unwrap()
    }

    /// Splits a file into the graph before the passes and the graph after them.
    fn parts(&self) -> (&str, &str) {
        self.content.split_once(AFTER).unwrap_or((&self.content, ""))
    }
}

/// Checks that `phase` makes of every graph of a folder what its file says.
pub fn check(folder: &str, phase: impl Fn(Graph) -> String) {
    let bless = std::env::var_os("UDO_BLESS").is_some();
    let mut wrong = String::new();
    for text in files_in(folder) {
        let name = &text.name;
        let (before, wanted) = text.parts();
        let found = phase(text.before());
        // What comes out is a graph again.
        Graph::parse(&found).map_err(|e| format!("{name}: {e}\n{found}")).unwrap();
        if found == wanted {
            continue;
        }
        if bless {
            std::fs::write(&text.path, format!("{before}{AFTER}{found}")).unwrap();
        }
        writeln!(wrong, "{name}: found\n{found}expected\n{wanted}").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}
