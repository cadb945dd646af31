//! Tensors in host memory. The elements are in an aligned buffer or in the bytes of a file; clones of a tensor share them.

mod derived;
mod in_model;
mod model_bytes;
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::bytes::Bytes;
use udo_api::{DType, Element, Shape, TensorDesc};

pub use derived::Derived;
use in_model::InModel;
pub use model_bytes::ModelBytes;
pub use random::random;
pub use udo_host::memory::{
    ALIGN_BYTES, Budget, Buffer, FileBytes, Limit, MAX_BYTES, OutOfMemory, PackedBytes, Reserve,
    SharedBytes, bytes_of, elements, elements_mut,
};

/// A tensor with its elements. Clones share the elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    desc: TensorDesc,
    data: Data,
    /// An id of the elements that is unique in this process.
    id: u64,
    /// An id of the elements that is the same in all processes, if set.
    stable: Option<u128>,
}

/// The memory of a tensor's elements.
#[derive(Clone, Debug)]
enum Data {
    Own(Arc<Buffer>),
    /// The bytes of a mapped file, aligned like a buffer.
    File(Arc<Bytes>),
    /// The bytes of the model file, which may be unaligned.
    Model(Arc<InModel>),
}

impl Data {
    /// Returns the bytes of the elements where they are stored.
    fn stored(&self) -> &[u8] {
        match self {
            Self::Own(buffer) => buffer.bytes(),
            Self::File(bytes) => bytes,
            Self::Model(bytes) => bytes.stored(),
        }
    }
}

/// Returns a new id, unique in this process.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The error for bytes of the wrong size for a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} bytes, expected {expected} for {dtype}{shape}")]
pub struct SizeError {
    /// The number of bytes.
    pub found: usize,
    /// The number of bytes of a tensor of this type and shape.
    pub expected: usize,
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
}

/// The reason why bytes are not a valid tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// There are too few or too many bytes.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// There is not enough memory.
    #[error("a tensor {0}")]
    Memory(#[from] OutOfMemory),
}

impl Tensor {
    /// Creates a tensor of zeros.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Self, OutOfMemory> {
        let desc = TensorDesc::new(dtype, shape);
        let data = Data::Own(Arc::new(Buffer::zeroed(desc.size_bytes())?));
        Ok(Self { data, desc, id: next_id(), stable: None })
    }

    /// Creates a tensor from a copy of little-endian elements, in row-major order.
    ///
    /// # Errors
    /// Fails if type and shape need another number of bytes, or there is not enough memory.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Self, TensorError> {
        let desc = sized(dtype, shape, bytes.len())?;
        Ok(Self {
            data: Data::Own(Arc::new(Buffer::from_bytes(bytes)?)),
            desc,
            id: next_id(),
            stable: None,
        })
    }

    /// Creates a tensor as [`Tensor::from_bytes`] does, but without a copy if the bytes are aligned like a buffer.
    pub(crate) fn of_file(dtype: DType, shape: Shape, bytes: Bytes) -> Result<Self, TensorError> {
        if bytes.is_empty() || !bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES) {
            return Self::from_bytes(dtype, shape, &bytes);
        }
        let desc = sized(dtype, shape, bytes.len())?;
        Ok(Self { data: Data::File(Arc::new(bytes)), desc, id: next_id(), stable: None })
    }

    /// Creates a tensor as [`Tensor::from_bytes`] does, but from bytes of the model file, which are not copied until the
    /// elements are read.
    pub(crate) fn in_model(dtype: DType, shape: Shape, bytes: Bytes) -> Result<Self, SizeError> {
        let desc = sized(dtype, shape, bytes.len())?;
        Ok(Self {
            data: Data::Model(Arc::new(InModel::new(bytes))),
            desc,
            id: next_id(),
            stable: None,
        })
    }

    /// Creates a tensor from a copy of these elements, in row-major order.
    ///
    /// # Errors
    /// Fails if the shape has another number of elements, or there is not enough memory.
    pub fn from_slice<T: Element>(shape: Shape, elements: &[T]) -> Result<Self, TensorError> {
        Self::from_bytes(T::DTYPE, shape, bytes_of(elements))
    }

    /// Returns the type and shape.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.desc.dtype().unwrap_or(DType::U8)
    }

    /// Returns the extents, outermost first.
    pub fn dims(&self) -> &[usize] {
        self.desc.shape()
    }

    /// Returns the bytes of the elements, aligned for their type unless the memory for an aligned copy is missing.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Model(bytes) => bytes.aligned(self.dtype().size_bytes()),
            Data::Own(_) | Data::File(_) => self.data.stored(),
        }
    }

    /// Returns the number of bytes of all elements.
    pub fn size_bytes(&self) -> usize {
        self.data.stored().len()
    }

    /// Returns the elements, or `None` if they are not of type `T`.
    pub fn get<T: Element>(&self) -> Option<&[T]> {
        if self.dtype() == T::DTYPE { elements(self.bytes()) } else { None }
    }

    /// Returns a tensor with the same elements and another shape.
    ///
    /// # Errors
    /// Fails if the shape has another number of elements.
    pub fn reshaped(&self, shape: Shape) -> Result<Self, SizeError> {
        let desc = sized(self.dtype(), shape, self.size_bytes())?;
        Ok(Self { desc, ..self.clone() })
    }
}

/// How a tensor stores its elements, and how it shares them with other tensors, plans and processes.
pub trait TensorStorage: Sized {
    /// Returns a tensor with this description over shared prepacked bytes (weights in the layout of a kernel); `None` if their
    /// number is wrong.
    fn of_packed(desc: &TensorDesc, bytes: PackedBytes) -> Option<Self>;

