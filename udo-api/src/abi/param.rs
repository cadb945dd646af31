//! The value of a parameter as it crosses to a package.

use super::Span;
use super::node::slice_or_empty;
use crate::{DType, Element, Error, TensorDesc};

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

impl ParamValue {
    /// The bytes of the name.
    ///
    /// # Safety
    /// `name` must be valid for as long as `self` is borrowed.
    pub(super) unsafe fn name(&self) -> &[u8] {
        // SAFETY: the caller vouches for pointer and length.
        unsafe { slice_or_empty(self.name.ptr, self.name.bytes) }
    }
}

/// A parameter that is a tensor, with the element type and the shape that the model gives it.
#[derive(Clone, Copy, Debug)]
pub struct ParamTensor<'a> {
    name: &'a str,
    desc: &'a TensorDesc,
    bytes: &'a [u8],
}

impl<'a> ParamTensor<'a> {
    /// Nothing where the host's description does not fit its bytes.
    ///
    /// # Safety
    /// The pointers of `value` must be valid for `'a`, and its elements aligned for their type.
    pub(super) unsafe fn from_raw(value: &'a ParamValue) -> Option<Self> {
        // SAFETY: the caller vouches for `desc`, which is null or points to a description.
        let desc = unsafe { value.desc.as_ref() }.filter(|desc| desc.is_sound())?;
        if desc.is_absent() || desc.size_bytes() != value.data.bytes {
            return None;
        }
        // SAFETY: the caller vouches for as many bytes as the span says.
        let bytes = unsafe { slice_or_empty(value.data.ptr, value.data.bytes) };
        // SAFETY: the caller vouches for the name.
        let name = std::str::from_utf8(unsafe { value.name() }).ok()?;
        Some(Self { name, desc, bytes })
    }

    /// Element type and shape.
    pub fn desc(&self) -> &'a TensorDesc {
        self.desc
    }

    /// The bytes of the elements, outermost dimension first.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The elements, outermost dimension first.
    ///
    /// # Errors
    /// The tensor is not of type `T`.
    pub fn get<T: Element>(&self) -> Result<&'a [T], Error> {
        if self.desc.dtype() == Some(T::DTYPE) {
            // SAFETY: `bytes` are elements of `T`, aligned as `from_raw` was promised.
            return Ok(unsafe {
                slice_or_empty(self.bytes.as_ptr().cast(), self.bytes.len() / size_of::<T>())
            });
        }
        let (name, found) = (self.name, self.desc.dtype().map_or("absent", DType::name));
        Err(Error::new(format!("parameter {name:?} is a tensor of {found}, wanted {}", T::DTYPE)))
    }
}

/// The refusal of a parameter whose value has another kind than asked for.
pub(super) fn wrong_kind(name: &str, found: u32, wanted: &str) -> Error {
    let found = match found {
        param_kinds::INT => "an integer",
        param_kinds::FLOAT => "a real number",
        param_kinds::TEXT => "text",
        param_kinds::INTS => "integers",
        param_kinds::FLOATS => "real numbers",
        param_kinds::TENSOR => "a tensor",
        param_kinds::TEXTS => "texts",
        _ => "of an unknown kind",
    };
    Error::new(format!("parameter {name:?} is {found}, wanted {wanted}"))
}
