//! Model in, results out: runs graphs of built-in and user operators on emulated cores.
//!
//! A [`Runtime`] has operators and devices and loads a [`Model`]; a [`Session`] runs the model over [`Tensor`]s. The modules have their
//! options, errors and reports. Tools that look inside graphs, plans and packages use the crates below this one: `udo-graph`,
//! `udo-engine` and `udo-compile`.

mod builtin;
mod executor;
mod model;
mod pipeline;
pub mod quant;
mod runtime;
mod session;

/// The cache of prepacked weights, which later processes load.
pub mod cache {
    pub use udo_engine::cache::{CacheError, CacheOptions, CacheOutcome, CacheReport};
}

/// How a model is compiled, and the reports of that.
pub mod compile {
    pub use crate::model::{Surveyed, support, survey};
    pub use crate::pipeline::CompileError;
    pub use udo_compile::options::{
        Affinity, BindOptions, Fallback, InputSet, PassOptions, Performance, PlaceOptions,
        PlanOptions, Ranges, RangesOf,
    };
    pub use udo_compile::pass::Fired;
    pub use udo_compile::plan::{CoreMemory, NodeReport, Plan, StepReport};
    pub use udo_compile::resolve::{Coverage, Input, MissingOp, ResolveError};
}

/// Devices and tensors in their memory.
pub mod device {
    pub use udo_engine::device::{
        Coded, Coherence, CoreSet, DeviceId, DeviceSpec, DeviceTensor, Devices, ErrorCode, Extent,
        HeapStats, TensorSpec, Usage,
    };
}

/// Graphs: read from files, built and edited.
pub mod graph {
    pub use udo_graph::graph::{
        Attr, DimSpec, Graph, GraphError, Node, NodeId, ParseError, Source, TensorType, Value,
        ValueId,
    };
    pub use udo_graph::import::{ImportError, ImportOptions};
}

/// Packages of operators: whose signatures are trusted, and which packages run in a worker process.
pub mod package {
    pub use udo_engine::contain::Containment;
    pub use udo_engine::package::{OpenError, Trust};
}

/// Runs: their options, memory, errors and traces.
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
