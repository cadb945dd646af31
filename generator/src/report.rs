//! Collects the faults of all config files, so that one run reports all of them, in the order of their places.

use crate::{
    diagnostic::{ConfigError, Diagnostic, Kind, Position, Severity},
    draft::Spot,
    source::{Mode, Source},
};

/// The content of a diagnostic, without its place.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    found: String,
    expected: String,
    help: String,
}

pub(crate) fn problem(
    kind: Kind,
    found: impl Into<String>,
    expected: impl Into<String>,
    help: impl Into<String>,
) -> Problem {
    Problem { kind, found: found.into(), expected: expected.into(), help: help.into() }
}

/// The faults so far.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    sources: &'a [Source<'a>],
    mode: Mode,
    entries: Vec<(Spot, Severity, Problem)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(sources: &'a [Source<'a>], mode: Mode) -> Self {
        Self { sources, mode, entries: Vec::new() }
    }

    pub(crate) fn error(&mut self, spot: &Spot, problem: Problem) {
        self.entries.push((spot.clone(), Severity::Error, problem));
    }

    /// Reports an assumption, in any mode.
    pub(crate) fn warn(&mut self, spot: &Spot, problem: Problem) {
        self.entries.push((spot.clone(), Severity::Warning, problem));
    }

    /// Reports a deviation that is common in vendors' configs: an error, or a warning in [`Mode::Compat`].
    pub(crate) fn lax(&mut self, spot: &Spot, problem: Problem) {
        let severity = match self.mode {
            Mode::Strict => Severity::Error,
            Mode::Compat => Severity::Warning,
        };
        self.entries.push((spot.clone(), severity, problem));
    }

    /// Formats a place that the message about another place mentions: `a.json:3:14`.
    pub(crate) fn place(&self, spot: &Spot) -> String {
        let Some(source) = self.sources.get(spot.file.0) else { return spot.path.clone() };
        let Position { line, column } = Cursor::new(source.text).advance(spot.offset);
        format!("{}:{line}:{column}", source.path.display())
    }

    /// Returns the warnings if there are no errors.
    pub(crate) fn finish(mut self) -> Result<Vec<Diagnostic>, ConfigError> {
        self.entries.sort_by_key(|(spot, ..)| (spot.file, spot.offset));
        let is_fatal = self.entries.iter().any(|(_, severity, _)| *severity == Severity::Error);
        let mut cursors: Vec<Cursor<'_>> =
            self.sources.iter().map(|source| Cursor::new(source.text)).collect();
        let mut diagnostics = Vec::with_capacity(self.entries.len());
        for (spot, severity, problem) in self.entries {
            let index = spot.file.0;
            let (Some(source), Some(cursor)) = (self.sources.get(index), cursors.get_mut(index))
            else {
                continue;
            };
            let Problem { kind, found, expected, help } = problem;
            diagnostics.push(Diagnostic {
                severity,
                kind,
                file: source.path.to_owned(),
                position: cursor.advance(spot.offset),
                path: spot.path,
                found,
                wanted: expected,
                help,
            });
        }
        if is_fatal { Err(ConfigError { diagnostics }) } else { Ok(diagnostics) }
    }
}

/// Converts ascending byte offsets to lines and characters in one pass over the text.
#[derive(Debug)]
struct Cursor<'t> {
    rest: &'t str,
    offset: usize,
    position: Position,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text, offset: 0, position: Position { line: 1, column: 1 } }
    }

    fn advance(&mut self, offset: usize) -> Position {
        let step = offset.saturating_sub(self.offset).min(self.rest.len());
        let Some((passed, rest)) = self.rest.split_at_checked(step) else { return self.position };
        let start = match passed.rfind('\n') {
            Some(newline) => {
                self.position.line += passed.bytes().filter(|byte| *byte == b'\n').count();
                self.position.column = 1;
                newline + 1
            }
            None => 0,
        };
        self.position.column += passed.get(start..).unwrap_or_default().chars().count();
        self.rest = rest;
        self.offset += step;
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "ab\n\u{e9}c\r\nd";
        let cases = [(0, 1, 1), (2, 1, 3), (2, 1, 3), (3, 2, 1), (5, 2, 2), (8, 3, 1), (99, 3, 2)];
        let mut moving_cursor = Cursor::new(text);
        for (offset, line, column) in cases {
            let expected = Position { line, column };
            assert_eq!(Cursor::new(text).advance(offset), expected, "{offset}");
            assert_eq!(moving_cursor.advance(offset), expected, "{offset} on the way");
        }
    }
}
