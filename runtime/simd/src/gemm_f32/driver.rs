//! The loops around the micro-kernels: divides a product into tiles, after checking that all of them are inside the
//! slices.

use std::ops::Range;
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Epilogue, MicroKernel, MicroKernels, Tile};
use crate::math::Curve;

/// The most steps of depth per block; `C` is read and written once more for each further block.
const MAX_DEPTH: usize = 768;
/// The most elements of a block of `A`: half of a 1 MiB second-level cache.
const MAX_BLOCK: usize = 1 << 17;
/// Packed weights of up to this many elements stay in the cache in any case. Blocks of `A` may then be small, so that
/// the rows of `C` are written nearly in order.
const SMALL_WEIGHTS: usize = 1 << 15;
/// The most elements of a block of `A` with small weights.
const SMALL_BLOCK: usize = 1 << 12;
/// Elements of a cache line.
const LINE: usize = 16;

impl MicroKernels {
    /// Returns the registers per row of the next panel if the remaining columns have `registers_left` registers:
    /// usually `panel`, but one more for the last panel, instead of a further panel of one register, which would be
    /// limited by loads and read `A` again.
    pub(super) fn panel(&self, registers_left: usize) -> usize {
        if registers_left <= self.strided.len() { registers_left } else { self.panel }
    }

    /// Computes a tile of `rows` rows, and applies the curve to it.
    ///
    /// # Safety
    ///
    /// `compute` is one of these kernels, for this number of rows. The tile's pointers are valid for its rows, depth
    /// and columns.
    #[inline]
    pub(super) unsafe fn run(
        &self,
        compute: MicroKernel,
        tile: &Tile,
        rows: usize,
        curve: Option<Curve>,
    ) {
        // SAFETY: `compute` is one of these kernels, for as many rows; the tile's `a`, `b` and `c`
        // are valid for its depth, rows and columns.
        unsafe { compute(tile) };
        let Some(curve) = curve else { return };
        if tile.ldc == tile.cols {
            // SAFETY: `tile.c` has `rows` rows of `tile.cols` columns, one after the other.
            let tile_elements = unsafe { std::slice::from_raw_parts_mut(tile.c, rows * tile.cols) };
            return curve.apply(self.isa, tile_elements);
        }
        for row in 0..rows {
            let address = tile.c.wrapping_add(row * tile.ldc);
            // SAFETY: `tile.c` has `rows` rows of `tile.cols` columns, `ldc` apart, and `row` is below `rows`.
            let row = unsafe { std::slice::from_raw_parts_mut(address, tile.cols) };
            curve.apply(self.isa, row);
        }
    }

    /// [`gemm`](super::gemm) for these kernels.
    ///
    /// # Panics
    ///
    /// Panics if a slice is too short for its matrix, or `ldc` is less than `n`.
    #[expect(clippy::too_many_arguments, reason = "the arguments of BLAS, in its order")]
    pub fn gemm(
        &self,
        a: &[f32],
        lda: usize,
        m: usize,
        k: usize,
        packed: &[f32],
        n: usize,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        if m == 0 || n == 0 {
            return;
        }
        assert!(holds(a, m, k, lda), "A is too short");
        self.check(m, k, packed, n, c, ldc, epilogue);
        Product { kernels: self, a, lda, from: 0, k, packed, n, ldc, epilogue }
            .run(m, c.as_mut_ptr());
    }

