//! The loops around the micro-kernels of quantized products: divide a product into blocks of rows, panels of columns,
//! and tiles.

use super::pack::{self, LINE};
use super::product::{Product, Rows};
use super::requant::{self, Columns};
use super::{
    Accumulators, Configured, LANES, MAX_MR, MAX_NR, MAX_VECTORS, MicroKernels, Out, Output,
    PADDING, Tile,
};

/// Rows are processed in blocks of at most this many rows, and of `BLOCK_BYTES` of the left side.
const BLOCK_ROWS: usize = 512;
const BLOCK_BYTES: usize = 512 << 10;

/// Rows and columns of a product.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    rows: usize,
    vector: usize,
    vectors: usize,
}

impl Product<'_, u8> {
    /// Computes the first `count` rows. They start at element `at` of the output, with a stride of `stride`.
    ///
    /// # Safety
    ///
    /// The kernels are those of an instruction set that this machine has. All values of the rows, or pixels that a
    /// table names, are inside `data`, and `packed` has the length that depth and columns require.
    pub(crate) unsafe fn run(
        &self,
        count: usize,
        output: &mut Output<'_>,
        output_start: usize,
        stride: usize,
    ) {
        let bytes = match self.rows {
            Rows::Strided(_) => self.depth.channels,
            Rows::Table { stride, .. } => stride,
        };
        let block = (BLOCK_BYTES / bytes.max(1)).clamp(4 * MAX_MR, BLOCK_ROWS);
        let mut row_sums = [0; BLOCK_ROWS];
        // SAFETY: the kernels are those of an instruction set that this machine has.
        let _configured = unsafe { Configured::new(self.pick(count)) };
        for row in (0..count).step_by(block) {
            let rows = block.min(count - row);
            if !self.zero_points.is_empty() {
                for (i, sum) in row_sums[..rows].iter_mut().enumerate() {
                    *sum = self.row_sum(row + i);
                }
            }
            let mut vectors_left = self.n.div_ceil(LANES);
            let mut vector = 0;
            while vectors_left > 0 {
                let vectors = pack::width(vectors_left);
                let block = Block { row, rows, vector, vectors };
                // SAFETY: the rows and columns of the block are within the product, whose values
                // and weights are inside their slices.
                unsafe {
                    self.panel(block, &row_sums, output, output_start + row * stride, stride);
                };
                vector += vectors;
                vectors_left -= vectors;
            }
        }
    }

    /// Returns the fastest kernels for this many rows.
    fn pick(&self, rows: usize) -> &'static MicroKernels {
        let is_gathered = matches!(self.rows, Rows::Table { .. });
        self.kernels.pick(rows, self.depth.groups().unwrap_or(0), is_gathered)
    }

    /// Computes the columns of one panel for a block of rows.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`], for the rows and columns of the block.
    unsafe fn panel(
        &self,
        block: Block,
        row_sums: &[i32; BLOCK_ROWS],
        output: &mut Output<'_>,
        start: usize,
        stride: usize,
    ) {
        let Block { row, rows, vector, vectors } = block;
        let columns = Columns::new(self, vector, vectors, output);
        let panel = pack::Panel::new(self.packed, self.depth, vector, vectors);
        let (b, prefetch_lines) = (panel.weights.as_ptr(), panel.weights.len() / LINE);
        // The next panel usually has the same width; after the last one there is nothing to prefetch.
        let next = panel.following.as_ptr();
        let prefetch_lines = prefetch_lines.min(panel.following.len() / LINE);
        let steps = self.depth.taps * self.depth.channels.div_ceil(4);
        let start = start + vector * LANES;
        let mut sums = Accumulators::new();
        let is_u16 = matches!(output, Output::U16 { .. });
        let kernels = if is_u16 { self.kernels.small() } else { self.pick(rows) };
        let tiles = rows.div_ceil(kernels.mr[vectors - 1]);
        // The heights of a block's tiles differ by at most one row; the first `taller_tiles` tiles are one row taller.
        let (height, taller_tiles) = (rows / tiles, rows % tiles);
        let (mut rows_done, mut index) = (0, 0);
        while index < tiles {
            let (height, tiles_left) = if index < taller_tiles {
                (height + 1, taller_tiles - index)
            } else {
                (height, tiles - index)
            };
            let is_whole =
                !is_u16 && self.can_read_whole_groups(row + rows_done, tiles_left * height);
            let count = if is_whole { tiles_left } else { 1 };
            let (groups, tail) =
                self.groups(is_whole || self.can_read_whole_groups(row + rows_done, height));
            let (a, stride_a, table, padding) = self.row_data(row + rows_done);
            let prefetched = (index * steps).min(prefetch_lines) * LINE;
            let tile = Tile {
                a,
                stride: stride_a,
                table,
                padding,
                taps: self.depth.taps,
                groups,
                tail,
                count,
                rows: height,
                vectors,
                b,
                prefetch: next.wrapping_add(prefetched),
                prefetch_end: next.wrapping_add(prefetch_lines * LINE),
                row_sums: row_sums[rows_done..].as_ptr(),
            };
            let start = start + rows_done * stride;
            let (to, to_stride) = match output {
                Output::I32(to) => (Out::I32(to[start..].as_mut_ptr()), stride),
                Output::F32 { to, activation, .. } => {
                    (Out::F32(to[start..].as_mut_ptr(), *activation), stride)
                }
                Output::U8 { to, zero_point, .. } => {
                    (Out::U8(to[start..].as_mut_ptr(), i16::from(*zero_point), 0), stride)
                }
                Output::I8 { to, zero_point, .. } => {
                    let zero = i16::from(*zero_point) + 128;
                    (Out::U8(to[start..].as_mut_ptr().cast(), zero, 128), stride)
                }
                Output::U16 { .. } => (Out::I32(sums.0.as_mut_ptr().cast()), MAX_NR),
            };
            // SAFETY: the tile's rows are inside `data` (or its table refers to pixels inside it),
            // its columns inside `packed`; the slice `to` from `start` on was cut to its rows and
            // columns, `to_stride` apart.
            unsafe { (kernels.tiles)(&tile, &columns, to, to_stride) };
            if let Output::U16 { to, zero_point, .. } = output {
                let (sums, to) = (&sums.0[..height], &mut to[start..]);
                requant::finish_u16(sums, &columns, to, stride, *zero_point);
            }
            rows_done += count * height;
            index += count;
        }
    }

    /// Returns the number of groups of four channels that are read as a whole, and of the channels after them.
    fn groups(&self, reads_whole_groups: bool) -> (usize, usize) {
        let channels = self.depth.channels;
        if reads_whole_groups { (channels.div_ceil(4), 0) } else { (channels / 4, channels % 4) }
    }

    /// Returns the operands of a tile that starts at a row: values, stride, table and padding.
    fn row_data(&self, row: usize) -> (*const u8, usize, *const u32, *const u8) {
        match self.rows {
            Rows::Strided(stride) => {
                let from = (row * stride).min(self.data.len());
                (self.data[from..].as_ptr(), stride, std::ptr::null(), std::ptr::null())
            }
            Rows::Table { table, stride, padding } => {
                let table = table[row * self.depth.taps..].as_ptr();
                (self.data.as_ptr(), stride, table, padding.as_ptr())
            }
        }
    }

    /// Returns whether these rows can be read in whole groups of 4 values without reading past the data. If the depth
    /// ends within a group, the values past it are multiplied by 0.
    fn can_read_whole_groups(&self, row: usize, count: usize) -> bool {
        let width = self.depth.channels.next_multiple_of(4);
        if width == self.depth.channels {
            return true;
        }
        let Some(last) = self.data.len().checked_sub(width) else { return false };
        match self.rows {
            Rows::Strided(stride) => (row + count - 1) * stride <= last,
            Rows::Table { table, stride, .. } => {
                let pixels = last / stride.max(1);
                let entries = &table[row * self.depth.taps..][..count * self.depth.taps];
                // Entries out of range read the padding.
                self.kernels.reach(entries).0 as usize <= pixels + 1
            }
        }
    }

    /// Returns the sum of a row's values.
    fn row_sum(&self, row: usize) -> i32 {
        let width = self.depth.channels;
        // SAFETY: `kernels` returns only kernels that this machine supports.
        let sum = |values: &[u8]| unsafe { (self.kernels.sum)(values) };
        match self.rows {
            Rows::Strided(stride) => sum(&self.data[row * stride..][..width]),
            Rows::Table { table, stride, padding } => {
                let entries = &table[row * self.depth.taps..][..self.depth.taps];
                let pixels = entries.iter().map(|&entry| match entry {
                    PADDING => sum(&padding[..width]),
                    entry => sum(&self.data[entry as usize * stride..][..width]),
                });
                pixels.fold(0, i32::wrapping_add)
            }
        }
    }
}

