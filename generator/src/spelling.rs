//! Suggestions for misspelt words, and quoting of words from files.

use std::fmt::Write as _;

use strsim::levenshtein;

/// Longer words get no suggestion.
const MAX_WORD: usize = 64;

/// Longer words are truncated when quoted.
const MAX_QUOTED: usize = 48;

/// Returns the allowed word closest to `found`, ignoring case, if one is close enough.
pub(crate) fn nearest<'a>(found: &str, allowed: &[&'a str]) -> Option<&'a str> {
    if found.is_empty() || found.len() > MAX_WORD {
        return None;
    }
    let found = found.to_lowercase();
    let limit = (found.chars().count() / 3).max(1);
    allowed
        .iter()
        .map(|word| (levenshtein(&found, &word.to_lowercase()), *word))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Returns a `help` text: the nearest spelling if there is one, else `otherwise`.
pub(crate) fn did_you_mean(found: &str, allowed: &[&str], otherwise: &str) -> String {
    match nearest(found, allowed) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => otherwise.to_owned(),
    }
}

/// Quotes a word, escaped and truncated to a readable length.
pub(crate) fn quote(word: &str) -> String {
    let cut: String = word.chars().take(MAX_QUOTED).collect();
    let mut quoted = format!("{cut:?}");
    if cut.len() < word.len() {
        let _ = write!(quoted, ".. ({} bytes)", word.len());
    }
    quoted
}

/// Joins words as an English list: `a, b or c`.
pub(crate) fn one_of<W: AsRef<str>>(words: &[W]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => only.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_words_are_suggested() {
        let allowed = ["inputs", "outputs", "core_types"];
        let cases = [
            ("inptus", Some("inputs")),
            ("Inputs", Some("inputs")),
            ("core_type", Some("core_types")),
            // The tolerance for six characters is two replacements.
            ("inzutz", Some("inputs")),
            ("inzutzz", None),
            ("weights", None),
            ("", None),
        ];
        for (found, want) in cases {
            assert_eq!(nearest(found, &allowed), want, "{found}");
        }
        assert_eq!(nearest(&"i".repeat(65), &["i"]), None);
    }

    #[test]
    fn quoted_words_are_escaped_and_cut() {
        assert_eq!(quote("a\n\"b"), r#""a\n\"b""#);
        let long = quote(&"x".repeat(1000));
        assert_eq!(long, format!("\"{}\".. (1000 bytes)", "x".repeat(MAX_QUOTED)));
    }

    #[test]
    fn lists_read_as_english() {
        let cases: [(&[&str], &str); 4] = [
            (&[], "nothing"),
            (&["a"], "a"),
            (&["a", "b"], "a or b"),
            (&["a", "b", "c"], "a, b or c"),
        ];
        for (words, want) in cases {
            assert_eq!(one_of(words), want);
        }
    }
}