    /// [`gemm_by_columns`](super::gemm_by_columns) for these kernels.
    #[expect(clippy::too_many_arguments, reason = "those of `gemm`, and how columns are shared")]
    pub(super) fn gemm_by_columns(
        &self,
        a: &[f32],
        lda: usize,
        m: usize,
        k: usize,
        packed: &[f32],
        n: usize,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
        chunks: usize,
        run: impl FnOnce(usize, &(dyn Fn() + Sync)),
    ) {
        if m == 0 || n == 0 {
            return;
        }
        assert!(holds(a, m, k, lda), "A is too short");
        self.check(m, k, packed, n, c, ldc, epilogue);
        let columns = self.columns_of_chunk(n, chunks);
        let (shared, count) = (Shared(c.as_mut_ptr()), n.div_ceil(columns));
        let next = AtomicUsize::new(0);
        let chunk = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return false;
            }
            let first = index * columns;
            let bias = epilogue.bias.map(|bias| &bias[first..]);
            let residual = epilogue.residual.map(|(data, ld)| (&data[first..], ld));
            let epilogue = &Epilogue { bias, residual, ..*epilogue };
            let (packed, n) = (&packed[first * k..], columns.min(n - first));
            let product = Product { kernels: self, a, lda, from: 0, k, packed, n, ldc, epilogue };
            // Chunks have disjoint columns, and `next` hands out each one once.
            product.run(m, shared.column_address(first));
            true
        };
        run(count, &|| {
            chunk();
        });
        while chunk() {}
    }

    /// Adds the products of a range of depth. `a` has only the columns of this range for `m` rows, without gaps. A
    /// caller passes the ranges of a product in order; the first call adds bias and residual, the last one applies the
    /// activation.
    ///
    /// # Panics
    ///
    /// Panics like [`Self::gemm`].
    #[expect(clippy::too_many_arguments, reason = "those of `gemm`, and a range")]
    pub(crate) fn gemm_part(
        &self,
        a: &[f32],
        depth: Range<usize>,
        m: usize,
        k: usize,
        packed: &[f32],
        n: usize,
        c: &mut [f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        if m == 0 || n == 0 {
            return;
        }
        let (from, lda) = (depth.start, depth.len());
        assert!(depth.start <= depth.end && depth.end <= k, "the depth is not of the product");
        assert!(holds(a, m, lda, lda), "A is too short");
        self.check(m, k, packed, n, c, ldc, epilogue);
        let product = Product { kernels: self, a, lda, from, k, packed, n, ldc, epilogue };
        product.block(Block { row: 0, rows: m, k: from, depth: lda }, c.as_mut_ptr());
    }

    /// Panics if a slice other than `A` is too short.
    #[expect(clippy::too_many_arguments, reason = "those of `gemm`")]
    fn check(
        &self,
        m: usize,
        k: usize,
        packed: &[f32],
        n: usize,
        c: &[f32],
        ldc: usize,
        epilogue: &Epilogue<'_>,
    ) {
        assert!(packed.len() >= self.packed_len(k, n), "packed B is too short");
        assert!(holds(c, m, n, ldc), "C is too short");
        assert!(ldc >= n || m == 1, "rows of C overlap");
        assert!(epilogue.bias.is_none_or(|bias| bias.len() >= n), "the bias is too short");
        let residual = epilogue.residual;
        assert!(
            residual.is_none_or(|(data, ld)| holds(data, m, n, ld)),
            "the residual is too short"
        );
    }
}

/// Returns whether a matrix of `rows` (at least 1) and `cols`, with this row stride, is inside the slice.
pub(super) fn holds<T>(data: &[T], rows: usize, cols: usize, stride: usize) -> bool {
    let len = (rows - 1).checked_mul(stride).and_then(|last_row| last_row.checked_add(cols));
    cols == 0 || len.is_some_and(|len| len <= data.len())
}

/// The first element of a matrix whose columns are shared among threads.
struct Shared(*mut f32);

// SAFETY: `gemm_by_columns` gives each thread separate columns, and the pointer is not used
// otherwise.
unsafe impl Sync for Shared {}

impl Shared {
    fn column_address(&self, column: usize) -> *mut f32 {
        self.0.wrapping_add(column)
    }
}

/// A product whose slice lengths have been checked.
struct Product<'a> {
    kernels: &'a MicroKernels,
    a: &'a [f32],
    lda: usize,
    /// The column that `a` starts with.
    from: usize,
    k: usize,
    packed: &'a [f32],
    n: usize,
    ldc: usize,
    epilogue: &'a Epilogue<'a>,
}

/// Rows of `A` and `C`, and a range of depth.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    rows: usize,
    k: usize,
    depth: usize,
}

/// A panel: its first column of `C`, and its registers per row.
#[derive(Clone, Copy)]
struct Panel {
    col: usize,
    registers: usize,
}

