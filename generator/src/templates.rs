//! The templates of generated files: embedded at build time, optionally replaced from a folder, and printed by
//! `minijinja`.

use std::{
    io,
    path::{Path, PathBuf},
};

use minijinja::{Environment, UndefinedBehavior, syntax::SyntaxConfig};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

/// The embedded templates as (name, text), sorted by name; `build.rs` writes the table.
const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// The extension of a template's file name.
const SUFFIX: &str = ".jinja";

/// All templates by name, such as `cpu/op.rs.jinja`.
#[derive(Debug, Clone)]
pub struct Templates {
    sources: Vec<(String, String)>,
    owner: TemplatesOwner,
}

/// The owner of the templates that a package is generated with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TemplatesOwner {
    /// The SDK.
    #[default]
    Sdk,
    /// The author, for at least one file.
    Author,
}

impl TemplatesOwner {
    /// Whether all templates are the SDK's.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    pub(crate) fn is_sdk(&self) -> bool {
        *self == Self::Sdk
    }
}

/// The error of [`Templates::replaced_from`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplatesError {
    /// The folder or a file in it cannot be read.
    #[error("cannot read templates in {}", .dir.display())]
    Read {
        /// The folder.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The folder contains a template of an unknown name.
    #[error("{}: unknown template {name}, expected one of {known}", .dir.display())]
    Unknown {
        /// The folder.
        dir: PathBuf,
        /// The unknown name.
        name: String,
        /// The known names.
        known: String,
    },
}

/// The error of a template that cannot be parsed or printed.
#[derive(Debug, thiserror::Error)]
#[error("template {name}{}: {reason}", place(*.line))]
pub struct RenderError {
    /// The template.
    pub name: String,
    /// The line, if known.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

fn place(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl Default for Templates {
    fn default() -> Self {
        Self::embedded()
    }
}

impl Templates {
    /// Returns the templates of this build.
    pub fn embedded() -> Self {
        let sources = EMBEDDED.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Self { sources: sources.collect(), owner: TemplatesOwner::Sdk }
    }

    /// Replaces templates by those of the same name in `dir`.
    ///
    /// # Errors
    /// The folder cannot be read, or contains a template of an unknown name.
    pub fn replaced_from(mut self, dir: &Path) -> Result<Self, TemplatesError> {
        let failed = |source| TemplatesError::Read { dir: dir.to_owned(), source };
        for entry in WalkDir::new(dir).sort_by_file_name() {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let path = entry.path();
            let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy().replace('\\', "/");
            if !entry.file_type().is_file() || !name.ends_with(SUFFIX) {
                continue;
            }
            let text = udo_files::read_to_string(path, udo_files::TEXT_BYTES).map_err(failed)?;
            let Some((_, source)) = self.sources.iter_mut().find(|(known, _)| *known == name)
            else {
                let known: Vec<&str> = self.iter().map(|(name, _)| name).collect();
                let known = known.join(", ");
                return Err(TemplatesError::Unknown { dir: dir.to_owned(), name, known });
            };
            *source = text;
            self.owner = TemplatesOwner::Author;
        }
        Ok(self)
    }

    /// Returns the owner of the templates.
    pub fn owner(&self) -> TemplatesOwner {
        self.owner
    }

    /// Iterates over names and contents, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sources.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns a printer for these templates.
    pub(crate) fn printer(&self) -> Result<Printer<'_>, RenderError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| RenderError::from_error("", &error))?);
        for (name, text) in self.iter() {
            environment
                .add_template(name, text)
                .map_err(|error| RenderError::from_error(name, &error))?;
        }
        Ok(Printer { environment })
    }
}

impl RenderError {
    fn from_error(name: &str, error: &minijinja::Error) -> Self {
        let kind = error.kind().to_string();
        let reason = match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind,
        };
        Self { name: name.to_owned(), line: error.line(), reason }
    }
}

/// Prints templates.
#[derive(Debug)]
pub(crate) struct Printer<'t> {
    environment: Environment<'t>,
}

impl Printer<'_> {
    pub(crate) fn print(&self, name: &str, view: impl Serialize) -> Result<String, RenderError> {
        let template = self
            .environment
            .get_template(name)
            .map_err(|error| RenderError::from_error(name, &error))?;
        let value = minijinja::Value::from(minijinja::value::Serde(view));
        template.render(value).map_err(|error| RenderError::from_error(name, &error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn templates_can_be_replaced_and_unknown_names_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cpu")).unwrap();
        fs::write(dir.path().join("cpu/op.rs.jinja"), "{{ op }}\n").unwrap();
        let templates = Templates::embedded().replaced_from(dir.path()).unwrap();
        let view = minijinja::context! { op => "x" };
        assert_eq!(templates.printer().unwrap().print("cpu/op.rs.jinja", view).unwrap(), "x\n");

        fs::write(dir.path().join("cpu/nothing.jinja"), "").unwrap();
        let error = Templates::embedded().replaced_from(dir.path()).unwrap_err();
        assert!(error.to_string().contains("unknown template cpu/nothing.jinja"), "{error}");
    }

    #[test]
    fn undefined_names_are_errors_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cpu")).unwrap();
        fs::write(dir.path().join("cpu/op.rs.jinja"), "a\n{{ nothing }}\n").unwrap();
        let templates = Templates::embedded().replaced_from(dir.path()).unwrap();
        let printer = templates.printer().unwrap();
        let error = printer.print("cpu/op.rs.jinja", minijinja::context! {}).unwrap_err();
        assert_eq!((error.name.as_str(), error.line), ("cpu/op.rs.jinja", Some(2)));
    }
}
