//! Guides with commands: their shell blocks run, and print what stands below them.
//!
//! Blocks of the language `sh` are run, one after the other in one shell; all commands succeed, or, with `sh fails`, the last one
//! answers 1. A `text` block right after it holds lines that the output holds too, in this order; `..` stands for anything.

use std::{fs, path::Path, process::Command};

/// A fenced block of a guide.
#[derive(Debug)]
pub struct Block {
    /// The text after its opening backticks.
    pub language: &'static str,
    /// The line of its first backticks, from 1.
    pub line: usize,
    /// Its lines.
    pub text: String,
    /// Whether only an empty line is between it and the block before.
    pub follows: bool,
}

/// The blocks of a guide.
pub fn blocks(guide: &'static str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let mut follows = false;
    for (index, line) in guide.lines().enumerate() {
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
pub fn missing<'w>(output: &str, wanted: &'w str) -> Option<&'w str> {
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

/// Runs the commands of a guide in `dir`, by a shell that `setup` gives its environment.
pub fn run(guide: &'static str, dir: &Path, setup: impl FnOnce(&mut Command)) {
    let blocks = blocks(guide);
    let commands: Vec<&Block> = blocks.iter().filter(|b| b.language.starts_with("sh")).collect();
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(script(&commands)).current_dir(dir);
    setup(&mut sh);
    let is_done = sh.status().unwrap().success();

    let output = |number: usize| fs::read_to_string(dir.join(number.to_string()));
    for (number, block) in commands.iter().enumerate() {
        let said = output(number);
        let before = output(number.saturating_sub(1)).unwrap_or_default();
        assert!(said.is_ok(), "the block before line {} stopped the script:\n{before}", block.line);
        let said = said.unwrap_or_default();
        let after = blocks.iter().find(|b| b.line > block.line);
        if let Some(text) = after.filter(|b| b.follows && b.language == "text") {
            let missing = missing(&said, &text.text);
            assert_eq!(missing, None, "line {}: not in the output\n{said}", text.line);
        }
    }
    let last = output(commands.len() - 1).unwrap();
    assert!(is_done, "the last block stopped the script:\n{last}");
}
