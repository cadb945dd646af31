//! Imports model files as graphs. Each format has a folder or file below this one and a row in `IMPORTERS`.
//!
//! Importers know the syntax of files, not the meaning of operators: whether an operator, its attributes and its shapes are
//! valid is checked when the graph is compiled.
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

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The folder of external data files. Without it, a model with external data is refused.
    pub folder: Option<PathBuf>,
    /// A second folder that links in `folder` may lead to: the real folder of the model file, if that file is a symbolic link.
    pub linked_folder: Option<PathBuf>,
    /// The operators of opened packages. They take precedence over functions of the same name that the model defines.
    pub packaged: Vec<PackagedOp>,
    /// How the bytes of files are read.
    pub reading: Reading,
    /// The inputs with defaults that runs override. Other names are ignored.
    pub given: BTreeSet<String>,
    /// The network to import from a file that has several.
    pub network: Option<String>,
    /// The stage to import from a network that has several.
    pub stage: Option<usize>,
}

/// Completes options for the file at `path`: unless the options name a folder, external data files are looked for in the
/// folder of the model file.
///
/// Caches of models, such as that of Hugging Face, store the model and its data files as symbolic links into one folder.
/// So if the model is a link, data files may be links into the folder of its target, but nowhere else.
#[must_use]
pub fn options_for_file(options: &ImportOptions, path: &Path) -> ImportOptions {
    let mut options = options.clone();
    if options.folder.is_none() {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        options.folder = Some(parent.unwrap_or(Path::new(".")).to_owned());
        let target = path.canonicalize().ok().filter(|_| path.is_symlink());
        options.linked_folder = target.and_then(|target| target.parent().map(Path::to_owned));
    }
    options
}

/// How the bytes of files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Memory-mapped where possible. The files must not change while they are in use.
    #[default]
    Mapped,
    /// Copied into memory. Later changes of the file have no effect.
    Copied,
}

impl Reading {
    /// Returns the bytes of the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or the path is a folder with a model of another tool.
    pub fn bytes(self, path: &Path) -> Result<ModelBytes, ImportError> {
        foreign::refuse_folder(path)?;
        let bytes = match self {
            Self::Mapped => ModelBytes::map_file(path),
            Self::Copied => ModelBytes::read(path),
        };
        bytes.map_err(|source| ImportError::Read { path: path.to_owned(), source })
    }
}

/// An operator of a package.
#[derive(Clone, Debug)]
pub struct PackagedOp {
    /// The operator's type name.
    pub name: String,
    /// The domain of the nodes that it implements. Empty: ONNX's own domain. `None`: any domain.
    pub domain: Option<String>,
}

impl PackagedOp {
    fn implements(&self, domain: &str, name: &str) -> bool {
        self.name == name && self.domain.as_ref().is_none_or(|known| known == domain)
    }
}

/// A format of model files.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// The name of the format, for messages.
    pub name: &'static str,
    /// The file name extensions, without the dot.
    pub suffixes: &'static [&'static str],
    /// Returns whether bytes begin like a file of this format.
    pub sniff: fn(&[u8]) -> bool,
    /// Reads a file and returns its verified graph. The second argument is the file's name for messages.
    pub import: Import,
}

/// The name of the format that `udo convert` writes.
pub const MODEL_FILE: &str = "model file";

/// All formats that can be imported.
pub(crate) const IMPORTERS: &[Importer] = &[
    Importer { name: "ONNX", suffixes: &["onnx"], sniff: onnx::sniff, import: onnx::import },
    Importer { name: MODEL_FILE, suffixes: &["udm"], sniff: container::sniff, import: udm::import },
    Importer { name: "text", suffixes: &["graph"], sniff: text::sniff, import: text::import },
];

/// Imports the model file at `path`. The graph is named after the file.
///
/// The model file and its external data are memory-mapped, unless [`ImportOptions::reading`] says otherwise. They must not be
/// modified while the graph, or a model compiled from it, is in use. Replacing a file by a new one of the same name is safe.
///
/// ```no_run
/// use std::path::Path;
/// use udo_graph::import::{self, ImportOptions};
///
/// # fn main() -> Result<(), import::ImportError> {
/// let graph = import::file(Path::new("model.onnx"), &ImportOptions::default())?;
/// println!("{graph}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the file cannot be read, and as [`bytes`] does.
pub fn file(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    read(&options.reading.bytes(path)?, path, options)
}

/// Imports a model from bytes that were read from the file at `path`.
///
/// # Errors
/// Fails as [`bytes`] does.
pub(crate) fn read(
    bytes: &ModelBytes,
    path: &Path,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    model_bytes(bytes, &name_of(path), &options_for_file(options, path))
}

/// Returns the name of the file at `path`, for messages.
pub fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()
}

/// Imports a model from bytes. The format is chosen by the extension of `name`, or by the first bytes if the extension is
/// unknown.
///
/// # Errors
/// Fails if the format is unknown, or its importer refuses the bytes.
pub fn bytes(bytes: &[u8], name: &str, options: &ImportOptions) -> Result<Graph, ImportError> {
    model_bytes(&ModelBytes::copy_of(bytes), name, options)
}

/// Imports a model from shared bytes, as [`bytes`] does. The graph keeps a reference to them.
///
/// # Errors
/// Fails as [`bytes`] does.
pub fn model_bytes(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let mut graph = (importer(bytes, name)?.import)(bytes, name, options)?;
    promote_defaults(&mut graph, &options.given);
    Ok(graph)
}

/// The import function of a format.
pub type Import = fn(&ModelBytes, &str, &ImportOptions) -> Result<Graph, ImportError>;

/// Returns the importer for bytes that are called `name`.
///
/// # Errors
/// Fails if the format is unknown, or belongs to another tool.
pub fn importer(bytes: &ModelBytes, name: &str) -> Result<&'static Importer, ImportError> {
    foreign::refuse(bytes.as_ref(), name)?;
    let suffix = Path::new(name).extension().and_then(|suffix| suffix.to_str());
    let with_suffix = |suffix: &str| {
        let is_equal = |known: &&str| known.eq_ignore_ascii_case(suffix);
        IMPORTERS.iter().find(|importer| importer.suffixes.iter().any(is_equal))
    };
    let sniffed = || IMPORTERS.iter().find(|importer| (importer.sniff)(bytes.as_ref()));
    match suffix.and_then(with_suffix).or_else(sniffed) {
        Some(importer) => Ok(importer),
        None => Err(ImportError::UnknownFormat { name: name.to_owned() }),
    }
}

/// Lists the formats and their extensions.
fn formats() -> String {
    let format = |importer: &Importer| {
        let suffixes = importer.suffixes.iter().map(|suffix| format!(".{suffix}"));
        format!("{} ({})", importer.name, suffixes.collect::<Vec<_>>().join(", "))
    };
    IMPORTERS.iter().map(format).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
