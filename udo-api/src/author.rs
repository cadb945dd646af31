//! The arguments of an author's functions: contexts before a run, and views of a call's tensors during it.
//!
//! | module | content | used by |
//! |---|---|---|
//! | `infer` | [`InferCx`] | [`Op::infer`](crate::Op::infer) |
//! | `param` | [`ParamTensor`], a parameter that is a tensor | callers of [`Node`] |
//! | `finalize` | [`AcceptCx`], [`FinalizeCx`] | `accept` and `finalize` of [`Kernel`](crate::Kernel) and [`GpuKernel`](crate::GpuKernel) |
//! | `epilogue` | [`EpilogueOp`], [`Activation`]: what a kernel may do to its output before it stores it | callers of [`AcceptCx::epilogue`] |
//! | `pack` | [`Packed`], [`Sources`], [`PackedConstants`]: constants in a layout that the kernel chooses | [`FinalizeCx::pack`], its function, execute |
//! | `workspace` | [`Workspace`](crate::Workspace): the sizes of scratch and geometry | the host |
//! | `io`, `rows` | [`Io`]: inputs, outputs, scratch, geometry | [`Kernel::execute`](crate::Kernel::execute) |
//! | `parallel` | [`Parallel`], the host's threads | execute, in [`Io`], and packers, in [`Sources`] |
//! | `work_items` | [`WorkItem`], [`Buffers`] | work items of a [`GpuKernel`](crate::GpuKernel) |
//!
//! These types wrap the structures of [`abi`](crate::abi), so that authors write no unsafe code. They do not depend on
//! the authors' traits, which are built on them.

mod epilogue;
mod finalize;
mod infer;
mod io;
mod node;
mod pack;
mod parallel;
mod param;
mod rows;
mod work_items;
mod workspace;

pub use epilogue::{Activation, EpilogueOp};
pub use finalize::{AcceptCx, FinalizeCx};
pub use infer::InferCx;
pub use io::{Extents, Geometry, InputShapes, Inputs, Io, Outputs, Pair, Scratch};
pub(crate) use io::{Pending, to_prepare};
pub use node::{Node, resolve_axis};
pub use pack::{FillFn, Packed, PackedConstants, Sources};
pub use parallel::Parallel;
pub use param::ParamTensor;
pub use rows::{Rows, RowsMut};
pub use work_items::{Buffers, WorkItem};
pub(crate) use work_items::{MAX_OUTPUTS, ScratchBuffers, SharedBuffers};
