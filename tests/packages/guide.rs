//! `docs/write-a-package.md` keeps its promises: its commands run, its Rust compiles.
//!
//! A `rust` block is a module of its own.

use std::{fs, os::unix::fs::symlink, path::Path};

use udo_test_support::checkout::{cargo, packages_target, root};
use udo_test_support::guide::{self, Block, blocks, missing};

const GUIDE: &str = include_str!("../../docs/write-a-package.md");

/// A folder that looks like the root of a built checkout as far as the guide uses it.
fn checkout() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_udo")).parent().unwrap();
    fs::create_dir(dir.path().join("target")).unwrap();
    symlink(programs, dir.path().join("target/release")).unwrap();
    symlink(root().join("examples"), dir.path().join("examples")).unwrap();
    dir
}

#[test]
fn pasted_blocks_of_the_guide_run() {
    let dir = checkout();
    guide::run(GUIDE, dir.path(), |sh| {
        // Where packages are built; tests of packages find the dependencies built.
        sh.env("CARGO_TARGET_DIR", packages_target()).env("CARGO_NET_OFFLINE", "true");
        sh.env_remove("UDO_ROOT").env_remove("MAKEFLAGS").env_remove("CFLAGS");
    });
}

#[test]
fn rust_compiles_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = String::from("#![deny(warnings)]\n#![expect(dead_code)]\n");
    for block in blocks(GUIDE).iter().filter(|b| b.language == "rust") {
        let Block { line, text, .. } = block;
        source.extend([&format!("mod line_{line} {{\n"), text, "}\n"]);
    }
    let manifest = format!(
        "[package]\nname = \"guide_snippets\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nudo-api = \
         {{ path = {:?} }}\n\n[workspace]\n",
        root().join("udo-api")
    );
    fs::create_dir(dir.path().join("src")).unwrap();
    fs::write(dir.path().join("src/lib.rs"), source).unwrap();
    fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(root().join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();
    let output = cargo("build", dir.path()).args(["--quiet", "--release"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn every_kind_of_block_is_looked_at() {
    let blocks = blocks(GUIDE);
    let count = |language| blocks.iter().filter(|b| b.language == language).count();
    let known = ["sh", "sh fails", "text", "rust"];
    assert_eq!(known.map(count).iter().sum::<usize>(), blocks.len());
    assert!(known.map(count).iter().all(|&count| count > 1));
    // A text block that follows no commands would be compared with nothing.
    for pair in blocks.windows(2).filter(|pair| pair[1].language == "text") {
        let stands = pair[0].language.starts_with("sh") && pair[1].follows;
        assert!(stands, "line {}", pair[1].line);
    }
}

#[test]
fn outputs_are_compared_line_by_line() {
    let output = "one two three\nfour\nfive six\n";
    for (wanted, missed) in [
        ("one two three\nfive", None),
        ("one .. three\nsix", None),
        (".. two", None),
        ("five\nfour", Some("four")),
        ("three .. one", Some("three .. one")),
        ("four\nfour", Some("four")),
    ] {
        assert_eq!(missing(output, wanted), missed, "{wanted:?}");
    }
}
