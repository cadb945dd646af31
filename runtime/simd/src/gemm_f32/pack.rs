//! The packing of `B` into panels: groups of columns that one tile of `C` has. A panel has `k` rows of whole registers,
//! without gaps. It starts at element `k` times its first column; columns past the last column of `B` are zeros.

use super::MicroKernels;
use super::driver::holds;
use crate::isa::{SimdOp, Vector, dispatch};

/// An element of unpacked weights: a value, or its bytes from a file, of any alignment.
pub trait Stored: Copy {
    /// Returns the value.
    fn number(self) -> f32;
}

impl Stored for f32 {
    fn number(self) -> f32 {
        self
    }
}

impl Stored for [u8; 4] {
    fn number(self) -> f32 {
        f32::from_ne_bytes(self)
    }
}

/// The memory layout of a matrix to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `k` rows of `n` elements.
    Rows,
    /// `n` rows of `k` elements: the matrix is transposed.
    Transposed,
}

impl MicroKernels {
    /// [`packed_len`](super::packed_len) for these kernels.
    ///
    /// # Panics
    ///
    /// Panics if the size overflows `usize`.
    pub fn packed_len(&self, k: usize, n: usize) -> usize {
        let len = n.checked_next_multiple_of(self.lanes).and_then(|n| n.checked_mul(k));
        assert!(len.is_some(), "the packed matrix exceeds the address space");
        len.unwrap_or(0)
    }

    /// [`columns_of_chunk`](super::columns_of_chunk) for these kernels.
    pub fn columns_of_chunk(&self, n: usize, chunks: usize) -> usize {
        let width = self.panel * self.lanes;
        // Without chunks, a last chunk that is this narrow would have been part of the previous panel.
        let max_narrow = self.strided.len().saturating_sub(self.panel) * self.lanes;
        let mut columns = n.div_ceil(chunks.max(1)).next_multiple_of(width);
        while columns < n && (1..=max_narrow).contains(&(n % columns)) {
            columns += width;
        }
        columns
    }

    /// [`pack_b`](super::pack_b) for these kernels.
    ///
    /// # Panics
    ///
    /// Panics if `b` or `out` is too short.
    pub fn pack_b<T: Stored>(
        &self,
        b: &[T],
        ldb: usize,
        layout: Layout,
        k: usize,
        n: usize,
        out: &mut [f32],
    ) {
        const { assert!(size_of::<T>() == size_of::<u32>(), "tiles have 4-byte elements") };
        let mut out = &mut out[..self.packed_len(k, n)];
        let mut registers_left = n.div_ceil(self.lanes);
        let mut col = 0;
        while registers_left > 0 && k > 0 {
            let registers = self.panel(registers_left);
            let width = registers * self.lanes;
            let cols = width.min(n - col);
            let (panel, remaining) = out.split_at_mut(k * width);
            match layout {
                Layout::Rows => pack_rows(b, ldb, col, cols, panel, width),
                Layout::Transposed => {
                    let b = &b[(col * ldb).min(b.len())..];
                    assert!(holds(b, cols, k, ldb), "B is too short");
                    let b = b.as_ptr().cast();
                    dispatch(self.isa, Transposed { b, ldb, cols, panel, width, depth: k });
                }
            }
            (out, col, registers_left) = (remaining, col + width, registers_left - registers);
        }
    }
}

impl MicroKernels {
    /// Packs a `k` x `n` matrix whose elements `get` returns by row and column; `rows` yields the row identifiers.
    ///
    /// # Panics
    ///
    /// Panics if `out` is too short.
    pub(crate) fn pack_rows<R: Copy>(
        &self,
        k: usize,
        n: usize,
        rows: &(impl Iterator<Item = R> + Clone),
        get: impl Fn(R, usize) -> f32,
        out: &mut [f32],
    ) {
        let mut out = &mut out[..self.packed_len(k, n)];
        let mut registers_left = n.div_ceil(self.lanes);
        let mut col = 0;
        while registers_left > 0 && k > 0 {
            let registers = self.panel(registers_left);
            let width = registers * self.lanes;
            let (panel, remaining) = out.split_at_mut(k * width);
            for (output, row) in panel.chunks_exact_mut(width).zip(rows.clone()) {
                for (i, output) in output.iter_mut().enumerate() {
                    *output = if col + i < n { get(row, col + i) } else { 0.0 };
                }
            }
            (out, col, registers_left) = (remaining, col + width, registers_left - registers);
        }
    }
}

/// Packs the columns from `col` on of a matrix in [`Layout::Rows`] into a panel.
fn pack_rows<T: Stored>(
    b: &[T],
    ldb: usize,
    col: usize,
    cols: usize,
    panel: &mut [f32],
    width: usize,
) {
    for (i, row) in panel.chunks_exact_mut(width).enumerate() {
        let (output, pad) = row.split_at_mut(cols);
        output
            .iter_mut()
            .zip(&b[i * ldb + col..][..cols])
            .for_each(|(output, b)| *output = b.number());
        pad.fill(0.0);
    }
}

/// The packing of a matrix in [`Layout::Transposed`]: `cols` rows of `depth` elements at `b`, of any alignment and with
/// a stride of `ldb`, become the columns of a panel. The panel has `depth` rows of `width` elements, at least `cols`.
struct Transposed<'a> {
    b: *const u32,
    ldb: usize,
    cols: usize,
    depth: usize,
    panel: &'a mut [f32],
    width: usize,
}

impl SimdOp for Transposed<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { b, ldb, cols, depth, panel, width } = self;
        if cols < width {
            for row in panel.chunks_exact_mut(width) {
                row[cols..].fill(0.0);
            }
        }
        let (from, to) = (b, panel.as_mut_ptr().cast::<u32>());
        for col in (0..cols).step_by(S::TILE4) {
            for row in (0..depth).step_by(S::TILE4) {
                let (x, y) =
                    (from.wrapping_add(col * ldb + row), to.wrapping_add(row * width + col));
                let (rows, steps) = (S::TILE4.min(cols - col), S::TILE4.min(depth - row));
                if rows == S::TILE4 && steps == S::TILE4 {
                    // SAFETY: the rows from `col` on have enough elements from `row` on at `b`, and
                    // the panel has a place for each of them.
                    unsafe { simd.tile4(x, ldb, y, width) }
                } else {
                    // SAFETY: `rows` rows from `col` on have `steps` elements from `row` on at `b`, and the
                    // panel has `steps` rows of `rows` columns there.
                    unsafe { simd.part4(x, ldb, y, width, rows, steps) }
                }
            }
        }
    }
}
