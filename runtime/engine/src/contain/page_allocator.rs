//! An allocator of page ranges, first fit.

use super::shared::PAGE;

/// An address range without an end.
#[derive(Debug)]
pub(super) struct PageAllocator {
    /// The end of all allocations so far.
    end: usize,
    /// Freed parts, sorted; adjacent parts are merged.
    free: Vec<Part>,
}

/// An allocated part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) at: usize,
    pub(super) len: usize,
}

impl PageAllocator {
    /// Creates an allocator that starts at `at`.
    pub(super) fn new(at: usize) -> Self {
        Self { end: at, free: Vec::new() }
    }

    /// Allocates at least `len` bytes, and at least one page.
    pub(super) fn take(&mut self, len: usize) -> Option<Part> {
        let len = len.max(1).checked_next_multiple_of(PAGE)?;
        if let Some(index) = self.free.iter().position(|part| part.len >= len) {
            let part = self.free.get_mut(index)?;
            let allocated = Part { at: part.at, len };
            (part.at, part.len) = (part.at + len, part.len - len);
            if part.len == 0 {
                self.free.remove(index);
            }
            return Some(allocated);
        }
        let allocated = Part { at: self.end, len };
        self.end = self.end.checked_add(len)?;
        Some(allocated)
    }

    /// Frees an allocated part.
    pub(super) fn give(&mut self, part: Part) {
        let index = self.free.partition_point(|free| free.at < part.at);
        self.free.insert(index, part);
        // The later neighbour first, so that the index of the earlier one stays valid.
        for index in [index, index.wrapping_sub(1)] {
            let pair =
                (self.free.get(index).copied(), self.free.get(index.wrapping_add(1)).copied());
            if let (Some(part), Some(next)) = pair
                && part.at + part.len == next.at
            {
                self.free.remove(index + 1);
                self.free[index].len = part.len + next.len;
            }
        }
        if let Some(last) = self.free.last().copied().filter(|last| last.at + last.len == self.end)
        {
            self.free.pop();
            self.end = last.at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_parts_are_merged_and_reused() {
        let mut allocator = PageAllocator::new(1 << 20);
        let parts: Vec<_> = (0..4).map(|n| allocator.take(n * PAGE).unwrap()).collect();
        let lens: Vec<_> = parts.iter().map(|part| part.len / PAGE).collect();
        assert_eq!(lens, [1, 1, 2, 3]);
        allocator.give(parts[0]);
        allocator.give(parts[2]);
        allocator.give(parts[1]);
        assert_eq!(
            allocator.free,
            [Part { at: 1 << 20, len: 4 * PAGE }],
            "adjacent parts are merged"
        );
        assert_eq!(allocator.take(3 * PAGE), Some(Part { at: 1 << 20, len: 3 * PAGE }));
        assert_eq!(allocator.take(2 * PAGE).unwrap().at, (1 << 20) + 7 * PAGE);
        allocator.give(Part { at: 1 << 20, len: 3 * PAGE });
        allocator.give(parts[3]);
        allocator.give(Part { at: (1 << 20) + 7 * PAGE, len: 2 * PAGE });
        assert_eq!((allocator.end, allocator.free.len()), (1 << 20, 0), "nothing is allocated");
    }
}
