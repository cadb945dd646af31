//! Ranges of bytes, and the lines of the emulated cache that contain them.

use std::fmt;
use std::ops::Range;

/// The size of a line of the emulated cache, as on most processors.
pub const LINE_BYTES: u64 = 64;

/// The bytes from `start` up to but not including `end`, where `start <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// Creates a range; `None` if it ends before it starts.
    pub(crate) const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// Returns a part of this range. `range` counts from the start of this range; `None` if it exceeds it.
    pub(super) fn part(self, range: &Range<u64>) -> Option<Self> {
        let start = self.start.checked_add(range.start)?;
        let end = self.start.checked_add(range.end).filter(|&end| end <= self.end)?;
        Self::new(start, end)
    }

    /// Returns the offset of the first byte.
    pub(crate) const fn start(self) -> u64 {
        self.start
    }

    /// Returns the offset after the last byte.
    pub(crate) const fn end(self) -> u64 {
        self.end
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the range has no bytes.
    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns whether the ranges share a byte.
    pub(crate) const fn meets(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }

    /// Returns the smallest range that contains both.
    pub(super) fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns the range of all cache lines that contain its bytes, in a memory of `memory_len` bytes.
    pub(super) fn lines(self, memory_len: u64) -> Self {
        if self.is_empty() {
            return self;
        }
        let end = self.end.checked_next_multiple_of(LINE_BYTES).unwrap_or(u64::MAX);
        Self { start: self.start / LINE_BYTES * LINE_BYTES, end: end.min(memory_len) }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn ranges_meet_where_they_share_a_byte() {
        let cases =
            [(0, 4, 4, 8, false), (0, 5, 4, 8, true), (4, 4, 0, 8, false), (2, 3, 0, 8, true)];
        for (a, b, c, d, expected) in cases {
            assert_eq!(range(a, b).meets(range(c, d)), expected, "{a}..{b} and {c}..{d}");
            assert_eq!(range(c, d).meets(range(a, b)), expected, "{c}..{d} and {a}..{b}");
        }
    }

    #[test]
    fn lines_end_with_the_memory() {
        assert_eq!(range(60, 68).lines(100), range(0, 100));
        assert_eq!(range(60, 64).lines(100), range(0, 64));
        assert_eq!(range(70, 70).lines(100), range(70, 70));
    }

    #[test]
    fn parts_lie_within() {
        let whole = range(8, 16);
        assert_eq!(whole.part(&(0..8)), Some(whole));
        for (start, end) in [(0, 9), (9, 9), (u64::MAX, u64::MAX), (4, 3), (0, u64::MAX)] {
            assert_eq!(whole.part(&(start..end)), None, "{start}..{end}");
        }
    }
}
