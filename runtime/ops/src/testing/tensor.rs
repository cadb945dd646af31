//! Tensors with their elements, in memory that shows where a kernel wrote beyond it.

use udo_api::abi::TensorArg;
use udo_api::{DType, Dim, Element, Encoding, Shape, TensorDesc};

/// A byte pattern that shows where a kernel wrote beyond its memory.
const CANARY: u64 = 0xdead_beef_dead_beef;
const CANARIES: usize = 8;

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(pub(super) [u64; 8]);

/// Memory aligned as the host aligns tensors and scratch, with canaries behind it.
#[derive(Clone)]
pub(super) struct Memory {
    pub(super) lines: Vec<Line>,
    pub(super) bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        let mut lines = vec![Line([0; 8]); bytes.div_ceil(64)];
        lines.push(Line([CANARY; CANARIES]));
        Self { lines, bytes }
    }

    pub(super) fn of<T: Element>(values: &[T]) -> Self {
        let mut memory = Self::new(size_of_val(values));
        // SAFETY: the memory has room for the values, which are plain old data.
        unsafe { memory.ptr().cast::<T>().copy_from(values.as_ptr(), values.len()) };
        memory
    }

    pub(super) fn ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.lines.last().is_some_and(|line| line.0 == [CANARY; CANARIES])
    }

    pub(super) fn values<T: Element>(&self, len: usize) -> Vec<T> {
        assert!(len * size_of::<T>() <= self.bytes);
        // SAFETY: so many elements lie in the memory, aligned, and any bits are an element.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast::<T>(), len) }.to_vec()
    }
}

/// A tensor with its elements.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(super) desc: TensorDesc,
    pub(super) dims: Vec<usize>,
    pub(super) memory: Memory,
}

/// A tensor of these elements.
pub(crate) fn tensor<T: Element>(dims: &[usize], values: &[T]) -> Tensor {
    let desc = TensorDesc::new(T::DTYPE, Shape::new(dims).unwrap());
    assert_eq!(desc.len(), values.len(), "elements for {dims:?}");
    Tensor { desc, dims: dims.to_vec(), memory: Memory::of(values) }
}

impl Tensor {
    pub(crate) fn encoded(mut self, scale: f32, zero_point: i32) -> Self {
        self.desc = self.desc.with_encoding(Encoding { scale, zero_point });
        self
    }

    /// The same elements in a tensor that may hold more.
    pub(crate) fn bounded(mut self, dims: &[Dim]) -> Self {
        let memory = self.memory;
        self.desc = self.desc.with_shape(Shape::of_dims(dims).unwrap());
        self.memory = Memory::new(self.desc.size_bytes());
        let whole = memory.lines.len() - 1;
        self.memory.lines[..whole].copy_from_slice(&memory.lines[..whole]);
        self
    }

    pub(crate) fn desc(&self) -> TensorDesc {
        self.desc
    }

    pub(crate) fn dims(&self) -> Vec<usize> {
        self.dims.clone()
    }

    pub(crate) fn values<T: Element>(&self) -> Vec<T> {
        assert_eq!(self.desc.dtype(), Some(T::DTYPE));
        self.memory.values(self.dims.iter().product())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let size = self.desc.dtype().map_or(0, DType::size_bytes);
        self.memory.values(self.dims.iter().product::<usize>() * size)
    }

    /// The same elements with their axes in another order.
    pub(super) fn permuted(&self, order: [usize; 4]) -> Self {
        let (size, bytes) = (self.desc.dtype().map_or(1, DType::size_bytes), self.bytes());
        let (from, to) = (self.desc.shape(), permuted(&self.desc, order));
        let mut turned = Vec::with_capacity(bytes.len());
        for place in 0..to.len() {
            let mut left = place;
            let mut at = [0; 4];
            for (axis, extent) in order.into_iter().zip(to.shape()).rev() {
                (at[axis], left) = (left % extent, left / extent);
            }
            let from = at.iter().zip(from).fold(0, |from, (at, extent)| from * extent + at);
            turned.extend_from_slice(&bytes[from * size..][..size]);
        }
        Self { desc: to, dims: to.shape().to_vec(), memory: Memory::of(&turned) }
    }

    pub(super) fn arg(&mut self) -> TensorArg {
        let mut arg = TensorArg::new(&self.desc, self.memory.ptr());
        arg.len = self.dims.iter().product();
        arg.dims[..self.dims.len()].copy_from_slice(&self.dims);
        arg.row_stride = self.dims.last().copied().unwrap_or(1);
        arg
    }
}

/// The same with its axes in another order.
pub(super) fn permuted(desc: &TensorDesc, order: [usize; 4]) -> TensorDesc {
    desc.with_shape(Shape::new(&order.map(|axis| desc.shape()[axis])).unwrap())
}
