//! `docs/config.md` keeps its promises: its examples read, and give the messages that stand below them. `UDO_BLESS=1` writes
//! the messages, to be looked at.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use udo_generator::{Mode, Source, read};

const PAGE: &str = include_str!("../../docs/config.md");

/// The text of a code block, the words after its opening backticks, and the text block that follows.
struct Example {
    language: &'static str,
    text: String,
    says: Option<String>,
}

fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = body.join("\n") + if body.is_empty() { "" } else { "\n" };
        if language == "text" {
            examples.last_mut().unwrap().says = Some(text);
        } else {
            examples.push(Example { language, text, says: None });
        }
    }
    examples
}

/// Reads one example and returns its warnings or errors.
fn messages(example: &Example, mode: Mode) -> (bool, String) {
    let name = if example.language.starts_with("xml") { "config.xml" } else { "config.json" };
    let (reads, faults) = match read(&[Source { path: Path::new(name), text: &example.text }], mode)
    {
        Ok((_, warnings)) => (true, warnings),
        Err(error) => (false, error.diagnostics),
    };
    let lines: Vec<String> = faults.iter().map(|fault| fault.to_string() + "\n").collect();
    (reads, lines.concat())
}

#[test]
fn examples_are_read_or_refused_as_the_page_says() {
    let mut kinds = std::collections::BTreeSet::new();
    for example in examples() {
        let (mode, reads) = match example.language {
            "json" | "xml" => (Mode::Strict, true),
            "json refused" | "xml refused" => (Mode::Strict, false),
            "json compat" => (Mode::Compat, true),
            other => panic!("docs/config.md has a block of {other:?}"),
        };
        kinds.insert(example.language);
        if let (Some(says), true) = (&example.says, std::env::var_os("UDO_BLESS").is_some()) {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
            let block = |says: &str| format!("{}```\n\n```text\n{says}```\n", example.text);
            let page = fs::read_to_string(&path).unwrap();
            let (_, now) = messages(&example, mode);
            fs::write(&path, page.replacen(&block(says), &block(&now), 1)).unwrap();
            continue;
        }
        let wanted = (reads, example.says.clone().unwrap_or_default());
        assert_eq!(messages(&example, mode), wanted, "{}", example.text);
    }
    assert!(kinds.len() > 2, "{kinds:?}");
}

#[test]
fn what_compat_takes_is_refused_otherwise() {
    for example in examples().iter().filter(|example| example.language == "json compat") {
        let (reads, says) = messages(example, Mode::Strict);
        assert!(!reads && says.contains("error: "), "{says}");
    }
}
