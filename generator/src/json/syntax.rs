//! Syntax errors of JSON. Two mistakes in templates that the vendor publishes, a trailing comma and a missing one, are
//! reported and repaired, so that reading can report further faults. Repairs do not change offsets.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{
    diagnostic::Kind,
    draft::{FileId, Spot},
    report::{Problem, Report, problem},
    spelling::quote,
};

/// The number of repairs after which reading stops.
const MAX_REPAIRS: usize = 32;

/// Returns the text with its commas repaired, if it then is JSON. Reports each repair as an error.
pub(super) fn repair<'a>(
    text: &'a str,
    file: FileId,
    report: &mut Report<'_>,
) -> Option<Cow<'a, str>> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_REPAIRS {
        let Err(error) = serde_json::from_str::<&RawValue>(&text) else { return Some(text) };
        let fault = explain(&text, &error);
        report.error(&Spot { file, offset: fault.offset, path: String::new() }, fault.problem);
        let (offset, byte) = fault.repair?;
        // One ASCII byte replaces another; anything else would move the offsets after it.
        if !text.get(offset..=offset).is_some_and(|old| old == "," || is_space(old)) {
            return None;
        }
        text.to_mut().replace_range(offset..=offset, byte);
    }
    None
}

fn is_space(text: &str) -> bool {
    matches!(text, " " | "\t" | "\r" | "\n")
}

/// A syntax error, and its repair if there is one.
struct Fault {
    offset: usize,
    problem: Problem,
    /// The offset of a byte, and the byte that repairs the text there.
    repair: Option<(usize, &'static str)>,
}

fn explain(text: &str, error: &serde_json::Error) -> Fault {
    let offset = offset_of(text, error);
    let (before_error, after_error) = text.split_at(offset);
    let before = before_error.trim_end();
    let here = after_error.trim_start();
    let here_offset = text.len() - here.len();

    if error.is_eof() {
        let help = if text.trim().is_empty() {
            "a config is an object with one member per package"
        } else {
            "close the string, list or object that is still open"
        };
        let problem = problem(Kind::Syntax, "the end of the file", "more JSON", help);
        return Fault { offset: text.trim_end().len(), problem, repair: None };
    }
    if before.ends_with(',') && here.starts_with([']', '}']) {
        let comma = before.len() - 1;
        let problem = problem(
            Kind::TrailingComma,
            format!("`,` before `{}`", first_char(here)),
            "no comma after the last entry",
            "delete this comma; the vendor's published template has it, but JSON does not allow it",
        );
        return Fault { offset: comma, problem, repair: Some((comma, " ")) };
    }
    let allowed = allowed_at(text, offset);
    if matches!(allowed, Allowed::Comma(_)) && here.starts_with(['"', '{', '[']) {
        let gap = before.len();
        let problem = problem(
            Kind::MissingComma,
            format!("`{}` right after an entry", first_char(here)),
            "`,` between two entries",
            "put a comma here; the vendor's published template lacks one",
        );
        let repair = (gap < here_offset).then_some((gap, ","));
        return Fault { offset: gap, problem, repair };
    }
    let found = match here.chars().next() {
        // The error points into the string, not at the line end or tab.
        Some(_) if matches!(allowed, Allowed::StringPart { has_control: true }) => {
            "a control character in a string".to_owned()
        }
        Some(_) => quote(here.split_whitespace().next().unwrap_or_default()),
        None => "the end of the file".to_owned(),
    };
    Fault {
        offset: here_offset,
        problem: problem(Kind::Syntax, found, allowed.described(), help(allowed, here)),
        repair: None,
    }
}

/// The tokens that JSON's grammar allows at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Value,
    Key,
    Colon,
    /// A comma, or this closing bracket.
    Comma(char),
    /// Nothing: the document is complete.
    End,
    /// The rest of a string. `has_control` says whether a control character comes before its closing quote.
    StringPart {
        has_control: bool,
    },
}

impl Allowed {
    fn described(self) -> String {
        match self {
            Self::Value => "a value".to_owned(),
            Self::Key => "a key in double quotes".to_owned(),
            Self::Colon => "`:`".to_owned(),
            Self::Comma(closing) => format!("`,` or `{closing}`"),
            Self::End => "the end of the file".to_owned(),
            Self::StringPart { .. } => "valid JSON".to_owned(),
        }
    }
}