impl Tile {
    /// Calls a function with each of the `count` tiles and its output.
    #[inline(always)]
    pub(super) fn each(&self, mut out: Out, stride: usize, mut compute: impl FnMut(&Tile, Out)) {
        let mut tile = Self { count: 1, ..*self };
        for _ in 0..self.count {
            compute(&tile, out);
            if tile.table.is_null() {
                tile.a = tile.a.wrapping_add(tile.rows * tile.stride);
            } else {
                tile.table = tile.table.wrapping_add(tile.rows * tile.taps);
            }
            tile.row_sums = tile.row_sums.wrapping_add(tile.rows);
            out = out.skip(tile.rows * stride);
        }
    }

    /// Returns the first value of a tap of a row.
    ///
    /// # Safety
    ///
    /// The row and the tap are of the tile.
    #[inline(always)]
    pub(super) unsafe fn tap_ptr(&self, row: usize, tap: usize) -> *const u8 {
        if self.table.is_null() {
            return self.a.wrapping_add(row * self.stride);
        }
        // SAFETY: the table has an entry for each tap of each row.
        let entry = unsafe { *self.table.add(row * self.taps + tap) };
        if entry == PADDING {
            self.padding
        } else {
            self.a.wrapping_add(entry as usize * self.stride)
        }
    }

    /// Returns the last values of a tap, fewer than 4, followed by zeros.
    ///
    /// # Safety
    ///
    /// There are `tail` values at `from`.
    #[inline(always)]
    pub(super) unsafe fn tail(&self, values: *const u8) -> [u8; 4] {
        let mut group = [0; 4];
        for (i, value) in group[..self.tail].iter_mut().enumerate() {
            // SAFETY: `tail` values are readable at `values`, and `i` is below that.
            *value = unsafe { values.add(i).read() };
        }
        group
    }
}

/// The widest tile must fit a row of accumulators.
const _: () = assert!(MAX_VECTORS * LANES == MAX_NR);
