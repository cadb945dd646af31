//! The HTA: what it takes, its bytecode, checked and run.
//!
//! The HTA is a fixed-point accelerator that runs whole networks, or parts of them, which were compiled for it offline.
//! It is emulated, and what is here is all of it: SoCs with their memories and rules ([`SOCS`]), a compiler from a
//! [`Network`] to bytecode ([`compile()`]), a verifier ([`Program::load`]) and an interpreter ([`Prepared::run`]). It knows
//! no files, no graphs of the runtime and no kernels; bytes come in and go out.
//!
//! | step | function | what it may do |
//! |---|---|---|
//! | describe | [`Network::new`] | checks shapes, encodings and the order of layers |
//! | compile | [`compile()`] | asks the SoC's rules, gives everything a static address, cuts layers into tiles |
//! | load | [`Program::load`] | decodes bytes that nobody vouches for, and checks every access of every trip |
//! | prepare | [`Program::prepare`] | packs weights for the machine's vectors; allocates |
//! | run | [`Prepared::run`] | computes, without the heap |
//!
//! # Numbers
//!
//! Values are unsigned bytes of one encoding per tensor. Sums of products are exact; what becomes of them is multiplied
//! with an `f32` ratio, rounded half to even and saturated, as ONNX's quantized operators and the runtime's kernels for
//! them do. Both rest on the same primitives (`udo_simd`), so results are the same bit for bit, and how a network is cut
//! makes no difference to them.
//!
//! # Memory
//!
//! What a network fits into, stays on the chip from its maker to its last reader. Where there is too little room, the
//! largest tensors at that point pass through the chip in tiles of output rows, with the rows around them that windows
//! reach, and lie in memory off the chip meanwhile. Weights are read from the constants by way of a memory of their own;
//! layers with more weights than it holds are cut by output channels.
//!
//! `docs/hta-bytecode.md` has the format field by field, and the rules of SoCs.
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
//! let bytes = compile(&network, Soc::named("hta100").ok_or("no such SoC")?)?;
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
