//! The project's vocabulary: names and phrases that readers stumbled over, and what replaces them.
//!
//! A word of the table of names may not be the whole name of a type, function or module. A phrase may not
//! occur in comments, messages, help, templates or pages. Code in backticks and names with underscores are
//! not prose, so that names of ONNX and of vendors are free.

use std::{collections::BTreeSet, path::Path};

use super::{
    File, none, own, rust_files,
    source::{Kind, is_name, is_test, pieces},
};

/// Words that are no name by themselves, in lower case, and names that say what the thing is.
const NAMES: &[(&str, &str)] = &[
    ("behind", "segment, continuation"),
    ("cheapest", "cost-based placement"),
    ("form", "format, layout, variant"),
    ("given", "argument, overridden, input"),
    ("halves", "f16 and bf16, half precision"),
    ("held", "lease, owner, buffer"),
    ("kept", "cached, stored, retained"),
    ("made", "output, built"),
    ("met", "seen, shapes"),
    ("of", "new, from_x, with_x, for_x, or a verb"),
    ("room", "buffer, capacity"),
    ("said", "declared, stderr, message"),
    ("taken", "consumed, claimed"),
    ("texts", "strings"),
    ("trip", "iteration"),
    ("trips", "iterations"),
    ("truth", "bool, reference"),
    ("truths", "bools"),
    ("turn", "iteration, run"),
    ("unplaced", "candidate"),
    ("upkeep", "coherence, cache maintenance"),
    ("vouch", "reference, oracle"),
    ("wanted", "expected, requested"),
    ("way", "algorithm, method"),
    ("wishes", "constraints"),
];

/// Phrases, and what to write instead. `a|b` is either word; `!a|b` is any other word, and `^a|b` that or the end of a
/// sentence.
const PHRASES: &[(&str, &str)] = &[
    ("in numbers", "float, in floating point"),
    ("make|makes|made|making numbers of", "dequantizes"),
    ("on values", "quantized, on quantized values"),
    ("stored values", "quantized values"),
    ("in|of|as|on|integer|quantized codes", "quantized values"),
    ("node|nodes behind", "consumers, downstream"),
    ("node|nodes before", "producers, upstream"),
    ("trip|trips", "iteration"),
    ("what is packed", "prepacked weights, packed constants"),
    ("lie|lies|lay|lying apart", "strided, separate"),
    ("vouch|vouches|vouched", "verified by a reference"),
    ("truth|truths", "bool, bools, reference"),
    ("texts", "strings"),
    ("halves", "f16 and bf16, half precision"),
    ("upkeep", "coherence, cache maintenance"),
    ("has|have none", "has no X"),
    ("^there is no !longer|more|less|larger|wider|farther|better|worse", "is not an X"),
    ("there is|are none", "not found, has no X"),
];

/// Names that stay, and why. Items after `#[doc(hidden)]` are former names, which `HIDDEN` lists.
const NAMED: &[(&str, &str, &str)] = &[
    ("udo-api/src/abi/", "texts", "structures of the ABI keep their names"),
    ("udo-api/src/dsp/params.rs", "Kept", "printed packages name the associated type"),
    ("udo-api/src/dsp/params.rs", "Given", "printed packages name the associated type"),
    ("udo-api/src/export/shim.rs", "of", "printed packages call `OpDef::of`"),
];

/// Where a phrase is meant literally: the file, the phrase, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("docs/package-abi.md", "texts", "a field of a structure of the ABI"),
    ("generator/reference/src/eval.rs", "on values", "dimensions depend on values"),
    ("generator/reference/src/print/items.rs", "texts", "a placeholder of printed OpenCL C"),
    ("runtime/ops/src/ops/one_hot.rs", "on values", "ONNX calls the values off and on"),
    ("templates/reg/inference.rs.jinja", "halves", "a local of packages that exist"),
    ("tests/fixtures/abi-2.0/udo_package.h", "has|have none", "an archived header"),
    ("udo-api/include/udo_package.h", "has|have none", "the header of the ABI keeps its words"),
];

#[test]
fn items_have_descriptive_names() {
    let mut faults = Vec::new();
    let mut unused: BTreeSet<_> = NAMED.iter().map(|&(path, name, _)| (path, name)).collect();
    for file in rust_files().filter(|file| !is_printed(&file.path)) {
        for (line, word) in declared(&own(file)) {
            let retired = NAMES.iter().find(|(name, _)| *name == word.to_lowercase());
            let Some((_, instead)) = retired else { continue };
            let is_exempt =
                |&(path, name): &(&str, &str)| file.path.starts_with(path) && name == word;
            if NAMED.iter().any(|&(path, name, _)| is_exempt(&(path, name))) {
                unused.retain(|row| !is_exempt(row));
            } else {
                faults.push(format!("{}:{line}: {word}, use: {instead}", file.path));
            }
        }
    }
    none(&faults);
    assert!(unused.is_empty(), "no longer needed: {unused:?}");
}

