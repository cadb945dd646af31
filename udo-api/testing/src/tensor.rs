//! Tensors with their elements.

use std::sync::Arc;

use udo_api::{AxisEncoding, Dim, Element, Encoding, Shape, TensorDesc};
use udo_host::memory::{bytes_of, elements};
use udo_host::{Buffer, TensorSetting};

/// A tensor with its elements.
#[derive(Debug)]
pub struct Tensor {
    desc: TensorDesc,
    dims: Vec<usize>,
    data: Buffer,
}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        Self::new(self.desc, self.dims.clone(), self.bytes())
    }
}

/// Creates a tensor of these elements, outermost dimension first.
///
/// # Panics
/// The number of elements does not match `dims`, or there are too many dimensions.
#[track_caller]
pub fn tensor<T: Element>(dims: &[usize], values: &[T]) -> Tensor {
    let desc = TensorDesc::new(T::DTYPE, fixed(dims));
    assert_eq!(desc.len(), values.len(), "elements for {dims:?}");
    Tensor::new(desc, dims.to_vec(), bytes_of(values))
}

impl Tensor {
    /// Creates a tensor from dense elements; `dims` are the dimensions in this run, `desc` has their bounds.
    pub(crate) fn new(desc: TensorDesc, dims: Vec<usize>, bytes: &[u8]) -> Self {
        Self { desc, dims, data: buffer(bytes) }
    }

    /// Sets an encoding for all elements.
    #[must_use]
    pub fn encoded(mut self, scale: f32, zero_point: i32) -> Self {
        self.desc = self.desc.with_encoding(Encoding { scale, zero_point });
        self
    }

    /// Sets an encoding for each position of an axis.
    ///
    /// # Panics
    /// The encoding does not fit the tensor.
    #[must_use]
    #[track_caller]
    pub fn encoded_per_axis(mut self, axis: usize, scales: &[f32], zero_points: &[i32]) -> Self {
        let encoding = AxisEncoding::intern(axis, scales, zero_points);
        let encoded = encoding.map(|encoding| self.desc.with_axis_encoding(encoding));
        match encoded.and_then(|desc| desc.check_encoding().map(|()| desc)) {
            Ok(desc) => self.desc = desc,
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// Makes dimensions bounded, with the same elements.
    ///
    /// # Panics
    /// Too many dimensions.
    #[must_use]
    #[track_caller]
    pub fn bounded(self, dims: &[Dim]) -> Self {
        Self { desc: self.desc.with_extents(shape(Shape::from_dims(dims))), ..self }
    }

    /// Returns type, shape with its bounds, and encoding.
    pub fn desc(&self) -> TensorDesc {
        self.desc
    }

    /// Returns the tensor as a parameter's value.
    pub(crate) fn setting(&self) -> TensorSetting {
        let data = Arc::new(buffer(self.bytes()));
        TensorSetting::new(self.desc, data)
            .unwrap_or_else(|| panic!("a parameter has the elements of its bounds"))
    }

    /// Returns the dimensions in this run.
    pub fn dims(&self) -> Vec<usize> {
        self.dims.clone()
    }

    /// Returns the elements.
    ///
    /// # Panics
    /// They have another type.
    #[track_caller]
    pub fn values<T: Element>(&self) -> Vec<T> {
        assert_eq!(self.desc.dtype(), Some(T::DTYPE), "the type of {}", self.desc);
        // Buffers are aligned for every type, and contain whole elements.
        elements::<T>(self.bytes()).unwrap_or_default().to_vec()
    }

    /// Returns the bytes of the elements in this run.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }
}

#[track_caller]
fn buffer(bytes: &[u8]) -> Buffer {
    Buffer::from_bytes(bytes).unwrap_or_else(|error| panic!("a tensor {error}"))
}

#[track_caller]
pub(crate) fn fixed(dims: &[usize]) -> Shape {
    shape(Shape::new(dims))
}

#[track_caller]
fn shape(result: Result<Shape, udo_api::Error>) -> Shape {
    match result {
        Ok(shape) => shape,
        Err(error) => panic!("{error}"),
    }
}
