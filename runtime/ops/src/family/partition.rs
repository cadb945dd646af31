//! How much of an operator's work goes to how many threads.

/// Elements that a thread takes at a time.
pub(crate) const GRAIN: usize = 1 << 15;

/// Elements that a thread takes at a time where they are whole rows.
pub(crate) fn row_grain(row: usize) -> usize {
    GRAIN.div_ceil(row.max(1)).saturating_mul(row.max(1))
}
