//! The packed right side: panels of usually 64 columns. A panel has the sum of each column, then its values in groups
//! of 4 along the depth, in the layout of the operands of AVX-512's `vpdpbusd`.

use super::{Depth, LANES};

/// Bytes of a group of 4 values for the columns of a vector, and of their sums: a cache line.
pub(super) const LINE: usize = LANES * 4;

/// Strides of a matrix `[k, n]`, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// Between rows.
    pub k: usize,
    /// Between columns.
    pub n: usize,
}

/// Returns the width of the next panel in vectors, if the remaining columns have `vectors_left` vectors: 4 if they can
/// be divided into panels of 4, else 3.
pub(super) fn width(vectors_left: usize) -> usize {
    if vectors_left.is_multiple_of(4) { 4 } else { vectors_left.min(3) }
}

/// Returns the elements that [`pack_b`] writes for a matrix `[k, n]`; `None` on overflow.
pub fn packed_len(k: usize, n: usize) -> Option<usize> {
    panels_len(Depth { taps: 1, channels: k }, n)
}

/// Returns the elements that [`pack_panels`] writes; `None` on overflow.
pub(crate) fn panels_len(depth: Depth, n: usize) -> Option<usize> {
    let vector = depth.groups()?.checked_add(1)?.checked_mul(LINE)?;
    n.div_ceil(LANES).checked_mul(vector).filter(|&len| isize::try_from(len).is_ok())
}

/// Packs the strided matrix `b` `[k, n]` for `gemm`. Returns false if `b` does not hold the matrix, or `to` does not
/// have exactly [`packed_len`] elements.
#[must_use]
pub fn pack_b(b: &[i8], strides: Strides, k: usize, n: usize, to: &mut [i8]) -> bool {
    let last_offset = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
    let has_matrix = match (last_offset(k, strides.k), last_offset(n, strides.n)) {
        (Some(k), Some(n)) => k.checked_add(n).is_some_and(|last_offset| last_offset < b.len()),
        _ => k == 0 || n == 0,
    };
    if !has_matrix || packed_len(k, n) != Some(to.len()) {
        return false;
    }
    pack_panels(Depth { taps: 1, channels: k }, n, to, |column, _, k| {
        b[column * strides.n + k * strides.k]
    });
    true
}

/// Fills `to`, of [`panels_len`] elements, with the values for each column, tap and channel.
pub(crate) fn pack_panels(
    depth: Depth,
    n: usize,
    mut to: &mut [i8],
    weight: impl Fn(usize, usize, usize) -> i8,
) {
    let groups = depth.channels.div_ceil(4);
    let mut vectors_left = n.div_ceil(LANES);
    let mut first = 0;
    while vectors_left > 0 {
        let columns = width(vectors_left) * LANES;
        let len = (depth.taps * groups + 1) * columns * 4;
        let (panel, remaining) = to.split_at_mut(len);
        let (sums, weights) = panel.split_at_mut(columns * 4);
        weights.fill(0);
        for column in 0..columns {
            // The sum wraps modulo 2^32; products that are so deep are rejected later.
            let mut column_sum = 0i32;
            let exists = first + column < n && groups > 0;
            for tap in 0..if exists { depth.taps } else { 0 } {
                for channel in 0..depth.channels {
                    let weight = weight(first + column, tap, channel);
                    let group = tap * groups + channel / 4;
                    weights[(group * columns + column) * 4 + channel % 4] = weight;
                    column_sum = column_sum.wrapping_add(i32::from(weight));
                }
            }
            sums[column * 4..][..4].copy_from_slice(&column_sum.to_ne_bytes().map(u8::cast_signed));
        }
        to = remaining;
        first += columns;
        vectors_left -= columns / LANES;
    }
}

/// A panel of a packed right side, and the panels after it.
pub(super) struct Panel<'a> {
    sums: &'a [i8],
    pub(super) weights: &'a [i8],
    pub(super) following: &'a [i8],
}

impl<'a> Panel<'a> {
    /// Returns the panel of `vectors` vectors of columns from vector `first` on.
    pub(super) fn new(packed: &'a [i8], depth: Depth, first: usize, vectors: usize) -> Self {
        let len = (depth.taps * depth.channels.div_ceil(4) + 1) * LINE;
        let (panel, following) = packed[first * len..].split_at(vectors * len);
        let (sums, weights) = panel.split_at(vectors * LINE);
        Self { sums, weights, following }
    }

    /// Yields the sum of each column.
    pub(super) fn sums(&self) -> impl Iterator<Item = i32> {
        let (sums, _) = self.sums.as_chunks::<4>();
        sums.iter().map(|bytes| i32::from_ne_bytes(bytes.map(i8::cast_unsigned)))
    }
}
