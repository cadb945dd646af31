//! How work is divided among threads.

use udo_api::Parallel;

/// Elements that a thread takes at a time.
pub(crate) const GRAIN: usize = 1 << 15;

/// Returns the elements that a thread takes at a time, in whole rows.
pub(crate) fn row_grain(row: usize) -> usize {
    GRAIN.div_ceil(row.max(1)).saturating_mul(row.max(1))
}

/// Fewer multiply-adds are not worth a second thread.
const SMALL: usize = 1 << 17;
/// The most grains per thread; several per thread let a late one take fewer.
const GRAINS_PER_THREAD: usize = 4;
/// The least multiply-adds of a grain, about 20 microseconds: the start and end of a product do not overlap with the
/// next grain.
pub(crate) const F32_PRODUCTS: usize = 1 << 21;
/// The same for 8-bit quantized values.
pub(crate) const U8_PRODUCTS: usize = 1 << 24;

/// Returns how many threads are worthwhile for this many multiply-adds.
pub(crate) fn threads(parallel: Parallel<'_>, work: usize) -> usize {
    if work < SMALL { 1 } else { parallel.width() }
}

/// Returns the most grains of a model on this many threads.
pub(crate) fn most_grains(threads: usize) -> usize {
    threads.saturating_mul(GRAINS_PER_THREAD)
}

/// Returns the number of grains for this much work, of [`F32_PRODUCTS`] or [`U8_PRODUCTS`] each.
pub(crate) fn grains(parallel: Parallel<'_>, work: usize, each: usize) -> usize {
    match threads(parallel, work) {
        1 => 1,
        threads => threads * (work / threads / each).clamp(1, GRAINS_PER_THREAD),
    }
}
