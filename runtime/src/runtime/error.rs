//! Load errors, and their codes.

use crate::pipeline::CompileError;
use crate::quant::QuantError;
use udo_engine::cache::CacheError;
use udo_engine::device::{Coded, Error, ErrorCode, ErrorContext};
use udo_engine::package::OpenError;
use udo_graph::container::ContainerError;
use udo_graph::import::ImportError;
use udo_graph::memory::Limit;

/// The reason why a runtime cannot be created or a model cannot be loaded. Converting it to [`Error`] keeps its code
/// and puts everything into one message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A package is refused.
    #[error(transparent)]
    Package(#[from] OpenError),
    /// A file cannot be imported.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// A model file is damaged or lacks what is requested.
    #[error("{name}: {reason}")]
    ModelFile {
        /// The name of the file.
        name: String,
        /// The reason.
        reason: Box<ContainerError>,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The graph cannot be compiled.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The graph cannot be compiled within its memory limit.
    #[error("{}", Error::from_source(ErrorCode::OutOfMemory, reason.as_ref()))]
    OutOfMemory {
        /// The limit.
        limit: Limit,
        /// The failure that it caused.
        reason: Box<CompileError>,
    },
    /// The model cannot be quantized at load.
    #[error("the model is a float model, and quantizing it at load fails: {0}")]
    Quantize(Box<QuantError>),
    /// A device does not match the request, or an argument is invalid.
    #[error(transparent)]
    Device(#[from] Error),
}

impl Coded for LoadError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Package(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::ModelFile { reason, .. } => reason.code(),
            Self::Cache(error) => error.code(),
            Self::Compile(error) => error.code(),
            Self::OutOfMemory { .. } => ErrorCode::OutOfMemory,
            Self::Quantize(error) => error.code(),
            Self::Device(error) => error.code(),
        }
    }
}

impl From<ImportError> for LoadError {
    fn from(error: ImportError) -> Self {
        Self::Import(Box::new(error))
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        Self::Compile(Box::new(error))
    }
}

impl From<QuantError> for LoadError {
    fn from(error: QuantError) -> Self {
        match error {
            // The CPU refuses the model itself, whatever cores were requested.
            error @ QuantError::Compile(CompileError::Place(_)) => Self::Quantize(Box::new(error)),
            QuantError::Compile(error) => error.into(),
            QuantError::Resolve(error) => CompileError::from(error).into(),
            error => Self::Quantize(Box::new(error)),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        match error {
            // Includes the next step.
            LoadError::Package(error) => error.into(),
            LoadError::Device(error) => error,
            error => Self::from_source(error.code(), &error),
        }
    }
}
