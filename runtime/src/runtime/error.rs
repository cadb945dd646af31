//! Why there is no runtime, or no model.

use crate::pipeline::CompileError;
use crate::quant::QuantError;
use udo_engine::cache::CacheError;
use udo_engine::device::{Coded, Error, ErrorCode, ErrorContext};
use udo_engine::package::OpenError;
use udo_graph::container::ContainerError;
use udo_graph::import::ImportError;
use udo_graph::memory::Limit;

/// Why there is no runtime, or no model. An [`Error`] made of it has its code, and says all of it in one text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A package is refused.
    #[error(transparent)]
    Package(#[from] OpenError),
    /// A file gives no graph.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// A model file is damaged, or has not what is asked of it.
    #[error("{name}: {reason}")]
    ModelFile {
        /// What to call the file.
        name: String,
        /// Why.
        reason: Box<ContainerError>,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The graph cannot be made to run.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The graph cannot be made to run within the memory that it may take.
    #[error("{}", Error::of(ErrorCode::OutOfMemory, reason.as_ref()))]
    OutOfMemory {
        /// The limit that was met.
        limit: Limit,
        /// What was refused for that.
        reason: Box<CompileError>,
    },
    /// The graph is to be quantized while it is loaded, and cannot be.
    #[error("the model is in numbers, and quantizing it while it is loaded fails: {0}")]
    Quantize(Box<QuantError>),
    /// A device cannot be as asked, or an argument is wrong.
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
            // A refusal of the model on the CPU, whichever cores are asked for.
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
            // It says what to do next as well.
            LoadError::Package(error) => error.into(),
            LoadError::Device(error) => error,
            error => Self::of(error.code(), &error),
        }
    }
}
