//! Models of files in, graphs out: a folder for each format, and a row of [`IMPORTERS`].
//!
//! Knows what files say, not what operators mean: which operators, attributes and shapes are
//! good is for the registry to judge.
#![deny(clippy::as_conversions)]

mod error;
pub mod onnx;
mod text;

use std::path::{Path, PathBuf};

use crate::graph::Graph;

pub use error::ImportError;

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The folder where elements that the model keeps in other files lie; nothing refuses them.
    pub folder: Option<PathBuf>,
}

/// A format of model files.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// What to call the format.
    pub name: &'static str,
    /// What names of its files have behind their last dot.
    pub suffixes: &'static [&'static str],
    /// Whether bytes start as such a file does.
    pub sniff: fn(&[u8]) -> bool,
    /// The graph in the bytes of such a file, verified; the text is what to call it in messages.
    pub import: fn(&[u8], &str, &ImportOptions) -> Result<Graph, ImportError>,
}

/// Every format that is read.
pub const IMPORTERS: &[Importer] = &[
    Importer { name: "ONNX", suffixes: &["onnx"], sniff: onnx::sniff, import: onnx::import },
    Importer { name: "text", suffixes: &["graph"], sniff: text::sniff, import: text::import },
];

/// The graph in a model's file, which is called after the file.
///
/// # Errors
/// A file that cannot be read, and as for [`bytes`].
pub fn file(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    let unreadable = |source| ImportError::Read { path: path.to_owned(), source };
    let read = std::fs::read(path).map_err(unreadable)?;
    let mut options = options.clone();
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    options.folder.get_or_insert_with(|| parent.unwrap_or(Path::new(".")).to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    bytes(&read, &name, &options)
}

/// The graph in the bytes of a model's file. The suffix of `name` says the format; where it is none that is known, the
/// bytes do.
///
/// # Errors
/// No known format, and what its importer refuses.
pub fn bytes(bytes: &[u8], name: &str, options: &ImportOptions) -> Result<Graph, ImportError> {
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
    let is_named = |suffix: &str| {
        let has = |of: &Importer| of.suffixes.iter().any(|own| own.eq_ignore_ascii_case(suffix));
        IMPORTERS.iter().find(|importer| has(importer))
    };
    let sniffed = || IMPORTERS.iter().find(|importer| (importer.sniff)(bytes));
    match suffix.and_then(is_named).or_else(sniffed) {
        Some(importer) => (importer.import)(bytes, name, options),
        None => Err(ImportError::UnknownFormat { name: name.to_owned() }),
    }
}

/// The formats and their suffixes, in words.
fn formats() -> String {
    let format = |importer: &Importer| {
        let suffixes = importer.suffixes.iter().map(|suffix| format!(".{suffix}"));
        format!("{} ({})", importer.name, suffixes.collect::<Vec<_>>().join(", "))
    };
    IMPORTERS.iter().map(format).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
