//! The packed right side: panels of 48 columns, each the sums of its columns and then its codes in
//! groups of 4 of the depth, as `vpdpbusd` takes them.

use super::{LANES, MAX_VECTORS, Right};

/// How many columns lie together; whole panels of a packed matrix are a packed matrix.
pub const PANEL: usize = 48;

/// The bytes of a group of 4 for a panel, and of a panel's sums.
pub(super) const GROUP_BYTES: usize = PANEL * 4;

/// How far apart the elements of a matrix `[k, n]` lie, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// From a row to the next.
    pub k: usize,
    /// From a column to the next.
    pub n: usize,
}

/// How many elements [`pack_b`] writes for a matrix `[k, n]`; none if that is beyond memory.
pub fn packed_len(k: usize, n: usize) -> Option<usize> {
    let panel = k.div_ceil(4).checked_add(1)?.checked_mul(GROUP_BYTES)?;
    n.div_ceil(PANEL).checked_mul(panel).filter(|&len| isize::try_from(len).is_ok())
}

/// Packs `b` `[k, n]`, whose elements lie `strides` apart, for `gemm`. Returns whether it could:
/// `b` has to hold the matrix, and `to` exactly [`packed_len`] elements.
#[must_use]
pub fn pack_b(b: &[i8], strides: Strides, k: usize, n: usize, to: &mut [i8]) -> bool {
    let last = |count: usize, stride: usize| count.checked_sub(1)?.checked_mul(stride);
    let holds = match (last(k, strides.k), last(n, strides.n)) {
        (Some(k), Some(n)) => k.checked_add(n).is_some_and(|last| last < b.len()),
        _ => true,
    };
    if !holds || packed_len(k, n) != Some(to.len()) {
        return false;
    }
    let panel_len = panel_len(k);
    for (panel, to) in to.chunks_exact_mut(panel_len).enumerate() {
        let (sums, groups) = to.split_at_mut(GROUP_BYTES);
        let mut totals = [0i32; PANEL];
        let columns = PANEL.min(n - panel * PANEL);
        for (group, to) in groups.chunks_exact_mut(GROUP_BYTES).enumerate() {
            to.fill(0);
            for row in group * 4..k.min(group * 4 + 4) {
                let from = row * strides.k + panel * PANEL * strides.n;
                for (column, total) in totals[..columns].iter_mut().enumerate() {
                    let code = b[from + column * strides.n];
                    to[column * 4 + row % 4] = code;
                    // Modulo 2^32, as the sums of a product that is too deep are refused there.
                    *total = total.wrapping_add(i32::from(code));
                }
            }
        }
        for (to, total) in sums.chunks_exact_mut(4).zip(totals) {
            to.copy_from_slice(&total.to_ne_bytes().map(u8::cast_signed));
        }
    }
    true
}

/// The elements of a panel.
fn panel_len(k: usize) -> usize {
    (k.div_ceil(4) + 1) * GROUP_BYTES
}

/// Where the codes of the 16 columns of `vector` begin.
pub(super) fn offset(k: usize, vector: usize) -> usize {
    let (panel, within) = (vector / (PANEL / LANES), vector % (PANEL / LANES));
    panel * panel_len(k) + GROUP_BYTES + within * LANES * 4
}

impl Right<'_> {
    /// Where the codes of `width` vectors begin, the last one again for the others.
    pub(super) fn vectors(&self, first: usize, width: usize) -> [*const i8; MAX_VECTORS] {
        std::array::from_fn(|i| {
            // With a depth of 0 there are no codes, and the place is that of the panel's end.
            self.packed[offset(self.k, first + i.min(width - 1)).min(self.packed.len())..].as_ptr()
        })
    }

    /// The sum of each of 16 columns.
    pub(super) fn totals(&self, vector: usize) -> [i32; LANES] {
        let start = offset(self.k, vector) - GROUP_BYTES;
        let bytes = &self.packed[start..start + LANES * 4];
        std::array::from_fn(|i| {
            i32::from_ne_bytes(std::array::from_fn(|byte| bytes[i * 4 + byte].cast_unsigned()))
        })
    }
}
