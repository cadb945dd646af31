//! Structures of an operator: ports, parameters, facts, and its shape inference.

use super::node::InferArgs;
use super::value::Value;
use crate::core::Core;
use crate::dtype::TypeSet;
use crate::span::{RawStr, Slice};

abi_struct! {
    /// The element types that a port takes on one core.
    #[derive(Clone, Copy, Debug)]
    pub struct CoreTypes {
        pub(crate) core: Core,
        pub(crate) types: TypeSet,
    }
}

abi_struct! {
    /// An input or output of an operator.
    #[derive(Clone, Copy, Debug)]
    pub struct Port {
        pub(crate) name: RawStr,
        pub(crate) types: TypeSet,
        pub(crate) flags: u32,
        pub(crate) per_core: Slice<CoreTypes>,
        pub(crate) default: Value,
        pub(crate) reserved: [u64; 2],
    }
}

abi_struct! {
    /// A parameter (attribute) of an operator.
    #[derive(Clone, Copy, Debug)]
    pub struct Param {
        pub(crate) name: RawStr,
        pub(crate) attribute: RawStr,
        pub(crate) kind: u32,
        pub(crate) flags: u32,
        pub(crate) dtype: u32,
        pub(crate) types: TypeSet,
        pub(crate) default: Value,
        pub(crate) reserved: [u64; 2],
    }
}

/// Facts that passes may rely on, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Facts(pub(crate) u32);

abi_struct! {
    /// The core-independent properties of an operator.
    #[derive(Clone, Copy, Debug)]
    pub struct OpSchema {
        pub(crate) name: RawStr,
        pub(crate) domain: RawStr,
        pub(crate) inputs: Slice<Port>,
        pub(crate) outputs: Slice<Port>,
        pub(crate) params: Slice<Param>,
        pub(crate) facts: Facts,
        pub(crate) reserved_word: u32,
        pub(crate) reserved: [u64; 4],
    }
}

abi_struct! {
    /// An entry of a package's operator table.
    #[derive(Clone, Copy, Debug)]
    pub struct OpDef {
        pub(crate) schema: OpSchema,
        // SAFETY: only a type; the host calls through it with arguments that are valid as the ABI says.
        pub(crate) infer: unsafe extern "C" fn(args: *const InferArgs) -> u32,
        pub(crate) reserved: [u64; 2],
    }
}
