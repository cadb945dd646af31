//! Reads the examples of `docs/config.md` and compares the messages with those below the examples. `UDO_BLESS=1`
//! updates the messages on the page, for review.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use udo_generator::{Mode, Source, read};

const PAGE: &str = include_str!("../../docs/config.md");

/// A code block of the page.
struct Example {
    /// The words after the opening backticks, such as `json refused`.
    language: &'static str,
    text: String,
    /// The `text` block that follows it.
    expected_messages: Option<String>,
}

fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = body.join("\n") + if body.is_empty() { "" } else { "\n" };
        if language == "text" {
            examples.last_mut().unwrap().expected_messages = Some(text);
        } else {
            examples.push(Example { language, text, expected_messages: None });
        }
    }
    examples
}

/// Reads one example and returns whether it is valid, and its warnings or errors.
fn messages(example: &Example, mode: Mode) -> (bool, String) {
    let name = if example.language.starts_with("xml") { "config.xml" } else { "config.json" };
    let (is_valid, faults) =
        match read(&[Source { path: Path::new(name), text: &example.text }], mode) {
            Ok((_, warnings)) => (true, warnings),
            Err(error) => (false, error.diagnostics),
        };
    let lines: Vec<String> = faults.iter().map(|fault| fault.to_string() + "\n").collect();
    (is_valid, lines.concat())
}

#[test]
fn examples_give_the_messages_on_the_page() {
    let mut kinds = std::collections::BTreeSet::new();
    for example in examples() {
        let (mode, is_valid) = match example.language {
            "json" | "xml" => (Mode::Strict, true),
            "json refused" | "xml refused" => (Mode::Strict, false),
            "json compat" => (Mode::Compat, true),
            other => panic!("docs/config.md has a block of {other:?}"),
        };
        kinds.insert(example.language);
        if let (Some(expected_messages), true) =
            (&example.expected_messages, std::env::var_os("UDO_BLESS").is_some())
        {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
            let block = |expected_messages: &str| {
                format!("{}```\n\n```text\n{expected_messages}```\n", example.text)
            };
            let page = fs::read_to_string(&path).unwrap();
            let (_, actual_messages) = messages(&example, mode);
            fs::write(&path, page.replacen(&block(expected_messages), &block(&actual_messages), 1))
                .unwrap();
            continue;
        }
        let expected = (is_valid, example.expected_messages.clone().unwrap_or_default());
        assert_eq!(messages(&example, mode), expected, "{}", example.text);
    }
    assert!(kinds.len() > 2, "{kinds:?}");
}

#[test]
fn strict_mode_refuses_examples_for_compat_mode() {
    for example in examples().iter().filter(|example| example.language == "json compat") {
        let (is_valid, expected_messages) = messages(example, Mode::Strict);
        assert!(!is_valid && expected_messages.contains("error: "), "{expected_messages}");
    }
}
