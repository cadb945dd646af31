//! The emulated HTA (hardware tensor accelerator): SoC rules, compiler, bytecode, verifier and interpreter.
//!
//! The HTA is a fixed-point accelerator that runs networks, or parts of them, compiled ahead of time. This crate is the
//! complete emulation: SoCs with their memories and rules ([`SOCS`]), a compiler from a [`Network`] to bytecode
//! ([`compile()`]), a verifier ([`Program::load`]) and an interpreter ([`Prepared::run`]). It has no knowledge of
//! files, of the runtime's graphs or of its kernels; its interface is bytes.
//!
//! | step | function | task |
//! |---|---|---|
//! | describe | [`Network::new`] | checks shapes, encodings and the order of layers |
//! | compile | [`compile()`] | checks the SoC's rules, assigns static addresses, divides layers into tiles |
//! | load | [`Program::load`] | decodes untrusted bytes, and verifies every access of every iteration |
//! | prepare | [`Program::prepare`] | packs weights for the host's vector instructions; allocates |
//! | run | [`Prepared::run`] | computes the outputs, without heap allocation |
//!
//! # Arithmetic
//!
//! Values are unsigned bytes with one encoding per tensor. Sums of products are exact. They are multiplied by an `f32`
//! factor, rounded half to even and saturated, as in ONNX's quantized operators and the runtime's kernels. Both use the
//! primitives of `udo_simd`, so results agree bit for bit, and tiling does not change them.
//!
//! # Memory
//!
//! A tensor stays on the chip from its producer to its last consumer if it fits. Otherwise the largest tensors at that
//! point are kept off the chip and pass through it in tiles of output rows, with the overlap that windows need. Weights
//! are loaded from the constants into a separate memory; layers with more weights than it holds are divided by output
//! channels.
//!
//! `docs/hta-bytecode.md` documents the format field by field, and the rules of SoCs.
//!
//! # Example
//!
//! ```
//! use udo_hta::{
//!     Encoding, Layer, Limits, Network, Op, Program, Soc, Tensor, TensorId, Window, compile,
//! };
//!
//! let tensor = |name: &str, extent| Tensor {
//!     name: name.to_owned(),
//!     shape: [1, extent, extent, 3],
//!     encoding: Encoding { scale: 0.1, zero_point: 128 },
//!     values: None,
//! };
//! let window = Window { kernel: [2, 2], strides: [2, 2], ..Window::ONE };
//! let (x, y) = (TensorId(0), TensorId(1));
//! let pool = Layer {
//!     name: "pool".to_owned(),
//!     op: Op::MaxPool { window },
//!     inputs: vec![x],
//!     output: y,
//! };
//! let network =
//!     Network::new(vec![tensor("x", 4), tensor("y", 2)], vec![pool], vec![x], vec![y])?;
//! let bytes = compile(&network, Soc::from_name("hta100").ok_or("no such SoC")?)?;
//!
//! let program = Program::load(&bytes, &Limits::DEFAULT)?.prepare()?;
//! let input: Vec<u8> = (0..48).collect();
//! let mut output = [0; 12];
//! let mut scratch = vec![0; program.scratch_len()];
//! program.run(&[&input], &mut [&mut output], &mut scratch)?;
//! assert_eq!(output, [15, 16, 17, 21, 22, 23, 39, 40, 41, 45, 46, 47]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bytecode;
mod compile;
mod network;
mod run;
mod soc;
mod verify;

pub use bytecode::{
    At, AveragePool, Convolution, DecodeError, End, INSTRUCTIONS, Image, Instruction, Lines,
    Lookup, Loop, MAGIC, MaxPool, Pair, Resize, Softmax, Space, Transfer, VERSION,
    Window as TileWindow,
};
pub use compile::{CompileError, compile};
pub use network::{
    Divisor, Encoding, Kind, Layer, Network, NetworkError, Op, Tensor, TensorId, Values, Weights,
    Window,
};
pub use run::{Alone, Call, Parallel, PrepareError, Prepared, RunError};
pub use soc::{Limit, Refusal, SOCS, Soc};
pub use verify::{Limits, LoadError, Program};
