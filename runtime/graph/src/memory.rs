//! Host memory: tensors, and the aligned buffers, or bytes of files, that they share.

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

/// A tensor with its elements; clones share them.
#[derive(Clone, Debug)]
pub struct Tensor {
    desc: TensorDesc,
    data: Data,
    id: u64,
    /// An id of the elements that is the same in all processes, if set.
    stable: Option<u128>,
}

/// Where a tensor's elements lie.
#[derive(Clone, Debug)]
enum Data {
    Own(Arc<Buffer>),
    /// In a file. They are aligned as a buffer's are.
    File(Arc<Bytes>),
    /// In the model's own file, anywhere.
    Model(Arc<InModel>),
}

impl Data {
    /// The elements as they lie.
    fn stored(&self) -> &[u8] {
        match self {
            Self::Own(buffer) => buffer.bytes(),
            Self::File(bytes) => bytes,
            Self::Model(of) => of.stored(),
        }
    }
}

/// A number that no other elements of the process have.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Why bytes do not make the tensor that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} bytes, expected {wanted} for {dtype}{shape}")]
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

/// The reason why bytes are not a valid tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// They are too few or too many.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Not enough memory.
    #[error("a tensor {0}")]
    Memory(#[from] OutOfMemory),
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Self, OutOfMemory> {
        let desc = TensorDesc::new(dtype, shape);
        let data = Data::Own(Arc::new(Buffer::zeroed(desc.size_bytes())?));
        Ok(Self { data, desc, id: next_id(), stable: None })
    }

    /// A tensor with these little-endian bytes, outermost dimension first.
    ///
    /// # Errors
    /// Not as many bytes as type and shape ask for, or no memory for them.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Self, TensorError> {
        let desc = sized(dtype, shape, bytes.len())?;
        Ok(Self {
            data: Data::Own(Arc::new(Buffer::from_bytes(bytes)?)),
            desc,
            id: next_id(),
            stable: None,
        })
    }

    /// As [`Tensor::from_bytes`], of bytes that stay where they are if they are aligned as a buffer's are.
    pub(crate) fn of_file(dtype: DType, shape: Shape, bytes: Bytes) -> Result<Self, TensorError> {
        if bytes.is_empty() || !bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES) {
            return Self::from_bytes(dtype, shape, &bytes);
        }
        let desc = sized(dtype, shape, bytes.len())?;
        Ok(Self { data: Data::File(Arc::new(bytes)), desc, id: next_id(), stable: None })
    }

    /// As [`Tensor::from_bytes`], of bytes of the model's own file, which stay there until somebody reads the elements.
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
    /// Not as many elements as the shape asks for, or no memory for them.
    pub fn from_slice<T: Element>(shape: Shape, elements: &[T]) -> Result<Self, TensorError> {
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
        match &self.data {
            Data::Model(of) => of.aligned(self.dtype().size_bytes()),
            Data::Own(_) | Data::File(_) => self.data.stored(),
        }
    }

    /// How many bytes the elements have.
    pub fn size_bytes(&self) -> usize {
        self.data.stored().len()
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
        let desc = sized(self.dtype(), shape, self.size_bytes())?;
        Ok(Self { desc, ..self.clone() })
    }
}

/// How a tensor stores its elements, and how it shares them with other tensors, plans and processes.
pub trait TensorStorage: Sized {
    /// Returns a tensor with this description over shared prepacked bytes; nothing if the bytes are too few or not aligned.
    fn of_packed(desc: &TensorDesc, bytes: PackedBytes) -> Option<Self>;

    /// Returns the same elements for a plan of its own. A copy that the plan makes of elements in the model's file is freed with it, unless
    /// another plan uses the copy.
    #[must_use]
    fn for_plan(&self) -> Self;

    /// Returns the same elements, aligned and outside of the model's file.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the copy.
    fn apart(&self) -> Result<Self, OutOfMemory>;

    /// Returns a tensor of the little-endian elements in `buffer`, outermost dimension first.
    ///
    /// # Errors
    /// The type and the shape need another number of bytes.
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
            Data::Model(of) => Self { data: Data::Model(Arc::new(of.for_plan())), ..self.clone() },
        }
    }

    fn apart(&self) -> Result<Self, OutOfMemory> {
        match &self.data {
            Data::Own(_) | Data::File(_) => Ok(self.clone()),
            Data::Model(of) => Ok(Self { data: Data::Own(of.copy()?), ..self.clone() }),
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
            Data::Model(of) => of.copy(),
        }
    }
}

/// Bytes that a tensor shares with others.
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

/// The description of a tensor of `found` bytes.
fn sized(dtype: DType, shape: Shape, found: usize) -> Result<TensorDesc, SizeError> {
    let desc = TensorDesc::new(dtype, shape);
    let wanted = desc.size_bytes();
    if found == wanted { Ok(desc) } else { Err(SizeError { found, wanted, dtype, shape }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_that_no_machine_holds_is_an_error() {
        let shape = Shape::new(&[1 << 50]).unwrap();
        let error = Tensor::zeros(DType::F32, shape).unwrap_err();
        assert_eq!(error.wanted, 1 << 52);
        let error = TensorError::from(error).to_string();
        assert!(error.ends_with(" bytes of memory, and the system gives no more"), "{error}");
    }

    #[test]
    fn elements_of_the_models_file_are_copied_when_they_are_read() {
        let shape = Shape::new(&[3]).unwrap();
        let file: Vec<u8> = [&[0u8][..], bytes_of(&[1f32, 2.0, 3.0])].concat();
        let file = Bytes::from(file).slice(1..);
        let tensor = Tensor::in_model(DType::F32, shape, file.clone()).unwrap();
        assert_eq!(tensor.stored().as_ptr(), file.as_ptr(), "it stays there");
        let [one, other] = [tensor.for_plan(), tensor.for_plan()];
        assert_eq!(one.get::<f32>(), Some(&[1.0, 2.0, 3.0][..]));
        assert_eq!((one.id(), one.desc()), (tensor.id(), tensor.desc()));
        assert_eq!(other.bytes().as_ptr(), one.bytes().as_ptr(), "plans share a copy");
        assert_eq!(other.apart().unwrap().bytes().as_ptr(), one.bytes().as_ptr());
        let copy = Arc::downgrade(&one.buffer().unwrap());
        drop((one, other));
        assert!(copy.upgrade().is_none(), "which goes with the last of them");
        assert!(Tensor::in_model(DType::F64, shape, file).is_err());
    }

    #[test]
    fn tensors_want_as_many_bytes_as_their_shape_says() {
        let shape = Shape::new(&[2, 3]).unwrap();
        let error = Tensor::from_bytes(DType::F32, shape, &[0; 20]).unwrap_err();
        assert_eq!(error.to_string(), "20 bytes, expected 24 for f32[2,3]");
        let tensor = Tensor::from_slice::<i64>(shape, &[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(tensor.get::<i64>(), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(tensor.get::<f64>(), None, "no reading as another type");
        assert!(tensor.reshaped(Shape::new(&[7]).unwrap()).is_err());
    }
}
