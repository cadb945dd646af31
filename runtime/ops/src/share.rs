//! How much of an operator's work goes to how many threads.

use udo_api::Parallel;

/// Multiply-adds that are not worth a second thread.
const SMALL: usize = 1 << 17;
/// Pieces for each thread, so that one that starts late takes fewer.
const PIECES: usize = 4;

/// Threads that are worth their while for so many multiply-adds.
pub(crate) fn width(parallel: Parallel<'_>, work: usize) -> usize {
    if work < SMALL { 1 } else { parallel.width() }
}

/// Pieces to cut so many multiply-adds into.
pub(crate) fn pieces(parallel: Parallel<'_>, work: usize) -> usize {
    match width(parallel, work) {
        1 => 1,
        width => width * PIECES,
    }
}
