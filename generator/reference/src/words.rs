//! Suggests the intended word for a misspelt one.

/// The longest word, in bytes, that gets a suggestion; it bounds the quadratic time of [`edits`].
const MAX_WORD: usize = 64;

/// Returns ``did you mean `word`?`` for the known word nearest to `misspelt`, if at most a third of its letters differ.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, known).map(|word| format!("did you mean `{word}`?"))
}

fn nearest<'a>(misspelt: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if misspelt.len() > MAX_WORD {
        return None;
    }
    let limit = (misspelt.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|word| word.len() <= MAX_WORD)
        .map(|word| (edits(misspelt, word), word))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Returns the Levenshtein distance of two words, computed row by row.
fn edits(from: &str, to_letters: &str) -> usize {
    let to_letters: Vec<char> = to_letters.chars().collect();
    let mut row: Vec<usize> = (0..=to_letters.len()).collect();
    for (row_number, from_letter) in from.chars().enumerate() {
        let mut next = vec![row_number + 1];
        let mut cost = row_number + 1;
        for ((&to_letter, &above), &diagonal) in to_letters.iter().zip(row.iter().skip(1)).zip(&row)
        {
            cost = (cost + 1).min(above + 1).min(diagonal + usize::from(from_letter != to_letter));
            next.push(cost);
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
        for (misspelt, expected) in cases {
            assert_eq!(nearest(misspelt, known), expected, "{misspelt}");
        }
        assert_eq!(nearest(&"x".repeat(65), ["x"]), None);
    }
}
