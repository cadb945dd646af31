//! The support code that printed kernels share, from text files in this folder, and searches for words in printed
//! code.

const RUST: &str = include_str!("support.txt");
const CONSTANTS: &str = include_str!("constants.txt");
const OPENCL: &str = include_str!("support.cl");

/// Returns the types and functions of Rust kernels, as the items of a module.
pub(crate) fn rust() -> String {
    // Items that contain the word REAL are printed once per precision.
    let items = RUST.trim_end().split("\n\n").flat_map(|item| {
        let reals: &[&str] = if item.contains("REAL") { &["f32", "f64"] } else { &[""] };
        reals.iter().map(|real| item.replace("REAL", real)).collect::<Vec<_>>()
    });
    items.collect::<Vec<_>>().join("\n\n")
}

/// Returns the functions that format constants for OpenCL C. They use `String`.
pub(crate) fn constants() -> &'static str {
    CONSTANTS.trim_end()
}

/// Returns the types and functions of OpenCL C kernels.
pub(crate) fn opencl() -> &'static str {
    OPENCL.trim_end()
}

/// Whether the word occurs in the code as a whole word outside of strings.
pub fn has_word(code: &str, word: &str) -> bool {
    occurrences(code, word).next().is_some()
}

/// Whether the code calls the function of that name, not a method.
pub fn has_call(code: &str, function: &str) -> bool {
    let is_method = |before: &str| before.ends_with('.') && !before.ends_with("..");
    occurrences(code, function).any(|(before, after)| after.starts_with('(') && !is_method(before))
}

/// Whether the word occurs in the code as a variable or function, not as a field or method after a dot.
pub(super) fn has_bare(code: &str, word: &str) -> bool {
    occurrences(code, word).any(|(before, _)| !before.ends_with('.') || before.ends_with(".."))
}

/// Iterates over the text before and after each occurrence of the word.
fn occurrences<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_word_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word).filter_map(move |(offset, _)| {
        let (before, after) = code.split_at_checked(offset)?;
        let after = after.get(word.len()..)?;
        let is_whole =
            !is_word_part(before.chars().next_back()) && !is_word_part(after.chars().next());
        let line = before.rsplit('\n').next().unwrap_or_default();
        (is_whole && !is_quoted(line)).then_some((before, after))
    })
}

/// Whether a line of code ends within a string.
fn is_quoted(line: &str) -> bool {
    let mut is_quoted = false;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if is_quoted => {
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    is_quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_strings_are_not_found() {
        let code = "let at = \"a \\\" best\" + x.max(item) * 0..end;\nat.b + plan.half;";
        let cases = [
            ("at", true, true),
            ("best", false, false),
            ("max", true, false),
            ("item", true, true),
            ("ite", false, false),
            ("end", true, true),
            ("half", true, false),
            ("b", true, false),
        ];
        for (word, occurs, is_bare) in cases {
            assert_eq!((has_word(code, word), has_bare(code, word)), (occurs, is_bare), "{word}");
        }
        let calls = "Err(\"shape(x)\")?; x.max(at(0..size(1)), shape)";
        let is_called =
            ["Err", "at", "size", "shape", "max", "ize"].map(|name| has_call(calls, name));
        assert_eq!(is_called, [true, true, true, false, false, false]);
    }
}
