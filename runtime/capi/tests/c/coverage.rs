//! `docs/nnrt-bmruntime.md` names functions of ours, functions of the shims and tests that exist, and all functions of the shims.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::declared::header;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// A row of the document: what it says about functions of theirs, column by column.
struct Row {
    cells: Vec<String>,
}

impl Row {
    /// Returns the names in backticks in a column.
    fn names(&self, column: usize) -> impl Iterator<Item = &str> {
        self.cells[column].split('`').skip(1).step_by(2)
    }
}

/// The rows of functions.
fn rows() -> Vec<Row> {
    let text = fs::read_to_string(format!("{FOLDER}/../../docs/nnrt-bmruntime.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    let rows: Vec<_> = rows.filter(|cells| cells.len() == 7).map(|cells| Row { cells }).collect();
    assert!(rows.len() > 80, "{} rows", rows.len());
    rows
}

/// The functions that a shim has for programs.
fn shim(name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(format!("{FOLDER}/include/{name}")).unwrap();
    let heads = text.lines().filter(|line| line.starts_with("static inline"));
    let names = heads.filter_map(|line| {
        let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
        (!name.contains("_compat_")).then(|| name.to_owned())
    });
    names.collect()
}

/// The functions of Rust files below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("fn "));
            found.extend(names.filter_map(|line| Some(line.split('(').next()?.to_owned())));
        }
    }
}

#[test]
fn functions_of_ours_are_declared() {
    let header = header();
    let mut declared: BTreeSet<_> = header.functions.into_iter().map(|of| of.name).collect();
    declared.extend(header.enums);
    declared.extend(header.structs.into_iter().map(|(name, _)| name));
    for row in rows() {
        let names: Vec<_> = row.names(3).collect();
        assert!(!names.is_empty() || row.cells[3].starts_with("not yet: "), "{:?}", row.cells);
        for name in names {
            assert!(declared.contains(name), "udo.h has no {name}: {:?}", row.cells);
        }
    }
}

#[test]
fn functions_of_the_shims_are_there_and_all_of_them_are_named() {
    let mut there = shim("nnrt_compat.h");
    there.extend(shim("bmrt_compat.h"));
    assert!(there.len() > 100, "{there:?}");
    let classes = fs::read_to_string(format!("{FOLDER}/include/bmrt_compat.hpp")).unwrap();
    let mut named = BTreeSet::new();
    for row in rows() {
        let claim = &row.cells[4];
        if claim == "in `bmrt_compat.hpp`" {
            for name in row.names(1) {
                let is_there =
                    [' ', '*', '&'].iter().any(|c| classes.contains(&format!("{c}{name}(")));
                assert!(is_there, "there is no {name}");
            }
            continue;
        }
        let is_there = claim.starts_with("yes");
        assert!(is_there || claim.starts_with("no: ") || claim.starts_with("not yet: "), "{claim}");
        for name in row.names(1).filter(|name| !name.ends_with("_t")) {
            assert_eq!(there.contains(name), is_there, "{name} is said to be: {claim}");
            named.insert(name.to_owned());
        }
    }
    let beside: Vec<_> = there.difference(&named).collect();
    assert_eq!(beside, ["bmrt_data_type_size"], "not in the document");
}

#[test]
fn tests_that_are_named_exist() {
    let mut found = BTreeSet::new();
    functions(&Path::new(FOLDER).join("tests"), &mut found);
    for folder in ["../src", "../compile/src", "../engine/src", "../graph/src"] {
        functions(&Path::new(FOLDER).join(folder), &mut found);
    }
    for row in rows() {
        let names: Vec<_> = row.names(5).collect();
        assert!(!names.is_empty(), "without a test: {:?}", row.cells);
        for name in names {
            assert!(found.contains(name), "there is no test {name}: {:?}", row.cells);
        }
    }
}
