//! The set of bytes of a memory that have been written.

use std::collections::BTreeMap;

/// A set of bytes as ranges, kept as a map from start to end. The ranges are disjoint and do not touch.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<u64, u64>);

impl Written {
    /// Adds the bytes `start..end`, and merges all ranges that they touch.
    pub(super) fn insert(&mut self, mut start: u64, mut end: u64) {
        if let Some((&previous, &previous_end)) = self.0.range(..=start).next_back() {
            if previous_end >= end {
                return;
            }
            if previous_end >= start {
                start = previous;
            }
        }
        while let Some((&next, &next_end)) = self.0.range(start..=end).next() {
            self.0.remove(&next);
            end = end.max(next_end);
        }
        self.0.insert(start, end);
    }

    /// Returns whether all bytes `start..end` are in the set.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, &range_end)| range_end >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_are_merged() {
        let mut written = Written::default();
        for (start, end) in [(10, 20), (30, 40), (0, 5), (20, 25), (31, 33)] {
            written.insert(start, end);
        }
        assert_eq!(written.0, BTreeMap::from([(0, 5), (10, 25), (30, 40)]));
        assert!(written.covers(10, 25) && written.covers(12, 13) && written.covers(30, 40));
        assert!(!written.covers(9, 11) && !written.covers(24, 31) && !written.covers(0, 6));
        written.insert(3, 50);
        assert_eq!(written.0, BTreeMap::from([(0, 50)]));
    }
}