    /// Returns the same elements for another plan (a compiled graph). If the plan needs an aligned copy of elements in the model
    /// file, the copy is freed with the last plan that uses it.
    #[must_use]
    fn for_plan(&self) -> Self;

    /// Returns the same elements, aligned and outside of the model file.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the copy.
    fn apart(&self) -> Result<Self, OutOfMemory>;

    /// Returns a tensor of the little-endian elements in `buffer`, outermost dimension first.
    ///
    /// # Errors
    /// Fails if the type and the shape need another number of bytes.
    fn from_buffer(dtype: DType, shape: Shape, buffer: Buffer) -> Result<Self, SizeError>;

    /// Returns a number that identifies the elements: only clones and reshaped copies of a tensor share it.
    fn id(&self) -> u64;

    /// Returns the same tensor with an identifier of its elements that is valid in all processes.
    #[must_use]
    fn known_as(self, stable: u128) -> Self;

    /// Returns the identifier of the elements that is valid in all processes, if there is one.
    fn stable(&self) -> Option<u128>;

    /// Returns the bytes of the elements where they are stored. In a file they may be unaligned.
    fn stored(&self) -> &[u8];

    /// Returns the buffer that clones share, or a copy of elements that are in a file.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the copy.
    fn buffer(&self) -> Result<Arc<Buffer>, OutOfMemory>;
}

impl TensorStorage for Tensor {
    fn of_packed(desc: &TensorDesc, bytes: PackedBytes) -> Option<Self> {
        let bytes = Bytes::from_owner(PackedOwner(bytes));
        Self::of_file(desc.dtype()?, desc.full_shape(), bytes).ok()
    }

    fn for_plan(&self) -> Self {
        match &self.data {
            Data::Own(_) | Data::File(_) => self.clone(),
            Data::Model(bytes) => {
                Self { data: Data::Model(Arc::new(bytes.for_plan())), ..self.clone() }
            }
        }
    }

    fn apart(&self) -> Result<Self, OutOfMemory> {
        match &self.data {
            Data::Own(_) | Data::File(_) => Ok(self.clone()),
            Data::Model(bytes) => Ok(Self { data: Data::Own(bytes.copy()?), ..self.clone() }),
        }
    }

    fn from_buffer(dtype: DType, shape: Shape, buffer: Buffer) -> Result<Self, SizeError> {
        let desc = sized(dtype, shape, buffer.len())?;
        Ok(Self { data: Data::Own(Arc::new(buffer)), desc, id: next_id(), stable: None })
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn known_as(self, stable: u128) -> Self {
        Self { stable: Some(stable), ..self }
    }

    fn stable(&self) -> Option<u128> {
        self.stable
    }

    fn stored(&self) -> &[u8] {
        self.data.stored()
    }

    fn buffer(&self) -> Result<Arc<Buffer>, OutOfMemory> {
        match &self.data {
            Data::Own(buffer) => Ok(Arc::clone(buffer)),
            Data::File(bytes) => Buffer::from_bytes(bytes).map(Arc::new),
            Data::Model(bytes) => bytes.copy(),
        }
    }
}

/// Prepacked bytes as an owner of [`Bytes`].
struct PackedOwner(PackedBytes);

impl AsRef<[u8]> for PackedOwner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[u8]> for Tensor {
    fn as_ref(&self) -> &[u8] {
        self.stored()
    }
}

/// Returns the description of a tensor with `found` bytes, or an error if that is the wrong number.
fn sized(dtype: DType, shape: Shape, found: usize) -> Result<TensorDesc, SizeError> {
    let desc = TensorDesc::new(dtype, shape);
    let expected = desc.size_bytes();
    if found == expected { Ok(desc) } else { Err(SizeError { found, expected, dtype, shape }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_larger_than_any_memory_is_an_error() {
        let shape = Shape::new(&[1 << 50]).unwrap();
        let error = Tensor::zeros(DType::F32, shape).unwrap_err();
        assert_eq!(error.wanted, 1 << 52);
        let error = TensorError::from(error).to_string();
        assert!(error.ends_with(" bytes of memory, and the system gives no more"), "{error}");
    }

    #[test]
    fn elements_in_the_model_file_are_copied_when_they_are_read() {
        let shape = Shape::new(&[3]).unwrap();
        let file: Vec<u8> = [&[0u8][..], bytes_of(&[1f32, 2.0, 3.0])].concat();
        let file = Bytes::from(file).slice(1..);
        let tensor = Tensor::in_model(DType::F32, shape, file.clone()).unwrap();
        assert_eq!(tensor.stored().as_ptr(), file.as_ptr(), "not copied yet");
        let [first, second] = [tensor.for_plan(), tensor.for_plan()];
        assert_eq!(first.get::<f32>(), Some(&[1.0, 2.0, 3.0][..]));
        assert_eq!((first.id(), first.desc()), (tensor.id(), tensor.desc()));
        assert_eq!(second.bytes().as_ptr(), first.bytes().as_ptr(), "plans share a copy");
        assert_eq!(second.apart().unwrap().bytes().as_ptr(), first.bytes().as_ptr());
        let copy = Arc::downgrade(&first.buffer().unwrap());
        drop((first, second));
        assert!(copy.upgrade().is_none(), "the copy is freed with the last plan");
        assert!(Tensor::in_model(DType::F64, shape, file).is_err());
    }

    #[test]
    fn the_number_of_bytes_must_match_the_shape() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let error = Tensor::from_bytes(DType::F32, shape, &[0; 20]).unwrap_err();
        assert_eq!(error.to_string(), "20 bytes, expected 24 for f32[2,3]");
        let tensor = Tensor::from_slice::<i64>(shape, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(tensor.get::<i64>(), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(tensor.get::<f64>(), None, "no reading as another type");
        assert!(tensor.reshaped(Shape::new(&[7]).unwrap()).is_err());
    }
}
