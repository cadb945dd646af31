//! A call of a kernel with everything that it takes to make it again, in one file.

mod file;
mod json;

use std::path::{Path, PathBuf};

use udo_api::TensorDesc;
use udo_host::ParamSetting;

pub use file::CaptureError;

/// The end of the names of such files.
const SUFFIX: &str = "capture";

/// A call, what came of it, and what is wrong with that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// Where the package is, or `builtin`.
    pub package: String,
    /// The SHA-256 of the package's index, or of its registration library where it has none; empty for what is built in.
    pub digest: String,
    /// The operator, with its domain where it has one.
    pub op: String,
    /// The core.
    pub core: String,
    /// The case of the check that does not pass, or one of [`RUN_CASES`].
    pub case: String,
    /// What is wrong.
    pub why: String,
    /// The level of the check.
    pub level: u8,
    /// The seed of the check.
    pub seed: u64,
    /// The inputs, in order.
    pub inputs: Vec<CapturedInput>,
    /// The parameters by name.
    pub params: Vec<(String, ParamSetting)>,
    /// The outputs, in order.
    pub outputs: Vec<CapturedOutput>,
}

/// What is wrong with a call that a run of a model made: its status, an element that is no number, the heap, or its process's end.
pub const RUN_CASES: [&str; 4] = ["run/status", "run/nan", "run/heap", "run/crash"];

/// An input of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedInput {
    /// Absent where the node leaves it out.
    pub desc: TensorDesc,
    /// Its extents in the call.
    pub dims: Vec<usize>,
    /// Whether its elements were known before the run.
    pub is_constant: bool,
    /// Its elements.
    pub bytes: Vec<u8>,
}

/// An output of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedOutput {
    /// Absent where the node leaves it out.
    pub desc: TensorDesc,
    /// The extents and elements that the kernel made, if it came so far.
    pub found: Option<(Vec<usize>, Vec<u8>)>,
    /// What they should have been, where there is an oracle.
    pub wanted: Option<CapturedWanted>,
}

/// What an output should be.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedWanted {
    /// Who says so.
    pub by: String,
    /// The extents, where they are certain.
    pub dims: Option<Vec<usize>>,
    /// The numbers that the elements stand for.
    pub numbers: Vec<f64>,
    /// How far each may be off, where that is known.
    pub allowed: Option<Vec<f64>>,
}

impl Capture {
    /// The name of its file: the operator, the core and the case.
    pub fn file_name(&self) -> String {
        format!("{}.{SUFFIX}", self.file_stem())
    }

    /// What the name says of what it is of.
    pub(crate) fn file_stem(&self) -> String {
        let text = format!("{}-{}-{}", self.op, self.core, self.case);
        text.chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect()
    }

    /// Writes it into the folder, which is made if it is not there, under its name.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write_into(&self, folder: &Path) -> Result<PathBuf, CaptureError> {
        let path = folder.join(self.file_name());
        let failed = |source| CaptureError::Write { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(&path, self.to_bytes()).map_err(failed)?;
        Ok(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no capture, is one of another version, or is damaged.
    pub fn read(path: &Path) -> Result<Self, CaptureError> {
        let bytes = std::fs::read(path)
            .map_err(|source| CaptureError::Read { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes).map_err(|error| error.of(path))
    }
}
