//! Why a graph cannot be made to run, and what kind of refusal each error is, for programs that go by codes.

use udo_api::Status;
use udo_compile::hta::HtaError;
use udo_compile::pass::PassError;
use udo_compile::place::{AffinityError, PlaceError};
use udo_compile::plan::PlanError;
use udo_compile::resolve::ResolveError;
use udo_engine::cache::CacheError;
use udo_engine::thread_pool::PoolError;
use udo_graph::error::{Error, ErrorCode};
use udo_graph::graph::{InPlaceError, NoSuchValue};
use udo_graph::memory::{Budget, TensorError};

use crate::executor::{RoomError, SessionError};
use udo_engine::device::{Coded, ErrorContext};

/// Why a graph cannot be made to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A node has no operator, or does not fit it.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass broke the graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// Nodes cannot be pinned to cores.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// The HTA has no programs for the model, or none that are right.
    #[error(transparent)]
    Hta(Box<HtaError>),
    /// A node has no core.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// An input and an output cannot be in one place.
    #[error(transparent)]
    InPlace(#[from] InPlaceError),
    /// A value that is asked for is not there.
    #[error(transparent)]
    Output(#[from] NoSuchValue),
    /// The placed graph cannot be laid out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are not as many threads as were asked for.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// The machine does not compute as inexactly as was asked for.
    #[error(
        "products of bf16 want a processor with AVX512-BF16, and an instruction set in use that has it: found {found}"
    )]
    FastMath {
        /// The instruction set in use.
        found: String,
    },
    /// There would be no memory for a session.
    #[error(transparent)]
    Memory(#[from] SessionError),
    /// What its file was prepared with is damaged.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There is no such device.
    #[error(transparent)]
    Device(#[from] Error),
    /// No stage of the model is for the shapes of the inputs, or it cannot be compiled.
    #[error(transparent)]
    Stage(Error),
    /// There is no memory for the elements that what is behind a plan wants to know.
    #[error(transparent)]
    Elements(#[from] TensorError),
}

impl From<HtaError> for CompileError {
    fn from(error: HtaError) -> Self {
        Self::Hta(Box::new(error))
    }
}

impl Coded for CompileError {
    fn code(&self) -> ErrorCode {
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
            Self::Device(error) | Self::Stage(error) => error.code(),
            Self::Pass(_) | Self::Plan(_) => ErrorCode::Internal,
        }
    }
}

impl CompileError {
    /// Whether there would be none if there were more memory.
    pub(crate) fn is_of_memory(&self, budget: &Budget) -> bool {
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

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Self::of(error.code(), &error)
    }
}