#[test]
fn prose_uses_the_words_of_the_field() {
    let mut faults = Vec::new();
    let mut unused: BTreeSet<_> =
        EXCEPTIONS.iter().map(|&(path, phrase, _)| (path, phrase)).collect();
    for file in super::FILES.iter() {
        let words = prose(file);
        for &(phrase, instead) in PHRASES {
            let pattern: Vec<_> = phrase.split(' ').collect();
            let found: Vec<_> = words
                .windows(pattern.len())
                .filter(|words| pattern.iter().zip(*words).all(|(part, word)| word.matches(part)))
                .collect();
            if found.is_empty() || unused.remove(&(&*file.path, phrase)) {
                continue;
            }
            for words in found {
                let text: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
                let line = words[0].line;
                faults.push(format!(
                    "{}:{line}: \"{}\", use: {instead}",
                    file.path,
                    text.join(" ")
                ));
            }
        }
    }
    none(&faults);
    assert!(unused.is_empty(), "no longer needed: {unused:?}");
    assert!(EXCEPTIONS.len() <= 40, "exceptions are few");
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let mut is_inside = false;
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if doc.is_some_and(|doc| !is_inside && doc.starts_with(" What ")) {
                faults.push(format!("{}:{}: {line}", file.path, index + 1));
            }
            is_inside = doc.is_some();
        }
    }
    none(&faults);
}

#[test]
fn pages_have_short_lines_and_no_counts_that_go_stale() {
    let mut faults = Vec::new();
    for file in super::FILES.iter().filter(|file| is_page(&file.path)) {
        let (mut is_code, mut is_generated) = (false, false);
        for (index, line) in file.text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            is_generated = match line {
                _ if line.starts_with("<!-- table") || line.ends_with(": begin -->") => true,
                _ if line.starts_with("<!-- end") || line.ends_with(": end -->") => false,
                _ => is_generated,
            };
            if is_code || is_generated {
                continue;
            }
            let is_free =
                line.starts_with(['|', '<']) || line.contains("](") || line.contains("://");
            if !is_free && line.chars().count() > 100 {
                faults.push(format!("{}:{}: more than 100 columns", file.path, index + 1));
            }
            let is_held = |count: &String| COUNTED.contains(&(&*file.path, count));
            if let Some(count) =
                count(line).filter(|count| !is_history(&file.path) && !is_held(count))
            {
                faults.push(format!("{}:{}: \"{count}\" goes stale", file.path, index + 1));
            }
        }
    }
    none(&faults);
}

/// Pages that a test or a script writes.
const GENERATED: &[&str] = &["docs/command-line.md", "docs/onnx-types.md", "docs/operators.md"];

/// Counts that another test compares with the code.
const COUNTED: &[(&str, &str)] = &[("README.md", "210 operators:")];

fn is_page(path: &str) -> bool {
    let is_markdown =
        Path::new(path).extension().is_some_and(|end| end == "md") && !GENERATED.contains(&path);
    is_markdown && (path.starts_with("docs/") || !path.contains('/'))
}

/// Whether the page describes releases, whose counts stay as they were.
fn is_history(path: &str) -> bool {
    path == "CHANGELOG.md"
}

/// A number of things of the project that the next change may make wrong.
fn count(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let thing = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
        let is_counted = ["lines", "files", "operators", "tests", "crates"].contains(&thing);
        let is_number = pair[0].starts_with(|c: char| c.is_ascii_digit())
            && pair[0].chars().all(|c| c.is_ascii_digit() || ",.".contains(c));
        (is_counted && is_number).then(|| pair.join(" "))
    })
}

/// Whether packages are printed with this file, so that its names are those of the generator's templates.
fn is_printed(path: &str) -> bool {
    path.starts_with("examples/") && path.contains("UdoPackage/")
}

/// The types, functions and modules that this code declares, each with its line; hidden ones are former names.
fn declared(text: &str) -> Vec<(usize, String)> {
    const KINDS: [&str; 8] =
        ["fn ", "struct ", "enum ", "union ", "trait ", "type ", "mod ", "macro_rules! "];
    let mut names = Vec::new();
    let mut is_hidden = false;
    for (line, code) in super::code(text).lines().enumerate() {
        let is_attribute = code.trim_start().starts_with('#') || code.trim().is_empty();
        is_hidden |= code.contains("#[doc(hidden)]");
        if is_attribute || std::mem::take(&mut is_hidden) {
            continue;
        }
        for kind in KINDS {
            let is_start = |index: usize| !code[..index].ends_with(is_name);
            for (index, _) in code.match_indices(kind).filter(|(index, _)| is_start(*index)) {
                let name = code[index + kind.len()..].split(|c| !is_name(c)).next();
                names.extend(name.map(|name| (line + 1, name.to_owned())));
            }
        }
    }
    names
}

/// A word of prose, or the end of a sentence, which no phrase goes across.
struct Word {
    line: usize,
    /// Empty for an end.
    text: String,
}

