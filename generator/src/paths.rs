//! Expands environment variables and `~` in the paths of configs, as shells do; vendors' configs contain both.

use std::path::PathBuf;

/// Why a path cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A variable is not set or empty.
    #[error("path {path:?}: the variable {variable} is not set")]
    Unset {
        /// The path as written.
        path: String,
        /// The variable.
        variable: String,
    },
    /// A variable's braces are not closed, or its name is invalid.
    #[error("path {path:?}: expected a variable's name and `}}` after `${{`")]
    Unclosed {
        /// The path as written.
        path: String,
    },
    /// A tilde is followed by a user's name.
    #[error("path {path:?}: `~` stands for your home folder only, not for another user's")]
    User {
        /// The path as written.
        path: String,
    },
}

/// Replaces a leading `~`, `$NAME` and `${NAME}` by the values that `variable` returns.
///
/// Leaves a `$` that no name follows as it is.
///
/// # Errors
/// A variable is not set or empty, a brace is not closed, or the tilde is followed by a user's name.
pub fn expand(
    path: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, ExpandError> {
    let value = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| ExpandError::Unset { path: path.to_owned(), variable: name.to_owned() })
    };
    let mut expanded = String::with_capacity(path.len());
    let mut rest = path;
    if let Some(after) = path.strip_prefix('~') {
        if !after.is_empty() && !after.starts_with('/') {
            return Err(ExpandError::User { path: path.to_owned() });
        }
        expanded.push_str(&value("HOME")?);
        rest = after;
    }
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(braced) = after.strip_prefix('{') {
            let name = braced.split_once('}').filter(|(name, _)| name_len(name) == name.len());
            let Some((name, remainder)) = name.filter(|(name, _)| !name.is_empty()) else {
                return Err(ExpandError::Unclosed { path: path.to_owned() });
            };
            expanded.push_str(&value(name)?);
            rest = remainder;
            continue;
        }
        let (name, remainder) = after.split_at(name_len(after));
        if name.is_empty() {
            expanded.push('$');
        } else {
            expanded.push_str(&value(name)?);
        }
        rest = remainder;
    }
    expanded.push_str(rest);
    Ok(PathBuf::from(expanded))
}

/// Returns the length of the variable's name at the start of a text.
fn name_len(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        let known = [("HOME", "/h"), ("SDK_1", "/opt/sdk"), ("EMPTY", "")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn variables_and_the_home_folder_are_expanded() {
        let cases = [
            ("plain/path", "plain/path"),
            ("~", "/h"),
            ("~/a", "/h/a"),
            ("a/~", "a/~"),
            ("$HOME/a", "/h/a"),
            ("${HOME}a", "/ha"),
            ("x/$SDK_1/y$HOME", "x//opt/sdk/y/h"),
            ("a$/b$1", "a$/b$1"),
            ("", ""),
        ];
        for (path, expected) in cases {
            assert_eq!(expand(path, variable), Ok(PathBuf::from(expected)), "{path}");
        }
    }

    #[test]
    fn errors_name_the_unset_or_malformed_variable() {
        let cases = [
            ("$NONE/a", "path \"$NONE/a\": the variable NONE is not set"),
            ("a/${EMPTY}", "path \"a/${EMPTY}\": the variable EMPTY is not set"),
            ("${HOME", "path \"${HOME\": expected a variable's name and `}` after `${`"),
            ("${}", "path \"${}\": expected a variable's name and `}` after `${`"),
            ("${A-b}", "path \"${A-b}\": expected a variable's name and `}` after `${`"),
            (
                "~bob/a",
                "path \"~bob/a\": `~` stands for your home folder only, not for another user's",
            ),
        ];
        for (path, expected) in cases {
            assert_eq!(expand(path, variable).unwrap_err().to_string(), expected, "{path}");
        }
    }
}
