//! How much of an operator's work goes to how many threads.

use udo_api::Parallel;

/// Elements that a thread takes at a time.
pub(crate) const GRAIN: usize = 1 << 15;

/// Elements that a thread takes at a time where they are whole rows.
pub(crate) fn row_grain(row: usize) -> usize {
    GRAIN.div_ceil(row.max(1)).saturating_mul(row.max(1))
}

/// Multiply-adds that are not worth a second thread.
const SMALL: usize = 1 << 17;
/// The most grains for each thread, so that one that starts late takes fewer.
const GRAINS_PER_THREAD: usize = 4;
/// Multiply-adds that a grain should at least have, some 20 microseconds: a product has a beginning and
/// an end that the next grain does not overlap.
pub(crate) const F32_PRODUCTS: usize = 1 << 21;
/// The same of 8-bit quantized values.
pub(crate) const U8_PRODUCTS: usize = 1 << 24;

/// Threads that are worth their while for so many multiply-adds.
pub(crate) fn threads(parallel: Parallel<'_>, work: usize) -> usize {
    if work < SMALL { 1 } else { parallel.width() }
}

/// The most grains that a model with so many threads has at a time.
pub(crate) fn most_grains(threads: usize) -> usize {
    threads.saturating_mul(GRAINS_PER_THREAD)
}

/// Grains to cut so many multiply-adds into, [`F32_PRODUCTS`] or [`U8_PRODUCTS`] each.
pub(crate) fn grains(parallel: Parallel<'_>, work: usize, each: usize) -> usize {
    match threads(parallel, work) {
        1 => 1,
        threads => threads * (work / threads / each).clamp(1, GRAINS_PER_THREAD),
    }
}
