//! A kernel call with everything needed to repeat it, in one file.

mod file;
mod json;

use std::path::{Path, PathBuf};

use udo_api::TensorDesc;
use udo_host::ParamSetting;

pub use file::CaptureError;

/// The extension of capture files.
const SUFFIX: &str = "capture";

/// A recorded kernel call, its outputs, and the reason for the recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// The package's path, or `builtin`.
    pub package: String,
    /// The SHA-256 of the package's index, or of its registration library if it has no index; empty for built-in
    /// operators.
    pub digest: String,
    /// The operator, with its domain if it has one.
    pub op: String,
    /// The core.
    pub core: String,
    /// The failed case of the check, or one of [`RUN_CASES`].
    pub case: String,
    /// Why the case failed.
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

/// The cases of captures that a model run writes: an error status, a NaN, use of the heap, or the end of the process.
pub const RUN_CASES: [&str; 4] = ["run/status", "run/nan", "run/heap", "run/crash"];

/// An input of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedInput {
    /// Absent if the node leaves it out.
    pub desc: TensorDesc,
    /// Its dimensions in the call.
    pub dims: Vec<usize>,
    /// Whether it is a constant.
    pub is_constant: bool,
    /// Its elements.
    pub bytes: Vec<u8>,
}

/// An output of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedOutput {
    /// Absent if the node leaves it out.
    pub desc: TensorDesc,
    /// The dimensions and elements that the kernel wrote, if it ran that far.
    pub found: Option<(Vec<usize>, Vec<u8>)>,
    /// The expected results, if there is an oracle.
    pub wanted: Option<CapturedWanted>,
}

/// The expected results of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedWanted {
    /// The oracle.
    pub by: String,
    /// The dimensions, if the oracle determines them.
    pub dims: Option<Vec<usize>>,
    /// The dequantized values of the elements.
    pub numbers: Vec<f64>,
    /// The tolerance of each element, if the oracle states one.
    pub allowed: Option<Vec<f64>>,
}

impl Capture {
    /// Returns the file name: the operator, the core and the case.
    pub fn file_name(&self) -> String {
        format!("{}.{SUFFIX}", self.file_stem())
    }

    /// Returns the file name without its extension.
    pub(crate) fn file_stem(&self) -> String {
        let text = format!("{}-{}-{}", self.op, self.core, self.case);
        text.chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect()
    }

    /// Writes the capture into `folder`, which is created if necessary, under its own name.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn write_into(&self, folder: &Path) -> Result<PathBuf, CaptureError> {
        let path = folder.join(self.file_name());
        let failed = |source| CaptureError::Write { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        udo_files::write(&path, &self.to_bytes()).map_err(failed)?;
        Ok(path)
    }

    /// Reads a capture file.
    ///
    /// # Errors
    /// The file cannot be read, is not a capture, has another version, or is damaged.
    pub fn read(path: &Path) -> Result<Self, CaptureError> {
        let bytes = udo_files::read(path, udo_files::BINARY_BYTES)
            .map_err(|source| CaptureError::Read { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes).map_err(|error| error.at_path(path))
    }
}