impl Word {
    /// Whether this is one of the pattern's words, or none of those after `!` or `^`.
    fn matches(&self, pattern: &str) -> bool {
        let has = |words: &str| words.split('|').any(|word| self.text.eq_ignore_ascii_case(word));
        match (pattern.strip_prefix('!'), pattern.strip_prefix('^')) {
            (Some(others), _) => !self.text.is_empty() && !has(others),
            (_, Some(others)) => !has(others),
            _ => has(pattern),
        }
    }
}

/// The prose of a file: of code, its comments and the literals that are sentences.
fn prose(file: &File) -> Vec<Word> {
    let mut words = Vec::new();
    let end = file.path.rsplit_once('.').map_or("", |(_, end)| end);
    match end {
        _ if file.path == "tests/tidy/words.rs" || file.path.contains("/corpus/") => {}
        "rs" | "c" | "cpp" | "h" | "hpp" | "cl" => {
            for piece in pieces(&file.text) {
                match piece.kind {
                    Kind::Comment => split(piece.text, piece.line, &mut words),
                    // A literal of one word is a name; those of tests are graphs, configs and programs.
                    Kind::Literal if piece.text.contains(' ') && !is_test(&file.path) => {
                        words.push(Word { line: piece.line, text: String::new() });
                        split(piece.text, piece.line, &mut words);
                        words.push(Word { line: piece.line, text: String::new() });
                    }
                    Kind::Code if piece.text.trim().is_empty() => {}
                    _ => words.push(Word { line: piece.line, text: String::new() }),
                }
            }
        }
        "md" | "jinja" | "html" => split(&file.text, 1, &mut words),
        "py" => {
            let mut is_docstring = false;
            for (index, line) in file.text.lines().enumerate() {
                let quotes = line.matches("\"\"\"").count();
                let (_, comment) = line.split_once("# ").unwrap_or_default();
                match line.split_once("help=") {
                    _ if is_docstring || quotes > 0 => split(line, index + 1, &mut words),
                    Some((_, help)) => split(help, index + 1, &mut words),
                    None => split(comment, index + 1, &mut words),
                }
                is_docstring ^= quotes % 2 == 1;
                if !is_docstring && comment.is_empty() {
                    words.push(Word { line: index + 1, text: String::new() });
                }
            }
        }
        _ => {}
    }
    words
}

/// Adds the words of a text that begins in `line`, except for code in backticks.
fn split(text: &str, mut line: usize, words: &mut Vec<Word>) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| is_name(c) || c == '-' || c == '\'';
        let len = match first {
            '`' if !rest.starts_with("```") => {
                rest[1..].find(['`', '\n']).map_or(rest.len(), |at| at + 2)
            }
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let token = &rest[..len];
        if is_word(first) {
            words.push(Word { line, text: token.to_owned() });
        } else if first == '\n' {
            line += 1;
            // A blank line ends a paragraph.
            if rest[1..].trim_start_matches([' ', '/', '!', '*', '#']).starts_with('\n') {
                words.push(Word { line, text: String::new() });
            }
        } else if !first.is_whitespace() && !"/!*#".contains(first) {
            words.push(Word { line, text: String::new() });
        }
        rest = &rest[len..];
    }
}

#[test]
fn phrases_are_found_across_lines_and_not_in_names() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let found = |path: &str, text: &str, phrase: &str| {
        let words = prose(&file(path, text));
        let pattern: Vec<_> = phrase.split(' ').collect();
        words
            .windows(pattern.len())
            .any(|words| pattern.iter().zip(words).all(|(part, word)| word.matches(part)))
    };
    assert!(found("a.rs", "/// It is in\n/// numbers.\nfn f();", "in numbers"));
    assert!(!found("a.rs", "/// It is in.\n/// Numbers.", "in numbers"));
    assert!(!found("a.rs", "/// Ends in\nfn f() {} // numbers", "in numbers"));
    let (is_no, _) = PHRASES.iter().find(|(phrase, _)| phrase.contains("is no")).unwrap();
    assert!(found("a.rs", "f(\"{x} is no model\")", is_no));
    assert!(!found("a.rs", "f(\"it is no longer\")", is_no));
    assert!(!found("a.rs", "f(\"there is no model\")", is_no));
    assert!(found("a.py", "def f():\n    \"\"\"Makes a\n    trip.\"\"\"\n", "trip"));
    assert!(!found("a.py", "trip = 1\nadd(\"--a\", help=\"one\") # two", "trip"));
    assert!(!found("a.rs", "f(\"trip\", trip) // `trip` trip_count", "trip"));
    assert!(!found("tests/a.rs", "f(\"a trip b\")", "trip"));
    assert!(found("a.md", "`x` makes numbers of it", "make|makes numbers of"));
    assert_eq!(declared("pub(crate) fn of<T>() {} mod a; type B = fn(c);").len(), 3);
    assert_eq!(declared("#[doc(hidden)]\n#[x]\nfn of() {\n    fn a() {}\n").len(), 1);
    assert_eq!(count("has 1,000 operators."), Some("1,000 operators.".to_owned()));
    assert_eq!(count("the first 100 lines_of"), None);
}
