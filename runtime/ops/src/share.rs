//! How much of an operator's work goes to how many threads.

use udo_api::Parallel;

/// Multiply-adds that are not worth a second thread.
const SMALL: usize = 1 << 17;
/// The most pieces for each thread, so that one that starts late takes fewer.
const PIECES: usize = 4;
/// Multiply-adds that a piece should at least have, some 20 microseconds: a product has a beginning and
/// an end that the next piece does not overlap.
pub(crate) const FLOATS: usize = 1 << 21;
/// The same of 8-bit codes.
pub(crate) const CODES: usize = 1 << 24;

/// Threads that are worth their while for so many multiply-adds.
pub(crate) fn width(parallel: Parallel<'_>, work: usize) -> usize {
    if work < SMALL { 1 } else { parallel.width() }
}

/// Pieces to cut so many multiply-adds into, [`FLOATS`] or [`CODES`] each.
pub(crate) fn pieces(parallel: Parallel<'_>, work: usize, each: usize) -> usize {
    match width(parallel, work) {
        1 => 1,
        width => width * (work / width / each).clamp(1, PIECES),
    }
}
