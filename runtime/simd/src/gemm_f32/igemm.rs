//! Indirect GEMM: products whose rows of `A` are gathered through a table, for convolution without im2col (a copy of
//! the input with a row for each output pixel).
//!
//! For each block of rows, table entries are converted to pointers, once for all groups and panels. The loop over the
//! depth runs tap by tap, and skips taps that are padding for all rows of a tile.

use std::ops::Range;
use std::ptr::null;

use super::driver::{holds, ranges};
use super::source::Pixels;
use super::{Epilogue, MicroKernels, Tile};

/// Pointers of a block of rows: 16 KiB on the stack.
const POINTERS: usize = 2048;
/// The most taps of a block, so that the pointers of the tallest tile fit.
const MAX_TAPS: usize = 64;
/// The most steps of depth per block, unless twice as many cover the whole depth. `C` is read and written once more for
/// each further block.
const MAX_DEPTH: usize = 768;
/// The most elements of the pixels of a block of rows.
const MAX_BLOCK: usize = 1 << 17;
/// Elements of a cache line.
const LINE: usize = 16;

/// Rows of `A`: each is the channels of one pixel per tap, tap after tap.
#[derive(Clone, Copy, Debug)]
pub struct IndirectA<'a> {
    /// Pixels with the channels of all groups.
    pub a: &'a [f32],
    /// Elements between pixels. Pixels may overlap.
    pub lda: usize,
    /// By row, then by tap: the index of a pixel. An index out of range, such as [`PADDING`](crate::indirect::PADDING),
    /// stands for zeros.
    pub table: &'a [u32],
    /// Columns of the table.
    pub taps: usize,
    /// Channels per group: the elements of a pixel that a group reads.
    pub channels: usize,
    /// Number of groups; each maps its own channels of `A` to its own columns of `C`, with its own weights.
    pub groups: usize,
    /// A zero per channel of all groups.
    pub zeros: &'a [f32],
    /// Maps rows of the table to rows of `C`.
    pub row_map: RowMap,
}

/// The positions of table rows in `C`: rows form lines, and lines form planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMap {
    /// Rows of the table per line.
    pub width: usize,
    /// Lines per plane.
    pub lines: usize,
    /// Strides in rows of `C` for a plane, a line and a row of the table.
    pub steps: [usize; 3],
    /// Position in the map of the first row of the table passed.
    pub first: usize,
    /// The row of `C` of the map's first row.
    pub start: usize,
    /// The first row of the `C` passed.
    pub origin: usize,
}

impl RowMap {
    /// Maps to contiguous rows in lines of `width`, from row `first` on.
    pub fn lines(width: usize, first: usize) -> Self {
        Self { width, lines: usize::MAX, steps: [0, width, 1], first, start: 0, origin: first }
    }

    /// Returns whether the lines of `C` follow each other without gaps, so that a tile may span lines.
    fn is_dense(&self) -> bool {
        self.lines == usize::MAX && self.steps[1..] == [self.width, 1]
    }

    /// Returns the row of `C` that a table row maps to, or `None` if it is outside.
    pub(super) fn row_of_c(&self, row: usize) -> Option<usize> {
        let row = self.first.checked_add(row)?;
        let (line, x) = (row / self.width, row % self.width);
        let (plane, line) = (line / self.lines, line % self.lines);
        let [planes, lines, pixels] = self.steps;
        let plane = plane.checked_mul(planes)?;
        let line = line.checked_mul(lines)?.checked_add(plane)?;
        let row = x.checked_mul(pixels)?.checked_add(line)?.checked_add(self.start)?;
        row.checked_sub(self.origin)
    }

    /// Splits a range of rows at the ends of lines.
    fn split_at_lines(self, rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let (first, width) = (self.first, self.width);
        let mut start = rows.start;
        std::iter::from_fn(move || {
            (start < rows.end).then(|| {
                let line_rest = width - (first + start) % width;
                let range = start..rows.end.min(start.saturating_add(line_rest));
                start = range.end;
                range
            })
        })
    }

