//! Names in configs and generated code: which names are valid, and the names of files, modules and variables derived
//! from them.

pub use udo_reference::to_snake_case;

/// The maximum length of a name in bytes, such that file names with a prefix and a suffix are portable.
pub const MAX_NAME_BYTES: usize = 64;

/// The keywords of Rust.
const RUST_KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The keywords of C11 and C++20 that are not keywords of Rust.
const C_KEYWORDS: &[&str] = &[
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_Bool",
    "_Complex",
    "_Generic",
    "_Imaginary",
    "_Noreturn",
    "_Static_assert",
    "_Thread_local",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "decltype",
    "default",
    "delete",
    "double",
    "dynamic_cast",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "short",
    "signed",
    "sizeof",
    "static_assert",
    "static_cast",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "void",
    "volatile",
    "wchar_t",
    "xor",
    "xor_eq",
];

/// Iterates over the keywords of all languages.
pub(crate) fn keywords() -> impl Iterator<Item = &'static str> {
    RUST_KEYWORDS.iter().chain(C_KEYWORDS).copied()
}

/// The error of [`check`]: why a word is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// It is empty.
    #[error("the name is empty")]
    Empty,
    /// It holds a path separator or `..`.
    #[error("the name holds a path separator or `..`")]
    Path,
    /// It is not `[A-Za-z_][A-Za-z0-9_]*` with a letter or digit somewhere.
    #[error("the name is not an identifier")]
    NotIdentifier,
    /// It is longer than [`MAX_NAME_BYTES`].
    #[error("the name has more than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// It is a keyword of this language.
    #[error("the name is a keyword of {0}")]
    Keyword(&'static str),
}

/// Checks that a word is a valid name of a package, an operator, a tensor or a parameter.
///
/// # Errors
///
/// The first reason why it is not.
pub fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.contains(['/', '\\']) || name.contains("..") {
        return Err(NameError::Path);
    }
    let starts_without_digit = !name.starts_with(|c: char| c.is_ascii_digit());
    let has_valid_chars = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let has_letter_or_digit = name.bytes().any(|b| b.is_ascii_alphanumeric());
    if !(starts_without_digit && has_valid_chars && has_letter_or_digit) {
        return Err(NameError::NotIdentifier);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong);
    }
    if RUST_KEYWORDS.contains(&name) {
        return Err(NameError::Keyword("Rust"));
    }
    if C_KEYWORDS.contains(&name) {
        return Err(NameError::Keyword("C or C++"));
    }
    Ok(())
}

/// Converts to `UpperCamelCase`: `batch_norm` becomes `BatchNorm`. Does not change capitals.
pub fn to_upper_camel_case(name: &str) -> String {
    let camel: String = name
        .split('_')
        .flat_map(|part| {
            let mut chars = part.chars();
            chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect();
    if camel.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("_{camel}");
    }
    camel
}

/// Returns the module and file name of an operator's code: `Where` becomes `where_op`.
pub fn module_name(op: &str) -> String {
    let snake = to_snake_case(op);
    if RUST_KEYWORDS.contains(&snake.as_str()) { snake + "_op" } else { snake }
}

/// Returns the variable name of a tensor or a parameter: `In` becomes `in_`.
pub fn variable_name(name: &str) -> String {
    let snake = to_snake_case(name);
    if RUST_KEYWORDS.contains(&snake.as_str()) || C_KEYWORDS.contains(&snake.as_str()) {
        snake + "_"
    } else {
        snake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_keeps_capitals() {
        let cases = [
            ("batch_norm", "BatchNorm"),
            ("softmax", "Softmax"),
            ("HTTPOp", "HTTPOp"),
            ("Conv2D_quant", "Conv2DQuant"),
            ("_2x", "_2x"),
        ];
        for (name, expected) in cases {
            assert_eq!(to_upper_camel_case(name), expected, "{name}");
        }
    }

    #[test]
    fn modules_and_variables_avoid_keywords() {
        assert_eq!(module_name("Where"), "where_op");
        assert_eq!(module_name("Mod"), "mod_op");
        assert_eq!(module_name("Softmax"), "softmax");
        assert_eq!(variable_name("In"), "in_");
        assert_eq!(variable_name("Default"), "default_");
        assert_eq!(variable_name("axisSize"), "axis_size");
    }

    #[test]
    fn only_identifiers_are_names() {
        use NameError::{Empty, Keyword, NotIdentifier, Path, TooLong};
        let cases = [
            ("Softmax", Ok(())),
            ("_x1", Ok(())),
            ("", Err(Empty)),
            ("a/b", Err(Path)),
            (r"a\b", Err(Path)),
            ("..", Err(Path)),
            ("a..b", Err(Path)),
            ("2d", Err(NotIdentifier)),
            ("a b", Err(NotIdentifier)),
            ("a.b", Err(NotIdentifier)),
            ("a-b", Err(NotIdentifier)),
            ("é", Err(NotIdentifier)),
            ("a\0", Err(NotIdentifier)),
            ("___", Err(NotIdentifier)),
            ("fn", Err(Keyword("Rust"))),
            ("Self", Err(Keyword("Rust"))),
            ("int", Err(Keyword("C or C++"))),
            ("template", Err(Keyword("C or C++"))),
        ];
        for (name, expected) in cases {
            assert_eq!(check(name), expected, "{name}");
        }
        assert_eq!(check(&"a".repeat(MAX_NAME_BYTES)), Ok(()));
        assert_eq!(check(&"a".repeat(MAX_NAME_BYTES + 1)), Err(TooLong));
    }

    #[test]
    fn keyword_lists_are_sorted_and_disjoint() {
        assert!(RUST_KEYWORDS.is_sorted());
        assert!(C_KEYWORDS.is_sorted());
        assert!(C_KEYWORDS.iter().all(|word| !RUST_KEYWORDS.contains(word)));
    }
}
