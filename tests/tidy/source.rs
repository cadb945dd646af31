//! Reads Rust code without a parser: its imports, its functions, and whether it is unsafe.

/// Whether the file has unsafe code, rather than only the type of an unsafe function.
pub(crate) fn has_unsafe(text: &str) -> bool {
    let code = code(text).replace("unsafe extern \"\" fn(", "");
    code.split(|c| !is_name(c)).any(|word| word == "unsafe")
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first name of every path behind `root`, such as `crate::`.
pub(crate) fn imports(code: &str, root: &str) -> Vec<String> {
    let name = |path: &str| path.trim().split(|c| !is_name(c)).next().unwrap_or("").to_owned();
    let mut names = Vec::new();
    for (at, _) in code.match_indices(root) {
        if code[..at].ends_with(|c| is_name(c) || c == '$') {
            continue;
        }
        let path = &code[at + root.len()..];
        let group = path.strip_prefix('{').unwrap_or_else(|| &path[..name(path).len()]);
        let mut depth = 0_u32;
        for piece in group.split_inclusive(['{', '}', ',']) {
            if depth == 0 {
                names.extend(Some(name(piece)).filter(|name| !name.is_empty()));
            }
            match piece.chars().last() {
                Some('{') => depth += 1,
                Some('}') if depth == 0 => break,
                Some('}') => depth -= 1,
                _ => {}
            }
        }
    }
    names
}

/// The functions with a body in this code, and how many lines each has.
pub(crate) fn functions(code: &str) -> Vec<(String, usize)> {
    let mut functions = Vec::new();
    for (at, word) in code.match_indices("fn ") {
        let name: String = code[at + word.len()..].chars().take_while(|&c| is_name(c)).collect();
        if name.is_empty() || code[..at].ends_with(is_name) {
            continue;
        }
        let (mut depth, mut brackets) = (0_u32, 0_i32);
        let end = code[at..].char_indices().find_map(|(offset, c)| {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                '{' => depth += 1,
                '}' if depth <= 1 => return Some((offset, depth == 1)),
                '}' => depth -= 1,
                ';' if depth == 0 && brackets == 0 => return Some((offset, false)),
                _ => {}
            }
            None
        });
        if let Some((end, true)) = end {
            functions.push((name, code[at..at + end].matches('\n').count() + 1));
        }
    }
    functions
}

/// The code without its comments and without what its literals say, line by line.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece.kind {
            Kind::Code => {
                code.push_str(piece.text);
                continue;
            }
            Kind::Literal => code.push_str("\"\""),
            Kind::Comment => {}
        }
        code.extend(piece.text.matches('\n'));
    }
    code
}

/// The part of a source file that a [`Piece`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Code,
    Comment,
    /// Of a string or a character, with its quotes.
    Literal,
}

/// A comment, a literal, or the code up to the next of them.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub kind: Kind,
    /// Where it begins, from 1.
    pub line: usize,
    pub text: &'a str,
}

/// Cuts a file into code, comments and literals.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut code_len, mut line) = (text, 0, 1);
    loop {
        let next = skipped(&rest[code_len..]);
        let is_end = code_len == rest.len();
        if (next.is_some() || is_end) && code_len > 0 {
            let (code, others) = rest.split_at(code_len);
            pieces.push(Piece { kind: Kind::Code, line, text: code });
            line += code.matches('\n').count();
            (rest, code_len) = (others, 0);
        }
        match next {
            Some((len, kind)) => {
                let (text, others) = rest.split_at(len);
                pieces.push(Piece { kind, line, text });
                line += text.matches('\n').count();
                rest = others;
            }
            None if is_end => return pieces,
            None => code_len += rest[code_len..].chars().next().map_or(0, char::len_utf8),
        }
    }
}

/// Whether the file holds tests or benchmarks alone.
pub(crate) fn is_test(path: &str) -> bool {
    ["tests/", "/tests", "benches/"].iter().any(|part| path.contains(part))
}

/// The text up to its module of tests, which comes last. Single items may be for tests only before that.
pub(crate) fn without_tests(text: &str) -> &str {
    let begin = text.match_indices("#[cfg(test)]").map(|(index, _)| index).find(|&index| {
        let item = text[index..].lines().find(|line| !line.trim_start().starts_with("#["));
        item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
    });
    &text[..begin.unwrap_or(text.len())]
}

