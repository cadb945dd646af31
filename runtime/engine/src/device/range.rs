//! Ranges of bytes, and the lines of the emulated cache that they touch.

use std::fmt;
use std::ops::Range;

/// Bytes of one line of the emulated cache.
pub const LINE_BYTES: u64 = 64;

/// Bytes from `start` up to `end`, which is not below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The bytes from `start` up to `end`; none if it ends before it starts.
    pub(crate) const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// Those of `range` in what is `len` bytes long, counted from the start of `self`; none where it goes beyond.
    pub(super) fn part(self, range: &Range<u64>) -> Option<Self> {
        let start = self.start.checked_add(range.start)?;
        let end = self.start.checked_add(range.end).filter(|&end| end <= self.end)?;
        Self::new(start, end)
    }

    /// The first byte.
    pub(crate) const fn start(self) -> u64 {
        self.start
    }

    /// The byte behind the last one.
    pub(crate) const fn end(self) -> u64 {
        self.end
    }

    /// How many bytes there are.
    pub(crate) const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether there are no bytes.
    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether some byte is in both.
    pub(crate) const fn meets(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }

    /// From the start of the one that starts first to the end of the one that ends last.
    pub(super) fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// All bytes of the lines that it touches, in a memory of `memory_len` bytes.
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
        for (a, b, c, d, wanted) in cases {
            assert_eq!(range(a, b).meets(range(c, d)), wanted, "{a}..{b} and {c}..{d}");
            assert_eq!(range(c, d).meets(range(a, b)), wanted, "{c}..{d} and {a}..{b}");
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