    /// Returns whether `m` table rows map to rows inside `data`, a matrix of `cols` columns with a stride of `ld`.
    fn fits(&self, m: usize, data: &[f32], cols: usize, ld: usize) -> bool {
        self.split_at_lines(0..m).all(|line| {
            let (rows, row_step) = (line.len(), self.steps[2].checked_mul(ld));
            let row = self.row_of_c(line.start).and_then(|row| row.checked_mul(ld));
            let data = row.and_then(|row| data.get(row..));
            matches!((data, row_step), (Some(data), Some(row_step)) if holds(data, rows, cols, row_step))
        })
    }
}

impl MicroKernels {
    /// Computes `C = epilogue(A x B)` with `A` of `m` gathered rows, and for each group a `B` of `taps * channels` x
    /// `n` packed for these kernels, one after the other. The columns of groups are adjacent in `C`, in the bias and in
    /// the residual.
    ///
    /// # Panics
    ///
    /// Panics if a slice is too short for its matrix, or the stride of `C` is less than `groups * n`.
    #[expect(clippy::too_many_arguments, reason = "the arguments of BLAS, in its order")]
    pub fn igemm(
        &self,
        a: &IndirectA<'_>,
        m: usize,
        packed: &[f32],
        n: usize,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        if m == 0 || n == 0 || a.groups == 0 {
            return;
        }
        let entries = m.checked_mul(a.taps);
        assert!(entries.is_some_and(|len| len <= a.table.len()), "the table is too short");
        let depth = a.groups.checked_mul(a.channels);
        assert!(depth.is_some_and(|len| len <= a.zeros.len()), "the row of zeros is too short");
        let group_len = a.taps.checked_mul(a.channels).map(|k| self.packed_len(k, n));
        let packed_len = group_len.and_then(|len| len.checked_mul(a.groups));
        assert!(packed_len.is_some_and(|len| len <= packed.len()), "packed B is too short");
        let cols = a.groups.saturating_mul(n);
        assert!(epilogue.bias.is_none_or(|bias| bias.len() >= cols), "the bias is too short");
        let row_map = a.row_map;
        assert!(row_map.width > 0 && row_map.lines > 0, "lines and planes are not empty");
        assert!(row_map.first.checked_add(m).is_some(), "C has no such rows");
        assert!(ldc >= cols || m == 1, "rows of C overlap");
        assert!(row_map.fits(m, c, cols, ldc), "C is too short");
        let residual = epilogue.residual;
        assert!(
            residual.is_none_or(|(data, ld)| row_map.fits(m, data, cols, ld)),
            "the residual is too short"
        );
        Product { kernels: self, a, packed, len: group_len.unwrap_or(0), n, ldc, epilogue }
            .run(m, c);
    }
}

/// A product whose slice lengths have been checked.
struct Product<'a> {
    kernels: &'a MicroKernels,
    a: &'a IndirectA<'a>,
    packed: &'a [f32],
    /// Elements of the packed weights of one group.
    len: usize,
    n: usize,
    ldc: usize,
    epilogue: &'a Epilogue<'a>,
}

/// Rows whose pointers are resolved for a range of taps.
struct Block<'a> {
    rows: Range<usize>,
    taps: Range<usize>,
    zeros: *const f32,
    /// By row, then by tap.
    pointers: &'a [*const f32],
}

/// Columns of `C`, and the start of their weights.
#[derive(Clone, Copy)]
struct Panel {
    group: usize,
    col: usize,
    registers: usize,
}

/// A range of the depth: several taps with all their channels, or some channels of one tap.
struct Depth {
    taps: Range<usize>,
    channel: usize,
    channels: usize,
}

