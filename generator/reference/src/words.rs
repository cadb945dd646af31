//! Suggestions for misspelt words.

/// Longer words get no suggestion.
const MAX_WORD: usize = 64;

/// The question ``did you mean `word`?`` for the known word nearest to `found`, if one is near enough.
pub(crate) fn did_you_mean<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(found, known).map(|word| format!("did you mean `{word}`?"))
}

fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if found.len() > MAX_WORD {
        return None;
    }
    let limit = (found.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|word| word.len() <= MAX_WORD)
        .map(|word| (edits(found, word), word))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Returns the edit distance of two words.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, a) in from.chars().enumerate() {
        let mut next = vec![at + 1];
        let mut left = at + 1;
        for ((&b, &above), &across) in to.iter().zip(row.iter().skip(1)).zip(&row) {
            left = (left + 1).min(above + 1).min(across + usize::from(a != b));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_close_words_are_suggested() {
        let known = ["weights", "bias", "x"];
        let cases = [
            ("weight", Some("weights")),
            ("wieghts", Some("weights")),
            ("bais", None),
            ("biased", Some("bias")),
            ("scale", None),
            ("y", Some("x")),
        ];
        for (found, wanted) in cases {
            assert_eq!(nearest(found, known), wanted, "{found}");
        }
        assert_eq!(nearest(&"x".repeat(65), ["x"]), None);
    }
}
