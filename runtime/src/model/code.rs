//! What kind of refusal each error of a model is, for programs that go by codes.

use udo_api::Status;

use super::{CompileError, RunError};
use crate::session::PortError;
use udo_engine::device::{Error, ErrorCode};

impl RunError {
    /// What kind of refusal it is.
    pub fn code(&self) -> ErrorCode {
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

impl PortError {
    /// What kind of refusal it is.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::WrongTensor { .. } => ErrorCode::ShapeMismatch,
            Self::NoShapes { .. } => ErrorCode::InvalidState,
            Self::NoSuchPort { .. } => ErrorCode::InvalidArgument,
        }
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::of(error.code(), &error)
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        Self::of(error.code(), &error)
    }
}
