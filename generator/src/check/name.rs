//! Names: each by itself, then against the others of its scope.

use std::collections::HashMap;

use crate::{
    diagnostic::Kind,
    draft::{At, Spot},
    names::{self, MAX_NAME_BYTES, NameError},
    report::{Report, problem},
    spelling::quote,
};

/// Checks one name; reports at most one reason against it.
pub(super) fn check(name: &At<String>, report: &mut Report<'_>) -> Option<String> {
    let At { value, spot } = name;
    let Err(error) = names::check(value) else { return Some(value.clone()) };
    let identifier = "an identifier: letters, digits and `_`, no digit first";
    let (kind, wanted, help) = match error {
        NameError::Empty => (Kind::InvalidName, identifier.to_owned(), "write a name".to_owned()),
        NameError::NotIdentifier => (Kind::InvalidName, identifier.to_owned(), suggestion(value)),
        NameError::Path => (
            Kind::PathInName,
            identifier.to_owned(),
            "folders belong in UDO_PACKAGE_PATH; the name stays in its folder".to_owned(),
        ),
        NameError::TooLong => (
            Kind::LongName,
            format!("at most {MAX_NAME_BYTES} bytes"),
            format!("shorten it; it has {} bytes", value.len()),
        ),
        NameError::Keyword(language) => (
            Kind::KeywordName,
            format!("a name that is no keyword of {language}"),
            format!("for example \"{value}_\""),
        ),
    };
    report.error(spot, problem(kind, quote(value), wanted, help));
    None
}

/// The name with each foreign character replaced.
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

/// The names of one scope, with what each becomes in generated code.
#[derive(Debug)]
pub(super) struct Scope {
    /// The kind of fault that two equal names are.
    pub(super) duplicate: Kind,
    /// What a name becomes.
    pub(super) generated: fn(&str) -> String,
    /// By what they become.
    pub(super) taken: HashMap<String, Taken>,
}

#[derive(Debug)]
pub(super) struct Taken {
    name: String,
    spot: Spot,
}

impl Scope {
    /// Adds a name, unless it is taken already or would collide in generated code.
    pub(super) fn add(&mut self, name: &str, spot: &Spot, report: &mut Report<'_>) {
        let generated = (self.generated)(name);
        let Some(other) = self.taken.get(&generated) else {
            self.taken.insert(generated, Taken { name: name.to_owned(), spot: spot.clone() });
            return;
        };
        let place = report.place(&other.spot);
        let fault = if other.name == name {
            let help = format!("rename or remove one; the first is at {place}");
            problem(self.duplicate, format!("{} again", quote(name)), "each name once", help)
        } else {
            let found = format!("{} and {}", quote(&other.name), quote(name));
            let help = format!("rename one: both become `{generated}`; the first is at {place}");
            problem(Kind::NameClash, found, "names that stay apart in snake case", help)
        };
        report.error(spot, fault);
    }
}
