//! Tensors with their elements, in memory that shows where a kernel wrote beyond it.

use std::sync::Arc;

use udo_api::abi::TensorArg;
use udo_api::{AxisEncoding, DType, Dim, Element, Encoding, Shape, TensorDesc};
use udo_host::memory::{bytes_of, elements};
use udo_host::{Buffer, OutOfMemory, TensorSetting};

/// What lies behind every tensor and between rows that lie apart.
const UNTOUCHED: u8 = 0xa5;
/// Bytes behind every tensor.
const BEHIND: usize = 64;

/// Bytes aligned as the host aligns tensors and scratch, and some behind them that must stay as they are.
#[derive(Debug)]
pub(crate) struct Memory {
    buffer: Buffer,
    len: usize,
}

fn given(buffer: Result<Buffer, OutOfMemory>) -> Buffer {
    buffer.unwrap_or_else(|error| panic!("a tensor {error}"))
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { buffer: given(Buffer::of(self.buffer.bytes())), len: self.len }
    }
}

impl Memory {
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = given(Buffer::zeroed(len + BEHIND));
        buffer.bytes_mut()[len..].fill(UNTOUCHED);
        Self { buffer, len }
    }

    fn of(bytes: &[u8]) -> Self {
        let mut memory = Self::zeroed(bytes.len());
        memory.bytes_mut().copy_from_slice(bytes);
        memory
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[..self.len]
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether nothing behind the bytes was written to.
    pub(crate) fn is_whole(&self) -> bool {
        self.buffer.bytes()[self.len..].iter().all(|&byte| byte == UNTOUCHED)
    }
}

/// A tensor with its elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    desc: TensorDesc,
    dims: Vec<usize>,
    memory: Memory,
    /// Elements from one row (last axis) to the next.
    pitch: usize,
}

/// A tensor of these elements, outermost dimension first.
///
/// # Panics
/// There are not as many elements as `dims` say, or too many dimensions.
#[track_caller]
pub fn tensor<T: Element>(dims: &[usize], values: &[T]) -> Tensor {
    let desc = TensorDesc::new(T::DTYPE, fixed(dims));
    assert_eq!(desc.len(), values.len(), "elements for {dims:?}");
    Tensor::dense(desc, dims, Memory::of(bytes_of(values)))
}

impl Tensor {
    fn dense(desc: TensorDesc, dims: &[usize], memory: Memory) -> Self {
        Self { desc, dims: dims.to_vec(), memory, pitch: dims.last().copied().unwrap_or(1) }
    }

    /// Zeros, at their bounds.
    pub(crate) fn zeros(desc: TensorDesc) -> Self {
        Self::dense(desc, desc.shape(), Memory::zeroed(desc.size_bytes()))
    }

    /// The same elements as fixed-point numbers of this scale and zero point.
    #[must_use]
    pub fn encoded(mut self, scale: f32, zero_point: i32) -> Self {
        self.desc = self.desc.with_encoding(Encoding { scale, zero_point });
        self
    }

    /// The same elements as fixed-point numbers with a scale and a zero point for each position of an axis.
    ///
    /// # Panics
    /// They cannot be the encoding of such a tensor.
    #[must_use]
    #[track_caller]
    pub fn encoded_per_axis(mut self, axis: usize, scales: &[f32], zero_points: &[i32]) -> Self {
        let encoding = AxisEncoding::of(axis, scales, zero_points);
        let encoded = encoding.map(|encoding| self.desc.with_axis_encoding(encoding));
        match encoded.and_then(|desc| desc.check_encoding().map(|()| desc)) {
            Ok(desc) => self.desc = desc,
            Err(error) => panic!("{error}"),
        }
        self
    }

    /// The same elements in a tensor that may hold more.
    ///
    /// # Panics
    /// Too many dimensions.
    #[must_use]
    #[track_caller]
    pub fn bounded(self, dims: &[Dim]) -> Self {
        let desc = self.desc.with_extents(shape(Shape::of_dims(dims)));
        let mut memory = Memory::zeroed(desc.size_bytes());
        memory.bytes_mut()[..self.memory.len].copy_from_slice(self.memory.bytes());
        Self::dense(desc, &self.dims, memory)
    }

    /// The same elements with rows (last axis) that lie `extra` elements apart.
    pub(crate) fn pitched(&self, extra: usize) -> Self {
        let size = self.element_bytes();
        let cols = self.dims.last().copied().unwrap_or(1);
        let (from, to) = (cols * size, (cols + extra) * size);
        let rows = self.dims.iter().product::<usize>().checked_div(cols).unwrap_or(0);
        let mut memory = Memory::zeroed(rows * to);
        memory.bytes_mut().fill(UNTOUCHED);
        let source = self.memory.bytes().chunks_exact(from.max(1));
        for (to, from) in memory.bytes_mut().chunks_exact_mut(to.max(1)).zip(source) {
            to[..from.len()].copy_from_slice(from);
        }
        Self { memory, pitch: cols + extra, ..self.clone() }
    }

