//! Compilation errors, and their codes.

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

use crate::executor::{PlanMemoryError, SessionError};
use udo_engine::device::{Coded, ErrorContext};

/// The reason why a graph cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A node has no operator or does not match it.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass left an invalid graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// Nodes cannot be pinned to cores.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// The model has no valid HTA programs.
    #[error(transparent)]
    Hta(Box<HtaError>),
    /// No core accepts a node.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// An input and an output cannot share memory.
    #[error(transparent)]
    InPlace(#[from] InPlaceError),
    /// A requested value does not exist.
    #[error(transparent)]
    Output(#[from] NoSuchValue),
    /// The placed graph cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The threads cannot be started.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// The machine does not support the requested fast math.
    #[error(
        "bf16 products need a processor with AVX512-BF16, and an instruction set in use that has it: found {found}"
    )]
    FastMath {
        /// The instruction set in use.
        found: String,
    },
    /// There is not enough memory for a session.
    #[error(transparent)]
    Memory(#[from] SessionError),
    /// The prepared section of the model's file is damaged.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The device does not exist.
    #[error(transparent)]
    Device(#[from] Error),
    /// No stage of the model matches the shapes of the inputs, or the stage cannot be compiled.
    #[error(transparent)]
    Stage(Error),
    /// There is no memory for the elements that the part after a plan depends on.
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
    /// Returns whether more memory would help.
    pub(crate) fn is_of_memory(&self, budget: &Budget) -> bool {
        budget.has_refused() || self.code() == ErrorCode::OutOfMemory
    }
}

impl From<PlanMemoryError> for CompileError {
    fn from(error: PlanMemoryError) -> Self {
        match error {
            PlanMemoryError::Session(error) => Self::Memory(error),
            PlanMemoryError::Device(error) => Self::Device(error),
        }
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Self::from_source(error.code(), &error)
    }
}
