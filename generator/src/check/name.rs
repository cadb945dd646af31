//! Checks names of packages, operators, ports and parameters: each name alone, and against the other names of its
//! scope.

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
    let replaced: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let candidate = if replaced.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{replaced}")
    } else {
        replaced
    };
    match names::check(&candidate) {
        Ok(()) => format!("for example \"{candidate}\""),
        Err(_) => "use letters, digits and `_`".to_owned(),
    }
}

/// The names of one scope, such as the ports and parameters of an operator, with their spelling in generated code.
#[derive(Debug)]
pub(super) struct Scope {
    /// The kind of problem to report for equal names.
    pub(super) duplicate: Kind,
    /// Converts a name to its spelling in generated code.
    pub(super) generated: fn(&str) -> String,
    /// The names so far, by their spelling in generated code.
    pub(super) used: HashMap<String, UsedName>,
}

/// A name and the place that declares it.
#[derive(Debug)]
pub(super) struct UsedName {
    name: String,
    spot: Spot,
}

impl Scope {
    /// Adds a name, or reports a duplicate or a collision in generated code.
    pub(super) fn add(&mut self, name: &str, spot: &Spot, report: &mut Report<'_>) {
        let generated = (self.generated)(name);
        let Some(earlier) = self.used.get(&generated) else {
            self.used.insert(generated, UsedName { name: name.to_owned(), spot: spot.clone() });
            return;
        };
        let place = report.place(&earlier.spot);
        let fault = if earlier.name == name {
            let help = format!("rename or remove one; the first is at {place}");
            problem(self.duplicate, format!("{} again", quote(name)), "each name once", help)
        } else {
            let found = format!("{} and {}", quote(&earlier.name), quote(name));
            let help = format!("rename one: both become `{generated}`; the first is at {place}");
            problem(Kind::NameClash, found, "names that differ in snake case", help)
        };
        report.error(spot, fault);
    }
}
