//! Paths of configs with variables in them, as shells and Makefiles around vendors' tools expand them.

use std::path::PathBuf;

/// Why a path cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A variable has no value, or an empty one.
    #[error("path {path:?}: the variable {variable} is not set")]
    Unset {
        /// The path as written.
        path: String,
        /// The variable.
        variable: String,
    },
    /// A variable's name is open to the end, or is none.
    #[error("path {path:?}: `${{` wants a variable's name and `}}`")]
    Unclosed {
        /// The path as written.
        path: String,
    },
    /// A tilde is followed by the name of a user.
    #[error("path {path:?}: `~` stands for the own home folder only, not for a user's")]
    User {
        /// The path as written.
        path: String,
    },
}

/// The path with a leading `~`, `$NAME` and `${NAME}` replaced by what `variable` says.
///
/// A `$` that no name follows stays.
///
/// # Errors
/// A variable is not set or empty, a brace is open, or the tilde is of another user.
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
            let Some((name, behind)) = name.filter(|(name, _)| !name.is_empty()) else {
                return Err(ExpandError::Unclosed { path: path.to_owned() });
            };
            expanded.push_str(&value(name)?);
            rest = behind;
            continue;
        }
        let (name, behind) = after.split_at(name_len(after));
        if name.is_empty() {
            expanded.push('$');
        } else {
            expanded.push_str(&value(name)?);
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(PathBuf::from(expanded))
}

/// Bytes of the variable's name that a text starts with.
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
        for (path, want) in cases {
            assert_eq!(expand(path, variable), Ok(PathBuf::from(want)), "{path}");
        }
    }

    #[test]
    fn what_has_no_value_is_named() {
        let cases = [
            ("$NONE/a", "path \"$NONE/a\": the variable NONE is not set"),
            ("a/${EMPTY}", "path \"a/${EMPTY}\": the variable EMPTY is not set"),
            ("${HOME", "path \"${HOME\": `${` wants a variable's name and `}`"),
            ("${}", "path \"${}\": `${` wants a variable's name and `}`"),
            ("${A-b}", "path \"${A-b}\": `${` wants a variable's name and `}`"),
            (
                "~bob/a",
                "path \"~bob/a\": `~` stands for the own home folder only, not for a user's",
            ),
        ];
        for (path, want) in cases {
            assert_eq!(expand(path, variable).unwrap_err().to_string(), want, "{path}");
        }
    }
}
