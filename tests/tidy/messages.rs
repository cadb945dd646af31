//! All messages of the workspace in one file, so that they can be read in one sitting, and so that a change
//! to any of them shows in review. `UDO_BLESS=1 cargo test --workspace --test tidy` writes the file again.

use std::{collections::BTreeMap, env, fs};

use super::{
    File, ROOT, rust_files,
    source::{Kind, is_test, pieces, without_tests},
};

const SNAPSHOT: &str = "tests/tidy/messages.txt";

/// Folders whose literals are code that is printed rather than messages.
const PRINTERS: &[&str] = &[
    "generator/reference/src/print",
    "generator/src/view",
    "runtime/engine/src/cores/opencl/",
    "runtime/simd/",
];

/// Where messages come from: what these folders hold is linked to programs.
const SOURCES: &[&str] = &["generator/", "runtime/", "udo-api/"];

#[test]
fn messages_are_those_that_were_reviewed() {
    let snapshot = templates(rust_files());
    let path = ROOT.join(SNAPSHOT);
    if env::var_os("UDO_BLESS").is_some() {
        fs::write(&path, &snapshot).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    let changes = changes(&reviewed, &snapshot);
    assert!(
        reviewed == snapshot,
        "{SNAPSHOT} is not what the code has:\n{changes}help: read the changed messages, then \
        `UDO_BLESS=1 cargo test --workspace --test tidy`\n"
    );
}

/// The longest message of one line. Help and examples have several.
const MAX_LINE: usize = 160;

#[test]
fn messages_of_one_line_fit_in_160_characters() {
    let all = templates(rust_files());
    let long = all.lines().map(str::trim).filter(|line| !line.contains("\\n"));
    let long: Vec<&str> = long.filter(|line| line.chars().count() > MAX_LINE).collect();
    assert!(long.is_empty(), "shorten these messages:\n{}", long.join("\n"));
}

/// The messages of these files, below the path of each.
fn templates(files: impl Iterator<Item = &'static File>) -> String {
    let mut text = String::new();
    for file in files {
        let is_source = SOURCES.iter().any(|folder| file.path.starts_with(folder))
            && file.path.contains("/src/")
            && !PRINTERS.iter().any(|folder| file.path.starts_with(folder));
        let messages = messages(&file.text);
        if is_test(&file.path) || !is_source || messages.is_empty() {
            continue;
        }
        text.extend(["\n", &file.path, "\n"]);
        for message in &messages {
            text.extend(["    ", message, "\n"]);
        }
    }
    text
}

/// The literals of code outside of tests that are sentences or templates of errors, in one line each.
fn messages(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut before = "";
    for piece in pieces(without_tests(text)) {
        match piece.kind {
            Kind::Literal => {
                let literal = one_line(piece.text);
                let is_error = before.trim_end().ends_with("#[error(");
                let is_reason = before.trim_end().ends_with("reason =");
                let is_prose = literal.split_whitespace().count() >= 3 && !is_code(&literal);
                if is_error || is_prose && !is_reason {
                    messages.push(literal);
                }
            }
            Kind::Code => before = piece.text,
            Kind::Comment => {}
        }
    }
    messages
}

/// Whether the text is more likely a piece of a program than a message.
fn is_code(text: &str) -> bool {
    [
        "::", ";\\n", "fn ", "=>", "</", "#include", "let ", "-> ", "__", "()", "{{", ");", "];",
        "const ",
    ]
    .iter()
    .any(|sign| text.contains(sign))
}

/// A literal without its quotes, whose continued lines are joined as the compiler joins them.
fn one_line(literal: &str) -> String {
    let quoted = literal.trim_start_matches(['r', '#']).trim_end_matches('#');
    let text = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let mut lines = text.unwrap_or(quoted).split("\\\n");
    let mut joined = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        joined.push_str(line.trim_start());
    }
    joined.replace('\n', "\\n")
}

/// The lines that only one of two snapshots has, with a sign in front.
fn changes(old: &str, new: &str) -> String {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in new.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in old.lines() {
        *counts.entry(line).or_default() -= 1;
    }
    let mut text = String::new();
    for (line, count) in counts.iter().filter(|(_, count)| **count != 0) {
        text.extend([if *count > 0 { "+ " } else { "- " }, line.trim(), "\n"]);
    }
    text
}

#[test]
fn messages_are_literals_that_are_sentences() {
    let source = "#[error(\"{0}\")]\nA,\n#[expect(x, reason = \"it is so here\")]\nf(\"a name\", \"no \\\n        file {x} here\");\nprint(\"let a = b;\");\n#[cfg(test)]\nmod tests {\nf(\"not a message\")";
    assert_eq!(messages(source), ["{0}", "no file {x} here"]);
    assert_eq!(changes("a\nb\n", "b\nc\n"), "- a\n+ c\n");
}
