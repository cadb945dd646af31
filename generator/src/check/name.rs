//! Checks names: each one, and the names of a scope against each other.

use std::collections::HashMap;

use crate::{
    diagnostic::Kind,
    draft::{At, Spot},
    names::{self, MAX_NAME_BYTES, NameError},
    report::{Report, problem},
    spelling::quote,
};

/// Checks one name; reports at most one problem.
pub(super) fn check(name: &At<String>, report: &mut Report<'_>) -> Option<String> {
    let At { value, spot } = name;
    let Err(error) = names::check(value) else { return Some(value.clone()) };
    let identifier = "an identifier: letters, digits and `_`, no digit first";
    let (kind, expected, help) = match error {
        NameError::Empty => (Kind::InvalidName, identifier.to_owned(), "write a name".to_owned()),
        NameError::NotIdentifier => (Kind::InvalidName, identifier.to_owned(), suggestion(value)),
        NameError::Path => (
            Kind::PathInName,
            identifier.to_owned(),
            "folders belong in UDO_PACKAGE_PATH; a name cannot contain them".to_owned(),
        ),
        NameError::TooLong => (
            Kind::LongName,
            format!("at most {MAX_NAME_BYTES} bytes"),
            format!("shorten it; it has {} bytes", value.len()),
        ),
        NameError::Keyword(language) => (
            Kind::KeywordName,
            format!("a name that is not a keyword of {language}"),
            format!("for example \"{value}_\""),
        ),
    };
    report.error(spot, problem(kind, quote(value), expected, help));
    None
}

/// Replaces each invalid character of a name.
fn suggestion(name: &str) -> String {
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let candidate =
        if word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word };
    match names::check(&candidate) {
        Ok(()) => format!("for example \"{candidate}\""),
        Err(_) => "use letters, digits and `_`".to_owned(),
    }
}

/// The names of one scope, with their forms in generated code.
#[derive(Debug)]
pub(super) struct Scope {
    /// The kind of problem of equal names.
    pub(super) duplicate: Kind,
    /// Converts a name to its form in generated code.
    pub(super) generated: fn(&str) -> String,
    /// The names by their generated forms.
    pub(super) taken: HashMap<String, UsedName>,
}

#[derive(Debug)]
pub(super) struct UsedName {
    name: String,
    spot: Spot,
}

impl Scope {
    /// Adds a name, or reports a duplicate or a collision in generated code.
    pub(super) fn add(&mut self, name: &str, spot: &Spot, report: &mut Report<'_>) {
        let generated = (self.generated)(name);
        let Some(other) = self.taken.get(&generated) else {
            self.taken.insert(generated, UsedName { name: name.to_owned(), spot: spot.clone() });
            return;
        };
        let place = report.place(&other.spot);
        let fault = if other.name == name {
            let help = format!("rename or remove one; the first is at {place}");
            problem(self.duplicate, format!("{} again", quote(name)), "each name once", help)
        } else {
            let found = format!("{} and {}", quote(&other.name), quote(name));
            let help = format!("rename one: both become `{generated}`; the first is at {place}");
            problem(Kind::NameClash, found, "names that differ in snake case", help)
        };
        report.error(spot, fault);
    }
}
