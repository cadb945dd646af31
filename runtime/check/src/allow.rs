//! Cases that the author of a package switches off, with a reason for each: `udo-check.toml` next to the
//! package.
//!
//! ```toml
//! [[off]]
//! case = "numbers/random"
//! op = "Selu"            # optional; all operators by default
//! core = "cpu"           # optional; all cores by default
//! because = "it is the other Selu"
//! ```

use std::path::Path;

/// The name of the file.
pub const ALLOW_FILE: &str = "udo-check.toml";

/// A case that is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Off {
    /// The full name of the case.
    pub case: String,
    /// The operator; empty for all.
    pub op: String,
    /// The core; empty for all.
    pub core: String,
    /// The reason.
    pub because: String,
}

impl Off {
    /// Whether the entry switches off this case of this operator on this core.
    pub fn is_for(&self, case: &str, op: &str, core: &str) -> bool {
        let fits = |said: &str, found: &str| said.is_empty() || said == found;
        self.case == case && fits(&self.op, op) && fits(&self.core, core)
    }
}

/// Reads the file of the package in `folder`. Returns an empty list if the package has no such file.
///
/// # Errors
/// The file cannot be read or has an invalid line; the message names the line.
pub(crate) fn read(folder: &Path) -> Result<Vec<Off>, String> {
    let path = folder.join(ALLOW_FILE);
    match udo_files::read_to_string(&path, udo_files::TEXT_BYTES) {
        Ok(text) => parse(&text).map_err(|why| format!("{}: {why}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Returns the entries for the built-in operators.
///
/// # Errors
/// The built-in list is malformed, which a test excludes.
pub(crate) fn builtin() -> Result<Vec<Off>, String> {
    parse(include_str!("builtin.toml"))
}

/// Parses the part of TOML that the file needs: tables `[[off]]` of strings.
fn parse(text: &str) -> Result<Vec<Off>, String> {
    let mut all: Vec<(usize, Off)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "[[off]]" {
            all.push((number, Off::default()));
            continue;
        }
        let Some((_, off)) = all.last_mut() else {
            return Err(format!("line {number}: found {line:?}, expected `[[off]]` first"));
        };
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| format!("line {number}: found {line:?}, expected `key = \"text\"`"))?;
        let value = text_of(value.trim()).ok_or_else(|| {
            format!("line {number}: the value of {} is not a quoted string", key.trim())
        })?;
        match key.trim() {
            "case" => off.case = value,
            "op" => off.op = value,
            "core" => off.core = value,
            "because" => off.because = value,
            key => {
                return Err(format!(
                    "line {number}: found key {key:?}, expected case, op, core or because"
                ));
            }
        }
    }
    for (number, off) in &all {
        if !crate::CASES.iter().any(|case| case.full_name() == off.case) {
            return Err(format!(
                "line {number}: no case {:?}; `udo check --cases` lists them",
                off.case
            ));
        }
        if off.because.trim().is_empty() {
            return Err(format!(
                "line {number}: case {} is off without a reason: add `because = \"..\"`",
                off.case
            ));
        }
    }
    Ok(all.into_iter().map(|(_, off)| off).collect())
}

/// Returns the content of a quoted string without escapes; a comment may follow it.
fn text_of(value: &str) -> Option<String> {
    let (text, behind) = value.strip_prefix('"')?.split_once('"')?;
    let behind = behind.trim();
    let is_plain = !text.contains('\\') && (behind.is_empty() || behind.starts_with('#'));
    is_plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_switched_off_with_a_reason() {
        let text = "# why\n[[off]]\ncase = \"memory/heap\"\ncore = \"gpu\" # there\nbecause = \"a driver's\"\n";
        let off = parse(text).unwrap();
        assert_eq!(off.len(), 1);
        assert!(off[0].is_for("memory/heap", "Any", "gpu"));
        assert!(!off[0].is_for("memory/heap", "Any", "cpu"));
        assert!(!off[0].is_for("memory/guards", "Any", "gpu"));
    }

    #[test]
    fn the_built_in_operators_have_a_list_of_their_own() {
        let off = builtin().unwrap();
        assert!(off.iter().any(|off| off.is_for("numbers/special", "Resize", "gpu")));
        assert!(off.iter().all(|off| !off.op.is_empty() && !off.core.is_empty()));
    }

    #[test]
    fn invalid_lines_are_refused_by_number() {
        let cases = [
            (
                "[[off]]\ncase = \"memory/heap\"",
                "line 1: case memory/heap is off without a reason: add `because = \"..\"`",
            ),
            (
                "[[off]]\ncase = \"memory/heaps\"\nbecause = \"x\"",
                "line 1: no case \"memory/heaps\"; `udo check --cases` lists them",
            ),
            (
                "case = \"memory/heap\"",
                "line 1: found \"case = \\\"memory/heap\\\"\", expected `[[off]]` first",
            ),
            ("[[off]]\ncase = memory", "line 2: the value of case is not a quoted string"),
            (
                "[[off]]\nwhy = \"x\"",
                "line 2: found key \"why\", expected case, op, core or because",
            ),
            ("[[off]]\nnonsense", "line 2: found \"nonsense\", expected `key = \"text\"`"),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).unwrap_err(), wanted, "{text}");
        }
    }
}
