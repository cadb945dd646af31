//! Writes planned files to disk: surveys first, then stages, then renames, so that a failure changes nothing.

mod areas;
mod marker;
mod origin;
mod outcome;
mod stage;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

use crate::{
    plan::{File, Note, Owner, Tree},
    stamp,
};
use areas::Merged;
use marker::Marker;
pub use origin::{Origin, read_origin, there};
pub use outcome::{Begun, Change, Drift, Report, Waiting};

/// How to treat a folder that is not a package of `udo new`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExistingFolder {
    /// Refuse it.
    #[default]
    Refuse,
    /// Write the package into it. Files at the paths of generated ones are kept as `.edited` copies; files at the paths
    /// of author's files stay.
    Adopt,
}

/// Why a package was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder exists and is not a package of `udo new`.
    #[error("{} exists and is not a package of this name created by `udo new`", .dir.display())]
    NotOurs {
        /// The folder.
        dir: PathBuf,
    },
    /// A symbolic link is at the path of a folder or a file.
    #[error("{} is a symbolic link, expected a plain file or folder", .path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A folder is at the path of a file, or the reverse.
    #[error("{} is in the way, expected {wanted}", .path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// `a file` or `a folder`.
        wanted: &'static str,
    },
    /// A planned path leads out of the package.
    #[error("planned path {path:?} leads out of the package")]
    Outside {
        /// The path.
        path: String,
    },
    /// The system refused.
    #[error("cannot write {}", .path.display())]
    Io {
        /// The path that was read or written.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

/// The changes that writing a tree would make. Nothing has been changed yet.
#[derive(Debug)]
pub struct Update {
    /// The folder of the package.
    dir: PathBuf,
    writes: Vec<Write>,
    /// Generated files at earlier paths.
    removes: Vec<PathBuf>,
    /// Drifted files with current fingerprints.
    stamped: Vec<(String, Write)>,
    /// The report of the finished update.
    pub report: Report,
}

/// A file to write.
#[derive(Debug)]
struct Write {
    path: PathBuf,
    contents: String,
    /// The path to move the existing file to first.
    keep_as: Option<PathBuf>,
}

/// Writes `tree` to the folder `dir`.
///
/// # Errors
/// The folder is not a package of `udo new`, or the system refuses; nothing has changed then.
pub fn write(tree: &Tree, dir: &Path, policy: ExistingFolder) -> Result<Report, WriteError> {
    survey(tree, dir, policy)?.apply()
}

/// Determines the changes that writing `tree` to the folder `dir` would make.
///
/// # Errors
/// The folder is not a package of `udo new`, or cannot be read.
pub fn survey(tree: &Tree, dir: &Path, policy: ExistingFolder) -> Result<Update, WriteError> {
    recover(dir)?;
    let old = existing(tree, dir, policy)?;
    let mut report = Report::new(&tree.package, dir);
    let (mut writes, mut stamped) = (Vec::new(), Vec::new());
    let mut marker = Marker::for_tree(tree);
    for file in &tree.files {
        if file.owner == Owner::Generator {
            marker.files.insert(file.path.clone(), stamp::digest(&file.contents));
        }
        let path = inside(dir, &file.path)?;
        let found = text_at(dir, &path)?;
        match (&file.owner, found) {
            (owner, None) => {
                if let Owner::Author(stamp) = owner {
                    marker.remember(&stamp.fingerprint(), &stamp.lines);
                }
                // The copied text may have been written for another config.
                if tree.inherited.iter().any(|inherited| inherited.path == file.path) {
                    report.drifted.extend(drift(file, &file.contents, &old, &mut marker));
                }
                report.created.push(file.path.clone());
                writes.push(Write { path, contents: file.contents.clone(), keep_as: None });
            }
            (Owner::Author(_) | Owner::AuthorAlone, Some(text)) => {
                report.kept.push(file.path.clone());
                let Some(drift) = drift(file, &text, &old, &mut marker) else { continue };
                if let Some(contents) = stamp::replace_fingerprint(&text, &drift.config) {
                    stamped.push((file.path.clone(), Write { path, contents, keep_as: None }));
                }
                report.drifted.push(drift);
            }
            (Owner::Generator, Some(text)) => {
                let Merged { text: contents, leaves_out } = areas::merge(&file.contents, &text);
                if text == contents {
                    report.unchanged.push(file.path.clone());
                    continue;
                }
                let written = stamp::digest(&areas::without_areas(&text));
                let is_edited = leaves_out || old.digest(&file.path) != Some(&written);
                let keep_as = is_edited.then(|| free_name(&path)).transpose()?;
                if let Some(copy) = &keep_as {
                    report.saved.push((file.path.clone(), shown(dir, copy)));
                }
                report.refreshed.push(file.path.clone());
                writes.push(Write { path, contents, keep_as });
            }
        }
    }
    let is_new = |note: &&Note| report.created.contains(&note.path);
    report.waiting = tree.notes.iter().filter(is_new).cloned().map(Into::into).collect();
    report.inherited = tree.inherited.iter().cloned().map(Into::into).collect();
    report.orphaned = orphans(tree, dir, &old)?;
    let mut removes = Vec::new();
    for moved in &tree.moved {
        let path = inside(dir, &moved.from)?;
        let text = text_at(dir, &path)?;
        // Edited files and files of removed operators stay.
        if text.is_some_and(|text| old.digest(&moved.from) == Some(&stamp::digest(&text))) {
            report.orphaned.retain(|orphan| *orphan != moved.from);
            report.moved.push((moved.from.clone(), moved.to.clone()));
            removes.push(path);
        }
    }
    for path in &report.orphaned {
        marker.adopt_from(&old, path);
    }
    let path = inside(dir, marker::FILE)?;
    let contents = marker.text();
    if text_at(dir, &path)?.as_deref() != Some(&contents) {
        writes.push(Write { path, contents, keep_as: None });
    }
    Ok(Update { dir: dir.to_owned(), writes, removes, stamped, report })
}

impl Update {
    /// Accepts the author's drifted files as up to date: their fingerprints are replaced, and nothing else changes. A
    /// file without a fingerprint stays drifted.
    #[must_use]
    pub fn accept(mut self) -> Self {
        for (path, write) in std::mem::take(&mut self.stamped) {
            self.report.drifted.retain(|drift| drift.file != path);
            self.report.accepted.push(path);
            self.writes.push(write);
        }
        self
    }

    /// Makes the changes.
    ///
    /// # Errors
    /// The system refuses; nothing has changed then.
    pub fn apply(self) -> Result<Report, WriteError> {
        let Self { dir, writes, removes, report, .. } = self;
        stage::put(vec![stage::Changes { dir, writes, removes }])?;
        Ok(report)
    }
}

/// Makes several updates, all or none.
///
/// # Errors
/// The system refuses; nothing has changed then.
pub fn apply_all(updates: Vec<Update>) -> Result<Vec<Report>, WriteError> {
    let mut packages = Vec::with_capacity(updates.len());
    let mut reports = Vec::with_capacity(updates.len());
    for Update { dir, writes, removes, report, .. } in updates {
        packages.push(stage::Changes { dir, writes, removes });
        reports.push(report);
    }
    stage::put(packages)?;
    Ok(reports)
}

/// Completes an update of the package in `dir` that was interrupted, or removes its remains.
///
/// # Errors
/// The folder cannot be read or written.
pub fn recover(dir: &Path) -> Result<(), WriteError> {
    stage::recover(dir)
}

/// Returns the marker of the existing package, or an empty one.
fn existing(tree: &Tree, dir: &Path, policy: ExistingFolder) -> Result<Marker, WriteError> {
    let nothing = Marker::new(&tree.package);
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing),
        Err(error) => return Err(WriteError::io(dir)(error)),
        Ok(found) if found.is_symlink() => return Err(WriteError::Link { path: dir.to_owned() }),
        Ok(found) if !found.is_dir() => {
            return Err(WriteError::InTheWay { path: dir.to_owned(), wanted: "a folder" });
        }
        Ok(_) => {}
    }
    let found = text_at(dir, &dir.join(marker::FILE))?;
    let marker = found.as_deref().and_then(Marker::read);
    let is_empty = fs::read_dir(dir).map_err(WriteError::io(dir))?.next().is_none();
    match (marker, policy) {
        (Some(marker), _) if marker.package == tree.package => Ok(marker),
        (_, ExistingFolder::Adopt) => Ok(nothing),
        (None, ExistingFolder::Refuse) if is_empty => Ok(nothing),
        (_, ExistingFolder::Refuse) => Err(WriteError::NotOurs { dir: dir.to_owned() }),
    }
}

