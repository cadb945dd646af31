//! Tensor parameters, and errors for parameters of another kind.

use crate::abi::{ParamValue, param_kinds};
use crate::dtype::DType;
use crate::element::{Bits, Element};
use crate::error::Error;
use crate::span::slice_or_empty;
use crate::tensor::TensorDesc;

impl ParamValue {
    /// Returns the bytes of the name.
    ///
    /// # Safety
    /// `name` must be valid for as long as `self` is borrowed.
    pub(super) unsafe fn name(&self) -> &[u8] {
        // SAFETY: the caller guarantees pointer and length.
        unsafe { slice_or_empty(self.name.ptr, self.name.bytes) }
    }
}

/// A tensor parameter with the element type and shape of the model.
#[derive(Clone, Copy, Debug)]
pub struct ParamTensor<'a> {
    name: &'a str,
    desc: &'a TensorDesc,
    bytes: &'a [u8],
}

impl<'a> ParamTensor<'a> {
    /// Returns `None` if the host's description does not fit its bytes.
    ///
    /// # Safety
    /// The pointers of `value` must be valid for `'a`, and its elements aligned for their type.
    pub(super) unsafe fn from_raw(value: &'a ParamValue) -> Option<Self> {
        // SAFETY: the caller guarantees that `desc` is null or points to a description.
        let desc = unsafe { value.desc.as_ref() }.filter(|desc| desc.is_sound())?;
        if desc.is_absent() || desc.size_bytes() != value.data.bytes {
            return None;
        }
        // SAFETY: the caller guarantees the bytes of the span.
        let bytes = unsafe { slice_or_empty(value.data.ptr, value.data.bytes) };
        // SAFETY: the caller guarantees the name.
        let name = std::str::from_utf8(unsafe { value.name() }).ok()?;
        Some(Self { name, desc, bytes })
    }

    /// Returns element type and shape.
    pub fn desc(&self) -> &'a TensorDesc {
        self.desc
    }

    /// Returns the bytes of the elements, outermost dimension first.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements, outermost dimension first.
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
        Err(self.wrong_type(T::DTYPE))
    }

    /// Returns the elements as their bits, for any type with the width of `B`.
    ///
    /// # Errors
    /// The tensor's type has another width.
    pub fn get_bits<B: Bits>(&self) -> Result<&'a [B], Error> {
        if self.desc.dtype().is_some_and(|dtype| dtype.size_bytes() == size_of::<B>()) {
            // SAFETY: `bytes` are elements of a type with the size of `B`, and so with its alignment, as `element` asserts.
            return Ok(unsafe {
                slice_or_empty(self.bytes.as_ptr().cast(), self.bytes.len() / size_of::<B>())
            });
        }
        Err(self.wrong_type(B::DTYPE))
    }

    fn wrong_type(&self, expected: DType) -> Error {
        let (name, found) = (self.name, self.desc.dtype().map_or("absent", DType::name));
        Error::new(format!("parameter {name:?} is a tensor of {found}, expected {expected}"))
    }
}

/// Creates the refusal of a parameter whose value has another kind than requested.
pub(super) fn wrong_kind(name: &str, found: u32, expected: &str) -> Error {
    let found = match found {
        param_kinds::INT => "an integer",
        param_kinds::FLOAT => "a float",
        param_kinds::TEXT => "a string",
        param_kinds::INTS => "integers",
        param_kinds::FLOATS => "floats",
        param_kinds::TENSOR => "a tensor",
        param_kinds::TEXTS => "strings",
        _ => "of an unknown kind",
    };
    Error::new(format!("parameter {name:?} is {found}, expected {expected}"))
}
