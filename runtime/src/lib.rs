//! Runs graphs of built-in and user-defined operators on emulated cores.
//!
//! A [`Runtime`] has operators and devices. It loads a [`Model`], and a [`Session`] runs the model on [`Tensor`]s. The
//! modules contain their options and results. Tools that inspect graphs, plans and packages use the crates `udo-graph`,
//! `udo-engine` and `udo-compile`.

mod builtin;
mod executor;
mod model;
mod pipeline;
pub mod quant;
mod runtime;
mod session;

/// The cache of packed constants on disk.
pub mod cache {
    pub use udo_engine::cache::{CacheError, CacheOptions, CacheOutcome, CacheReport};
}

/// Options and results of compiling a model.
pub mod compile {
    pub use crate::model::{Surveyed, support, survey};
    pub use crate::pipeline::CompileError;
    pub use udo_compile::options::{
        Affinity, BindOptions, Fallback, InputSet, PassOptions, Performance, PlaceOptions,
        PlanOptions, RangeSource, Ranges,
    };
    pub use udo_compile::pass::PassResult;
    pub use udo_compile::plan::{CoreMemory, NodeReport, Plan, StepReport};
    pub use udo_compile::resolve::{Coverage, Input, MissingOp, ResolveError};
}

/// Devices, and tensors in their memory.
pub mod device {
    pub use udo_engine::device::{
        Coded, Coherence, CoreSet, DeviceId, DeviceSpec, DeviceTensor, Devices, ErrorCode, Extent,
        HeapStats, TensorSpec, Usage,
    };
}

/// Graphs, imported from files or built by a program.
pub mod graph {
    pub use udo_graph::graph::{
        Attr, DimSpec, Graph, GraphError, Node, NodeId, ParseError, Source, TensorType, Value,
        ValueId,
    };
    pub use udo_graph::import::{ImportError, ImportOptions};
}

/// Packages of operators: trust and containment.
pub mod package {
    pub use udo_engine::contain::Containment;
    pub use udo_engine::package::{OpenError, Trust};
}

/// Asynchronous runs.
pub mod run {
    pub use crate::session::{
        IoTensors, PortError, RunError, SessionOptions, Span, SpanKind, StepError, StepProfile,
        Trace, Workspace,
    };
    pub use udo_engine::run::{
        Copies, Launch, Priority, RunLog, RunOptions, SharedWorkspace, Stream,
    };
}

pub use builtin::operators as builtin_operators;
pub use model::Model;
pub use runtime::{
    Builder, DeviceReport, LoadError, LoadOptions, LoadSource, Network, Networks, Runtime,
    RuntimeReport,
};
pub use session::{Session, SessionPool};
pub use udo_api::{Core, DType, Shape};
pub use udo_compile::options::CompileOptions;
pub use udo_compile::plan::Report;
pub use udo_engine::device::{Device, Error};
pub use udo_engine::run::Run;
pub use udo_graph::memory::Tensor;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../docs/devices-and-memory.md")]
mod devices_and_memory {}