/// Returns the offset of the byte that the error is about: its column counts the bytes read, that byte included.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let line = error.line().saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Returns the tokens that are allowed at `offset`; the text before it must be well-formed.
fn allowed_at(text: &str, offset: usize) -> Allowed {
    let head = text.get(..offset).unwrap_or(text);
    let mut closings = Vec::new();
    let after_value =
        |closings: &[char]| closings.last().map_or(Allowed::End, |c| Allowed::Comma(*c));
    let mut allowed = Allowed::Value;
    let mut rest = head.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => {
                let Some(len) = string_len(rest) else {
                    let tail = text.get(head.len() - rest.len()..).unwrap_or_default();
                    let string = string_len(tail).and_then(|len| tail.get(..len)).unwrap_or(tail);
                    let has_control = string.contains(|c: char| c < ' ');
                    return Allowed::StringPart { has_control };
                };
                len
            }
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}[],:\"".contains(c);
                rest.find(ends).unwrap_or(rest.len())
            }
        };
        let word = rest.get(..len).unwrap_or_default();
        allowed = match first {
            '{' => {
                closings.push('}');
                Allowed::Key
            }
            '[' => {
                closings.push(']');
                Allowed::Value
            }
            '}' | ']' => {
                closings.pop();
                after_value(&closings)
            }
            ',' if closings.last() == Some(&'}') => Allowed::Key,
            ',' | ':' => Allowed::Value,
            '"' if allowed == Allowed::Key => Allowed::Colon,
            '"' => after_value(&closings),
            // A word or number that the error cuts off is not a complete value.
            _ if serde_json::from_str::<&RawValue>(word).is_ok() => after_value(&closings),
            _ => Allowed::Value,
        };
        rest = rest.get(len..).unwrap_or_default().trim_start();
    }
    allowed
}

/// Returns the length in bytes of the string that `text` begins with, quotes included; `None` if it does not end.
fn string_len(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (offset, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(offset + 1),
            _ => {}
        }
    }
    None
}

fn help(allowed: Allowed, here: &str) -> &'static str {
    if here.starts_with("//") || here.starts_with("/*") || here.starts_with('#') {
        return "delete the comment; JSON does not allow comments";
    }
    if here.starts_with('\'') {
        return "write strings in double quotes";
    }
    if ["True", "False", "None"].iter().any(|word| here.starts_with(word)) {
        return "write true, false or null, in lower case";
    }
    match allowed {
        Allowed::End => "keep one object per file, with one member per package",
        Allowed::Colon => "put a colon between the key and its value",
        Allowed::Key => "write keys in double quotes",
        Allowed::Value | Allowed::Comma(_) | Allowed::StringPart { .. } => {
            "look for a typing slip here and just before"
        }
    }
}

fn first_char(text: &str) -> char {
    text.chars().next().unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Diagnostic, Mode, Source};

    fn faults(text: &str) -> Vec<Diagnostic> {
        let files = [Source { path: Path::new("c.json"), text }];
        let mut report = Report::new(&files, Mode::Strict);
        let repaired = repair(text, FileId(0), &mut report);
        if let Some(repaired) = repaired {
            assert_eq!(repaired.len(), text.len(), "offsets must stay");
        }
        report.finish().err().map(|error| error.diagnostics).unwrap_or_default()
    }

    #[test]
    fn mistakes_are_reported_at_their_places() {
        let cases = [
            (
                "{\"a\": [1, 2,],\n \"b\": {\"c\": 1 ,\n}}",
                "trailing comma 1:12; trailing comma 2:15",
            ),
            ("{\"a\": 1\n \"b\": 2}", "missing comma 1:8"),
            ("[{} {}]", "missing comma 1:4"),
            ("[{}{}]", "missing comma 1:4"),
            ("{\"a\" 1}", "invalid JSON 1:6"),
            ("{\"a\": 1} x", "invalid JSON 1:10"),
            ("{\"a\": 1} {}", "invalid JSON 1:10"),
            ("{\"a\": 'x'}", "invalid JSON 1:7"),
            ("{a: 1}", "invalid JSON 1:2"),
            ("{\"a\": [1, ,2]}", "invalid JSON 1:11"),
            ("{\"a\": [", "invalid JSON 1:8"),
            ("", "invalid JSON 1:1"),
            (" \n ", "invalid JSON 1:1"),
            ("{\"a\": \"b\nc\"}", "invalid JSON 1:8"),
            ("{\"a\": 1}", ""),
        ];
        for (text, expected) in cases {
            let actual: Vec<String> = faults(text)
                .iter()
                .map(|d| format!("{} {}:{}", d.kind, d.position.line, d.position.column))
                .collect();
            assert_eq!(actual.join("; "), expected, "{text}");
        }
    }

    #[test]
    fn help_recognizes_syntax_of_other_languages() {
        let cases = [
            ("{\"a\": // b\n 1}", "delete the comment; JSON does not allow comments"),
            ("{\"a\": 'x'}", "write strings in double quotes"),
            ("{\"a\": True}", "write true, false or null, in lower case"),
            ("{a: 1}", "write keys in double quotes"),
            ("{\"a\" 1}", "put a colon between the key and its value"),
        ];
        for (text, expected) in cases {
            let actual = faults(text);
            assert_eq!(actual.first().map(|d| d.help.as_str()), Some(expected), "{text}");
        }
    }

    #[test]
    fn reading_stops_after_the_maximum_of_repairs() {
        let text = "[1,],".repeat(1000);
        assert_eq!(faults(&format!("[{text}1]")).len(), MAX_REPAIRS);
    }
}
