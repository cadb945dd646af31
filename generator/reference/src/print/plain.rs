//! Takes brackets away that change nothing: those around the whole of an argument or a statement's value.

/// The expression without brackets around all of it.
pub(super) fn bare(value: &str) -> &str {
    let Some(inner) = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return value;
    };
    if lowest(inner) < 0 || has_comma(inner) { value } else { inner }
}

/// The line without brackets around whole arguments.
pub(super) fn plain(line: &str) -> String {
    // Brackets in texts are no brackets.
    if line.contains('"') {
        return line.to_owned();
    }
    let letters: Vec<char> = line.chars().collect();
    let mut open = Vec::new();
    let mut dropped = vec![false; letters.len()];
    for (at, letter) in letters.iter().enumerate() {
        if *letter == '(' {
            open.push(at);
        }
        let Some(start) = (*letter == ')').then(|| open.pop()).flatten() else { continue };
        let before = letters.iter().take(start).rev().find(|letter| **letter != ' ');
        let after = letters.get(at + 1);
        let is_whole =
            matches!(before, Some('(' | ',' | '[')) && matches!(after, Some(')' | ',' | ']'));
        let inner: String = letters.iter().take(at).skip(start + 1).collect();
        if is_whole && !inner.is_empty() && !has_comma(&inner) {
            for place in [start, at] {
                if let Some(dropped) = dropped.get_mut(place) {
                    *dropped = true;
                }
            }
        }
    }
    letters.iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(letter, _)| letter).collect()
}

/// How far the text closes brackets that it did not open.
fn lowest(text: &str) -> i32 {
    let mut depth = 0;
    let each = text.chars().map(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth
    });
    each.min().unwrap_or(0)
}

/// Whether a comma is outside of inner brackets, as in a tuple.
fn has_comma(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|letter| {
        depth += i32::from(matches!(letter, '(' | '[')) - i32::from(matches!(letter, ')' | ']'));
        letter == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::{bare, plain};

    #[test]
    fn brackets_around_wholes_go_and_others_stay() {
        let cases = [
            ("f((a), (b + c))", "f(a, b + c)"),
            ("f((a + b) * c)", "f((a + b) * c)"),
            ("f(((a)))", "f(a)"),
            ("f((a, b))", "f((a, b))"),
            ("f(a.b())", "f(a.b())"),
            ("[(a), (-1)]", "[a, -1]"),
            ("say(\"(a)\", (b))", "say(\"(a)\", (b))"),
        ];
        for (line, wanted) in cases {
            assert_eq!(plain(line), wanted);
        }
        assert_eq!(bare("(a + b)"), "a + b");
        assert_eq!(bare("(a) + (b)"), "(a) + (b)");
        assert_eq!(bare("(a, b)"), "(a, b)");
    }
}