impl Product<'_> {
    fn run(&self, m: usize, c: &mut [f32]) {
        let IndirectA { a, lda, table, taps, channels, groups, zeros, row_map } = *self.a;
        let pixel = groups * channels;
        let count =
            a.len().checked_sub(pixel).map_or(0, |last_start| match last_start.checked_div(lda) {
                Some(steps) => u32::try_from(steps + 1).unwrap_or(u32::MAX),
                None => u32::MAX,
            });
        let pixels = Pixels { a: a.as_ptr(), lda, count, zeros: zeros.as_ptr() };
        let mut pointers = [null(); POINTERS];
        let taps_per_block = taps.div_ceil(taps.div_ceil(MAX_TAPS).max(1)).max(1);
        let cached_rows = MAX_BLOCK / pixel.max(1);
        let max_rows = (POINTERS / taps_per_block).min(cached_rows.max(POINTERS / MAX_TAPS));
        let step = row_map.rows_per_block(m, max_rows);
        let mut row = 0;
        while row < m {
            let rows = row..m.min(row.saturating_add(step - (row_map.first + row) % step));
            let mut tap = 0;
            loop {
                let taps = tap..taps.min(tap + taps_per_block);
                let pointers = &mut pointers[..rows.len() * taps.len()];
                self.resolve(&pixels, table, rows.clone(), taps.clone(), pointers);
                let (rows, taps) = (rows.clone(), taps.clone());
                tap = taps.end;
                self.block(&Block { rows, taps, zeros: pixels.zeros, pointers }, c);
                if tap >= self.a.taps {
                    break;
                }
            }
            row = rows.end;
        }
    }

    fn resolve(
        &self,
        pixels: &Pixels,
        table: &[u32],
        rows: Range<usize>,
        taps: Range<usize>,
        pointers: &mut [*const f32],
    ) {
        let all_taps = self.a.taps;
        if taps.len() == all_taps {
            let entries = &table[rows.start * all_taps..rows.end * all_taps];
            // SAFETY: `kernels` returns only kernels that this machine supports; the slices are as
            // long as they say.
            unsafe { (self.kernels.resolve)(pixels, entries, pointers) };
        } else {
            for (row, pointers) in rows.zip(pointers.chunks_exact_mut(taps.len())) {
                let entries = &table[row * all_taps..][taps.clone()];
                // SAFETY: `kernels` returns only kernels that this machine supports; the slices are
                // as long as they say.
                unsafe { (self.kernels.resolve)(pixels, entries, pointers) };
            }
        }
    }

    fn block(&self, block: &Block<'_>, c: &mut [f32]) {
        let IndirectA { channels, groups, .. } = *self.a;
        let parts = channels.div_ceil(MAX_DEPTH).max(1);
        let channels_per_part = channels.div_ceil(parts);
        let tap_count = block.taps.len();
        let taps = match channels_per_part {
            _ if parts > 1 => 1,
            channels_per_part if channels_per_part * tap_count <= 2 * MAX_DEPTH => tap_count,
            channels_per_part => MAX_DEPTH / channels_per_part,
        };
        for group in 0..groups {
            let mut registers_left = self.n.div_ceil(self.kernels.lanes);
            let mut col = 0;
            while registers_left > 0 {
                let registers = self.kernels.panel(registers_left);
                let panel = Panel { group, col, registers };
                let mut has_computed = false;
                for (tap, count) in ranges(block.taps.len(), taps.max(1)) {
                    for (channel, depth) in ranges(channels, channels_per_part.max(1)) {
                        let taps = block.taps.start + tap..block.taps.start + tap + count;
                        self.tiles(block, panel, &Depth { taps, channel, channels: depth }, c);
                        has_computed = true;
                    }
                }
                if !has_computed {
                    let taps = block.taps.start..block.taps.start;
                    self.tiles(block, panel, &Depth { taps, channel: 0, channels: 0 }, c);
                }
                col += registers * self.kernels.lanes;
                registers_left -= registers;
            }
        }
    }

    /// Computes the tiles of a block for one panel and one range of the depth.
    fn tiles(&self, block: &Block<'_>, panel: Panel, depth: &Depth, c: &mut [f32]) {
        let Self { kernels, ldc, epilogue, .. } = *self;
        let IndirectA { channels, row_map, taps, .. } = *self.a;
        let Panel { group, col, registers } = panel;
        let width = registers * kernels.lanes;
        let cols = width.min(self.n - col);
        let tiles = kernels.indirect[registers - 1];
        let depth_start = depth.taps.start * channels + depth.channel;
        let end = depth.taps.end.saturating_sub(1) * channels + depth.channel + depth.channels;
        let (first, last) = (depth_start == 0, end == taps * channels || depth.taps.is_empty());
        let column = group * self.n + col;
        let bias = epilogue.bias.filter(|_| first).map_or(null(), |bias| bias[column..].as_ptr());
        let b =
            self.packed[group * self.len + col * taps * channels + depth_start * width..].as_ptr();
        // The weights that are read next follow in memory.
        let len = depth.taps.len() * depth.channels;
        let next = b.wrapping_add(len * width);
        let panel_lines = len * width / LINE;
        let mut prefetched = 0;
        let per_row = block.taps.len();
        for line in row_map.tile_ranges(block.rows.clone(), tiles.len()) {
            for (row, rows) in ranges(line.len(), tiles.len()) {
                let row = line.start + row;
                let prefetch =
                    if prefetched < panel_lines { next.wrapping_add(prefetched * LINE) } else { b };
                prefetched += len;
                let c_row = row_map.row_of_c(row).unwrap_or(0);
                let pixels =
                    (row - block.rows.start) * per_row + depth.taps.start - block.taps.start;
                let step = row_map.steps[2];
                let tile_address = c[c_row * ldc + column..].as_mut_ptr();
                let (add, ld_add) = match (first, epilogue.residual) {
                    (false, _) => (tile_address.cast_const(), ldc * step),
                    (true, Some((data, ld))) => (data[c_row * ld + column..].as_ptr(), ld * step),
                    (true, None) => (null(), 0),
                };
                let tile = Tile {
                    a: null(),
                    lda: 0,
                    pixels: block.pointers[pixels..].as_ptr(),
                    ld_pixels: per_row,
                    channel: group * channels + depth.channel,
                    zeros: block.zeros,
                    taps: depth.taps.len(),
                    depth: depth.channels,
                    b,
                    prefetch,
                    c: tile_address,
                    ldc: ldc * step,
                    cols,
                    bias,
                    add,
                    ld_add,
                    clamp: epilogue.activation.clamp().filter(|_| last),
                };
                let curve = epilogue.activation.curve().filter(|_| last);
                // SAFETY: `kernels` returns only kernels that this machine supports.
                // `MicroKernels::igemm` checked that all rows and columns are within `C`, the
                // residual, the bias and packed `B`, and `Pixels::resolve` makes pointers only to
                // pixels with all channels of all groups.
                unsafe { kernels.run(tiles[rows - 1], &tile, rows, curve) };
            }
        }
    }
}

impl RowMap {
    /// Returns the rows per block: at most `most`, in whole lines if a line fits.
    fn rows_per_block(&self, m: usize, max_rows: usize) -> usize {
        let Some(lines) = max_rows.checked_div(self.width).filter(|&lines| lines > 0) else {
            return m.div_ceil(m.div_ceil(max_rows)).max(1);
        };
        let line_count = m.div_ceil(self.width);
        line_count.div_ceil(line_count.div_ceil(lines)) * self.width
    }

    /// Divides rows into ranges, which are then divided into tiles of at most `height` rows. Splits at the ends of
    /// lines if `C` has gaps there, or if the tiles of a line are nearly full: a tile within one line of an image has
    /// more taps that are padding for all of its rows.
    fn tile_ranges(self, rows: Range<usize>, height: usize) -> impl Iterator<Item = Range<usize>> {
        let rows_of_full_tiles = self.width.div_ceil(height).saturating_mul(height);
        let spans_lines =
            self.is_dense() && self.width.saturating_mul(8) < rows_of_full_tiles.saturating_mul(7);
        let row_map = if spans_lines { Self { width: usize::MAX, ..self } } else { self };
        row_map.split_at_lines(rows)
    }
}