impl Product<'_> {
    /// Computes `m` rows of `n` columns of `c`, with a stride of `ldc`.
    fn run(&self, m: usize, c: *mut f32) {
        // With few rows each panel is used only once. Blocks would not be read again from the cache, and one long
        // sequential read is faster.
        let has_one_tile = m <= self.kernels.strided[self.kernels.panel - 1].len();
        let blocks_of_depth = if has_one_tile { 1 } else { self.k.div_ceil(MAX_DEPTH).max(1) };
        let depth = self.k.div_ceil(blocks_of_depth).next_multiple_of(8).min(self.k);
        let has_small_weights = self.k.saturating_mul(self.n) <= SMALL_WEIGHTS;
        let rows = if has_small_weights {
            SMALL_BLOCK / depth.clamp(32, 128)
        } else {
            MAX_BLOCK / depth.max(128)
        };
        for (row, rows) in ranges(m, rows.max(1)) {
            let mut k = 0;
            loop {
                let depth = depth.min(self.k - k);
                self.block(Block { row, rows, k, depth }, c);
                k += depth;
                if k >= self.k {
                    break;
                }
            }
        }
    }

    /// Computes a block, panel by panel.
    fn block(&self, block: Block, c: *mut f32) {
        let mut registers_left = self.n.div_ceil(self.kernels.lanes);
        let mut col = 0;
        while registers_left > 0 {
            let registers = self.kernels.panel(registers_left);
            self.panel(block, Panel { col, registers }, c);
            col += registers * self.kernels.lanes;
            registers_left -= registers;
        }
    }

    /// Computes a panel of a block, tile by tile.
    fn panel(&self, block: Block, panel: Panel, c: *mut f32) {
        let Self { kernels, lda, ldc, epilogue, .. } = *self;
        let Panel { col, registers } = panel;
        let width = registers * kernels.lanes;
        let cols = width.min(self.n - col);
        let tiles = kernels.strided[registers - 1];
        let (first, last) = (block.k == 0, block.k + block.depth == self.k);
        let bias = epilogue.bias.filter(|_| first).map_or(null(), |bias| bias[col..].as_ptr());
        let b = self.packed[col * self.k + block.k * width..].as_ptr();
        // The next panel follows in memory, and usually has the same width.
        let next = b.wrapping_add(self.k * width);
        let panel_lines = block.depth * width / LINE;
        let mut prefetched = 0;
        for (row, rows) in ranges(block.rows, tiles.len()) {
            let row = block.row + row;
            let prefetch =
                if prefetched < panel_lines { next.wrapping_add(prefetched * LINE) } else { b };
            prefetched += block.depth;
            let tile_address = c.wrapping_add(row * ldc + col);
            let (add, ld_add) = match (first, epilogue.residual) {
                (false, _) => (tile_address.cast_const(), ldc),
                (true, Some((data, ld))) => (data[row * ld + col..].as_ptr(), ld),
                (true, None) => (null(), 0),
            };
            let offset = row.wrapping_mul(lda).wrapping_add(block.k - self.from);
            let tile = Tile {
                a: self.a[offset.min(self.a.len())..].as_ptr(),
                lda,
                pixels: null(),
                ld_pixels: 0,
                channel: 0,
                zeros: null(),
                taps: 1,
                depth: block.depth,
                b,
                prefetch,
                c: tile_address,
                ldc,
                cols,
                bias,
                add,
                ld_add,
                clamp: epilogue.activation.clamp().filter(|_| last),
            };
            let curve = epilogue.activation.curve().filter(|_| last);
            // SAFETY: `kernels` returns only kernels that this machine supports, and
            // `MicroKernels::gemm` checked that all rows and columns of the product are within the
            // slices.
            unsafe { kernels.run(tiles[rows - 1], &tile, rows, curve) };
        }
    }
}

/// Divides `len` into the fewest parts of at most `max_len` and of nearly equal size. Yields the start and the length
/// of each.
pub(super) fn ranges(len: usize, max_len: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = len.div_ceil(max_len);
    let (short, long) = (len / parts.max(1), len % parts.max(1));
    (0..parts).map(move |i| (i * short + i.min(long), short + usize::from(i < long)))
}