/// Returns the path of a planned file, which must stay below `dir`.
fn inside(dir: &Path, path: &str) -> Result<PathBuf, WriteError> {
    let mut whole = dir.to_owned();
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." || part.contains(['\\', '\0']) {
            return Err(WriteError::Outside { path: path.to_owned() });
        }
        whole.push(part);
    }
    Ok(whole)
}

/// Returns the text at `path`, if there is a file; refuses links on the way from `dir` to it.
fn text_at(dir: &Path, path: &Path) -> Result<Option<String>, WriteError> {
    let mut ancestors: Vec<&Path> = path.ancestors().take_while(|part| *part != dir).collect();
    ancestors.push(dir);
    for part in ancestors.into_iter().rev() {
        let found = match fs::symlink_metadata(part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WriteError::io(part)(error)),
            Ok(found) => found,
        };
        if found.is_symlink() {
            return Err(WriteError::Link { path: part.to_owned() });
        }
        let wanted = if part == path { "a file" } else { "a folder" };
        if (part == path) != found.is_file() || (part != path) != found.is_dir() {
            return Err(WriteError::InTheWay { path: part.to_owned(), wanted });
        }
    }
    let bytes = udo_files::read(path, udo_files::TEXT_BYTES).map_err(WriteError::io(path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns how an author's file differs from one written for the current config.
fn drift(file: &File, text: &str, old: &Marker, marker: &mut Marker) -> Option<Drift> {
    let Owner::Author(wanted) = &file.owner else { return None };
    let now = wanted.fingerprint();
    marker.remember(&now, &wanted.lines);
    let recorded = stamp::read_fingerprint(text);
    if recorded == Some(&now) {
        return None;
    }
    let before = recorded.and_then(|recorded| old.stamp(recorded));
    if let (Some(recorded), Some(lines)) = (recorded, before) {
        marker.remember(recorded, lines);
    }
    Some(Drift::between(&file.path, before, &wanted.lines, &now))
}

/// Returns files of an earlier config that the tree does not have.
fn orphans(tree: &Tree, dir: &Path, old: &Marker) -> Result<Vec<String>, WriteError> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for path in old.files.keys() {
        if tree.file(path).is_none() && text_at(dir, &inside(dir, path)?)?.is_some() {
            found.insert(path.clone());
        }
    }
    if dir.is_dir() {
        for path in author_files(dir)? {
            let is_stamped = |text: String| stamp::read_fingerprint(&text).is_some();
            if tree.file(&path).is_none()
                && udo_files::read_to_string(&dir.join(&path), udo_files::TEXT_BYTES)
                    .is_ok_and(is_stamped)
            {
                found.insert(path);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the author's operator files, in order.
fn author_files(dir: &Path) -> Result<Vec<String>, WriteError> {
    let walk = WalkDir::new(dir).sort_by_file_name().into_iter();
    let is_ours = |entry: &walkdir::DirEntry| entry.depth() != 1 || is_library(entry);
    let mut files = Vec::new();
    for entry in walk.filter_entry(is_ours) {
        let entry = entry.map_err(|error| WriteError::io(dir)(error.into()))?;
        if entry.file_type().is_file() && is_author_place(entry.path()) {
            files.push(shown(dir, entry.path()));
        }
    }
    Ok(files)
}

/// Whether author's files belong there. Authors may split them into subfolders.
fn is_author_place(path: &Path) -> bool {
    let parent = path.parent().unwrap_or(path);
    let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
    let is_rust = parent.ends_with("src/ops") || parent.ends_with("common/formulas");
    is_rust && is("rs") || parent.ends_with("kernels") && is("cl")
}

/// Whether a folder of a package holds a library or shared code.
fn is_library(entry: &walkdir::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    ["reg", "common", "CPU", "GPU"].contains(&&*name) || name.starts_with("DSP_V")
}

fn shown(dir: &Path, path: &Path) -> String {
    path.strip_prefix(dir).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Returns an unused name next to `path`.
fn free_name(path: &Path) -> Result<PathBuf, WriteError> {
    let mut number = 1;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(if number == 1 { ".edited".to_owned() } else { format!(".edited{number}") });
        let copy = path.with_file_name(name);
        match fs::symlink_metadata(&copy) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(copy),
            Err(error) => return Err(WriteError::io(&copy)(error)),
            Ok(_) => number += 1,
        }
    }
}

#[cfg(test)]
mod tests;
