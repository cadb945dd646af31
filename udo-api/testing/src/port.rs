//! A tensor of a call, in memory of its own.

use udo_api::abi::TensorArg;
use udo_api::{DType, TensorDesc};

use crate::host::{Host, Memory, MemoryError, Role, allocated};

/// The pattern between strided rows.
const UNTOUCHED: u8 = 0xc5;

/// The pattern behind the extents of a bounded input.
const UNUSED: u8 = 0xff;

/// A tensor of a call.
#[derive(Debug)]
pub(crate) struct Port {
    desc: TensorDesc,
    dims: Vec<usize>,
    pub(crate) memory: Box<dyn Memory>,
    /// Elements from row (last axis) to row; nothing where rows are contiguous.
    pitch: Option<usize>,
}

impl Port {
    /// A tensor whose rows have `gap` elements between them, where it has several rows.
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

    /// Bytes of a row, and from row to row.
    fn rows(&self, pitch: usize) -> (usize, usize) {
        let size = element_bytes(&self.desc);
        (self.dims.last().copied().unwrap_or(1) * size, pitch * size)
    }

    /// Stores these elements, and patterns between and behind them.
    pub(crate) fn scatter(&mut self, dense: &[u8]) {
        let Some(pitch) = self.pitch else {
            let bytes = self.memory.bytes_mut();
            let (to, behind) = bytes.split_at_mut(dense.len().min(bytes.len()));
            to.copy_from_slice(&dense[..to.len()]);
            // A kernel may not read what a bounded tensor could hold beyond its extents.
            behind.fill(UNUSED);
            return;
        };
        let (row, pitch) = self.rows(pitch);
        self.memory.bytes_mut().fill(UNTOUCHED);
        let rows = self.memory.bytes_mut().chunks_mut(pitch).zip(dense.chunks(row.max(1)));
        for (to, from) in rows {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }

    /// The elements, with contiguous rows.
    pub(crate) fn gather(&self) -> Vec<u8> {
        let Some(pitch) = self.pitch else { return self.memory.bytes().to_vec() };
        let (row, pitch) = self.rows(pitch);
        let rows = self.memory.bytes().chunks(pitch);
        rows.flat_map(|chunk| chunk.get(..row).unwrap_or(chunk)).copied().collect()
    }

    /// Whether nothing between the rows was written to.
    pub(crate) fn is_whole_between(&self) -> bool {
        let Some(pitch) = self.pitch else { return true };
        let (row, pitch) = self.rows(pitch);
        let rows = self.memory.bytes().chunks(pitch);
        let mut between = rows.flat_map(|chunk| chunk.get(row..).unwrap_or_default());
        between.all(|&byte| byte == UNTOUCHED)
    }

    pub(crate) fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    pub(crate) fn element_bytes(&self) -> usize {
        element_bytes(&self.desc)
    }

    /// The argument of a call, valid while the memory lives and nobody else uses it.
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
        assert!(port.is_whole_between());
        port.memory.bytes_mut()[6] = 0;
        assert!(!port.is_whole_between(), "byte 6 lies between the rows");
    }
}
