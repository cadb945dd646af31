//! Parameters that are tensors, and refusals of parameters of another kind.

use crate::abi::{ParamValue, param_kinds};
use crate::dtype::DType;
use crate::element::{Bits, Element};
use crate::error::Error;
use crate::span::slice_or_empty;
use crate::tensor::TensorDesc;

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
        Err(self.wrong_type(T::DTYPE))
    }

    /// The elements as their bits, whichever of the types as wide as `B` they are.
    ///
    /// # Errors
    /// The tensor is of a type of another width.
    pub fn get_bits<B: Bits>(&self) -> Result<&'a [B], Error> {
        if self.desc.dtype().is_some_and(|dtype| dtype.size_bytes() == size_of::<B>()) {
            // SAFETY: `bytes` are elements of a type with the size of `B`, and so with its alignment, as `element` asserts.
            return Ok(unsafe {
                slice_or_empty(self.bytes.as_ptr().cast(), self.bytes.len() / size_of::<B>())
            });
        }
        Err(self.wrong_type(B::DTYPE))
    }

    fn wrong_type(&self, wanted: DType) -> Error {
        let (name, found) = (self.name, self.desc.dtype().map_or("absent", DType::name));
        Error::new(format!("parameter {name:?} is a tensor of {found}, wanted {wanted}"))
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
