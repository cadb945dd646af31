//! Suggestions for misspelt words, and quoting of words from files.

use std::fmt::Write as _;

use strsim::levenshtein;

/// The longest word, in bytes, that gets a suggestion.
const MAX_WORD: usize = 64;

/// The number of characters after which a quoted word is truncated.
const MAX_QUOTED: usize = 48;

/// Returns the allowed word closest to `misspelt`, ignoring case, if it is at most a third of the word's length in
/// edits away.
pub(crate) fn nearest<'a>(misspelt: &str, allowed: &[&'a str]) -> Option<&'a str> {
    if misspelt.is_empty() || misspelt.len() > MAX_WORD {
        return None;
    }
    let misspelt = misspelt.to_lowercase();
    let limit = (misspelt.chars().count() / 3).max(1);
    allowed
        .iter()
        .map(|word| (levenshtein(&misspelt, &word.to_lowercase()), *word))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Returns a `help` text: the nearest spelling if there is one, else `otherwise`.
pub(crate) fn did_you_mean(misspelt: &str, allowed: &[&str], otherwise: &str) -> String {
    match nearest(misspelt, allowed) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => otherwise.to_owned(),
    }
}

/// Quotes a word, escaped and truncated to a readable length.
pub(crate) fn quote(word: &str) -> String {
    let shortened: String = word.chars().take(MAX_QUOTED).collect();
    let mut quoted = format!("{shortened:?}");
    if shortened.len() < word.len() {
        let _ = write!(quoted, ".. ({} bytes)", word.len());
    }
    quoted
}

/// Joins words as an English list: `a, b or c`.
pub(crate) fn one_of<W: AsRef<str>>(words: &[W]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => only.as_ref().to_owned(),
        [leading @ .., last] => {
            let leading: Vec<&str> = leading.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", leading.join(", "), last.as_ref())
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
            // Six characters allow two edits.
            ("inzutz", Some("inputs")),
            ("inzutzz", None),
            ("weights", None),
            ("", None),
        ];
        for (misspelt, expected) in cases {
            assert_eq!(nearest(misspelt, &allowed), expected, "{misspelt}");
        }
        assert_eq!(nearest(&"i".repeat(65), &["i"]), None);
    }

    #[test]
    fn quoted_words_are_escaped_and_truncated() {
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
        for (words, expected) in cases {
            assert_eq!(one_of(words), expected);
        }
    }
}
