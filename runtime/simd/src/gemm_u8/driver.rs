//! The loops around the micro-kernels: divides a product into tiles.

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
    /// Computes the first `count` rows, which start at `at` in the output, with a stride of `stride`.
    ///
    /// # Safety
    ///
    /// The kernels are those of an instruction set that this machine has. All values of the rows, or pixels that a
    /// table names, are inside `data`, and `packed` has the length that depth and columns require.
    pub(crate) unsafe fn run(
        &self,
        count: usize,
        output: &mut Output<'_>,
        at: usize,
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
            let mut left = self.n.div_ceil(LANES);
            let mut vector = 0;
            while left > 0 {
                let vectors = pack::width(left);
                let block = Block { row, rows, vector, vectors };
                // SAFETY: the rows and columns of the block are within the product, whose values
                // and weights are inside their slices.
                unsafe { self.panel(block, &row_sums, output, at + row * stride, stride) };
                vector += vectors;
                left -= vectors;
            }
        }
    }

    /// Returns the fastest kernels for this many rows.
    fn pick(&self, rows: usize) -> &'static MicroKernels {
        let is_gathered = matches!(self.rows, Rows::Table { .. });
        self.kernels.pick(rows, self.depth.groups().unwrap_or(0), is_gathered)
    }

    /// # Safety
    ///
    /// As of [`Self::run`], for the rows and columns of the block.
    unsafe fn panel(
        &self,
        block: Block,
        row_sums: &[i32; BLOCK_ROWS],
        output: &mut Output<'_>,
        at: usize,
        stride: usize,
    ) {
        let Block { row, rows, vector, vectors } = block;
        let columns = Columns::new(self, vector, vectors, output);
        let panel = pack::Panel::new(self.packed, self.depth, vector, vectors);
        let (b, lines) = (panel.weights.as_ptr(), panel.weights.len() / LINE);
        // The next panel usually has the same width; after the last one there is nothing to prefetch.
        let next = panel.rest.as_ptr();
        let lines = lines.min(panel.rest.len() / LINE);
        let steps = self.depth.taps * self.depth.channels.div_ceil(4);
        let at = at + vector * LANES;
        let mut sums = Accumulators::new();
        let single = matches!(output, Output::U16 { .. });
        let kernels = if single { self.kernels.small() } else { self.pick(rows) };
        let tiles = rows.div_ceil(kernels.mr[vectors - 1]);
        // The heights of a block's tiles differ by at most one row.
        let (height, taller) = (rows / tiles, rows % tiles);
        let (mut done, mut index) = (0, 0);
        while index < tiles {
            let (height, left) =
                if index < taller { (height + 1, taller - index) } else { (height, tiles - index) };
            let all = !single && self.whole(row + done, left * height);
            let count = if all { left } else { 1 };
            let (groups, tail) = if all || self.whole(row + done, height) {
                (self.depth.channels.div_ceil(4), 0)
            } else {
                (self.depth.channels / 4, self.depth.channels % 4)
            };
            let (a, stride_a, table, padding) = self.place(row + done);
            let prefetched = (index * steps).min(lines) * LINE;
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
                prefetch_end: next.wrapping_add(lines * LINE),
                row_sums: row_sums[done..].as_ptr(),
            };
            let at = at + done * stride;
            let (to, to_stride) = match output {
                Output::I32(to) => (Out::I32(to[at..].as_mut_ptr()), stride),
                Output::F32 { to, activation, .. } => {
                    (Out::F32(to[at..].as_mut_ptr(), *activation), stride)
                }
                Output::U8 { to, zero_point, .. } => {
                    (Out::U8(to[at..].as_mut_ptr(), i16::from(*zero_point), 0), stride)
                }
                Output::I8 { to, zero_point, .. } => {
                    let zero = i16::from(*zero_point) + 128;
                    (Out::U8(to[at..].as_mut_ptr().cast(), zero, 128), stride)
                }
                Output::U16 { .. } => (Out::I32(sums.0.as_mut_ptr().cast()), MAX_NR),
            };
            // SAFETY: the tile's rows are inside `data` (or its table refers to pixels inside it),
            // its columns inside `packed`; the slice `to` from `at` on was cut to its rows and
            // columns, `to_stride` apart.
            unsafe { (kernels.tiles)(&tile, &columns, to, to_stride) };
            if let Output::U16 { to, zero_point, .. } = output {
                let (sums, to) = (&sums.0[..height], &mut to[at..]);
                requant::finish_u16(sums, &columns, to, stride, *zero_point);
            }
            done += count * height;
            index += count;
        }
    }

    /// Returns the tile's data from a row on: values, stride, table and padding.
    fn place(&self, row: usize) -> (*const u8, usize, *const u32, *const u8) {
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

    /// Whether these rows may be read in whole groups of 4 values, even if the depth ends within one: values past the
    /// depth are multiplied by 0.
    fn whole(&self, row: usize, count: usize) -> bool {
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
    /// Calls a function with each tile and its output.
    #[inline(always)]
    pub(super) fn each(&self, mut out: Out, stride: usize, mut body: impl FnMut(&Tile, Out)) {
        let mut tile = Self { count: 1, ..*self };
        for _ in 0..self.count {
            body(&tile, out);
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
    pub(super) unsafe fn tail(&self, from: *const u8) -> [u8; 4] {
        let mut four = [0; 4];
        for (i, value) in four[..self.tail].iter_mut().enumerate() {
            // SAFETY: `tail` values are readable at `from`, and `i` is below that.
            *value = unsafe { from.add(i).read() };
        }
        four
    }
}

/// The widest tile must fit a row of accumulators.
const _: () = assert!(MAX_VECTORS * LANES == MAX_NR);
