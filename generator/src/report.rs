//! Collects the faults of all files, so that one reading shows them all.

use crate::{
    diagnostic::{ConfigError, Diagnostic, Kind, Position, Severity},
    draft::{FileId, Spot},
    read::{Mode, Source},
};

/// What a diagnostic says, before it has a place.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    found: String,
    wanted: String,
    help: String,
}

pub(crate) fn problem(
    kind: Kind,
    found: impl Into<String>,
    wanted: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    Problem { kind, found: found.into(), wanted: wanted.into(), help: help.into() }
}

#[derive(Debug)]
pub(crate) struct Report<'a> {
    sources: &'a [Source<'a>],
    mode: Mode,
    entries: Vec<(FileId, Diagnostic)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(sources: &'a [Source<'a>], mode: Mode) -> Self {
        Self { sources, mode, entries: Vec::new() }
    }

    pub(crate) fn error(&mut self, spot: &Spot, problem: Problem) {
        self.push(Severity::Error, spot, problem);
    }

    /// Reports something that vendor configs do: an error, unless read in [`Mode::Compat`].
    pub(crate) fn lax(&mut self, spot: &Spot, problem: Problem) {
        let severity = match self.mode {
            Mode::Strict => Severity::Error,
            Mode::Compat => Severity::Warning,
        };
        self.push(severity, spot, problem);
    }

    /// Where a spot is, for messages about another one: `a.json:3:14`.
    pub(crate) fn place(&self, spot: &Spot) -> String {
        let Some(source) = self.sources.get(spot.file.0) else { return spot.path.clone() };
        let Position { line, column } = position(source.text, spot.offset);
        format!("{}:{line}:{column}", source.path.display())
    }

    fn push(&mut self, severity: Severity, spot: &Spot, problem: Problem) {
        let Some(source) = self.sources.get(spot.file.0) else { return };
        let Problem { kind, found, wanted, help } = problem;
        let diagnostic = Diagnostic {
            severity,
            kind,
            file: source.path.to_owned(),
            position: position(source.text, spot.offset),
            path: spot.path.clone(),
            found,
            wanted,
            help,
        };
        self.entries.push((spot.file, diagnostic));
    }

    /// The warnings, if there is nothing worse.
    pub(crate) fn finish(mut self) -> Result<Vec<Diagnostic>, ConfigError> {
        self.entries.sort_by_key(|(file, diagnostic)| (*file, diagnostic.position));
        let diagnostics: Vec<Diagnostic> =
            self.entries.into_iter().map(|(_, diagnostic)| diagnostic).collect();
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(ConfigError { diagnostics });
        }
        Ok(diagnostics)
    }
}

/// The line and character of a byte offset.
fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "ab\n\u{e9}c\r\nd";
        let cases = [(0, 1, 1), (2, 1, 3), (3, 2, 1), (5, 2, 2), (8, 3, 1), (99, 3, 2)];
        for (offset, line, column) in cases {
            assert_eq!(position(text, offset), Position { line, column }, "{offset}");
        }
    }
}
