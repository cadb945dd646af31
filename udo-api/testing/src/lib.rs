//! Runs one operator or kernel without a model, through the functions that a runtime calls.
//!
//! A [`Bench`] takes inputs, parameters and a core. It runs every kernel that accepts them, in every mode that the
//! kernel declares: separate from its input and in place, with contiguous and with strided rows, and with channels
//! last. All results must match. Writes outside of outputs and scratch are detected.
//!
//! A [`PreparedKernel`] is the level below: a kernel finalized for one node, with calls controlled by [`How`] in
//! memory of a [`Host`]. `udo check` has a host of its own, with guard pages around each tensor.
//!
//! ```
//! use udo_api::{Core, Error, ExecError, FinalizeCx, Io, Kernel, KernelDef, input, output_like, types};
//! use udo_testing::{Bench, assert_near, tensor};
//!
//! struct Doubled;
//!
//! impl Kernel for Doubled {
//!     fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
//!         Ok(Self)
//!     }
//!
//!     fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
//!         let x = io.inputs.get::<f32>(0)?;
//!         for (y, x) in io.outputs.take::<f32>(0)?.iter_mut().zip(x) {
//!             *y = 2.0 * x;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! const KERNEL: KernelDef =
//!     KernelDef::new::<Doubled>("Doubled", Core::CPU).ports(&[input(0, types::F32), output_like(0, 0)]);
//!
//! let bench = Bench::kernel(KERNEL).input(tensor(&[3], &[1f32, -2.0, 0.5])).like_input();
//! assert_near(&bench.one().values::<f32>(), &[2.0, -4.0, 1.0], 1e-6);
//! ```

#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

mod bench;
mod call;
mod candidate;
mod epilogue;
mod host;
mod near;
mod port;
mod prepared;
mod run;
mod tensor;

pub use bench::{Bench, Fault, Outcome};
pub use call::Order;
pub use candidate::Candidate;
pub use host::{HeapUse, Host, Memory, MemoryError, Plain, Role};
pub use near::{assert_near, assert_near_constant, assert_near_varied, is_near, noise};
pub use prepared::{
    CallError, How, Mode, NodeInput, NodeSpec, Output, Placement, PreparedKernel, Run, VTCM_BYTES,
};
pub use tensor::{Tensor, tensor};
