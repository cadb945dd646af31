//! Lifetimes of values, as ranges of steps, and regions: rows of bytes in a buffer, which may be strided.

use udo_api::{DType, TensorDesc};

/// The first and last step at which a window is in use, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Life {
    /// Returns whether both contain a step.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns the smallest lifetime that covers both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Rows of bytes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The offset of the first row, in bytes.
    pub(super) offset: usize,
    pub(super) rows: usize,
    /// The length of a row in bytes.
    pub(super) row: usize,
    /// The distance between the starts of two rows, in bytes.
    pub(super) pitch: usize,
}

impl Region {
    /// Returns a tensor's bytes as rows along its last axis.
    pub(super) fn from_desc(desc: &TensorDesc) -> Self {
        let row = desc.shape().last().copied().unwrap_or(1);
        let element = desc.dtype().map_or(0, DType::size_bytes);
        Self::dense(desc.size_bytes(), row.saturating_mul(element))
    }

    /// Returns `bytes` contiguous bytes in rows of `row`.
    pub(super) fn dense(bytes: usize, row: usize) -> Self {
        let row = if row == 0 { bytes } else { row };
        Self { offset: 0, rows: bytes.checked_div(row).unwrap_or(0), row, pitch: row }
    }

    pub(super) fn is_dense(&self) -> bool {
        self.pitch == self.row || self.rows <= 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 || self.row == 0
    }

    /// Returns the end of the last row; `None` if it overflows.
    pub(super) fn end(&self) -> Option<usize> {
        let last = self.rows.saturating_sub(1).checked_mul(self.pitch)?;
        self.offset.checked_add(last)?.checked_add(if self.is_empty() { 0 } else { self.row })
    }

    /// Returns the column at which rows start, in lines of `pitch` bytes that begin at `origin`.
    pub(super) fn column(&self, origin: usize, pitch: usize) -> usize {
        (self.offset + pitch - origin % pitch) % pitch
    }

    /// Returns whether one region ends before the other begins.
    pub(super) fn is_clear_of(&self, other: &Self) -> bool {
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else { return false };
        self.is_empty() || other.is_empty() || end <= other.offset || other_end <= self.offset
    }

    /// Returns whether the two regions may have bytes in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let is_disjoint = self.is_clear_of(other);
        if is_disjoint || self.pitch != other.pitch || self.is_dense() || other.is_dense() {
            return !is_disjoint;
        }
        // The regions are columns of the same grid.
        let distance = other.column(self.offset, self.pitch);
        distance < self.row || distance + other.row > self.pitch
    }

    /// Returns whether all its bytes are also bytes of `other`; `false` if that is not certain.
    pub(super) fn is_in(&self, other: &Self) -> bool {
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else { return false };
        if self.offset < other.offset || end > other_end {
            return false;
        }
        let column = |pitch| self.column(other.offset, pitch);
        other.is_dense()
            || (self.pitch == other.pitch && column(other.pitch) + self.row <= other.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: usize, rows: usize, row: usize, pitch: usize) -> Region {
        Region { offset, rows, row, pitch }
    }

    #[test]
    fn columns_of_one_grid_overlap_where_they_share_bytes() {
        let left = region(0, 4, 3, 10);
        for (other, overlaps) in [
            (region(3, 4, 7, 10), false),
            (region(2, 4, 7, 10), true),
            // In the next line, and around the end of a line.
            (region(13, 3, 7, 10), false),
            (region(8, 3, 3, 10), true),
            (region(33, 1, 5, 5), false),
            (region(32, 1, 5, 5), true),
            (region(5, 4, 2, 9), true),
            (region(0, 0, 3, 10), false),
        ] {
            assert_eq!(
                (left.overlaps(&other), other.overlaps(&left)),
                (overlaps, overlaps),
                "{other:?}"
            );
        }
    }

    #[test]
    fn regions_contain_regions_of_their_bytes() {
        let whole = region(10, 4, 10, 10);
        let column = region(12, 4, 3, 10);
        assert!(column.is_in(&whole) && !whole.is_in(&column));
        assert!(region(13, 3, 2, 10).is_in(&column));
        assert!(!region(14, 3, 2, 10).is_in(&column));
        assert!(!region(0, 4, 10, 10).is_in(&whole));
        assert!(region(20, 1, 10, 10).is_in(&whole));
    }
}
