//! The marker file of a generated package. It records the digests of the generated files as last written, and the
//! fingerprints of the config that the author's files were written for. `udo` uses it to tell its own text from edits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{plan::Tree, templates::TemplatesOwner};

/// The marker's name in the package's folder.
pub(super) const FILE: &str = ".udo-package.json";

/// The version of the file format.
const FORMAT: u32 = 1;

/// The content of the marker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    #[serde(rename = "auto-generated")]
    note: String,
    format: u32,
    pub(super) package: String,
    /// The owner of the templates that the package was generated with.
    #[serde(default, skip_serializing_if = "TemplatesOwner::is_sdk")]
    pub(super) templates: TemplatesOwner,
    /// The configs in reading order, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    configs: Vec<String>,
    /// The digest of each generated file as written.
    pub(super) files: BTreeMap<String, String>,
    /// The lines of the config of each fingerprint in an author's file (see `crate::stamp`).
    stamps: BTreeMap<String, Vec<String>>,
}

impl Marker {
    /// Creates the marker of a tree without files.
    pub(super) fn for_tree(tree: &Tree) -> Self {
        let configs = if tree.configs.len() > 1 { tree.configs.clone() } else { Vec::new() };
        Self { templates: tree.templates, configs, ..Self::new(&tree.package) }
    }

    /// Iterates over the configs in reading order.
    pub(super) fn configs(&self) -> impl Iterator<Item = &String> {
        let has_one_config = self.configs.is_empty();
        let only_config =
            self.files.keys().filter(move |file| has_one_config && file.starts_with("config/"));
        self.configs.iter().chain(only_config)
    }

    pub(super) fn new(package: &str) -> Self {
        Self {
            note: "by `udo new`: tells what it wrote from what you edited; keep it under version \
                   control"
                .to_owned(),
            format: FORMAT,
            package: package.to_owned(),
            templates: TemplatesOwner::Sdk,
            configs: Vec::new(),
            files: BTreeMap::new(),
            stamps: BTreeMap::new(),
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let marker: Self = serde_json::from_str(text).ok()?;
        (marker.format == FORMAT).then_some(marker)
    }

    pub(super) fn text(&self) -> String {
        // A map of strings always serializes.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub(super) fn digest(&self, path: &str) -> Option<&String> {
        self.files.get(path)
    }

    pub(super) fn stamp(&self, fingerprint: &str) -> Option<&[String]> {
        self.stamps.get(fingerprint).map(Vec::as_slice)
    }

    pub(super) fn remember(&mut self, fingerprint: &str, lines: &[String]) {
        self.stamps.insert(fingerprint.to_owned(), lines.to_owned());
    }

    /// Copies the entry of `previous` for a generated file that is no longer written.
    pub(super) fn adopt_from(&mut self, previous: &Self, path: &str) {
        if let Some(digest) = previous.files.get(path) {
            self.files.insert(path.to_owned(), digest.clone());
        }
    }
}
