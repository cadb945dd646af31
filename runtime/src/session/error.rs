//! Run errors, and their codes.

use udo_api::Status;

use crate::executor::{PortError, StepError};
use crate::pipeline::CompileError;
use udo_engine::device::{Coded, Error, ErrorCode, ErrorContext};

/// The reason why a run failed. The session can run again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No plan can be made for the shapes of the inputs.
    #[error(transparent)]
    Prepare(#[from] CompileError),
    /// A kernel failed.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl Coded for RunError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Prepare(error) => match (error, error.code()) {
                (CompileError::Resolve(_), ErrorCode::Unsupported) => ErrorCode::ShapeMismatch,
                (_, code) => code,
            },
            Self::Step(step) if step.error.status == Status::WORKER => ErrorCode::WorkerLost,
            Self::Step(_) => ErrorCode::Internal,
        }
    }
}

impl Coded for PortError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::WrongTensor { .. } => ErrorCode::ShapeMismatch,
            Self::NoShapes { .. } => ErrorCode::InvalidState,
            Self::NoSuchPort { .. } => ErrorCode::InvalidArgument,
        }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::from_source(error.code(), &error)
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        Self::from_source(error.code(), &error)
    }
}
