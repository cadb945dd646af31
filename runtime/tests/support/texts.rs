//! Graphs before and after some phase, as text: files of a folder.
//!
//! `UDO_BLESS=1` writes what comes out behind `after`, to be looked at.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use udo_runtime::graph::Graph;

const BEFORE: &str = "--- before\n";
const AFTER: &str = "--- after\n";

/// A file, and the text of its graph before.
pub(crate) struct Text {
    /// The name of the file, without what stands behind its dot.
    pub(crate) name: String,
    path: PathBuf,
    content: String,
}

/// The files of a folder of `runtime/tests`, by name.
pub(crate) fn texts(folder: &str) -> Vec<Text> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
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
    pub(crate) fn before(&self) -> Graph {
        let (_, graph) = self.parts().0.split_once(BEFORE).unwrap();
        Graph::parse(graph).map_err(|e| format!("{}: {e}", self.name)).unwrap()
    }

    /// What is before the graph after, and that.
    fn parts(&self) -> (&str, &str) {
        self.content.split_once(AFTER).unwrap_or((&self.content, ""))
    }
}

/// Checks that `phase` makes of every graph of a folder what its file says.
pub(crate) fn check(folder: &str, phase: impl Fn(Graph) -> String) {
    let bless = std::env::var_os("UDO_BLESS").is_some();
    let mut wrong = String::new();
    for text in texts(folder) {
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
        writeln!(wrong, "{name}: found\n{found}wanted\n{wanted}").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}
