//! `docs/write-a-package.md` keeps its promises: its commands run, its Rust compiles.
//!
//! Blocks of the language `sh` are run, one after the other in one shell; all commands succeed, or,
//! with `sh fails`, the last one answers 1. A `text` block right after it holds lines that the output
//! holds too, in this order; `..` stands for anything. A `rust` block is a module of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use support::{cargo, packages_target, root};

const GUIDE: &str = include_str!("../docs/write-a-package.md");

/// A fenced block of the guide.
struct Block {
    language: &'static str,
    /// The line of its first backticks, from 1.
    line: usize,
    text: String,
    /// Whether only an empty line is between it and the block before.
    follows: bool,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let mut follows = false;
    for (index, line) in GUIDE.lines().enumerate() {
        match (line.strip_prefix("```"), is_open) {
            (Some(language), false) => {
                blocks.push(Block { language, line: index + 1, text: String::new(), follows });
                is_open = true;
            }
            (Some(_), true) => (is_open, follows) = (false, true),
            (None, true) => blocks.last_mut().unwrap().text.extend([line, "\n"]),
            (None, false) => follows &= line.is_empty(),
        }
    }
    assert!(!is_open, "the last block has no end");
    blocks
}

/// A folder that looks like the root of a built checkout as far as the guide uses it.
fn checkout() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_udo")).parent().unwrap();
    fs::create_dir(dir.path().join("target")).unwrap();
    symlink(programs, dir.path().join("target/release")).unwrap();
    symlink(root().join("examples"), dir.path().join("examples")).unwrap();
    dir
}

/// The commands of all `sh` blocks as one script, since they share variables and the folder. What
/// a block prints goes to a file called by its number.
fn script(commands: &[&Block]) -> String {
    let mut script = String::from("set -e\nlog=$PWD\n");
    for (number, block) in commands.iter().enumerate() {
        let run = format!("{{\n{}}} > \"$log/{number}\" 2>&1", block.text);
        if block.language == "sh fails" {
            script.extend(["code=0\n", &run, " || code=$?\ntest $code = 1\n"]);
        } else {
            script.extend([&run, "\n"]);
        }
    }
    script
}

/// The first wanted line that the output does not hold after the ones before it.
fn missing<'w>(output: &str, wanted: &'w str) -> Option<&'w str> {
    let mut lines = output.lines();
    wanted.lines().find(|wanted| !lines.any(|line| holds(line, wanted)))
}

/// Whether `line` holds the parts between the `..` of `wanted`, in their order.
fn holds(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    wanted.split("..").map(str::trim_end).all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn commands_do_what_the_guide_says() {
    let blocks = blocks();
    let commands: Vec<&Block> = blocks.iter().filter(|b| b.language.starts_with("sh")).collect();
    let dir = checkout();
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(script(&commands)).current_dir(dir.path()).env_remove("UDO_ROOT");
    // Where packages are built; tests of packages find the dependencies built.
    sh.env("CARGO_TARGET_DIR", packages_target()).env("CARGO_NET_OFFLINE", "true");
    sh.env_remove("MAKEFLAGS").env_remove("CFLAGS");
    let is_done = sh.status().unwrap().success();

    let output = |number: usize| fs::read_to_string(dir.path().join(number.to_string()));
    for (number, block) in commands.iter().enumerate() {
        let said = output(number).unwrap_or_else(|_| {
            let said = output(number.saturating_sub(1)).unwrap_or_default();
            panic!("the block before line {} stopped the script:\n{said}", block.line)
        });
        let after = blocks.iter().find(|b| b.line > block.line);
        if let Some(text) = after.filter(|b| b.follows && b.language == "text") {
            let missing = missing(&said, &text.text);
            assert_eq!(missing, None, "line {}: not in the output\n{said}", text.line);
        }
    }
    let last = output(commands.len() - 1).unwrap();
    assert!(is_done, "the last block stopped the script:\n{last}");
}

#[test]
fn rust_compiles_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = String::from("#![deny(warnings)]\n#![expect(dead_code)]\n");
    for block in blocks().iter().filter(|b| b.language == "rust") {
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
    let blocks = blocks();
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
