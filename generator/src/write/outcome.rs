//! The report of writing a package: the result for each file, as text and as serializable data.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::plan::{Inherited, Note};

/// The result for each file. Paths are relative to the package's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The package.
    pub package: String,
    /// Its folder.
    pub dir: PathBuf,
    /// New files.
    pub created: Vec<String>,
    /// New files that start as copies of the author's file for a removed architecture.
    pub inherited: Vec<Begun>,
    /// New files that wait for the author's code although the operator has a reference.
    pub waiting: Vec<Waiting>,
    /// Generated files that changed.
    pub refreshed: Vec<String>,
    /// Unchanged generated files.
    pub unchanged: Vec<String>,
    /// The author's files, not touched.
    pub kept: Vec<String>,
    /// Generated files of an earlier version at another path, with their current paths.
    pub moved: Vec<(String, String)>,
    /// Generated files that were edited, with the paths of the copies.
    pub saved: Vec<(String, String)>,
    /// The author's files that were written for another config.
    pub drifted: Vec<Drift>,
    /// The author's files that were accepted as up to date.
    pub accepted: Vec<String>,
    /// Files that are not in the config any more, not touched.
    pub orphaned: Vec<String>,
}

/// A new file that the author must fill in, since no code could be printed from the operator's reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The file.
    pub file: String,
    /// The reason.
    pub reason: String,
}

/// A new file with the text of another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Begun {
    /// The file.
    pub file: String,
    /// The file that it was copied from.
    pub from: String,
}

impl From<Inherited> for Begun {
    fn from(Inherited { path, from }: Inherited) -> Self {
        Self { file: path, from }
    }
}

impl From<Note> for Waiting {
    fn from(Note { path, reason }: Note) -> Self {
        Self { file: path, reason }
    }
}

/// An author's file that was written for another config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The file.
    pub file: String,
    /// The changes of the config; empty if the old config is not known.
    pub changes: Vec<Change>,
    /// The fingerprint to write into the file once it is up to date.
    pub config: String,
}

/// An added or removed line of an operator's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The line is new.
    Added(String),
    /// The line was removed.
    Removed(String),
}

impl Drift {
    /// Compares the config that a file was written for with the new one, line by line.
    pub(super) fn between(
        file: &str,
        old_lines: Option<&[String]>,
        new_lines: &[String],
        fingerprint: &str,
    ) -> Self {
        let mut changes = Vec::new();
        if let Some(old_lines) = old_lines {
            let removed = old_lines.iter().filter(|line| !new_lines.contains(line));
            changes.extend(removed.cloned().map(Change::Removed));
            let new = new_lines.iter().filter(|line| !old_lines.contains(line));
            changes.extend(new.cloned().map(Change::Added));
        }
        Self { file: file.to_owned(), changes, config: fingerprint.to_owned() }
    }
}

impl Report {
    /// Returns the files that differ from a fresh generation, each with the reason.
    pub fn stale(&self) -> Vec<(&str, &'static str)> {
        let created = self.created.iter().map(|file| (file.as_str(), "missing"));
        let refreshed = self.refreshed.iter().map(|file| {
            let is_edited = self.saved.iter().any(|(saved, _)| saved == file);
            (file.as_str(), if is_edited { "edited by hand" } else { "out of date" })
        });
        let drifted = &self.drifted;
        let drifted =
            drifted.iter().map(|drift| (drift.file.as_str(), "written for another config"));
        let orphaned =
            self.orphaned.iter().map(|file| (file.as_str(), "not in the config any more"));
        let moved = self.moved.iter().map(|(file, _)| (file.as_str(), "moved"));
        let stale = created.chain(refreshed).chain(drifted).chain(orphaned).chain(moved);
        let mut stale: Vec<_> = stale.collect();
        stale.sort_unstable();
        stale
    }

    /// Creates a report without files.
    pub(super) fn new(package: &str, dir: &Path) -> Self {
        Self {
            package: package.to_owned(),
            dir: dir.to_owned(),
            created: Vec::new(),
            inherited: Vec::new(),
            waiting: Vec::new(),
            refreshed: Vec::new(),
            unchanged: Vec::new(),
            kept: Vec::new(),
            moved: Vec::new(),
            saved: Vec::new(),
            drifted: Vec::new(),
            accepted: Vec::new(),
            orphaned: Vec::new(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} in {}", self.package, self.dir.display())?;
        for (verb, files) in [("created", &self.created), ("refreshed", &self.refreshed)] {
            for file in files {
                writeln!(f, "  {verb:<9} {file}")?;
            }
        }
        for Begun { file, from } in &self.inherited {
            writeln!(f, "  inherits  {file}: starts as a copy of your {from}")?;
        }
        for Waiting { file, reason } in &self.waiting {
            writeln!(f, "  waits     {file}: for your code: {reason}")?;
        }
        if !self.kept.is_empty() {
            writeln!(f, "  kept      {} of your files, untouched", self.kept.len())?;
        }
        if !self.unchanged.is_empty() {
            writeln!(f, "  unchanged {} generated files", self.unchanged.len())?;
        }
        for (file, new_path) in &self.moved {
            writeln!(f, "  moved     {file}: now {new_path}")?;
        }
        for (file, copy) in &self.saved {
            writeln!(f, "  edited    {file}: regenerated; your version is {copy}")?;
        }
        for Drift { file, changes, config } in &self.drifted {
            writeln!(
                f,
                "  drifted   {file}: written for another config; the new one is `config {config}`"
            )?;
            for change in changes {
                match change {
                    Change::Added(line) => writeln!(f, "              + {line}")?,
                    Change::Removed(line) => writeln!(f, "              - {line}")?,
                }
            }
        }
        for file in &self.accepted {
            writeln!(f, "  accepted  {file}: accepted for this config")?;
        }
        for file in &self.orphaned {
            writeln!(f, "  orphaned  {file}: not in the config any more; you may delete it")?;
        }
        if self.drifted.is_empty() {
            return Ok(());
        }
        f.write_str(
            "  A drifted file is yours to bring up to date: change the code, then its second line to the\n  \
             `config` above, or `udo new --accept`. Or move it away and run `udo new` again for a fresh one.\n",
        )
    }
}
