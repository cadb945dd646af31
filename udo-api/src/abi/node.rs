//! What crosses of a node: its tensors, its parameters, and where messages go.

use std::ffi::c_void;

use crate::span::Span;
use crate::tensor::TensorDesc;

abi_struct! {
    /// Where a callee writes the message of an error.
    #[derive(Debug)]
    pub struct ErrorSink {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// Handed back to `write`.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Appends UTF-8 text.
        // SAFETY: only a type; who calls through it keeps to what is written above.
        pub write: unsafe extern "C" fn(ctx: *mut c_void, text: *const u8, bytes: usize),
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

/// Values of [`ParamValue::kind`].
pub mod param_kinds {
    /// The node gives none, and the schema has no default.
    pub const ABSENT: u32 = 0;
    /// An integer or truth value, in `int`.
    pub const INT: u32 = 1;
    /// A real number, in `float`.
    pub const FLOAT: u32 = 2;
    /// UTF-8, in `data`.
    pub const TEXT: u32 = 3;
    /// `i64`s, in `data`.
    pub const INTS: u32 = 4;
    /// `f64`s, in `data`.
    pub const FLOATS: u32 = 5;
    /// Elements in `data`, of the type and shape in `desc`.
    pub const TENSOR: u32 = 6;
    /// [`Span`](super::Span)s of UTF-8, in `data`.
    pub const TEXTS: u32 = 7;
}

abi_struct! {
    /// One parameter of a node, checked against the schema and defaulted.
    #[derive(Clone, Copy, Debug)]
    pub struct ParamValue {
        /// The parameter's name.
        pub name: Span,
        /// See [`param_kinds`].
        pub kind: u32,
        /// Zero.
        pub reserved: u32,
        /// The value of an integer.
        pub int: i64,
        /// The value of a real number.
        pub float: f64,
        /// The values of all other kinds, aligned for what they are; a tensor's elements to 64 bytes.
        pub data: Span,
        /// Type and shape of a tensor; null for all other kinds.
        pub desc: *const TensorDesc,
    }
}

abi_struct! {
    /// A node as describe and finalize see it.
    #[derive(Debug)]
    pub struct NodeArgs {
        /// `input_count` descriptions.
        pub inputs: *const TensorDesc,
        /// `input_count` spans; null where an input is not constant.
        pub constants: *const Span,
        /// `param_count` values.
        pub params: *const ParamValue,
        /// The node's inputs, absent ones included.
        pub input_count: u32,
        /// The node's outputs, absent ones included.
        pub output_count: u32,
        /// The schema's parameters.
        pub param_count: u32,
        /// The operator-set version that the node comes from; 0 where there is none.
        pub opset: u32,
        /// Where errors go.
        pub errors: *const ErrorSink,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The arguments of shape inference.
    #[derive(Debug)]
    pub struct InferArgs {
        /// Bytes of this structure in the version of who made it.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The node.
        pub node: NodeArgs,
        /// `node.output_count` descriptions to fill in.
        pub outputs: *mut TensorDesc,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}
