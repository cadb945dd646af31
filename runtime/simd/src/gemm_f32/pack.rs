//! Packs weights into panels: the rows of a panel are whole registers, one after the other.
//!
//! A panel starts at its first column times `k`, and columns beyond the last are zeros.

use super::MicroKernels;

/// How a matrix to pack lies in memory.
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
    /// If that is more than `usize` holds.
    pub fn packed_len(&self, k: usize, n: usize) -> usize {
        let len = n.checked_next_multiple_of(self.lanes).and_then(|n| n.checked_mul(k));
        assert!(len.is_some(), "the packed matrix is larger than memory");
        len.unwrap_or(0)
    }

    /// [`columns_of_chunk`](super::columns_of_chunk) for these kernels.
    pub fn columns_of_chunk(&self, n: usize, chunks: usize) -> usize {
        let width = self.panel * self.lanes;
        // A last chunk of so few would have been part of the panel before it.
        let few = self.strided.len().saturating_sub(self.panel) * self.lanes;
        let mut columns = n.div_ceil(chunks.max(1)).next_multiple_of(width);
        while columns < n && (1..=few).contains(&(n % columns)) {
            columns += width;
        }
        columns
    }

    /// [`pack_b`](super::pack_b) for these kernels.
    ///
    /// # Panics
    ///
    /// If `b` or `out` is too short.
    pub fn pack_b(
        &self,
        b: &[f32],
        ldb: usize,
        layout: Layout,
        k: usize,
        n: usize,
        out: &mut [f32],
    ) {
        let mut out = &mut out[..self.packed_len(k, n)];
        let mut left = n.div_ceil(self.lanes);
        let mut col = 0;
        while left > 0 && k > 0 {
            let registers = self.panel(left);
            let width = registers * self.lanes;
            let cols = width.min(n - col);
            let (panel, rest) = out.split_at_mut(k * width);
            match layout {
                Layout::Rows => pack_rows(b, ldb, col, cols, panel, width),
                Layout::Transposed => pack_transposed(b, ldb, col, cols, panel, width),
            }
            (out, col, left) = (rest, col + width, left - registers);
        }
    }
}

impl MicroKernels {
    /// Packs a `k` x `n` matrix whose element in a row and a column `get` knows; rows have the names that
    /// `rows` gives them.
    ///
    /// # Panics
    ///
    /// If `out` is too short.
    pub(crate) fn pack_rows<R: Copy>(
        &self,
        k: usize,
        n: usize,
        rows: &(impl Iterator<Item = R> + Clone),
        get: impl Fn(R, usize) -> f32,
        out: &mut [f32],
    ) {
        let mut out = &mut out[..self.packed_len(k, n)];
        let mut left = n.div_ceil(self.lanes);
        let mut col = 0;
        while left > 0 && k > 0 {
            let registers = self.panel(left);
            let width = registers * self.lanes;
            let (panel, rest) = out.split_at_mut(k * width);
            for (to, row) in panel.chunks_exact_mut(width).zip(rows.clone()) {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = if col + i < n { get(row, col + i) } else { 0.0 };
                }
            }
            (out, col, left) = (rest, col + width, left - registers);
        }
    }
}

fn pack_rows(b: &[f32], ldb: usize, col: usize, cols: usize, panel: &mut [f32], width: usize) {
    for (i, row) in panel.chunks_exact_mut(width).enumerate() {
        let (from, pad) = row.split_at_mut(cols);
        from.copy_from_slice(&b[i * ldb + col..][..cols]);
        pad.fill(0.0);
    }
}

fn pack_transposed(
    b: &[f32],
    ldb: usize,
    col: usize,
    cols: usize,
    panel: &mut [f32],
    width: usize,
) {
    let k = panel.len() / width;
    for i in 0..width {
        if i < cols {
            let from = &b[(col + i) * ldb..][..k];
            for (row, &value) in panel.chunks_exact_mut(width).zip(from) {
                row[i] = value;
            }
        } else {
            for row in panel.chunks_exact_mut(width) {
                row[i] = 0.0;
            }
        }
    }
}
