//! Text that is not JSON: what is wrong, and, for the two slips that copied vendor templates have, a
//! repair that lets the reading go on to the other faults. A repair keeps every offset.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{
    diagnostic::Kind,
    draft::{FileId, Spot},
    report::{Problem, Report, problem},
    spelling::quote,
};

/// A file with more slips than this is not read further.
const MAX_REPAIRS: usize = 32;

/// The text, with commas mended, if it then is JSON. Everything mended is reported as an error.
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
        let (at, mend) = fault.mend?;
        // One ASCII byte for another; anything else would move what follows.
        if !text.get(at..=at).is_some_and(|old| old == "," || is_space(old)) {
            return None;
        }
        text.to_mut().replace_range(at..=at, mend);
    }
    None
}

fn is_space(text: &str) -> bool {
    matches!(text, " " | "\t" | "\r" | "\n")
}

struct Fault {
    offset: usize,
    problem: Problem,
    /// The byte to replace, and by what.
    mend: Option<(usize, &'static str)>,
}

fn explain(text: &str, error: &serde_json::Error) -> Fault {
    let offset = offset_of(text, error);
    let (head, tail) = text.split_at(offset);
    let before = head.trim_end();
    let here = tail.trim_start();
    let here_offset = text.len() - here.len();

    if error.is_eof() {
        let help = if text.trim().is_empty() {
            "a config is an object with one member per package"
        } else {
            "close what is still open: a string, a list or an object"
        };
        let problem = problem(Kind::Syntax, "the end of the file", "more JSON", help);
        return Fault { offset: text.trim_end().len(), problem, mend: None };
    }
    if before.ends_with(',') && here.starts_with([']', '}']) {
        let comma = before.len() - 1;
        let problem = problem(
            Kind::TrailingComma,
            format!("`,` before `{}`", first_char(here)),
            "no comma after the last entry",
            "delete this comma; the vendor's published template has it, but JSON does not allow it",
        );
        return Fault { offset: comma, problem, mend: Some((comma, " ")) };
    }
    let reason = reason(error);
    let ended = before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '"' | ']' | '}'));
    if reason.starts_with("expected `,`") && ended && here.starts_with(['"', '{', '[']) {
        let gap = before.len();
        let problem = problem(
            Kind::MissingComma,
            format!("`{}` right after an entry", first_char(here)),
            "`,` between two entries",
            "put a comma here; the vendor's published template lacks one",
        );
        let mend = (gap < here_offset).then_some((gap, ","));
        return Fault { offset: gap, problem, mend };
    }
    let found = match here.chars().next() {
        // An unescaped line end or tab inside a string: the text around it says nothing.
        Some(_) if reason.starts_with("control character") => {
            "a control character in a string".to_owned()
        }
        Some(_) => quote(here.split_whitespace().next().unwrap_or_default()),
        None => "the end of the file".to_owned(),
    };
    Fault {
        offset: here_offset,
        problem: problem(Kind::Syntax, found, wanted(&reason), help(&reason, here)),
        mend: None,
    }
}

/// The byte that the error is about: its column counts the bytes read, that byte included.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let line = error.line().saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// What `serde_json` says, without the position that it appends.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

fn wanted(reason: &str) -> String {
    match reason {
        "trailing characters" => "the end of the file".to_owned(),
        "key must be a string" => "a key in double quotes".to_owned(),
        other => other.strip_prefix("expected ").unwrap_or("valid JSON").to_owned(),
    }
}

fn help(reason: &str, here: &str) -> &'static str {
    if here.starts_with("//") || here.starts_with("/*") || here.starts_with('#') {
        return "delete the comment; JSON has none";
    }
    if here.starts_with('\'') {
        return "write strings in double quotes";
    }
    if ["True", "False", "None"].iter().any(|word| here.starts_with(word)) {
        return "write true, false or null, in lower case";
    }
    match reason {
        "trailing characters" => "keep one object per file, with one member per package",
        "expected `:`" => "put a colon between the key and its value",
        "key must be a string" => "keys stand in double quotes",
        _ => "look at this place and just before it for a typing slip",
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
    fn each_slip_is_named_where_it_is() {
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
        for (text, want) in cases {
            let got: Vec<String> = faults(text)
                .iter()
                .map(|d| format!("{} {}:{}", d.kind, d.position.line, d.position.column))
                .collect();
            assert_eq!(got.join("; "), want, "{text}");
        }
    }

    #[test]
    fn help_knows_other_languages() {
        let cases = [
            ("{\"a\": // b\n 1}", "delete the comment; JSON has none"),
            ("{\"a\": 'x'}", "write strings in double quotes"),
            ("{\"a\": True}", "write true, false or null, in lower case"),
            ("{a: 1}", "keys stand in double quotes"),
            ("{\"a\" 1}", "put a colon between the key and its value"),
        ];
        for (text, want) in cases {
            let got = faults(text);
            assert_eq!(got.first().map(|d| d.help.as_str()), Some(want), "{text}");
        }
    }

    #[test]
    fn reading_stops_at_a_file_full_of_slips() {
        let text = "[1,],".repeat(1000);
        assert_eq!(faults(&format!("[{text}1]")).len(), MAX_REPAIRS);
    }
}
