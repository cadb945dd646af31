//! What kind of refusal each error of a model is, for programs that go by codes.

use udo_api::Status;

use super::{CompileError, RunError};
use crate::device::{Error, ErrorCode};
use crate::memory::Budget;
use crate::place::PlaceError;
use crate::plan::PlanError;
use crate::resolve::ResolveError;
use crate::session::{PortError, RoomError};

impl CompileError {
    /// What kind of refusal it is.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Memory(_) | Self::Elements(_) => ErrorCode::OutOfMemory,
            Self::Threads(_)
            | Self::Affinity(_)
            | Self::InPlace(_)
            | Self::Output(_)
            | Self::Plan(PlanError::InPlace(_)) => ErrorCode::InvalidArgument,
            Self::Resolve(ResolveError::Worker { .. }) => ErrorCode::WorkerLost,
            Self::Place(PlaceError::Finalize { refusal, .. })
                if refusal.status == Status::WORKER =>
            {
                ErrorCode::WorkerLost
            }
            Self::Resolve(_) | Self::Place(_) | Self::Hta(_) | Self::FastMath { .. } => {
                ErrorCode::Unsupported
            }
            Self::Cache(error) => error.code(),
            Self::Device(error) => error.code(),
            Self::Pass(_) | Self::Plan(_) => ErrorCode::Internal,
        }
    }
}

impl CompileError {
    /// Whether there would be none if there were more memory.
    pub(super) fn is_of_memory(&self, budget: &Budget) -> bool {
        budget.has_refused() || self.code() == ErrorCode::OutOfMemory
    }
}

impl From<RoomError> for CompileError {
    fn from(error: RoomError) -> Self {
        match error {
            RoomError::Session(error) => Self::Memory(error),
            RoomError::Device(error) => Self::Device(error),
        }
    }
}

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

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Self::of(error.code(), &error)
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