    /// The same elements with rows behind each other; nothing if what lay between them was written to.
    pub(crate) fn gathered(&self) -> Option<Self> {
        let size = self.element_bytes();
        let cols = self.dims.last().copied().unwrap_or(1);
        if self.pitch == cols {
            return Some(self.clone());
        }
        let mut bytes = Vec::with_capacity(self.memory.len);
        for row in self.memory.bytes().chunks_exact((self.pitch * size).max(1)) {
            let (own, between) = row.split_at(cols * size);
            if between.iter().any(|&byte| byte != UNTOUCHED) {
                return None;
            }
            bytes.extend_from_slice(own);
        }
        Some(Self::dense(self.desc, &self.dims, Memory::of(&bytes)))
    }

    /// The same elements with their axes in another order.
    pub(crate) fn permuted(&self, order: [usize; 4]) -> Self {
        let (size, bytes) = (self.element_bytes(), self.bytes());
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
        Self::dense(to, to.shape(), Memory::of(&turned))
    }

    /// Type, shape with its bounds, and encoding.
    pub fn desc(&self) -> TensorDesc {
        self.desc
    }

    /// The same elements as a parameter's value.
    pub(crate) fn setting(&self) -> TensorSetting {
        let data = Arc::new(given(Buffer::of(self.bytes())));
        TensorSetting::new(self.desc, data)
            .unwrap_or_else(|| panic!("a parameter has the elements of its bounds"))
    }

    /// The extents in this run.
    pub fn dims(&self) -> Vec<usize> {
        self.dims.clone()
    }

    /// The elements.
    ///
    /// # Panics
    /// They are of another type.
    #[track_caller]
    pub fn values<T: Element>(&self) -> Vec<T> {
        assert_eq!(self.desc.dtype(), Some(T::DTYPE), "the type of {}", self.desc);
        // Buffers are aligned for every type, and hold whole elements.
        elements::<T>(self.bytes()).unwrap_or_default().to_vec()
    }

    /// The bytes of the elements in this run.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.dims.iter().product::<usize>() * self.element_bytes()]
    }

    /// All bytes, those for a larger run included.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Marks the elements, so that those which a kernel leaves are known.
    pub(crate) fn mark(&mut self) {
        self.memory.bytes_mut().fill(UNTOUCHED);
    }

    /// Whether a kernel left the elements behind those of these dimensions.
    pub(crate) fn is_marked_behind(&self, dims: &[usize]) -> bool {
        let bytes = dims.iter().product::<usize>() * self.element_bytes();
        self.memory.bytes().iter().skip(bytes).all(|&byte| byte == UNTOUCHED)
    }

    /// Takes over the elements of a tensor of the same size.
    pub(crate) fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Takes over what a kernel said of its shape.
    pub(crate) fn set_dims(&mut self, dims: &[usize]) {
        if self.dims != dims {
            self.dims = dims.to_vec();
            self.pitch = dims.last().copied().unwrap_or(1);
        }
    }

    fn element_bytes(&self) -> usize {
        self.desc.dtype().map_or(0, DType::size_bytes)
    }

    /// The argument of a call; valid while the memory stays where it is.
    pub(crate) fn arg(&self) -> TensorArg {
        let mut arg = TensorArg::new(&self.desc, self.memory.buffer.as_ptr());
        arg.len = self.dims.iter().product();
        arg.dims[..self.dims.len()].copy_from_slice(&self.dims);
        // Each tensor has memory of its own.
        arg.with_row_stride(self.pitch).alone()
    }
}

/// The same with its axes in another order.
pub(crate) fn permuted(desc: &TensorDesc, order: [usize; 4]) -> TensorDesc {
    desc.transposed(&order).unwrap_or_else(|| panic!("{desc} has no axes {order:?}"))
}

#[track_caller]
pub(crate) fn fixed(dims: &[usize]) -> Shape {
    shape(Shape::new(dims))
}

#[track_caller]
fn shape(of: Result<Shape, udo_api::Error>) -> Shape {
    match of {
        Ok(shape) => shape,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_lie_apart_come_back_together() {
        let x = tensor(&[2, 3], &[1u16, 2, 3, 4, 5, 6]);
        let apart = x.pitched(2);
        assert_eq!((apart.pitch, apart.memory.len), (5, 20));
        assert_eq!(apart.gathered().unwrap().values::<u16>(), [1, 2, 3, 4, 5, 6]);
        let mut spoilt = apart;
        spoilt.memory.bytes_mut()[6] = 0;
        assert!(spoilt.gathered().is_none(), "byte 6 lies between the rows");
    }

    #[test]
    fn bytes_behind_a_tensor_are_watched() {
        let mut memory = Memory::of(&[1, 2, 3]);
        assert!(memory.is_whole());
        memory.buffer.bytes_mut()[3] = 0;
        assert!(!memory.is_whole());
    }
}
