//! How work is divided among threads. A grain is the unit of work that a thread takes at a time.

use udo_api::Parallel;

/// Elements of a grain, for work of a few instructions per element.
pub(crate) const GRAIN: usize = 1 << 15;

/// Returns the elements of a grain of whole rows, each of `row` elements.
pub(crate) fn row_grain(row: usize) -> usize {
    GRAIN.div_ceil(row.max(1)).saturating_mul(row.max(1))
}

/// Fewer multiply-adds are not worth a second thread.
const SMALL: usize = 1 << 17;
/// The most grains per thread. With several, a thread that starts late takes fewer than the others.
const GRAINS_PER_THREAD: usize = 4;
/// The least f32 multiply-adds of a grain, about 20 microseconds of work. Smaller grains lose time at their start and
/// end, which do not overlap with other work.
pub(crate) const F32_PRODUCTS: usize = 1 << 21;
/// The least 8-bit multiply-adds of a grain.
pub(crate) const U8_PRODUCTS: usize = 1 << 24;

/// Returns how many threads are worthwhile for `work` multiply-adds.
pub(crate) fn threads(parallel: Parallel<'_>, work: usize) -> usize {
    if work < SMALL { 1 } else { parallel.width() }
}

/// Returns the most grains of one operator on this many threads.
pub(crate) fn most_grains(threads: usize) -> usize {
    threads.saturating_mul(GRAINS_PER_THREAD)
}

/// Returns the number of grains for `work` multiply-adds, with at least `grain` each ([`F32_PRODUCTS`] or
/// [`U8_PRODUCTS`]).
pub(crate) fn grains(parallel: Parallel<'_>, work: usize, grain: usize) -> usize {
    match threads(parallel, work) {
        1 => 1,
        threads => threads * (work / threads / grain).clamp(1, GRAINS_PER_THREAD),
    }
}
