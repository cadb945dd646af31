//! Models of files in, graphs out: a folder for each format, and a row of `IMPORTERS`.
//!
//! Knows what files say, not what operators mean: which operators, attributes and shapes are
//! good is for the registry to judge.
#![deny(clippy::as_conversions)]

mod error;
mod foreign;
pub mod onnx;
mod text;
mod udm;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::container;
use crate::graph::{Graph, promote_defaults};

pub use crate::memory::ModelBytes;
pub use error::ImportError;

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The folder where elements that the model keeps in other files lie; nothing refuses them.
    pub folder: Option<PathBuf>,
    /// Another folder that files of the first one may be links into: that of the model's own file, where the model is a link.
    pub linked_folder: Option<PathBuf>,
    /// The operators of packages, which go before functions that the model has for them.
    pub packaged: Vec<PackagedOp>,
    /// How the bytes of files are read.
    pub reading: Reading,
    /// The inputs that runs give although the model has a default for them: names of other values are ignored.
    pub given: BTreeSet<String>,
    /// Which network of a file that has several.
    pub network: Option<String>,
    /// Which stage of a network that has several.
    pub stage: Option<usize>,
}

/// Completes options for the file at `path`: data that the model keeps in other files is looked for beside it, unless the options name a
/// folder.
///
/// A cache of models has files as links into one folder: the model as well as its data files. If the model is a link, files beside it may
/// lead into the folder that it links to, and nowhere else.
#[must_use]
pub fn options_for_file(options: &ImportOptions, path: &Path) -> ImportOptions {
    let mut options = options.clone();
    if options.folder.is_none() {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        options.folder = Some(parent.unwrap_or(Path::new(".")).to_owned());
        let real = path.canonicalize().ok().filter(|_| path.is_symlink());
        options.linked_folder = real.and_then(|real| real.parent().map(Path::to_owned));
    }
    options
}

/// How the bytes of files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Mapped where that can be: files have to stay as they are.
    #[default]
    Mapped,
    /// Into memory: nothing that becomes of a file matters later.
    Copied,
}

impl Reading {
    /// The bytes of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn bytes(self, path: &Path) -> Result<ModelBytes, ImportError> {
        foreign::refuse_folder(path)?;
        let bytes = match self {
            Self::Mapped => ModelBytes::of(path),
            Self::Copied => ModelBytes::read(path),
        };
        bytes.map_err(|source| ImportError::Read { path: path.to_owned(), source })
    }
}

/// An operator that a package has.
#[derive(Clone, Debug)]
pub struct PackagedOp {
    /// Its type name.
    pub name: String,
    /// The domain of nodes that it takes, empty for ONNX's own; none where it takes those of any.
    pub domain: Option<String>,
}

impl PackagedOp {
    fn takes(&self, domain: &str, name: &str) -> bool {
        self.name == name && self.domain.as_ref().is_none_or(|own| own == domain)
    }
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
    pub import: Import,
}

/// What files are called that `udo convert` makes.
pub const MODEL_FILE: &str = "model file";

/// Every format that is read.
pub(crate) const IMPORTERS: &[Importer] = &[
    Importer { name: "ONNX", suffixes: &["onnx"], sniff: onnx::sniff, import: onnx::import },
    Importer { name: MODEL_FILE, suffixes: &["udm"], sniff: container::sniff, import: udm::import },
    Importer { name: "text", suffixes: &["graph"], sniff: text::sniff, import: text::import },
];

/// The graph in a model's file, which is called after the file.
///
/// The file has to stay as it is for as long as the graph lives, or a model that is compiled of it and leaves extents open, and
/// files that it keeps elements in for as long as anything does that is made of it: they are mapped, unless
/// [`ImportOptions::reading`] says otherwise. A new file of the same name does no harm, a change of the old one does.
///
/// # Errors
/// A file that cannot be read, and as for [`bytes`].
pub fn file(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    read(&options.reading.bytes(path)?, path, options)
}

/// As [`file()`], of bytes that were read of the file at `path`.
///
/// # Errors
/// As for [`bytes`].
pub(crate) fn read(
    bytes: &ModelBytes,
    path: &Path,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    model_bytes(bytes, &name_of(path), &options_for_file(options, path))
}

/// What to call the file at `path` in messages.
pub fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
}

/// The graph in the bytes of a model's file. The suffix of `name` says the format; where it is none that is known, the
/// bytes do.
///
/// # Errors
/// No known format, and what its importer refuses.
pub fn bytes(bytes: &[u8], name: &str, options: &ImportOptions) -> Result<Graph, ImportError> {
    model_bytes(&ModelBytes::copy_of(bytes), name, options)
}

/// As [`bytes`], of bytes that the graph shares.
///
/// # Errors
/// As there.
pub fn model_bytes(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let mut graph = (importer(bytes, name)?.import)(bytes, name, options)?;
    promote_defaults(&mut graph, &options.given);
    Ok(graph)
}

/// Reads a model.
pub type Import = fn(&ModelBytes, &str, &ImportOptions) -> Result<Graph, ImportError>;

/// What reads bytes that are called `name`.
///
/// # Errors
/// No known format, or one of another tool.
pub fn importer(bytes: &ModelBytes, name: &str) -> Result<&'static Importer, ImportError> {
    foreign::refuse(bytes.as_ref(), name)?;
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
    let is_named = |suffix: &str| {
        let has = |of: &Importer| of.suffixes.iter().any(|own| own.eq_ignore_ascii_case(suffix));
        IMPORTERS.iter().find(|importer| has(importer))
    };
    let sniffed = || IMPORTERS.iter().find(|importer| (importer.sniff)(bytes.as_ref()));
    match suffix.and_then(is_named).or_else(sniffed) {
        Some(importer) => Ok(importer),
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
