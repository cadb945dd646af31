//! The packed right side: panels of usually 64 columns. A panel holds the sums of its columns, then its values in
//! groups of 4 along the depth, as `vpdpbusd` takes them.

use super::{Depth, LANES};

/// Bytes of a group of 4 for a vector's columns, and of their sums.
pub(super) const LINE: usize = LANES * 4;

/// Strides of a matrix `[k, n]`, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// Between rows.
    pub k: usize,
    /// Between columns.
    pub n: usize,
}

/// Returns the width of the next panel in vectors when `left` are left: 4 where that comes out even, else 3.
pub(super) fn width(left: usize) -> usize {
    if left.is_multiple_of(4) { 4 } else { left.min(3) }
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
    let last = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
    let holds = match (last(k, strides.k), last(n, strides.n)) {
        (Some(k), Some(n)) => k.checked_add(n).is_some_and(|last| last < b.len()),
        _ => k == 0 || n == 0,
    };
    if !holds || packed_len(k, n) != Some(to.len()) {
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
    let mut left = n.div_ceil(LANES);
    let mut first = 0;
    while left > 0 {
        let columns = width(left) * LANES;
        let len = (depth.taps * groups + 1) * columns * 4;
        let (panel, rest) = to.split_at_mut(len);
        let (sums, weights) = panel.split_at_mut(columns * 4);
        weights.fill(0);
        for column in 0..columns {
            // Wraps modulo 2^32; products that are too deep are rejected later.
            let mut total = 0i32;
            let is_there = first + column < n && groups > 0;
            for tap in 0..if is_there { depth.taps } else { 0 } {
                for channel in 0..depth.channels {
                    let weight = weight(first + column, tap, channel);
                    let group = tap * groups + channel / 4;
                    weights[(group * columns + column) * 4 + channel % 4] = weight;
                    total = total.wrapping_add(i32::from(weight));
                }
            }
            sums[column * 4..][..4].copy_from_slice(&total.to_ne_bytes().map(u8::cast_signed));
        }
        to = rest;
        first += columns;
        left -= columns / LANES;
    }
}

/// A panel of a packed right side, and the panels after it.
pub(super) struct Panel<'a> {
    sums: &'a [i8],
    pub(super) weights: &'a [i8],
    pub(super) rest: &'a [i8],
}

impl<'a> Panel<'a> {
    /// Returns the panel of `vectors` vectors of columns from vector `first` on.
    pub(super) fn new(packed: &'a [i8], depth: Depth, first: usize, vectors: usize) -> Self {
        let len = (depth.taps * depth.channels.div_ceil(4) + 1) * LINE;
        let (panel, rest) = packed[first * len..].split_at(vectors * len);
        let (sums, weights) = panel.split_at(vectors * LINE);
        Self { sums, weights, rest }
    }

    /// Yields the sum of each column's values.
    pub(super) fn sums(&self) -> impl Iterator<Item = i32> {
        let (sums, _) = self.sums.as_chunks::<4>();
        sums.iter().map(|bytes| i32::from_ne_bytes(bytes.map(i8::cast_unsigned)))
    }
}
