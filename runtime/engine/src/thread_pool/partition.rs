//! The distribution of a job's calls to threads.

use super::sync::{AtomicUsize, Ordering};

/// The calls that a thread takes first: an equal, contiguous share, at the same position in every job, so
/// that data that one job leaves in a core's caches is there for the next. A thread that has finished its
/// share helps with others. The grain is one call; callers with small calls should combine them.
#[derive(Default)]
#[repr(align(64))]
struct Partition {
    /// Its next call.
    next: AtomicUsize,
}

/// One partition per thread.
pub(super) struct Partitions(Box<[Partition]>);

impl Partitions {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Partition::default()).collect())
    }

    /// Returns the first of `count` calls in a partition; `count` for the index after the last one.
    pub(super) fn start(&self, count: usize, partition: usize) -> usize {
        let threads = self.0.len();
        count / threads * partition + (count % threads * partition).div_ceil(threads)
    }

    /// Resets the partitions to `count` calls. No thread may be taking calls.
    pub(super) fn fill(&self, count: usize) {
        for (index, partition) in self.0.iter().enumerate() {
            partition.next.store(self.start(count, index), Ordering::Relaxed);
        }
    }

    /// Takes calls until none are left, those of the thread's own partition first.
    pub(super) fn drain(&self, count: usize, thread: usize, mut call: impl FnMut(usize)) {
        let threads = self.0.len();
        for index in (thread..threads).chain(0..thread) {
            let end = self.start(count, index + 1);
            let Some(partition) = self.0.get(index) else { continue };
            loop {
                let number = partition.next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    break;
                }
                call(number);
            }
        }
    }
}
