//! An input or output of a kernel call under test, in its own allocation, with contiguous or strided rows.

use udo_api::abi::TensorArg;
use udo_api::{DType, TensorDesc};

use crate::host::{Host, Memory, MemoryError, Role, allocated};

/// The pattern between strided rows.
const UNTOUCHED: u8 = 0xc5;

/// The pattern after the elements of a bounded input.
const UNUSED: u8 = 0xff;

/// A tensor of a call.
#[derive(Debug)]
pub(crate) struct Port {
    desc: TensorDesc,
    dims: Vec<usize>,
    pub(crate) memory: Box<dyn Memory>,
    /// The distance between rows (last axis) in elements; `None` for contiguous rows.
    pitch: Option<usize>,
}

impl Port {
    /// Creates a tensor with `gap` elements between its rows.
    pub(crate) fn new(
        host: &dyn Host,
        role: Role,
        desc: TensorDesc,
        dims: Vec<usize>,
        gap: usize,
    ) -> Result<Self, MemoryError> {
        let size = element_bytes(&desc);
        let cols = dims.last().copied().unwrap_or(1);
        let rows = dims.iter().product::<usize>().checked_div(cols).unwrap_or(0);
        let pitch = (gap > 0 && rows > 1).then_some(cols + gap);
        let len = match pitch {
            Some(pitch) => ((rows - 1) * pitch + cols) * size,
            None => desc.size_bytes(),
        };
        let memory = allocated(host, role, len, size)?;
        Ok(Self { desc, dims, memory, pitch })
    }

    /// Returns the size of a row and the distance between rows in bytes.
    fn row_bytes(&self, pitch: usize) -> (usize, usize) {
        let size = element_bytes(&self.desc);
        (self.dims.last().copied().unwrap_or(1) * size, pitch * size)
    }

    /// Stores these elements, with patterns between rows and after the end.
    pub(crate) fn scatter(&mut self, dense: &[u8]) {
        let Some(pitch) = self.pitch else {
            let bytes = self.memory.bytes_mut();
            let (elements, tail) = bytes.split_at_mut(dense.len().min(bytes.len()));
            elements.copy_from_slice(&dense[..elements.len()]);
            // A kernel must not read a bounded tensor beyond its dimensions.
            tail.fill(UNUSED);
            return;
        };
        let (row_bytes, pitch_bytes) = self.row_bytes(pitch);
        self.memory.bytes_mut().fill(UNTOUCHED);
        let rows =
            self.memory.bytes_mut().chunks_mut(pitch_bytes).zip(dense.chunks(row_bytes.max(1)));
        for (to, from) in rows {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }

    /// Returns the dense elements.
    pub(crate) fn gather(&self) -> Vec<u8> {
        let Some(pitch) = self.pitch else { return self.memory.bytes().to_vec() };
        let (row_bytes, pitch_bytes) = self.row_bytes(pitch);
        let rows = self.memory.bytes().chunks(pitch_bytes);
        rows.flat_map(|chunk| chunk.get(..row_bytes).unwrap_or(chunk)).copied().collect()
    }

    /// Whether the gaps between the rows are unchanged.
    pub(crate) fn has_intact_gaps(&self) -> bool {
        let Some(pitch) = self.pitch else { return true };
        let (row_bytes, pitch_bytes) = self.row_bytes(pitch);
        let rows = self.memory.bytes().chunks(pitch_bytes);
        let mut gaps = rows.flat_map(|chunk| chunk.get(row_bytes..).unwrap_or_default());
        gaps.all(|&byte| byte == UNTOUCHED)
    }

    pub(crate) fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    pub(crate) fn element_bytes(&self) -> usize {
        element_bytes(&self.desc)
    }

    /// Returns the argument of a call, valid while the memory lives and is not used otherwise.
    pub(crate) fn arg(&mut self) -> TensorArg {
        let mut arg = TensorArg::new(&self.desc, self.memory.bytes_mut().as_mut_ptr());
        arg.len = self.dims.iter().product();
        arg.dims.iter_mut().zip(&self.dims).for_each(|(to, from)| *to = *from);
        let stride = self.pitch.unwrap_or(self.dims.last().copied().unwrap_or(1));
        // Each tensor has memory of its own.
        arg.with_row_stride(stride).alone()
    }
}

fn element_bytes(desc: &TensorDesc) -> usize {
    desc.dtype().map_or(1, DType::size_bytes)
}

#[cfg(test)]
mod tests {
    use udo_api::Shape;
    use udo_host::memory::bytes_of;

    use super::*;
    use crate::host::Plain;

    #[test]
    fn strided_rows_come_back_contiguous() {
        let desc = TensorDesc::new(DType::U16, Shape::new(&[2, 3]).unwrap());
        let mut port = Port::new(&Plain, Role::Input(0), desc, vec![2, 3], 2).unwrap();
        assert_eq!((port.pitch, port.memory.bytes().len()), (Some(5), 16));
        let dense = bytes_of(&[1u16, 2, 3, 4, 5, 6]);
        port.scatter(dense);
        assert_eq!(port.gather(), dense);
        assert!(port.has_intact_gaps());
        port.memory.bytes_mut()[6] = 0;
        assert!(!port.has_intact_gaps(), "byte 6 lies between the rows");
    }
}
