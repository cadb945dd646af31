//! Host memory: tensors, and the aligned buffers that they share.

use std::sync::Arc;

use udo_api::{DType, Element, Shape, TensorDesc};

pub use udo_host::memory::{ALIGN_BYTES, Buffer, MAX_BYTES, bytes_of, elements, elements_mut};

/// A tensor with its elements; clones share them.
#[derive(Clone, Debug)]
pub struct Tensor {
    desc: TensorDesc,
    data: Arc<Buffer>,
}

/// Why bytes do not make the tensor that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} bytes, wanted {wanted} for {dtype}{shape}")]
pub struct SizeError {
    /// Bytes given.
    pub found: usize,
    /// Bytes that type and shape ask for.
    pub wanted: usize,
    /// The type asked for.
    pub dtype: DType,
    /// The shape asked for.
    pub shape: Shape,
}

impl Tensor {
    /// A tensor of zeros.
    pub fn zeros(dtype: DType, shape: Shape) -> Self {
        let desc = TensorDesc::new(dtype, shape);
        Self { data: Arc::new(Buffer::zeroed(desc.size_bytes())), desc }
    }

    /// A tensor with these little-endian bytes, outermost dimension first.
    ///
    /// # Errors
    /// Not as many bytes as type and shape ask for.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Self, SizeError> {
        let desc = TensorDesc::new(dtype, shape);
        let wanted = desc.size_bytes();
        if bytes.len() != wanted {
            return Err(SizeError { found: bytes.len(), wanted, dtype, shape });
        }
        Ok(Self { data: Arc::new(Buffer::of(bytes)), desc })
    }

    /// A tensor with these elements, outermost dimension first.
    ///
    /// # Errors
    /// Not as many elements as the shape asks for.
    pub fn of<T: Element>(shape: Shape, elements: &[T]) -> Result<Self, SizeError> {
        Self::from_bytes(T::DTYPE, shape, bytes_of(elements))
    }

    /// Type and shape.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.desc.dtype().unwrap_or(DType::U8)
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[usize] {
        self.desc.shape()
    }

    /// The bytes of the elements.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    /// The elements, or nothing if they are not of type `T`.
    pub fn get<T: Element>(&self) -> Option<&[T]> {
        if self.dtype() == T::DTYPE { elements(self.bytes()) } else { None }
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn reshaped(&self, shape: Shape) -> Result<Self, SizeError> {
        let desc = TensorDesc::new(self.dtype(), shape);
        if desc.size_bytes() != self.data.len() {
            let (found, wanted) = (self.data.len(), desc.size_bytes());
            return Err(SizeError { found, wanted, dtype: self.dtype(), shape });
        }
        Ok(Self { desc, data: Arc::clone(&self.data) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_want_as_many_bytes_as_their_shape_says() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let error = Tensor::from_bytes(DType::F32, shape, &[0; 20]).unwrap_err();
        assert_eq!(error.to_string(), "20 bytes, wanted 24 for f32[2,3]");
        let tensor = Tensor::of::<i64>(shape, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(tensor.get::<i64>(), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(tensor.get::<f64>(), None, "no reading as another type");
        assert!(tensor.reshaped(Shape::new(&[7]).unwrap()).is_err());
    }
}