/// The text with empty lines in the place of a module that was printed from a reference, which is nobody's until somebody
/// works on it and takes the mark away.
pub(crate) fn by_hand(text: &str) -> String {
    let (mut is_printed, mut before) = (false, "");
    let lines = text.lines().map(|line| {
        is_printed |= before == "#[rustfmt::skip]" && line.starts_with("mod ");
        let shown = if is_printed { "" } else { line };
        is_printed &= line != "}";
        before = line;
        shown
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The length and the kind of the comment or literal that begins here.
fn skipped(rest: &str) -> Option<(usize, Kind)> {
    if rest.starts_with("//") {
        return Some((rest.find('\n').unwrap_or(rest.len()), Kind::Comment));
    }
    if rest.starts_with("/*") {
        return Some((rest.find("*/").map_or(rest.len(), |at| at + 2), Kind::Comment));
    }
    let raw = rest.strip_prefix('r').and_then(|raw| raw.split_once('"'));
    if let Some((hashes, body)) = raw.filter(|(hashes, _)| hashes.chars().all(|c| c == '#')) {
        let body_len = body.find(&format!("\"{hashes}")).unwrap_or(body.len());
        return Some((rest.len().min(body_len + 3 + 2 * hashes.len()), Kind::Literal));
    }
    let mut chars = rest.chars();
    match (chars.next()?, chars.next()?, chars.next()?) {
        ('"', ..) => Some((quoted(rest, '"'), Kind::Literal)),
        ('\'', '\\', _) | ('\'', _, '\'') => Some((quoted(rest, '\''), Kind::Literal)),
        _ => None,
    }
}

/// The length of a literal with its quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|&(_, c)| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

#[test]
fn functions_end_where_they_begin() {
    let source = "fn a() {\n    fn b() {\n        1\n    }\n}\nfn c();\nfn d() -> [u8; 2] { [0; 2] }\n\
        impl X {\n    pub(crate) fn e(\n        x: u8,\n    ) -> fn(u8) {\n    }\n}\n";
    let found = functions(source);
    let want =
        [("a", 5), ("b", 3), ("d", 1), ("e", 4)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(found, want);
}

#[test]
fn code_printed_from_a_reference_is_not_counted_as_handwritten() {
    let mark = "#[rustfmt::skip]";
    let text = format!("a\n{mark}\nmod of {{\n    fn b() {{\n    }}\n}}\nfn c() {{\n}}");
    assert_eq!(by_hand(&text), "a\n#[rustfmt::skip]\n\n\n\n\nfn c() {\n}");
}

#[test]
fn tests_end_a_file_and_single_items_do_not() {
    let text = "#[cfg(test)]\nmod testing;\na\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n}\n";
    assert_eq!(without_tests(text), "#[cfg(test)]\nmod testing;\na\n");
    assert_eq!(
        without_tests("#[cfg(test)]\nlet def = def;\nb\n"),
        "#[cfg(test)]\nlet def = def;\nb\n"
    );
    assert!(
        is_test("runtime/src/a/tests.rs")
            && is_test("tests/a.rs")
            && !is_test("udo-api/testing/src/a.rs")
    );
}

#[test]
fn comments_and_literals_are_not_code() {
    let source = "a/*b*/ \"c\\\"\" 'd' '\\'' r#\"e\"\"#\n// f\n<'g>(h, r#type)";
    assert_eq!(code(source), "a \"\" \"\" \"\" \"\"\n\n<'g>(h, r#type)");
    assert!(!has_unsafe("// unsafe\nlet f: unsafe extern \"C\" fn();"));
    assert!(has_unsafe("#[unsafe(no_mangle)]"));
    let uses = "use crate::{a::{b, c}, d as e}; crate::f::g(); x_crate::h; use crate::i;";
    assert_eq!(imports(uses, "crate::"), ["a", "d", "f", "i"]);
    assert_eq!(
        imports("use crate::a::{b::C, d}; use super::*; super::e::F", "crate::a::"),
        ["b", "d"]
    );
    assert_eq!(imports("use super::*; super::e::F", "super::"), ["e"]);
}
