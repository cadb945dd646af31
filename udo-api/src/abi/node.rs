//! Structures of a node: its tensors, its parameters, and the sink for messages.

use std::ffi::c_void;

use crate::span::Span;
use crate::tensor::TensorDesc;

abi_struct! {
    /// The sink for the error message of a callee.
    #[derive(Debug)]
    pub struct ErrorSink {
        /// The size of this structure in the creator's version.
        pub size: u32,
        /// Zero.
        pub reserved: u32,
        /// The context to pass to `write`.
        pub ctx: *mut c_void,
        /// `[finalize-time]` Appends UTF-8 text.
        // SAFETY: only a type; callers follow the description above.
        pub write: unsafe extern "C" fn(ctx: *mut c_void, text: *const u8, bytes: usize),
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

/// Values of [`ParamValue::kind`].
pub mod param_kinds {
    /// The node does not set the parameter, and the schema has no default.
    pub const ABSENT: u32 = 0;
    /// An integer or a bool, in `int`.
    pub const INT: u32 = 1;
    /// A floating-point number, in `float`.
    pub const FLOAT: u32 = 2;
    /// A UTF-8 string, in `data`.
    pub const TEXT: u32 = 3;
    /// `i64`s, in `data`.
    pub const INTS: u32 = 4;
    /// `f64`s, in `data`.
    pub const FLOATS: u32 = 5;
    /// Elements in `data`, of the type and shape in `desc`.
    pub const TENSOR: u32 = 6;
    /// [`Span`](super::Span)s of UTF-8 strings, in `data`.
    pub const TEXTS: u32 = 7;
}

abi_struct! {
    /// One parameter of a node, checked against the schema, with its default applied.
    #[derive(Clone, Copy, Debug)]
    pub struct ParamValue {
        /// The parameter's name.
        pub name: Span,
        /// See [`param_kinds`].
        pub kind: u32,
        /// Zero.
        pub reserved: u32,
        /// The value of an integer or a bool.
        pub int: i64,
        /// The value of a floating-point number.
        pub float: f64,
        /// The values of all other kinds, aligned for their type; a tensor's elements to 64 bytes.
        pub data: Span,
        /// Type and shape of a tensor; null for all other kinds.
        pub desc: *const TensorDesc,
    }
}

abi_struct! {
    /// A node in the describe and finalize phases.
    #[derive(Debug)]
    pub struct NodeArgs {
        /// `input_count` descriptions.
        pub inputs: *const TensorDesc,
        /// `input_count` spans; null for inputs that are not constant.
        pub constants: *const Span,
        /// `param_count` values.
        pub params: *const ParamValue,
        /// The number of inputs, including absent ones.
        pub input_count: u32,
        /// The number of outputs, including absent ones.
        pub output_count: u32,
        /// The number of the schema's parameters.
        pub param_count: u32,
        /// The operator set version of the node; 0 without one.
        pub opset: u32,
        /// The sink for error messages.
        pub errors: *const ErrorSink,
        /// Zero.
        pub reserved_words: [u64; 4],
    }
}

abi_struct! {
    /// The arguments of shape inference.
    #[derive(Debug)]
    pub struct InferArgs {
        /// The size of this structure in the creator's version.
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
